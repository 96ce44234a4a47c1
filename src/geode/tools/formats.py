"""One tool definition in the forms of Anthropic, OpenAI, Gemini and MCP, and calls mapped back.

The description is the same text in every form. What a provider's schema form cannot say
is said there, so the forms are equal in meaning.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

from ..core.effects import Effect
from .aliases import Aliases, ArgumentCodec, Shape, legal_name, shape_of
from .schema import PROVIDERS, Dialect, SchemaError, copy_json, modernise, normalise, strict_form
from .tool import ToolSpec

__all__ = [
    "Aliases",
    "Strictness",
    "Toolset",
    "WireTool",
    "to_anthropic",
    "to_gemini",
    "to_mcp",
    "to_openai",
    "to_openai_responses",
    "wire_tool",
]

Strictness = Literal["auto"] | bool
SEARCH = "tool_search"
MAX_EXAMPLES = 3


@dataclass(frozen=True, slots=True)
class WireTool:
    """One tool as one provider gets it.

    Attributes:
        name: the original name.
        alias: the name on the wire.
        description: text for the model.
        parameters: schema on the wire.
        strict: True when OpenAI's strict mode is on.
        why_not_strict: the part that does not qualify, or "".
        codec: maps arguments between wire and tool.
    """

    name: str
    alias: str
    description: str
    parameters: dict[str, Any]
    strict: bool
    why_not_strict: str
    codec: ArgumentCodec


def wire_tool(spec: ToolSpec, dialect: Dialect, *, strict: Strictness = False, alias: str = "") -> WireTool:
    """Fit one tool to a provider.

    Args:
        strict: "auto" turns strict mode on where every part qualifies; only for "openai".
        alias: the name to use; default: the original made legal.

    Raises:
        SchemaError: the schema cannot be used, or `strict=True` and it does not qualify.
    """
    provider = PROVIDERS[dialect]
    form = normalise(spec.parameters, dialect)
    rules = "" if dialect == "mcp" else str(form.pop("description", ""))
    strict_schema, reason = None, ""
    if strict and dialect == "openai":
        strict_schema, reason = strict_form(form)
        if strict_schema is None and strict is True:
            raise SchemaError(f"{spec.name} does not qualify for strict mode: {reason}")
    if dialect == "mcp":
        renamed, shape = form, Shape()
    else:
        renamed, shape = shape_of(form, provider, nulls_absent=strict_schema is not None)
    if strict_schema is not None:
        renamed = shape_of(strict_schema, provider, nulls_absent=False)[0]
    return WireTool(
        name=spec.name,
        alias=alias or legal_name(spec.name, provider),
        description=_description(spec, rules),
        parameters=renamed,
        strict=strict_schema is not None,
        why_not_strict=reason,
        codec=ArgumentCodec(shape),
    )


def _description(spec: ToolSpec, rules: str) -> str:
    text = spec.description.strip() or spec.title or spec.name
    more = [rules] if rules else []
    for example in spec.examples[:MAX_EXAMPLES]:
        more.append(f"Example: {json.dumps(dict(example), ensure_ascii=False, default=str)}")
    return "\n\n".join([text, "\n".join(more)]) if more else text


# ---------------------------------------------------------------- one tool


def to_anthropic(spec: ToolSpec, *, defer: bool = False) -> dict[str, Any]:
    """`{"name", "description", "input_schema"}`, with `defer_loading` when `defer`."""
    return _anthropic(wire_tool(spec, "anthropic"), defer=defer)


def to_openai(spec: ToolSpec, strict: Strictness = "auto") -> dict[str, Any]:
    """The Chat Completions form; `strict` appears only when it is on."""
    return _openai(wire_tool(spec, "openai", strict=strict))


def to_openai_responses(spec: ToolSpec, strict: Strictness = "auto", *, defer: bool = False) -> dict[str, Any]:
    """The Responses form; `strict` is always said, because its absence means on there."""
    return _responses(wire_tool(spec, "openai", strict=strict), defer=defer)


def to_gemini(spec: ToolSpec) -> dict[str, Any]:
    """A function declaration with `parametersJsonSchema`."""
    return _gemini(wire_tool(spec, "gemini"))


def to_mcp(spec: ToolSpec, *, alias: str = "") -> dict[str, Any]:
    """An entry of MCP's `tools/list`. An output schema that cannot be used is left out."""
    wire = wire_tool(spec, "mcp", alias=alias)
    out: dict[str, Any] = {
        "name": wire.alias,
        "description": wire.description,
        "inputSchema": copy_json(wire.parameters),
    }
    if spec.title:
        out["title"] = spec.title
    output = _output_schema(spec)
    if output is not None:
        out["outputSchema"] = copy_json(output)
    hints = _hints(spec)
    if hints:
        out["annotations"] = hints
    return out


