"""What each provider accepts, as data, and a schema fitted to it.

Sources: the providers' API references and their error messages, as of 2026. Anthropic:
`input_schema` must be an object without `oneOf`/`anyOf`/`allOf` at the top, without `$ref`
for some endpoints, keys of `[A-Za-z0-9_.-]{1,64}`. OpenAI: names of `[A-Za-z0-9_-]{1,64}`, at
most 128 functions, arrays need `items`. Gemini: names start with a letter or `_`. MCP:
`[A-Za-z0-9_.-]{1,128}`.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Literal, cast

from .combine import flatten_root, merge_all_of
from .dialect import IN_LIST, IN_MAP, IN_ONE, Json
from .refs import inline
from .validation import check_schema

__all__ = ["PROVIDERS", "Dialect", "Provider", "normalise"]

Dialect = Literal["anthropic", "openai", "gemini", "mcp"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """Limits of one provider.

    Attributes:
        name: the dialect.
        name_length: characters of a tool's name.
        name_chars: characters a name may have, as a regex class.
        name_start: what its first character must be, as a regex class.
        key_chars: characters of a property name, as a regex class; None: any.
        key_length: characters of a property name.
        key_start: what its first character must be.
        max_tools: definitions in one request; None: no limit of its own.
        tuples: True when `prefixItems` is understood.
        formats: values of `format` it accepts; None: any.
        max_enum: values of one `enum` that are spelled out; more are described.
    """

    name: Dialect
    name_length: int
    name_chars: str = "A-Za-z0-9_-"
    name_start: str = "A-Za-z0-9_-"
    key_chars: str | None = None
    key_length: int = 64
    key_start: str = "A-Za-z0-9_.-"
    max_tools: int | None = None
    tuples: bool = False
    formats: frozenset[str] | None = None
    max_enum: int = 1000


PROVIDERS: dict[str, Provider] = {
    "anthropic": Provider(name="anthropic", name_length=128, key_chars="A-Za-z0-9_.-", tuples=True),
    "openai": Provider(name="openai", name_length=64, max_tools=128),
    "gemini": Provider(
        name="gemini",
        name_length=64,
        name_start="A-Za-z_",
        key_chars="A-Za-z0-9_",
        key_start="A-Za-z_",
        max_tools=128,
        formats=frozenset(("date-time", "enum", "int32", "int64", "float", "double")),
    ),
    "mcp": Provider(name="mcp", name_length=128, name_chars="A-Za-z0-9_.-", name_start="A-Za-z0-9_.-", tuples=True),
}
"""One row per provider; a new provider is a new row."""


def normalise(schema: Any, dialect: Dialect = "anthropic") -> Json:
    """The schema of an arguments object in the form `dialect` accepts; the source is not changed.

    The result allows what the source allows. Rules that the form cannot express are sentences
    in the root's `description`. For "mcp" the schema is brought to 2020-12 only.

    Raises:
        SchemaError: the schema cannot be used; says where and why.
    """
    modern = check_schema(schema)
    if dialect == "mcp":
        return modern
    provider = PROVIDERS[dialect]
    root, rules = flatten_root(inline(modern))
    fitted = _Fitter(provider).fit(root)
    assert isinstance(fitted, dict)
    out = cast(Json, fitted)
    for name in cast("list[str]", out.get("required", [])):
        out.setdefault("properties", {}).setdefault(name, {})
    out = {"type": "object", "properties": out.pop("properties", {}), **{k: v for k, v in out.items() if k != "type"}}
    text = " ".join(dict.fromkeys(rules))
    if text:
        own = out.get("description")
        out["description"] = f"{own} {text}" if isinstance(own, str) and own else text
    return out


_KEPT_AS_DATA = ("const", "enum", "default", "examples", "required", "dependentRequired")


class _Fitter:
    def __init__(self, provider: Provider) -> None:
        self.provider = provider

    def fit(self, node: Any) -> Any:
        """One subschema and everything below it."""
        if not isinstance(node, dict):
            return node
        schema = merge_all_of(cast(Json, node))
        out: Json = {}
        for key, value in schema.items():
            if key.startswith(("x-", "$")) or key == "example":
                continue
            if key in IN_MAP and isinstance(value, dict):
                named = {name: self.fit(sub) for name, sub in cast(Json, value).items()}
                out[key] = {n: {} if s is True else s for n, s in named.items() if s is not False}
            elif key in IN_LIST and isinstance(value, list):
                fitted = [self.fit(sub) for sub in cast("list[Any]", value)]
                out[key] = [{} if s is True else s for s in fitted if s is not False or key == "prefixItems"]
            elif key in IN_ONE:
                out[key] = self.fit(value)
            else:
                out[key] = value
        for key in ("anyOf", "oneOf"):
            if out.get(key) == []:
                del out[key]
        self._array(out)
        self._values(out)
        return out

    def _array(self, s: Json) -> None:
        if not self.provider.tuples and "prefixItems" in s:
            _loosen_tuple(s)
        kind = s.get("type")
        is_array = kind == "array" or (isinstance(kind, list) and "array" in kind)
        if s.get("items") is True or (is_array and "items" not in s):
            s["items"] = {}

    def _values(self, s: Json) -> None:
        enum = s.get("enum")
        if isinstance(enum, list) and len(cast("list[Any]", enum)) > self.provider.max_enum:
            values = cast("list[Any]", s.pop("enum"))
            shown = ", ".join(json.dumps(v, ensure_ascii=False) for v in values[:20])
            _say(s, f"One of {len(values)} values, such as {shown}.")
        formats = self.provider.formats
        if formats is not None and isinstance(s.get("format"), str) and s["format"] not in formats:
            _say(s, f"Format: {s.pop('format')}.")


def _loosen_tuple(s: Json) -> None:
    """A tuple as an array of any of its members, with its length."""
    members = cast("list[Any]", s.pop("prefixItems"))
    rest = s.pop("items", True)
    if rest is False:
        s["maxItems"] = min(len(members), s.get("maxItems", len(members)))
    forms: list[Any] = [m for m in members if isinstance(m, dict)]
    if rest is True or len(forms) < len(members):
        s["items"] = {}
    else:
        options = [*forms, rest] if isinstance(rest, dict) else forms
        unique = list({json.dumps(o, sort_keys=True, default=str): o for o in options}.values())
        s["items"] = unique[0] if len(unique) == 1 else {"anyOf": unique}
    described = ", ".join(_kind(m) for m in members)
    _say(s, f"In this order: {described}.")


def _kind(member: Any) -> str:
    if not isinstance(member, dict):
        return "any"
    schema = cast(Json, member)
    name = schema.get("title") or schema.get("description") or schema.get("type") or "any"
    return re.sub(r"\s+", " ", str(name))[:60]


def _say(s: Json, text: str) -> None:
    own = s.get("description")
    s["description"] = f"{own} {text}" if isinstance(own, str) and own else text
