"""Numbers in sentences."""

from __future__ import annotations

__all__ = ["counted"]


def counted(number: int, noun: str) -> str:
    """`1 line`, `2 lines`, `1,234 lines`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
