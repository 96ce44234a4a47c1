"""Read a window of lines out of a text file of any size, and describe how to read on."""

from __future__ import annotations

import codecs
import hashlib
from dataclasses import dataclass, field
from typing import BinaryIO

from ..text import count_endings, cut_text, decode, is_binary, split_lines

__all__ = ["BinaryContent", "TooLarge", "Window", "read_window", "window_of_lines"]

_SAMPLE = 256 * 1024
_CHUNK = 1024 * 1024
_WHOLE = 16 * 1024 * 1024
MAX_BYTES = 1024 * 1024 * 1024


class BinaryContent(Exception):
    """The file is not text. `sample` holds its first bytes."""

    def __init__(self, sample: bytes) -> None:
        super().__init__("binary")
        self.sample = sample


class TooLarge(Exception):
    """The file is larger than can be read as text."""


@dataclass(slots=True)
class Window:
    """Some lines of a text.

    Attributes:
        lines: texts without line ends; the first starts at `column` of line `first`.
        first: number of the first line, 1-based.
        column: 1-based character of the first line at which the window starts.
        total_lines: of the whole text.
        next_line, next_column: where to read on; 0 when the window reaches the end.
        encoding, endings, tabs, version, size: facts about the file, where known.
    """

    lines: list[str] = field(default_factory=list[str])
    first: int = 1
    column: int = 1
    total_lines: int = 0
    next_line: int = 0
    next_column: int = 1
    encoding: str = ""
    endings: str = ""
    tabs: bool = False
    version: str = ""
    size: int = 0


def window_of_lines(lines: list[str], first: int, total: int, *, column: int, chars: int) -> Window:
    """Cut `lines` (starting with line `first`) to at most `chars` characters.

    Whole lines where possible; a line that alone is longer is cut, and reading goes on inside it.
    """
    window = Window(first=first, column=column, total_lines=total)
    room = chars
    for at, line in enumerate(lines):
        start = column - 1 if at == 0 else 0
        piece = line[start:]
        if len(piece) > room:
            if window.lines:
                window.next_line = first + at
            else:
                piece = cut_text(piece, room)
                window.lines.append(piece)
                window.next_line, window.next_column = first, start + len(piece) + 1
            return window
        window.lines.append(piece)
        room -= len(piece) + 1
    if first + len(lines) <= total:
        window.next_line = first + len(lines)
    return window


def read_window(stream: BinaryIO, *, offset: int, limit: int, column: int, chars: int) -> Window:
    """Lines `offset`.. (at most `limit`, at most `chars` characters) of a text file.

    Raises:
        BinaryContent, TooLarge
    """
    sample = stream.read(_SAMPLE)
    if is_binary(sample[:8192]):
        raise BinaryContent(sample[:64])
    wide = decode(sample[: len(sample) // 4 * 4 or len(sample)]).encoding.startswith(("utf-16", "utf-32"))
    if len(sample) < _SAMPLE or wide:
        data = sample + stream.read(_WHOLE + 1)
        if len(data) > _WHOLE + _SAMPLE:
            raise TooLarge
        return _from_whole(data, offset, limit, column, chars)
    return _from_scan(sample, stream, offset, limit, column, chars)


def _from_whole(data: bytes, offset: int, limit: int, column: int, chars: int) -> Window:
    if b"\x00" in data and is_binary(data):
        raise BinaryContent(data[:64])
    decoded = decode(data)
    lines = split_lines(decoded.text)
    window = window_of_lines(lines[offset - 1 : offset - 1 + limit], offset, len(lines), column=column, chars=chars)
    window.encoding = decoded.label
    _describe(window, decoded.text)
    window.version, window.size = hashlib.sha256(data).hexdigest()[:12], len(data)
    return window


def _from_scan(sample: bytes, stream: BinaryIO, offset: int, limit: int, column: int, chars: int) -> Window:
    """Stream a large file: count all line ends, keep only the bytes of the window."""
    encoding, label = _encoding_of_sample(sample)
    digest = hashlib.sha256()
    kept = bytearray()
    room = (column + chars) * 4 + limit * 2
    line, size, taken, last = 1, 0, 0, b""
    chunk = sample
    while chunk:
        digest.update(chunk)
        size += len(chunk)
        if size > MAX_BYTES:
            raise TooLarge
        ends = chunk.count(b"\n")
        if line + ends >= offset and taken < limit and len(kept) < room:
            start = _after_lines(chunk, offset - line)
            end = _after_lines(chunk, offset + limit - line)
            kept += chunk[start : min(end, start + room - len(kept))]
            taken = max(0, min(limit, line + ends - offset))
        line += ends
        last = chunk[-1:]
        chunk = stream.read(_CHUNK)
    total = line - 1 + (last != b"\n")
    text = kept.decode(encoding, "replace")
    window = window_of_lines(split_lines(text)[:limit], offset, total, column=column, chars=chars)
    if len(kept) >= room and not window.next_line:
        window.next_line, window.next_column = offset, column + len(window.lines[-1])
    window.encoding, window.version, window.size = label, digest.hexdigest()[:12], size
    _describe(window, sample.decode(encoding, "replace"))
    return window


def _after_lines(chunk: bytes, count: int) -> int:
    """Index after `count` line ends of `chunk`; 0 when count <= 0, the length when it has fewer."""
    at = 0
    for _ in range(max(0, count)):
        found = chunk.find(b"\n", at)
        if found < 0:
            return len(chunk)
        at = found + 1
    return at


def _encoding_of_sample(sample: bytes) -> tuple[str, str]:
    try:
        codecs.getincrementaldecoder("utf-8")().decode(sample, final=False)
        bom = sample.startswith(codecs.BOM_UTF8)
        return "utf-8-sig" if bom else "utf-8", "utf-8 with BOM" if bom else "utf-8"
    except UnicodeDecodeError:
        found = decode(sample[: sample.rfind(b"\n") + 1] or sample)
        return found.encoding, found.label


def _describe(window: Window, text: str) -> None:
    counts = count_endings(text)
    names = {"\n": "LF", "\r\n": "CRLF", "\r": "lone CR"}
    present = [names[e] for e, n in counts.items() if n]
    if present != ["LF"]:
        window.endings = " and ".join(present)
    window.tabs = text.startswith("\t") or "\n\t" in text
