"""Tries to break out of a backend and says what is open: `geode sandbox probe`."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...core.errors import SandboxUnavailable
from ...core.ports import Limits, ProcessOutcome, ProcessSpec
from .base import Backend
from .runner import SandboxRunner
from .view import HOME

__all__ = ["Probe", "run_probes"]

_INSIDE = Path(__file__).with_name("probe_inside.py")
_VARIABLE = "GEODE_PROBE_SECRET"


@dataclass(frozen=True, slots=True)
class Probe:
    """One attempt. `open` is True when it got through."""

    name: str
    open: bool


async def run_probes(backend: Backend, *, home: Path | None = None) -> list[Probe]:
    """Run every attempt; takes some seconds.

    Args:
        backend: what to test.
        home: the person's home; must stay invisible.

    Returns:
        One probe per attempt, those run inside first, then the quotas.

    Raises:
        SandboxUnavailable: the backend does not start, or its attempts do not run.
    """
    with tempfile.TemporaryDirectory(prefix="geode-probe-") as name:
        ground = Path(name)
        runner = SandboxRunner(backend=backend, home=ground / "geode-home")
        with _prepared(ground, home or Path.home()) as settings:
            probes = await _inside(runner, settings)
            probes += await _quotas(runner, Path(settings["workspace"]))
            probes += await _with_network(runner, settings)
            probes += await _afterwards(settings)
    return probes


# ---------------------------------------------------------------- what there is to reach


@contextlib.contextmanager
def _prepared(ground: Path, home: Path) -> Iterator[dict[str, Any]]:
    """A workspace, and outside of it files, listeners and a process that must stay out of reach."""
    marker = "geode-probe-" + secrets.token_hex(8)
    ground.mkdir(exist_ok=True)
    ground.chmod(0o755)
    workspace, outside, geode_home = ground / "workspace", ground / "outside", ground / "geode-home"
    for folder in (workspace / ".git" / "hooks", workspace / "nested" / ".git", outside, geode_home):
        folder.mkdir(parents=True)
    for path in (outside / "canary", geode_home / "canary", workspace / ".env", workspace / ".git" / "config",
                 workspace / "nested" / ".git" / "config"):  # fmt: skip
        path.write_text("canary\n", encoding="ascii")
    shm = Path("/dev/shm", marker)  # noqa: S108  a name to look for, with random letters
    shm.write_text("canary\n", encoding="ascii")
    os.environ[_VARIABLE] = marker
    bystander = subprocess.Popen([sys.executable, "-I", "-S", "-c", "import time; time.sleep(600)", marker])
    try:
        with _listeners(outside, marker) as ports:
            yield {
                "workspace": str(workspace), "outside": str(outside), "geode_home": str(geode_home), "home": str(home),
                "prefix": sys.prefix, "package": str(Path(__file__).parents[2]), "shm": str(shm), "marker": marker,
                "host_pid": bystander.pid, "variable": _VARIABLE, "abstract": marker, "bystander": bystander, **ports,
            }  # fmt: skip
    finally:
        bystander.kill()
        bystander.wait()
        os.environ.pop(_VARIABLE, None)
        shm.unlink(missing_ok=True)


@contextlib.contextmanager
def _listeners(outside: Path, marker: str) -> Iterator[dict[str, Any]]:
    with contextlib.ExitStack() as stack:

        def listen(family: int, address: Any) -> socket.socket:
            listener = stack.enter_context(socket.socket(family, socket.SOCK_STREAM))
            listener.bind(address)
            listener.listen(8)
            return listener

        udp = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        udp.bind(("127.0.0.1", 0))
        stopped = threading.Event()
        stack.callback(stopped.set)
        threading.Thread(target=_echo, args=(udp, stopped), daemon=True).start()
        listen(socket.AF_UNIX, "\0" + marker)
        listen(socket.AF_UNIX, str(outside / "socket"))
        (outside / "socket").chmod(0o777)
        tcp6 = 0
        with contextlib.suppress(OSError):
            tcp6 = listen(socket.AF_INET6, ("::1", 0)).getsockname()[1]
        yield {
            "tcp": listen(socket.AF_INET, ("127.0.0.1", 0)).getsockname()[1],
            "tcp_any": listen(socket.AF_INET, ("0.0.0.0", 0)).getsockname()[1],  # noqa: S104  for some seconds
            "tcp6": tcp6,
            "udp": udp.getsockname()[1],
            "addresses": _addresses(),
        }


def _echo(udp: socket.socket, stopped: threading.Event) -> None:
    udp.settimeout(0.2)
    while not stopped.is_set():
        with contextlib.suppress(OSError):
            _data, sender = udp.recvfrom(16)
            udp.sendto(b"pong", sender)


def _addresses() -> list[str]:
    with contextlib.suppress(OSError):
        return sorted({str(entry[4][0]) for entry in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)})
    return []


# ---------------------------------------------------------------- attempts


def _sent(settings: dict[str, Any]) -> bytes:
    return json.dumps({key: value for key, value in settings.items() if key != "bystander"}).encode()


async def _inside(runner: SandboxRunner, settings: dict[str, Any]) -> list[Probe]:
    workspace = Path(settings["workspace"])
    argv = (sys.executable, "-I", "-S", str(_INSIDE))
    spec = ProcessSpec(
        argv=argv, cwd=workspace, stdin=_sent(settings), writable=(workspace,), limits=Limits(seconds=120)
    )
    outcome = await runner.run(spec)
    probes: list[Probe] = []
    for line in outcome.stdout.text.splitlines():
        with contextlib.suppress(ValueError, KeyError):
            answer = json.loads(line)
            probes.append(Probe(answer["name"], bool(answer["open"])))
    if outcome.exit_code != 0 or len(probes) < 50:
        raise SandboxUnavailable(f"the probes did not run to their end: {outcome.stderr.text[-500:]}",
                                 fix="geode doctor tells more.")  # fmt: skip
    return probes


_COUNT = """
import os, threading, time
n = 0
try:
    while n < 400:
        {step}
        n += 1
