"""One owner task per connection: it alone opens, negotiates, lists and closes (case R48).

Calls come from any task; they use the connection and never its scopes. When the server ends,
the owner finds out why, everybody who waits is told, and the next call starts it anew.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..analysis.secrets import Redactor
from ..core.errors import GeodeError, ServerUnavailable
from .config import Resolved, ServerConfig
from .connection import Connection, client_info, negotiate
from .skills import list_skills
from .snapshot import Snapshot
from .stdio import ServerProcess, base_environment, open_process
from .web import WebLink, open_web

__all__ = ["Hooks", "ServerTask"]

_PAGE_SECONDS = 60.0
_ACK_SECONDS = 2.0
_SKILLS_SECONDS = 10.0
_QUIET = 0.05
"""Seconds to gather change notices before listing again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    """How a server task tells the hub; all are called in the hub's event loop and return at once."""

    state: Callable[[ServerTask], None]
    tools: Callable[[ServerTask, Snapshot], None]


class ServerTask:
    """One connection to one server, from start to end. Used once; a restart makes a new one.

    Attributes:
        config: the declaration.
        state: "starting" | "ready" | "failed" | "stopped".
        error: why it failed, for people.
        last_used: `time.monotonic()` of the last call.
        calls: calls under way.
        used: somebody has called a tool over it.
    """

    def __init__(
        self,
        config: ServerConfig,
        *,
        environ: Mapping[str, str],
        cwd: Path,
        hooks: Hooks,
        era: str = "",
        redact: Callable[[str], str] = str,
    ) -> None:
        self.config = config
        self.state = "starting"
        self.error = ""
        self.failure: GeodeError | None = None
        self.last_used = time.monotonic()
        self.calls = 0
        self.used = False
        self.connection: Connection | None = None
        self.link: ServerProcess | WebLink | None = None
        self.stale = False
        self._environ, self._cwd, self._hooks, self._era, self._redact = environ, cwd, hooks, era, redact
        self._own = Redactor()
        self._settled = asyncio.Event()
        self._stop = asyncio.Event()
        self._changed = asyncio.Event()
        self._listed = asyncio.Event()
        self._task = asyncio.create_task(self._run(), name=f"mcp server {config.name}")

    # ------------------------------------------------------------ for callers

    @property
    def alive(self) -> bool:
        """True while it is starting or ready and not on its way down."""
        closing = self._stop.is_set() or (self.link is not None and self.link.closed.is_set())
        return self.state in ("starting", "ready") and not closing

    @property
    def pid(self) -> int:
        return self.link.pid if isinstance(self.link, ServerProcess) else 0

    @property
    def stderr_tail(self) -> str:
        return self.link.stderr_tail if isinstance(self.link, ServerProcess) else ""

    def redacted(self, text: str) -> str:
        """A text of the server for people: without secrets, those it was given in its entry included."""
        return self._redact(self._own.text(text))

    async def ready(self) -> Connection:
        """Wait until it is connected.

        Raises:
            ServerUnavailable, ConfigError: it could not be connected; says why.
        """
        await self._settled.wait()
        if self.connection is None or self.state != "ready":
            raise self.failure or ServerUnavailable(f"MCP server {self.config.name!r} is stopped")
        return self.connection

    async def list_again(self) -> None:
        """Learn now what it offers.

        Raises:
            MCPError, ServerUnavailable: it cannot be listed.
        """
        await self._list(await self.ready())

    async def fresh(self, seconds: float) -> None:
        """After a change notice: wait until the list was read again, at most `seconds`."""
        if not self.stale:
            return
        await _at_most(seconds, self._listed.wait())

    async def why_closed(self) -> str:
        """How the server ended, with the end of its stderr; waits a moment for the facts."""
        if isinstance(self.link, ServerProcess):
            await _at_most(0.5, self.link.exited.wait())
            return self._with_output(f"server {self.link.describe_end()}")
        await asyncio.wait([self._task], timeout=0.5)
        return self.error or "the connection was closed"

    async def stop(self) -> None:
        """End the server and everything it started; may be called from any task, more than once."""
        self._stop.set()
        await asyncio.wait([self._task])

    # ------------------------------------------------------------ the owner

    async def _run(self) -> None:
        try:
            await self._serve()
            self._end("stopped" if self._stop.is_set() else "failed", None)
        except asyncio.CancelledError:
            self._end("stopped", None)
            raise
        except BaseExceptionGroup as group:
            self._end("failed", _first(group))
        except Exception as error:  # boundary: whatever a foreign server causes ends as its state
            self._end("failed", error)

    async def _serve(self) -> None:
        from mcp.client.session import ClientSession
        from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher

        resolved = self.config.resolve(self._environ)
        self._own = Redactor(_secrets_in(resolved))
        async with self._transport(resolved) as (link, write):
            self.link = link
            link.on_list_changed = self._note_change
            dispatcher: JSONRPCDispatcher[Any] = JSONRPCDispatcher(link, write)
            session = ClientSession(dispatcher=dispatcher, client_info=client_info())
            async with session:
                helpers: list[asyncio.Task[None]] = []
                try:
                    connection = await self._connect(session, dispatcher, helpers)
                    self.connection, self.state = connection, "ready"
                    self._settled.set()
                    self._hooks.state(self)
                    helpers.append(asyncio.create_task(self._relist(connection)))
                    await self._until_over(link)
                finally:
                    await _cancel(helpers)

    @contextlib.asynccontextmanager
    async def _transport(self, resolved: Any) -> AsyncIterator[tuple[Any, Any]]:
        if resolved.url:
            async with open_web(resolved.url, resolved.headers, self.config.call_timeout) as link:
                yield link, link.write
            return
        env = {**base_environment(self._environ), **resolved.env}
        cwd = (self._cwd / resolved.cwd) if resolved.cwd else self._cwd
        async with open_process(self.config.name, (resolved.command, *resolved.args), env, cwd) as process:
            yield process, process

    async def _connect(self, session: Any, dispatcher: Any, helpers: list[asyncio.Task[None]]) -> Connection:
        try:
            async with asyncio.timeout(self.config.start_timeout):
                await negotiate(session, self.config.name, era=self._era)
                connection = Connection(session, dispatcher)
                if connection.modern:  # first listen, then list: no change falls between the two
                    listening = asyncio.Event()
                    helpers.append(asyncio.create_task(self._listen(connection, listening)))
                    await _at_most(_ACK_SECONDS, listening.wait())
                await self._list(connection)
                return connection
        except TimeoutError as error:
            raise ServerUnavailable(
                self._with_output(
                    f"MCP server {self.config.name!r} did not answer within {self.config.start_timeout:g} s "
                    f"({self.config.target})"
                ),
                fix="run its command by hand to see what it does, or raise start_timeout in its entry",
            ) from error

    async def _until_over(self, link: Any) -> None:
        """Wait for stop or for the server's end."""
        waits = [asyncio.create_task(self._stop.wait()), asyncio.create_task(link.closed.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await _cancel(waits)

    async def _list(self, connection: Connection) -> None:
        tools = await connection.list_tools(timeout=_PAGE_SECONDS)
        seconds = min(_SKILLS_SECONDS, self.config.start_timeout / 4)
        skills, problem = await list_skills(connection, seconds=seconds)
        snapshot = Snapshot(
            tools=tools,
            era=connection.era,
            version=connection.version,
            instructions=connection.instructions,
            title=connection.title,
            at=time.time(),
            skills=skills,
            skills_problem=self.redacted(problem),
        )
        self._hooks.tools(self, snapshot)

    # ------------------------------------------------------------ changes (case R24)

    def _note_change(self) -> None:
        self.stale = True
        self._listed.clear()
        self._changed.set()

    async def _relist(self, connection: Connection) -> None:
        from mcp.shared.exceptions import MCPError

        while True:
            await self._changed.wait()
            await asyncio.sleep(_QUIET)
            self._changed.clear()
            try:
                await self._list(connection)
            except (MCPError, ServerUnavailable) as error:
                self.error = f"its tools changed but could not be listed: {error}"
                self._hooks.state(self)
            if not self._changed.is_set():
                self.stale = False
                self._listed.set()

    async def _listen(self, connection: Connection, listening: asyncio.Event) -> None:
        """Modern era: change notices come on a stream we ask for; `listening` is set when it stands or never will."""
        from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost, listen
        from mcp.shared.exceptions import MCPError

        pause = 1.0
        while True:
            try:
                async with listen(connection.session, tools_list_changed=True) as stream:
                    pause = 1.0
                    listening.set()
                    async for _ in stream:
                        pass  # the link has seen the notice already
                return
            except SubscriptionLost:
                await asyncio.sleep(pause)
                pause = min(60.0, pause * 2)
                self._note_change()
            except (ListenNotSupportedError, MCPError, TimeoutError):
                listening.set()
                return  # it does not offer them

    # ------------------------------------------------------------ end

    def _end(self, state: str, error: BaseException | None) -> None:
        was_ready = self.state == "ready"
        self.state = state
        if state == "failed":
            self.failure = self._explain(error, was_ready=was_ready)
            self.error = self.failure.message
        self._settled.set()
        self._listed.set()
        self._hooks.state(self)

    def _explain(self, error: BaseException | None, *, was_ready: bool) -> GeodeError:
        if isinstance(error, GeodeError):
            return error
        name = self.config.name
        if isinstance(self.link, ServerProcess):
            what = f"MCP server {name!r} {self.link.describe_end()}" + ("" if was_ready else " before it was ready")
            if not self.link.closed.is_set() and error is not None:
                what = f"MCP server {name!r} refused to start a session: {error}"
            return ServerUnavailable(self._with_output(what), fix=f"run it by hand to see why: {self.config.target}")
        status = (
            f" (HTTP status {self.link.last_status})" if self.link is not None and self.link.last_status >= 400 else ""
        )
        why = f"{type(error).__name__}: {error}" if error is not None else "the connection was closed"
        return ServerUnavailable(
            f"MCP server {name!r} at {self.config.url} cannot be used: {why}{status}",
            fix="check that it runs and that its url and headers are right",
        )

    def _with_output(self, text: str) -> str:
        """Add what the server wrote: the end of stderr, and stdout that was not protocol (R09, R21)."""
        if not isinstance(self.link, ServerProcess):
            return text
        if tail := self.link.stderr_tail:
            text += f"; last output: {self.redacted(tail)[-2000:]}"
        if self.link.noise:
            text += f"; not protocol on stdout: {self.redacted(' | '.join(list(self.link.noise)[:5]))}"
        return text


async def _at_most(seconds: float, waiting: Coroutine[Any, Any, Any]) -> None:
    """Wait for something that helps and is not needed."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await waiting


async def _cancel(tasks: Sequence[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first leaf: a transport's task group wraps what went wrong."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _secrets_in(resolved: Resolved) -> list[str]:
    """Values of variables and headers whose names say that they are secret."""
    redactor = Redactor()
    named = {**resolved.env, **resolved.headers}
    return [value for key, value in named.items() if redactor.json({key: value}) != {key: value}]
