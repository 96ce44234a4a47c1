"""Progress of running calls, passed on to the client that asked for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from ..core.events import CallProgress, Event

__all__ = ["ProgressBoard"]

_KEEP = 100
Report = Callable[[float, float | None, str | None], Awaitable[None]]


class ProgressBoard:
    """Sorts progress events to the requests that wait for them."""

    def __init__(self) -> None:
        self._queues: dict[str, asyncio.Queue[CallProgress]] = {}

    def take(self, event: Event) -> None:
        """An event sink: keeps progress of watched calls, drops the oldest when a client is slow."""
        if not isinstance(event, CallProgress):
            return
        queue = self._queues.get(event.call.id) or self._queues.get(event.call.parent or "")
        if queue is None:
            return
        if queue.full():
            queue.get_nowait()
        queue.put_nowait(event)

    @asynccontextmanager
    async def forward(self, call_id: str, report: Report) -> AsyncIterator[None]:
        """While the block runs, send the call's progress with `report(progress, total, message)`."""
        queue: asyncio.Queue[CallProgress] = asyncio.Queue(_KEEP)
        self._queues[call_id] = queue
        pump = asyncio.create_task(_pump(queue, report))
        try:
            yield
        finally:
            del self._queues[call_id]
            pump.cancel()
            await asyncio.gather(pump, return_exceptions=True)


async def _pump(queue: asyncio.Queue[CallProgress], report: Report) -> None:
    """The protocol wants progress that only grows; what has no fraction counts steps."""
    last, steps = -1.0, 0
    while True:
        event = await queue.get()
        if event.fraction is None:
            steps += 1
            await report(float(steps), None, event.message or None)
        elif event.fraction > last:
            last = event.fraction
            await report(last, 1.0, event.message or None)
