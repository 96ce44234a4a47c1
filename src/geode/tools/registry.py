"""All tools there are: their sources, which of two equal names counts, and their status.

Precedence of a bare name: built-in > declared in JSON > code and plugins > MCP. Nothing is
dropped silently: an entry that does not count is kept with the status `shadowed` and a
reason, a tool whose schema cannot be used is `quarantined`, alone, and named.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace as replace_fields
from typing import Any

from ..core.errors import ConfigError, UnknownTool
from ..core.events import EventSink, ToolsChanged
from ..core.ports import Caller
from .entries import LoadedTools, Snapshot, ToolEntry, ToolProblem, make_entry, source_rank
from .facade import BoundTool, Bridge
from .formats import Strictness, Toolset, WireTool, to_mcp, wire_tool
from .names import closest_names, plain_name
from .schema import Dialect
from .tool import Tool, ToolSpec

__all__ = ["BoundTool", "Snapshot", "ToolEntry", "ToolProblem", "ToolRegistry"]


class ToolRegistry:
    """Tools by name. Reads are lock-free over an immutable snapshot; changes are serialised."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._sources: dict[str, tuple[ToolEntry, ...]] = {}
        self._reported: dict[str, tuple[ToolProblem, ...]] = {}
        self._held: dict[tuple[str, str], str] = {}
        self._withdrawn: dict[str, str] = {}
        self._all: tuple[ToolEntry, ...] = ()
        self._snapshot = Snapshot(version=0, entries=())
        self._sinks: list[EventSink] = []
        self._bridge = Bridge()

    # ------------------------------------------------------------ changes

    def register(self, tool: Tool, *, source: str = "code", replace: bool = False) -> ToolEntry:
        """Add one tool.

        Args:
            tool: a `FunctionTool`, or any object with the members of `Tool`.
            source: "builtin", "definitions", "code", "plugin:NAME" or "mcp:SERVER".
            replace: True takes the place of the source's tool of the same name; code may
                take the place of a built-in this way (and becomes one), nothing else may.

        Returns:
            The entry; look at its `status`: it may be shadowed or quarantined.

        Raises:
            ConfigError: the name is taken in this source, or belongs to a built-in.
        """
        with self._lock:
            entry = make_entry(tool, source)
            mine = self._sources.get(source, ())
            if any(e.name == entry.name for e in mine) and not replace:
                raise ConfigError(
                    f"tool {entry.name!r} is registered already by {source}",
                    fix="give it another name, or pass replace=True",
                )
            builtin = self._sources.get("builtin", ())
            if source != "builtin" and any(e.name == entry.name for e in builtin):
                if not (replace and source == "code"):
                    raise ConfigError(
                        f"tool {entry.name!r} of {source} has the name of a built-in",
                        fix="give it another name; a built-in is never shadowed",
                    )
                # It keeps the rank of what it replaces: no other source may now take the name.
                source, entry, mine = "builtin", make_entry(tool, "builtin"), builtin
            self._sources[source] = (*(e for e in mine if e.name != entry.name), entry)
            self._rebuild()
            return next(e for e in self._all if e.source == source and e.name == entry.name)

    def unregister(self, name: str) -> bool:
        """Remove the tool that counts under `name`; one it shadowed takes its place. False: there is none."""
        with self._lock:
            entry = self.find(name)
            if entry is None:
                return False
            self._sources[entry.source] = tuple(e for e in self._sources[entry.source] if e.name != name)
            self._rebuild()
            return True

    def replace_source(self, source: str, tools: Iterable[Tool]) -> ToolsChanged:
        """Make `tools` everything that comes from `source`, in one step.

        Bad ones are kept as quarantined or shadowed entries and reported by `problems()`;
        this never raises for one of them.
        """
        entries: list[ToolEntry] = []
        names: set[str] = set()
        for item in tools:
            entry = make_entry(item, source)
            if entry.name in names:
                entry = entry.with_status("shadowed", f"{source} offers two tools of this name; the first one counts")
            names.add(entry.name)
            entries.append(entry)
        with self._lock:
            self._sources[source] = tuple(entries)
            self._reported[source] = tools.problems if isinstance(tools, LoadedTools) else ()
            return self._rebuild()

    def remove_source(self, source: str) -> ToolsChanged:
        """Remove everything that comes from `source`."""
        with self._lock:
            self._sources.pop(source, None)
            self._reported.pop(source, None)
            for key in [k for k in self._held if k[0] == source]:
                del self._held[key]
            return self._rebuild()

    def quarantine(self, name: str, reason: str) -> None:
        """Hold back the tool that counts under `name` until `release`; other tools are not affected.

        Raises:
            UnknownTool: there is no such tool.
        """
        with self._lock:
            entry = self.entry(name)
            self._held[entry.source, name] = reason
            self._rebuild()

    def release(self, name: str) -> None:
        """Undo `quarantine`. A tool whose schema is bad stays where it is."""
        with self._lock:
            for key in [k for k in self._held if k[1] == name]:
                del self._held[key]
            self._rebuild()

    def _rebuild(self) -> ToolsChanged:
        before = self._snapshot
        entries = _settle(self._sources, self._held)
        active = tuple(e for e in entries if e.status == "active")
        self._all = entries
        now = {e.name: e for e in active}
        old = before.by_name
        change = ToolsChanged(
            added=tuple(sorted(now.keys() - old.keys())),
            removed=tuple(sorted(old.keys() - now.keys())),
            changed=tuple(sorted(n for n in now.keys() & old.keys() if _differs(now[n], old[n]))),
        )
        for name in change.removed:
            self._withdrawn[name] = old[name].source
        for name in change.added:
            self._withdrawn.pop(name, None)
        if change.added or change.removed or change.changed:
            self._snapshot = Snapshot(version=before.version + 1, entries=active)
            for sink in tuple(self._sinks):
                sink(change)
        return change

    # ------------------------------------------------------------ reading

    def snapshot(self) -> Snapshot:
        """The active tools now, immutable; the order depends on the set alone, not on its history."""
        return self._snapshot

    def names(self) -> tuple[str, ...]:
        """Names of the active tools in stable order."""
        return self._snapshot.names

    def entries(self) -> tuple[ToolEntry, ...]:
        """Every entry, shadowed and quarantined ones too, in stable order."""
        return self._all

    def find(self, name: str) -> ToolEntry | None:
        """The entry that counts under `name`: the active one, else a quarantined one, else None."""
        found = self._snapshot.by_name.get(name)
        if found is not None:
            return found
        return next((e for e in self._all if e.name == name and e.status == "quarantined"), None)

    def entry(self, name: str) -> ToolEntry:
        """Like `find`; check `status` before use.

        Raises:
            UnknownTool: carries the closest names; says so when the tool was withdrawn.
        """
        found = self.find(name)
        if found is not None:
            return found
        source = self._withdrawn.get(name)
        why = f"tool {name!r} is no longer offered by {source}" if source else ""
        raise UnknownTool(name, closest=self.closest(name), why=why)

    def get(self, name: str) -> BoundTool:
        """The tool as something to call; every call goes through the bound caller (the gate).

        Raises:
            UnknownTool: no tool of that name is in use; says when it is quarantined and why.
        """
        return BoundTool(self._active(name), self._bridge)

    def _active(self, name: str) -> ToolEntry:
        entry = self.entry(name)
        if entry.status != "active":
            raise UnknownTool(name, why=f"tool {name!r} is {entry.status}: {entry.reason}")
        return entry

    def __contains__(self, name: object) -> bool:
        return name in self._snapshot.by_name

    def __len__(self) -> int:
        return len(self._snapshot.entries)

    def closest(self, name: str, limit: int = 3) -> tuple[str, ...]:
        """Similar names of active tools, best first; empty when nothing is similar."""
        return closest_names(name, self._snapshot.names, limit)

    def resolve_name(self, raw: str) -> str | None:
        """What a slightly wrong name must mean, or None.

        Blanks, quotes, a wrapper such as `functions.`, letter case and `-` for `_` are put
        right, and only when exactly one active tool remains. The result still goes through
        policy, and whoever uses it reports it.
        """
        if raw in self._snapshot.by_name:
            return raw
        if any(e.name == raw for e in self._all):
            return None
        return plain_name(raw, self._snapshot.names)

    def problems(self) -> tuple[ToolProblem, ...]:
        """Every tool that is not in use, with its source and the reason; declared ones that could not be read too."""
        kept = tuple(
            ToolProblem(tool=e.name, source=e.source, server=e.spec.server, status=e.status, reason=e.reason)
            for e in self._all
            if e.status != "active"
        )
        return (*kept, *(p for source in sorted(self._reported) for p in self._reported[source]))

    # ------------------------------------------------------------ forms

    def toolset(
        self,
        dialect: Dialect,
        *,
        names: Iterable[str] | None = None,
        strict: Strictness = "auto",
        defer_threshold: int | None = None,
    ) -> Toolset:
        """The active tools (or those of `names`, in that order) for one provider, with the way back for its calls.

        Raises:
            UnknownTool: a name in `names` is not in use.
        """
        snapshot = self._snapshot
        specs = snapshot.specs if names is None else tuple(self._active(n).spec for n in names)
        return Toolset(dialect, specs, strict=strict, defer_threshold=defer_threshold, fit=self._fit)

    def _fit(self, spec: ToolSpec, dialect: Dialect, *, strict: Strictness, alias: str) -> WireTool:
        entry = self._snapshot.by_name.get(spec.name)
        if entry is None or entry.spec is not spec:
            return wire_tool(spec, dialect, strict=strict, alias=alias)
        key = (dialect, strict)
        made: WireTool | None = entry.forms.get(key)
        if made is None:
            made = entry.forms[key] = wire_tool(spec, dialect, strict=strict, alias=alias)
        return made if made.alias == alias else replace_fields(made, alias=alias)

    def to_anthropic_tools(self) -> list[dict[str, Any]]:
        """All active tools in Anthropic's form, in stable order."""
        return self.toolset("anthropic").tools

    def to_openai_tools(self, *, strict: Strictness = "auto") -> list[dict[str, Any]]:
        """All active tools in OpenAI's Chat Completions form.

        Never more than the provider takes: beyond that `tool_search` comes first and the last
        ones are left out (`toolset("openai").deferred` names them).
        """
        return self.toolset("openai", strict=strict).tools

    def to_mcp_tools(self) -> list[dict[str, Any]]:
        """All active tools as MCP's `tools/list` gives them."""
        return [to_mcp(spec) for spec in self._snapshot.specs]

    def to_anthropic_tools_with_defer(self, defer_threshold: int = 5) -> list[dict[str, Any]]:
        """Like `to_anthropic_tools`; with more than `defer_threshold` tools, `tool_search` comes first
        and names the categories, and all others carry `defer_loading`."""
        return self.toolset("anthropic", defer_threshold=defer_threshold).tools

    # ------------------------------------------------------------ wiring

    def bind(self, caller: Caller, *, call_options: Mapping[str, Any] | None = None) -> None:
        """Give `get(name).execute()` the gate to go through.

        Args:
            caller: the gate.
            call_options: fields of every `Call` made this way (`cwd`, `mode`, `principal`, …).
        """
        self._bridge.bind(caller, dict(call_options or {}))

    def subscribe(self, sink: EventSink) -> Callable[[], None]:
        """Call `sink` with a `ToolsChanged` after every change of the snapshot; returns the way to stop it."""
        self._sinks.append(sink)

        def stop() -> None:
            if sink in self._sinks:
                self._sinks.remove(sink)

        return stop


