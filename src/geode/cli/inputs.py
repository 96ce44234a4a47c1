"""Input given on the command line: JSON words, files, stdin. Wrong input gives one clear line."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TextIO

from ..core.errors import UsageError

__all__ = ["arguments_from", "moment", "open_text", "parse_object"]

MAX_INPUT = 64 * 1024 * 1024
"""Bytes of JSON taken from a file or stdin."""


def arguments_from(source: str) -> dict[str, Any]:
    """The arguments object from JSON text, `@FILE` or `-` (stdin).

    Raises:
        UsageError: unreadable, too large, not JSON, or not an object.
    """
    if source == "-" or source.startswith("@"):
        name = "stdin" if source == "-" else source[1:]
        with open_text(source.removeprefix("@") if source != "-" else "-") as stream:
            try:
                text = stream.read(MAX_INPUT + 1)
            except UnicodeDecodeError as error:
                raise UsageError(f"{name} is not UTF-8 text: {error.reason}", fix="save it as UTF-8") from None
            except OSError as error:
                raise UsageError(f"cannot read {name}: {error.strerror}", fix="check the file") from None
        if len(text) > MAX_INPUT:
            raise UsageError(f"{name} is larger than {MAX_INPUT // 2**20} MB", fix="pass large data as a file path")
        return parse_object(text, name)
    return parse_object(source, "--args")


def parse_object(text: str, where: str) -> dict[str, Any]:
    """A JSON object, strictly: no NaN, no key twice.

    Args:
        text: the JSON.
        where: names the source in the error.

    Raises:
        UsageError: with line and column.
    """
    example = """for example: '{"path": "report.pdf"}'"""
    try:
        value = json.loads(text, parse_constant=_no_constant, object_pairs_hook=_unique)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno} column {error.colno}" if text.strip() else "it is empty"
        raise UsageError(f"{where} is not valid JSON: {error.msg} ({place})", fix=example) from None
    except RecursionError:
        raise UsageError(f"{where} is nested too deeply", fix=example) from None
    except ValueError as error:
        raise UsageError(f"{where} is not valid JSON: {error}", fix=example) from None
    if not isinstance(value, dict):
        raise UsageError(f"{where} is a JSON {_KINDS[type(value)]}, but an object is needed", fix=example)
    return value


_KINDS: dict[type, str] = {
    list: "array",
    str: "string",
    int: "number",
    float: "number",
    bool: "boolean",
    type(None): "null",
}


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON value")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the key {json.dumps(key)} appears twice")
        found[key] = value
    return found


@contextmanager
def open_text(source: str) -> Iterator[TextIO]:
    """A file (or `-` for stdin) as UTF-8 text; a byte order mark is skipped.

    Raises:
        UsageError: missing, a directory, unreadable.
    """
    if source == "-":
        if sys.stdin is None or sys.stdin.closed:
            raise UsageError("stdin is closed", fix="give a file, or pipe the input in")
        sys.stdin.reconfigure(encoding="utf-8-sig")  # type: ignore[union-attr]
        yield sys.stdin
        return
    try:
        stream = Path(source).expanduser().open(encoding="utf-8-sig")
    except FileNotFoundError:
        raise UsageError(f"file {source!r} does not exist", fix="check the path") from None
    except IsADirectoryError:
        raise UsageError(f"{source!r} is a directory, not a file", fix="give a file") from None
    except (OSError, ValueError, RuntimeError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"cannot read {source!r}: {why}", fix="check the path and its permissions") from None
    with stream:
        yield stream


_AGO = re.compile(r"(\d{1,6})\s*(s|m|h|d|w)")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def moment(text: str) -> datetime:
    """A point in time: `15m`, `2h`, `7d` ago, a date, or an ISO 8601 time (local when it has no zone).

    Raises:
        UsageError: it is none of these.
    """
    found = _AGO.fullmatch(text.strip())
    try:
        if found:
            return datetime.now(UTC) - timedelta(**{_UNITS[found[2]]: int(found[1])})
        return datetime.fromisoformat(text.strip()).astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        raise UsageError(f"{text!r} is not a time", fix="for example: 2h, 7d, 2026-11-30, 2026-11-30T08:00") from None
