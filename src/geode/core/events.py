"""The closed union of events: the only thing a front end needs to read.

Every stage of the gate emits one. An event is a fact that has happened; whoever listens
cannot change the call.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from .call import Call, Verdict
from .messages import Message, ToolResult

__all__ = [
    "ApprovalAnswered",
    "ApprovalRequested",
    "CallDecided",
    "CallExecuting",
    "CallFinished",
    "CallProgress",
    "CallStarted",
    "CallVerified",
    "Event",
    "EventBus",
    "EventSink",
    "HistoryCompacted",
    "Notice",
    "ReasoningPiece",
    "RunFinished",
    "ServerChanged",
    "TextPiece",
    "ToolsChanged",
    "TurnFinished",
    "TurnStarted",
]


@dataclass(frozen=True, slots=True)
class CallStarted:
    """A call arrived at the gate."""

    call: Call


@dataclass(frozen=True, slots=True)
class CallDecided:
    """The policies have spoken."""

    call: Call
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class ApprovalRequested:
    """A person is being asked; the tool's own clock has not started."""

    call: Call
    approval_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class ApprovalAnswered:
    """A person has answered, or the request expired."""

    call: Call
    approval_id: str
    approved: bool
    reason: str


@dataclass(frozen=True, slots=True)
class CallExecuting:
    """The intent is recorded and the tool starts now."""

    call: Call


@dataclass(frozen=True, slots=True)
class CallProgress:
    """The tool reports how far it is; `fraction` is 0..1 or None."""

    call: Call
    message: str
    fraction: float | None = None


@dataclass(frozen=True, slots=True)
class CallVerified:
    """The tool's own check of its work has run."""

    call: Call
    ok: bool
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CallFinished:
    """The outcome is recorded; nothing more will come for this call."""

    call: Call
    result: ToolResult


@dataclass(frozen=True, slots=True)
class ToolsChanged:
    """The registry has a new snapshot."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ServerChanged:
    """An MCP server moved to another state."""

    server: str
    state: str
    error: str = ""


@dataclass(frozen=True, slots=True)
class TurnStarted:
    """The model is asked for turn `number` of a run (1-based)."""

    session: str
    number: int


@dataclass(frozen=True, slots=True)
class TextPiece:
    """A piece of the model's answer, as it streams."""

    session: str
    text: str


@dataclass(frozen=True, slots=True)
class ReasoningPiece:
    """A piece of the model's reasoning, where the provider shows it."""

    session: str
    text: str


@dataclass(frozen=True, slots=True)
class TurnFinished:
    """The model's turn is complete and stored; `usage` is what the provider reported (tokens, dollars)."""

    session: str
    number: int
    message: Message
    usage: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class HistoryCompacted:
    """Older turns were replaced by a summary."""

    session: str
    before_tokens: int
    after_tokens: int


@dataclass(frozen=True, slots=True)
class Notice:
    """Something a person should know: a skill was activated, a limit is near, a repeat was blocked."""

    session: str
    text: str


@dataclass(frozen=True, slots=True)
class RunFinished:
    """A run is over; `status` is "ok", "stopped", "error" or "cancelled"."""

    session: str
    status: str
    answer: str
    reason: str = ""


Event = (
    CallStarted
    | CallDecided
    | ApprovalRequested
    | ApprovalAnswered
    | CallExecuting
    | CallProgress
    | CallVerified
    | CallFinished
    | ToolsChanged
    | ServerChanged
    | TurnStarted
    | TextPiece
    | ReasoningPiece
    | TurnFinished
    | HistoryCompacted
    | Notice
    | RunFinished
)

_LOG = logging.getLogger(__name__)

EventSink = Callable[[Event], None]
"""Takes an event at once and never blocks."""


class EventBus:
    """Hands every event to everybody who listens, in the order in which they came."""

    def __init__(self) -> None:
        self._sinks: list[EventSink] = []

    def subscribe(self, sink: EventSink) -> Callable[[], None]:
        """Send every event to `sink` from now on; the returned function ends it."""
        self._sinks.append(sink)

        def stop() -> None:
            if sink in self._sinks:
                self._sinks.remove(sink)

        return stop

    def emit(self, event: Event) -> None:
        """Hand an event to all listeners. One that fails is reported to the log: it cannot change what happens."""
        for sink in tuple(self._sinks):
            try:
                sink(event)
            except Exception:  # boundary: a listener is foreign code
                _LOG.exception("a listener failed on %s", type(event).__name__)
