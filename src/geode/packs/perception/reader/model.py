"""What every format reader gives: numbered parts that are rendered one at a time."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Protocol

__all__ = ["Document", "ReadError", "Request", "sections", "wrap"]

_WRAP = 2000


class ReadError(Exception):
    """The document cannot be read. `code` is "tool_failed" or "missing"."""

    def __init__(self, message: str, fix: str = "", code: str = "tool_failed") -> None:
        super().__init__(message)
        self.message, self.fix, self.code = message, fix, code


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What to read.

    Attributes:
        name: file name, for messages and to recognise the kind.
        kind: "auto" or a kind.
        pages: the selection as the caller wrote it; "" means all, from the first on.
        offset: first line of the first selected part, 1-based.
        limit: lines to show at most.
        chars: characters to show at most.
    """

    name: str
    kind: str = "auto"
    pages: str = ""
    offset: int = 1
    limit: int = 200
    chars: int = 9000


class Document(Protocol):
    """A document that has been opened."""

    kind: str
    unit: str
    """"page", "sheet", "slide" or "section"."""
    notes: list[str]
    """What the reader should know about how it was read; grows while parts are rendered."""

    @property
    def total(self) -> int: ...

    def select(self, pages: str) -> list[Any]:
        """The parts that a selection names, in its order. Raises ReadError."""
        ...

    def title(self, part: Any) -> str:
        """For people: "page 2 of 12"."""
        ...

    def render(self, part: Any, lines: int) -> tuple[list[str], Any]:
        """Lines of one part, of which about `lines` will be shown; and, when the part was cut, the rest of it."""
        ...

    def name(self, parts: list[Any]) -> str:
        """The selection that names these parts."""
        ...


@dataclass(slots=True)
class Sections:
    """A document without pages: cut into sections at paragraph ends."""

    kind: str
    texts: list[str]
    unit: str = "section"
    notes: list[str] = field(default_factory=list[str])

    @property
    def total(self) -> int:
        return len(self.texts)

    def select(self, pages: str) -> list[int]:
        from .pages import parse_pages  # a cycle otherwise: pages raises ReadError

        return parse_pages(pages, self.total, self.unit)

    def title(self, part: int) -> str:
        return f"{self.unit} {part} of {self.total}"

    def render(self, part: int, lines: int) -> tuple[list[str], None]:
        return wrap(self.texts[part - 1]), None

    def name(self, parts: list[int]) -> str:
        from .pages import name_pages

        return name_pages(parts)


def sections(text: str, *, chars: int = 6000) -> list[str]:
    """Cut a long text at paragraph ends into pieces of about `chars` characters; at least one piece."""
    pieces: list[str] = []
    current: list[str] = []
    size = 0
    for paragraph in re.split(r"\n{2,}", text.strip("\n")):
        if current and size + len(paragraph) > chars:
            pieces.append("\n\n".join(current))
            current, size = [], 0
        current.append(paragraph)
        size += len(paragraph) + 2
    pieces.append("\n\n".join(current))
    return pieces


def wrap(text: str) -> list[str]:
    """Lines of a text; lines over 2,000 characters are broken at blanks, so that each can be shown."""
    lines: list[str] = []
    for line in text.split("\n"):
        line = line.rstrip("\r")
        while len(line) > _WRAP:
            at = line.rfind(" ", _WRAP // 2, _WRAP)
            at = at if at > 0 else _WRAP
            lines.append(line[:at].rstrip())
            line = line[at:].lstrip()
        lines.append(line)
    while lines and not lines[-1].strip():
        lines.pop()
    return lines
