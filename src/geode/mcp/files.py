"""Reading and atomically editing the JSON files that declare MCP servers.

Every client spells the container differently (`mcpServers`, `servers`, or the entries at
the top); a file keeps its own spelling. Two processes may edit at once: the folder is
locked while a file is replaced.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

from ..config.home import read_bounded
from ..core.errors import ConfigError

__all__ = ["edit", "entries_of", "read_document"]

_CONTAINERS = ("mcpServers", "servers", "mcp_servers")
_LARGEST = 16_000_000
"""Bytes of a file that is read; clients keep other things in it as well."""


def read_document(path: Path) -> dict[str, Any]:
    """The file as an object; {} when it does not exist or is empty.

    Raises:
        ConfigError: unreadable, no regular file, not UTF-8, not JSON (with line and column), not an object.
    """
    raw = read_bounded(path, limit=_LARGEST)
    if raw is None:
        return {}
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 text", fix="save it as UTF-8") from error
    if not text.strip():
        return {}
    try:
        document: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        place = f" line {error.lineno}, column {error.colno}" if isinstance(error, json.JSONDecodeError) else ""
        why = error.msg if isinstance(error, json.JSONDecodeError) else "nested too deeply"
        raise ConfigError(f"{path}:{place} is not valid JSON: {why}", fix="correct the file") from error
    if not isinstance(document, dict):
        raise ConfigError(f"{path} must hold a JSON object", fix='write {"mcpServers": { … }}')
    return cast(dict[str, Any], document)


def _container(document: dict[str, Any]) -> str | None:
    """The key that holds the entries, or None when they stand at the top."""
    for key in _CONTAINERS:
        if key in document:
            return key
    looks_flat = document and all(isinstance(v, dict) and ("command" in v or "url" in v) for v in document.values())
    return None if looks_flat else _CONTAINERS[0]


def entries_of(document: dict[str, Any], path: Path) -> dict[str, Any]:
    """Name -> raw entry.

    Raises:
        ConfigError: the container is not an object.
    """
    key = _container(document)
    value = document if key is None else document.get(key, {})
    if not isinstance(value, dict):
        raise ConfigError(f"{path}: {key} must be an object", fix='write {"mcpServers": { … }}')
    return cast(dict[str, Any], value)


def edit(path: Path, change: Callable[[dict[str, Any]], None], *, private: bool) -> None:
    """Read, change and replace a file while its folder is locked.

    Args:
        change: alters the entries in place; when it raises, nothing is written.
        private: create the file readable for its owner only (an existing mode is kept).

    Raises:
        ConfigError: it cannot be read or written; the old content stays.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700 if private else 0o755)
        with _locked(path.parent):
            document = read_document(path)
            key = _container(document)
            entries = entries_of(document, path)
            before = json.dumps(document)
            change(entries)
            if key is not None:
                document[key] = entries
            if json.dumps(document) != before:
                _replace(path, document, private=private)
    except OSError as error:
        raise ConfigError(
            f"cannot write {path}: {error.strerror or error}",
            fix="check the permissions and the free space; nothing was changed",
        ) from error


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    if sys.platform == "win32":
        yield
        return
    import fcntl  # not on Windows

    handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _replace(path: Path, document: dict[str, Any], *, private: bool) -> None:
    target = path.resolve()
    data = (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode("utf-8", "surrogatepass")
    try:
        mode = target.stat().st_mode & 0o777
    except FileNotFoundError:
        mode = 0o600 if private else 0o644
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(mode)
        Path(name).replace(target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
