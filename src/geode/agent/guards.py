"""Guards against going in circles: the same call again and again with the same end (case R30).

A guard only looks at what happened; it never changes a call. Polling, where the same call
gives a different result, is no circle.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass, field

from ..core.call import canonical_json
from ..core.messages import Status, ToolCall, ToolResult
from ..discovery.deferral import CALL_TOOL

__all__ = ["CircleGuard"]

SAME_RESULT = 3
"""Identical ends of an identical call after which the next one is blocked."""
SAME_UNKNOWN = 3
"""Times the same unknown name may be called before the run stops."""
SAME_BLOCKED = 3
"""Turns in which a call may be made again after it was blocked, before the run stops."""
SAME_CUT = 5
"""Turns in a row that hold nothing but calls that were cut, before the run stops."""


@dataclass(slots=True)
class CircleGuard:
    """What one run has called, and how it ended. Counts since the last different end."""

    _last: dict[str, tuple[str, int]] = field(default_factory=dict[str, tuple[str, int]])
    _unknown: Counter[str] = field(default_factory=Counter[str])
    _blocked: Counter[str] = field(default_factory=Counter[str])
    _blocked_now: set[str] = field(default_factory=set[str])
    _cut: int = 0

    def block(self, call: ToolCall) -> str:
        """Why this call should not be made again, or ""."""
        end, count = self._last.get(_key(call), ("", 0))
        if count < SAME_RESULT:
            return ""
        what = "was denied" if end.startswith(Status.DENIED.value) else "gave the same result"
        return (
            f"the same call with the same arguments {what} {count} times in a row; it is not made again. "
            "Change the arguments, use another tool, or tell the user what stands in the way"
        )

    def saw(self, call: ToolCall, result: ToolResult) -> None:
        """Remember how a call ended."""
        key, end = _key(call), f"{result.status.value}:{_digest(result)}"
        last, count = self._last.get(key, ("", 0))
        self._last[key] = (end, count + 1 if last == end else 1)
        if result.error_code == "unknown_tool" and result.tool != CALL_TOOL:
            self._unknown[result.tool] += 1

    def blocked(self, call: ToolCall) -> None:
        """A call was made although the model had been told that it is not made again."""
        self._blocked_now.add(_key(call))

    def turn(self, calls: int, cut: int) -> str:
        """A turn is over; why the run should stop, or "".

        Args:
            calls: calls of the turn that were whole.
            cut: calls that were not.
        """
        self._blocked.update(self._blocked_now)
        self._blocked_now.clear()
        self._cut = self._cut + 1 if cut and not calls else 0
        for name, count in self._unknown.items():
            if count >= SAME_UNKNOWN:
                return f"the model called the unknown tool {name[:100]!r} {count} times"
        for key, count in self._blocked.items():
            if count >= SAME_BLOCKED:
                name = key.partition("\n")[0][:100]
                return f"the model went on making the same call of {name} after it was blocked"
        if self._cut >= SAME_CUT:
            return f"the model's calls were cut off at its output limit {self._cut} times in a row"
        return ""


def _key(call: ToolCall) -> str:
    return f"{call.name}\n{canonical_json(call.arguments)}"


def _digest(result: ToolResult) -> str:
    """Digest of what the model was told; ids that differ from call to call do not count."""
    text = result.text
    for changing in (str(result.details.get("call_id", "")), str(result.details.get("result", ""))):
        if changing:
            text = text.replace(changing, "")
    return hashlib.sha256(text.encode()).hexdigest()
