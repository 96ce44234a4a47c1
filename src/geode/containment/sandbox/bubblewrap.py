"""Bubblewrap: namespaces, an own mount view, no capabilities, a system call filter.

An ordinary user runs it directly. As root it is never run as root: the host paths are
staged (see `stage.py`) and bubblewrap is started as a user id that owns nothing, by the
very same unprivileged route. Everything it is told goes through a memory file, not the
command line and not its environment: `LD_PRELOAD` from a request must not reach a program
that runs outside.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import random
import resource
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from ...core.errors import SandboxUnavailable
from ...core.ports import Limits, ProcessSpec
from . import placeholders, seccomp, stage
from .base import Running, Streams, byte_file
from .etc import IGNORED, prepare_etc
from .process import Status, Tree
from .scan import TreeScan
from .spawner import spawn
from .tripwires import Tripwires
from .view import EXTRA_BIN, HOME, RESERVED_FILES, View, base_environment, build_view, python_places, within

__all__ = ["Bubblewrap"]

_UID = 1000  # inside; whoever it is outside
_TMP_BYTES = 1024 * 1024 * 1024
_SHM_BYTES = 256 * 1024 * 1024
_STAGES = 16
_TRUSTED = "/usr/bin:/bin:/usr/local/bin:/usr/sbin:/sbin"
_ETC = {
    "passwd": f"root:x:0:0:root:/nonexistent:/usr/sbin/nologin\nuser:x:{_UID}:{_UID}:user:{HOME}:/bin/sh\n".encode(),
    "group": f"root:x:0:\nuser:x:{_UID}:\n".encode(),
    "hosts": b"127.0.0.1 localhost sandbox\n::1 localhost\n",
    "resolv.conf": b"",
    IGNORED: "".join(f"/{name}\n" for name in RESERVED_FILES).encode(),
}
_INSTALL = (
    "Install bubblewrap 0.8 or newer (Debian, Ubuntu: apt-get install bubblewrap; Fedora: dnf install bubblewrap)."
)
_NAMESPACES = (
    "Allow unprivileged user namespaces (sysctl kernel.unprivileged_userns_clone=1; on Ubuntu 24.04 and newer "
    "kernel.apparmor_restrict_unprivileged_userns=0 or an AppArmor profile for bwrap; in a container "
    "--security-opt seccomp=unconfined)."
)


def _find(tool: str) -> str:
    path = shutil.which(tool, path=_TRUSTED)
    if path is None:
        package = "coreutils" if tool == "cat" else "util-linux"
        raise SandboxUnavailable(f"{tool} is missing, which running as root needs", fix=f"Install {package}.")
    return path


_cleaner = ThreadPoolExecutor(max_workers=1, thread_name_prefix="geode-cleaner")


@dataclass(slots=True)
class _Prepared:
    argv: list[str]
    keep: list[int]
    held: placeholders.Held
    notices: list[str]
    tripwires: Tripwires
    slot: int = -1


class Bubblewrap:
    """The backend of Linux.

    Args:
        geode_home: never visible inside.
        home: the person's home, for refusing to make it writable as a whole.
    """

    def __init__(self, *, geode_home: Path, home: Path | None = None) -> None:
        self._geode_home = Path(os.path.realpath(geode_home))
        self._home = Path(os.path.realpath(home or Path.home()))
        self._scan = TreeScan(self._home, python_places())
        self._program = shutil.which("bwrap", path=_TRUSTED) or ""
        self._root = os.geteuid() == 0
        self._lock = threading.Lock()
        self._first_user = random.SystemRandom().randrange(1_880_000_000, 2_140_000_000)
        self._etc: Path | None = None
        self._busy: set[int] = set()
        self._maps: dict[tuple[int, int, int], int] = {}
        self._stages: dict[tuple[object, ...], stage.Stage] = {}
        self.notices: tuple[str, ...] = ()
        if seccomp.table_for() is None:
            self.notices += (f"no system call filter for {os.uname().machine}; namespaces and mounts contain alone",)

    @property
    def name(self) -> str:
        """`bubblewrap`, or `bubblewrap+uid` when it runs as a user id of its own."""
        return "bubblewrap+uid" if self._root else "bubblewrap"

    # ------------------------------------------------------------ trying

    def check(self) -> None:
        """See `Backend.check`."""
        if not self._program:
            raise SandboxUnavailable("bubblewrap (bwrap) is not installed, and nothing is run without a sandbox",
                                     fix=_INSTALL)  # fmt: skip
        for tool in ("nsenter", "unshare", "prlimit", "cat") if self._root else ():
            _find(tool)
        spec = ProcessSpec(argv=("/bin/sh", "-c", "exit 23"), cwd=Path("/"))
        try:
            prepared = self._prepare(spec, status=-1, block=-1)
        except OSError as error:
            fix = (
                "Run Geode as an ordinary user, or give it CAP_SYS_ADMIN and Linux 5.12 or newer." if self._root else ""
            )
            raise SandboxUnavailable(f"the sandbox cannot be prepared: {error.strerror or error}", fix=fix) from error
        try:
            done = subprocess.run(
                prepared.argv, pass_fds=prepared.keep, stdin=subprocess.DEVNULL, capture_output=True, timeout=20,
                check=False, cwd="/", env={"PATH": _TRUSTED},
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            raise SandboxUnavailable(f"bubblewrap does not start: {error}", fix=_INSTALL) from error
        finally:
            self._release(prepared)
        if done.returncode != 23:
            reason = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:] or [f"exit {done.returncode}"]
            fix = _INSTALL if "nknown option" in reason[0] else _NAMESPACES
            raise SandboxUnavailable(f"bubblewrap does not work here: {reason[0]}", fix=fix)

    # ------------------------------------------------------------ starting

    async def start(self, spec: ProcessSpec, streams: Streams) -> Running:
        """See `Backend.start`."""
        if not self._program:
            self.check()
        status_read, status_write = os.pipe2(os.O_CLOEXEC)
        block_read, block_write = os.pipe2(os.O_CLOEXEC)
        prepared: _Prepared | None = None
        try:
            prepared = await asyncio.to_thread(self._prepare, spec, status_write, block_read)
            process = await asyncio.wrap_future(
                spawn(prepared.argv, (streams.stdin, streams.stdout, streams.stderr), tuple(prepared.keep))
            )
        except BaseException as error:
            os.close(status_read)
            os.close(block_write)
            if prepared is not None:
                self._release(prepared)
            if isinstance(error, OSError):
                raise SandboxUnavailable(f"the sandbox cannot be started: {error.strerror or error}",
                                         fix="geode doctor shows what is missing.") from error  # fmt: skip
            raise
        finally:
            os.close(status_write)
            os.close(block_read)
        for descriptor in prepared.keep:
            if descriptor not in (status_write, block_read):
                os.close(descriptor)
        prepared.keep.clear()
        _prefer_to_kill(process.pid)
        tree = Tree(process, Status(status_read), functools.partial(self._release, prepared), prepared.notices)
        try:
            await tree.begin(_nothing if self._root else functools.partial(_apply, spec.limits), block_write)
        finally:
            os.close(block_write)
        return tree

    def _view(self, spec: ProcessSpec) -> View:
        if self._etc is None or not self._etc.is_dir():
            self._etc = prepare_etc(self._geode_home, _ETC)
        return build_view(spec, etc=self._etc, geode_home=self._geode_home, home=self._home, scan=self._scan)

    def _prepare(self, spec: ProcessSpec, status: int, block: int) -> _Prepared:
        view = self._view(spec)
        cwd = Path(os.path.realpath(spec.cwd))
        if not view.shows(cwd) and str(cwd) not in ("/", "/tmp"):  # noqa: S108  the private one
            cwd = Path(HOME)  # nothing of the asked one may be seen: start in an empty place
        held = placeholders.hold(view.guards)
        prepared = _Prepared([], [], held, list(view.notices), Tripwires(view.tripwires))
        try:
            prefix: list[str] = []
            places: dict[Path, Path] = {}
            if self._root:
                entry, places, view = self._stage(view, prepared)
                prefix = [_find("prlimit"), *_limit_words(spec.limits), *entry]
            arguments = self._arguments(spec, view, places, cwd, prepared, status, block)
            script = byte_file("geode-bwrap", os.fsencode("".join(f"{word}\0" for word in arguments)))
            prepared.keep.append(script)
            prepared.argv = [*prefix, self._program, "--args", str(script), "--", *spec.argv]
            prepared.keep += [descriptor for descriptor in (status, block) if descriptor >= 0]
        except BaseException:
            self._release(prepared)
            raise
        return prepared

    def _release(self, prepared: _Prepared) -> None:
        prepared.notices += prepared.tripwires.undo()
        # Removing a directory can take milliseconds, and nobody has to wait for it. The interpreter waits
        # for these threads before it ends.
        _cleaner.submit(prepared.held.release)
        with self._lock:
            self._busy.discard(prepared.slot)
        # The pipes handed to us are the caller's; the memory files are ours.
        for descriptor in prepared.keep:
            with contextlib.suppress(OSError):
                if "memfd:" in os.readlink(f"/proc/self/fd/{descriptor}"):
                    os.close(descriptor)
        prepared.keep.clear()

    # ------------------------------------------------------------ as root

    def _stage(self, view: View, prepared: _Prepared) -> tuple[list[str], dict[Path, Path], View]:
        """The command that enters a namespace where `view`'s host paths belong to a user of our own."""
        with self._lock:
            slot = next(number for number in range(65536) if number not in self._busy)
            self._busy.add(slot)
            prepared.slot = slot
            user = self._first_user + slot
            sources = _sources(view)
            key = (user, *((s.path, s.writable, *_identity(s.path)) for s in sources))
            staged = self._stages.get(key)
            if staged is None:
                staged = stage.prepare([(source, self._map(source.path, user)) for source in sources])
                while len(self._stages) >= _STAGES:
                    self._stages.pop(next(iter(self._stages))).close()
                self._stages[key] = staged
        lost = [bind.path for bind in view.binds if bind.writable and _covering(bind.path, staged.unmapped)]
        if lost:
            prepared.notices += [f"{path} is read-only: its file system has no idmapped mounts" for path in lost]
            view.binds = [replace(b, writable=False) if b.path in lost else b for b in view.binds]
        entry = f"--mount=/proc/{os.getpid()}/fd/{staged.namespace}"
        return [_find("nsenter"), entry, f"--setuid={user}", f"--setgid={user}", "--"], staged.places, view

    def _map(self, path: Path, user: int) -> int:
        status = path.stat()
        key = (status.st_uid, status.st_gid, user)
        if key not in self._maps:
            self._maps[key] = stage.owner_map(_find("unshare"), _find("cat"), *key)
        return self._maps[key]

    # ------------------------------------------------------------ arguments

    def _arguments(
        self, spec: ProcessSpec, view: View, places: dict[Path, Path], cwd: Path, prepared: _Prepared, status: int,
        block: int,
    ) -> list[str]:  # fmt: skip
        def data(name: str, content: bytes) -> str:
            descriptor = byte_file(name, content)
            prepared.keep.append(descriptor)
            return str(descriptor)

        words = ["--unshare-all", "--unshare-user", "--disable-userns", "--uid", str(_UID), "--gid", str(_UID)]
        words += ["--hostname", "sandbox", "--die-with-parent", "--new-session", "--cap-drop", "ALL", "--clearenv"]
        if spec.network:
            words.append("--share-net")
        environment = base_environment()
        if any(not guard.folder and guard.path not in prepared.held.own for guard in view.guards):
            environment["GIT_CONFIG_VALUE_1"] = f"/etc/{IGNORED}"  # `git add -A` would stumble over the placeholder
        for key, value in {**environment, **spec.env}.items():
            words += ["--setenv", key, value]
        for target, name in view.links:
            words += ["--symlink", target, name]
        words += ["--proc", "/proc", "--dev", "/dev", "--size", str(_SHM_BYTES), "--tmpfs", "/dev/shm"]  # noqa: S108
        words += ["--size", str(_TMP_BYTES), "--tmpfs", "/tmp", "--size", str(_TMP_BYTES), "--tmpfs", HOME]  # noqa: S108
        words += ["--symlink", sys.executable, f"{EXTRA_BIN}/python", "--symlink", "/tmp", "/var/tmp"]  # noqa: S108
        for bind in view.binds:
            source = _translated(bind.source or bind.path, places) if bind.foreign else bind.source or bind.path
            words += ["--bind" if bind.writable else "--ro-bind" + "-try" * bind.optional, str(source), str(bind.path)]
        for guard in view.guards:
            if guard.folder or guard.path in prepared.held.own:
                words += ["--ro-bind", str(_translated(guard.path, places)), str(guard.path)]
            else:
                words += ["--ro-bind", "/dev/null", str(guard.path)]
        if spec.network:
            for name in ("hosts", "resolv.conf"):
                words += ["--ro-bind-data", data(name, _read(f"/etc/{name}")), f"/etc/{name}"]
        for mask in view.masks:
            if mask.is_dir():
                words += ["--perms", "0000", "--tmpfs", str(mask), "--remount-ro", str(mask)]
            else:
                # A regular file that nobody may open: git then reports it instead of taking it for deleted.
                words += ["--perms", "0000", "--ro-bind-data", data("mask", b""), str(mask)]
        words += ["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", str(cwd)]
        program = seccomp.filter_program(network=spec.network)
        if program is not None:
            words += ["--seccomp", data("seccomp", program)]
        if status >= 0:
            words += ["--json-status-fd", str(status), "--block-fd", str(block)]
        return words


