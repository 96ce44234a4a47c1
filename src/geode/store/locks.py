"""Advisory file locks that the operating system drops when the process ends, however it ends."""

from __future__ import annotations

import errno
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["file_lock", "is_locked", "try_lock", "unlock"]

_POLL = 0.02
"""Seconds between two tries of a lock that somebody else holds."""

if sys.platform == "win32":  # pragma: no cover - not run on this platform
    import msvcrt

    _OFFSET = 0x7FFF0000
    """Windows locks are mandatory: a byte far behind the content keeps the file readable."""

    def try_lock(fd: int, *, shared: bool = False) -> bool:
        """Take the lock of an open file if it is free. `shared` is exclusive on this platform."""
        place = os.lseek(fd, 0, os.SEEK_CUR)
        try:
            os.lseek(fd, _OFFSET, os.SEEK_SET)
            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EDEADLK):
                return False
            raise
        finally:
            os.lseek(fd, place, os.SEEK_SET)
        return True

    def unlock(fd: int) -> None:
        """Give the lock back."""
        place = os.lseek(fd, 0, os.SEEK_CUR)
        try:
            os.lseek(fd, _OFFSET, os.SEEK_SET)
            msvcrt.locking(fd, msvcrt.LK_UNLCK, 1)
        finally:
            os.lseek(fd, place, os.SEEK_SET)

else:
    import fcntl

    def try_lock(fd: int, *, shared: bool = False) -> bool:
        """Take the lock of an open file if it is free.

        Args:
            fd: an open file; the lock belongs to this opening, not to the process.
            shared: several may hold it at once, as long as nobody holds it alone.
        """
        try:
            fcntl.flock(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                return False
            raise
        return True

    def unlock(fd: int) -> None:
        """Give the lock back."""
        fcntl.flock(fd, fcntl.LOCK_UN)


def is_locked(path: Path) -> bool:
    """Whether somebody holds the lock of `path` alone. A missing file is not locked."""
    try:
        fd = os.open(path, os.O_RDWR | getattr(os, "O_CLOEXEC", 0))
    except OSError:
        return False
    try:
        if not try_lock(fd, shared=True):
            return True
        unlock(fd)
        return False
    finally:
        os.close(fd)


@contextmanager
def file_lock(path: Path, *, seconds: float) -> Iterator[bool]:
    """Hold the lock of `path`, which is created when missing (mode 0600).

    Args:
        path: the lock file; it stays behind, removing it would let two in.
        seconds: how long to wait for whoever holds it.

    Yields:
        True when the lock is held, False when the time was over.

    Raises:
        OSError: the file cannot be created or opened.
    """
    fd = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
    try:
        end = time.monotonic() + seconds
        while not (held := try_lock(fd)) and time.monotonic() < end:
            time.sleep(_POLL)
        try:
            yield held
        finally:
            if held:
                unlock(fd)
    finally:
        os.close(fd)
