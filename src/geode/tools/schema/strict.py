"""OpenAI's strict mode: only for a schema every part of which qualifies.

Strict mode requires every property and forbids others; an optional argument becomes
required and nullable, and its `null` is taken back as "absent" (`formats.py`). A schema
with anything outside the supported subset is not sent as strict.
"""

from __future__ import annotations

from typing import Any, cast

from .dialect import Json

__all__ = ["strict_form"]

MAX_PROPERTIES = 5000
MAX_DEPTH = 10
MAX_ENUM = 1000
MAX_TEXT = 120_000
"""Characters of all property names, enum and const values together."""
MAX_ENUM_TEXT = 15_000
"""Characters of one enum with more than 250 values."""

_FORMATS = frozenset(("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"))
_COMMON = frozenset(("type", "description", "title", "enum", "const", "anyOf", "default", "examples", "deprecated"))
_BY_TYPE = {
    "object": frozenset(("properties", "required", "additionalProperties")),
    "array": frozenset(("items", "minItems", "maxItems")),
    "string": frozenset(("pattern", "format")),
    "number": frozenset(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")),
    "integer": frozenset(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")),
    "boolean": frozenset[str](),
    "null": frozenset[str](),
}
_LOOKAROUND = ("(?=", "(?!", "(?<=", "(?<!")


class _NotStrict(Exception):
    """Carries the reason."""


def strict_form(schema: Json) -> tuple[Json | None, str]:
    """The strict form of a schema normalised for OpenAI.

    Returns:
        `(form, "")`, or `(None, reason)` when some part does not qualify.
    """
    worker = _Strict()
    try:
        form = worker.convert(schema, 0, "$")
        worker.limits()
    except _NotStrict as reason:
        return None, str(reason)
    return form, ""


class _Strict:
    def __init__(self) -> None:
        self.properties = 0
        self.enums = 0
        self.text = 0

    def limits(self) -> None:
        for name, value, limit in (
            ("properties", self.properties, MAX_PROPERTIES),
            ("enum values", self.enums, MAX_ENUM),
            ("characters of names and values", self.text, MAX_TEXT),
        ):
            if value > limit:
                raise _NotStrict(f"{value} {name}, more than {limit}")

    def convert(self, node: Any, depth: int, where: str) -> Json:
        if not isinstance(node, dict):
            raise _NotStrict(f"{where}: a boolean schema")
        schema = cast(Json, node)
        if depth > MAX_DEPTH:
            raise _NotStrict(f"deeper than {MAX_DEPTH} levels")
        kinds = self._kinds(schema, where)
        allowed = _COMMON.union(*(_BY_TYPE[k] for k in kinds))
        outside = sorted(set(schema) - allowed)
        if outside:
            raise _NotStrict(f"{where}: {', '.join(outside)}")
        out = {k: v for k, v in schema.items() if k not in ("default", "examples", "deprecated")}
        self._count(schema, where)
        if "default" in schema and schema["default"] is not None:
            text = f"Default: {_show(schema['default'])}."
            out["description"] = f"{out['description']} {text}" if out.get("description") else text
        if schema.get("format") is not None and schema["format"] not in _FORMATS:
            raise _NotStrict(f"{where}: format {schema['format']}")
        if any(mark in str(schema.get("pattern", "")) for mark in _LOOKAROUND):
            raise _NotStrict(f"{where}: a pattern with look-around")
        if "anyOf" in schema:
            if depth == 0:
                raise _NotStrict("anyOf at the root")
            out["anyOf"] = [self.convert(s, depth, f"{where}|{at}") for at, s in enumerate(schema["anyOf"])]
        if "array" in kinds:
            out["items"] = self.convert(schema.get("items", True), depth + 1, f"{where}[]")
        if "object" in kinds:
            self._object(schema, out, depth, where)
        return out

    def _kinds(self, schema: Json, where: str) -> list[str]:
        kind = schema.get("type")
        kinds = cast("list[str]", kind) if isinstance(kind, list) else [kind] if isinstance(kind, str) else []
        if any(k not in _BY_TYPE for k in kinds):
            raise _NotStrict(f"{where}: type {kind}")
        if not kinds and not ("anyOf" in schema or "enum" in schema or "const" in schema):
            raise _NotStrict(f"{where}: no type")
        if len([k for k in kinds if k in ("object", "array")]) and len(kinds) > 2:
            raise _NotStrict(f"{where}: several types with an object or array")
        return kinds

    def _count(self, schema: Json, where: str) -> None:
        values = cast("list[Any]", schema.get("enum", []))
        if any(isinstance(v, dict | list) for v in [*values, schema.get("const")]):
            raise _NotStrict(f"{where}: an object or array as fixed value")
        length = sum(len(str(v)) for v in values) + len(str(schema.get("const", "")))
        if len(values) > 250 and length > MAX_ENUM_TEXT:
            raise _NotStrict(f"{where}: a long enum of {len(values)} values")
        self.enums += len(values)
        self.text += length

    def _object(self, schema: Json, out: Json, depth: int, where: str) -> None:
        if schema.get("additionalProperties") is not False:
            raise _NotStrict(f"{where}: other properties are allowed")
        named = cast(Json, schema.get("properties", {}))
        required = set(cast("list[str]", schema.get("required", [])))
        self.properties += len(named)
        self.text += sum(map(len, named))
        converted: Json = {}
        for name, sub in named.items():
            form = self.convert(sub, depth + 1, f"{where}.{name}")
            converted[name] = form if name in required else _optional(form, cast(Json, sub), f"{where}.{name}")
        out["properties"] = converted
        out["required"] = list(named)


def _optional(form: Json, source: Json, where: str) -> Json:
    """Null for "absent"; refused when null already means something else there."""
    if takes_null(source):
        if source.get("default") is not None:
            raise _NotStrict(f"{where}: null and absent differ")
        return form
    kind = form.get("type")
    if "anyOf" in form:
        return {**form, "anyOf": [*form["anyOf"], {"type": "null"}]}
    if "const" in form:
        plain = {k: v for k, v in form.items() if k != "description"}
        told = {"description": form["description"]} if "description" in form else {}
        return {**told, "anyOf": [plain, {"type": "null"}]}
    out = dict(form)
    if kind is not None:
        out["type"] = [*cast("list[Any]", kind), "null"] if isinstance(kind, list) else [kind, "null"]
    if "enum" in form:
        out["enum"] = [*form["enum"], None]
    return out


def takes_null(schema: Json) -> bool:
    """True when `null` is a value the schema allows."""
    kind = schema.get("type")
    if kind is not None and kind != "null" and not (isinstance(kind, list) and "null" in kind):
        return False
    if "const" in schema:
        return schema["const"] is None
    if "enum" in schema:
        return None in schema["enum"]
    if "anyOf" in schema:
        return any(isinstance(s, dict) and takes_null(cast(Json, s)) for s in schema["anyOf"])
    return True


def _show(value: Any) -> str:
    text = repr(value) if not isinstance(value, str) else f'"{value}"'
    return {"True": "true", "False": "false", "None": "null"}.get(text, text)[:100]
