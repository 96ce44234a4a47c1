"""What the registry keeps about a tool: its source, digest, status and validators."""

from __future__ import annotations

import asyncio
import hashlib
import inspect
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, Literal, cast

from ..core.call import canonical_json
from ..core.effects import Effect
from .schema import SchemaError, Validator, check_schema
from .tool import FunctionTool, Tool, ToolSpec

__all__ = ["LoadedTools", "Snapshot", "Status", "ToolEntry", "ToolProblem", "make_entry", "source_rank"]

Status = Literal["active", "quarantined", "shadowed"]

MAX_NAME = 256
"""Characters of a tool's name; providers' own limits are met by aliases."""


@dataclass(frozen=True)
class ToolEntry:
    """One tool from one source.

    Attributes:
        tool: the tool; its function is reachable by the gate only.
        source: "builtin", "definitions", "code", "plugin:NAME" or "mcp:SERVER".
        status: only an active tool can be called.
        reason: why it is not active, or "".
    """

    tool: FunctionTool
    source: str
    status: Status = "active"
    reason: str = ""

    @property
    def spec(self) -> ToolSpec:
        return self.tool.spec

    @property
    def name(self) -> str:
        return self.tool.spec.name

    @cached_property
    def digest(self) -> str:
        """SHA-256 of everything a model or a person is told about the tool, of its effects and of its binding."""
        s = self.spec
        effects = None if s.effects is None else sorted(s.effects)
        told = [
            s.name,
            s.title,
            s.description,
            s.parameters,
            s.output_schema,
            effects,
            s.examples,
            s.server,
            self.source,
            s.fingerprint,
        ]
        return hashlib.sha256(canonical_json(told).encode("utf-8", "surrogatepass")).hexdigest()

    @cached_property
    def validator(self) -> Validator:
        """Checks arguments. Made when first used.

        Raises:
            SchemaError: only for a quarantined entry.
        """
        return Validator(self.spec.parameters)

    @cached_property
    def output_validator(self) -> Validator | None:
        """Checks structured results, or None when the tool declares no (usable) output schema."""
        if self.spec.output_schema is None:
            return None
        try:
            return Validator(self.spec.output_schema, root=False)
        except SchemaError:
            return None

    @cached_property
    def forms(self) -> dict[Any, Any]:
        """Provider forms made so far, by provider and strictness; filled by the registry."""
        return {}

    def with_status(self, status: Status, reason: str) -> ToolEntry:
        """The same tool under another status."""
        return replace(self, status=status, reason=reason)

    def to_json(self) -> dict[str, Any]:
        """The row of `geode tools list`, with status and reason."""
        s = self.spec
        return {
            "name": s.name,
            "source": self.source,
            "server": s.server,
            "category": s.category,
            "effects": None if s.effects is None else sorted(e.value for e in s.effects),
            "status": self.status,
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True)
class ToolProblem:
    """A tool that is not in use, and why."""

    tool: str
    source: str
    server: str
    status: Status
    reason: str

    def to_json(self) -> dict[str, str]:
        return {
            "tool": self.tool,
            "source": self.source,
            "server": self.server,
            "status": self.status,
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True)
class LoadedTools:
    """Tools read from somewhere, and what could not become one. Iterates over the tools."""

    tools: tuple[FunctionTool, ...] = ()
    problems: tuple[ToolProblem, ...] = ()

    def __iter__(self) -> Iterator[FunctionTool]:
        return iter(self.tools)

    def __len__(self) -> int:
        return len(self.tools)


@dataclass(frozen=True)
class Snapshot:
    """The active tools at one moment. Equal sets give equal order and digest."""

    version: int
    entries: tuple[ToolEntry, ...]

    @cached_property
    def by_name(self) -> Mapping[str, ToolEntry]:
        return MappingProxyType({e.name: e for e in self.entries})

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(e.name for e in self.entries)

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        return tuple(e.spec for e in self.entries)

    @cached_property
    def digest(self) -> str:
        """SHA-256 over the digests of all entries, in order."""
        return hashlib.sha256("".join(e.digest for e in self.entries).encode()).hexdigest()


_RANKS = {"builtin": 0, "definitions": 1}


def source_rank(source: str) -> int:
    """Precedence of a source, lower counts first: built-in, definitions, code and plugins, MCP."""
    return 3 if source.startswith("mcp:") else _RANKS.get(source, 2)


def make_entry(item: Tool, source: str) -> ToolEntry:
    """Wrap, name and check a tool; a fault makes it a quarantined entry and never raises.

    A tool of source `mcp:SERVER` is called `SERVER__TOOL`, whatever name it comes with.
    """
    tool = item if isinstance(item, FunctionTool) else _wrap(item)
    server = source.removeprefix("mcp:") if source.startswith("mcp:") else ""
    if server:
        original = tool.spec.original_name or tool.spec.name
        exposed = f"{server}__{original}"
        if tool.spec.name != exposed or tool.spec.server != server or not tool.spec.original_name:
            tool = tool.with_spec(name=exposed, original_name=original, server=server)
    reason = _fault(tool.spec)
    if reason:
        where = f"server {server!r}: " if server else ""
        return ToolEntry(tool, source, "quarantined", f"{where}tool {tool.spec.name!r}: {reason}")
    return ToolEntry(tool, source)


def _fault(spec: ToolSpec) -> str:
    name: Any = spec.name
    if not isinstance(name, str) or not name.strip():
        return "it has no name"
    if len(name) > MAX_NAME:
        return f"its name has {len(name)} characters, more than {MAX_NAME}"
    if name != name.strip() or not name.isprintable():
        return "its name has blanks at an end or unprintable characters"
    if not isinstance(cast(Any, spec.description), str):
        return "its description is not a text"
    try:
        check_schema(spec.parameters)
    except SchemaError as error:
        return f"its schema cannot be used: {error.message}"
    return ""


def _wrap(item: Tool) -> FunctionTool:
    """A FunctionTool around any object that satisfies `Tool`."""
    execute: Any = item.execute
    is_async = inspect.iscoroutinefunction(execute)

    async def run(ctx: Any, arguments: Mapping[str, Any]) -> Any:
        result: Any = execute(**arguments) if is_async else await asyncio.to_thread(execute, **arguments)
        return await result if inspect.isawaitable(result) else result

    effects: Any = getattr(item, "effects", None)
    parameters: Any = item.parameters
    description: Any = item.description
    spec = ToolSpec(
        name=item.name,
        description=description if isinstance(description, str) else "",
        parameters=cast(Mapping[str, Any], parameters),
        effects=frozenset(Effect(e) for e in cast(Iterable[Any], effects)) if effects is not None else None,
        category=str(getattr(item, "category", "other")),
    )
    return FunctionTool(spec, run)
