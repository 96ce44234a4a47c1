"""Ask again when it is safe and may help: before the first event was given out, and never after.

The providers' SDKs are told not to retry, so that there is one place that waits. A server's
`Retry-After` is obeyed; where it asks for more than `longest` seconds, the error says so instead.
"""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from ..core.ports import Clock
from .model import ModelError, ModelEvent, ModelUnavailable

__all__ = ["Backoff", "Failure", "retried", "retry_after"]

RETRIED = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 520, 522, 524, 529})
"""Answers that another attempt may change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """How often and how long.

    Attributes:
        attempts: attempts in all.
        first: seconds before the second attempt; doubled each time.
        most: the longest own wait in seconds.
        longest: the longest wait in seconds that a server may ask for.
        stalls: how often a silent server is asked again.
        chance: a number from 0 to 1 for the jitter.
    """

    attempts: int = 4
    first: float = 0.5
    most: float = 8.0
    longest: float = 60.0
    stalls: int = 1
    chance: Callable[[], float] = random.random

    def wait(self, failures: int, asked: float | None) -> float:
        """Seconds until the next attempt, after `failures` failed ones."""
        if asked is not None:
            return asked
        return min(self.most, self.first * 2 ** (failures - 1)) * (0.75 + 0.5 * self.chance())


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why an attempt failed.

    Attributes:
        error: what the reader is told when it was the last.
        retry: whether another attempt may help.
        after: seconds that the server asked to wait.
        stall: nothing arrived for too long.
    """

    error: ModelError | ModelUnavailable
    retry: bool = False
    after: float | None = None
    stall: bool = False


@dataclass(slots=True)
class _Tried:
    failures: int = 0
    stalls: int = field(default=0)


async def retried(
    attempt: Callable[[], AsyncGenerator[ModelEvent]],
    explain: Callable[[Exception], Failure],
    *,
    backoff: Backoff,
    clock: Clock,
) -> AsyncGenerator[ModelEvent]:
    """The events of the first attempt that gives any.

    Args:
        attempt: asks once; closing its iterator ends the request.
        explain: what an exception of an attempt means.

    Raises:
        ModelError, ModelUnavailable: `explain`'s error of the last attempt.
    """
    tried = _Tried()
    while True:
        begun = False
        try:
            async with aclosing(attempt()) as events:
                async for event in events:
                    begun = True
                    yield event
            return
        except Exception as exc:
            failure = explain(exc)
            if begun or not _again(failure, tried, backoff):
                raise failure.error from exc
        await clock.sleep(backoff.wait(tried.failures, failure.after))


def _again(failure: Failure, tried: _Tried, backoff: Backoff) -> bool:
    tried.failures += 1
    tried.stalls += failure.stall
    if not failure.retry or tried.failures >= backoff.attempts or tried.stalls > backoff.stalls:
        return False
    if failure.after is not None and failure.after > backoff.longest:
        seconds = f"{failure.after:.0f}"
        failure.error.fix = f"the server asks to wait {seconds} s: try again then, or use another model"
        return False
    return True


def retry_after(headers: Mapping[str, str], now: datetime) -> float | None:
    """Seconds that a server asks to wait: `retry-after-ms`, or `Retry-After` in seconds or as a date."""
    try:
        return max(0.0, float(headers.get("retry-after-ms", "")) / 1000)
    except ValueError:
        pass  # absent, or not a number
    text = headers.get("retry-after", "").strip()
    try:
        seconds = float(text)
    except ValueError:
        seconds = _until(text, now)
    if seconds is None or seconds != seconds or seconds == float("inf"):
        return None
    return max(0.0, seconds)


def _until(text: str, now: datetime) -> float | None:
    try:
        when = parsedate_to_datetime(text)
    except (ValueError, TypeError, OverflowError):
        return None
    return ((when if when.tzinfo else when.replace(tzinfo=UTC)) - now).total_seconds()
