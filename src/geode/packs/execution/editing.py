"""Replace text in the bytes of a file: tolerant in finding, exact in writing.

Pure functions. Only the bytes of the replaced text change; what the old and the new text
have in common keeps the file's own bytes (line endings, quotes, Unicode form, indentation).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher

from ...core.errors import ToolFailed
from ...core.messages import SideEffects
from ..text import Decoded, count_endings, decode, majority_ending
from .indentation import Reindented, reindent
from .matching import NAMES, STAGES, Normal, normalise

__all__ = ["Edited", "apply_edit"]

_NUMBERED = re.compile(r"\s*\d+│")


@dataclass(frozen=True, slots=True, kw_only=True)
class Edited:
    """What an edit made of a file.

    Attributes:
        data: the new bytes of the whole file.
        before: the old text.
        after: the new text.
        replacements: how many places were replaced.
        lines: line number of each place in the old text, 1-based.
        tolerances: what had to be overlooked to find the place, for people; empty for an exact match.
        notes: what was normalised in writing.
        encoding: of the file, unchanged.
    """

    data: bytes
    before: str
    after: str
    replacements: int
    lines: tuple[int, ...]
    tolerances: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    encoding: str = "utf-8"


@dataclass(frozen=True, slots=True)
class _Place:
    """Raw span of a match, the flags it was found with, and the texts that describe it."""

    start: int
    end: int
    flags: frozenset[str]
    old: str
    new: str


def apply_edit(data: bytes, old: str, new: str, *, replace_all: bool = False, name: str = "the file") -> Edited:
    """Replace `old` by `new` in the text of `data`.

    Args:
        data: bytes of the file.
        old: text to find; must occur once unless `replace_all`.
        new: text to put there, written as given; inserted line ends become the file's majority ending.
        replace_all: replace every occurrence; only line endings are overlooked then.
        name: the file's name for messages.

    Raises:
        ToolFailed: nothing to do, not found, found more than once, or not encodable. Nothing has changed.
    """
    if not old:
        raise _failed("old_text is empty", "give the text to replace; to create a file use write_file")
    if old == new:
        raise _failed("old_text and new_text are equal: nothing would change", "give the changed text as new_text")
    file = decode(data)
    old_lf, new_lf = old, new.replace("\r\n", "\n")
    if "\r\n" in old:
        old_lf = old.replace("\r\n", "\n")
    places, tolerances = _locate(file.text, old_lf, new_lf, replace_all=replace_all, name=name)
    notes: list[str] = []
    if "\r\n" in new and majority_ending(file.text) == "\n" and count_endings(file.text)["\n"]:
        notes.append("new_text had CRLF line ends; written as LF, like the rest of the file")
    ending = _inserted_ending(file.text, new)
    pieces: list[bytes] = []
    texts: list[str] = []
    done = byte_done = 0
    body = data[len(file.bom) :]
    for place in places:
        byte_start = byte_done + len(file.encode(file.text[done : place.start]))
        byte_end = byte_start + len(file.encode(file.text[place.start : place.end]))
        merged = _merge(file.text[place.start : place.end], place, ending)
        pieces += [body[byte_done:byte_start], _encoded(file, merged, name)]
        texts += [file.text[done : place.start], merged]
        done, byte_done = place.end, byte_end
    result = file.bom + b"".join(pieces) + body[byte_done:]
    if result == data:
        raise _failed("the file already has this text: nothing would change", "read the file again")
    return Edited(
        data=result,
        before=file.text,
        after="".join(texts) + file.text[done:],
        replacements=len(places),
        lines=tuple(file.text.count("\n", 0, p.start) + 1 for p in places),
        tolerances=tolerances,
        notes=tuple(notes),
        encoding=file.label,
    )


def _failed(message: str, fix: str) -> ToolFailed:
    return ToolFailed(message, fix=fix, side_effects=SideEffects.NONE)


def _inserted_ending(text: str, new: str) -> str:
    counts = count_endings(text)
    if counts["\n"] or counts["\r\n"] or counts["\r"] > 1:
        return majority_ending(text)
    return "\r\n" if "\r\n" in new else "\n"


def _encoded(file: Decoded, text: str, name: str) -> bytes:
    try:
        return file.encode(text)
    except UnicodeEncodeError as error:
        char = text[error.start]
        raise _failed(
            f"{name} is {file.label}, which has no {char!r} (U+{ord(char):04X})",
            "use characters of that encoding, or rewrite the file with write_file and encoding utf-8",
        ) from error


# ---------------------------------------------------------------- finding


def _locate(text: str, old: str, new: str, *, replace_all: bool, name: str) -> tuple[list[_Place], tuple[str, ...]]:
    extra: tuple[str, ...] = ()
    found = _find_lines(text, old, limit=100_000 if replace_all else 1000)
    if not found and (end := _at_unended_last_line(text, old)):
        found, old, new = [end], old[:-1], new.removesuffix("\n")
        extra = ("the file's last line has no line end; kept",)
    flags = STAGES[0]
    if not found and not replace_all:
        for flags in STAGES[1:]:
            normal = normalise(text, flags)
            found = [
                (normal.start(start), normal.end(end - 1)) for start, end in normal.find(normalise(old, flags).text)
            ]
            if found:
                break
    if replace_all:
        found = list(_apart(found))
    elif len(found) > 1:
        raise _ambiguous(text, [start for start, _ in found], flags is not STAGES[0], name)
    if found:
        places = [_Place(start, end, flags, old, new) for start, end in found]
        return places, (*extra, *_needed(text, places, old, flags))
    if not replace_all:
        shifted = reindent(text, old, new)
        if isinstance(shifted, Reindented):
            place = _Place(shifted.start, shifted.end, STAGES[-1], shifted.old, shifted.new)
            return [place], (shifted.note, *_needed(text, [place], shifted.old, STAGES[-1]))
        if shifted:
            raise _ambiguous(text, shifted, True, name)
    raise _not_found(text, old, new, replace_all, name)


def _find_lines(text: str, old: str, *, limit: int) -> list[tuple[int, int]]:
    """Spans of `old` in `text`, overlapping ones too; its LF stand for LF or CRLF, and no CRLF is split."""
    if "\r" not in text:
        return _find_plain(text, old, limit)
    lines = r"(?:\r\n|(?<!\r)\n)".join(map(re.escape, old.split("\n")))
    pattern = re.compile(lines + (r"(?!\n)" if old.endswith("\r") else ""))
    found: list[tuple[int, int]] = []
    match = pattern.search(text)
    while match and len(found) < limit:
        found.append(match.span())
        match = pattern.search(text, match.start() + 1)
    return found


def _find_plain(text: str, old: str, limit: int) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    at = text.find(old)
    while at >= 0 and len(found) < limit:
        found.append((at, at + len(old)))
        at = text.find(old, at + 1)
    return found


def _at_unended_last_line(text: str, old: str) -> tuple[int, int] | None:
    """The last line without its line end, where `old` was given with one; that state is kept."""
    if len(old) < 2 or not old.endswith("\n") or text.endswith("\n"):
        return None
    tail = max(0, len(text) - 2 * len(old))
    found = [span for span in _find_lines(text[tail:], old[:-1], limit=1000) if tail + span[1] == len(text)]
    return (tail + found[0][0], len(text)) if found else None


def _apart(found: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    last = -1
    for start, end in found:
        if start >= last:
            yield start, end
            last = end


def _needed(text: str, places: list[_Place], old: str, flags: frozenset[str]) -> tuple[str, ...]:
    """Which of the flags the match depended on, for people."""
    needed: list[str] = []
    for flag in sorted(flags, key=list(NAMES).index):
        rest = flags - {flag}
        wanted = normalise(old, rest).text
        if any(normalise(text[p.start : p.end], rest).text != wanted for p in places):
            needed.append(NAMES[flag])
    return tuple(dict.fromkeys(needed))


def _ambiguous(text: str, starts: list[int], tolerant: bool, name: str) -> ToolFailed:
    lines = [text.count("\n", 0, start) + 1 for start in starts]
    shown = ", ".join(str(n) for n in lines[:10]) + (", …" if len(lines) > 10 else "")
    how = " (not exactly, only when differences in form are overlooked)" if tolerant else ""
    fix = "add lines around it to old_text until it is unique"
    if not tolerant:
        fix += ", or set replace_all"
    return _failed(f"old_text occurs {len(lines)} times in {name}{how}, at lines {shown}", fix)


def _not_found(text: str, old: str, new: str, replace_all: bool, name: str) -> ToolFailed:
    lines = old.split("\n")
    if all(_NUMBERED.match(line) for line in lines if line.strip()):
        return _failed(
            f"old_text was not found in {name}: it carries the line numbers that read_file shows",
            "leave out the numbers and the │ in front of each line",
        )
    if new and len(new) > 10 and new in text:
        line = text.count("\n", 0, text.index(new)) + 1
        return _failed(
            f"old_text was not found in {name}; new_text is already there at line {line}",
            "read the file: the edit may be done",
        )
    hints: list[str] = []
    if _tabs(text) and not _tabs(old) and re.search(r"^ {2,}", old, re.MULTILINE):
        hints.append("the file uses tabs for indentation, old_text uses blanks")
    elif _tabs(old) and not _tabs(text):
        hints.append("old_text uses tabs for indentation, the file does not")
    near = _closest_line(text, lines)
    if near:
        hints.append(near)
    if replace_all:
        hints.append("with replace_all only line endings may differ")
    why = f": {'; '.join(hints)}" if hints else ""
    return _failed(
        f"old_text was not found in {name}{why}",
        "read the place again with read_file and copy the text exactly, without line numbers",
    )


def _tabs(text: str) -> bool:
    return text.startswith("\t") or "\n\t" in text or "\r\t" in text


def _closest_line(text: str, old_lines: list[str]) -> str:
    wanted = max((line.strip() for line in old_lines), key=len, default="")[:300]
    if len(wanted) < 4:
        return ""
    matcher = SequenceMatcher(autojunk=False)
    matcher.set_seq2(wanted)
    best, best_line, best_text = 0.6, 0, ""
    for number, line in enumerate(text.split("\n")[:20_000], 1):
        stripped = line.strip()
        if not 0.5 < (len(stripped) + 1) / (len(wanted) + 1) < 2:
            continue
        matcher.set_seq1(stripped[:300])
        if matcher.real_quick_ratio() > best and matcher.quick_ratio() > best and matcher.ratio() > best:
            best, best_line, best_text = matcher.ratio(), number, stripped
    return f"the closest line is {best_line}: {best_text[:120]!r}" if best_line else ""


# ---------------------------------------------------------------- writing


def _merge(matched: str, place: _Place, ending: str) -> str:
    """The text to write for `matched`: parts that old and new share keep the file's own form."""
    old, new = place.old, place.new
    theirs, ours = normalise(matched, place.flags), normalise(old, place.flags)
    out: list[str] = []
    for tag, a, b, c, d in _opcodes(old, new):
        if tag == "equal":
            out.append(_kept(matched, theirs, ours, old, a, b))
        else:
            out.append(new[c:d].replace("\n", ending))
    return "".join(out)