except (OSError, RuntimeError):
    pass
print(n, flush=True)
os._exit(0)
"""
_FORK = _COUNT.format(step="os.fork() or (time.sleep(5), os._exit(0))")
_THREADS = _COUNT.format(step="threading.Thread(target=time.sleep, args=(5,), daemon=True).start()")
_FILES = _COUNT.format(step="os.open('/dev/null', 0)")
_MEMORY = "b=bytearray(600*1024*1024); print('got')"
_SHARED = (
    "import mmap,time\nm=mmap.mmap(-1,600<<20)\nfor _ in range(600): m.write(b'x'*(1<<20))\ntime.sleep(3); print('got')"
)
_FILE = "f=open('big','wb')\nfor _ in range(64): f.write(b'x'*(1<<20))\nf.flush(); print('got')"
_FILL = "import os; os.posix_fallocate(os.open('{}/big',os.O_CREAT|os.O_WRONLY),0,3<<30); print('got')"
_CPU = "import time\nend=time.time()+6\nwhile time.time()<end: pass\nprint('got')"
_FLOOD = "import sys\nwhile True: sys.stdout.write('y'*65536)"
_DEAF = "import signal,time\nsignal.signal(signal.SIGTERM,signal.SIG_IGN)\ntime.sleep(30)"
_LIMITS = Limits(seconds=10, cpu_seconds=1, memory_bytes=400 * 1024 * 1024, processes=60, file_bytes=8 * 1024 * 1024,
                 open_files=64, output_bytes=1024 * 1024)  # fmt: skip


async def _quotas(runner: SandboxRunner, workspace: Path) -> list[Probe]:
    async def run(code: str, limits: Limits = _LIMITS) -> ProcessOutcome:
        argv = (sys.executable, "-I", "-S", "-c", code)
        return await runner.run(ProcessSpec(argv=argv, cwd=workspace, writable=(workspace,), limits=limits))

    async def got(name: str, code: str, limits: Limits = _LIMITS) -> Probe:
        return Probe(name, "got" in (await run(code, limits)).stdout.text)

    async def above(name: str, code: str, most: int) -> Probe:
        said = (await run(code)).stdout.text.split()
        return Probe(name, not said or not said[0].isdigit() or int(said[0]) > most)

    flood, deaf = await run(_FLOOD), await run(_DEAF, Limits(seconds=0.5))
    return [
        await above("fork without end", _FORK, 60),
        await above("start threads without end", _THREADS, 60),
        await above("open files without end", _FILES, 64),
        await got("take memory without end", _MEMORY),
        await got("take shared memory without end", _SHARED),
        await got("write a file without end", _FILE),
        await got("fill the private /tmp", _FILL.format("/tmp"), Limits(seconds=10)),  # noqa: S108  the private one
        await got("fill the private home", _FILL.format(HOME), Limits(seconds=10)),
        await got("fill the shared memory file system", _FILL.format("/dev/shm"), Limits(seconds=10)),  # noqa: S108
        await got("compute without end", _CPU),
        Probe("print without end", flood.stopped != "output_limit" or flood.stdout.total_bytes > 1024 * 1024),
        Probe("run past the time limit by ignoring signals", deaf.stopped != "timeout" or deaf.duration_ms > 3000),
        await _user(runner, workspace),
    ]


def _owners(marker: str) -> set[int]:
    """User ids, as the machine sees them, of Python processes with this argument."""
    found: set[int] = set()
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            words = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdigit() else []
            if words[:1] == [os.fsencode(sys.executable)] and marker.encode() in words:
                found.add(entry.stat().st_uid)
    return found


async def _user(runner: SandboxRunner, workspace: Path) -> Probe:
    """Whose user id a process has for the rest of the machine."""
    marker = secrets.token_hex(12)
    argv = (sys.executable, "-I", "-S", "-c", "import time; time.sleep(0.6)", marker)
    running = asyncio.ensure_future(runner.run(ProcessSpec(argv=argv, cwd=workspace, writable=(workspace,))))
    found: set[int] = set()
    while not running.done():
        await asyncio.sleep(0.1)
        found |= _owners(marker)
    await running
    return Probe("be root for the rest of the machine", not found or 0 in found)


async def _with_network(runner: SandboxRunner, settings: dict[str, Any]) -> list[Probe]:
    """Where the network is allowed, the host's Unix sockets and packets still are not."""
    code = (
        "import socket,sys\n"
        "def t(f,k,p,a):\n"
        "  try:\n    s=socket.socket(f,k,p)\n    a and s.connect(a)\n    return 1\n  except OSError: return 0\n"
        f"print(t(socket.AF_UNIX,1,0,'\\0{settings['abstract']}'),t(17,3,0,None),t(16,3,9,None))"
    )
    workspace = Path(settings["workspace"])
    argv = (sys.executable, "-I", "-S", "-c", code)
    outcome = await runner.run(ProcessSpec(argv=argv, cwd=workspace, writable=(workspace,), network=True))
    got = [*outcome.stdout.text.split(), "1", "1", "1"]
    names = ("connect to an abstract Unix socket", "open a packet socket", "open an audit netlink socket")
    return [Probe(f"{name}, network allowed", got[place] != "0") for place, name in enumerate(names)]


async def _afterwards(settings: dict[str, Any]) -> list[Probe]:
    """What is seen from outside when everything has ended."""
    await asyncio.sleep(1.2)  # longer than the one that tries to outlive its sandbox sleeps
    return await asyncio.to_thread(_left, settings)


def _left(settings: dict[str, Any]) -> list[Probe]:
    workspace, outside = Path(settings["workspace"]), Path(settings["outside"])
    written = [name for name in ("written", "through") if (outside / name).exists()]
    steering = [name for name in (".geode", ".claude", ".mcp.json") if (workspace / name).exists()]
    setid = [path for path in workspace.rglob("*") if not path.is_symlink() and path.stat().st_mode & 0o6000]
    return [
        Probe("leave a file outside", bool(written)),
        Probe("leave files that steer other programs", bool(steering)),
        Probe("leave a set-user-ID file", bool(setid)),
        Probe("leave a file that redirects git", (workspace / ".git" / "commondir").exists()),
        Probe("outlive the first process", (workspace / "outlived").exists()),
        Probe("end a process of the host", settings["bystander"].poll() is not None),
    ]
