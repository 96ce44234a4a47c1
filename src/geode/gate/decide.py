"""What is still Ask after the policies: judges, an approval given earlier, a person.

An approval is bound to the digest of exactly this call and is used once. When nobody can
be asked the call is refused at once and the request stays, so that a person can approve
it later and the same call then runs (cases R53, R60, R78).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta

from ..core.call import Call, Decision, TraceStep, Verdict, new_id
from ..core.events import ApprovalAnswered, ApprovalRequested, Event
from ..core.ports import ApprovalAnswer, ApprovalRequest, Approver, Clock, Judge
from ..store.approvals import Approvals
from ..tools.registry import ToolEntry
from .shape import Redacts

__all__ = ["Clearance", "Desk"]

_OPEN_FOR = 3600.0
"""Seconds a question stays open for a later answer when nobody could be asked at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clearance:
    """The end of deciding: may it run, and if not, why and what can be done."""

    verdict: Verdict
    approval_id: str = ""
    waiting: bool = False
    """True when a person could still approve it."""
    message: str = ""


@dataclass(slots=True, kw_only=True)
class Desk:
    """Where an Ask is turned into yes or no.

    Attributes:
        approvals: stored requests and answers.
        clock: wall time for expiry.
        redactor: removes secrets from what is shown and stored.
        approver: asks a person, or None when nobody can be asked.
        judges: second opinions, in order; the first that allows or denies ends the row.
        timeout: seconds a person has to answer.
    """

    approvals: Approvals
    clock: Clock
    redactor: Redacts
    approver: Approver | None = None
    judges: tuple[Judge, ...] = ()
    timeout: float = 300.0

    async def clear(
        self, call: Call, entry: ToolEntry, verdict: Verdict, digest: str, emit: Callable[[Event], None]
    ) -> Clearance:
        """Decide a call whose verdict is Ask. The tool's own clock has not started."""
        for judge in self.judges:
            verdict = _stricter_only(verdict, await judge.judge(call, verdict))
            if verdict.decision is not Decision.ASK:
                return Clearance(verdict=verdict, message=verdict.reason)
        given = await self.approvals.consume(digest, call.principal)
        if given is not None:
            step = TraceStep("approval", Decision.ALLOW, f"approved by {given.answered_by}")
            return Clearance(verdict=_decided(verdict, Decision.ALLOW, step), approval_id=given.id)
        no = await self.approvals.take_refusal(digest, call.principal) if self.approver is None else None
        if no is not None:
            return _refused(verdict, no.id, no.answered_by or "a person", no.reason)
        request = await self._request(call, entry, verdict, digest)
        if self.approver is None:
            return _nobody(verdict, request.id)
        emit(ApprovalRequested(call, request.id, verdict.reason))
        limit = asyncio.timeout(self.timeout)
        try:
            async with limit:
                answer = await self.approver.ask(request)
        except Exception as error:  # boundary: an approver is foreign code; without an answer nothing runs
            await self.approvals.expire(request.id)
            if not limit.expired():
                return _failed_to_ask(verdict, request.id, error)
            emit(ApprovalAnswered(call, request.id, approved=False, reason="expired"))
            step = TraceStep("approval", Decision.DENY, f"nobody answered within {self.timeout:g} s: expired, not run")
            expired = replace(_decided(verdict, Decision.DENY, step), advice="")
            return Clearance(verdict=expired, approval_id=request.id, message=step.reason)
        if not answer.answered:
            return _nobody(verdict, request.id)
        emit(ApprovalAnswered(call, request.id, approved=answer.approved, reason=answer.reason))
        return await self._settle(verdict, request, answer)

    async def _request(self, call: Call, entry: ToolEntry, verdict: Verdict, digest: str) -> ApprovalRequest:
        """Store the question, or take up the one that is already open for exactly this call."""
        request = ApprovalRequest(
            id=new_id("appr"),
            call=call,
            verdict=verdict,
            digest=digest,
            view=self._view(call, entry),
            expires_at=self.clock.now() + timedelta(seconds=max(self.timeout, _OPEN_FOR)),
        )
        last = await self.approvals.latest(digest, call.principal)
        if last is not None and last.state == "pending":
            return replace(request, id=last.id, expires_at=last.expires_at)
        await self.approvals.create(request)
        return request

    def _view(self, call: Call, entry: ToolEntry) -> str:
        """What a person is shown: the tool's own view or its arguments, secrets removed."""
        if entry.spec.view is not None:
            return self.redactor.text(entry.spec.view(call.arguments))
        shown = json.dumps(self.redactor.json(dict(call.arguments)), ensure_ascii=False, indent=2, default=str)
        return f"{entry.name} {shown}"

    async def _settle(self, verdict: Verdict, request: ApprovalRequest, answer: ApprovalAnswer) -> Clearance:
        """Store the answer and, for a yes, spend it at once: two answers cannot both run the call."""
        await self.approvals.answer(request.id, answer.approved, answer.by, answer.reason)
        await self.approvals.told(request.id)
        if answer.approved and await self.approvals.consume(request.digest, request.call.principal) is not None:
            step = TraceStep("approval", Decision.ALLOW, f"approved by {answer.by}")
            return Clearance(verdict=_decided(verdict, Decision.ALLOW, step), approval_id=request.id)
        return _refused(verdict, request.id, answer.by, answer.reason)


def _decided(verdict: Verdict, decision: Decision, step: TraceStep) -> Verdict:
    return replace(verdict, decision=decision, trace=(*verdict.trace, step))


def _stricter_only(before: Verdict, after: Verdict) -> Verdict:
    """A judge may decide an Ask; it never lifts a Deny."""
    return before if before.decision is Decision.DENY else after


def _refused(verdict: Verdict, approval_id: str, by: str, why: str) -> Clearance:
    reason = f"refused by {by}" + (f": {why}" if why else "")
    step = TraceStep("approval", Decision.DENY, reason)
    # The advice of the rule that asked is no answer to a person's no.
    decided = replace(_decided(verdict, Decision.DENY, step), advice="")
    return Clearance(verdict=decided, approval_id=approval_id, message=reason)


def _failed_to_ask(verdict: Verdict, approval_id: str, error: Exception) -> Clearance:
    step = TraceStep("approval", Decision.DENY, f"the approver failed ({type(error).__name__}): not run")
    decided = replace(_decided(verdict, Decision.DENY, step), advice="")
    return Clearance(verdict=decided, approval_id=approval_id, message=step.reason)


def _nobody(verdict: Verdict, approval_id: str) -> Clearance:
    rules = ", ".join(dict.fromkeys(s.policy for s in verdict.trace if s.verdict is Decision.ASK))
    message = (
        f"needs approval ({verdict.reason or 'policy asks'}; rule {rules}) and there is no approver here. "
        f"It was not run. A person can allow exactly this call once with: geode approvals approve {approval_id}"
    )
    if verdict.advice:
        message += f"\n{verdict.advice[0].upper()}{verdict.advice[1:]}"
    return Clearance(verdict=verdict, approval_id=approval_id, waiting=True, message=message)
