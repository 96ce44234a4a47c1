"""Questions about the audit record: lists, one call, figures by tool, calls in doubt."""

from __future__ import annotations

import json
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Select, and_, func, or_, select

from ..core.errors import NotStored, UsageError
from .audit_home import AuditHome
from .database import Database
from .schema import audit
from .texts import storable
from .times import from_us, to_us

__all__ = ["AuditEntry", "AuditQuery", "AuditStats", "Page", "ToolStats"]

_CALLS = ("intent", "outcome")


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """A record as shown to people.

    Attributes:
        id: `WRITER#NUMBER` of the row.
        kind: kind of the record; for a call in a list that of its newest row.
        status: as recorded; for an intent without outcome "running" while its process lives,
            else "unknown": it may or may not have happened, and is not repeated by itself.
        duration_ms: wall time in milliseconds.
        cost_usd: US dollars.
        at: UTC.
        body: the further facts that were recorded.
    """

    id: str
    kind: str
    call_id: str
    tool: str
    principal: str
    origin: str
    session: str
    parent: str | None
    mode: str
    node: str | None
    status: str
    side_effects: str
    duration_ms: float
    cost_usd: float
    at: datetime
    body: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        """All fields under their own names, the time in ISO 8601."""
        return {
            "id": self.id,
            "kind": self.kind,
            "call_id": self.call_id,
            "tool": self.tool,
            "principal": self.principal,
            "origin": self.origin,
            "session": self.session,
            "parent": self.parent,
            "mode": self.mode,
            "node": self.node,
            "status": self.status,
            "side_effects": self.side_effects,
            "duration_ms": self.duration_ms,
            "cost_usd": self.cost_usd,
            "at": self.at.isoformat(),
            "body": self.body,
        }


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a list; `cursor` gets the next one, None when there is none."""

    entries: tuple[AuditEntry, ...]
    cursor: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolStats:
    """Figures of one tool. Latencies in milliseconds, over calls that ran; cost in US dollars.

    `calls` is the sum of `ok`, `errors`, `denied`, `needs_approval` and `unknown` (interrupted: what came of
    them is not known); `success_rate` is the share of `ok` in `ok` and `errors`, the calls that ran to an end.
    """

    tool: str
    calls: int
    ok: int
    errors: int
    denied: int
    needs_approval: int
    unknown: int
    success_rate: float | None
    p50_ms: float | None
    p95_ms: float | None
    cost_usd: float

    def to_json(self) -> dict[str, Any]:
        return {
            "tool": self.tool,
            "calls": self.calls,
            "ok": self.ok,
            "errors": self.errors,
            "denied": self.denied,
            "needs_approval": self.needs_approval,
            "unknown": self.unknown,
            "success_rate": self.success_rate,
            "p50_ms": self.p50_ms,
            "p95_ms": self.p95_ms,
            "cost_usd": self.cost_usd,
        }


@dataclass(frozen=True, slots=True)
class AuditStats:
    """Figures over all tools and for each, most used first."""

    total: ToolStats
    tools: tuple[ToolStats, ...]

    @property
    def unknown(self) -> int:
        """Interrupted calls of all tools."""
        return self.total.unknown

    def to_json(self) -> dict[str, Any]:
        """`calls`, `success_rate` … of everything, `unknown`, and `tools`."""
        total = self.total.to_json()
        del total["tool"]
        return {**total, "tools": [t.to_json() for t in self.tools]}


@dataclass(slots=True)
class _Tally:
    by_status: dict[str, int] = field(default_factory=dict[str, int])
    durations: array[int] = field(default_factory=lambda: array("q"))
    cost: int = 0

    def add(self, status: str, duration: int, cost: int) -> None:
        self.by_status[status] = self.by_status.get(status, 0) + 1
        self.cost += cost
        if status in ("ok", "error"):
            self.durations.append(duration)

    def merge(self, other: _Tally) -> None:
        for status, count in other.by_status.items():
            self.by_status[status] = self.by_status.get(status, 0) + count
        self.durations.extend(other.durations)
        self.cost += other.cost

    def figures(self, tool: str) -> ToolStats:
        ok, errors = self.by_status.get("ok", 0), self.by_status.get("error", 0)
        ordered = sorted(self.durations)
        return ToolStats(
            tool=tool,
            calls=sum(self.by_status.values()),
            ok=ok,
            errors=errors,
            denied=self.by_status.get("denied", 0),
            needs_approval=self.by_status.get("needs_approval", 0),
            unknown=self.by_status.get("unknown", 0),
            success_rate=ok / (ok + errors) if ok + errors else None,
            p50_ms=_percentile(ordered, 0.50),
            p95_ms=_percentile(ordered, 0.95),
            cost_usd=self.cost / 1_000_000,
        )


class AuditQuery:
    """Reads for `AuditLog`.

    Args:
        db: where the records are.
        home: tells which writers are alive.
    """

    def __init__(self, db: Database, home: AuditHome) -> None:
        self._db = db
        self._home = home

    async def list(
        self,
        *,
        since: datetime | None,
        tool: str | None,
        status: str | None,
        session: str | None,
        kinds: Sequence[str] | None,
        limit: int,
        cursor: str | None,
    ) -> Page:
        """Newest first.

        Args:
            since: only records of this time or later.
            tool: only this tool.
            status: only this status, "running" and "unknown" included.
            session: only this session.
            kinds: None gives one entry a call (its outcome, or its intent while there is none);
                else all records of these kinds.
            limit: entries at most.
            cursor: of the page before.

        Raises:
            UsageError: the cursor or the limit makes no sense.
        """
        if not 1 <= limit <= 10_000:
            raise UsageError(f"a limit of {limit} is not between 1 and 10000", fix="give --limit 50")
        query = select(audit).where(_calls() if kinds is None else audit.c.kind.in_(tuple(kinds)))
        if since is not None:
            query = query.where(audit.c.at_us >= to_us(since))
        if tool is not None:
            query = query.where(audit.c.tool == storable(tool))
        if session is not None:
            query = query.where(audit.c.session == storable(session))
        if status is not None:
            # What an open intent is shown as depends on its process, not on what is stored.
            depends = status in ("running", "unknown")
            query = query.where(or_(_has(status), audit.c.kind == "intent") if depends else _has(status))
        query = query.order_by(audit.c.at_us.desc(), audit.c.writer.desc(), audit.c.seq.desc())
        return await self._db.read(lambda c: self._page(c, query, status, limit, cursor))

    async def show(self, call_id: str) -> tuple[AuditEntry, ...]:
        """All records of a call, oldest first; also takes the `WRITER#NUMBER` of one record.

        Raises:
            NotStored: there is none.
        """
        where = audit.c.call_id == storable(call_id)
        writer, _, number = call_id.partition("#")
        if number.isascii() and number.isdigit() and len(number) < 18:
            where = and_(audit.c.writer == storable(writer), audit.c.seq == int(number))
        query = select(audit).where(where).order_by(audit.c.at_us, audit.c.writer, audit.c.seq)
        found = await self._db.read(lambda c: self._entries(c, c.execute(query).all())) if call_id else ()
        if not found:
            raise NotStored(f"the audit record has nothing about {call_id!r}", fix="list calls with: geode audit list")
        return found

    async def in_doubt(self) -> tuple[AuditEntry, ...]:
        """Intents without outcome whose process has ended, newest first."""
        query = select(audit).where(audit.c.kind == "intent", _open()).order_by(audit.c.at_us.desc())
        entries = await self._db.read(lambda c: self._entries(c, c.execute(query).all()))
        return tuple(e for e in entries if e.status == "unknown")

    async def stats(self, *, since: datetime | None) -> AuditStats:
        """Count outcomes; durations are held as 8 bytes a call, nothing else grows with the record."""

        def work(connection: Connection) -> dict[str, _Tally]:
            query = select(audit.c.tool, audit.c.status, audit.c.duration_us, audit.c.cost_micros, audit.c.kind).where(
                _finished()
            )
            if since is not None:
                query = query.where(audit.c.at_us >= to_us(since))
            tallies: dict[str, _Tally] = {}
            rows = connection.execution_options(yield_per=5000).execute(query)
            for tool, status, duration, cost, _kind in rows:
                tallies.setdefault(tool, _Tally()).add(status, duration, cost)
            return tallies

        tallies = await self._db.read(work)
        for entry in await self.in_doubt():
            if since is None or entry.at >= since:
                tallies.setdefault(entry.tool, _Tally()).add("unknown", 0, 0)
        total = _Tally()
        for tally in tallies.values():
            total.merge(tally)
        tools = sorted((t.figures(name) for name, t in tallies.items()), key=lambda s: (-s.calls, s.tool))
        return AuditStats(total.figures(""), tuple(tools))

    # ------------------------------------------------------------ inside a reading transaction

    def _page(
        self, connection: Connection, query: Select[Any], status: str | None, limit: int, cursor: str | None
    ) -> Page:
        entries: list[AuditEntry] = []
        at = _parse_cursor(cursor) if cursor else None
        while True:
            step = query if at is None else query.where(_after(at))
            rows = connection.execute(step.limit(limit + 1)).all()
            for row, entry in zip(rows, self._entries(connection, rows), strict=True):
                if status is None or entry.status == status:
                    if len(entries) == limit:
                        return Page(tuple(entries), _cursor(at))
                    entries.append(entry)
                at = (row.at_us, row.writer, row.seq)
            if len(rows) <= limit:
                return Page(tuple(entries), None)

    def _entries(self, connection: Connection, rows: Sequence[Any]) -> tuple[AuditEntry, ...]:
        open_ids = self._open_calls(connection, rows)
        opened = self._opened(connection, {r.writer for r in rows if r.call_id in open_ids})
        entries: list[AuditEntry] = []
        for row in rows:
            status, effects = row.status, row.side_effects
            if row.kind == "intent" and row.call_id in open_ids:
                running = row.seq > opened.get(row.writer, 0) and self._home.is_alive(row.writer)
                status, effects = ("running" if running else "unknown"), "unknown"
            entries.append(_entry(row, status, effects))
        return tuple(entries)

    @staticmethod
    def _open_calls(connection: Connection, rows: Sequence[Any]) -> set[str]:
        """Those of the intents in `rows` that have no outcome."""
        intents = [r.call_id for r in rows if r.kind == "intent"]
        finished: set[str] = set()
        for at in range(0, len(intents), 500):
            part = intents[at : at + 500]
            query = select(audit.c.call_id).where(audit.c.kind == "outcome", audit.c.call_id.in_(part))
            finished.update(connection.execute(query).scalars())
        return set(intents) - finished

    @staticmethod
    def _opened(connection: Connection, writers: set[str]) -> dict[str, int]:
        """For each writer the row with which its present process began."""
        found: dict[str, int] = {}
        for writer in writers:
            query = select(func.max(audit.c.seq)).where(
                audit.c.writer == writer, audit.c.kind == "config", audit.c.body.like('{"event":"opened"%')
            )
            found[writer] = connection.execute(query).scalar() or 0
        return found


def _has(status: str) -> Any:
    return audit.c.status == storable(status)


def _open() -> Any:
    other = audit.alias("other")
    return ~select(other.c.seq).where(other.c.call_id == audit.c.call_id, other.c.kind == "outcome").exists()


def _calls() -> Any:
    """One row a call: the outcome, or the intent while there is no outcome."""
    return or_(audit.c.kind == "outcome", and_(audit.c.kind == "intent", _open()))


def _finished() -> Any:
    return audit.c.kind == "outcome"


def _entry(row: Any, status: str, effects: str) -> AuditEntry:
    try:
        body = json.loads(row.body)
    except ValueError:
        body = None
    return AuditEntry(
        id=f"{row.writer}#{row.seq}",
        kind=row.kind,
        call_id=row.call_id,
        tool=row.tool,
        principal=row.principal,
        origin=row.origin,
        session=row.session,
        parent=row.parent,
        mode=row.mode,
        node=row.node,
        status=status,
        side_effects=effects,
        duration_ms=row.duration_us / 1000,
        cost_usd=row.cost_micros / 1_000_000,
        at=from_us(row.at_us),
        body=body if isinstance(body, dict) else {"damaged": row.body},
    )


def _percentile(ordered: Sequence[int], share: float) -> float | None:
    """Nearest-rank percentile in milliseconds."""
    if not ordered:
        return None
    return ordered[min(len(ordered) - 1, max(0, -int(-share * len(ordered) // 1) - 1))] / 1000


def _cursor(at: tuple[int, str, int] | None) -> str | None:
    return None if at is None else f"{at[0]}.{at[1]}.{at[2]}"


def _parse_cursor(text: str) -> tuple[int, str, int]:
    try:
        at, writer, seq = text.split(".")
        if len(at) < 19 and len(seq) < 19:
            return int(at), storable(writer), int(seq)
        raise ValueError(text)
    except ValueError:
        raise UsageError(
            "the cursor is not one that a list gave", fix="take it from the list before, as it is"
        ) from None


def _after(at: tuple[int, str, int]) -> Any:
    """Rows that come later in the list (that are older) than `at`."""
    return or_(
        audit.c.at_us < at[0],
        and_(audit.c.at_us == at[0], audit.c.writer < at[1]),
        and_(audit.c.at_us == at[0], audit.c.writer == at[1], audit.c.seq < at[2]),
    )