def _output_schema(spec: ToolSpec) -> dict[str, Any] | None:
    if spec.output_schema is None:
        return None
    try:
        return modernise(spec.output_schema)
    except SchemaError:
        return None


def _hints(spec: ToolSpec) -> dict[str, bool]:
    """MCP annotations out of declared effects; nothing is claimed about undeclared ones."""
    if spec.effects is None:
        return {}
    outside = {Effect.NETWORK, Effect.COMMUNICATE, Effect.SPEND}
    changes = {Effect.WRITE, Effect.DELETE, Effect.EXECUTE, Effect.PRIVILEGE}
    hints = {"readOnlyHint": spec.read_only, "openWorldHint": bool(spec.effects & outside)}
    if not spec.read_only:
        hints["destructiveHint"] = bool(spec.effects & changes)
        hints["idempotentHint"] = spec.idempotent
    return hints


def _anthropic(wire: WireTool, *, defer: bool = False) -> dict[str, Any]:
    out: dict[str, Any] = {
        "name": wire.alias,
        "description": wire.description,
        "input_schema": copy_json(wire.parameters),
    }
    if defer:
        out["defer_loading"] = True
    return out


def _openai(wire: WireTool) -> dict[str, Any]:
    function: dict[str, Any] = {
        "name": wire.alias,
        "description": wire.description,
        "parameters": copy_json(wire.parameters),
    }
    if wire.strict:
        function["strict"] = True
    return {"type": "function", "function": function}


def _gemini(wire: WireTool) -> dict[str, Any]:
    return {"name": wire.alias, "description": wire.description, "parametersJsonSchema": copy_json(wire.parameters)}


def _responses(wire: WireTool, *, defer: bool = False) -> dict[str, Any]:
    out: dict[str, Any] = {
        "type": "function",
        "name": wire.alias,
        "description": wire.description,
        "parameters": copy_json(wire.parameters),
        "strict": wire.strict,
    }
    if defer:
        out["defer_loading"] = True
    return out


# ---------------------------------------------------------------- many tools


class Fit(Protocol):
    """Has the shape of `wire_tool`."""

    def __call__(self, spec: ToolSpec, dialect: Dialect, *, strict: Strictness, alias: str) -> WireTool: ...


