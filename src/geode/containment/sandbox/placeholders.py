"""Names that do not exist and must not come to exist while a sandboxed process runs.

A mount needs something to be mounted on. For a reserved name that does not exist an empty
directory (or a file `{}`) is made, covered inside, and removed again by the last user: a
shared lock per name tells who still needs it, over several Geode processes, and a lock
file that nobody holds after a crash is cleared by the next run.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import tempfile
from collections.abc import Iterable
from pathlib import Path

from ...core.errors import ToolFailed
from .view import Guard

try:
    import fcntl
except ImportError:  # Windows has no sandbox backend either
    fcntl = None

__all__ = ["Held", "hold", "sweep"]

_CONTENT = b"{}\n"


def _folder() -> Path:
    """A private directory shared by this user's Geode processes.

    Raises:
        ToolFailed: somebody else owns it.
    """
    base = os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()
    path = Path(base) / f"geode-{os.getuid()}"
    path.mkdir(mode=0o700, exist_ok=True)
    status = path.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
        raise ToolFailed(f"{path} is not ours, so the sandbox cannot be prepared", fix=f"Remove {path}.")
    return path


class Held:
    """Placeholders of one run; `release` removes those nobody else needs.

    `own` are the guarded names that really are there and belong to the person.
    """

    def __init__(self) -> None:
        self._locks: list[tuple[int, Path]] = []
        self.own: set[Path] = set()

    def add(self, guard: Guard, folder: Path) -> None:
        """Hold one name, making it when it is not there.

        Raises:
            OSError: it cannot be made.
        """
        assert fcntl is not None
        lock = folder / (hashlib.sha256(os.fsencode(guard.path)).hexdigest()[:32] + ".hold")
        # A placeholder has a lock file before it exists and until it is gone.
        if not lock.exists() and os.path.lexists(guard.path) and not lock.exists():
            self.own.add(guard.path)
            return
        while True:
            descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            fcntl.flock(descriptor, fcntl.LOCK_SH)
            if _is_still(descriptor, lock):
                break
            os.close(descriptor)
        self._locks.append((descriptor, lock))
        os.pwrite(descriptor, os.fsencode(guard.path), 0)
        with contextlib.suppress(FileExistsError):
            if guard.folder:
                guard.path.mkdir(mode=0o755)
            else:
                with guard.path.open("xb") as file:
                    file.write(_CONTENT)
        if not guard.folder and not _is_placeholder(guard.path):
            self.own.add(guard.path)

    def release(self) -> None:
        """Let go; never fails."""
        for descriptor, lock in self._locks:
            _finish(descriptor, lock)
        self._locks.clear()


def _is_placeholder(path: Path) -> bool:
    try:
        return not any(path.iterdir()) if path.is_dir() else path.read_bytes() == _CONTENT
    except OSError:
        return False


def _is_still(descriptor: int, lock: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), lock.stat())
    except FileNotFoundError:
        return False


def _finish(descriptor: int, lock: Path) -> None:
    """Remove the name a lock file stands for, and the lock file, when we are its last user."""
    assert fcntl is not None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path = Path(os.fsdecode(os.pread(descriptor, 4096, 0)))
        if path.is_absolute() and _is_placeholder(path):
            path.rmdir() if path.is_dir() else path.unlink()
    except OSError:  # somebody else still needs it, or has put something there
        pass
    else:
        with contextlib.suppress(OSError):
            lock.unlink()
    finally:
        os.close(descriptor)


def hold(guards: Iterable[Guard]) -> Held:
    """Make sure every guarded name exists until `release`.

    Raises:
        ToolFailed: a placeholder cannot be made (then nothing is started).
    """
    held = Held()
    try:
        wanted = list(guards)
        folder = _folder() if wanted else Path()
        for guard in wanted:
            held.add(guard, folder)
    except OSError as error:
        held.release()
        raise ToolFailed(f"the sandbox cannot protect {error.filename}: {error.strerror}",
                         fix="Check that the workspace can be written, or create that name.") from error  # fmt: skip
    return held


def sweep() -> int:
    """Remove placeholders that a crashed process left behind; how many lock files were cleared."""
    if fcntl is None:
        return 0
    cleared = 0
    try:
        locks = list(_folder().glob("*.hold"))
    except (OSError, ToolFailed):
        return 0
    for lock in locks:
        try:
            descriptor = os.open(lock, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            continue
        _finish(descriptor, lock)
        cleared += not lock.exists()
    return cleared
