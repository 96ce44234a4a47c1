"""Any JSON Schema dialect a tool may come with, brought to 2020-12.

Servers send draft-04 to draft-07, OpenAPI's `nullable`, half of each, and small mistakes
(`properties: []`, `type: "STRING"`). What has one clear meaning is rewritten; the source
schema is never changed in place. What has none is a `SchemaError`, and the tool is
quarantined by the registry.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

import jsonschema_rs

from ...core.errors import ConfigError

__all__ = ["IN_LIST", "IN_MAP", "IN_ONE", "Json", "SchemaError", "compile_schema", "copy_json", "modernise"]

Json = dict[str, Any]

TYPES = ("object", "array", "string", "number", "integer", "boolean", "null")
MAX_DEPTH = 100
"""Levels of nesting a schema may have; real ones have fewer than 20."""
MAX_NODES = 20_000
"""Subschemas of one schema; real ones have fewer than 2,000."""

IN_MAP = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
IN_LIST = ("allOf", "anyOf", "oneOf", "prefixItems")
IN_ONE = (
    "items",
    "additionalProperties",
    "additionalItems",
    "not",
    "if",
    "then",
    "else",
    "contains",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
    "contentSchema",
)
_VALUES = ("const", "default", "enum", "example", "examples")
_PATTERNS = jsonschema_rs.FancyRegexOptions(backtrack_limit=100_000, size_limit=2_000_000, dfa_size_limit=2_000_000)


class SchemaError(ConfigError):
    """A schema that cannot be used; `path` is where, as a JSON pointer."""

    code = "bad_schema"

    def __init__(self, message: str, *, path: str = "") -> None:
        super().__init__(f"{message} (at #{path})" if path else message, fix="correct the schema at its source")
        self.path = path


def _no_network(uri: str) -> Any:
    raise ValueError(f"references to other documents are not followed: {uri}")


def compile_schema(schema: Json) -> jsonschema_rs.Draft202012Validator:
    """Compile a 2020-12 schema; nothing is fetched, backtracking of patterns is bounded.

    Raises:
        SchemaError: it violates the meta-schema or a reference leads nowhere.
    """
    try:
        return jsonschema_rs.Draft202012Validator(
            schema, validate_formats=True, retriever=_no_network, pattern_options=_PATTERNS
        )
    except jsonschema_rs.ValidationError as error:
        path = "".join(f"/{part}" for part in error.instance_path)
        message = error.message.splitlines()[0][:300]
        if message.startswith("Pointer"):
            message = f"dangling reference: {message}"
        raise SchemaError(message, path=path) from error
    except (jsonschema_rs.ReferencingError, ValueError, RecursionError) as error:
        raise SchemaError(str(error).splitlines()[0][:300]) from error


def modernise(schema: Any, *, root: bool = True) -> Json:
    """The same schema as 2020-12; with `root`, as the schema of an arguments object.

    Raises:
        SchemaError: no clear meaning, too deep, too large, or the root is not an object.
    """
    if schema is True and root:
        schema = {}
    if not isinstance(schema, Mapping):
        raise SchemaError(f"the schema must be a JSON object, not {_kind(schema)}")
    result = _Moderniser().walk(cast(Mapping[str, Any], schema), "", 0)
    assert isinstance(result, dict)
    return _as_arguments(result) if root else result


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    names = {bool: "boolean", str: "string", int: "number", float: "number", list: "array", dict: "object"}
    return names.get(cast("type[Any]", type(value)), type(value).__name__)


def _as_arguments(schema: Json) -> Json:
    kind = schema.get("type")
    if kind is None:
        return {"type": "object", **schema}
    if kind == "object":
        return schema
    if isinstance(kind, list) and "object" in kind:
        return {**schema, "type": "object"}
    raise SchemaError(f"arguments are an object, but the schema is of type {kind!r}", path="/type")


class _Moderniser:
    def __init__(self) -> None:
        self.nodes = 0

    def walk(self, schema: Any, path: str, depth: int) -> Any:
        if isinstance(schema, bool):
            return schema
        if not isinstance(schema, Mapping):
            raise SchemaError(f"a schema must be an object or a boolean, not {_kind(schema)}", path=path)
        self.nodes += 1
        if depth > MAX_DEPTH or self.nodes > MAX_NODES:
            raise SchemaError(f"the schema is deeper than {MAX_DEPTH} levels or larger than {MAX_NODES} parts")
        out: Json = {}
        for key, value in cast(Mapping[Any, Any], schema).items():
            if not isinstance(key, str):
                raise SchemaError(f"keys must be strings, not {_kind(key)}", path=path)
            if value is None and key not in _VALUES:
                continue
            out[key] = self._inside(key, value, f"{path}/{_escape(key)}", depth + 1)
        for rewrite in _REWRITES:
            out = rewrite(out)
        return out

    def _inside(self, key: str, value: Any, path: str, depth: int) -> Any:
        if key in IN_MAP:
            if value == []:
                return {}
            if not isinstance(value, Mapping):
                raise SchemaError(f"{key} must be an object, not {_kind(value)}", path=path)
            named = cast(Mapping[Any, Any], value)
            if any(not isinstance(name, str) for name in named):
                raise SchemaError(f"names in {key} must be strings", path=path)
            return {name: self.walk(sub, f"{path}/{_escape(name)}", depth) for name, sub in named.items()}
        if (key in IN_LIST or key == "items") and isinstance(value, list | tuple):
            items = cast("list[Any]", value)
            return [self.walk(sub, f"{path}/{at}", depth) for at, sub in enumerate(items)]
        if key in IN_ONE:
            return self.walk(value, path, depth)
        if key == "dependencies" and isinstance(value, Mapping):
            named = cast(Mapping[str, Any], value)
            return {
                name: list(cast("list[Any]", sub)) if isinstance(sub, list | tuple) else self.walk(sub, path, depth)
                for name, sub in named.items()
            }
        return value


def copy_json(value: Any) -> Any:
    """A deep copy of a JSON value, several times faster than `copy.deepcopy`."""
    if isinstance(value, dict):
        return {key: copy_json(sub) for key, sub in cast(Json, value).items()}
    if isinstance(value, list | tuple):
        return [copy_json(sub) for sub in cast("list[Any]", value)]
    return value


def _escape(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def _identity(s: Json) -> Json:
    s.pop("$schema", None)
    s.pop("$vocabulary", None)
    for key in ("id", "$id"):
        value = s.get(key)
        if not isinstance(value, str):
            if key == "$id":
                s.pop(key, None)
            continue
        if value.startswith("#"):
            del s[key]
            if value[1:]:
                s.setdefault("$anchor", value[1:])
        elif key == "id":
            del s[key]
            s.setdefault("$id", value)
    if "$id" in s and any(c.isspace() or c in '<>"{}|\\^`' for c in s["$id"]):
        del s["$id"]
    if "$recursiveRef" in s:
        s.setdefault("$ref", s.pop("$recursiveRef"))
    s.pop("$recursiveAnchor", None)
    return s


def _types(s: Json) -> Json:
    kind = s.get("type")
    if isinstance(kind, str):
        low = kind.lower()
        if low == "any":
            del s["type"]
        elif low in TYPES:
            s["type"] = low
    elif isinstance(kind, list | tuple):
        given = cast("list[Any]", kind)
        if "any" in given:
            del s["type"]
        else:
            low = [k.lower() if isinstance(k, str) and k.lower() in TYPES else k for k in given]
            s["type"] = list(dict.fromkeys(low)) if all(isinstance(k, str) for k in low) else low
    return s


def _bounds(s: Json) -> Json:
    for exclusive, plain in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        flag = s.get(exclusive)
        if isinstance(flag, bool):
            del s[exclusive]
            if flag and plain in s:
                s[exclusive] = s.pop(plain)
    return s


def _tuples(s: Json) -> Json:
    if isinstance(s.get("items"), list):
        s["prefixItems"] = s.pop("items")
        if not s["prefixItems"]:
            del s["prefixItems"]
        if "additionalItems" in s:
            s["items"] = s.pop("additionalItems")
    s.pop("additionalItems", None)
    for key in IN_LIST:
        if s.get(key) == []:  # not allowed; generators mean "none" by it
            del s[key]
    return s


def _required(s: Json) -> Json:
    """Draft-03 and OpenAPI 2 mark the property itself; doubles are not allowed in 2020-12."""
    if isinstance(s.get("required"), bool):
        s["x-required"] = s.pop("required")
    properties = s.get("properties")
    marked: list[str] = []
    if isinstance(properties, dict):
        for name, sub in cast("dict[str, Any]", properties).items():
            if isinstance(sub, dict) and "x-required" in sub and cast(Json, sub).pop("x-required"):
                marked.append(name)
    listed = s.get("required")
    if isinstance(listed, list | tuple):
        names = cast("list[Any]", listed)
        if all(isinstance(n, str) for n in names):
            s["required"] = list(dict.fromkeys([*names, *marked]))
    elif marked:
        s["required"] = marked
    return s


def _dependencies(s: Json) -> Json:
    given = s.get("dependencies")
    if not isinstance(given, dict):
        return s
    del s["dependencies"]
    for name, rule in cast("dict[str, Any]", given).items():
        target = "dependentRequired" if isinstance(rule, list) else "dependentSchemas"
        s.setdefault(target, {})[name] = rule
    return s


def _nullable(s: Json) -> Json:
    flag = s.pop("nullable", None) if isinstance(s.get("nullable"), bool) else None
    if not flag:
        return s
    if isinstance(s.get("enum"), list) and None not in s["enum"]:
        s["enum"] = [*s["enum"], None]
    if "const" in s and s["const"] is not None:
        s["enum"] = [s.pop("const"), None]
    kind = s.get("type")
    if isinstance(kind, str) and kind != "null":
        s["type"] = [kind, "null"]
    elif isinstance(kind, list) and "null" not in kind:
        s["type"] = [*cast("list[Any]", kind), "null"]
    return _null_branch(s)


def _null_branch(s: Json) -> Json:
    for key in ("anyOf", "oneOf"):
        if isinstance(s.get(key), list) and {"type": "null"} not in s[key]:
            s[key] = [*s[key], {"type": "null"}]
    moved = {key: s.pop(key) for key in ("$ref", "allOf", "not", "if", "then", "else") if key in s}
    if moved:
        if "anyOf" in s:
            s["anyOf"] = [{**moved, "anyOf": s["anyOf"]}, {"type": "null"}]
        else:
            s["anyOf"] = [moved, {"type": "null"}]
    return s


def _patterns(s: Json) -> Json:
    """A pattern in another regex dialect cannot be checked here; it stays readable in the description."""
    pattern = s.get("pattern")
    if isinstance(pattern, str) and not _compiles(pattern):
        del s["pattern"]
        text = s.get("description")
        note = f"Pattern: {pattern[:200]}"
        s["description"] = f"{text} ({note})" if isinstance(text, str) and text else note
    by_pattern = s.get("patternProperties")
    if isinstance(by_pattern, dict):
        named = cast(Json, by_pattern)
        bad = [name for name in named if not _compiles(name)]
        for name in bad:
            del named[name]
        if bad and "additionalProperties" in s:
            del s["additionalProperties"]
    return s


def _compiles(pattern: str) -> bool:
    try:
        jsonschema_rs.Draft202012Validator({"pattern": pattern}, pattern_options=_PATTERNS)
    except (jsonschema_rs.ValidationError, ValueError):
        return False
    return True


_REWRITES: tuple[Callable[[Json], Json], ...] = (
    _identity,
    _types,
    _bounds,
    _tuples,
    _required,
    _dependencies,
    _nullable,
    _patterns,
)
