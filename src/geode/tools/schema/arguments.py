"""The text a model sends as a call's arguments."""

from __future__ import annotations

import json
import re
from typing import Any, cast

from ...core.errors import InvalidArguments
from ...core.messages import clean_json

__all__ = ["read_arguments"]


def read_arguments(text: str) -> dict[str, Any]:
    """Parse arguments; never repairs, never takes a cut text for an empty object.

    Args:
        text: JSON of an object; nothing at all means no arguments. Half characters (lone
            surrogates) become U+FFFD.

    Raises:
        InvalidArguments: the text is cut off (says so), is no JSON, or is no object.
    """
    if not text.strip():
        return {}
    try:
        value: Any = json.loads(text, object_pairs_hook=_no_doubles, parse_constant=_no_constants)
    except json.JSONDecodeError as error:
        if _is_cut(text, error):
            raise InvalidArguments(
                "the arguments are incomplete: their text ends in the middle; nothing was executed",
                problems=(f"$: cut off after {len(text)} characters",),
                fix="send smaller arguments, for example the content in several parts",
            ) from error
        problem = f"$: not JSON: {error.msg} (line {error.lineno}, column {error.colno})"
        raise InvalidArguments(problem, problems=(problem,), fix="send one JSON object") from error
    except (ValueError, RecursionError) as error:
        problem = f"$: not JSON: {str(error)[:200]}"
        raise InvalidArguments(problem, problems=(problem,), fix="send one JSON object") from error
    if not isinstance(value, dict):
        problem = "$: arguments must be a JSON object"
        raise InvalidArguments(problem, problems=(problem,), fix="send one JSON object")
    return cast("dict[str, Any]", clean_json(value))


def _is_cut(text: str, error: json.JSONDecodeError) -> bool:
    """True when more text could have made it JSON: the error is at its end, or in a text that never closes."""
    rest = text[error.pos :].strip()
    if not rest or error.msg.startswith("Unterminated string"):
        return True
    if error.msg.startswith(("Invalid \\escape", "Invalid \\uXXXX")):
        return len(rest) < 6
    return (
        any(w.startswith(rest) for w in ("true", "false", "null")) or re.fullmatch(r"-|\.|[eE][+-]?", rest) is not None
    )


def _no_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result:
            raise ValueError(f"the name {key!r} is given twice")
        result[key] = value
    return result


def _no_constants(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")
