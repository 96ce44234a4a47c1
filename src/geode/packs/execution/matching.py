"""Comparing text tolerantly while knowing where every compared character came from.

`normalise` gives the compared form of a text and the raw span of each of its characters,
so that a match found in the compared form can be cut out of the raw text exactly.
"""

from __future__ import annotations

import re
import unicodedata
from array import array
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["BLANKS", "CR", "CRLF", "DASHES", "NAMES", "QUOTES", "STAGES", "TRAILING", "UNICODE", "Normal", "normalise"]

CRLF = "crlf"
UNICODE = "unicode"
QUOTES = "quotes"
DASHES = "dashes"
BLANKS = "blanks"
CR = "cr"
TRAILING = "trailing"

NAMES = {
    CRLF: "line endings",
    CR: "line endings",
    UNICODE: "Unicode form (NFC/NFD)",
    QUOTES: "typographic quotes",
    DASHES: "typographic dashes",
    BLANKS: "special blanks",
    TRAILING: "blanks at line ends",
}
"""How each tolerance is reported."""

STAGES: tuple[frozenset[str], ...] = (
    frozenset({CRLF}),
    frozenset({CRLF, UNICODE}),
    frozenset({CRLF, UNICODE, QUOTES, DASHES, BLANKS}),
    frozenset({CRLF, UNICODE, QUOTES, DASHES, BLANKS, CR, TRAILING}),
)
"""Tried in this order; the first that matches decides, and it must match in one place only."""

_TABLES = {
    QUOTES: str.maketrans("\u2018\u2019\u201a\u201b\u2032\u201c\u201d\u201e\u201f\u2033", "'''''\"\"\"\"\""),
    DASHES: str.maketrans("\u2010\u2011\u2012\u2013\u2014\u2212", "------"),
    BLANKS: str.maketrans(dict.fromkeys((0xA0, 0x202F, 0x3000, *range(0x2000, 0x200A)), " ")),
}


@dataclass(frozen=True, slots=True)
class Normal:
    """A normalised text; character i stands for raw[start(i):end(i)].

    `starts` and `ends` are None when nothing was moved. Raw characters that were dropped
    (blanks at line ends) belong to no character.
    """

    text: str
    starts: array[int] | None = None
    ends: array[int] | None = None

    def start(self, at: int) -> int:
        return at if self.starts is None else self.starts[at]

    def end(self, at: int) -> int:
        return at + 1 if self.ends is None else self.ends[at]

    def is_start(self, at: int) -> bool:
        """True when the raw text can be cut before character `at`."""
        return self.starts is None or at == 0 or self.starts[at] != self.starts[at - 1]

    def is_end(self, at: int) -> bool:
        """True when the raw text can be cut after character `at`."""
        return self.ends is None or at + 1 == len(self.text) or self.ends[at] != self.ends[at + 1]

    def find(self, part: str, *, limit: int = 1000) -> list[tuple[int, int]]:
        """All places of `part` (overlapping ones too) as ranges of characters, at most `limit`."""
        found: list[tuple[int, int]] = []
        at = self.text.find(part) if part else -1
        while at >= 0 and len(found) < limit:
            if self.is_start(at) and self.is_end(at + len(part) - 1):
                found.append((at, at + len(part)))
            at = self.text.find(part, at + 1)
        return found


def normalise(text: str, flags: frozenset[str]) -> Normal:
    """The form of `text` in which differences named by `flags` are gone."""
    parts: list[str] = []
    starts, ends = array("q"), array("q")
    done = 0
    moved = False
    for start, end, replacement in _sites(text, flags):
        moved = True
        _keep(text, done, start, parts, starts, ends)
        parts.append(replacement)
        starts.extend([start] * len(replacement))
        ends.extend([end] * len(replacement))
        done = end
    if not moved:
        return Normal(_translate(text, flags))
    _keep(text, done, len(text), parts, starts, ends)
    return Normal(_translate("".join(parts), flags), starts, ends)


def _keep(text: str, start: int, end: int, parts: list[str], starts: array[int], ends: array[int]) -> None:
    parts.append(text[start:end])
    starts.extend(range(start, end))
    ends.extend(range(start + 1, end + 1))


def _translate(text: str, flags: frozenset[str]) -> str:
    if text.isascii():
        return text
    for flag, table in _TABLES.items():
        if flag in flags:
            text = text.translate(table)
    return text


def _sites(text: str, flags: frozenset[str]) -> Iterator[tuple[int, int, str]]:
    """Places whose normal form has another length or spelling: (start, end, normal form), in order."""
    options: list[str] = []
    if TRAILING in flags:
        options.append(r"(?P<gone>[ \t]+(?=\r|\n|\Z))")
    if CR in flags and "\r" in text:
        options.append(r"(?P<line>\r\n?)")
    elif CRLF in flags and "\r" in text:
        options.append(r"(?P<line>\r\n)")
    if UNICODE in flags and not text.isascii():
        options.append(r"(?P<run>[^\x00-\x20\x7f-\U0010ffff]?[^\x00-\x7f]+)")
    if not options:
        return
    for match in re.finditer("|".join(options), text):
        if match.lastgroup == "gone":
            yield match.start(), match.end(), ""
        elif match.lastgroup == "line":
            yield match.start(), match.end(), "\n"
        elif not unicodedata.is_normalized("NFC", match.group()):
            yield from _clusters(match.group(), match.start())


def _clusters(run: str, offset: int) -> Iterator[tuple[int, int, str]]:
    start = 0
    for at in range(1, len(run) + 1):
        if at < len(run) and not _starts_cluster(run[at]):
            continue
        cluster = run[start:at]
        composed = unicodedata.normalize("NFC", cluster)
        if composed != cluster:
            yield offset + start, offset + at, composed
        start = at


def _starts_cluster(char: str) -> bool:
    joins_hangul = "\u1160" <= char <= "\u11ff" or "\ud7b0" <= char <= "\ud7fb"
    return not unicodedata.combining(char) and not joins_hangul
