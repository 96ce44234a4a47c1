"""Schemas combined: `allOf` merged into one, alternatives at the root flattened.

Providers refuse `anyOf`, `oneOf` and `allOf` at the root of a tool's schema. The flattened
form has the arguments of every alternative, each with the schema it has where it is named;
the rule that is lost as a schema is kept as a sentence. The source itself is checked before
the call.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, cast

from .dialect import Json

__all__ = ["flatten_root", "merge", "merge_all_of"]

_LARGEST = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
_SMALLEST = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
_FIRST = ("title", "default", "examples", "format", "$comment", "deprecated", "readOnly", "writeOnly")


_GROUPS = (("if", "then", "else"), ("contains", "minContains", "maxContains"))
"""Keywords that mean something only together."""


def _same(x: Any, y: Any) -> bool:
    return x == y and type(x) is type(y)


def _unique(values: Iterable[Any]) -> list[Any]:
    """Without doubles; `1`, `1.0` and `true` are told apart."""
    out: list[Any] = []
    seen: set[str] = set()
    for value in values:
        key = json.dumps(value, sort_keys=True, default=str)
        if key not in seen:
            seen.add(key)
            out.append(value)
    return out


def merge(a: Any, b: Any) -> Any:
    """One schema that both `a` and `b` allow; what cannot be merged stays in `allOf`."""
    if a is False or b is False:
        return False
    if not isinstance(a, dict) or not a:
        return {} if b is True else b
    if not isinstance(b, dict) or not b:
        return cast(Any, a)
    out: Json = dict(cast(Json, a))
    other = cast(Json, b)
    apart = {
        key
        for group in _GROUPS
        if any(k in out for k in group) and {k: out.get(k) for k in group} != {k: other.get(k) for k in group}
        for key in group
    }
    rest: Json = {}
    for key, value in other.items():
        if key in apart:
            rest[key] = value
            continue
        if key not in out or _same(out[key], value):
            out[key] = value
            continue
        merged = _merge_key(key, out[key], value)
        if merged is None:
            rest[key] = value
        else:
            out[key] = merged
    if rest:
        out["allOf"] = [*out.get("allOf", []), rest]
    return out


def _merge_key(key: str, x: Any, y: Any) -> Any:
    """The value of one keyword that stands for both; None when there is none."""
    if key == "type":
        return _common_types(x, y)
    if key in ("properties", "patternProperties", "$defs", "dependentSchemas"):
        return {**x, **{name: merge(x[name], sub) if name in x else sub for name, sub in y.items()}}
    if key == "required":
        return _unique([*x, *y])
    if key == "enum":
        common = [v for v in x if v in y]
        return common or None
    if key in ("items", "additionalProperties", "propertyNames"):
        return merge(x, y)
    if key in _LARGEST or key in _SMALLEST:
        numbers = isinstance(x, int | float) and isinstance(y, int | float)
        return (max(x, y) if key in _LARGEST else min(x, y)) if numbers else None
    if key == "allOf":
        return [*x, *y]
    if key == "description":
        return f"{x} {y}" if isinstance(x, str) and isinstance(y, str) else x
    if key in _FIRST:
        return x
    return None


def _common_types(x: Any, y: Any) -> Any:
    left = x if isinstance(x, list) else [x]
    right = cast("list[Any]", y) if isinstance(y, list) else [y]
    common = [t for t in cast("list[Any]", left) if t in right or (t == "integer" and "number" in right)]
    if "number" in left and "integer" in right and "integer" not in common:
        common.append("integer")
    if not common:
        return None
    return common[0] if len(common) == 1 else common


def merge_all_of(schema: Json) -> Json:
    """`allOf` of this one schema merged into it as far as that is possible."""
    parts = schema.get("allOf")
    if not isinstance(parts, list):
        return schema
    out: Any = {k: v for k, v in schema.items() if k != "allOf"}
    own = out.get("description")
    for part in cast("list[Any]", parts):
        nested = merge_all_of(cast(Json, part)) if isinstance(part, dict) else part
        out = merge(out, nested)
        if out is False:
            return {"not": {}}
    if own is not None:
        out["description"] = own
    return out


# ---------------------------------------------------------------- the root


def flatten_root(schema: Json) -> tuple[Json, list[str]]:
    """An arguments schema without alternatives at its root, and the sentences for what was lost.

    Args:
        schema: without references.
    """
    rules: list[str] = []
    root = merge_all_of(schema)
    for part in cast("list[Any]", root.pop("allOf", None) or []):
        # what could not be merged: its properties are shown, the rest is a sentence
        if isinstance(part, dict):
            loose, more = flatten_root(cast(Json, part))
            root = _absorb(root, [loose], required=True)
            rules += more
            odd = {k: v for k, v in loose.items() if k not in ("properties", "required", "type", "description")}
            if odd:
                rules.append(f"Also: {_short(odd)}.")
    for key in ("anyOf", "oneOf"):
        branches = root.pop(key, None)
        if isinstance(branches, list):
            root, said = _alternatives(root, cast("list[Any]", branches), exactly=key == "oneOf")
            rules += said
    condition = root.pop("if", None)
    outcomes = {key: root.pop(key) for key in ("then", "else") if key in root}
    if condition is not None and outcomes:
        objects = [flatten_root(cast(Json, o))[0] for o in outcomes.values() if isinstance(o, dict)]
        root = _absorb(root, objects if len(objects) == 2 else [*objects, {}], required=False)
        said = ", ".join(f"{key} {_short(value)}" for key, value in outcomes.items())
        rules.append(f"If the arguments satisfy {_short(condition)}, {said}.")
    for key, words in (("not", "Not allowed"), ("enum", "The arguments are one of"), ("const", "The arguments are")):
        if key in root:
            rules.append(f"{words}: {_short(root.pop(key))}.")
    return root, rules


def _alternatives(root: Json, branches: list[Any], *, exactly: bool) -> tuple[Json, list[str]]:
    flat: list[tuple[Json, list[str]]] = []
    for branch in branches:
        if isinstance(branch, dict) and _may_be_object(cast(Json, branch)):
            flat.append(flatten_root(cast(Json, branch)))
    rules = [rule for _, said in flat for rule in said]
    objects = [branch for branch, _ in flat]
    if not objects:
        return root, rules
    return _absorb(root, objects, required=False), [*rules, _rule(objects, exactly)]


def _may_be_object(branch: Json) -> bool:
    kind = branch.get("type", "object")
    return kind == "object" or (isinstance(kind, list) and "object" in kind)


def _absorb(root: Json, branches: list[Json], *, required: bool) -> Json:
    """The properties of all branches beside those of `root`; `required`: the branches hold for sure."""
    properties: Json = dict(root.get("properties", {}))
    for name in _unique(name for b in branches for name in b.get("properties", {})):
        forms = [b["properties"][name] for b in branches if name in b.get("properties", {})]
        form = _either(forms)
        properties[name] = merge(properties[name], form) if name in properties else form
    out = {**root, "properties": properties}
    sets = [set(cast("list[str]", b.get("required", []))) for b in branches]
    sure = set[str]().union(*sets) if required else set[str].intersection(*sets) if sets else set[str]()
    names = _unique([*cast("list[str]", root.get("required", [])), *sorted(sure)])
    if names:
        out["required"] = names
    closed = all(b.get("additionalProperties") is False and "patternProperties" not in b for b in branches)
    if "additionalProperties" not in root and closed:
        out["additionalProperties"] = False
    return out


def _either(forms: list[Any]) -> Any:
    """One schema that allows what any of `forms` allows."""
    distinct = _unique(forms)
    if len(distinct) == 1:
        return distinct[0]
    values = [_values(f) for f in distinct]
    if all(v is not None for v in values):
        merged: Json = {"enum": _unique(x for v in values for x in v or [])}
        kinds = _unique(f.get("type") for f in distinct)
        if len(kinds) == 1 and kinds[0] is not None:
            merged["type"] = kinds[0]
        texts = _unique(f["description"] for f in distinct if isinstance(f.get("description"), str))
        if texts:
            merged["description"] = " / ".join(texts)
        return merged
    return {"anyOf": distinct}


def _values(form: Any) -> list[Any] | None:
    if not isinstance(form, dict) or not set(cast(Json, form)) <= {"const", "enum", "type", "description", "title"}:
        return None
    schema = cast(Json, form)
    if "const" in schema:
        return [schema["const"]]
    return cast("list[Any] | None", schema.get("enum"))


def _rule(branches: list[Json], exactly: bool) -> str:
    if not any(b.get("properties") for b in branches) and any(b.get("required") for b in branches):
        groups = ["no further one" if not b.get("required") else " + ".join(_quoted(b["required"])) for b in branches]
        return f"Give {'exactly one' if exactly else 'at least one'} of: {'; '.join(groups)}."
    forms = [f"({at}) {_form(branch)}" for at, branch in enumerate(branches[:20], 1)]
    more = f"; and {len(branches) - 20} more" if len(branches) > 20 else ""
    head = "The arguments have exactly one of these forms" if exactly else "The arguments have one of these forms"
    return f"{head}: {'; '.join(forms)}{more}."


def _form(branch: Json) -> str:
    named = cast(Json, branch.get("properties", {}))
    required = set(cast("list[str]", branch.get("required", [])))
    parts: list[str] = []
    for name in [*named, *sorted(required - named.keys())][:30]:
        sub: Any = named.get(name)
        text = f"`{name}`"
        fixed = _values(sub) if isinstance(sub, dict) else None
        if fixed is not None and len(fixed) <= 5:
            text += " = " + " | ".join(json.dumps(v, ensure_ascii=False) for v in fixed)
        parts.append(text if name in required else f"{text} (optional)")
    title = branch.get("title") or branch.get("description")
    head = f"{_cap(title, 80)}: " if isinstance(title, str) else ""
    return head + (", ".join(parts) or "any arguments")


def _quoted(names: Iterable[str]) -> list[str]:
    return [f"`{name}`" for name in names]


def _cap(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]}…"


def _short(value: Any) -> str:
    return _cap(json.dumps(value, ensure_ascii=False, default=str), 300)
