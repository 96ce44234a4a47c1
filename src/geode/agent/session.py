"""A conversation on disk: every message and every single result, stored the moment it exists.

A transcript is a list of entries: `{"kind": "message", …}`, `{"kind": "result", …}` for one result
of the turn before, `{"kind": "compacted", …}` for a summary that stands for everything before
it. Loading is a pure function of the entries, so that a run killed at any point resumes with
what had happened (case R01).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ..core.call import new_id
from ..core.messages import Message, Role, ToolResult
from .history import mend

__all__ = ["Session", "Transcript", "history_of"]


class Transcript(Protocol):
    """Where entries are kept; `store.transcripts.Transcripts` is one."""

    async def append(self, session: str, seq: int, message: Mapping[str, Any]) -> None: ...

    async def load(self, session: str, *, after: int = -1) -> list[dict[str, Any]]: ...


class Redacts(Protocol):
    """Removes secrets from JSON values before they are stored."""

    def json(self, value: Any) -> Any: ...


def history_of(entries: Sequence[Mapping[str, Any]]) -> list[Message]:
    """The valid history that a list of entries stands for."""
    messages: list[Message] = []
    waiting: list[ToolResult] = []
    for entry in entries:
        if entry["kind"] == "result":
            waiting.append(ToolResult.from_json(entry["result"]))
            continue
        if waiting:
            messages.append(Message(Role.TOOL, results=tuple(waiting)))
            waiting = []
        if entry["kind"] == "compacted":
            messages = [Message.from_json(m) for m in entry["messages"]]
        elif entry["kind"] == "message":
            messages.append(Message.from_json(entry["message"]))
    if waiting:
        messages.append(Message(Role.TOOL, results=tuple(waiting)))
    return mend(messages)


@dataclass(slots=True)
class Session:
    """One conversation.

    Attributes:
        id: its name in transcripts, audit and results.
        messages: the valid history so far.
    """

    id: str
    transcript: Transcript
    redactor: Redacts
    messages: list[Message] = field(default_factory=list[Message])
    _next: int = 0
    _unsettled: list[ToolResult] = field(default_factory=list[ToolResult])

    @classmethod
    async def open(cls, transcript: Transcript, redactor: Redacts, *, id: str = "") -> Session:
        """Continue session `id`, or begin a new one when it is empty.

        Raises:
            StoreError: the transcript cannot be read.
        """
        entries = await transcript.load(id) if id else []
        session = cls(id or new_id("session"), transcript, redactor, history_of(entries))
        session._next = len(entries)
        return session

    async def add(self, message: Message) -> None:
        """Append a message and store it."""
        self.messages.append(message)
        await self._store({"kind": "message", "message": message.to_json()})

    async def save_result(self, result: ToolResult) -> None:
        """Store one result of the current turn; `settle` adds them to the history when all are there."""
        await self._store({"kind": "result", "result": result.to_json()})
        self._unsettled.append(result)

    def settle(self, results: Sequence[ToolResult]) -> None:
        """Append the results of the current turn, which are stored already."""
        self._unsettled.clear()
        if results:
            self.messages.append(Message(Role.TOOL, results=tuple(results)))

    async def replace(self, messages: Sequence[Message]) -> None:
        """Put a compacted history in the place of the old one; the old entries stay in the transcript."""
        self.messages = list(messages)
        await self._store({"kind": "compacted", "messages": [m.to_json() for m in messages]})

    def repair(self) -> None:
        """Make the history valid after an interruption; results that were there by then are kept."""
        self.settle(tuple(self._unsettled))
        self.messages = mend(self.messages)

    async def _store(self, entry: Mapping[str, Any]) -> None:
        number, self._next = self._next, self._next + 1  # before waiting: results of one turn come at the same time
        await self.transcript.append(self.id, number, self.redactor.json(dict(entry)))
