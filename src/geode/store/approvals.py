"""`Approvals`: questions to a person, their answers, and the single use of a yes.

A yes is bound to the digest of exactly one call and can be consumed once, by one process.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar

from sqlalchemy import Connection, and_, case, delete, insert, select, update

from ..core.errors import NotStored, StoreError, UsageError
from ..core.ports import ApprovalRequest
from .database import Database
from .schema import approvals
from .texts import storable
from .times import from_us, now_us, to_us

__all__ = ["ApprovalAnswered", "ApprovalExpired", "Approvals", "StoredApproval"]

_STATES = ("pending", "approved", "denied", "expired", "used")


class ApprovalExpired(StoreError):
    """The answer came after the time was over: the call did not and will not run."""

    code: ClassVar[str] = "approval_expired"


class ApprovalAnswered(StoreError):
    """Somebody has answered already; the first answer stays."""

    code: ClassVar[str] = "approval_answered"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredApproval:
    """A question and what became of it.

    Attributes:
        id: as in the request.
        digest: of exactly the call that may run.
        state: "pending", "approved", "denied", "expired" or "used".
        view: what the person sees, redacted.
        verdict: why it was asked.
        expires_at: while pending, when the question ends; when approved, when the yes ends.
        answered_by: who answered, None while nobody has.
        reason: the reason given with the answer.
        project: directory the call would run in; "" when it was stored by an earlier version.
        used_at: when a yes was used up, or a no was told to its asker.
    """

    id: str
    digest: str
    principal: str
    session: str
    call_id: str
    tool: str
    origin: str
    mode: str
    view: str
    verdict: Mapping[str, Any]
    state: str
    created_at: datetime
    expires_at: datetime
    answered_at: datetime | None
    answered_by: str | None
    reason: str
    used_at: datetime | None
    project: str

    def to_json(self) -> dict[str, Any]:
        """All fields under their own names, times in ISO 8601."""
        return {
            "id": self.id,
            "tool": self.tool,
            "state": self.state,
            "view": self.view,
            "verdict": dict(self.verdict),
            "principal": self.principal,
            "session": self.session,
            "call_id": self.call_id,
            "origin": self.origin,
            "mode": self.mode,
            "project": self.project,
            "digest": self.digest,
            "created_at": self.created_at.isoformat(),
            "expires_at": self.expires_at.isoformat(),
            "answered_at": self.answered_at.isoformat() if self.answered_at else None,
            "answered_by": self.answered_by,
            "reason": self.reason,
            "used_at": self.used_at.isoformat() if self.used_at else None,
        }


class Approvals:
    """Keeps approvals for all processes of one database."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def create(self, request: ApprovalRequest) -> StoredApproval:
        """Store a question. The call's arguments are not stored, only digest and `view` (redacted by the caller).

        Raises:
            StoreError: nothing was stored, or the id exists already.
        """
        call = request.call
        row: dict[str, Any] = {
            "id": storable(request.id),
            "digest": request.digest,
            "principal": storable(call.principal),
            "session": storable(call.session),
            "call_id": storable(call.id),
            "tool": storable(call.tool),
            "origin": str(call.origin),
            "mode": storable(call.mode),
            "project": storable(str(call.cwd)),
            "view": storable(request.view),
            "verdict": storable(json.dumps(request.verdict.to_json(), ensure_ascii=False)),
            "state": "pending",
            "created_us": now_us(),
            "expires_us": to_us(request.expires_at),
            "reason": "",
        }
        await self._db.write(lambda c: c.execute(insert(approvals).values(row)) and None)
        return await self.get(request.id)

    async def get(self, approval_id: str) -> StoredApproval:
        """One approval as it stands now.

        Raises:
            NotStored: there is none with this id.
        """
        return await self._db.read(lambda c: _load(c, approval_id))

    async def list(self, state: str | None = None, *, limit: int = 200) -> tuple[StoredApproval, ...]:
        """Newest first; `state` None for all.

        Raises:
            UsageError: no such state.
        """
        if state is not None and state not in _STATES:
            raise UsageError(f"there is no approval state {state!r}", fix=f"use one of: {', '.join(_STATES)}")
        query = select(approvals).order_by(approvals.c.created_us.desc(), approvals.c.id.desc()).limit(limit)
        if state is not None:
            over = and_(approvals.c.state.in_(("pending", "approved")), approvals.c.expires_us <= now_us())
            query = query.where(case((over, "expired"), else_=approvals.c.state) == state)
        return await self._db.read(lambda c: tuple(_approval(r) for r in c.execute(query)))

    async def answer(
        self, approval_id: str, approved: bool, by: str, reason: str = "", *, valid_for: float = 3600.0
    ) -> StoredApproval:
        """Record a person's yes or no.

        Args:
            approval_id: which question.
            approved: yes or no.
            by: who answered; never the agent itself.
            reason: shown to the model with a no.
            valid_for: seconds for which a yes can be used.

        Raises:
            NotStored: there is no such question.
            ApprovalExpired: its time was over.
            ApprovalAnswered: it was answered before.
        """

        def work(connection: Connection) -> StoredApproval:
            now = now_us()
            values: dict[str, Any] = {
                "state": "approved" if approved else "denied",
                "answered_us": now,
                "answered_by": storable(by),
                "reason": storable(reason),
            }
            if approved:
                values["expires_us"] = now + int(valid_for * 1_000_000)
            done = connection.execute(
                update(approvals)
                .where(
                    approvals.c.id == storable(approval_id),
                    approvals.c.state == "pending",
                    approvals.c.expires_us > now,
                )
                .values(values)
            ).rowcount
            found = _load(connection, approval_id)
            if done:
                return found
            if found.answered_at is None:
                raise ApprovalExpired(
                    f"the request {approval_id} expired at {found.expires_at:%Y-%m-%d %H:%M:%S} UTC;"
                    " the call was not run",
                    fix="make the call again to be asked again",
                )
            raise ApprovalAnswered(
                f"the request {approval_id} was already answered by {found.answered_by}: {found.state}",
                fix="make the call again to be asked again",
            )

        return await self._db.write(work)

    async def expire(self, approval_id: str) -> bool:
        """End a question before its time, because nobody waits for the answer any more.

        Returns:
            Whether it was still open.
        """
        return await self._db.write(
            lambda c: bool(
                c.execute(
                    update(approvals)
                    .where(approvals.c.id == storable(approval_id), approvals.c.state == "pending")
                    .values(state="expired", expires_us=now_us())
                ).rowcount
            )
        )

    async def consume(self, digest: str, principal: str) -> StoredApproval | None:
        """Use up a yes for exactly this call: of all processes that try, one gets it.

        Returns:
            The approval, now "used", or None when there is no valid yes.
        """

        def work(connection: Connection) -> StoredApproval | None:
            now = now_us()
            valid = and_(
                approvals.c.digest == digest,
                approvals.c.principal == storable(principal),
                approvals.c.state == "approved",
                approvals.c.expires_us > now,
            )
            candidates = select(approvals.c.id).where(valid).order_by(approvals.c.answered_us, approvals.c.id)
            for name in connection.execute(candidates).scalars().all():
                taken = connection.execute(
                    update(approvals).where(approvals.c.id == name, valid).values(state="used", used_us=now)
                ).rowcount
                if taken:
                    return _load(connection, name)
            return None

        return await self._db.write(work)

    async def take_refusal(self, digest: str, principal: str) -> StoredApproval | None:
        """A no to exactly this call that its asker has not been told yet; it is told once."""

        def work(connection: Connection) -> StoredApproval | None:
            untold = and_(
                approvals.c.digest == digest,
                approvals.c.principal == principal,
                approvals.c.state == "denied",
                approvals.c.used_us.is_(None),
            )
            query = select(approvals.c.id).where(untold).order_by(approvals.c.answered_us.desc()).limit(1)
            name = connection.execute(query).scalar()
            if name is None or not self._tell(connection, name):
                return None
            return _load(connection, name)

        return await self._db.write(work)

    async def told(self, approval_id: str) -> None:
        """The asker knows of the no already (the person was asked while the call waited)."""
        await self._db.write(lambda c: self._tell(c, approval_id) and None)

    @staticmethod
    def _tell(connection: Connection, approval_id: str) -> bool:
        where = and_(approvals.c.id == approval_id, approvals.c.state == "denied", approvals.c.used_us.is_(None))
        return bool(connection.execute(update(approvals).where(where).values(used_us=now_us())).rowcount)

    async def latest(self, digest: str, principal: str) -> StoredApproval | None:
        """The newest question about exactly this call, so that it is not asked twice at once."""
        query = (
            select(approvals)
            .where(approvals.c.digest == digest, approvals.c.principal == storable(principal))
            .order_by(approvals.c.created_us.desc(), approvals.c.id.desc())
            .limit(1)
        )
        row = await self._db.read(lambda c: c.execute(query).first())
        return None if row is None else _approval(row)

    async def wait(self, approval_id: str, *, seconds: float, poll: float = 0.25) -> StoredApproval:
        """Wait until it is answered (by whatever process), expires, or `seconds` are over."""
        end = time.monotonic() + seconds
        while True:
            found = await self.get(approval_id)
            left = end - time.monotonic()
            if found.state != "pending" or left <= 0:
                return found
            await asyncio.sleep(min(poll, left))

    async def purge(self, before: datetime) -> int:
        """Delete approvals created before; returns how many."""
        limit = to_us(before)
        return await self._db.write(
            lambda c: c.execute(delete(approvals).where(approvals.c.created_us < limit)).rowcount
        )


def _load(connection: Connection, approval_id: str) -> StoredApproval:
    row = connection.execute(select(approvals).where(approvals.c.id == storable(approval_id))).first()
    if row is None:
        raise NotStored(
            f"there is no approval request {approval_id[:80]!r}", fix="list them with: geode approvals list"
        )
    return _approval(row)


def _approval(row: Any) -> StoredApproval:
    state = row.state
    if state in ("pending", "approved") and row.expires_us <= now_us():
        state = "expired"
    return StoredApproval(
        id=row.id,
        digest=row.digest,
        principal=row.principal,
        session=row.session,
        call_id=row.call_id,
        tool=row.tool,
        origin=row.origin,
        mode=row.mode,
        view=row.view,
        verdict=json.loads(row.verdict),
        state=state,
        created_at=from_us(row.created_us),
        expires_at=from_us(row.expires_us),
        answered_at=None if row.answered_us is None else from_us(row.answered_us),
        answered_by=row.answered_by,
        reason=row.reason,
        used_at=None if row.used_us is None else from_us(row.used_us),
        project=row.project or "",
    )
