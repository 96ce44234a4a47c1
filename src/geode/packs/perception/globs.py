"""Glob patterns and `.gitignore` rules, matched segment by segment so that no pattern is slow."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from ...core.errors import ToolFailed

__all__ = ["Glob", "IgnoreFile", "expand_braces"]

_MAX_ALTERNATIVES = 64


@lru_cache(maxsize=4096)
def _segment(pattern: str, ignore_case: bool) -> re.Pattern[str]:
    # fnmatch.translate makes every `*` atomic: no pattern backtracks.
    return re.compile(fnmatch.translate(pattern.replace("[^", "[!")), re.IGNORECASE if ignore_case else 0)


def expand_braces(pattern: str) -> tuple[str, ...]:
    """`*.{ts,tsx}` as `*.ts` and `*.tsx`; other patterns as they are.

    Raises:
        ToolFailed: more than 64 alternatives.
    """
    done: list[str] = []
    todo = [pattern]
    while todo:
        current = todo.pop(0)
        found = re.search(r"\{([^{}]*,[^{}]*)\}", current)
        if found is None:
            done.append(current)
        else:
            todo += [current[: found.start()] + part + current[found.end() :] for part in found.group(1).split(",")]
        if len(done) + len(todo) > _MAX_ALTERNATIVES:
            raise ToolFailed(f"the pattern {pattern[:80]!r} has too many alternatives", fix="use a simpler pattern")
    return tuple(done)


class Glob:
    """A user's pattern: `*.py` matches names at any depth, `src/**/test_*.py` matches whole paths.

    `*` and `?` stay inside one name, `**` spans directories, `{a,b}` gives alternatives.
    """

    def __init__(self, pattern: str, *, ignore_case: bool = False) -> None:
        pattern = pattern.strip().replace("\\", "/").removeprefix("./")
        self._alternatives = [
            (tuple(_compiled(part.strip("/").split("/"), ignore_case)), "/" in part.strip("/") or part.startswith("/"))
            for part in expand_braces(pattern)
            if part.strip("/")
        ]
        self.by_name = all(not anchored for _, anchored in self._alternatives)
        """True when only the last part of a path decides."""

    def matches(self, parts: Sequence[str]) -> bool:
        """Does the path made of `parts` match?"""
        return any(
            _match(segments, parts) if anchored else _match(segments, parts[-1:])
            for segments, anchored in self._alternatives
        )


def _compiled(segments: Iterable[str], ignore_case: bool) -> Iterable[re.Pattern[str] | None]:
    """Compiled segments; `**` is None, repeated ones are one."""
    last_was_any = False
    for segment in segments:
        if segment == "**":
            if not last_was_any:
                yield None
            last_was_any = True
        else:
            yield _segment(segment, ignore_case)
            last_was_any = False


def _match(segments: Sequence[re.Pattern[str] | None], parts: Sequence[str]) -> bool:
    """Match all parts; states are positions in `segments`, so the time is segments x parts."""
    states = _closure({0}, segments)
    for part in parts:
        following: set[int] = set()
        for at in states:
            if at < len(segments):
                segment = segments[at]
                if segment is None:
                    following.add(at)
                elif segment.match(part):
                    following.add(at + 1)
        if not following:
            return False
        states = _closure(following, segments)
    return len(segments) in states


def _closure(states: set[int], segments: Sequence[re.Pattern[str] | None]) -> set[int]:
    """States with those reachable by letting `**` stand for nothing."""
    closed = set(states)
    for at in states:
        while at < len(segments) and segments[at] is None:
            at += 1
            closed.add(at)
    return closed


@dataclass(frozen=True, slots=True)
class _Rule:
    segments: tuple[re.Pattern[str] | None, ...]
    anchored: bool
    negated: bool
    directories_only: bool


class IgnoreFile:
    """The rules of one `.gitignore`; paths are relative to its directory."""

    def __init__(self, text: str) -> None:
        self._rules = [rule for line in text.splitlines() if (rule := _rule(line)) is not None]

    def verdict(self, parts: Sequence[str], *, is_dir: bool) -> bool | None:
        """True: ignored; False: taken back in; None: no rule says anything. The last rule wins."""
        for rule in reversed(self._rules):
            if rule.directories_only and not is_dir:
                continue
            if _match(rule.segments, parts if rule.anchored else parts[-1:]):
                return not rule.negated
        return None


def _rule(line: str) -> _Rule | None:
    line = line.rstrip("\r\n")
    while line.endswith(" ") and not line.endswith("\\ "):
        line = line[:-1]
    if not line or line.startswith("#"):
        return None
    negated = line.startswith("!")
    line = line[1:] if negated else line
    if line.startswith(("\\#", "\\!")):
        line = line[1:]
    directories_only = line.endswith("/")
    body = line.strip("/").replace("\\ ", " ")
    if not body:
        return None
    anchored = "/" in line.rstrip("/")
    segments = tuple(_compiled(body.split("/"), False))
    if segments[-1] is None:
        # `a/**` ignores what is inside `a`, not `a` itself.
        segments = (*segments[:-1], _segment("*", False), None)
    return _Rule(segments, anchored, negated, directories_only)
