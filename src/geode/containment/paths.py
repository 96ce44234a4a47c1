"""The files a call may touch: everything beneath one root, whatever is swapped meanwhile.

Links are resolved in user space first, which may race; the result is then opened by the
kernel beneath the root without following any link, which does not. A path that changes in
between is tried again and, if it keeps changing, refused.
"""

from __future__ import annotations

import contextlib
import difflib
import errno
import os
import secrets
import stat
import sys
import weakref
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import BinaryIO, TypeVar

from ..core.effects import Scope
from ..core.errors import PathEscape, ToolFailed
from . import openat
from .places import Places

__all__ = ["BeneathWorkspace"]

_T = TypeVar("_T")
_TRIES = 4
_O_PATH: int = getattr(os, "O_PATH", os.O_RDONLY)
_STAY = "Use a path inside the workspace."


class _Root:
    """One directory, held open so that renaming or replacing it changes nothing."""

    def __init__(self, path: Path) -> None:
        self.path = Path(os.path.realpath(path))
        self.descriptor = os.open(self.path, _O_PATH | openat.DIRECTORY | getattr(os, "O_CLOEXEC", 0))
        weakref.finalize(self, os.close, self.descriptor)

    def parts(self, real: Path) -> tuple[str, ...] | None:
        """`real` relative to this root, or None when it lies outside."""
        return real.relative_to(self.path).parts if real.is_relative_to(self.path) else None


class BeneathWorkspace:
    """`core.ports.Workspace` over openat2.

    Args:
        root: the project directory; may be given through a symlink. Must exist.
        home: the person's home, for `~` and for scopes.
        geode_home: Geode's own data; refused here even when the root holds it.
        extra_read: further directories that may be read by absolute path, never written.

    Raises:
        ToolFailed: the root does not exist, is no directory or is unreadable.
    """

    def __init__(self, root: Path, *, home: Path, geode_home: Path, extra_read: Iterable[Path] = ()) -> None:
        self._given = Path(os.path.abspath(root))
        try:
            self._root = _Root(root)
            self._extra = tuple(_Root(path) for path in extra_read)
        except OSError as error:
            raise ToolFailed(
                f"the workspace {root} cannot be used: {error.strerror or error}",
                fix="Name an existing directory with --project.",
            ) from error
        self.places = Places(self._root.path, home=home, geode_home=geode_home)

    @property
    def root(self) -> Path:
        """The real path of the workspace."""
        return self._root.path

    # ------------------------------------------------------------ names

    def _absolute(self, path: str) -> Path:
        if not path or path.isspace():
            raise PathEscape("the path is empty", fix='Use "." for the workspace itself.')
        if "\0" in path:
            raise PathEscape("the path contains a NUL character", fix=_STAY)
        try:
            os.fsencode(path)
        except UnicodeEncodeError as error:
            raise PathEscape("the path contains characters no file name can hold", fix=_STAY) from error
        if path == "~" or path.startswith(("~/", "~\\")):
            return self.places.home / path[2:]
        if path.startswith("~"):
            raise PathEscape(f"{path} names another user's home", fix=_STAY)
        return Path(path) if os.path.isabs(path) else self._root.path / path

    def _real(self, path: str, *, keep_last: bool = False) -> Path:
        """The path with every link resolved; with `keep_last` the last name is kept as it is."""
        absolute = self._absolute(path)
        last = absolute.name if keep_last else ""
        if keep_last and (path.rstrip("/").rsplit("/", 1)[-1] in (".", "..") or not last):
            raise ToolFailed(f"{path} is a directory", fix="Name one file.")
        try:
            real = os.path.realpath(absolute.parent if keep_last else absolute)
        except (OSError, ValueError) as error:
            raise PathEscape(f"{path} cannot be resolved: {error}", fix=_STAY) from error
        return Path(real) / last if keep_last else Path(real)

    def _inside(self, path: str, roots: Iterable[_Root], *, keep_last: bool = False) -> tuple[_Root, tuple[str, ...]]:
        real = self._real(path, keep_last=keep_last)
        if real.is_relative_to(self.places.geode_home):
            raise PathEscape(f"{path} belongs to Geode itself", fix=_STAY)
        for root in roots:
            parts = root.parts(real)
            if parts is not None:
                return root, parts
        where = "" if str(real) == path else f" (it leads to {real})"
        raise PathEscape(f"{path} is outside the workspace {self._root.path}{where}", fix=_STAY)

    def resolve(self, path: str) -> Path:
        """The absolute real path; see `core.ports.Workspace.resolve`."""
        root, parts = self._inside(path, (self._root,))
        return root.path.joinpath(*parts)

    def scope(self, path: str) -> Scope:
        """Where a path lies; see `core.ports.Workspace.scope`."""
        try:
            return self.places.scope(self._absolute(path))
        except PathEscape:
            return Scope.UNKNOWN

    # ------------------------------------------------------------ reading

    def open_read(self, path: str) -> BinaryIO:
        """Open a regular file beneath the root or an extra readable directory."""
        return self._steady(path, lambda: self._open_read(path))

    def _open_read(self, path: str) -> BinaryIO:
        root, parts = self._inside(path, (self._root, *self._extra))
        relative = "/".join(parts) or "."
        handle = openat.open_beneath(root.descriptor, relative, _O_PATH)
        try:
            mode = os.fstat(handle).st_mode
            if stat.S_ISDIR(mode):
                raise ToolFailed(f"{path} is a directory", fix="Name a file; list_directory shows what is in it.")
            if not stat.S_ISREG(mode):
                raise ToolFailed(f"{path} is not a regular file (a pipe, socket or device)", fix="Name a regular file.")
            descriptor = openat.reopen(handle, root.descriptor, relative, os.O_RDONLY)
        finally:
            os.close(handle)
        return os.fdopen(descriptor, "rb")

    # ------------------------------------------------------------ changing

    def write(self, path: str, data: bytes, *, create_parents: bool = True) -> bool:
        """Replace or create a file atomically; see `core.ports.Workspace.write`."""
        return self._steady(path, lambda: self._write(path, data, create_parents))

    def _write(self, path: str, data: bytes, create_parents: bool) -> bool:
        if path.endswith("/"):
            raise ToolFailed(f"{path} names a directory", fix="Name a file.")
        root, parts = self._inside(path, (self._root,))
        if not parts:
            raise ToolFailed(f"{path} is the workspace itself", fix="Name a file inside it.")
        parent, made = openat.open_parent(root.descriptor, parts, create=create_parents)
        try:
            created = _replace(parent, parts[-1], data, path)
        except BaseException:
            for position in reversed(made):
                with contextlib.suppress(OSError):  # not empty any more: somebody else uses it
                    grand, _ = openat.open_parent(root.descriptor, parts[: position + 1], create=False)
                    try:
                        os.rmdir(parts[position], dir_fd=grand)
                    finally:
                        os.close(grand)
            raise
        finally:
            os.close(parent)
        return created

    def delete(self, path: str) -> None:
        """Remove one file (a symlink itself, not what it points to) beneath the root."""
        self._steady(path, lambda: self._delete(path))

    def _delete(self, path: str) -> None:
        root, parts = self._inside(path, (self._root,), keep_last=True)
        if not parts:
            raise ToolFailed(f"{path} is the workspace itself", fix="Name one file.")
        parent, _ = openat.open_parent(root.descriptor, parts, create=False)
        try:
            if stat.S_ISDIR(os.stat(parts[-1], dir_fd=parent, follow_symlinks=False).st_mode):
                raise ToolFailed(f"{path} is a directory", fix="Only single files are removed here.")
            os.unlink(parts[-1], dir_fd=parent)
        finally:
            os.close(parent)

    # ------------------------------------------------------------ errors

    def _steady(self, path: str, action: Callable[[], _T]) -> _T:
        """Run `action`, again while the path is being changed under us, and name what went wrong."""
        for _ in range(_TRIES):
            try:
                return action()
            except OSError as error:
                if error.errno not in (errno.ELOOP, errno.EXDEV):
                    raise self._explain(path, error) from error
        raise PathEscape(f"{path} keeps changing into a symbolic link", fix="Try again when nothing else changes it.")

    def _explain(self, path: str, error: OSError) -> ToolFailed:
        number = error.errno
        if number == errno.ENOENT:
            return ToolFailed(f"no such file: {path}", fix=self._suggest(path))
        known = {
            errno.EACCES: (f"no permission for {path}", "Check the file's owner and mode."),
            errno.EPERM: (f"no permission for {path}", "Check the file's owner and mode."),
            errno.ENOTDIR: (f"a part of {path} is a file, not a directory", "Check the path."),
            errno.EISDIR: (f"{path} is a directory", "Name a file."),
            errno.ENOSPC: (f"no space left to write {path}; nothing was changed", "Free some space."),
            errno.EDQUOT: (f"the disk quota is used up; {path} was not changed", "Free some space."),
            errno.EROFS: (f"{path} is on a read-only file system", "Choose a place that can be written."),
            errno.ENAMETOOLONG: (f"the name is too long: {path[:80]}...", "Use a shorter name."),
        }
        message, fix = known.get(number or 0, (f"{path}: {error.strerror or error}", "Check the path."))
        return ToolFailed(message, fix=fix)

    def _suggest(self, path: str) -> str:
        """Names like the missing one in the closest directory that exists."""
        try:
            wanted = self._real(path)
            folder = wanted.parent
            if self._root.parts(folder) is None or not folder.is_dir():
                return "list_directory and find_file show what there is."
            close = difflib.get_close_matches(wanted.name, os.listdir(folder), n=3, cutoff=0.6)
        except (OSError, PathEscape, ToolFailed):
            close = []
        return f"Did you mean {', '.join(close)}?" if close else "list_directory and find_file show what there is."


