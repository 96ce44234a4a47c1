"""Arguments against a schema: strict, every problem with its path, no silent change.

Two things are put right, only after the check has failed, only when the result then
passes, and always with a note: a JSON text where an array or object belongs (never in a
place that takes a string), and `null` for an optional argument that does not take null.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import islice
from typing import Any, cast

import jsonschema_rs

from ...core.errors import InvalidArguments
from .dialect import Json, SchemaError, compile_schema, modernise
from .refs import inline, measure

__all__ = ["Validated", "Validator", "check_schema"]

MAX_PROBLEMS = 20
"""Violations listed; a reader corrects the first few and tries again."""
EXPLAINED = 300
"""Subschemas for one value up to which violations are listed with the whole schema."""
MAX_DEPTH = 200
"""Levels of nesting that arguments may have."""
_PREVIEW = 80

Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Validated:
    """Arguments that satisfy the schema, and what was changed to get there."""

    arguments: dict[str, Any]
    notes: tuple[str, ...] = ()


def check_schema(schema: Any) -> Json:
    """Make sure that `schema` can describe and validate a tool's arguments.

    Returns:
        The 2020-12 form.

    Raises:
        SchemaError: says what is wrong and where.
    """
    return Validator(schema).schema


class Validator:
    """One compiled schema. Cheap to ask, about 50 µs to make; keep it.

    Args:
        schema: any dialect `modernise` understands.
        root: True for the schema of an arguments object, False for any value.

    Raises:
        SchemaError: the schema cannot be used.
    """

    __slots__ = ("_compiled", "_explainer", "schema")

    def __init__(self, schema: Any, *, root: bool = True) -> None:
        self.schema: Json = modernise(schema, root=root)
        self._compiled = compile_schema(self.schema)
        weight = measure(self.schema)
        # Listing violations walks every alternative of every level, exponential where deciding is not.
        shallow = weight.branching or weight.place > EXPLAINED
        self._explainer = None if shallow else self._compiled

    def check(self, arguments: Any) -> Validated:
        """The arguments, unchanged unless `notes` says otherwise.

        Raises:
            InvalidArguments: `problems` holds one line per violation, each with its JSON path.
        """
        if not isinstance(arguments, Mapping):
            raise _invalid(("$: arguments must be a JSON object",))
        value: dict[str, Any] = dict(cast(Mapping[str, Any], arguments))
        errors = self._errors(value)
        if not errors:
            return Validated(value)
        repaired, notes = self._repair(value, errors)
        if notes:
            return Validated(repaired, notes)
        raise _invalid(tuple(self._lines(errors)))

    def problems(self, value: Any) -> tuple[str, ...]:
        """Violations of any JSON value, without raising; empty when it satisfies the schema."""
        try:
            return tuple(self._lines(self._errors(value)))
        except InvalidArguments as error:
            return error.problems

    def _errors(self, value: Any) -> list[jsonschema_rs.ValidationError]:
        """Violations; one without details when they lie deeper than is looked."""
        try:
            _only_json(value, ())
            if self._compiled.is_valid(value):
                return []
            if self._explainer is None:
                self._explainer = compile_schema(inline(self.schema, recursion=1, parts=EXPLAINED))
            found = list(islice(self._explainer.iter_errors(value), MAX_PROBLEMS + 1))
        except SchemaError:
            found = []
        except (ValueError, TypeError, RecursionError) as error:
            raise _invalid((f"$: not a JSON value: {str(error)[:200]}",)) from error
        if not found:
            raise _invalid(("$: the arguments do not satisfy the schema, somewhere deep inside",))
        return found

    def _lines(self, errors: Sequence[jsonschema_rs.ValidationError]) -> Iterator[str]:
        for error in errors[:MAX_PROBLEMS]:
            yield f"{show_path(error.instance_path)}: {_message(error, self.schema)}"
        if len(errors) > MAX_PROBLEMS:
            yield "… and more"

    def _repair(
        self, value: dict[str, Any], errors: list[jsonschema_rs.ValidationError]
    ) -> tuple[dict[str, Any], tuple[str, ...]]:
        """A changed copy that passes, with notes; no notes when there is none."""
        notes: list[str] = []
        for _ in range(4):
            changes = [c for c in (_change(value, e) for e in errors) if c is not None]
            if not changes:
                return value, ()
            for path, new, note in changes:
                value = cast("dict[str, Any]", _replaced(value, path, new))
                notes.append(note)
            errors = self._errors(value)
            if not errors:
                return value, tuple(dict.fromkeys(notes))
        return value, ()


def _invalid(problems: tuple[str, ...]) -> InvalidArguments:
    error = InvalidArguments("", problems=problems, fix="correct the named arguments")
    error.message = "invalid arguments: " + "; ".join(error.readable[:3]) + ("; …" if len(problems) > 3 else "")
    error.args = (error.message,)
    return error


def show_path(path: Sequence[str | int]) -> str:
    """`$.a[0]["odd key"]`."""
    out = "$"
    for part in path:
        if isinstance(part, int):
            out += f"[{part}]"
        elif part.isidentifier():
            out += f".{part}"
        else:
            out += f"[{json.dumps(part, ensure_ascii=False)}]"
    return out


def _only_json(value: Any, path: Path, depth: int = 0) -> None:
    """What the validator would let through or read as something else although it is no JSON value."""
    if value is None or isinstance(value, bool | int):
        return
    if isinstance(value, str):
        if not value.isascii() and not _encodes(value):
            raise _invalid((f"{show_path(path)}: the text holds half a character (a lone surrogate)",))
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise _invalid((f"{show_path(path)}: {value} is not a JSON number",))
    elif depth > MAX_DEPTH:
        raise _invalid((f"{show_path(path[:5])}…: nested deeper than {MAX_DEPTH} levels",))
    elif isinstance(value, Mapping):
        for key, sub in cast(Mapping[Any, Any], value).items():
            if not isinstance(key, str):
                raise _invalid((f"{show_path(path)}: names must be texts, not {type(key).__name__}",))
            _only_json(key, path, depth)
            _only_json(sub, (*path, key), depth + 1)
    elif isinstance(value, list | tuple):
        for at, sub in enumerate(cast("list[Any]", value)):
            _only_json(sub, (*path, at), depth + 1)
    else:
        raise _invalid((f"{show_path(path)}: {type(value).__name__} is not a JSON value",))


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


# ---------------------------------------------------------------- the two repairs

_DROP = object()


def _change(value: Any, error: jsonschema_rs.ValidationError) -> tuple[Path, Any, str] | None:
    path: Path = tuple(error.instance_path)
    if not path:
        return None
    found = _at(value, path)
    if isinstance(found, str):
        if not _wants_container(error, path):
            return None
        parsed = _parsed(found)
        if parsed is None:
            return None
        kind = "array" if isinstance(parsed, list) else "object"
        return path, parsed, f"{show_path(path)}: the JSON text was read as the {kind} it holds"
    if found is None and isinstance(path[-1], str) and _types_refused(error, path) is not None:
        return path, _DROP, f"{show_path(path)}: null was left out, it is optional and takes no null"
    return None


def _types_refused(error: jsonschema_rs.ValidationError, path: Path) -> set[str] | None:
    """Types this place accepts, when the value's type is the only reason of refusal; else None."""
    kind = error.kind
    if isinstance(kind, jsonschema_rs.ValidationErrorKind.Type):
        return set(kind.types)
    if isinstance(kind, jsonschema_rs.ValidationErrorKind.AnyOf | jsonschema_rs.ValidationErrorKind.OneOfNotValid):
        accepted: set[str] = set()
        for branch in kind.context:
            here = [_types_refused(e, path) for e in branch if tuple(e.instance_path) in (path, ())]
            types = [t for t in here if t is not None]
            if not types:
                return None
            accepted |= set.union(*types)
        return accepted
    return None


