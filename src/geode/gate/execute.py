"""Run an allowed call: context, time limit, cancellation, the tool's own check.

The only module that reaches a raw callable. Nothing here decides anything; what the
verdict did not grant (network, writable paths) is taken away from the tool's ports.
"""

from __future__ import annotations

import asyncio
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..core.call import Call, Verdict
from ..core.effects import Effect, Impact, Scope, only_reads
from ..core.errors import (
    Denied,
    GeodeError,
    Missing,
    NotStored,
    PathEscape,
    ToolFailed,
    ToolTimeout,
    UsageError,
)
from ..core.messages import SideEffects
from ..core.ports import Clock, Http, HttpRequest, HttpResponse, ProcessOutcome, ProcessRunner, ProcessSpec
from ..tools.tool import FunctionTool, Problem, ToolContext, ToolOutput, Verification, raw_callable

__all__ = ["Executed", "GuardedHttp", "GuardedRunner", "describe", "execute"]

_NOTHING_CHANGED = (UsageError, Denied, Missing, PathEscape, NotStored)
"""Errors that a tool raises before it changes anything."""


class GuardedRunner:
    """The sandbox as one call may use it: no network and no writable path beyond what was allowed."""

    def __init__(self, inner: ProcessRunner, call: Call, verdict: Verdict) -> None:
        kinds = {impact.kind for impact in verdict.impacts}
        self._inner = inner
        self._root = call.cwd
        self._network = Effect.NETWORK in kinds
        self._may_write = not only_reads(verdict.impacts)

    async def run(self, spec: ProcessSpec) -> ProcessOutcome:
        """See `ProcessRunner.run`."""
        inside = tuple(p for p in spec.writable if p == self._root or self._root in p.parents)
        writable = inside if self._may_write else ()
        hidden = tuple(p for p in spec.writable if p not in writable)
        spec = replace(
            spec,
            network=spec.network and self._network,
            writable=writable,
            readable=tuple(dict.fromkeys((*spec.readable, *hidden, self._root))),
        )
        return await self._inner.run(spec)


_NETWORKS = {Scope.INTERNET, Scope.PRIVATE_NET, Scope.LOOPBACK}


class GuardedHttp:
    """The network as one call may use it: only addresses in scopes that the verdict names."""

    def __init__(self, inner: Http, verdict: Verdict) -> None:
        self._inner = inner
        self._reach = frozenset(i.scope for i in verdict.impacts if i.scope in _NETWORKS)

    async def send(self, request: HttpRequest) -> HttpResponse:
        """See `Http.send`."""
        return await self._inner.send(replace(request, reach=self._reach))


@dataclass(frozen=True, slots=True, kw_only=True)
class Executed:
    """What came of running a tool: an output, or an error; and what is known about the world."""

    output: ToolOutput
    side_effects: SideEffects
    duration_ms: float
    error: GeodeError | None = None
    crash: str = ""
    verification: Verification | None = None


async def execute(tool: FunctionTool, context: ToolContext, impacts: Sequence[Impact], *, clock: Clock) -> Executed:
    """Run the tool within its time limit and check its work.

    Args:
        impacts: what the verdict allowed; a call that only reads changes nothing.

    Raises:
        asyncio.CancelledError: the call was cancelled; the tool's processes are gone by then.
    """
    spec = tool.spec
    started = time.perf_counter()
    output, error, crash = ToolOutput(), None, ""
    limit = asyncio.timeout(_seconds(spec.timeout, context.call, clock))
    try:
        async with limit:
            output = as_output(await raw_callable(tool)(context, context.call.arguments))
    except TimeoutError as raised:
        if limit.expired():
            error = ToolTimeout(
                f"{spec.name} was stopped after {time.perf_counter() - started:.1f} s: its time was over",
                fix="ask for less at a time, or run it in steps",
            )
        else:
            error, crash = _crashed(spec.name, raised)
    except GeodeError as raised:
        error = raised
    except Exception as raised:  # boundary: a tool is foreign code; whatever it raises becomes an error result
        error, crash = _crashed(spec.name, raised)
    duration = (time.perf_counter() - started) * 1000
    verification = None
    if error is None and not output.failed:
        verification, crash = await _verify(tool, context, output)
    return Executed(
        output=output,
        side_effects=_side_effects(impacts, output, error),
        duration_ms=duration,
        error=error,
        crash=crash,
        verification=verification,
    )


def as_output(value: Any) -> ToolOutput:
    """A tool's return value as `ToolOutput`: text, a JSON value, or already one."""
    if isinstance(value, ToolOutput):
        return value
    if value is None:
        return ToolOutput(content="(done, no output)")
    if isinstance(value, str):
        return ToolOutput(content=value)
    return ToolOutput(structured=value)


def _seconds(timeout: float, call: Call, clock: Clock) -> float:
    """Seconds this execution may take: the tool's limit or what is left of the call's deadline."""
    if call.deadline is None:
        return timeout
    return max(0.0, min(timeout, call.deadline - clock.monotonic()))


def _crashed(name: str, raised: BaseException) -> tuple[GeodeError, str]:
    text = str(raised) or "no message"
    error = ToolFailed(f"{name} failed: {type(raised).__name__}: {text}", fix="check the arguments, or report the tool")
    return error, "".join(traceback.format_exception(raised, limit=-8))


async def _verify(tool: FunctionTool, context: ToolContext, output: ToolOutput) -> tuple[Verification | None, str]:
    """The tool's own check. One that fails itself is reported as such: the work is done, its state unproven."""
    check = tool.spec.verify
    if check is None:
        return None, ""
    try:
        async with asyncio.timeout(min(60.0, tool.spec.timeout)):
            return await check(context, context.call.arguments, output), ""
    except Exception as raised:  # boundary: see execute
        return Verification("not checked", (_unchecked(raised),)), "".join(traceback.format_exception(raised))


def _unchecked(raised: BaseException) -> Problem:
    return Problem(message=f"the result could not be checked: {raised or type(raised).__name__}", rule="check-failed")


def _side_effects(impacts: Sequence[Impact], output: ToolOutput, error: GeodeError | None) -> SideEffects:
    if only_reads(impacts):
        return SideEffects.NONE
    if error is None:
        return output.side_effects or SideEffects.DONE
    if isinstance(error, ToolFailed) and error.side_effects is not None:
        return error.side_effects
    return SideEffects.NONE if isinstance(error, _NOTHING_CHANGED) else SideEffects.UNKNOWN


def describe(verification: Verification) -> Mapping[str, Any]:
    """A verification as JSON, for `details`."""
    return {
        "checked_with": verification.checked_with,
        "ok": verification.ok,
        "problems": [
            {"file": p.file, "line": p.line, "column": p.column, "rule": p.rule, "message": p.message}
            for p in verification.problems
        ],
    }
