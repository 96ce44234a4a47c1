"""`Results`: full outputs, kept so that what a model did not see can still be read as `result:ID`.

The text is redacted by the caller before it comes here. A result is visible only when it is whole.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import BinaryIO

from sqlalchemy import ColumnElement, Connection, delete, insert, select

from ..core.call import new_id
from ..core.errors import NotStored, UsageError
from ..core.messages import clean_text
from ..core.ports import StoredText
from .database import Database
from .failures import from_os
from .schema import result_chunks, results
from .texts import storable
from .times import from_us, now_us, to_us

__all__ = ["Results", "StoredResult"]

_CHUNK = 128 * 1024
"""Characters in one row."""

_AT_ONCE = 32
"""Rows in one transaction (about 4 MB), so that a large result does not block other writers."""

_MOST = 1 << 60
"""Beyond any line number, within what a database takes as a number."""

_ORPHAN = timedelta(hours=6)
"""Age after which chunks without a result belong to a process that was killed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredResult:
    """A result without its text."""

    id: str
    session: str
    principal: str
    call_id: str
    tool: str
    at: datetime
    total_lines: int
    total_chars: int
    total_bytes: int


@dataclass(slots=True)
class _Totals:
    lines: int = 0
    chars: int = 0
    size: int = 0


class Results:
    """Satisfies `core.ports.ResultStore`."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def put(self, text: str, *, session: str, principal: str, call_id: str, tool: str) -> str:
        """Store a text (already redacted) and return its id without the `result:` prefix.

        Lone surrogates become U+FFFD; everything else comes back as it is.

        Raises:
            StoreError: nothing was stored.
        """
        text = clean_text(text)
        parts = (text[at : at + _CHUNK] for at in range(0, len(text), _CHUNK))
        return await self._put(parts, session, principal, call_id, tool)

    async def put_file(
        self,
        path: Path,
        *,
        session: str,
        principal: str,
        call_id: str,
        tool: str,
        redact: Callable[[str], str] | None = None,
    ) -> str:
        """Store a file's text without ever holding all of it; invalid UTF-8 becomes U+FFFD.

        Args:
            path: the file; it is not removed.
            session: who may read it.
            principal: who may read it.
            call_id: the call it came from.
            tool: the tool it came from.
            redact: applied to each piece of whole lines (a line over 128 KiB is cut) before it is stored.

        Raises:
            StoreError: the file cannot be read, or nothing was stored.
        """
        try:
            with path.open("rb") as file:
                parts = _decoded(file)
                if redact is not None:
                    parts = (redact(piece) for piece in _by_lines(parts))
                return await self._put(parts, session, principal, call_id, tool)
        except OSError as error:
            raise from_os(error, f"the output file {path}") from error

    async def get(
        self,
        result_id: str,
        *,
        session: str,
        principal: str,
        offset: int = 1,
        limit: int = 2000,
        start_char: int = 0,
        max_chars: int | None = None,
    ) -> StoredText:
        """Lines from `offset` (1-based), at most `limit`.

        Args:
            result_id: with or without the `result:` prefix.
            session: the reader's session.
            principal: the reader.
            offset: first line.
            limit: lines at most.
            start_char: characters to skip from there, for reading on inside a huge line.
            max_chars: characters at most; None for no limit.

        Raises:
            UsageError: offset, limit or a number of characters makes no sense.
            NotStored: unknown, expired, or of another session or principal (not told apart).
        """
        offset, limit = min(offset, _MOST), min(limit, _MOST)
        if offset < 1 or limit < 1 or start_char < 0 or (max_chars is not None and max_chars < 1):
            raise UsageError("offset and limit count from 1", fix="give offset >= 1 and limit >= 1")
        name = storable(result_id.removeprefix("result:"))

        def work(connection: Connection) -> StoredText:
            found = connection.execute(
                select(results.c.total_lines, results.c.total_chars).where(*_mine(name, session, principal))
            ).first()
            if found is None:
                raise _unknown(name)
            text = _collect(_lines(connection, name, offset, limit), start_char, max_chars)
            return StoredText(
                text=text, first_line=offset, total_lines=found.total_lines, total_chars=found.total_chars
            )

        return await self._db.read(work)

    async def info(self, result_id: str, *, session: str, principal: str) -> StoredResult:
        """Sizes and origin of a result; `NotStored` like `get`."""
        name = storable(result_id.removeprefix("result:"))
        query = select(results).where(*_mine(name, session, principal))
        row = await self._db.read(lambda c: c.execute(query).mappings().first())
        if row is None:
            raise _unknown(name)
        values = dict(row)
        return StoredResult(at=from_us(values.pop("at_us")), **values)

    async def purge(self, before: datetime) -> int:
        """Delete results older than `before`, and pieces that a killed process left. Returns how many results."""
        limit = to_us(before)

        def work(connection: Connection) -> int:
            old = select(results.c.id).where(results.c.at_us < limit)
            connection.execute(delete(result_chunks).where(result_chunks.c.result_id.in_(old)))
            gone = connection.execute(delete(results).where(results.c.at_us < limit)).rowcount
            orphan = result_chunks.c.at_us < now_us() - _ORPHAN // timedelta(microseconds=1)
            whole = select(results.c.id)
            connection.execute(delete(result_chunks).where(orphan, result_chunks.c.result_id.not_in(whole)))
            return gone

        return await self._db.write(work)

    async def _put(self, parts: Iterable[str], session: str, principal: str, call_id: str, tool: str) -> str:
        name = new_id("r")
        at = now_us()
        totals = _Totals()
        waiting: list[dict[str, object]] = []
        for number, piece in enumerate(_pieces(parts, totals)):
            waiting.append({"result_id": name, "n": number, "at_us": at, **piece})
            if len(waiting) >= _AT_ONCE:
                rows, waiting = waiting, []
                await self._db.write(lambda c, rows=rows: c.execute(insert(result_chunks), rows) and None)

        def finish(connection: Connection) -> None:
            if waiting:
                connection.execute(insert(result_chunks), waiting)
            connection.execute(
                insert(results).values(
                    id=name,
                    session=storable(session),
                    principal=storable(principal),
                    call_id=storable(call_id),
                    tool=storable(tool),
                    at_us=at,
                    total_lines=totals.lines,
                    total_chars=totals.chars,
                    total_bytes=totals.size,
                )
            )

        await self._db.write(finish)
        return name


def _mine(name: str, session: str, principal: str) -> tuple[ColumnElement[bool], ...]:
    return (
        results.c.id == name,
        results.c.session == storable(session),
        results.c.principal == storable(principal),
    )


def _unknown(name: str) -> NotStored:
    return NotStored(
        f"there is no result {name[:60]!r} in this session",
        fix="results are kept for a limited time and only within their session; run the tool again",
    )


def _pieces(parts: Iterable[str], totals: _Totals) -> Iterator[dict[str, object]]:
    """Rows of `result_chunks` without id and number; counts while it goes."""
    line = 1
    ended = True
    for part in parts:
        for at in range(0, len(part), _CHUNK):
            text = part[at : at + _CHUNK]
            ends = text.count("\n")
            ended = text.endswith("\n")
            last = line + ends - (1 if ended else 0)
            data = text.encode("utf-8", "replace")
            totals.chars += len(text)
            totals.size += len(data)
            totals.lines = last
            yield {"first_line": line, "last_line": last, "text": data}
            line += ends


def _lines(connection: Connection, name: str, offset: int, limit: int) -> Iterator[str]:
    """Pieces of the text of lines `offset` .. `offset + limit - 1`, in order."""
    last = offset + limit - 1
    query = (
        select(result_chunks.c.first_line, result_chunks.c.last_line, result_chunks.c.text)
        .where(
            result_chunks.c.result_id == name,
            result_chunks.c.last_line >= offset,
            result_chunks.c.first_line <= last,
        )
        .order_by(result_chunks.c.n)
    )
    for row in connection.execution_options(yield_per=4).execute(query):
        text = row.text.decode("utf-8")
        begin, end = 0, len(text)
        if row.first_line < offset:
            begin = _nth_end(text, offset - row.first_line)
        if row.last_line > last:
            end = _nth_end(text, last - row.first_line + 1)
        yield text[begin:end]


def _nth_end(text: str, n: int) -> int:
    """The place behind the n-th line end, or the text's end."""
    at = 0
    for _ in range(n):
        found = text.find("\n", at)
        if found < 0:
            return len(text)
        at = found + 1
    return at


def _collect(parts: Iterator[str], skip: int, most: int | None) -> str:
    taken: list[str] = []
    room = most
    for part in parts:
        if skip:
            dropped = min(skip, len(part))
            part, skip = part[dropped:], skip - dropped
        if room is not None:
            part = part[:room]
            room -= len(part)
        taken.append(part)
        if room == 0:
            break
    return "".join(taken)


def _decoded(file: BinaryIO) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    while block := file.read(_CHUNK):
        yield decoder.decode(block)
    yield decoder.decode(b"", final=True)


def _by_lines(parts: Iterable[str]) -> Iterator[str]:
    """The same text in pieces that end at line ends, so that nothing is split where redaction looks."""
    kept = ""
    for part in parts:
        kept += part
        cut = kept.rfind("\n") + 1
        if cut == 0 and len(kept) >= _CHUNK:
            cut = len(kept)
        if cut:
            yield kept[:cut]
            kept = kept[cut:]
    if kept:
        yield kept
