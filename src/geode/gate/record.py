"""The record of a call: one entry for the intent, one for the outcome, denials too.

What is written is redacted first; bodies hold sizes and a hash of the arguments as well,
so that the record stays useful where content was removed (case R65).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from ..core.call import Call, Verdict, canonical_json
from ..core.messages import SideEffects, ToolResult
from ..store.audit import AuditLog, AuditRecord, Kind
from .shape import Redacts

__all__ = ["Recorder"]

_MAX_STRING = 2_000
"""Characters of one argument value kept in the record; the rest is counted."""


class Recorder:
    """Writes audit records. A failing write raises: without a record nothing runs."""

    def __init__(self, audit: AuditLog, redactor: Redacts) -> None:
        self._audit = audit
        self._redactor = redactor

    async def intent(self, call: Call, verdict: Verdict, *, source: str, digest: str, approval_id: str) -> None:
        """Record what is about to run. Durable when it returns.

        Raises:
            StoreError: it could not be written; the call must not run.
        """
        body = self._call_body(call, verdict) | {"source": source, "digest": digest, "approval": approval_id}
        await self._audit.record(self._record("intent", call, "started", SideEffects.UNKNOWN, 0.0, body))

    async def outcome(self, call: Call, result: ToolResult, *, intent_recorded: bool) -> None:
        """Record how it ended. Without an intent (denials, invalid calls) the record carries the call too.

        Raises:
            StoreError: it could not be written.
        """
        body: dict[str, Any] = {
            "error_code": result.error_code,
            "chars": len(result.text),
            "details": _clip(self._redactor.json(dict(result.details))),
        }
        if result.is_error:
            body["message"] = self._redactor.text(result.text)[:_MAX_STRING]
        if not intent_recorded:
            body |= self._call_body(call, None)
            body["verdict"] = self._redactor.json(dict(result.verdict or {}))
        status = result.status.value if result.error_code != "cancelled" else "cancelled"
        record = self._record("outcome", call, status, result.side_effects, result.duration_ms, body)
        await self._audit.record(record)

    def _call_body(self, call: Call, verdict: Verdict | None) -> dict[str, Any]:
        raw = canonical_json(call.arguments)
        body: dict[str, Any] = {
            "arguments": _clip(self._redactor.json(dict(call.arguments))),
            "arguments_sha256": hashlib.sha256(raw.encode("utf-8", "surrogatepass")).hexdigest(),
            "arguments_chars": len(raw),
            "cwd": self._redactor.text(str(call.cwd)),
        }
        if call.intent:
            body["intent"] = self._redactor.text(call.intent)[:_MAX_STRING]
        if call.taint:
            body["taint"] = sorted(call.taint)
        if call.idempotency_key:
            body["idempotency_key"] = self._redactor.text(call.idempotency_key)
        if verdict is not None:
            body["verdict"] = self._redactor.json(verdict.to_json())
        return body

    def _record(
        self,
        kind: Kind,
        call: Call,
        status: str,
        side_effects: SideEffects,
        duration_ms: float,
        body: Mapping[str, Any],
    ) -> AuditRecord:
        named = self._redactor.text  # a caller may have put anything where a name belongs
        return AuditRecord(
            kind=kind,
            call_id=call.id,
            tool=named(call.tool),
            principal=call.principal,
            origin=call.origin.value,
            session=named(call.session),
            parent=call.parent,
            mode=named(call.mode),
            node=None if call.node is None else named(call.node),
            status=status,
            side_effects=side_effects.value,
            duration_ms=duration_ms,
            body=dict(body),
        )


def _clip(value: Any) -> Any:
    """Shorten long strings inside a JSON value, saying by how much."""
    if isinstance(value, str):
        over = len(value) - _MAX_STRING
        return value if over <= 0 else f"{value[:_MAX_STRING]}… [{over} more characters]"
    if isinstance(value, Mapping):
        return {k: _clip(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_clip(v) for v in value]
    return value
