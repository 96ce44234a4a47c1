"""Geode's home directory and the private files in it.

Everything Geode keeps about a person lies here, readable by that person alone: the
directory has mode 0700, each file 0600, and a file is replaced whole or not at all.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from ..core.errors import ConfigError, StoreBusy, StoreError

__all__ = [
    "default_home",
    "ensure_home",
    "locked",
    "private_file",
    "private_folder",
    "read_bounded",
    "write_private",
]

_WINDOWS = sys.platform == "win32"


def default_home(env: Mapping[str, str] | None = None) -> Path:
    """`$GEODE_HOME`, else `~/.geode`; absolute.

    Raises:
        ConfigError: neither is set and the person's home directory is unknown.
    """
    named = (os.environ if env is None else env).get("GEODE_HOME", "").strip()
    try:
        return Path(os.path.abspath(Path(named).expanduser())) if named else Path.home() / ".geode"
    except RuntimeError as problem:
        raise ConfigError(
            f"cannot find a home directory: {problem}", fix="set GEODE_HOME to a directory, or pass --home DIR"
        ) from problem


def ensure_home(home: Path) -> Path:
    """Create the home directory (0700) if needed, and check that it can be used.

    Returns:
        The absolute path.

    Raises:
        ConfigError: it is not a directory, belongs to somebody else, or serves another purpose.
        StoreError: it cannot be created or written.
    """
    home = Path(os.path.abspath(home.expanduser()))
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = home.stat()
    except (FileExistsError, NotADirectoryError) as problem:
        raise ConfigError(
            f"the home {home} is not a directory", fix="pass --home DIR or set GEODE_HOME to a directory"
        ) from problem
    except (OSError, ValueError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else str(problem)
        raise StoreError(
            f"cannot create the home {home}: {reason}", fix="make its parent writable, or pass --home DIR"
        ) from problem
    if not _WINDOWS:
        _keep_private(home, found)
    if not os.access(home, os.W_OK | os.X_OK | os.R_OK):
        raise StoreError(
            f"the home {home} cannot be written", fix="give yourself write access to it, or pass --home DIR"
        )
    return home


def _keep_private(home: Path, found: os.stat_result) -> None:
    """Refuse a foreign directory; take away the rights of group and others on our own."""
    me = os.geteuid()
    if found.st_uid != me and me != 0:
        raise ConfigError(
            f"the home {home} belongs to another user (uid {found.st_uid})",
            fix="pass --home DIR with a directory of your own",
        )
    if found.st_uid == me and stat.S_IMODE(found.st_mode) & 0o077:
        if not _ours(home, found):
            raise ConfigError(
                f"the home {home} is open to other users and holds other things, so Geode will not close it",
                fix="pass --home DIR or set GEODE_HOME to a directory of its own",
            )
        with contextlib.suppress(OSError):  # a read-only file system: the write check below reports it
            home.chmod(0o700)


_MARKS = frozenset({"geode.db", "config.toml", "trust.json", "mcp.json", "skills"})
"""Names that tell Geode's home from any other directory."""
_MADE_FIRST = frozenset({"cache", "logs", "spool"})
"""What may lie in a home before anything else does; a directory with nothing but these (or nothing) is ours."""


def _ours(home: Path, found: os.stat_result) -> bool:
    """Whether the mode of a directory is ours to change: it is empty, or looks like a home of Geode."""
    if found.st_mode & stat.S_ISVTX or home.parent == home:
        return False
    try:
        names = os.listdir(home)
    except OSError:
        return True  # the access check says what is wrong
    return _MADE_FIRST.issuperset(names) or not _MARKS.isdisjoint(names)


def private_folder(path: Path) -> Path:
    """Create a folder in the home, and what is missing above it (perhaps the home itself), with mode 0700.

    Returns:
        The path.

    Raises:
        OSError: it cannot be created, or something else stands there.
    """
    for folder in (*reversed(path.parents), path):
        if not folder.is_dir():
            folder.mkdir(mode=0o700, exist_ok=True)
    return path