def _replace(parent: int, name: str, data: bytes, shown: str) -> bool:
    """Write beside the target, then rename over it; keeps mode and, as root, the owner."""
    try:
        before = os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        before = None
    if before is not None:
        if stat.S_ISDIR(before.st_mode):
            raise ToolFailed(f"{shown} is a directory", fix="Name a file.")
        if stat.S_ISLNK(before.st_mode):
            raise OSError(errno.ELOOP, "a symbolic link", name)
        if not stat.S_ISREG(before.st_mode):
            raise ToolFailed(f"{shown} is not a regular file (a pipe, socket or device)", fix="Name a regular file.")
        if not os.access(name, os.W_OK, dir_fd=parent, follow_symlinks=False):
            raise ToolFailed(f"{shown} is read-only", fix="Make it writable first if it should be changed.")
    temporary = f".{name[:100]}.{secrets.token_hex(6)}.tmp"
    descriptor = os.open(
        temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o666, dir_fd=parent
    )
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            if before is not None:
                _keep(file.fileno(), before)
            os.fsync(file.fileno())
        os.rename(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=parent)
        raise
    return before is None


def _keep(descriptor: int, before: os.stat_result) -> None:
    if sys.platform != "win32":
        if os.geteuid() == 0 and (before.st_uid, before.st_gid) != (0, 0):
            os.fchown(descriptor, before.st_uid, before.st_gid)
        os.fchmod(descriptor, stat.S_IMODE(before.st_mode) & 0o777)