def _differs(a: ToolEntry, b: ToolEntry) -> bool:
    if a.tool is b.tool:
        return False
    return a.source != b.source or a.digest != b.digest


def _order(entry: ToolEntry) -> tuple[Any, ...]:
    """Who counts when names are equal; between servers the one that owns the longer prefix."""
    return (source_rank(entry.source), -len(entry.spec.server), entry.source)


def _settle(sources: Mapping[str, tuple[ToolEntry, ...]], held: Mapping[tuple[str, str], str]) -> tuple[ToolEntry, ...]:
    """All entries with their final status, ordered by rank, source and name."""
    winners: dict[str, ToolEntry] = {}
    settled: list[ToolEntry] = []
    pending = [e for group in sources.values() for e in group]
    for entry in sorted(pending, key=_order):
        reason = held.get((entry.source, entry.name))
        if entry.status == "active" and reason is not None:
            entry = entry.with_status("quarantined", reason)
        if entry.status != "shadowed":
            winner = winners.setdefault(entry.name, entry)
            if winner is not entry:
                what = "a built-in" if winner.source == "builtin" else f"a tool of {winner.source}"
                entry = entry.with_status("shadowed", f"{entry.source}: {what} has this name and comes first")
        settled.append(entry)
    return tuple(sorted(settled, key=lambda e: (source_rank(e.source), e.source, e.name, e.status)))
