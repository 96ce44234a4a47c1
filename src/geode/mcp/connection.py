"""One negotiated connection: which era and version, all pages of a list, raw requests.

`tools/list` and `tools/call` are exchanged as raw JSON objects: one malformed tool then costs
only itself, and a result passes through without being reshaped (case R58). The handshake,
discovery and change notices are the SDK's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, cast

from ..core.errors import ServerUnavailable

if TYPE_CHECKING:
    from mcp.client.session import ClientSession
    from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher

__all__ = ["Connection", "negotiate"]

_PROBE_SECONDS = 5.0
_MAX_PAGES = 1000
ProgressFn = Callable[[float, float | None, str | None], Awaitable[None]]


async def negotiate(session: ClientSession, name: str, *, era: str = "") -> None:
    """Find a common protocol version and adopt it.

    Args:
        name: of the server, for errors.
        era: what it spoke last time; "legacy" skips the probe for the modern era.

    Raises:
        ServerUnavailable: no common version; says which ones it and we speak (case R77).
        MCPError: the server refused or ended.
    """
    from mcp.client.session import DISCOVER_TIMEOUT_SECONDS
    from mcp.shared.exceptions import MCPError
    from mcp_types import UNSUPPORTED_PROTOCOL_VERSION, DiscoverResult
    from mcp_types.version import LATEST_MODERN_VERSION, MODERN_PROTOCOL_VERSIONS
    from pydantic import ValidationError

    if era == "legacy":
        try:
            await _initialize(session, name)
            return
        except MCPError as error:
            if error.code != UNSUPPORTED_PROTOCOL_VERSION:
                raise
    version = LATEST_MODERN_VERSION
    for attempt in range(2):
        try:
            async with asyncio.timeout(min(_PROBE_SECONDS, DISCOVER_TIMEOUT_SECONDS)):
                raw = await session.send_discover(version)
        except TimeoutError:
            raw = None  # slow or deaf to requests before the handshake: initialize is right for both
        except MCPError as error:
            raw = None  # -32000 too: "closed" to the SDK, "not initialized" from many servers of the older era
            other = _mutual(error, MODERN_PROTOCOL_VERSIONS) if error.code == UNSUPPORTED_PROTOCOL_VERSION else ""
            if other and attempt == 0:
                version = other
                continue
        try:
            result = DiscoverResult.model_validate(raw)
        except ValidationError:
            result = None
        if result is not None and any(v in MODERN_PROTOCOL_VERSIONS for v in result.supported_versions):
            session.adopt(result)
            return
        try:
            await _initialize(session, name)
            return
        except MCPError as error:
            # A late answer to the probe locks a slow server to the modern era: probe again.
            other = _mutual(error, MODERN_PROTOCOL_VERSIONS) if error.code == UNSUPPORTED_PROTOCOL_VERSION else ""
            if not other or attempt:
                raise
            version = other


async def _initialize(session: ClientSession, name: str) -> None:
    """The handshake; one more try with a version the server names when it refuses ours."""
    import mcp_types as types
    from mcp.shared.exceptions import MCPError
    from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

    try:
        await session.initialize()
    except RuntimeError as error:
        raise ServerUnavailable(
            f"MCP server {name!r} and Geode speak no common protocol version: {error}",
            fix=f"update the server; Geode speaks {', '.join(HANDSHAKE_PROTOCOL_VERSIONS)} and newer",
        ) from error
    except MCPError as error:
        version = _mutual(error, HANDSHAKE_PROTOCOL_VERSIONS) if error.code == types.INVALID_PARAMS else ""
        if not version:
            raise
        request = types.InitializeRequest(
            params=types.InitializeRequestParams(
                protocol_version=version, capabilities=types.ClientCapabilities(), client_info=client_info()
            )
        )
        result = await session.send_request(request, types.InitializeResult)
        if result.protocol_version not in HANDSHAKE_PROTOCOL_VERSIONS:
            raise ServerUnavailable(
                f"MCP server {name!r} answers with protocol version {result.protocol_version!r}, "
                "which Geode does not speak",
                fix="update the server",
            ) from error
        session.adopt(result)
        await session.send_notification(types.InitializedNotification())


def _mutual(error: Any, ours: tuple[str, ...]) -> str:
    """The newest version in the error's `supported` list that we speak, or ""."""
    data = error.error.data
    listed: Any = cast(dict[str, Any], data).get("supported") if isinstance(data, dict) else None
    if not isinstance(listed, list):
        return ""
    return next((v for v in reversed(ours) if v in listed), "")