def private_file(path: Path) -> Path:
    """Create an empty file of mode 0600 if there is none; tighten the mode of an existing one.

    Raises:
        StoreError: it cannot be created, or it is not a regular file.
    """
    try:
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0)
        fd = os.open(path, flags, 0o600)
        try:
            found = os.fstat(fd)
            if not stat.S_ISREG(found.st_mode):
                raise StoreError(f"{path} is not a regular file", fix="move it away and try again")
            if not _WINDOWS and stat.S_IMODE(found.st_mode) & 0o077:
                os.fchmod(fd, 0o600)
        finally:
            os.close(fd)
    except OSError as problem:
        raise StoreError(
            f"cannot create {path}: {problem.strerror}", fix="check its directory's permissions and free space"
        ) from problem
    return path


def write_private(path: Path, data: bytes, *, mode: int = 0o600) -> None:
    """Replace a file atomically: temporary file beside it, fsync, rename, fsync of the directory.

    A symbolic link is followed, so that a linked settings file stays linked. On failure the old
    content is untouched and no temporary file remains.

    Args:
        path: the file; its directory must exist.
        data: the whole new content.
        mode: permission bits of the file.

    Raises:
        StoreError: no space, no permission, no directory.
    """
    real = Path(os.path.realpath(path))
    temporary = real.with_name(f".{real.name[:80]}.{secrets.token_hex(6)}.tmp")
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
        fd = os.open(temporary, flags, mode)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(fd, view) :]
            os.fsync(fd)
        finally:
            os.close(fd)
        os.replace(temporary, real)
    except OSError as problem:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise StoreError(
            f"cannot write {path}: {problem.strerror}", fix="check free space and permissions; nothing was changed"
        ) from problem
    _sync_directory(real.parent)


def _sync_directory(directory: Path) -> None:
    """Make a rename durable where the platform lets directories be synced."""
    if _WINDOWS:
        return
    try:
        fd = os.open(directory, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
    except OSError:
        return  # the rename itself has happened; only its durability is not forced
    try:
        os.fsync(fd)
    except OSError:
        return
    finally:
        os.close(fd)


@contextlib.contextmanager
def locked(path: Path, *, seconds: float = 10.0) -> Iterator[None]:
    """Hold an exclusive lock between processes, by a lock file that stays.

    Args:
        path: the lock file; created with mode 0600.
        seconds: how long to wait for another holder.

    Raises:
        StoreBusy: somebody else holds it for longer.
        StoreError: the file cannot be created.
    """
    private_file(path)
    deadline = time.monotonic() + seconds
    with open(path, "r+b") as handle:
        while not _try_lock(handle.fileno()):
            if time.monotonic() > deadline:
                raise StoreBusy(f"{path} is locked by another process", fix="wait for it to end and try again")
            time.sleep(0.02)
        try:
            yield
        finally:
            _unlock(handle.fileno())


if sys.platform == "win32":
    import msvcrt

    def _try_lock(fd: int) -> bool:
        try:
            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def _unlock(fd: int) -> None:
        with contextlib.suppress(OSError):
            msvcrt.locking(fd, msvcrt.LK_UNLCK, 1)
else:
    import fcntl

    def _try_lock(fd: int) -> bool:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _unlock(fd: int) -> None:
        fcntl.flock(fd, fcntl.LOCK_UN)


def read_bounded(path: Path, *, limit: int = 1_000_000) -> bytes | None:
    """The content of a small regular file, or None when there is none.

    A pipe or device is never waited for, a huge file never loaded.

    Args:
        path: the file.
        limit: most bytes it may have.

    Raises:
        ConfigError: it exists and cannot be used.
    """
    try:
        fd = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else str(problem)
        raise ConfigError(f"cannot read {path}: {reason}", fix="make it readable, or move it away") from problem
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            raise ConfigError(f"{path} is not a regular file", fix="replace it by a text file, or move it away")
        if found.st_size > limit:
            raise ConfigError(f"{path} is larger than {limit:,} bytes", fix="make it smaller")
        chunks: list[bytes] = []
        while chunk := os.read(fd, 1 << 16):
            chunks.append(chunk)
            if len(chunks) * (1 << 16) > limit + (1 << 16):  # it grows while we read
                raise ConfigError(f"{path} is larger than {limit:,} bytes", fix="make it smaller")
        return b"".join(chunks)
    except OSError as problem:
        raise ConfigError(f"cannot read {path}: {problem.strerror}", fix="check the file") from problem
    finally:
        os.close(fd)
