"""Opening a path beneath a directory so that nothing swapped in meanwhile can lead out.

`openat2(2)` (Linux 5.6) does it in one call. Where it is missing the same guarantee comes
from walking the components one by one with `O_NOFOLLOW`. Both refuse every symlink: the
caller resolves links first and passes the real, relative path.

Source: openat2(2); `struct open_how` is three 64-bit words: flags, mode, resolve.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import stat
import sys
from collections.abc import Callable, Sequence

__all__ = ["DIRECTORY", "has_openat2", "open_beneath", "open_parent", "reopen"]

_SYS_OPENAT2 = 437  # the same number on every architecture
_RESOLVE_NO_MAGICLINKS = 0x02
_RESOLVE_NO_SYMLINKS = 0x04
_RESOLVE_BENEATH = 0x08

_O_PATH: int = getattr(os, "O_PATH", os.O_RDONLY)
DIRECTORY: int = getattr(os, "O_DIRECTORY", 0)
_CLOEXEC: int = getattr(os, "O_CLOEXEC", 0)
_NOCTTY: int = getattr(os, "O_NOCTTY", 0)
_NOFOLLOW: int = getattr(os, "O_NOFOLLOW", 0)


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def _base(flags: int) -> int:
    """Flags that are always added; openat2 takes no O_NOCTTY beside O_PATH."""
    return flags | _CLOEXEC | (0 if _O_PATH and flags & _O_PATH else _NOCTTY)


@functools.cache
def _syscall() -> Callable[..., int]:
    function = ctypes.CDLL(None, use_errno=True).syscall
    function.restype = ctypes.c_long
    return function


def _openat2(directory: int, path: str, flags: int, mode: int = 0) -> int:
    how = _OpenHow(_base(flags), mode, _RESOLVE_BENEATH | _RESOLVE_NO_SYMLINKS | _RESOLVE_NO_MAGICLINKS)
    call = _syscall()
    number = errno.EAGAIN
    for _ in range(100):
        descriptor = call(
            _SYS_OPENAT2,
            ctypes.c_int(directory),
            os.fsencode(path),
            ctypes.byref(how),
            ctypes.c_size_t(ctypes.sizeof(how)),
        )
        if descriptor >= 0:
            return int(descriptor)
        number = ctypes.get_errno()
        # EAGAIN: a rename happened anywhere while ".." was being resolved; the kernel asks to try again.
        if number not in (errno.EAGAIN, errno.EINTR):
            break
    raise OSError(number, os.strerror(number), path)


@functools.cache
def has_openat2() -> bool:
    """Whether this kernel (and a filter around us) lets us use openat2."""
    if not sys.platform.startswith("linux"):
        return False
    root = os.open("/", _O_PATH | DIRECTORY)
    try:
        os.close(_openat2(root, ".", _O_PATH | DIRECTORY))
    except OSError:
        return False
    finally:
        os.close(root)
    return True


def _walk(directory: int, path: str, flags: int, mode: int = 0) -> int:
    parts = [part for part in path.split("/") if part not in ("", ".")]
    current = os.dup(directory)
    try:
        for position, part in enumerate(parts or ["."]):
            if part == "..":
                raise OSError(errno.EXDEV, "path goes up", path)
            last = position >= len(parts) - 1
            wanted = flags if last else _O_PATH | DIRECTORY
            following = os.open(part, _base(wanted) | _NOFOLLOW, mode, dir_fd=current)
            os.close(current)
            current = following
            if stat.S_ISLNK(os.fstat(current).st_mode):  # O_PATH|O_NOFOLLOW opens the link itself
                raise OSError(errno.ELOOP, "a symbolic link", path)
        result, current = current, -1
        return result
    finally:
        if current >= 0:
            os.close(current)


def open_beneath(directory: int, path: str, flags: int, mode: int = 0) -> int:
    """Open `path` beneath the open `directory`, following no symlink.

    Args:
        directory: descriptor of the directory.
        path: relative, real (no links, no `..`).
        flags: as for open(2); close-on-exec and no-controlling-terminal are added.
        mode: permission bits when a file is created.

    Raises:
        OSError: ELOOP when a component is a symlink, EXDEV when it leads out, else as open(2).
    """
    return (_openat2 if has_openat2() else _walk)(directory, path, flags, mode)


def open_parent(directory: int, parts: Sequence[str], *, create: bool) -> tuple[int, list[int]]:
    """The directory that holds `parts[-1]`, made on the way when asked.

    Returns:
        Its descriptor, and how many of the leading parts had to be made (as a list of their positions).
    """
    if not create:
        return open_beneath(directory, "/".join(parts[:-1]) or ".", _O_PATH | DIRECTORY), []
    made: list[int] = []
    current = os.dup(directory)
    try:
        for position, part in enumerate(parts[:-1]):
            try:
                following = open_beneath(current, part, _O_PATH | DIRECTORY)
            except FileNotFoundError:
                try:
                    os.mkdir(part, 0o777, dir_fd=current)
                    made.append(position)
                except FileExistsError:
                    pass  # somebody else made it; opening decides
                following = open_beneath(current, part, _O_PATH | DIRECTORY)
            os.close(current)
            current = following
        result, current = current, -1
        return result, made
    finally:
        if current >= 0:
            os.close(current)


def reopen(descriptor: int, directory: int, path: str, flags: int) -> int:
    """Open for reading what an O_PATH descriptor stands for, after its kind was checked.

    Opening by name first would already act on a device or block on a FIFO.
    """
    if _O_PATH == os.O_RDONLY:
        return os.dup(descriptor)
    try:
        return os.open(f"/proc/self/fd/{descriptor}", _base(flags))
    except FileNotFoundError:  # no /proc here: open again and compare
        again = open_beneath(directory, path, flags | getattr(os, "O_NONBLOCK", 0))
        if not os.path.samestat(os.fstat(again), os.fstat(descriptor)):
            os.close(again)
            raise OSError(errno.ELOOP, "changed while it was opened", path) from None
        return again
