"""`AuditLog`: who did what, why, with which outcome; written before and after every call."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from sqlalchemy import Connection, func, insert, literal_column, select

from .audit_chain import COLUMNS, Keys, seal, start
from .audit_home import AuditHome, Head, Manifest, Slot
from .audit_query import AuditEntry, AuditQuery, AuditStats, Page
from .audit_retention import prune_rows
from .audit_verify import AuditReport, verify
from .database import Database
from .schema import audit
from .texts import storable
from .times import now_us, to_us

__all__ = ["AuditEntry", "AuditLog", "AuditRecord", "AuditReport", "AuditStats", "Kind", "Page"]

Kind = Literal["intent", "outcome", "approval", "retention", "config"]

_CHECKPOINT_EVERY = 5_000
"""Rows of one writer between two rows that also state the heads of all others."""

_dump = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=str).encode


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRecord:
    """One record. Whoever makes it has redacted `body` and all texts before.

    Attributes:
        kind: "intent" before a call runs, "outcome" after it (denials too), "approval" for a
            person's answer, "config" for a change of settings, "retention" when records are deleted.
        call_id: the call it is about.
        tool: registered name of the tool.
        principal: on whose behalf.
        origin: kind of front that made the call.
        session: conversation or run.
        parent: call that made this one.
        mode: policy mode.
        node: pipeline node.
        status: "ok", "error", "denied", "needs_approval" …; empty for an intent.
        side_effects: "none", "done" or "unknown".
        duration_ms: wall time of the execution in milliseconds.
        cost_usd: what it cost in US dollars.
        at: when; None is now.
        body: further facts (arguments, verdict, sizes, reason) as JSON values.
    """

    kind: Kind
    call_id: str = ""
    tool: str = ""
    principal: str = "local"
    origin: str = ""
    session: str = ""
    parent: str | None = None
    mode: str = "default"
    node: str | None = None
    status: str = ""
    side_effects: str = "none"
    duration_ms: float = 0.0
    cost_usd: float = 0.0
    at: datetime | None = None
    body: Mapping[str, Any] = field(default_factory=dict[str, Any])


class AuditLog:
    """Appends records and answers questions about them.

    Args:
        db: where the records are.
        home: Geode's home; the key and the signed heads are kept beneath it.
        now: the wall time in microseconds since 1970; tests turn it by hand.
    """

    def __init__(self, db: Database, home: Path, *, now: Callable[[], int] = now_us) -> None:
        self._now = now
        self._db = db
        self._home = AuditHome(home, db.identity)
        self._query = AuditQuery(db, self._home)
        self._insert = str(insert(audit).compile(dialect=db.engine.dialect))
        self._positional = bool(insert(audit).compile(dialect=db.engine.dialect).positional)
        # All below changes only inside transactions of the writer, one after another.
        self._slot: Slot | None = None
        self._keys: Keys | None = None
        self._seq = 0
        self._mac = b""
        self._signed = 0
        self._stale = True
        db.on_close(self._release)

    # ------------------------------------------------------------ writing

    async def record(self, record: AuditRecord) -> None:
        """Append one record; when this returns it survives the end of the process.

        Raises:
            StoreError: it was not recorded; the call it is about must not run.
        """
        work = self._appending((self._row(record),))
        # Taking a place in the chain may wait for another process; going on in it does not.
        await self._db.write(work, settled=self._settle, brief=not self._stale)

    async def records(self, records: Sequence[AuditRecord]) -> None:
        """Append several records in one transaction: all of them or none."""
        await self._db.write(self._appending([self._row(r) for r in records]), settled=self._settle)

    def record_sync(self, record: AuditRecord) -> None:
        """`record` for callers without an event loop."""
        self._db.write_sync(self._appending((self._row(record),)), settled=self._settle)

    async def prune(self, before: datetime, *, principal: str = "local") -> int:
        """Delete records older than `before` and record that, in the same transaction.

        The newest record of each writer always stays, so that its chain can be continued.

        Returns:
            How many were deleted.
        """
        return await self._db.write(lambda c: self._prune(c, before, principal), settled=self._settle)

    # ------------------------------------------------------------ reading

    async def verify(self, progress: Callable[[int, int], None] | None = None) -> AuditReport:
        """Check every chain from its beginning to its signed head.

        Args:
            progress: called with (records checked, records in all) now and then, in another thread.
        """
        return await self._db.read(lambda c: verify(c, self._home, progress))

    async def verify_newest(self) -> AuditReport:
        """Whether what follows each signed head is as Geode wrote it: quick, however long the record is."""
        return await self._db.read(self._newest)

    async def size(self) -> int:
        """How many records there are."""
        count = select(func.count()).select_from(audit)
        return await self._db.read(lambda c: c.execute(count).scalar_one())

    async def key_lost(self) -> str:
        """What it means that the key is not there although records are; "" while all is well."""
        if self._home.keys() is not None:
            return ""
        begun = self._home.manifest_file.exists() or bool(self._home.head_writers())
        if not begun and not await self._db.read(self._has_rows_of_ours):
            return ""
        return (
            f"the audit key {self._home.key_file} is missing or unusable, although there are records: a new key is made"
            " when something is recorded, and what was recorded before can no longer be verified."
            " If you have the key, put it back first."
        )

    async def list(
        self,
        *,
        since: datetime | None = None,
        tool: str | None = None,
        status: str | None = None,
        session: str | None = None,
        kinds: Sequence[str] | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page:
        """Newest first: one entry a call, see `AuditQuery.list`."""
        return await self._query.list(
            since=since, tool=tool, status=status, session=session, kinds=kinds, limit=limit, cursor=cursor
        )

    async def show(self, call_id: str) -> tuple[AuditEntry, ...]:
        """All records of one call, oldest first; `NotStored` when there is none."""
        return await self._query.show(call_id)

    async def stats(self, *, since: datetime | None = None) -> AuditStats:
        """Calls, success, latency and cost by tool."""
        return await self._query.stats(since=since)

    async def in_doubt(self) -> tuple[AuditEntry, ...]:
        """Calls that were begun by a process that has ended and have no outcome."""
        return await self._query.in_doubt()

    def _newest(self, connection: Connection) -> AuditReport:
        keys = self._home.keys()
        manifest = None if keys is None else self._home.manifest(keys)
        if keys is None or manifest is None:
            what = f"key file {self._home.key_file}" if keys is None else f"list of writers {self._home.manifest_file}"
            return AuditReport(False, 0, None, [f"the {what} is missing or unusable: nothing can be verified"])
        problems = [f"noted before: {incident}" for incident in manifest.incidents]
        for writer in manifest.writers:
            found = self._continuation(connection, keys, writer)
            if isinstance(found, str):
                problems.append(f"writer {writer}: {found}")
        return AuditReport(not problems, len(manifest.writers), None, problems)

    # ------------------------------------------------------------ in a transaction of the writer

    def _appending(self, rows: Sequence[list[Any]]) -> Callable[[Connection], None]:
        def work(connection: Connection) -> None:
            for row in rows:
                self._append(connection, row)

        return work

    def _append(self, connection: Connection, row: list[Any]) -> None:
        """Seal a row as the next of our chain and insert it."""
        if self._stale:
            self._take_over(connection)
        slot, keys = self._slot, self._keys
        assert slot is not None and keys is not None
        if (self._seq + 1) % _CHECKPOINT_EVERY == 0:
            self._insert_row(connection, slot, keys, self._state("checkpoint", slot, keys))
        self._insert_row(connection, slot, keys, row)

    def _insert_row(self, connection: Connection, slot: Slot, keys: Keys, row: list[Any]) -> None:
        values = [slot.writer, self._seq + 1, *row]
        mac = seal(keys.chain, self._mac, values)
        values.append(mac)
        if self._positional:
            connection.exec_driver_sql(self._insert, tuple(values))
        else:
            connection.exec_driver_sql(self._insert, dict(zip((*COLUMNS, "mac"), values, strict=True)))
        self._seq += 1
        self._mac = mac

    def _settle(self, committed: bool) -> None:
        """After the transaction: sign the new head, or forget what we thought was written."""
        if not committed:
            self._stale = True
        elif self._slot is not None and self._signed != self._seq and not self._stale:
            self._slot.write_head(self._seq, self._mac)
            self._signed = self._seq

    def _take_over(self, connection: Connection) -> None:
        """Continue our slot after a failed transaction, or take a free one, or make one."""
        if self._slot is not None and self._keys is not None:
            tail = self._continuation(connection, self._keys, self._slot.writer)
            if isinstance(tail, Head):
                self._seq, self._mac, self._stale = tail.seq, tail.mac, False
                return
            self._release()
        with self._home.alone():
            keys, manifest = self._home.ensure(has_rows=lambda: self._has_rows_of_ours(connection))
            slot, tail = self._free_slot(connection, keys, manifest)
            if slot is None:
                slot = self._home.new_slot(keys, manifest)
                tail = Head(slot.writer, 0, start(keys.chain, slot.writer))
        self._slot, self._keys = slot, keys
        self._seq, self._mac, self._signed, self._stale = tail.seq, tail.mac, tail.seq, False
        opened = self._state("opened", slot, keys, home=manifest.home)
        self._insert_row(connection, slot, keys, opened)

    @staticmethod
    def _has_rows_of_ours(connection: Connection) -> bool:
        """Whether there are rows that this home must have written: of a server, only this machine's."""
        query = select(audit.c.seq).limit(1)
        if connection.dialect.name != "sqlite":
            host = _dump(platform.node())
            query = query.where(audit.c.kind == "config", audit.c.body.contains(f'"host":{host}', autoescape=True))
        return connection.execute(query).first() is not None

    def _free_slot(self, connection: Connection, keys: Keys, manifest: Manifest) -> tuple[Slot | None, Head]:
        """A slot that no process holds and whose chain is as its head says."""
        for writer in manifest.writers:
            if writer in manifest.retired:
                continue
            slot = self._home.try_slot(keys, writer)
            if slot is None:
                continue
            found = self._continuation(connection, keys, writer)
            if isinstance(found, Head):
                return slot, found
            slot.release()
            manifest.retired.append(writer)
            manifest.note(f"writer {writer}: {found}")
            self._home.save(keys, manifest)
        return None, Head("", 0, b"")

    def _continuation(self, connection: Connection, keys: Keys, writer: str) -> Head | str:
        """Where the chain of `writer` goes on, or what is wrong with it."""
        head = self._home.head(keys, writer)
        if head is None:
            return "its signed head is missing or not signed with our key"
        # Without types: a value of the wrong kind must come as it is stored.
        columns = [literal_column(name) for name in (*COLUMNS, "mac")]
        mine = (audit.c.writer == writer, audit.c.seq >= head.seq)
        query = select(*columns).select_from(audit).where(*mine).order_by(audit.c.seq)
        seq, mac = head.seq, head.mac
        if head.seq == 0:
            mac = start(keys.chain, writer)
        rows = connection.execute(query).all()
        if head.seq and (not rows or rows[0].seq != head.seq or rows[0].mac != head.mac):
            return f"record {head.seq} is not in the database as its signed head says"
        for row in rows[1 if head.seq else 0 :]:
            if row.seq != seq + 1 or row.mac != seal(keys.chain, mac, list(row[:-1])):
                return f"record {row.seq} was not written by Geode"
            seq, mac = row.seq, row.mac
        return Head(writer, seq, mac)

    def _state(self, event: str, slot: Slot, keys: Keys, **more: Any) -> list[Any]:
        """A record about ourselves that also states the heads of all other writers."""
        heads: dict[str, list[Any]] = {}
        for writer in self._home.head_writers():
            head = self._home.head(keys, writer) if writer != slot.writer else None
            if head is not None and head.seq:
                heads[writer] = [head.seq, head.mac.hex()]
        facts = {"event": event, "heads": heads, "pid": os.getpid(), "host": platform.node(), **more}
        return self._row(AuditRecord(kind="config", body=facts))

    def _prune(self, connection: Connection, before: datetime, principal: str) -> int:
        if self._stale:
            self._take_over(connection)
        slot, keys = self._slot, self._keys
        assert slot is not None and keys is not None
        deleted, facts = prune_rows(connection, to_us(before))
        if deleted:
            self._insert_row(
                connection, slot, keys, self._row(AuditRecord(kind="retention", principal=principal, body=facts))
            )
        return deleted

    def _row(self, record: AuditRecord) -> list[Any]:
        return _row(record, self._now() if record.at is None else to_us(record.at))

    def _release(self) -> None:
        if self._slot is not None:
            self._slot.release()
            self._slot = None
            self._stale = True


def _row(record: AuditRecord, at_us: int) -> list[Any]:
    """The columns behind `writer` and `seq`, in the order of `COLUMNS`."""
    body = _dump(record.body)
    row: list[Any] = [
        record.kind,
        record.call_id,
        record.tool,
        record.principal,
        record.origin,
        record.session,
        record.parent,
        record.mode,
        record.node,
        record.status,
        record.side_effects,
        round(record.duration_ms * 1000),
        round(record.cost_usd * 1_000_000),
        at_us,
        body,
    ]
    try:
        if b"\x00" not in "".join([v for v in row if v.__class__ is str]).encode():
            return row
    except UnicodeEncodeError:
        pass  # half a character somewhere
    return [storable(v) if isinstance(v, str) else v for v in row]
