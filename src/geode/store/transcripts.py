"""`Transcripts`: the messages of each session in order, each on disk before the next step."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from sqlalchemy import Connection, delete, func, select

from ..core.errors import StoreError
from ..core.messages import clean_json
from .database import Database
from .engine import insert_if_new
from .schema import transcript_messages
from .texts import storable
from .times import from_us, now_us, to_us

__all__ = ["UNREADABLE", "SessionInfo", "Transcripts"]

UNREADABLE: Mapping[str, Any] = {"kind": "unreadable"}
"""Stands for a message that was damaged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionInfo:
    """A session as listed."""

    session: str
    messages: int
    first_at: datetime
    last_at: datetime


class Transcripts:
    """Keeps transcripts; a message is redacted by the caller before it comes here."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def append(self, session: str, seq: int, message: Mapping[str, Any]) -> None:
        """Store message number `seq` of a session; the same one again changes nothing.

        Raises:
            StoreError: another message has this number (two processes continue one session), or
                nothing could be stored.
        """
        text = json.dumps(clean_json(dict(message)), ensure_ascii=False, default=str)
        name = storable(session)

        def work(connection: Connection) -> None:
            row = {"session": name, "seq": seq, "at_us": now_us(), "message": text}
            stored = insert_if_new(connection, transcript_messages, row)
            if stored:
                return
            known = connection.execute(
                select(transcript_messages.c.message).where(
                    transcript_messages.c.session == name, transcript_messages.c.seq == seq
                )
            ).scalar_one()
            if known != text:
                raise StoreError(
                    f"message {seq} of session {name} is already there and different",
                    fix="another process has continued this session: resume it again from its stored state",
                )

        await self._db.write(work, brief=True)

    async def load(self, session: str, *, after: int = -1) -> list[dict[str, Any]]:
        """The messages with numbers above `after` in order; empty for an unknown session.

        One that is no JSON object any more is `UNREADABLE`.
        """
        query = (
            select(transcript_messages.c.message)
            .where(transcript_messages.c.session == storable(session), transcript_messages.c.seq > after)
            .order_by(transcript_messages.c.seq)
        )
        return await self._db.read(lambda c: [_entry(text) for text in c.execute(query).scalars()])

    async def last(self, session: str) -> int:
        """The highest number of a session's messages, -1 for an unknown session."""
        t = transcript_messages.c
        query = select(func.max(t.seq)).where(t.session == storable(session))
        found = await self._db.read(lambda c: c.execute(query).scalar())
        return -1 if found is None else int(found)

    async def sessions(self, *, limit: int = 200) -> tuple[SessionInfo, ...]:
        """Sessions, the one used last first."""
        t = transcript_messages.c
        last = func.max(t.at_us)
        query = (
            select(t.session, func.count(), func.min(t.at_us), last)
            .group_by(t.session)
            .order_by(last.desc(), t.session)
            .limit(limit)
        )
        rows = await self._db.read(lambda c: c.execute(query).all())
        return tuple(
            SessionInfo(session=r[0], messages=r[1], first_at=from_us(r[2]), last_at=from_us(r[3])) for r in rows
        )

    async def beginnings(self, sessions: Sequence[str]) -> dict[str, dict[str, Any]]:
        """The first message of each of these sessions."""
        t = transcript_messages.c
        query = select(t.session, t.message).where(t.session.in_([storable(s) for s in sessions]), t.seq == 0)
        return await self._db.read(lambda c: {row[0]: _entry(row[1]) for row in c.execute(query).all()})

    async def purge(self, before: datetime) -> int:
        """Delete sessions whose last message is older than `before`; returns how many messages."""
        t = transcript_messages.c
        old = select(t.session).group_by(t.session).having(func.max(t.at_us) < to_us(before))
        return await self._db.write(lambda c: c.execute(delete(transcript_messages).where(t.session.in_(old))).rowcount)


def _entry(text: Any) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (TypeError, ValueError, RecursionError):
        return dict(UNREADABLE)
    return cast("dict[str, Any]", found) if isinstance(found, dict) else dict(UNREADABLE)
