"""Shape a tool's output for the model: redact first, then shorten visibly and keep the rest.

Over 200 lines or 10,000 characters the model gets the first and the last 50 lines, the
number of what was left out, and how to read it (design, section 4; requirements T72-T75).
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from ..core.call import Call, canonical_json
from ..core.counts import counted
from ..core.errors import GeodeError
from ..core.messages import Audio, Block, Image, ResourceLink, Structured, Text, clean_json
from ..core.ports import ResultStore
from ..tools.tool import ToolOutput

__all__ = ["OutputLimits", "Redacts", "Shaped", "cut_back", "shape", "shorten"]

_MARKER_ROOM = 400
"""Characters kept free for the marker, so that the shortened text stays within the limit."""


class OutputLimits(Protocol):
    """How much of one result the model sees."""

    @property
    def lines(self) -> int: ...
    @property
    def chars(self) -> int: ...
    @property
    def head(self) -> int: ...
    @property
    def tail(self) -> int: ...


class Redacts(Protocol):
    """Removes secrets from text and JSON values."""

    def text(self, text: str) -> str: ...

    def json(self, value: Any) -> Any: ...


@dataclass(frozen=True, slots=True)
class Shaped:
    """What the model gets, and facts about what it does not get."""

    content: tuple[Block, ...]
    structured: Any
    details: dict[str, Any]


_JOINERS = {0x200D, 0xFE0E, 0xFE0F, 0x20E3}


def _continues(char: str) -> bool:
    """True when `char` belongs to the character before it (mark, joiner, skin tone, flag tail)."""
    code = ord(char)
    return bool(unicodedata.combining(char)) or code in _JOINERS or 0x1F3FB <= code <= 0x1F3FF


def _is_flag(char: str) -> bool:
    return 0x1F1E6 <= ord(char) <= 0x1F1FF


def cut_back(text: str, at: int) -> int:
    """The largest index <= `at` where `text` can be cut without splitting what a reader sees as one character."""
    if at <= 0 or at >= len(text):
        return max(0, min(at, len(text)))
    low = max(0, at - 64)
    while at > low and (_continues(text[at]) or ord(text[at - 1]) == 0x200D):
        at -= 1
    if at > low and _is_flag(text[at]):
        start = at
        while start > low and _is_flag(text[start - 1]):
            start -= 1
        if (at - start) % 2:
            at -= 1
    return at


def shorten(text: str, limits: OutputLimits, *, max_chars: int | None = None) -> tuple[str, str, int, int] | None:
    """Split a text that is too long into head and tail.

    Args:
        text: the whole text.
        limits: the limits of the gate.
        max_chars: a tool's own limit in characters; it replaces both limits of the gate.

    Returns:
        None when the text may stay whole, else (head, tail, omitted lines, omitted characters);
        head and tail together stay below the limit, also when single lines are huge.
    """
    chars = max_chars or limits.chars
    lines = text.count("\n") + (not text.endswith("\n") if text else 0)
    if len(text) <= chars and (max_chars is not None or lines <= limits.lines):
        return None
    room = max(200, (chars - _MARKER_ROOM) // 2)
    head_end = _line_end(text, limits.head)
    tail_start = _line_start(text, limits.tail)
    if tail_start < head_end:  # few lines, but long ones: characters alone decide
        head_end, tail_start = len(text), 0
    head_end = cut_back(text, min(head_end, room))
    tail_start = max(head_end, cut_back(text, max(tail_start, len(text) - room)))
    if tail_start == head_end:
        return None
    middle = text[head_end:tail_start]
    return text[:head_end], text[tail_start:], middle.count("\n"), len(middle)


def _line_end(text: str, count: int) -> int:
    at = 0
    for _ in range(count):
        found = text.find("\n", at)
        if found < 0:
            return len(text)
        at = found + 1
    return at


def _line_start(text: str, count: int) -> int:
    at = len(text) - 1 if text.endswith("\n") else len(text)
    for _ in range(count):
        found = text.rfind("\n", 0, at)
        if found < 0:
            return 0
        at = found
    return at + 1


async def shape(
    output: ToolOutput,
    call: Call,
    *,
    tool: str,
    max_chars: int | None,
    limits: OutputLimits,
    redactor: Redacts,
    results: ResultStore,
) -> Shaped:
    """Redact and shorten `output`; store what was left out.

    Spool files of the output are stored whole (redacted) and deleted. Its first text block is then
    the part of them that the tool shows; what follows (an exit code) is not in them.
    """
    details = dict(clean_json(redactor.json(dict(output.details))))
    structured = clean_json(redactor.json(output.structured)) if output.structured is not None else None
    blocks = _blocks(output, structured)
    texts = [redactor.text(b.text) for b in blocks if isinstance(b, Text)]
    whole = "\n".join(texts)
    cut = shorten(whole, limits, max_chars=max_chars)
    if cut is None and not output.spools:
        return Shaped(tuple(_redacted(b, redactor) for b in blocks), structured, details)
    kept = await _keep(output.spools, whole, call, tool, redactor, results)
    details |= kept.details
    shown = len(texts[0]) if texts else 0
    if cut is None:
        texts = [whole, f"[{kept.where}{kept.how(1)}]"]
    else:
        head, tail, lines, chars = cut
        if output.spools and kept.reference:
            lines, chars = _left_out(kept, head, whole[len(whole) - len(tail) : shown])
        details["omitted"] = {"lines": lines, "characters": chars}
        first = head.count("\n") + 1
        marker = f"[… {counted(lines, 'line')}, {counted(chars, 'character')} omitted. {kept.where}{kept.how(first)}]"
        texts = [head.rstrip("\n"), marker, tail]
    others = tuple(_redacted(b, redactor) for b in blocks if not isinstance(b, Text))
    return Shaped((Text("\n".join(t for t in texts if t)), *others), structured, details)


def _blocks(output: ToolOutput, structured: Any) -> Sequence[Block]:
    if isinstance(output.content, str):
        if output.content or structured is None:
            return [Text(output.content)]
        text = structured if isinstance(structured, str) else canonical_pretty(structured)
        return [Text(text)]
    return list(output.content)


def canonical_pretty(value: Any) -> str:
    """A JSON value as text for a model: one line when it is short, indented when not."""
    line = canonical_json(value)
    if len(line) <= 400:
        return line
    return json.dumps(value, ensure_ascii=False, indent=1, default=str)


def _redacted(block: Block, redactor: Redacts) -> Block:
    match block:
        case Text(text):
            return Text(redactor.text(text))
        case Structured(data):
            return Structured(redactor.json(data))
        case ResourceLink(uri, name, mime_type, description):
            return ResourceLink(redactor.text(uri), redactor.text(name), mime_type, redactor.text(description))
        case Image() | Audio():
            return block


@dataclass(frozen=True, slots=True)
class _Kept:
    """Where the full text is, or why it could not be kept; its lines and characters."""

    reference: str
    where: str
    lines: int = 0
    chars: int = 0

    @property
    def details(self) -> dict[str, Any]:
        return {"result": self.reference} if self.reference else {"result_error": self.where}

    def how(self, line: int) -> str:
        if not self.reference:
            return "Ask for less at a time."
        return f'Read on: read_file {{"path": "{self.reference}", "offset": {line}}}'


async def _keep(
    spools: tuple[Path, ...], whole: str, call: Call, tool: str, redactor: Redacts, results: ResultStore
) -> _Kept:
    """Store the full output; spool files hold more than the text does and are deleted afterwards."""
    session, principal = call.session, call.principal
    owner = {"session": session, "principal": principal, "call_id": call.id, "tool": tool}
    try:
        names = [await results.put_file(spool, redact=redactor.text, **owner) for spool in spools]
        names = names or [await results.put(whole, **owner)]
        sizes = [await results.get(n, session=session, principal=principal, limit=1, max_chars=1) for n in names]
    except GeodeError as error:
        return _Kept("", f"The full output could not be kept: {error.message}. ")
    finally:
        for spool in spools:
            spool.unlink(missing_ok=True)
    lines, chars = sum(size.total_lines for size in sizes), sum(size.total_chars for size in sizes)
    size = f"{counted(lines, 'line')}, {counted(chars, 'character')}"
    where = f"Full output: {', '.join(f'result:{n}' for n in names)} ({size}). "
    return _Kept(f"result:{names[0]}", where, lines, chars)


def _left_out(kept: _Kept, head: str, tail: str) -> tuple[int, int]:
    """Lines and characters of the stored full output that neither its head nor its tail shows."""
    lines = kept.lines - 1 - head.count("\n") - tail.count("\n")
    return max(0, lines), max(0, kept.chars - len(head) - len(tail))
