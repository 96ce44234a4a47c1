"""Find lines whatever their indentation is, and write in the indentation of the file."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .matching import STAGES, normalise

__all__ = ["Reindented", "reindent"]

_LINE = re.compile(r"([^\r\n]*)(\r\n|\r|\n|\Z)")


@dataclass(frozen=True, slots=True)
class Reindented:
    """One place that matches but for its indentation.

    Attributes:
        start, end: raw span in the file's text.
        old, new: both texts in the file's indentation.
        note: which difference was overlooked.
    """

    start: int
    end: int
    old: str
    new: str
    note: str


def reindent(text: str, old: str, new: str) -> Reindented | list[int]:
    """Look for whole lines that equal those of `old` when indentation is ignored.

    Returns:
        the one place where the indentation of `old` corresponds consistently to the file's;
        otherwise the raw starts of all candidates (empty: none).
    """
    old_lines = old.split("\n")
    ended = len(old_lines) > 1 and old_lines[-1] == ""
    if ended:
        old_lines.pop()
    keys = [_key(line) for line in old_lines]
    if not any(keys) or len(text) > 4_000_000:
        return []
    spans = [(m.start(1), m.end(1), m.end(2)) for m in _LINE.finditer(text)]
    found = _windows([_key(text[a:b]) for a, b, _ in spans], keys)
    if len(found) != 1:
        return [spans[at][0] for at in found]
    first = found[0]
    lines = [text[a:b] for a, b, _ in spans[first : first + len(keys)]]
    mapping = _mapping(old_lines, lines)
    if mapping is None:
        return []
    last = spans[first + len(keys) - 1]
    return Reindented(
        start=spans[first][0],
        end=last[2] if ended else last[1],
        old=_shift(old, mapping),
        new=_shift(new, mapping),
        note=f"indentation (the file uses {_describe(lines)}; written like that)",
    )


def _key(line: str) -> str:
    return normalise(line, STAGES[-1]).text.strip(" \t")


def _windows(keys: list[str], wanted: list[str]) -> list[int]:
    size = len(wanted)
    return [at for at in range(len(keys) - size + 1) if keys[at] == wanted[0] and keys[at : at + size] == wanted]


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" \t"))]


def _mapping(old_lines: list[str], file_lines: list[str]) -> dict[str, str] | None:
    """Which indentation of `old` stands for which of the file; None when that is contradictory."""
    mapping: dict[str, str] = {}
    for old, file in zip(old_lines, file_lines, strict=True):
        if old.strip() and mapping.setdefault(_indent(old), _indent(file)) != _indent(file):
            return None
    return mapping


def _shift(text: str, mapping: dict[str, str]) -> str:
    return "\n".join(_shifted(line, mapping) for line in text.split("\n"))


def _shifted(line: str, mapping: dict[str, str]) -> str:
    return _translate(_indent(line), mapping) + line.lstrip(" \t") if line.strip() else line


def _translate(indent: str, mapping: dict[str, str]) -> str:
    """The file's form of one indentation: known, or a known one plus the rest in the file's unit."""
    if indent in mapping:
        return mapping[indent]
    known = [i for i in mapping if indent.startswith(i)]
    base = max(known, key=len) if known else ""
    if not known and "" not in mapping and not _ratio(mapping):
        return indent
    start = mapping[base] if known else ""
    return start + _in_unit(indent[len(base) :], mapping)


def _ratio(mapping: dict[str, str]) -> tuple[int, int] | None:
    """(columns in old, columns in file) of one level, when indentations grow in proportion."""
    pairs = [(len(a), len(b)) for a, b in mapping.items()]
    steps = [(a2 - a1, b2 - b1) for (a1, b1), (a2, b2) in zip(sorted(pairs), sorted(pairs)[1:], strict=False)]
    steps += [(a, b) for a, b in pairs if a and b]
    good = [(a, b) for a, b in steps if a > 0 and b > 0]
    return min(good) if good else None


def _in_unit(rest: str, mapping: dict[str, str]) -> str:
    tabs = any("\t" in value for value in mapping.values())
    ratio = _ratio(mapping)
    if ratio is None:
        return rest
    per_old, per_file = ratio
    levels, left = divmod(len(rest) * per_file, per_old) if rest else (0, 0)
    unit = "\t" if tabs else " "
    return unit * levels + (" " * (left // per_file) if tabs and left else "")


def _describe(lines: list[str]) -> str:
    indents = [_indent(line) for line in lines if line.strip()]
    if any("\t" in i for i in indents):
        return "tabs" if not any(" " in i for i in indents) else "tabs and blanks"
    return "blanks" if any(indents) else "no indentation here"