def _wants_container(error: jsonschema_rs.ValidationError, path: Path) -> bool:
    accepted = _types_refused(error, path)
    return accepted is not None and "string" not in accepted and bool(accepted & {"array", "object"})


def _parsed(text: str) -> Any:
    if text.lstrip()[:1] not in ("[", "{"):
        return None
    try:
        return json.loads(text, object_pairs_hook=_no_doubles, parse_constant=_no_constants)
    except (ValueError, RecursionError):
        return None


def _no_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("a name twice")
    return result


def _no_constants(text: str) -> Any:
    raise ValueError(text)


def _at(value: Any, path: Path) -> Any:
    for part in path:
        value = value[part]
    return value


def _replaced(value: Any, path: Path, new: Any) -> Any:
    """A copy of `value` with the part at `path` replaced; everything else is shared."""
    if not path:
        return new
    head, rest = path[0], path[1:]
    if isinstance(value, list):
        members = list(cast("list[Any]", value))
        members[cast(int, head)] = _replaced(members[cast(int, head)], rest, new)
        return members
    copy = dict(cast("dict[Any, Any]", value))
    if new is _DROP and not rest:
        copy.pop(head, None)
    elif head in copy:
        copy[head] = _replaced(copy[head], rest, new)
    return copy


# ---------------------------------------------------------------- words


