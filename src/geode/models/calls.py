"""Tool calls out of the pieces in which Chat Completions servers send them.

Seen in the field, and all understood: pieces of several calls mixed; a call whole in one
piece; `index` missing, or 0 for every call; `id` missing, new in every piece, or the same for
every call; the name repeated; arguments as an object instead of text; empty pieces.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from ..core.messages import ToolCall, clean_json
from .wire import as_dict, as_text, make_call, parse_arguments, unique_id

__all__ = ["CallPieces"]

_KNOWN = frozenset({"index", "id", "type", "function"})


@dataclass(slots=True)
class _Slot:
    """One call while it arrives."""

    index: int
    id: str = ""
    name: str = ""
    text: str = ""
    extra: dict[str, Any] = field(default_factory=dict[str, Any])
    call: ToolCall | None = None

    @property
    def complete(self) -> bool:
        """One whole JSON object has arrived: what follows could only be another call."""
        return parse_arguments(self.text) is not None


class CallPieces:
    """Collects the calls of one turn, in the order in which they began."""

    def __init__(self) -> None:
        self._slots: list[_Slot] = []

    def add(self, piece: Mapping[str, Any]) -> list[ToolCall]:
        """Take a piece; the calls that are complete now, in call order.

        A call is complete when its arguments are one whole object and a later call has begun; for
        the last one only the end of the turn is sure.
        """
        function = as_dict(piece.get("function"))
        name, call_id = as_text(function.get("name")), as_text(piece.get("id"))
        arguments = function.get("arguments")
        text = json.dumps(clean_json(arguments), ensure_ascii=False) if isinstance(arguments, dict) else ""
        text = text or as_text(arguments)
        slot = self._slot(piece.get("index"), call_id, name, text)
        if slot is None:
            return []
        slot.id = slot.id or call_id
        if name and name != slot.name:
            slot.name += name
        if not (isinstance(arguments, dict) and slot.complete):
            slot.text += text
        slot.extra |= {k: v for k, v in piece.items() if k not in _KNOWN and v is not None}
        return self._ready()

    def _slot(self, index: Any, call_id: str, name: str, text: str) -> _Slot | None:
        if not (call_id or name or text):
            return None
        known = isinstance(index, int) and not isinstance(index, bool)
        at = cast("int", index) if known else -1
        found = next((s for s in reversed(self._slots) if not known or s.index == at), None)
        if found is not None and not _begins_another(found, call_id, name, text):
            return found
        if found is None and not (known or name or call_id):
            return None
        slot = _Slot(at if known else len(self._slots))
        self._slots.append(slot)
        return slot

    def _ready(self) -> list[ToolCall]:
        """Calls that began before the newest and are complete; none overtakes an earlier one."""
        ready: list[ToolCall] = []
        for slot in self._slots[:-1]:
            if slot.call is None:
                if not slot.complete:
                    break
                ready.append(self._made(slot, whole=True))
        return ready

    def _made(self, slot: _Slot, *, whole: bool) -> ToolCall:
        taken = [s.call.id for s in self._slots if s.call is not None]
        slot.call = make_call(unique_id(slot.id, taken, len(taken) + 1), slot.name, slot.text, whole=whole)
        return slot.call

    def finish(self, *, cut: bool) -> list[ToolCall]:
        """The calls that were not ready before.

        Args:
            cut: the turn ended at the output limit, so that an empty text means "cut", not "no arguments".
        """
        left = [s for s in self._slots if s.call is None]
        return [self._made(s, whole=not (cut and s is self._slots[-1])) for s in left]

    def calls(self) -> tuple[ToolCall, ...]:
        """All calls, in call order."""
        return tuple(s.call for s in self._slots if s.call is not None)

    def extras(self) -> list[tuple[str, dict[str, Any]]]:
        """What else a server wants back with its calls (signatures): id and fields."""
        return [(s.call.id, s.extra) for s in self._slots if s.call is not None and s.extra]


def _begins_another(slot: _Slot, call_id: str, name: str, text: str) -> bool:
    """True when a piece with the slot's index, or without one, belongs to a new call."""
    if not name:
        return False  # ids that change in every piece, and plain continuations
    if slot.text and not slot.complete:
        return name != slot.name and bool(call_id) and call_id != slot.id
    if call_id and slot.id and call_id != slot.id:
        return True
    return slot.complete and bool(text)
