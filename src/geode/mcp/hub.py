"""All MCP servers of a project: declared, known, started when first needed, supervised.

Tools are registered from snapshots, so that listing starts nothing; a server that was never
seen is connected once in the background. Each client of the gateway has its own connection
to a server that keeps state (case R83); everybody else shares one (R03).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from ..core.effects import Origin
from ..core.errors import GeodeError, ServerUnavailable, ToolFailed
from ..core.events import Event, EventSink, ServerChanged
from ..tools.tool import FunctionTool, ToolContext, ToolOutput, ToolSpec
from . import snapshot as snapshots
from .calls import call_once
from .config import PROJECT_FILES, Problem, ServerConfig, ServerSet, load_servers
from .server_task import Hooks, ServerTask
from .skills import ServerSkills
from .snapshot import Snapshot
from .source import Built, build_tools

__all__ = ["Hub", "HubSettings", "Sources", "Trust"]

_POLL = 1.0
_DISCOVERIES = 4
_LINGER = 5.0
"""Seconds a server that was connected only to learn its tools stays up."""
_LANE_IDLE = 30 * 60.0
_BACKOFF_MAX = 60.0


class HubSettings(Protocol):
    """The two settings the hub reads."""

    @property
    def project(self) -> Path: ...
    @property
    def home(self) -> Path: ...


class Trust(Protocol):
    """Project trust; see `config.trust.TrustStore`."""

    def state(self, project: Path) -> Any:
        """Something that is, or has a `state` that is, "nothing" | "untrusted" | "trusted" | "changed"."""
        ...


class Sources(Protocol):
    """The part of the registry the hub fills."""

    def replace_source(self, source: str, tools: list[FunctionTool]) -> Any: ...
    def remove_source(self, source: str) -> Any: ...


@dataclass(slots=True)
class _Known:
    """Everything about one declared server."""

    config: ServerConfig
    usable: str = ""
    """Why it may not be used ("untrusted", "off"), or ""."""
    snapshot: Snapshot | None = None
    built: Built = Built((), ())
    specs: dict[str, ToolSpec] = field(default_factory=dict[str, ToolSpec])
    """By the name the server uses."""
    lanes: dict[str, ServerTask] = field(default_factory=dict[str, ServerTask])
    failures: int = 0
    retry_at: float = 0.0
    last_error: str = ""
    last_stderr: str = ""
    pid: int = 0


class Hub:
    """Servers of one project. Use in one event loop: `await start()` … `await stop()`.

    Args:
        settings: project and home.
        trust: whether the project's files may be used.
        registry: receives the tools of each server as source `mcp:NAME`.
        events: told about state changes.
        environ: variables for `${VAR}` and for the servers' base environment.
        redact: applied to every text of a server before people see it.

    Attributes:
        skills: what the servers offer of skills, for the skill library.
    """

    def __init__(
        self,
        settings: HubSettings,
        trust: Trust,
        registry: Sources,
        events: EventSink | None = None,
        *,
        environ: Mapping[str, str] | None = None,
        redact: Callable[[str], str] | None = None,
    ) -> None:
        self._settings, self._trust, self._registry = settings, trust, registry
        self._events = events or _ignore
        self._environ = os.environ if environ is None else environ
        self._redact = redact or _as_it_is
        self._known: dict[str, _Known] = {}
        self._set = ServerSet()
        self._stamp: tuple[Any, ...] = ()
        self._refreshing = asyncio.Lock()
        self._slots = asyncio.Semaphore(_DISCOVERIES)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._running: set[ServerTask] = set()
        self._closed = False
        self._hooks = Hooks(state=self._on_state, tools=self._on_tools)
        self.skills = ServerSkills(settings.home, self._for_reading)

    # ------------------------------------------------------------ life

    async def start(self) -> None:
        """Read the files, register known tools, look at unknown servers in the background, watch the files."""
        await self.refresh()
        self._spawn(self._poll())

    async def stop(self) -> None:
        """End every server; afterwards no process of theirs is left. May be called from any task."""
        self._closed = True
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(t.stop() for t in list(self._running)), return_exceptions=True)

    async def __aenter__(self) -> Hub:
        await self.start()
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.stop()

    # ------------------------------------------------------------ declarations

    async def refresh(self) -> bool:
        """Read the server files again if one of them, or the trust in them, has changed.

        Returns:
            True when the set of usable servers or their declarations changed.
        """
        async with self._refreshing:
            trusted = self._trusted()
            stamp = (trusted, *(_stamp(f) for f in self._files()))
            if stamp == self._stamp or self._closed:
                return False
            self._stamp = stamp
            self._set = load_servers(self._settings.project, self._settings.home)
            return await self._apply(self._set, trusted)

    def _files(self) -> list[Path]:
        return [self._settings.home / "mcp.json", *(self._settings.project / f for f in PROJECT_FILES)]

    def _trusted(self) -> bool:
        state = self._trust.state(self._settings.project)
        return str(getattr(state, "state", state)) == "trusted"

    async def _apply(self, declared: ServerSet, trusted: bool) -> bool:
        changed = False
        for name in list(self._known):
            known = self._known[name]
            config = declared.servers.get(name)
            if config is None and known.config.file in declared.broken_files:
                continue  # somebody is in the middle of editing: keep what works
            if config is None or config.identity != known.config.identity:
                await self._drop(name)
                changed = True
        for name, config in declared.servers.items():
            usable = config.barred(trusted=trusted)
            known = self._known.get(name)
            if known is not None and known.usable == usable and known.config == config:
                continue
            changed = True
            if known is None:
                known = self._known[name] = _Known(config, snapshot=snapshots.load(self._settings.home, config))
            known.config, known.usable = config, usable
            await self._show(known)
        return changed

    async def _show(self, known: _Known) -> None:
        name = known.config.name
        for task in known.lanes.values():
            task.config = known.config  # same server, perhaps other limits
        self.skills.show(known.config, known.snapshot, known.usable)
        if known.usable:
            self._registry.remove_source(f"mcp:{name}")
            await self._stop_lanes(known)
        elif known.snapshot is not None:
            self._register(known, known.snapshot)
        else:
            self._spawn(self._look(name))
        self._events(ServerChanged(name, self._state(known), known.last_error))

    async def _drop(self, name: str) -> None:
        known = self._known.pop(name)
        self._registry.remove_source(f"mcp:{name}")
        self.skills.drop(name)
        await self._stop_lanes(known)
        self._events(ServerChanged(name, "removed"))

    async def _stop_lanes(self, known: _Known) -> None:
        lanes, known.lanes = list(known.lanes.values()), {}
        await asyncio.gather(*(t.stop() for t in lanes), return_exceptions=True)

    async def _poll(self) -> None:
        while True:
            await asyncio.sleep(_POLL)
            try:
                await self.refresh()
            except (GeodeError, OSError) as error:  # the next look may succeed
                self._events(ServerChanged("", "failed", f"the server files could not be read: {error}"))
            now = time.monotonic()
            for known in list(self._known.values()):
                for key, task in list(known.lanes.items()):
                    if key and not task.calls and now - task.last_used > _LANE_IDLE:
                        del known.lanes[key]
                        self._spawn(task.stop())

    # ------------------------------------------------------------ learning tools

    async def _look(self, name: str) -> None:
        """Connect a server nobody has seen yet, once, to learn its tools; one that lately failed, after a pause."""
        known = self._known[name]
        known.last_error, pause = snapshots.recent_failure(self._settings.home, known.config)
        if pause:
            await asyncio.sleep(pause)
            if known.snapshot is not None:
                return
        async with self._slots:
            with contextlib.suppress(GeodeError):
                await self.discover(name)

    async def discover(self, name: str) -> Snapshot:
        """Connect, learn and store the tools of a server; it goes down again unless somebody uses it.

        Raises:
            ServerUnavailable, ConfigError: it cannot be connected; says why.
        """
        known = self._get(name)
        task = await self._connected(known, "")
        self._spawn(self._let_go(known, task))
        assert known.snapshot is not None
        return known.snapshot

    async def _let_go(self, known: _Known, task: ServerTask) -> None:
        used = task.last_used
        await asyncio.sleep(_LINGER)
        if task.last_used == used and not task.calls and known.lanes.get("") is task:
            del known.lanes[""]
            await task.stop()

    def _on_tools(self, task: ServerTask, snapshot: Snapshot) -> None:
        known = self._known.get(task.config.name)
        if known is None or known.usable or self._closed:
            return
        if known.snapshot is None or not known.snapshot.same_offer(snapshot):
            snapshots.save(self._settings.home, known.config, snapshot)
        known.snapshot = snapshot
        self._register(known, snapshot)
        self.skills.show(known.config, snapshot, known.usable)

    def _register(self, known: _Known, snapshot: Snapshot) -> None:
        known.built = build_tools(known.config, snapshot.tools, self.call)
        known.specs = {t.spec.original_name: t.spec for t in known.built.tools}
        self._registry.replace_source(f"mcp:{known.config.name}", list(known.built.tools))

    def _on_state(self, task: ServerTask) -> None:
        if task.state in ("failed", "stopped"):
            self._running.discard(task)
        known = self._known.get(task.config.name)
        if known is None:
            return
        known.last_stderr = task.redacted(task.stderr_tail)
        known.pid = task.pid
        if task.state == "failed":
            known.last_error = task.redacted(task.error)
            if task.connection is None:
                known.failures += 1
                if known.snapshot is None:
                    snapshots.note_failure(self._settings.home, known.config, known.last_error)
                known.retry_at = time.monotonic() + min(_BACKOFF_MAX, 2.0 ** (known.failures - 1))
        elif task.state == "ready":
            known.failures, known.retry_at, known.last_error = 0, 0.0, ""
        self._events(ServerChanged(task.config.name, task.state, known.last_error))

    # ------------------------------------------------------------ connections

    def _get(self, name: str) -> _Known:
        known = self._known.get(name)
        if known is None:
            raise ServerUnavailable(f"no MCP server is named {name!r}", fix="see: geode mcp list")
        if known.usable == "off":
            raise ServerUnavailable(f"MCP server {name!r} is switched off", fix=f"enable it in {known.config.file}")
        if known.usable:
            raise ServerUnavailable(
                f"MCP server {name!r} comes from this project, which is not trusted",
                fix=f"look at {known.config.file}, then: geode trust",
            )
        return known

    async def ensure(self, name: str) -> None:
        """Start a server if it is not running.

        Raises:
            ServerUnavailable, ConfigError: it is off, not trusted, or cannot be started.
        """
        await self._connected(self._get(name), "")

    async def _connected(self, known: _Known, owner: str) -> ServerTask:
        """A ready connection for `owner` ("" or a gateway session)."""
        key = self._lane(known, owner)
        task = known.lanes.get(key)
        if task is None or not task.alive:
            if task is not None:
                self._spawn(task.stop())
            task = known.lanes[key] = self._launch(known)
        await task.ready()
        return task

    async def _for_reading(self, name: str) -> ServerTask:
        """A connection over which a skill is read: that keeps no state, so all share one."""
        return await self._connected(self._get(name), "")

    def _lane(self, known: _Known, owner: str) -> str:
        """The key of the connection `owner` uses. A modern HTTP server keeps no state: all share one."""
        modern_web = known.config.url and known.snapshot is not None and known.snapshot.era == "modern"
        if not owner or modern_web or owner in known.lanes:
            return "" if not owner or modern_web else owner
        first = known.lanes.get("")
        if first is not None and first.alive and not first.used:
            known.lanes[owner] = known.lanes.pop("")  # the one that learned the tools; nobody has called it
            return owner
        if len(known.lanes) >= known.config.max_connections:
            idle = next((k for k, t in known.lanes.items() if not t.alive), None)
            if idle is None:
                raise ServerUnavailable(
                    f"MCP server {known.config.name!r} is busy: "
                    f"all {known.config.max_connections} connections are in use",
                    fix="try again in a moment, or raise max_connections in its entry",
                )
            self._spawn(known.lanes.pop(idle).stop())
        return owner

    def _launch(self, known: _Known) -> ServerTask:
        now = time.monotonic()
        if now < known.retry_at:
            raise ServerUnavailable(
                f"{known.last_error} (failed {known.failures} times; next try in {known.retry_at - now:.0f} s)",
                fix=f"see: geode mcp status {known.config.name}",
            )
        era = known.snapshot.era if known.snapshot is not None else ""
        task = ServerTask(
            known.config,
            environ=self._environ,
            cwd=self._settings.project,
            hooks=self._hooks,
            era=era,
            redact=self._redact,
        )
        self._running.add(task)
        return task

    async def release(self, session: str) -> None:
        """A gateway session has ended: its own connections end too."""
        for known in self._known.values():
            task = known.lanes.pop(session, None)
            if task is not None:
                await task.stop()

    # ------------------------------------------------------------ calls

    async def call(self, server: str, tool: str, arguments: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        """Run one tool; only the gate gets here, through the tools this hub registered.

        Raises:
            ServerUnavailable: it cannot be started; the tool was not called.
            ToolTimeout: no answer within call_timeout; the server was told to stop.
            ToolFailed: the tool is no longer offered.
        """
        known = self._get(server)
        owner = context.call.session if context.call.origin is Origin.GATEWAY else ""
        for attempt in (1, 2):
            task = await self._connected(known, owner)
            spec = known.specs.get(tool)
            if spec is None:
                raise ToolFailed(f"MCP server {server!r} no longer offers {tool!r}", fix="search for another tool")
            output = await call_once(task, spec, arguments, context, redact=task.redacted, last=attempt == 2)
            if output is not None:
                return output
            await self._forget(known, task)
        raise ServerUnavailable(f"MCP server {server!r} lost its session twice", fix="try again later")

    async def _forget(self, known: _Known, task: ServerTask) -> None:
        for key, lane in list(known.lanes.items()):
            if lane is task:
                del known.lanes[key]
        await task.stop()

    # ------------------------------------------------------------ what people see

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What could not be used: files, entries, single tools."""
        found = list(self._set.problems)
        for known in self._known.values():
            skills = known.snapshot.skills_problem if known.snapshot is not None else ""
            texts = (*known.built.problems, *([f"{known.config.name}: {skills}"] if skills else []))
            found += [Problem(known.config.file, known.config.name, text) for text in texts]
        return tuple(found)

    def _state(self, known: _Known) -> str:
        if known.usable:
            return known.usable
        task = next((t for t in known.lanes.values() if t.alive), None)
        if task is not None:
            return task.state
        return "failed" if known.last_error else "idle"

    def unavailable(self) -> dict[str, str]:
        """Server name -> state, for servers whose tools cannot be had now (case R57)."""
        states = {n: self._state(k) for n, k in self._known.items()}
        return {n: s for n, s in states.items() if s in ("off", "untrusted", "failed") or not self._known[n].snapshot}

    def status(self) -> list[dict[str, Any]]:
        """One object a server: name, state, era, tools, pid, last_error, stderr_tail, scope, file, connections."""
        rows: list[dict[str, Any]] = []
        for name in sorted(self._known):
            known = self._known[name]
            live = [t for t in known.lanes.values() if t.alive]
            task = live[0] if live else None
            rows.append({
                "name": name,
                "state": self._state(known),
                "era": known.snapshot.era if known.snapshot is not None else "",
                "version": known.snapshot.version if known.snapshot is not None else "",
                "tools": len(known.built.tools),
                "pid": task.pid if task is not None and task.pid else None,
                "last_error": known.last_error,
                "stderr_tail": task.redacted(task.stderr_tail) if task is not None else known.last_stderr,
                "scope": known.config.scope,
                "file": known.config.file,
                "target": known.config.target,
                "connections": len(live),
            })  # fmt: skip
        return rows

    def snapshot(self, name: str) -> Snapshot | None:
        """What a server offered when it was last seen."""
        known = self._known.get(name)
        return known.snapshot if known is not None else None

    def _spawn(self, work: Any) -> None:
        task: asyncio.Task[Any] = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _ignore(_event: Event) -> None:
    """Nobody listens."""


def _as_it_is(text: str) -> str:
    return text


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        info = path.stat()
    except OSError:
        return None
    return info.st_mtime_ns, info.st_size, info.st_ino
