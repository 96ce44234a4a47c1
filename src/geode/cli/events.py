"""Core events as JSON objects: what `geode run --events` writes, one a line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ..core.call import Call
from ..core.events import (
    ApprovalAnswered,
    ApprovalRequested,
    CallDecided,
    CallExecuting,
    CallFinished,
    CallProgress,
    CallStarted,
    CallVerified,
    Event,
    HistoryCompacted,
    Notice,
    ReasoningPiece,
    RunFinished,
    ServerChanged,
    TextPiece,
    ToolsChanged,
    TurnFinished,
    TurnStarted,
)

__all__ = ["event_document"]


def event_document(event: Event) -> dict[str, Any]:
    """One event with its name under `event` (`call_finished`) and its facts. Redact before printing."""
    name = re.sub(r"(?<!^)(?=[A-Z])", "_", type(event).__name__).lower()
    return {"event": name, **_facts(event)}


def _facts(event: Event) -> Mapping[str, Any]:  # one case an event, so that none can be forgotten
    match event:
        case CallStarted(call):
            origin = {"origin": call.origin.value, "session": call.session, "parent": call.parent}
            return {**_of(call), "arguments": dict(call.arguments), **origin}
        case CallDecided(call, verdict):
            return {**_of(call), **verdict.to_json()}
        case ApprovalRequested(call, approval, reason):
            return {**_of(call), "approval_id": approval, "reason": reason}
        case ApprovalAnswered(call, approval, approved, reason):
            return {**_of(call), "approval_id": approval, "approved": approved, "reason": reason}
        case CallExecuting(call):
            return _of(call)
        case CallProgress(call, message, fraction):
            return {**_of(call), "message": message, "fraction": fraction}
        case CallVerified(call, ok, problems):
            return {**_of(call), "ok": ok, "problems": list(problems)}
        case CallFinished(call, result):
            return {
                **_of(call),
                "status": result.status.value,
                "duration_ms": round(result.duration_ms, 3),
                "side_effects": result.side_effects.value,
                "error_code": result.error_code,
                "text": result.text,
            }
        case ToolsChanged(added, removed, changed):
            return {"added": list(added), "removed": list(removed), "changed": list(changed)}
        case ServerChanged(server, state, error):
            return {"server": server, "state": state, "error": error}
        case TurnStarted(session, number):
            return {"session": session, "turn": number}
        case TextPiece(session, text) | ReasoningPiece(session, text) | Notice(session, text):
            return {"session": session, "text": text}
        case TurnFinished(session, number, message, usage):
            calls = [{"id": c.id, "tool": c.name, "arguments": c.arguments} for c in message.calls]
            return {"session": session, "turn": number, "text": message.text, "tool_calls": calls, "usage": dict(usage)}
        case HistoryCompacted(session, before, after):
            return {"session": session, "before_tokens": before, "after_tokens": after}
        case RunFinished(session, status, answer, reason):
            return {"session": session, "status": status, "answer": answer, "reason": reason}


def _of(call: Call) -> dict[str, Any]:
    return {"call_id": call.id, "tool": call.tool}
