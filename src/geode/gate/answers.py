"""The results of calls that did not simply run: denied, failed, waiting, repeated.

A denial says why and what would be allowed; an error says what to do. These texts are what
a model reads, so that it can plan again (requirements T58, T83, T84, T87).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..core.call import Verdict
from ..core.errors import GeodeError, InvalidArguments, UsageError
from ..core.messages import SideEffects, Status, Text, ToolResult
from ..tools.tool import Verification
from .decide import Clearance
from .resolve import Resolved

__all__ = ["denied", "failed", "not_cleared", "repeated", "stored_form", "verification_text"]


def _result(resolved: Resolved, verdict: Verdict, status: Status, text: str, code: str, **more: Any) -> ToolResult:
    return ToolResult(
        call_id=resolved.call.id,
        tool=resolved.call.tool,
        status=status,
        content=(Text(text),),
        error_code=code,
        verdict=verdict.to_json(),
        **more,
    )


def denied(resolved: Resolved, verdict: Verdict) -> ToolResult:
    blocking = ", ".join(verdict.blocking_policies)
    text = f"Denied: {verdict.reason or 'policy'} (policy: {blocking}). It was not run."
    if verdict.advice:
        text += f" {verdict.advice}"
    return _result(resolved, verdict, Status.DENIED, text, "denied")


def failed(resolved: Resolved, error: GeodeError, *, verdict: Verdict | None = None) -> ToolResult:
    text = f"Error: {error.message}"
    if isinstance(error, InvalidArguments) and len(error.problems) > 1:
        listed = [p for p in error.readable if p not in error.message]
        text += "".join(f"\n- {p}" for p in listed)
    if error.fix:
        text += f"\nTo fix: {error.fix}"
    return _result(resolved, verdict or resolved.verdict, Status.ERROR, text, error.code)


def not_cleared(resolved: Resolved, clearance: Clearance) -> ToolResult:
    if clearance.waiting:
        details = {"approval_id": clearance.approval_id}
        text = f"{resolved.call.tool} {clearance.message}"
        return _result(resolved, clearance.verdict, Status.NEEDS_APPROVAL, text, "needs_approval", details=details)
    result = denied(resolved, clearance.verdict)
    return replace(result, details={"approval_id": clearance.approval_id})


def repeated(resolved: Resolved, state: str, stored: Mapping[str, Any] | None) -> ToolResult:
    """The answer to a second call with the same idempotency key."""
    key = resolved.call.idempotency_key
    if state == "done" and stored is not None:
        return _restored(resolved, stored)
    if state == "mismatch":
        error = UsageError(f"idempotency key {key!r} was used for another call", fix="use a new key for a new call")
        return failed(resolved, error)
    text = (
        f"Error: a call with idempotency key {key!r} was started before and its outcome is not known "
        "(it may still be running, or the process ended). It was not repeated.\n"
        "To fix: look at the state it would have changed, then call with a new key."
    )
    return _result(resolved, resolved.verdict, Status.ERROR, text, "outcome_unknown", side_effects=SideEffects.UNKNOWN)


def stored_form(result: ToolResult) -> dict[str, Any]:
    return {
        "call_id": result.call_id,
        "status": result.status.value,
        "text": result.text,
        "structured": result.structured,
        "side_effects": result.side_effects.value,
        "error_code": result.error_code,
    }


def _restored(resolved: Resolved, stored: Mapping[str, Any]) -> ToolResult:
    note = f"[First result of this idempotency key, from call {stored['call_id']}; not run again]"
    return ToolResult(
        call_id=resolved.call.id,
        tool=resolved.call.tool,
        status=Status(stored["status"]),
        content=(Text(stored["text"]), Text(note)),
        structured=stored["structured"],
        details={"first_call_id": stored["call_id"]},
        side_effects=SideEffects.NONE,
        error_code=stored["error_code"],
        verdict=resolved.verdict.to_json(),
    )


def verification_text(verification: Verification) -> str:
    if verification.ok:
        return f"[Checked with {verification.checked_with}: no problems]"
    lines = [f"[Checked with {verification.checked_with}: {len(verification.problems)} problem(s)]"]
    for p in verification.problems[:20]:
        place = f"{p.file or ''}:{p.line}:{p.column} ".lstrip(":") if p.line else ""
        lines.append(f"- {place}{p.rule + ' ' if p.rule else ''}{p.message}")
    if len(verification.problems) > 20:
        lines.append(f"- … and {len(verification.problems) - 20} more")
    return "\n".join(lines)
