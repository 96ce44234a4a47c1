"""The terminal itself: its width, and whether it shows what is typed."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["Echo", "columns", "on_terminal"]


def on_terminal() -> bool:
    """True when a person can be asked: stdin and stderr are both terminals."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()


def columns() -> int:
    """How wide lines may be: the terminal's width, at most 120; 100 where there is none."""
    if not (sys.stderr.isatty() or sys.stdout.isatty()):
        return 100
    return max(40, min(120, shutil.get_terminal_size().columns))


class Echo:
    """Whether the terminal shows what is typed while Geode writes. The keys wait for the next prompt either way."""

    def __init__(self) -> None:
        self._before: list[Any] | None = None

    @contextmanager
    def off(self) -> Iterator[None]:
        """Show nothing that is typed."""
        self._before = _attributes()
        self._set(shown=False)
        try:
            yield
        finally:
            self.restore()

    @contextmanager
    def on(self) -> Iterator[None]:
        """Show it again for a question, within `off`."""
        self._set(shown=True)
        try:
            yield
        finally:
            self._set(shown=False)

    def restore(self) -> None:
        """Leave the terminal as it was."""
        self._set(shown=True)
        self._before = None

    def _set(self, *, shown: bool) -> None:
        if self._before is None:
            return
        import termios

        wanted = list(self._before)
        if not shown:
            wanted[3] &= ~termios.ECHO
        termios.tcsetattr(sys.stdin.fileno(), termios.TCSANOW, wanted)


def _attributes() -> list[Any] | None:
    try:
        import termios
    except ImportError:  # Windows
        return None
    try:
        return termios.tcgetattr(sys.stdin.fileno())
    except (termios.error, OSError, ValueError):  # no terminal
        return None