def _nothing(_pid: int) -> None:
    """As root the limits are set on the way in."""


def _identity(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_dev, status.st_ino


def _sources(view: View) -> list[stage.Source]:
    """The outermost foreign host paths; what lies in them is reached through them."""
    found: dict[Path, bool] = {}
    for bind in view.binds:
        if bind.foreign:
            path = bind.source or bind.path
            found[path] = found.get(path, False) or bind.writable
    tops = [p for p in found if not any(p != o and within(p, o) and found[o] >= found[p] for o in found)]
    return [stage.Source(path, found[path]) for path in sorted(tops)]


def _covering(path: Path, tops: Iterable[Path]) -> bool:
    return any(within(path, top) for top in tops)


def _translated(path: Path, places: dict[Path, Path]) -> Path:
    """Where a host path is found in the staged namespace (longest match); itself when nothing is staged."""
    best = max((top for top in places if within(path, top)), key=lambda top: len(top.parts), default=None)
    return path if best is None else places[best] / path.relative_to(best)


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()[:65536]
    except OSError:
        return b""


def _prefer_to_kill(pid: int) -> None:
    """When memory runs out, the kernel takes the sandbox first."""
    with contextlib.suppress(OSError):
        Path(f"/proc/{pid}/oom_score_adj").write_text("1000", encoding="ascii")


def _wanted(limits: Limits) -> dict[int, int]:
    """Limits by resource; those that would keep bubblewrap itself from working have a floor."""
    wanted = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_CPU: limits.cpu_seconds,
        # What a process can write to, not its address space: WebAssembly and the JVM reserve far more than they use.
        resource.RLIMIT_DATA: None if limits.memory_bytes is None else max(limits.memory_bytes, 32 * 1024 * 1024),
        resource.RLIMIT_NPROC: None if limits.processes is None else max(limits.processes, 1),
        resource.RLIMIT_FSIZE: None if limits.file_bytes is None else max(limits.file_bytes, 4096),
        resource.RLIMIT_NOFILE: None if limits.open_files is None else max(limits.open_files, 16),
    }
    return {kind: value for kind, value in wanted.items() if value is not None}


