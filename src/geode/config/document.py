"""Reading one TOML file, with positions good enough to say where a fault is."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..core.errors import ConfigError
from .home import read_bounded

__all__ = ["Document", "parse_document", "read_document"]

_HEADER = re.compile(r"\s*(\[\[|\[)\s*([^\]]+?)\s*\]")
_KEY = re.compile(r"""\s*("[^"]*"|'[^']*'|[A-Za-z0-9_.-]+(?:\s*\.\s*"[^"]*")?)\s*=""")


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed TOML file.

    Attributes:
        name: what messages call it, usually its path.
        data: the tables.
        text: the source, for line numbers.
    """

    name: str
    data: Mapping[str, Any] = field(default_factory=dict[str, Any])
    text: str = ""

    def line_of(self, key: str, table: str = "") -> int:
        """The 1-based line of `key` in `[table]` (top level when empty), or 0 when not found."""
        current = ""
        for number, line in enumerate(self.text.splitlines(), 1):
            if header := _HEADER.match(line):
                current = header[2].replace('"', "").replace("'", "")
                if f"{table}.{key}".lstrip(".") == current:
                    return number
            elif (found := _KEY.match(line)) and current == table and found[1].strip("\"'") == key:
                return number
        return 0

    def lines_of_tables(self, name: str) -> tuple[int, ...]:
        """The lines of the headers `[[name]]`, in order."""
        headers = ((n, _HEADER.match(line)) for n, line in enumerate(self.text.splitlines(), 1))
        return tuple(n for n, found in headers if found and found[1] == "[[" and found[2] == name)

    def place(self, line: int) -> str:
        """`FILE:LINE`, or the file alone when the line is not known."""
        return f"{self.name}:{line}" if line else self.name

    def error(self, what: str, *, key: str = "", table: str = "", line: int = 0, fix: str = "") -> ConfigError:
        """A `ConfigError` that names the file and, where it can be found, the line."""
        return ConfigError(f"{self.place(line or (self.line_of(key, table) if key else 0))}: {what}", fix=fix)


def parse_document(raw: bytes, name: str) -> Document:
    """Parse TOML.

    Args:
        raw: the bytes of the file; a UTF-8 byte order mark is accepted.
        name: what messages call it.

    Raises:
        ConfigError: not UTF-8, or not TOML; names the line.
    """
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        line = raw.count(b"\n", 0, problem.start) + 1
        raise ConfigError(f"{name}:{line}: not UTF-8 text", fix="save the file as UTF-8") from problem
    try:
        return Document(name, tomllib.loads(text), text)
    except (ValueError, RecursionError) as problem:  # TOMLDecodeError is a ValueError
        message = "nested too deeply" if isinstance(problem, RecursionError) else str(problem)
        found = re.search(r"\s*\(at line (\d+), column \d+\)$", message)
        place = f"{name}:{found[1]}" if found else name
        reason = message[: found.start()] if found else message
        raise ConfigError(
            f"{place}: not valid TOML: {reason}", fix="correct the line; see https://toml.io"
        ) from problem


def read_document(path: Path) -> Document:
    """Read a TOML file; a missing one is an empty document.

    Raises:
        ConfigError: it exists and cannot be read or parsed.
    """
    raw = read_bounded(path)
    return Document(str(path)) if raw is None else parse_document(raw, str(path))
