"""Which tools a request carries, and which have been revealed: both without hidden state.

Resident tools are few and fixed, so that the first request costs the same with ten tools or
ten thousand, and the provider's cache holds from turn to turn. Everything else is found with
`tool_search`, whose answer shows the schema where it was found, and called with `call_tool`.
What has been revealed is a pure function of the transcript.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from ..core.messages import Message, Role
from ..tools.registry import ToolRegistry
from ..tools.tool import ToolSpec

__all__ = ["CALL_TOOL", "CALL_TOOL_SPEC", "RESIDENT", "resident", "revealed", "unwrap"]

CALL_TOOL = "call_tool"
_MOST_WRAPS = 4

RESIDENT: Mapping[str, tuple[str, ...]] = {
    "coding": (
        "tool_search",
        "read_file",
        "grep_file",
        "find_file",
        "list_directory",
        "edit_file",
        "write_file",
        "shell_exec",
        "skill_read",
    ),
    "assistant": (
        "tool_search",
        "read_file",
        "read_document",
        "find_file",
        "write_file",
        "code_interpreter",
        "web_search",
        "skill_read",
    ),
}
"""Profile -> names of its resident tools, in the order in which they are sent; missing ones are left out."""

CALL_TOOL_SPEC = ToolSpec(
    name=CALL_TOOL,
    description=(
        "Call a tool that tool_search has shown. Give its exact name and its arguments as an object that satisfies "
        "the schema shown there. Tools you were given directly are called directly."
    ),
    parameters={
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "Exact name as shown by tool_search."},
            "arguments": {"type": "object", "description": "The arguments of that tool.", "additionalProperties": True},
        },
        "required": ["name", "arguments"],
        "additionalProperties": False,
    },
    effects=frozenset(),
    category="meta",
)
"""No tool of the registry: the loop turns it into a `Call` of the target before the gate sees it."""


def resident(registry: ToolRegistry, profile: str, *, visible: Iterable[str] | None = None) -> tuple[ToolSpec, ...]:
    """The definitions every request of a session carries, in a fixed order, `call_tool` last.

    Args:
        profile: a key of `RESIDENT`.
        visible: names the caller may use; None for all.
    """
    allowed = None if visible is None else set(visible)
    specs: list[ToolSpec] = []
    for name in RESIDENT[profile]:
        entry = registry.find(name)
        if entry is not None and entry.status == "active" and (allowed is None or name in allowed):
            specs.append(entry.spec)
    return (*specs, CALL_TOOL_SPEC)


def revealed(messages: Sequence[Message]) -> tuple[str, ...]:
    """Names of the tools whose schemas the conversation has shown, in the order of discovery."""
    names: dict[str, None] = {}
    for message in messages:
        if message.role is not Role.TOOL:
            continue
        for result in message.results:
            structured = result.structured
            if result.tool == "tool_search" and isinstance(structured, Mapping):
                names |= {str(t["name"]): None for t in structured.get("tools", ()) if isinstance(t, Mapping)}
            shown = result.details.get("schema_shown")
            if isinstance(shown, str):
                names[shown] = None
    return tuple(names)


def unwrap(name: str, arguments: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """The target of a call: `call_tool` gives the tool it names, everything else itself.

    Weak models wrap twice and write the inner arguments as JSON text; both are plain in meaning (T120). What
    names no tool stays a call of `call_tool`, which no registry has: it is refused, never guessed at.
    """
    for _ in range(_MOST_WRAPS):
        if name != CALL_TOOL:
            return name, arguments
        target, inner = arguments.get("name"), arguments.get("arguments", {})
        if isinstance(inner, str):
            inner = _object(inner)
        if not isinstance(target, str) or not target.strip() or not isinstance(inner, Mapping):
            return name, arguments
        name, arguments = target, cast("Mapping[str, Any]", inner)
    return name, arguments


def _object(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
