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
from .marks import notice

__all__ = ["Session", "Transcript", "history_of"]


class Transcript(Protocol):
    """Where entries are kept; `store.transcripts.Transcripts` is one."""

    async def append(self, session: str, seq: int, message: Mapping[str, Any]) -> None: ...

    async def load(self, session: str, *, after: int = -1) -> list[dict[str, Any]]: ...

    async def last(self, session: str) -> int: ...


class Redacts(Protocol):
    """Removes secrets from JSON values before they are stored."""

    def json(self, value: Any) -> Any: ...


def history_of(entries: Sequence[Mapping[str, Any]]) -> list[Message]:
    """The valid history that a list of entries stands for. One that cannot be read is left out, and that is told."""
    messages: list[Message] = []
    waiting: list[ToolResult] = []
    lost = 0
    for entry in entries:
        try:
            kind, told = entry.get("kind"), _told(entry)
        except (KeyError, TypeError, ValueError, AttributeError):
            lost += 1
            continue
        if isinstance(told, ToolResult):
            waiting.append(told)
            continue
        if waiting:
            messages.append(Message(Role.TOOL, results=tuple(waiting)))
            waiting = []
        messages = told if kind == "compacted" else [*messages, *told]
    if waiting:
        messages.append(Message(Role.TOOL, results=tuple(waiting)))
    if lost:
        missing = notice(f"Of this stored conversation {lost} entries cannot be read; they are missing above.")
        messages.append(Message(Role.USER, (missing,)))
    return mend(messages)


def _told(entry: Mapping[str, Any]) -> ToolResult | list[Message]:
    """What one entry adds: a result of the turn before, or messages.

    Raises:
        KeyError, TypeError, ValueError, AttributeError: it is not what `Session` writes.
    """
    match entry["kind"]:
        case "result":
            return ToolResult.from_json(entry["result"])
        case "message":
            return [Message.from_json(entry["message"])]
        case "compacted":
            return [Message.from_json(m) for m in entry["messages"]]
        case other:
            raise ValueError(f"unknown kind of entry: {other!r}")


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
    _missed: dict[int, Any] = field(default_factory=dict[int, Any])

    @classmethod
    async def open(cls, transcript: Transcript, redactor: Redacts, *, id: str = "") -> Session:
        """Continue session `id`, or begin a new one when it is empty.

        Raises:
            StoreError: the transcript cannot be read.
        """
        # Asked first: an entry that another process adds between the two is then a conflict, not passed over.
        last = await transcript.last(id) if id else -1
        entries = await transcript.load(id) if id else []
        session = cls(id or new_id("session"), transcript, redactor, history_of(entries))
        session._next = last + 1
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
        for late, kept in sorted(self._missed.items()):
            await self._append(late, kept)
        await self._append(number, self.redactor.json(dict(entry)))

    async def _append(self, number: int, entry: Any) -> None:
        """Store one entry. What could not be stored is tried again before the next one: a transcript has no holes.

        An entry whose storing was cancelled may be there already; the same one again changes nothing.
        """
        try:
            await self.transcript.append(self.id, number, entry)
        except BaseException:
            self._missed[number] = entry
            raise
        self._missed.pop(number, None)
