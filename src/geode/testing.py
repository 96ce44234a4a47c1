"""What tests of Geode, and of things built on it, need: a clock turned by hand, an approver with a script.

Real parts are used for everything else (a SQLite file, the sandbox, an MCP server process).
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from .core.events import Event
from .core.ports import ApprovalAnswer, ApprovalRequest

__all__ = ["EventLog", "FakeClock", "ScriptedApprover"]


class FakeClock:
    """A `Clock` that moves only when told to; sleepers wake in the order of their time."""

    def __init__(self, start: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        self._now = start
        self._elapsed = 0.0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._count = 0

    def now(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return self._elapsed

    async def sleep(self, seconds: float) -> None:
        self._count += 1
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._elapsed + seconds, self._count, future))
        await future

    def advance(self, seconds: float) -> None:
        """Move the time on and wake everybody whose time has come."""
        self._elapsed += seconds
        self._now += timedelta(seconds=seconds)
        while self._sleepers and self._sleepers[0][0] <= self._elapsed:
            future = heapq.heappop(self._sleepers)[2]
            if not future.done():
                future.set_result(None)


class ScriptedApprover:
    """An `Approver` that gives prepared answers in order and remembers what it was asked.

    An entry is True, False, an `ApprovalAnswer`, or None for "nobody is there"; when the
    script is over, nobody is there.
    """

    def __init__(self, answers: Iterable[bool | ApprovalAnswer | None] = (), *, delay: float = 0.0) -> None:
        self._answers = list(answers)
        self._delay = delay
        self.asked: list[ApprovalRequest] = []

    async def ask(self, request: ApprovalRequest) -> ApprovalAnswer:
        self.asked.append(request)
        if self._delay:
            await asyncio.sleep(self._delay)
        answer = self._answers.pop(0) if self._answers else None
        if isinstance(answer, ApprovalAnswer):
            return answer
        if answer is None:
            return ApprovalAnswer(approved=False, by="", answered=False)
        return ApprovalAnswer(approved=answer, by="tester")


class EventLog(list[Event]):
    """An event sink that keeps everything: `gate.subscribe(log)`."""

    def __call__(self, event: Event) -> None:
        self.append(event)

    def names(self) -> list[str]:
        """Class names of the events, in order."""
        return [type(e).__name__ for e in self]