class Toolset:
    """The tools of one request to one provider, and the way back for its calls.

    Args:
        dialect: "anthropic", "openai" or "gemini".
        specs: tools in the order in which they are sent.
        strict: see `wire_tool`.
        defer_threshold: with more tools than this, `tool_search` comes first and the rest is
            deferred; None never defers. Beyond the provider's own limit tools are left out of
            the request in any case, and `deferred` names them.
        fit: makes one form; the registry passes one that remembers.

    Attributes:
        sent: what the request carries, in order; its length is the number to show.
        deferred: names that are not sent, or sent as deferred.
        problems: tools that could not be fitted, with the reason.
    """

    def __init__(
        self,
        dialect: Dialect,
        specs: Iterable[ToolSpec],
        *,
        strict: Strictness = "auto",
        defer_threshold: int | None = None,
        fit: Fit = wire_tool,
    ) -> None:
        given = list(specs)
        self.dialect: Dialect = dialect
        self.provider = PROVIDERS[dialect]
        self.aliases = Aliases(self.provider, [s.name for s in given])
        self.problems: dict[str, str] = {}
        self._wires: dict[str, WireTool] = {}
        for spec in given:
            try:
                self._wires[spec.name] = fit(spec, dialect, strict=strict, alias=self.aliases.alias(spec.name))
            except SchemaError as error:
                self.problems[spec.name] = error.message
        self._plan([s for s in given if s.name in self._wires], defer_threshold)

    def _plan(self, specs: Sequence[ToolSpec], threshold: int | None) -> None:
        others = [s for s in specs if s.name != SEARCH]
        limit = self.provider.max_tools
        over = limit is not None and len(specs) > limit
        if not over and (threshold is None or len(others) <= threshold):
            self.sent = [self._wires[s.name] for s in specs]
            self.deferred: tuple[str, ...] = ()
            return
        own = next((s for s in specs if s.name == SEARCH), _SEARCH_SPEC)
        search = wire_tool(_with_categories(own, others), self.dialect)
        room = len(others) if limit is None else limit - 1
        keeps = self.dialect == "anthropic" or not (threshold is not None and len(others) > threshold)
        shown = others[:room] if keeps else []
        self._wires[SEARCH] = search
        self.sent = [search, *(self._wires[s.name] for s in shown)]
        if threshold is not None and len(others) > threshold:
            self.deferred = tuple(s.name for s in others)
        else:
            self.deferred = tuple(s.name for s in others[room:])

    @property
    def tools(self) -> list[dict[str, Any]]:
        """The definitions to send, in the provider's form (OpenAI: Chat Completions)."""
        hidden = set(self.deferred)
        if self.dialect == "anthropic":
            return [_anthropic(w, defer=w.name in hidden) for w in self.sent]
        if self.dialect == "gemini":
            return [_gemini(w) for w in self.sent]
        return [_openai(w) for w in self.sent]

    @property
    def responses_tools(self) -> list[dict[str, Any]]:
        """The definitions in the form of OpenAI's Responses API."""
        return [_responses(w) for w in self.sent]

    def decode(self, name: str, arguments: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """A model's call with the original names; an unknown name comes back as it is.

        Raises:
            InvalidArguments: see `ArgumentCodec.decode`.
        """
        original = self.aliases.original(name) or name
        wire = self._wires.get(original)
        return original, wire.codec.decode(arguments) if wire else dict(arguments)

    def encode(self, name: str, arguments: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """A recorded call as this provider saw it, for the history."""
        wire = self._wires.get(name)
        return self.aliases.alias(name), wire.codec.encode(arguments) if wire else dict(arguments)


_SEARCH_SPEC = ToolSpec(
    name=SEARCH,
    description="Find tools by what they do. Describe the task in plain words; returns the best matching tools.",
    parameters={
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "What the tool should do, in plain words.", "minLength": 1},
            "limit": {"type": "integer", "minimum": 1, "maximum": 20, "default": 5},
        },
        "required": ["query"],
        "additionalProperties": False,
    },
    effects=frozenset({Effect.READ}),
    category="discovery",
)


def _with_categories(search: ToolSpec, others: Sequence[ToolSpec]) -> ToolSpec:
    groups: dict[str, int] = {}
    for spec in others:
        group = spec.server or spec.category
        groups[group] = groups.get(group, 0) + 1
    named = [f"{group} ({count})" for group, count in sorted(groups.items())]
    more = f", and {len(named) - 40} more" if len(named) > 40 else ""
    text = f"{search.description}\n\n{len(others)} tools can be found, by category: {', '.join(named[:40])}{more}."
    return replace(search, description=text)
