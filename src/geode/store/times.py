"""Times as the database keeps them: microseconds since 1970, UTC."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

__all__ = ["from_us", "now_us", "to_us"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def now_us() -> int:
    """The time now."""
    return time.time_ns() // 1000


def to_us(when: datetime) -> int:
    """An aware time as a number; a naive one is taken as UTC."""
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    return (when - _EPOCH) // _MICROSECOND


def from_us(number: int) -> datetime:
    """The aware UTC time of a stored number."""
    return _EPOCH + timedelta(microseconds=number)
