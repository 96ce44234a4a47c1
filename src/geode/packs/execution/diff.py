"""A small diff with line numbers, for the result of a change."""

from __future__ import annotations

from difflib import SequenceMatcher

from ..text import cut_text

__all__ = ["small_diff"]

_CONTEXT = 2
_MAX_LINES = 60
_MAX_CHARS = 200
_MAX_COMPARED = 3000


def small_diff(before: str, after: str) -> str:
    """Changed lines with two lines around them: `-  12│old`, `+  12│new`, `   11│same`.

    Numbers of removed lines are those of the old text, all others those of the new one. At
    most 60 lines; what is left out is counted.
    """
    old, new = before.split("\n"), after.split("\n")
    head = 0
    while head < min(len(old), len(new)) and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < min(len(old), len(new)) - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    left, right = old[head : len(old) - tail], new[head : len(new) - tail]
    if len(left) > _MAX_COMPARED or len(right) > _MAX_COMPARED:
        return f"[{len(left):,} lines replaced by {len(right):,}, from line {head + 1}]"
    lines = [_line(" ", n + 1, new[n]) for n in range(max(0, head - _CONTEXT), head)]
    lines += _changes(left, right, head)
    end = len(new) - tail
    after_end = range(end, min(len(new), end + _CONTEXT))
    lines += [_line(" ", n + 1, new[n]) for n in after_end if new[n] or n + 1 < len(new)]
    if len(lines) > _MAX_LINES:
        lines = [*lines[:_MAX_LINES], f"[… {len(lines) - _MAX_LINES:,} more lines of the diff]"]
    return "\n".join(lines)


def _changes(left: list[str], right: list[str], offset: int) -> list[str]:
    lines: list[str] = []
    for tag, a, b, c, d in SequenceMatcher(None, left, right, autojunk=False).get_opcodes():
        if tag == "equal":
            if d - c <= 2 * _CONTEXT + 1:
                lines += [_line(" ", offset + n + 1, right[n]) for n in range(c, d)]
            else:
                lines += [_line(" ", offset + n + 1, right[n]) for n in range(c, c + _CONTEXT)]
                lines.append("   …")
                lines += [_line(" ", offset + n + 1, right[n]) for n in range(d - _CONTEXT, d)]
        else:
            lines += [_line("-", offset + n + 1, left[n]) for n in range(a, b)]
            lines += [_line("+", offset + n + 1, right[n]) for n in range(c, d)]
    return lines


def _line(sign: str, number: int, text: str) -> str:
    text = text.removesuffix("\r")
    shown = text if len(text) <= _MAX_CHARS else cut_text(text, _MAX_CHARS) + "…"
    return f"{sign}{number:>5}│{shown}"
