"""Patterns on names and paths, compiled once."""

from __future__ import annotations

import re
from collections.abc import Iterable

__all__ = ["GlobError", "Names", "compile_glob", "compile_path_glob", "is_glob"]


class GlobError(ValueError):
    """A pattern that cannot be meant as it is written."""


def is_glob(text: str) -> bool:
    """Whether a name contains a wildcard."""
    return any(c in text for c in "*?[")


def _body(pattern: str, star: str, one: str) -> str:
    """The regular expression of a glob: `*`, `?`, `[abc]`, `[!abc]`.

    Raises:
        GlobError: empty, a bracket that is not closed, an empty or reversed class, control characters.
    """
    if not pattern or pattern != pattern.strip():
        raise GlobError("a pattern must not be empty or begin or end with blanks")
    out: list[str] = []
    at = 0
    while at < len(pattern):
        c = pattern[at]
        at += 1
        if ord(c) < 32:
            raise GlobError("a pattern must not contain control characters")
        if c == "*":
            while at < len(pattern) and pattern[at] == "*":
                at += 1
            out.append(star)
        elif c == "?":
            out.append(one)
        elif c == "[":
            end = pattern.find("]", at + 2 if pattern[at : at + 1] == "!" else at + 1)
            if end < 0:
                raise GlobError(f"the bracket at position {at} is not closed")
            out.append(_character_class(pattern[at:end]))
            at = end + 1
        else:
            out.append(re.escape(c))
    return "".join(out)


def _character_class(inner: str) -> str:
    negated = inner.startswith("!")
    members = re.sub(r"([\\\[\]^&~|])", r"\\\1", inner[1:] if negated else inner)
    text = f"[{'^' if negated else ''}{members}]"
    try:
        re.compile(text)
    except re.error as problem:
        raise GlobError(f"bad character class [{inner}]: {problem.msg}") from problem
    return text


def compile_glob(pattern: str) -> re.Pattern[str]:
    """A glob over a whole name, case-sensitive.

    Raises:
        GlobError: the pattern is malformed.
    """
    return re.compile(rf"(?s:{_body(pattern, '.*', '.')})\Z")


def compile_path_glob(pattern: str, home: str) -> re.Pattern[str]:
    """A glob over absolute paths, that also matches everything beneath what it names.

    Without a slash it matches any component (`.env`); with one it is anchored when it starts
    with `/` or `~/`, and may start at any component otherwise. `*` stays within a component,
    `**` does not.

    Raises:
        GlobError: the pattern is malformed.
    """
    text = pattern.rstrip("/") or pattern
    if text == "~" or text.startswith("~/"):
        text = home.rstrip("/") + text[1:]
    anchored = text.startswith("/")
    parts = re.split(r"(\*\*/|/\*\*(?=/|$)|\*\*)", text)
    regex = "".join(_path_part(part) for part in parts if part)
    start = "" if anchored else "(?:.*/)?"
    return re.compile(rf"(?s:{start}{regex}(?:/.*)?)\Z")


def _path_part(part: str) -> str:
    if part == "**/":
        return "(?:.*/)?"
    if part == "/**":
        return "(?:/.*)?"
    if part == "**":
        return ".*"
    return _body(part, "[^/]*", "[^/]")


class Names:
    """A set of names and globs with a fast membership test."""

    __slots__ = ("_exact", "_globs")

    def __init__(self, entries: Iterable[str]) -> None:
        items = frozenset(entries)
        self._exact = frozenset(e for e in items if not is_glob(e))
        self._globs = tuple(compile_glob(e) for e in sorted(items - self._exact))

    def __contains__(self, name: str) -> bool:
        return name in self._exact or any(g.match(name) for g in self._globs)

    def __bool__(self) -> bool:
        return bool(self._exact or self._globs)
