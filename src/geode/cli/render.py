"""Output for people and programs: tables, safe text, exactly one JSON document.

Colours and box drawing (rich) only on a terminal, and never with `NO_COLOR`, `TERM=dumb`
or a pipe. Text from outside is stripped of control characters, so that a tool's name or
description cannot repaint the terminal.
"""

from __future__ import annotations

import json
import os
import re
import sys
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TextIO, TypeVar

from ..core.counts import counted
from ..core.errors import UsageError

__all__ = [
    "Page",
    "counted",
    "emit_json",
    "emit_line",
    "local_time",
    "note",
    "page",
    "paint",
    "plain",
    "shortened",
    "size",
    "table",
    "visible",
    "zone",
]

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]")
_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_COLOURS = {"red": "31", "green": "32", "yellow": "33", "cyan": "36", "dim": "2", "bold": "1"}


def plain(text: str) -> str:
    """`text` without escape sequences, control and direction characters (newlines and tabs stay)."""
    return _CONTROL.sub("", _ESCAPE.sub("", text.replace("\r\n", "\n")))


def visible(text: str) -> str:
    """`text` with every control or direction character shown as an escape: for what a person approves."""
    return _CONTROL.sub(lambda m: f"\\u{ord(m[0]):04x}" if ord(m[0]) > 0xFF else f"\\x{ord(m[0]):02x}", text)


def emit_json(document: Mapping[str, Any], stream: TextIO | None = None) -> None:
    """Write one JSON document with `"schema": 1` first, as UTF-8, readable."""
    _write_json({"schema": 1, **document}, stream or sys.stdout, indent=2)


def emit_line(document: Mapping[str, Any], stream: TextIO | None = None) -> None:
    """Write one JSON document on one line: the answers of `--batch`."""
    _write_json({"schema": 1, **document}, stream or sys.stdout, indent=None)


def _write_json(document: Mapping[str, Any], stream: TextIO, *, indent: int | None) -> None:
    text = json.dumps(document, ensure_ascii=False, indent=indent, default=_as_json)
    data = (text + "\n").encode("utf-8", "replace")  # a lone surrogate becomes "?": never an error here
    buffer = getattr(stream, "buffer", None)
    if buffer is None:
        stream.write(data.decode())
        return
    stream.flush()
    buffer.write(data)
    buffer.flush()


def _as_json(value: Any) -> Any:
    if hasattr(value, "to_json"):
        return value.to_json()
    if isinstance(value, set | frozenset | tuple):
        return sorted(value)
    return str(value)


def colours_on(stream: TextIO) -> bool:
    """True when the stream is a terminal that wants colours."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def paint(text: str, colour: str, stream: TextIO | None = None) -> str:
    """`text` in a colour (red, green, yellow, cyan, dim, bold) where colours are on."""
    return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m" if colours_on(stream or sys.stdout) else text


def local_time(moment: datetime) -> str:
    """Date, time and zone as people here read it: `2026-11-30 08:00:00 UTC`."""
    local = moment.astimezone()
    return f"{local:%Y-%m-%d %H:%M:%S} {local.tzname() or local.strftime('%z')}"


def zone() -> str:
    """The name of the zone in which times are shown."""
    now = datetime.now().astimezone()
    return now.tzname() or now.strftime("%z")


def note(text: str) -> None:
    """A message or progress for people: on stderr, never part of the result."""
    print(plain(text), file=sys.stderr)


def table(columns: Sequence[str], rows: Sequence[Sequence[object]], *, empty: str = "nothing to show") -> None:
    """Print a table: boxes and wrapping on a terminal, aligned columns in a pipe.

    Args:
        columns: headings.
        rows: one cell a column; None shows as "-".
        empty: said on stderr when there are no rows.
    """
    if not rows:
        note(empty)
        return
    cells = [[_cell(value) for value in row] for row in rows]
    if sys.stdout.isatty():
        _rich_table(columns, cells)
        return
    widths = [max(_width(r[i]) for r in [list(columns), *cells]) for i in range(len(columns))]
    for row in [list(columns), *cells]:
        line = "  ".join(text + " " * (width - _width(text)) for text, width in zip(row, widths, strict=True))
        print(line.rstrip())


def _rich_table(columns: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=SIMPLE_HEAD, header_style="bold", pad_edge=False)
    for at, name in enumerate(columns):
        grid.add_column(name, overflow="fold", no_wrap=at == 0)
    for row in cells:
        grid.add_row(*(Text(cell, style=_STYLES.get(cell, "")) for cell in row))
    Console(no_color=not colours_on(sys.stdout), highlight=False).print(grid)


_STYLES = {
    "ok": "green",
    "allow": "green",
    "approved": "green",
    "running": "green",
    "ask": "yellow",
    "warning": "yellow",
    "pending": "yellow",
    "unknown": "yellow",
    "needs_approval": "yellow",
    "deny": "red",
    "denied": "red",
    "error": "red",
    "failed": "red",
    "fault": "red",
}


def _cell(value: object) -> str:
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return " ".join(plain(str(value)).split())


def _width(text: str) -> int:
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def shortened(text: str, columns: int) -> str:
    """`text` in at most so many columns of a terminal; an ellipsis shows what is missing."""
    if _width(text) <= columns:
        return text
    kept, used = "", 1
    for character in text:
        used += _width(character)
        if used > columns:
            break
        kept += character
    return f"{kept.rstrip()}…"


def size(count: float) -> str:
    """Bytes as a short text: `12 kB`."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            return f"{count:.0f} {unit}" if count >= 10 or unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return ""


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """A part of a list, the cursor that leads on (None at the end) and the length of the whole."""

    items: list[T]
    next_cursor: str | None
    total: int


def page(items: Sequence[T], limit: int, cursor: str | None) -> Page[T]:
    """Cut one page out of a list that is known whole.

    Raises:
        UsageError: the cursor is not one that a list has given.
    """
    start = 0
    if cursor is not None:
        if not (cursor.isascii() and cursor.isdigit()) or len(cursor) > 9:
            raise UsageError(f"{cursor!r} is not a cursor", fix="use the next_cursor of an earlier list")
        start = int(cursor)
    end = start + limit
    return Page(list(items[start:end]), str(end) if end < len(items) else None, len(items))
