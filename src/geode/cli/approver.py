"""Asks the person at the terminal; without a terminal there is nobody to ask, and it says so at once."""

from __future__ import annotations

import asyncio
import os
import select
import sys
from datetime import UTC, datetime

from ..config.person import local_user
from ..core.ports import ApprovalAnswer, ApprovalRequest
from .render import paint, visible
from .terminal import on_terminal

__all__ = ["TerminalApprover"]


class TerminalApprover:
    """An `Approver` at the terminal: shows exactly what will run and why, and takes y or n.

    Questions come one at a time; the answer must be typed after the question is shown
    (what was typed before is dropped), and anything but yes is no.

    Args:
        seconds: how long the gate waits for an answer.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._turn = asyncio.Lock()

    async def ask(self, request: ApprovalRequest) -> ApprovalAnswer:
        """The person's answer; `answered=False` when stdin or stderr is no terminal or time ran out."""
        if not on_terminal():
            return ApprovalAnswer(False, by="", reason="no terminal to ask at", answered=False)
        async with self._turn:
            seconds = min(self._seconds, (request.expires_at - datetime.now(UTC)).total_seconds())
            _show(request, seconds)
            line = await _read_line(seconds)
        if line is None:
            print("\nno answer in time: not run", file=sys.stderr)
            return ApprovalAnswer(False, by=local_user(), reason="no answer in time", answered=False)
        if not line.endswith("\n"):
            print(file=sys.stderr)
        if line.strip().lower() in {"y", "yes", "j", "ja", "네", "예"}:
            return ApprovalAnswer(True, by=local_user())
        return ApprovalAnswer(False, by=local_user(), reason="the person said no")


def _show(request: ApprovalRequest, seconds: float) -> None:
    err = sys.stderr
    call = request.call
    print(paint(f"\n{visible(call.tool)} needs your approval", "yellow", err), file=err)
    for line in visible(request.view).splitlines() or ["(no arguments)"]:
        print(f"  | {line}", file=err)
    print(f"  why: {visible(request.verdict.reason) or 'no rule allows it'}", file=err)
    for impact in request.verdict.impacts:
        print(f"  effect: {impact.kind.value} {visible(impact.target)} ({impact.scope.value})", file=err)
    print(f"  asked by: {call.origin.value}, in {visible(str(call.cwd))}, mode {visible(call.mode)}", file=err)
    print(f"Run it? [y/N] (waits {max(0, round(seconds))} s) ", end="", file=err, flush=True)


async def _read_line(seconds: float) -> str | None:
    """One line from the terminal, or None when the time is over; "" when the terminal was closed (Ctrl-D).

    No thread reads: when this returns or is cancelled, nothing of Geode waits for keys any more, so
    the next prompt gets every one of them.
    """
    _drop_typed_ahead()
    try:
        async with asyncio.timeout(max(0.0, seconds)):
            return await (_console_line() if sys.platform == "win32" else _terminal_line())
    except TimeoutError:
        return None


async def _terminal_line() -> str:
    """A line of a POSIX terminal, by the event loop."""
    loop, fd = asyncio.get_running_loop(), sys.stdin.fileno()
    line: asyncio.Future[str] = loop.create_future()
    typed = bytearray()

    def readable() -> None:
        if line.done() or not select.select([fd], [], [], 0)[0]:
            return
        try:
            data = os.read(fd, 4096)
        except BlockingIOError:
            return
        except OSError:  # the terminal is gone
            data = b""
        typed.extend(data)
        if not data or b"\n" in data:
            line.set_result(typed.decode("utf-8", "replace"))

    loop.add_reader(fd, readable)
    try:
        return await line
    finally:
        loop.remove_reader(fd)


async def _console_line() -> str:
    """A line of the Windows console, whose keys cannot be waited for by the event loop."""
    import msvcrt

    typed = ""
    while True:
        while msvcrt.kbhit():  # type: ignore[attr-defined, unused-ignore]
            key = msvcrt.getwche()  # type: ignore[attr-defined, unused-ignore]
            if key in "\r\n\x1a":
                print(file=sys.stderr)
                return typed
            typed = typed[:-1] if key == "\b" else typed + key
        await asyncio.sleep(0.05)


def _drop_typed_ahead() -> None:
    try:
        import termios

        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
    except (ImportError, OSError, ValueError):
        return
