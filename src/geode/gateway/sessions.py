"""Clients of the gateway: one Geode session each, and who they say they are."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..core.call import new_id

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext
    from mcp.server.session import ServerSession

__all__ = ["ClientSession", "Sessions", "is_modern"]

SESSION_META_KEY = "geode/session"
"""`_meta` key with which a client of the stateless era keeps its sessions apart."""
_MAX_LABEL = 64
_FORGET_AFTER = 3600.0


@dataclass(slots=True)
class ClientSession:
    """One client: its Geode session id and principal.

    Attributes:
        id: session of its calls; stored results are readable within it.
        principal: "mcp:" and the name the client gives itself; a label, not an authentication.
        channel: for change notices of the handshake era, else None.
    """

    id: str
    principal: str
    channel: ServerSession | None = None
    last_used: float = field(default_factory=time.monotonic)


def is_modern(ctx: ServerRequestContext[Any, Any]) -> bool:
    """True on a connection of the 2026-07-28 era."""
    from mcp_types.version import MODERN_PROTOCOL_VERSIONS

    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS


class Sessions:
    """Finds the session a request belongs to.

    A connection on stdin/stdout and an HTTP session of the handshake era are one session
    each. Over HTTP the newer era has no sessions: there a client is known by the key it sends
    in `_meta`, else by its name.
    """

    def __init__(self, ended: Callable[[str], Awaitable[None]]) -> None:
        self._by_key: dict[str, ClientSession] = {}
        self._ended = ended

    def of(self, ctx: ServerRequestContext[Any, Any]) -> ClientSession:
        """The session of a request; made when it is the first."""
        key = self._key(ctx)
        found = self._by_key.get(key)
        if found is None:
            self._forget_old()
            found = self._by_key[key] = ClientSession(self._id(key), f"mcp:{_label(ctx)}")
            if not is_modern(ctx):
                found.channel = ctx.session
                self._watch_end(ctx, key)
        found.last_used = time.monotonic()
        return found

    def channels(self) -> list[ServerSession]:
        """Where change notices of the handshake era go."""
        return [s.channel for s in self._by_key.values() if s.channel is not None]

    async def end_all(self) -> None:
        """The front is closing."""
        for key in list(self._by_key):
            await self._end(key)

    def _key(self, ctx: ServerRequestContext[Any, Any]) -> str:
        if ctx.request is None:
            return "pipe"
        given = ctx.request.headers.get("mcp-session-id")
        if given and not is_modern(ctx):
            return f"http {given}"
        own = (ctx.meta or {}).get(SESSION_META_KEY)
        return f"key {own}" if isinstance(own, str) and own else f"name {_label(ctx)}"

    def _id(self, key: str) -> str:
        """Stable for a key a client chooses, so that stored results stay readable; else new."""
        if key.startswith(("key ", "name ")):
            return "gw_" + hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:24]
        return new_id("gw")

    def _watch_end(self, ctx: ServerRequestContext[Any, Any], key: str) -> None:
        # The SDK documents this stack for handlers but hands a handler no public way to it.
        connection: Any = getattr(ctx.session, "_connection", None)
        if connection is not None:
            connection.exit_stack.push_async_callback(self._end, key)

    async def _end(self, key: str) -> None:
        session = self._by_key.pop(key, None)
        if session is not None:
            await self._ended(session.id)

    def _forget_old(self) -> None:
        """Sessions of the stateless era have no end: forget them when they are long unused."""
        limit = time.monotonic() - _FORGET_AFTER
        for key in [k for k, s in self._by_key.items() if s.channel is None and s.last_used < limit]:
            session = self._by_key.pop(key)
            task = asyncio.ensure_future(self._ended(session.id))
            task.add_done_callback(lambda t: t.exception() if not t.cancelled() else None)


def _label(ctx: ServerRequestContext[Any, Any]) -> str:
    """The client's name, safe to show and to store."""
    params = ctx.session.client_params
    name = params.client_info.name if params is not None else ""
    return "".join(c for c in name if c.isprintable()).strip()[:_MAX_LABEL] or "unknown"
