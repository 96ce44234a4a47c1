"""A call that needs approval, and a client that can ask its person: elicitation.

In the older era the question is a request of ours; in the newer one the answer to the call is
"input required" and the client calls again with the person's answer. Either way the answer
lands in Geode's approvals, bound to exactly this call, and the gate uses it up.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from ..core.call import Call, canonical_json
from ..core.messages import ToolResult

__all__ = ["FORM", "Answer", "ApprovalDesk", "Consent", "question"]

FORM: dict[str, Any] = {
    "type": "object",
    "properties": {
        "approve": {"type": "boolean", "title": "Allow this call, once", "default": False},
        "reason": {"type": "string", "title": "Reason (optional)"},
    },
    "required": ["approve"],
}
_KEEP_SECONDS = 3600.0
_KEEP_ENTRIES = 1000


class ApprovalDesk(Protocol):
    """The part of `store.approvals.Approvals` that records an answer."""

    async def answer(self, approval_id: str, approved: bool, by: str, reason: str = "") -> Any: ...
    async def told(self, approval_id: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Answer:
    """What the person said. `given` is False when they closed the question without an answer."""

    given: bool
    approved: bool = False
    reason: str = ""

    @classmethod
    def of(cls, result: Any) -> Answer:
        """From an `ElicitResult`, as model or as raw object."""
        raw: Any = result if isinstance(result, Mapping) else result.model_dump(by_alias=True)
        content: Any = raw.get("content") or {}
        action = raw.get("action")
        if action == "accept":
            reason = content.get("reason")
            return cls(True, content.get("approve") is True, reason if isinstance(reason, str) else "")
        return cls(action == "decline", False, "declined")


@dataclass(frozen=True, slots=True)
class _Open:
    approval_id: str
    waiting: ToolResult
    what: str
    until: float


@dataclass(slots=True)
class Consent:
    """Questions that were sent with "input required" and not answered yet.

    The token a client sends back is random, is used once and is good for the same call of
    the same session only: it cannot be used to answer another question.
    """

    _open: dict[str, _Open] = field(default_factory=dict[str, _Open])

    def ask(self, call: Call, approval_id: str, waiting: ToolResult) -> str:
        """Remember a question and the result that stands when it gets no answer; returns a token for it."""
        now = time.monotonic()
        for token in [t for t, o in self._open.items() if o.until < now]:
            del self._open[token]
        while len(self._open) >= _KEEP_ENTRIES:
            del self._open[next(iter(self._open))]
        token = secrets.token_urlsafe(24)
        self._open[token] = _Open(approval_id, waiting, _what(call), now + _KEEP_SECONDS)
        return token

    def take(self, token: str, call: Call) -> tuple[str, ToolResult] | None:
        """Approval id and waiting result a token stands for, or None when it is not for this call."""
        found = self._open.get(token)
        if found is None or found.what != _what(call) or found.until < time.monotonic():
            return None
        del self._open[token]
        return found.approval_id, found.waiting


def _what(call: Call) -> str:
    return canonical_json([call.session, call.principal, call.tool, call.arguments])


def question(call: Call, text: str) -> str:
    """What the person reads: which tool, what the policy says, with which arguments (redacted by the caller)."""
    return f"Geode asks before it runs {call.tool} for {call.principal}.\n\n{text}"
