"""Turns what a database driver or the file system says into one line and a fix."""

from __future__ import annotations

import errno
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from ..core.errors import StoreBusy, StoreError

__all__ = ["from_os", "translate", "translated"]

_SPACE = "free some space there, or choose another place with --home; nothing was changed"
_READONLY = "make the file and its folder writable for this user, or choose another place with --home"
_BUSY = "end the process that holds it (on Linux: fuser -v FILE), then try again; nothing was changed"
_CORRUPT = (
    "move it aside together with its -wal and -shm files and put a backup in its place;"
    " without a backup Geode starts an empty one, and `geode audit verify` will say what is gone"
)
_RESTORE = "check it with the database's own tools, or put a backup in its place; if it is sound, please report this"
_OPEN = "check that the folder exists, that the path is a file and that this user may read and write both"
_SERVER = "check that the server runs and that host, port, user, password and database in GEODE_DATABASE_URL are right"

_SQLITE: tuple[tuple[str, str, str, type[StoreError]], ...] = (
    ("database is locked", "is in use by another process that does not let go", _BUSY, StoreBusy),
    ("database table is locked", "is in use by another process that does not let go", _BUSY, StoreBusy),
    ("database or disk is full", "cannot be written: no space is left on its disk", _SPACE, StoreError),
    ("readonly database", "cannot be written: it or its folder is read-only", _READONLY, StoreError),
    ("attempt to write a readonly", "cannot be written: it or its folder is read-only", _READONLY, StoreError),
    ("file is not a database", "is damaged or is not a database", _CORRUPT, StoreError),
    ("malformed", "is damaged", _CORRUPT, StoreError),
    ("unable to open database file", "cannot be opened", _OPEN, StoreError),
    ("disk i/o error", "cannot be read or written: the disk reports an error", _SPACE, StoreError),
    (
        "no such table",
        "lacks a table that Geode made: it was removed, or the file is another program's",
        _CORRUPT,
        StoreError,
    ),
    ("no such column", "lacks a column that Geode made: the table is another program's", _CORRUPT, StoreError),
    ("could not decode to utf-8", "holds text that is damaged", _CORRUPT, StoreError),
)

_SERVER_BUSY = ("lock timeout", "deadlock detected", "could not serialize access", "too many clients")
_SERVER_FULL = ("no space left on device", "disk full")


def translate(error: BaseException, where: str) -> StoreError:
    """The error a person should see.

    Args:
        error: what SQLAlchemy, the driver or the operating system raised.
        where: the database in words, without a password.
    """
    if isinstance(error, StoreError):
        return error
    if isinstance(error, OSError):
        return from_os(error, where)
    cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    said = " ".join(str(cause).split())
    lowered = said.lower()
    if "disk i/o error" in lowered and _no_space(where):
        lowered = "database or disk is full"
    for sign, what, fix, kind in _SQLITE:
        if sign in lowered:
            return kind(f"the database {where} {what}", fix=fix)
    if any(sign in lowered for sign in _SERVER_BUSY):
        return StoreBusy(f"the database {where} is busy: {said[:200]}", fix="try again")
    if any(sign in lowered for sign in _SERVER_FULL):
        return StoreError(f"the database {where} has no space left", fix="free some space on the server")
    if "relation" in lowered and "does not exist" in lowered:
        return StoreError(f"the database {where} lacks a table that Geode made: {said[:200]}", fix=_RESTORE)
    if "connect" in lowered or "authentication" in lowered or "does not exist" in lowered:
        return StoreError(f"the database {where} cannot be reached: {said[:200]}", fix=_SERVER)
    return StoreError(f"the database {where} refused an operation: {said[:200]}", fix=_RESTORE)


def _no_space(where: str) -> bool:
    """Whether the disk of a SQLite file is full: SQLite calls that an I/O error when it maps memory."""
    try:
        return shutil.disk_usage(Path(where).parent).free < 1024 * 1024
    except OSError:
        return False


def from_os(error: OSError, where: str) -> StoreError:
    """The error a person should see for a failed file operation at `where`."""
    if error.errno in (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC), errno.EFBIG):
        return StoreError(f"{where} cannot be written: no space is left on its disk", fix=_SPACE)
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        return StoreError(f"{where} cannot be used: it is read-only or belongs to another user", fix=_READONLY)
    reason = error.strerror or str(error)
    return StoreError(f"{where} cannot be used: {reason}", fix=_OPEN)


@contextmanager
def translated(where: str) -> Iterator[None]:
    """Let only `StoreError` out of the block for what goes wrong with the database or its files."""
    try:
        yield
    except (SQLAlchemyError, sqlite3.Error, OSError) as error:
        raise translate(error, where) from error
