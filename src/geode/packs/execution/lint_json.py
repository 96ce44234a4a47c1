"""Check JSON: the first syntax error, and repeated keys and numbers JSON does not have, with their place."""

from __future__ import annotations

import json
import re

from ...tools.tool import Problem

__all__ = ["check_json"]

_TOKEN = re.compile(r'\s*("(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+)', re.DOTALL)
_NO_NUMBER = frozenset({"NaN", "Infinity", "-Infinity"})


def check_json(text: str) -> tuple[Problem, ...]:
    """All repeated keys and foreign constants, or the first syntax error."""
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        return (Problem(_readable(error, text), error.lineno, error.colno, "syntax"),)
    except RecursionError:
        return (Problem("nested too deeply", rule="syntax"),)
    return tuple(_scan(text))


def _readable(error: json.JSONDecodeError, text: str) -> str:
    rest = text[error.pos : error.pos + 1]
    before = text[: error.pos].rstrip()
    if before.endswith(",") and rest in "}]":
        return f"{error.msg} (a comma before {rest!r} is not allowed)"
    if rest == "'":
        return f"{error.msg} (strings need double quotes)"
    if text[error.pos : error.pos + 2] in ("//", "/*") or rest == "#":
        return f"{error.msg} (JSON has no comments)"
    return error.msg


def _scan(text: str) -> list[Problem]:
    """Walk over the tokens of valid JSON; keys are strings before a colon in an object."""
    problems: list[Problem] = []
    objects: list[dict[str, int] | None] = []
    previous: tuple[str, int] | None = None
    for match in _TOKEN.finditer(text):
        token, at = match.group(1), match.start(1)
        if token == "{":
            objects.append({})
        elif token == "[":
            objects.append(None)
        elif token in ("}", "]"):
            objects.pop()
        elif token == ":" and previous is not None and objects[-1] is not None:
            key = str(json.loads(previous[0]))
            first = objects[-1].setdefault(key, previous[1])
            if first != previous[1]:
                line = text.count("\n", 0, first) + 1
                problems.append(_problem(text, previous[1], f"key {key!r} occurs twice (first in line {line})"))
        elif token in _NO_NUMBER:
            problems.append(_problem(text, at, f"{token} is no JSON value", "constant"))
        previous = (token, at)
    return problems


def _problem(text: str, at: int, message: str, rule: str = "duplicate-key") -> Problem:
    line = text.count("\n", 0, at) + 1
    return Problem(message, line, at - text.rfind("\n", 0, at), rule)
