"""What a client sees: every tool (`direct`), or three that find, explain and call them (`search`).

In `search` mode the definitions cost the same for ten tools and for ten thousand. Whatever
the mode, a call is a `Call` of the *target*: a meta-tool has no rights of its own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, cast

from ..core.errors import InvalidArguments
from ..tools.aliases import Aliases
from ..tools.formats import to_mcp
from ..tools.registry import Snapshot, ToolRegistry
from ..tools.schema import PROVIDERS, SchemaError

__all__ = ["META_TOOLS", "Direct", "Inspect", "Mode", "Search", "Target"]

Visible = Callable[[str], bool]
_NAME = {"type": "string", "description": "Tool name, as found."}
META_TOOLS: tuple[dict[str, Any], ...] = (
    {
        "name": "tool_search",
        "description": (
            "Find tools by what you need to do, in plain words. Covers all tools of all connected servers. "
            "Returns names, descriptions and schemas; runs nothing. Search again whenever the task changes."
        ),
        "inputSchema": {
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "The need, e.g. 'read the tables of a PDF'."},
                "limit": {"type": "integer", "minimum": 1, "maximum": 10},
            },
            "required": ["query"],
        },
        "annotations": {"readOnlyHint": True},
    },
    {
        "name": "tool_inspect",
        "description": "Show one tool's full description and argument schema, before calling it.",
        "inputSchema": {"type": "object", "properties": {"name": _NAME}, "required": ["name"]},
        "annotations": {"readOnlyHint": True},
    },
    {
        "name": "tool_call",
        "description": "Call a tool that was found. The tool's own policy applies; a denial says why.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "name": _NAME,
                "arguments": {"type": "object", "description": "Arguments, by the tool's schema."},
            },
            "required": ["name"],
        },
    },
)
"""At most 400 tokens together; a test counts."""


@dataclass(frozen=True, slots=True)
class Target:
    """The call a request stands for.

    Attributes:
        tool: registered name.
        arguments: for that tool.
        explain: add the tool's schema when the arguments do not fit it.
    """

    tool: str
    arguments: Mapping[str, Any]
    explain: bool = False


@dataclass(frozen=True, slots=True)
class Inspect:
    """A question about a tool; nothing is called."""

    tool: str


class Mode(Protocol):
    """One way of exposing the registry."""

    follows_registry: bool
    """True when a change of the registry changes what is listed."""

    def tools(self, visible: Visible) -> list[dict[str, Any]]:
        """Entries of `tools/list`, in stable order; of the registry's tools only those that are `visible`."""
        ...

    def target(self, name: str, arguments: Mapping[str, Any]) -> Target | Inspect:
        """What a request means.

        Raises:
            InvalidArguments: a meta-tool was called in a way that means nothing.
        """
        ...


class _Listing:
    """The registry's tools as MCP entries, made once per snapshot."""

    def __init__(self, registry: ToolRegistry) -> None:
        self._registry = registry
        self._made_for: Snapshot | None = None
        self._aliases = Aliases(PROVIDERS["mcp"], ())
        self._tools: dict[str, dict[str, Any]] = {}

    def _current(self) -> Snapshot:
        snapshot = self._registry.snapshot()
        if snapshot is not self._made_for:
            self._aliases = Aliases(PROVIDERS["mcp"], snapshot.names)
            self._tools = {}
            self._made_for = snapshot
        return snapshot

    def all(self, visible: Visible) -> list[dict[str, Any]]:
        names = [n for n in self._current().names if visible(n)]
        return [entry for name in names if (entry := self.one(name)) is not None]

    def one(self, name: str) -> dict[str, Any] | None:
        found = self._current().by_name.get(name)
        if found is None:
            return None
        if name not in self._tools:
            try:
                self._tools[name] = to_mcp(found.spec, alias=self._aliases.alias(name))
            except SchemaError:
                return None
        return self._tools[name]

    def original(self, name: str) -> str:
        """The registered name a client means; an unknown one stays as it is, and policy judges it."""
        self._current()
        return self._aliases.original(name) or name


class Direct:
    """Every active tool under its own name."""

    follows_registry = True

    def __init__(self, registry: ToolRegistry) -> None:
        self._listing = _Listing(registry)

    def tools(self, visible: Visible) -> list[dict[str, Any]]:
        return self._listing.all(visible)

    def target(self, name: str, arguments: Mapping[str, Any]) -> Target | Inspect:
        return Target(self._listing.original(name), arguments)


class Search:
    """`tool_search`, `tool_inspect`, `tool_call`. A real tool's name works as well."""

    follows_registry = False

    def __init__(self, registry: ToolRegistry) -> None:
        self._listing = _Listing(registry)

    def tools(self, visible: Visible) -> list[dict[str, Any]]:
        return [dict(t) for t in META_TOOLS]

    def target(self, name: str, arguments: Mapping[str, Any]) -> Target | Inspect:
        if name == "tool_inspect":
            return Inspect(self._listing.original(_name(name, arguments)))
        if name == "tool_call":
            return Target(self._listing.original(_name(name, arguments)), _inner(arguments), explain=True)
        return Target(self._listing.original(name), arguments, explain=True)


def _name(tool: str, arguments: Mapping[str, Any]) -> str:
    name = arguments.get("name")
    if not isinstance(name, str) or not name.strip():
        raise InvalidArguments(
            f"{tool} needs the name of a tool", problems=("$.name: text is required",), fix="find one with tool_search"
        )
    return name


def _inner(arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """`arguments.arguments` as an object; a JSON text of one is read (ruling 3)."""
    inner = arguments.get("arguments")
    if inner is None:
        return {}
    if isinstance(inner, str):
        try:
            inner = json.loads(inner)
        except ValueError:
            inner = None
    if not isinstance(inner, dict):
        raise InvalidArguments(
            "tool_call needs `arguments` as an object",
            problems=("$.arguments: an object is required",),
            fix='for example: {"name": "read_file", "arguments": {"path": "README.md"}}',
        )
    return cast(dict[str, Any], inner)