def _preview(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _PREVIEW else f"{text[:_PREVIEW]}… ({len(text)} characters)"


def _kind_of(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, str):
        return "string"
    if isinstance(value, int | float):
        return "number"
    return "array" if isinstance(value, list | tuple) else "object"


def _message(error: jsonschema_rs.ValidationError, schema: Json) -> str:
    kinds = jsonschema_rs.ValidationErrorKind
    kind = error.kind
    if isinstance(kind, kinds.Type):
        return f"expected {' or '.join(kind.types)}, got {_kind_of(error.instance)} {_preview(error.instance)}"
    if isinstance(kind, kinds.Required):
        return f"{kind.property!r} is required"
    if isinstance(kind, kinds.AdditionalProperties):
        return _unexpected(kind.unexpected, error, schema)
    if isinstance(kind, kinds.Enum):
        shown = ", ".join(_preview(o) for o in kind.options[:20]) + (", …" if len(kind.options) > 20 else "")
        return f"{_preview(error.instance)} is not one of: {shown}"
    if isinstance(kind, kinds.Pattern):
        return f"{_preview(error.instance)} does not match the pattern {kind.pattern[:200]}"
    if isinstance(kind, kinds.AnyOf | kinds.OneOfNotValid):
        return f"{_preview(error.instance)} fits none of the allowed forms ({_branches(kind.context)})"
    if isinstance(kind, kinds.BacktrackLimitExceeded | kinds.RegexEngineFailure):
        return "the tool's pattern is too costly to check on this value; send a shorter one"
    text = error.message
    return text if len(text) <= 300 else f"{text[:300]}…"


def _branches(context: list[list[jsonschema_rs.ValidationError]]) -> str:
    parts: list[str] = []
    for branch in context[:4]:
        if branch:
            text = branch[0].message
            parts.append(text if len(text) <= 100 else f"{text[:100]}…")
    return "; ".join(parts) + ("; …" if len(context) > 4 else "")


def _unexpected(names: list[str], error: jsonschema_rs.ValidationError, schema: Json) -> str:
    known: list[str] = []
    at: Any = schema
    for part in error.schema_path[:-1]:
        at = cast(Any, at)[part] if isinstance(at, dict | list) else None
        if at is None:
            break
    if isinstance(at, dict):
        known = list(cast(Json, at).get("properties", {}))
    shown = ", ".join(repr(n) for n in names[:5])
    close = [m for n in names for m in get_close_matches(n, known, n=1, cutoff=0.6)]
    if close:
        return f"unknown name {shown}; did you mean {', '.join(repr(c) for c in dict.fromkeys(close))}?"
    listed = ", ".join(known[:20]) if known else "none"
    return f"unknown name {shown}; known: {listed}"