def client_info() -> Any:
    """How Geode introduces itself to servers."""
    import mcp_types as types

    return types.Implementation(name="geode", version=version("geode-runtime"))


class Connection:
    """A session that is ready, with the raw requests Geode makes on it."""

    def __init__(self, session: ClientSession, dispatcher: JSONRPCDispatcher[Any]) -> None:
        from mcp_types import (
            CLIENT_CAPABILITIES_META_KEY,
            CLIENT_INFO_META_KEY,
            PROTOCOL_VERSION_META_KEY,
        )
        from mcp_types.version import MODERN_PROTOCOL_VERSIONS

        self.session = session
        self._dispatcher = dispatcher
        self.version = session.protocol_version or ""
        self.modern = self.version in MODERN_PROTOCOL_VERSIONS
        self._envelope: dict[str, Any] = {}
        if self.modern:
            self._envelope = {
                PROTOCOL_VERSION_META_KEY: self.version,
                CLIENT_INFO_META_KEY: client_info().model_dump(by_alias=True, mode="json", exclude_none=True),
                CLIENT_CAPABILITIES_META_KEY: {},
            }

    @property
    def era(self) -> str:
        return "modern" if self.modern else "legacy"

    @property
    def instructions(self) -> str:
        return self.session.instructions or ""

    @property
    def title(self) -> str:
        info = self.session.server_info
        return f"{info.name} {info.version}".strip() if info is not None else ""

    async def request(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,
        on_progress: ProgressFn | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """Send one request and return the raw result object.

        Args:
            timeout: seconds; the server is told to stop when they are over.
            on_progress: called with (progress, total, message).
            headers: HTTP headers of this request.

        Raises:
            MCPError: error answer, timeout or end of the connection.
        """
        from mcp.shared.dispatcher import CallOptions
        from mcp.shared.inbound import MCP_METHOD_HEADER, MCP_PROTOCOL_VERSION_HEADER

        body = dict(params or {})
        opts = CallOptions(headers={MCP_PROTOCOL_VERSION_HEADER: self.version, **(headers or {})})
        if self.modern:
            body["_meta"] = {**body.get("_meta", {}), **self._envelope}
            opts["headers"] = {**opts.get("headers", {}), MCP_METHOD_HEADER: method}
        if timeout is not None:
            opts["timeout"] = timeout
        if on_progress is not None:
            opts["on_progress"] = cast(Any, on_progress)
        return await self._dispatcher.send_raw_request(method, body, opts)

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any],
        *,
        schema: Any = None,
        timeout: float | None = None,
        on_progress: ProgressFn | None = None,
    ) -> dict[str, Any]:
        """`tools/call`; `schema` is the tool's input schema (some arguments travel as headers too).

        Raises:
            MCPError: see `request`.
        """
        from mcp.shared.inbound import MCP_NAME_HEADER, encode_header_value, mcp_param_headers, x_mcp_header_map

        headers: dict[str, str] = {}
        if self.modern:
            headers[MCP_NAME_HEADER] = encode_header_value(name)
            if isinstance(schema, dict):
                headers.update(mcp_param_headers(x_mcp_header_map(schema), arguments))
        return await self.request(
            "tools/call",
            {"name": name, "arguments": dict(arguments)},
            timeout=timeout,
            on_progress=on_progress,
            headers=headers,
        )

    async def list_tools(self, *, timeout: float) -> tuple[dict[str, Any], ...]:
        """All pages of `tools/list`, as the server wrote them; () when it offers no tools.

        Args:
            timeout: seconds for one page.

        Raises:
            MCPError: see `request`.
            ServerUnavailable: the pages never end.
        """
        from mcp.shared.exceptions import MCPError
        from mcp_types import METHOD_NOT_FOUND

        found: list[dict[str, Any]] = []
        seen: set[str] = set()
        cursor: str | None = None
        for _ in range(_MAX_PAGES):
            try:
                page = await self.request("tools/list", {} if cursor is None else {"cursor": cursor}, timeout=timeout)
            except MCPError as error:
                if error.code == METHOD_NOT_FOUND and cursor is None:
                    return ()
                raise
            tools = page.get("tools")
            found += [t for t in cast(list[Any], tools) if isinstance(t, dict)] if isinstance(tools, list) else []
            cursor = page.get("nextCursor")
            if not isinstance(cursor, str):
                return tuple(found)
            if cursor in seen:
                break
            seen.add(cursor)
        raise ServerUnavailable(
            "the server's list of tools never ends (its pages repeat)", fix="report it to the server's author"
        )
