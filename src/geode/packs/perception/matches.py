"""What is searched and what was found: shared by both search engines."""

from __future__ import annotations

from dataclasses import dataclass, field

from .globs import Glob

__all__ = ["MAX_FILE_BYTES", "MAX_MATCHES_PER_FILE", "FileHits", "Search", "Searched"]

MAX_FILE_BYTES = 64 * 1024 * 1024
MAX_MATCHES_PER_FILE = 10_000


@dataclass(frozen=True, slots=True)
class Search:
    """One search. `glob` is matched against the path below `path`."""

    pattern: str
    path: str
    literal: bool = False
    ignore_case: bool = False
    context: int = 0
    include_ignored: bool = False
    glob: Glob | None = None


@dataclass(slots=True)
class FileHits:
    """Matches of one file: `lines` holds matched and context lines by number."""

    path: str
    lines: dict[int, str] = field(default_factory=dict[int, str])
    matched: set[int] = field(default_factory=set[int])

    @property
    def matches(self) -> list[int]:
        """Numbers of the matching lines, ascending."""
        return sorted(self.matched)


@dataclass(slots=True)
class Searched:
    """Everything found; `complete` is False when a limit ended the search."""

    files: list[FileHits]
    engine: str
    complete: bool = True
    notes: tuple[str, ...] = ()
