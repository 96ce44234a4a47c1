"""`Gate`: the order in which one call is resolved, decided, executed, shaped and recorded.

The contract (docs/architecture.md shows the picture):

- `call` never raises for anything a caller, a tool or a policy does wrong: every end is a
  `ToolResult`. Only cancellation propagates, after the outcome was recorded.
- Nothing runs that was not recorded as an intent first; every end is recorded too.
- What was decided on is what runs: policy and definition are checked again after waiting.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from ..core.call import Call, Decision, TraceStep, Verdict
from ..core.effects import Impact, Origin, only_reads
from ..core.errors import GeodeError, StoreError, ToolCancelled, UnknownTool
from ..core.events import (
    CallDecided,
    CallExecuting,
    CallFinished,
    CallProgress,
    CallStarted,
    CallVerified,
    Event,
    EventBus,
    EventSink,
)
from ..core.messages import Block, SideEffects, Status, Text, ToolResult
from ..core.ports import Caller, Clock, Http, ProcessRunner, ResultStore, Workspace
from ..policy.engine import PolicyEngine
from ..store.idempotency import Idempotency
from ..tools.registry import ToolEntry, ToolRegistry
from ..tools.tool import ToolContext, ToolOutput
from .answers import denied, failed, not_cleared, repeated, stored_form, verification_text
from .decide import Clearance, Desk
from .execute import Executed, GuardedHttp, GuardedRunner, describe, execute
from .record import Recorder
from .resolve import Resolved, judge, resolve
from .shape import OutputLimits, Redacts, Shaped, shape

__all__ = ["Gate", "GateParts", "Pending"]

T = TypeVar("T")
_PERSON = frozenset({Origin.USER, Origin.CLI})


@dataclass(frozen=True, slots=True, kw_only=True)
class GateParts:
    """What a gate is made of; `runtime.py` fills it.

    Attributes:
        registry, policy: what there is and what is allowed.
        desk: turns Ask into yes or no.
        recorder: writes the audit record.
        results, idempotency: full outputs, and first results by key.
        redactor, limits: how output is shaped.
        workspace_for: the guarded files of a workspace root.
        runner, http: ports of the tools; None when not available.
        clock: time.
        events: where every stage is told.
        restrict: what denies a call beside the policies, or makes it ask (an active skill), or None.
    """

    registry: ToolRegistry
    policy: PolicyEngine
    desk: Desk
    recorder: Recorder
    results: ResultStore
    idempotency: Idempotency
    redactor: Redacts
    limits: OutputLimits
    workspace_for: Callable[[Path], Workspace]
    clock: Clock
    events: EventBus
    runner: ProcessRunner | None = None
    http: Http | None = None
    restrict: Callable[[Call, tuple[Impact, ...]], TraceStep | None] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """A call between `begin` and `finish`: resolved, and judged by the policies."""

    resolved: Resolved
    workspace: Workspace

    @property
    def verdict(self) -> Verdict:
        return self.resolved.verdict


class Gate:
    """The one door. Satisfies `core.ports.Caller`."""

    def __init__(self, parts: GateParts) -> None:
        self._parts = parts

    def subscribe(self, sink: EventSink) -> Callable[[], None]:
        """Send every event to `sink` from now on; the returned function ends it."""
        return self._parts.events.subscribe(sink)

    def emit(self, event: Event) -> None:
        """Hand an event to all listeners."""
        self._parts.events.emit(event)

    async def call(self, call: Call) -> ToolResult:
        """Run one call through every stage."""
        return await self.finish(self.begin(call))

    def begin(self, call: Call) -> Pending:
        """Resolve and judge a call; nothing runs and nothing is asked yet."""
        self.emit(CallStarted(call))
        workspace = self._parts.workspace_for(call.cwd)
        resolved = resolve(call, self._parts.registry, self._parts.policy, workspace)
        resolved = replace(resolved, verdict=self._restricted(resolved.call, resolved.verdict))
        self.emit(CallDecided(resolved.call, resolved.verdict))
        return Pending(resolved=resolved, workspace=workspace)

    def _restricted(self, call: Call, verdict: Verdict) -> Verdict:
        """The verdict, stricter when something beside the policies restricts the call."""
        step = self._parts.restrict(call, verdict.impacts) if self._parts.restrict is not None else None
        if step is None:
            return verdict
        decision = max(verdict.decision, step.verdict, key=lambda d: d.rank)
        return replace(verdict, decision=decision, trace=(*verdict.trace, step))

    async def finish(self, pending: Pending) -> ToolResult:
        """Ask what must be asked, run, shape and record."""
        resolved = pending.resolved
        if resolved.verdict.decision is Decision.DENY:
            return await self._end(resolved, denied(resolved, resolved.verdict))
        if resolved.error is not None or resolved.entry is None:
            return await self._end(resolved, failed(resolved, resolved.error or UnknownTool(resolved.call.tool)))
        try:
            return await self._finish_known(pending, resolved, resolved.entry)
        except StoreError as error:
            # Without the store nothing may run; what ran already has said so in its own result.
            result = failed(resolved, error)
            self.emit(CallFinished(resolved.call, result))
            return result

    async def refuse(self, call: Call, *, policy: str, reason: str) -> ToolResult:
        """Record and return the denial of a call that a front does not want to make (a repeat guard, a budget)."""
        self.emit(CallStarted(call))
        verdict = Verdict(Decision.DENY, (TraceStep(policy, Decision.DENY, reason),))
        resolved = Resolved(call=call, entry=None, verdict=verdict)
        self.emit(CallDecided(call, verdict))
        return await self._end(resolved, denied(resolved, verdict))

    async def fail(self, call: Call, error: GeodeError) -> ToolResult:
        """Record and return the failure of a call that was made wrongly before it reached the gate."""
        self.emit(CallStarted(call))
        resolved = Resolved(call=call, entry=None, verdict=Verdict(Decision.ALLOW), error=error)
        return await self._end(resolved, failed(resolved, error))

    async def _finish_known(self, pending: Pending, resolved: Resolved, entry: ToolEntry) -> ToolResult:
        call, digest = resolved.call, resolved.digest
        if call.idempotency_key:
            begun = await self._parts.idempotency.begin(call.idempotency_key, call.principal, digest)
            if begun.state != "new":
                return await self._end(resolved, repeated(resolved, begun.state, begun.result))
        try:
            clearance = await self._clear(resolved, entry, digest)
        except BaseException:
            await self._forget(call)
            raise
        if clearance.verdict.decision is not Decision.ALLOW:
            await self._forget(call)
            return await self._end(resolved, not_cleared(resolved, clearance))
        again = self._recheck(resolved, entry, digest, clearance.verdict, pending.workspace)
        if again is not None:
            await self._forget(call)
            return await self._end(resolved, denied(resolved, again))
        return await self._run(pending, resolved, entry, clearance, digest)

    async def _forget(self, call: Call) -> None:
        if call.idempotency_key:
            await self._parts.idempotency.forget(call.idempotency_key, call.principal)

    async def _clear(self, resolved: Resolved, entry: ToolEntry, digest: str) -> Clearance:
        if resolved.verdict.decision is Decision.ALLOW:
            return Clearance(verdict=resolved.verdict)
        return await self._parts.desk.clear(resolved.call, entry, resolved.verdict, digest, self.emit)

    def _recheck(
        self, resolved: Resolved, entry: ToolEntry, digest: str, cleared: Verdict, workspace: Workspace
    ) -> Verdict | None:
        """A denial when the tool, what it is about or the policies changed while the call waited, else None."""
        try:
            now = self._parts.registry.entry(entry.name)
        except UnknownTool:
            now = None
        if now is None or now.status != "active" or now.digest != entry.digest:
            step = TraceStep("pin", Decision.DENY, f"{entry.name} was changed or withdrawn while the call waited")
            return replace(cleared, decision=Decision.DENY, trace=(*cleared.trace, step))
        if resolved.digest != digest:
            step = TraceStep("pin", Decision.DENY, f"what {entry.name} is about was changed while the call waited")
            return replace(cleared, decision=Decision.DENY, trace=(*cleared.trace, step))
        verdict = self._restricted(resolved.call, judge(resolved.call, now, self._parts.policy, workspace))
        return verdict if verdict.decision.rank > resolved.verdict.decision.rank else None

    async def _run(
        self, pending: Pending, resolved: Resolved, entry: ToolEntry, clearance: Clearance, digest: str
    ) -> ToolResult:
        call = resolved.call
        try:
            await self._parts.recorder.intent(
                call, clearance.verdict, source=entry.source, digest=digest, approval_id=clearance.approval_id
            )
        except StoreError:
            with contextlib.suppress(StoreError):  # nothing ran; a key that cannot be freed says "unknown", not "done"
                await self._forget(call)
            raise
        self.emit(CallExecuting(call))
        context = self._context(call, clearance.verdict, pending.workspace)
        try:
            executed = await execute(entry.tool, context, clearance.verdict.impacts, clock=self._parts.clock)
        except asyncio.CancelledError:
            await _shielded(self._record_cancelled(resolved, entry, clearance.verdict))
            raise
        if executed.verification is not None:
            problems = tuple(p.message for p in executed.verification.problems)
            self.emit(CallVerified(call, executed.verification.ok, problems))
        result = await self._shaped(resolved, entry, clearance.verdict, executed)
        return await _shielded(self._conclude(resolved, result))

    def _context(self, call: Call, verdict: Verdict, workspace: Workspace) -> ToolContext:
        parts = self._parts
        return ToolContext(
            call=call,
            workspace=workspace,
            progress=lambda message, fraction=None: self.emit(CallProgress(call, message, fraction)),
            runner=GuardedRunner(parts.runner, call, verdict) if parts.runner else None,
            results=parts.results,
            caller=_ChildCaller(self, call),
            http=GuardedHttp(parts.http, verdict) if parts.http else None,
        )

    async def _shaped(self, resolved: Resolved, entry: ToolEntry, verdict: Verdict, executed: Executed) -> ToolResult:
        parts, call = self._parts, resolved.call
        if executed.error is not None:
            result = await self._short(resolved, failed(resolved, executed.error, verdict=verdict))
            crash = {"crash": parts.redactor.text(executed.crash)} if executed.crash else {}
            return replace(
                result,
                details={**result.details, **crash},
                side_effects=executed.side_effects,
                duration_ms=executed.duration_ms,
            )
        shaped = await self._shape(executed.output, call, entry.name, entry.spec.max_chars)
        notes = [*resolved.notes, *executed.output.notes]
        extra: list[Block] = [Text(f"[Note: {note}]") for note in notes]
        details: dict[str, Any] = shaped.details | ({"notes": notes} if notes else {})
        if executed.verification is not None:
            details["verification"] = parts.redactor.json(dict(describe(executed.verification)))
            extra.append(Text(parts.redactor.text(verification_text(executed.verification))))
        return ToolResult(
            call_id=call.id,
            tool=entry.name,
            status=Status.ERROR if executed.output.failed else Status.OK,
            content=(*shaped.content, *extra),
            structured=shaped.structured,
            details=details,
            side_effects=executed.side_effects,
            duration_ms=executed.duration_ms,
            error_code="tool_failed" if executed.output.failed else "",
            verdict=verdict.to_json(),
        )

    async def _shape(self, output: ToolOutput, call: Call, tool: str, max_chars: int | None = None) -> Shaped:
        parts = self._parts
        return await shape(
            output,
            call,
            tool=tool,
            max_chars=max_chars,
            limits=parts.limits,
            redactor=parts.redactor,
            results=parts.results,
        )

    async def _short(self, resolved: Resolved, result: ToolResult) -> ToolResult:
        """An answer of the gate itself, redacted and within the same limits as the tool's output."""
        most = resolved.entry.spec.max_chars if resolved.entry else None
        shaped = await self._shape(ToolOutput(content=result.text), resolved.call, result.tool, most)
        return replace(result, content=shaped.content, details={**result.details, **shaped.details})

    async def _conclude(self, resolved: Resolved, result: ToolResult) -> ToolResult:
        """Record the outcome of a call that ran; a failing record is told, the work is not undone."""
        call = resolved.call
        try:
            await self._parts.recorder.outcome(call, result, intent_recorded=True)
            if call.idempotency_key:
                await self._parts.idempotency.finish(call.idempotency_key, call.principal, stored_form(result))
        except StoreError as error:
            warning = f"[The tool ran, but its outcome could not be recorded: {error.message}]"
            result = replace(result, content=(*result.content, Text(warning)))
        self.emit(CallFinished(call, result))
        return result

    async def _record_cancelled(self, resolved: Resolved, entry: ToolEntry, verdict: Verdict) -> None:
        unchanged = only_reads(verdict.impacts)
        error = ToolCancelled(f"{entry.name} was cancelled before it finished")
        result = replace(
            failed(resolved, error, verdict=verdict),
            side_effects=SideEffects.NONE if unchanged else SideEffects.UNKNOWN,
        )
        with contextlib.suppress(StoreError):  # the record then shows the intent without outcome: unknown
            await self._parts.recorder.outcome(resolved.call, result, intent_recorded=True)
        self.emit(CallFinished(resolved.call, result))

    async def _end(self, resolved: Resolved, result: ToolResult) -> ToolResult:
        """Record and return a call that did not run."""
        result = await self._short(resolved, result)
        try:
            await self._parts.recorder.outcome(resolved.call, result, intent_recorded=False)
        except StoreError as error:
            note = Text(f"[This could not be recorded: {error.message}]")
            result = replace(result, content=(*result.content, note))
        self.emit(CallFinished(resolved.call, result))
        return result


class _ChildCaller(Caller):
    """The gate as a running tool sees it: its calls keep the parent's identity, mode and scope."""

    def __init__(self, gate: Gate, parent: Call) -> None:
        self._gate = gate
        self._parent = parent

    async def call(self, call: Call) -> ToolResult:
        """Run `call` as a child: principal, session, mode, node, deadline and taint come from the parent.

        A tool does not speak for a person: only a person's own call has children that count as theirs.
        """
        parent = self._parent
        theirs = call.origin in _PERSON and parent.origin not in _PERSON
        child = replace(
            call,
            parent=parent.id,
            origin=parent.origin if theirs else call.origin,
            principal=parent.principal,
            session=parent.session,
            mode=parent.mode,
            node=parent.node,
            cwd=parent.cwd,
            deadline=parent.deadline,
            requested=parent.requested,
            taint=parent.taint | call.taint,
        )
        return await self._gate.call(child)


async def _shielded(work: Awaitable[T]) -> T:
    """Let a record be finished even when the caller is being cancelled, then cancel."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await task
        raise
