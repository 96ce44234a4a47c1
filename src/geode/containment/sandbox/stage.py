"""As root: show host directories to a user id that owns nothing.

A private mount namespace is made in which every directory of the request is mounted a
second time, with its owner on disk mapped to the sandbox's user id (an idmapped mount).
The sandbox is then started in that namespace as that user, by the same unprivileged route
as for any other user. Inside, files seem to be its own; on disk they keep the owner they
had; every other file of the machine belongs to somebody else.

The namespace lives as long as the descriptor that is held here, so nothing is left when
Geode dies. Where a file system cannot be mapped, the directory is mounted read-only.

Sources: mount_setattr(2), open_tree(2), move_mount(2); linux/mount.h.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import subprocess
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

__all__ = ["STAGE", "Source", "Stage", "owner_map", "prepare"]

STAGE = "/run"
"""Where the second mounts appear: a tmpfs over /run, in the private namespace only."""

_OPEN_TREE, _MOVE_MOUNT, _MOUNT_SETATTR = 428, 429, 442
_AT_FDCWD = -100
_AT_EMPTY_PATH, _AT_RECURSIVE, _OPEN_TREE_CLONE = 0x1000, 0x8000, 1
_MOVE_MOUNT_F_EMPTY_PATH = 4
_ATTR_RDONLY, _ATTR_NOSUID, _ATTR_NODEV, _ATTR_IDMAP = 0x1, 0x2, 0x4, 0x00100000
_MS_REC, _MS_SLAVE, _MS_NOSUID, _MS_NODEV = 0x4000, 0x80000, 0x2, 0x4
_CLONE_NEWNS = 0x00020000


class _MountAttr(ctypes.Structure):
    _fields_ = (
        ("attr_set", ctypes.c_uint64),
        ("attr_clr", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("userns_fd", ctypes.c_uint64),
    )


@dataclass(frozen=True, slots=True)
class Source:
    """A host path to show; `writable` ones must be mapped to be writable."""

    path: Path
    writable: bool


@dataclass(slots=True)
class Stage:
    """A prepared mount namespace.

    Attributes:
        namespace: descriptor that keeps it alive.
        places: host path -> where it appears inside.
        unmapped: host paths whose file system cannot be mapped; they are read-only.
    """

    namespace: int
    places: dict[Path, Path]
    unmapped: frozenset[Path]

    def close(self) -> None:
        """Let the namespace go; running processes keep it as long as they need it."""
        if self.namespace >= 0:
            os.close(self.namespace)
            self.namespace = -1


def _library() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _call(function: Callable[..., int], *arguments: object) -> int:
    result = function(*arguments)
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def owner_map(unshare: str, cat: str, owner: int, group: int, user: int) -> int:
    """A user namespace that maps the owner on disk to the sandbox's user id.

    Args:
        unshare, cat: paths of the programs: the environment's PATH may lead anywhere, or nowhere.
        owner, group: ids on disk.
        user: id (user and group) in the sandbox.

    Returns:
        Its descriptor, which keeps it alive.

    Raises:
        OSError: user namespaces are not to be had.
    """
    words = [unshare, "--user", cat]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={}
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(b"x")
            process.stdin.flush()
            if process.stdout.read(1) != b"x":  # it answers once it is in its namespace
                raise OSError(errno.EPERM, "no user namespace could be made")
            for name, host in (("uid_map", owner), ("gid_map", group)):
                Path(f"/proc/{process.pid}/{name}").write_text(f"{host} {user} 1", encoding="ascii")
            return os.open(f"/proc/{process.pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
        finally:
            process.stdin.close()


def _clone(syscall: Callable[..., int], source: Source, mapping: int) -> tuple[int, bool]:
    """A detached mount of `source` and whether its owner is mapped."""
    for flags in (_AT_RECURSIVE, 0):
        for mapped in (True, False):
            tree = _call(
                syscall, _OPEN_TREE, _AT_FDCWD, os.fsencode(source.path), _OPEN_TREE_CLONE | os.O_CLOEXEC | flags
            )
            wanted = _ATTR_NOSUID | _ATTR_NODEV
            wanted |= _ATTR_IDMAP if mapped else _ATTR_RDONLY
            if not source.writable:
                wanted |= _ATTR_RDONLY
            attributes = _MountAttr(wanted, 0, 0, mapping if mapped else 0)
            try:
                _call(syscall, _MOUNT_SETATTR, tree, b"", _AT_EMPTY_PATH | flags, ctypes.byref(attributes),
                      ctypes.sizeof(attributes))  # fmt: skip
            except OSError as error:
                os.close(tree)
                if error.errno not in (errno.EINVAL, errno.EPERM, errno.EOPNOTSUPP, errno.EBUSY):
                    raise
                continue
            return tree, mapped
    raise OSError(errno.EINVAL, "cannot be mounted a second time", str(source.path))


def _build(sources: list[tuple[Source, int]]) -> Stage:
    """Runs in a thread of its own, which leaves the machine's mount namespace for good."""
    libc = _library()
    _call(libc.unshare, _CLONE_NEWNS)
    _call(libc.mount, None, b"/", None, ctypes.c_ulong(_MS_REC | _MS_SLAVE), None)
    places: dict[Path, Path] = {}
    unmapped: set[Path] = set()
    trees: list[tuple[int, Path, bool]] = []
    try:
        for source, mapping in sources:
            tree, mapped = _clone(libc.syscall, source, mapping)
            trees.append((tree, source.path, stat.S_ISDIR(source.path.stat().st_mode)))
            if not mapped:
                unmapped.add(source.path)
        _call(
            libc.mount, b"tmpfs", STAGE.encode(), b"tmpfs", ctypes.c_ulong(_MS_NOSUID | _MS_NODEV), b"mode=0755,size=1m"
        )
        for number, (tree, path, directory) in enumerate(trees):
            place = Path(STAGE, str(number))
            if directory:
                place.mkdir(mode=0o755)
            else:
                place.touch(mode=0o644)
            _call(libc.syscall, _MOVE_MOUNT, tree, b"", _AT_FDCWD, os.fsencode(place), _MOVE_MOUNT_F_EMPTY_PATH)
            places[path] = place
    finally:
        for tree, _, _ in trees:
            os.close(tree)
    namespace = os.open("/proc/thread-self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    return Stage(namespace, places, frozenset(unmapped))


def prepare(sources: list[tuple[Source, int]]) -> Stage:
    """Build the namespace.

    Args:
        sources: each with the descriptor of the user namespace that maps its owner.

    Raises:
        OSError: not allowed here (no CAP_SYS_ADMIN), or too old a kernel.
    """
    outcome: list[Stage | BaseException] = []

    def work() -> None:
        try:
            outcome.append(_build(sources))
        except BaseException as error:
            outcome.append(error)

    thread = threading.Thread(target=work, name="geode-stage")
    thread.start()
    thread.join()
    result = outcome[0]
    if isinstance(result, BaseException):
        raise result
    return result
