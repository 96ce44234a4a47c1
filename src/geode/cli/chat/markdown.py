"""Markdown that arrives in pieces: finished blocks are printed once, only the last one is still open."""

from __future__ import annotations

from typing import ClassVar

from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import Heading, Markdown, MarkdownElement
from rich.text import Text

__all__ = ["CalmMarkdown", "MarkdownPieces"]


class _Heading(Heading):
    """A heading on the left, bold: no box, not centred."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        text: Text = self.text
        text.justify = "left"
        text.stylize("bold")
        yield text


class CalmMarkdown(Markdown):
    """Markdown in the terminal's own colours; the address of a link is always readable."""

    elements: ClassVar[dict[str, type[MarkdownElement]]] = {**Markdown.elements, "heading_open": _Heading}

    def __init__(self, markup: str) -> None:
        super().__init__(markup, code_theme="ansi_dark", hyperlinks=False, inline_code_theme="ansi_dark")


class MarkdownPieces:
    """Cuts a stream of text into finished top-level blocks.

    Attributes:
        pending: the block that may still grow.
    """

    def __init__(self) -> None:
        self.pending = ""

    def feed(self, piece: str) -> str:
        """Add a piece; returns the source of the blocks it finished, often ""."""
        self.pending += piece
        if "\n" not in piece:
            return ""
        tokens = Markdown(self.pending).parsed
        starts = [t.map[0] for t in tokens if t.level == 0 and t.map and t.nesting >= 0]
        if len(starts) < 2:
            return ""
        lines = self.pending.splitlines(keepends=True)
        done, self.pending = "".join(lines[: starts[-1]]), "".join(lines[starts[-1] :])
        return done

    def rest(self) -> str:
        """The open block, which no piece will follow any more."""
        rest, self.pending = self.pending, ""
        return rest