def _kept(matched: str, theirs: Normal, ours: Normal, old: str, a: int, b: int) -> str:
    """The file's form of old[a:b]; edges that fall inside a composed character are taken from `old`."""
    low, high = _inner(ours, len(old), a, b)
    if low >= high:
        return old[a:b]
    while low < high and not theirs.is_start(low):
        low += 1
    while high > low and not theirs.is_end(high - 1):
        high -= 1
    if low >= high:
        return old[a:b]
    head = old[a : ours.start(low)] if ours.start(low) > a and not old[a : ours.start(low)].isspace() else ""
    tail = old[ours.end(high - 1) : b]
    return head + matched[theirs.start(low) : theirs.end(high - 1)] + tail


def _inner(ours: Normal, size: int, a: int, b: int) -> tuple[int, int]:
    """The characters of the normal form that lie wholly in raw[a:b]."""
    if ours.starts is None:
        return a, b
    count = len(ours.text)
    low, high = _first(ours, a, count), _last(ours, b, count)
    while low < high and not ours.is_start(low):
        low += 1
    while high > low and not ours.is_end(high - 1):
        high -= 1
    return low, high


def _first(ours: Normal, a: int, count: int) -> int:
    left, right = 0, count
    while left < right:
        middle = (left + right) // 2
        if ours.start(middle) < a:
            left = middle + 1
        else:
            right = middle
    return left