def _apply(limits: Limits, pid: int) -> None:
    """Set the limits on the first process of the sandbox, which waits; all others inherit them.

    It is already in its user namespace, so processes are counted there: for this tree alone.
    Set earlier, the limit would count everything the person runs.
    """
    for kind, value in _wanted(limits).items():
        hard = resource.prlimit(pid, kind)[1]
        resource.prlimit(pid, kind, _pair(kind, value, hard))


def _pair(kind: int, value: int, hard: int) -> tuple[int, int]:
    """Soft and hard limit within the hard limit there is. CPU time gets a second to end by SIGXCPU, not SIGKILL."""
    ceiling = sys.maxsize if hard == resource.RLIM_INFINITY else hard
    return min(value, ceiling), min(value + (kind == resource.RLIMIT_CPU), ceiling)


def _limit_words(limits: Limits) -> list[str]:
    """The same for util-linux's prlimit. As root the user id is the sandbox's own, so the limit may be set before
    it enters a user namespace; afterwards it would take CAP_SYS_RESOURCE, which containers do not give."""
    names = {resource.RLIMIT_CORE: "core", resource.RLIMIT_CPU: "cpu", resource.RLIMIT_DATA: "data",
             resource.RLIMIT_NPROC: "nproc", resource.RLIMIT_FSIZE: "fsize",
             resource.RLIMIT_NOFILE: "nofile"}  # fmt: skip
    words: list[str] = []
    for kind, value in _wanted(limits).items():
        # bubblewrap's own two processes count as the same user
        asked = value + 2 * (kind == resource.RLIMIT_NPROC)
        soft, hard = _pair(kind, asked, resource.getrlimit(kind)[1])
        words.append(f"--{names[kind]}={soft}:{hard}")
    return words
