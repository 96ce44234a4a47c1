"""What is seen while a turn runs: the answer as it streams, one line a call, what goes on just now.

Finished things are printed once and stay in the terminal's own history. Only the last lines
are repainted: the open block of the answer, the calls that run, a line that says it works.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.segment import Segment, Segments
from rich.text import Text

from ...core.call import Call
from ...core.events import (
    CallExecuting,
    CallFinished,
    CallProgress,
    CallVerified,
    Event,
    HistoryCompacted,
    Notice,
    ReasoningPiece,
    ServerChanged,
    TextPiece,
    TurnFinished,
    TurnStarted,
)
from ...core.messages import Status
from ..activity import call_line, duration, target
from ..render import plain, shortened
from .markdown import CalmMarkdown, MarkdownPieces

__all__ = ["TurnView"]

_REFRESH = 0.1
"""Seconds between two pictures."""
_STYLES = {Status.OK: "dim", Status.NEEDS_APPROVAL: "yellow"}


class _Trimmed:
    """Something without the empty lines around it, and no more than its last `lines` lines."""

    def __init__(self, what: RenderableType, lines: int | None = None) -> None:
        self._what, self._lines = what, lines

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        shown = console.render_lines(self._what, options, pad=False)
        while shown and _empty(shown[0]):
            shown.pop(0)
        while shown and _empty(shown[-1]):
            shown.pop()
        for line in shown[-self._lines :] if self._lines else shown:
            yield Segments([*line, Segment.line()])


def _empty(line: Sequence[Segment]) -> bool:
    return not "".join(s.text for s in line).strip()


class TurnView:
    """An event sink that paints. One turn at a time: `begin`, events, `end`.

    Args:
        console: where to.
        redact: removes secrets from JSON values.
    """

    def __init__(self, console: Console, redact: Callable[[Any], Any]) -> None:
        self._console, self._redact = console, redact
        self._frames = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏" if "utf" in (console.encoding or "").lower() else "|/-\\"
        self._live: Live | None = None
        self._ticker: asyncio.Task[None] | None = None
        self._pieces = MarkdownPieces()
        self._running: dict[str, tuple[Call, float, str]] = {}
        self._since = 0.0
        self._doing = ""
        self._last = ""  # what was printed last: "text", "line" or something else
        self._held: list[tuple[RenderableType, bool]] | None = None

    # ------------------------------------------------------------ from outside

    def begin(self) -> None:
        """A turn of the person has been sent."""
        self._pieces, self._running, self._last = MarkdownPieces(), {}, "prompt"
        self._since, self._doing = time.monotonic(), "thinking"
        self._start_painting()
        self._ticker = asyncio.get_running_loop().create_task(self._tick())

    def end(self) -> None:
        """The turn is over: print what is still open, paint no more."""
        if self._ticker is not None:
            self._ticker.cancel()
            self._ticker = None
        self._flush()
        self._stop_painting()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Leave the terminal to a question; what happens meanwhile is printed after it."""
        self._held = []
        self._stop_painting()
        try:
            yield
        finally:
            waiting, self._held = self._held, None
            self._last = "question"
            for what, soft in waiting:
                self._print(what, soft=soft)
            if self._ticker is not None:
                self._start_painting()

    def _print(self, what: RenderableType, *, soft: bool = False) -> None:
        if self._held is not None:
            self._held.append((what, soft))
        elif soft:
            self._console.print(what, soft_wrap=True)
        else:
            self._console.print(what, width=self._width)

    def _stop_painting(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _start_painting(self) -> None:
        if self._live is None and self._console.is_terminal and not self._console.is_dumb_terminal:
            self._live = Live(self._picture(), console=self._console, auto_refresh=False, transient=True)
            self._live.start()

    def stopping(self) -> None:
        """The person has pressed Ctrl-C."""
        self._doing = "stopping"
        self._paint()

    def say(self, text: str, style: str = "dim") -> None:
        """Print a line of Geode's own, above what is still moving."""
        self._space("line")
        self._print(Text(plain(text), style=style), soft=True)

    # ------------------------------------------------------------ events

    def __call__(self, event: Event) -> None:
        match event:
            case TurnStarted():
                self._since, self._doing = time.monotonic(), "thinking"
            case TextPiece(_, text):
                self._doing = "writing"
                self._block(self._pieces.feed(plain(text)))
            case ReasoningPiece():
                self._doing = "thinking"
            case TurnFinished():
                self._flush()
                self._doing = "working"
            case CallExecuting(call):
                self._running[call.id] = (call, time.monotonic(), "")
            case CallProgress(call, message) if call.id in self._running:
                self._running[call.id] = (*self._running[call.id][:2], message)
            case CallVerified(call, False, problems):
                self.say(f"  {call.tool}: its own check found {len(problems) or 'a'} problem(s)", "yellow")
            case CallFinished():
                self._finished(event)
            case Notice(_, text):
                self.say(f"· {text}")
            case HistoryCompacted(_, before, after):
                self.say(f"· the conversation was shortened: {before:,} -> {after:,} tokens")
            case ServerChanged(server, "failed", error):
                self.say(f"· MCP server {server} failed: {error}", "yellow")
            case _:
                return
        if not isinstance(event, TextPiece | ReasoningPiece):  # those come faster than the eye
            self._paint()

    def _finished(self, event: CallFinished) -> None:
        self._running.pop(event.call.id, None)
        nested = "  " if event.call.parent else ""
        arguments = self._redact(dict(event.call.arguments))
        line = call_line(event.call, event.result, arguments, width=self._width - len(nested))
        self.say(nested + line, _STYLES.get(event.result.status, "red"))

    def _flush(self) -> None:
        self._block(self._pieces.rest())

    def _block(self, source: str) -> None:
        """Print finished Markdown."""
        if not source.strip():
            return
        self._space("text")
        self._print(_Trimmed(CalmMarkdown(source)))

    def _space(self, kind: str) -> None:
        """An empty line before every block of text and where lines begin."""
        if kind == "text" or self._last != "line":
            self._print(Text())
        self._last = kind

    # ------------------------------------------------------------ the moving part

    @property
    def _width(self) -> int:
        return min(self._console.width, 100)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(_REFRESH)
            self._paint()

    def _paint(self) -> None:
        if self._live is not None:
            self._live.update(self._picture(), refresh=True)

    def _picture(self) -> RenderableType:
        return Group(*self._open_block(), *self._status())

    def _open_block(self) -> Iterable[RenderableType]:
        if self._pieces.pending.strip():
            yield Text()
            room = max(3, self._console.height - len(self._running) - 4)
            yield _Trimmed(CalmMarkdown(self._pieces.pending), room)
        yield Text()

    def _status(self) -> Iterable[RenderableType]:
        now = time.monotonic()
        frame = self._frames[int(now / _REFRESH) % len(self._frames)]
        for call, since, message in self._running.values():
            about = message or target(call, self._redact(dict(call.arguments)))
            took = duration((now - since) * 1000)
            line = shortened(f"{frame} {call.tool} {plain(about)}", self._width - len(took) - 4)
            yield Text(f"{line}  {took}", style="cyan", no_wrap=True, overflow="ellipsis")
        if not self._running or self._doing == "stopping":
            seconds = now - self._since
            took = f" {seconds:.0f} s" if seconds >= 2 else ""
            hint = "" if self._doing == "stopping" else "  (Ctrl-C stops)"
            yield Text(f"{frame} {self._doing}{took}{hint}", style="dim", no_wrap=True)