def _last(ours: Normal, b: int, count: int) -> int:
    left, right = 0, count
    while left < right:
        middle = (left + right) // 2
        if ours.end(middle) <= b:
            left = middle + 1
        else:
            right = middle
    return left


def _opcodes(old: str, new: str) -> Iterator[tuple[str, int, int, int, int]]:
    """How `new` comes from `old`: ("equal" | "replace", a, b, c, d) over old[a:b] and new[c:d]."""
    head = _common(old, new)
    tail = _common(old[head:][::-1], new[head:][::-1])
    if head:
        yield "equal", 0, head, 0, head
    a, b, c, d = head, len(old) - tail, head, len(new) - tail
    small = (b - a) <= 1500 and (d - c) <= 1500
    if b > a and d > c:
        left = list(old[a:b]) if small else old[a:b].splitlines(keepends=True)
        right = list(new[c:d]) if small else new[c:d].splitlines(keepends=True)
        at_left, at_right = _offsets(left, a), _offsets(right, c)
        for tag, i, j, k, m in SequenceMatcher(None, left, right, autojunk=False).get_opcodes():
            yield "equal" if tag == "equal" else "replace", at_left[i], at_left[j], at_right[k], at_right[m]
    elif b > a or d > c:
        yield "replace", a, b, c, d
    if tail:
        yield "equal", b, len(old), d, len(new)


def _offsets(parts: list[str], start: int) -> list[int]:
    offsets = [start]
    for part in parts:
        offsets.append(offsets[-1] + len(part))
    return offsets


def _common(left: str, right: str) -> int:
    """Length of the common prefix."""
    low, high = 0, min(len(left), len(right))
    while low < high:
        middle = (low + high + 1) // 2
        if left[:middle] == right[:middle]:
            low = middle
        else:
            high = middle - 1
    return low
