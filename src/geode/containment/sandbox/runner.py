"""Runs a process to its end, its limit or its cancellation, and returns what it said."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...config.home import default_home
from ...config.settings import SandboxSettings
from ...core.errors import SandboxUnavailable, ToolFailed
from ...core.ports import Captured, Limits, ProcessOutcome, ProcessSpec
from ..capture import Collector, sweep_spool
from .base import Backend, Running, Streams, byte_file
from .select import limits_of, select_backend

__all__ = ["SandboxRunner"]

_GRACE = 0.3  # seconds between the polite and the final signal
_WATCH = 0.4  # seconds between two looks at the memory of the tree
_MEMORY = "memory"  # a reason to stop that is reported as a signal and a hint
_CHUNK = 128 * 1024

_HINTS = (
    ("needed input", re.compile(
        r"EOFError: EOF when reading|terminal prompts disabled|could not read (?:Username|Password)"
        r"|a terminal is required|no tty present|not a tty|inappropriate ioctl for device"
        r"|password[^\n]{0,40}:\s*$|passphrase[^\n]{0,80}:\s*$"
        r"|\[y/n\]|\(yes/no|enter (?:password|passphrase)|stdin is not a (?:tty|terminal)", re.IGNORECASE)),
    ("blocked network", re.compile(
        r"temporary failure in name resolution|could not resolve|network is unreachable|name or service not known"
        r"|ENETUNREACH|EAI_AGAIN|ENOTFOUND|getaddrinfo|no address associated|nodename nor servname", re.IGNORECASE)),
    ("wrote outside the writable directories", re.compile(r"read-only file system|EROFS", re.IGNORECASE)),
    ("reached the memory limit", re.compile(
        r"MemoryError|cannot allocate memory|out of memory|bad_alloc", re.IGNORECASE)),
    ("reached the process limit", re.compile(
        r"cannot fork|fork: (?:retry: )?resource temporarily|can't start new thread", re.IGNORECASE)),
    ("reached the file size limit", re.compile(r"file (?:size limit exceeded|too large)|EFBIG", re.IGNORECASE)),
)  # fmt: skip
_EXEC_FAILED = re.compile(r"^bwrap: execvp (.*): (.+)$", re.MULTILINE)


@dataclass(slots=True)
class _Stop:
    """Why a run is being ended; the first reason counts."""

    reason: str = ""
    wake: asyncio.Event | None = None

    def now(self, reason: str) -> None:
        if not self.reason:
            self.reason = reason
            if self.wake is not None:
                self.wake.set()


class SandboxRunner:
    """`core.ports.ProcessRunner` over the backend that works here.

    The backend is looked for when the first process is run, so that nothing is paid before.

    Args:
        settings: `Settings.sandbox`; None takes the defaults.
        home: Geode's home, which no process may see; large outputs are spooled there.
        backend: a given backend instead of the one that is found.
        limits: the most a request gets, and what it gets when it asks for nothing; None: as the settings say.
    """

    def __init__(
        self,
        settings: SandboxSettings | None = None,
        *,
        home: Path | None = None,
        backend: Backend | None = None,
        limits: Limits | None = None,
    ) -> None:
        self._settings = settings or SandboxSettings()
        self._home = Path(home) if home is not None else default_home()
        self._backend = backend
        self._limits = limits or limits_of(self._settings)
        self._spool_dir = self._home / "spool"

    async def backend(self) -> Backend:
        """The backend, found on first use.

        Raises:
            SandboxUnavailable: none works here; says how to get one.
        """
        if self._backend is None:
            self._backend = await asyncio.to_thread(select_backend, self._settings, home=self._home)
            await asyncio.to_thread(sweep_spool, self._spool_dir)
        return self._backend

    async def run(self, spec: ProcessSpec) -> ProcessOutcome:
        """See `core.ports.ProcessRunner.run`."""
        if not spec.argv or any("\0" in word for word in (*spec.argv, *spec.env, *spec.env.values())):
            raise ToolFailed(
                "the command is empty or contains a NUL character", fix="Give a program and its arguments."
            )
        backend = await self.backend()
        spec = replace(spec, limits=self._bounded(spec.limits))
        stop = _Stop(wake=asyncio.Event())
        work = asyncio.ensure_future(self._run(backend, spec, stop))
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            stop.now("cancelled")
            while not work.done():
                try:
                    await asyncio.shield(work)
                except asyncio.CancelledError:
                    continue  # asked again while the tree is being ended, which takes milliseconds
                except (ToolFailed, SandboxUnavailable):
                    break
            if not work.cancelled() and work.exception() is None:
                for captured in (work.result().stdout, work.result().stderr):
                    if captured.spool is not None:
                        captured.spool.unlink(missing_ok=True)
            raise

    def _bounded(self, asked: Limits) -> Limits:
        def least(name: str) -> Any:
            values = [v for v in (getattr(asked, name), getattr(self._limits, name)) if v is not None]
            return min(values, default=None)

        names = ("cpu_seconds", "memory_bytes", "processes", "file_bytes", "open_files", "output_bytes")
        return replace(asked, **{name: least(name) for name in names})

    async def _run(self, backend: Backend, spec: ProcessSpec, stop: _Stop) -> ProcessOutcome:
        began = time.monotonic()
        out = Collector(self._spool_dir)
        err = out if spec.merge_stderr else Collector(self._spool_dir)
        pumps: list[_Pump] = []
        stdin = byte_file("stdin", spec.stdin) if spec.stdin is not None else os.open(os.devnull, os.O_RDONLY)
        running: Running | None = None
        try:
            budget = _Budget(spec.limits.output_bytes, stop)
            pumps = [_Pump(out, budget)] if spec.merge_stderr else [_Pump(out, budget), _Pump(err, budget)]
            try:
                running = await backend.start(spec, Streams(stdin, pumps[0].write_end, pumps[-1].write_end))
            finally:
                os.close(stdin)
                for pump in pumps:
                    pump.close_write_end()
            left = spec.limits.seconds - (time.monotonic() - began)
            code = await self._to_the_end(running, left, stop, spec.limits.memory_bytes)
            for pump in pumps:
                pump.drain()
        except BaseException:
            if running is not None:
                running.kill()
            out.discard()
            err.discard()
            raise
        finally:
            for pump in pumps:
                pump.close()
        return self._outcome(
            backend.name, spec, running, code, stop.reason, out, err, (time.monotonic() - began) * 1000
        )

    async def _to_the_end(self, running: Running, seconds: float, stop: _Stop, memory: int | None) -> int:
        """Wait for the tree; when it must stop, ask, then insist."""
        assert stop.wake is not None
        ended = asyncio.ensure_future(running.wait())
        woken = asyncio.ensure_future(stop.wake.wait())
        watcher = asyncio.ensure_future(_watch_memory(running, memory, stop)) if memory is not None else None
        try:
            await asyncio.wait({ended, woken}, timeout=max(seconds, 0.0), return_when=asyncio.FIRST_COMPLETED)
            if not ended.done():
                stop.now("timeout")
                if stop.reason == "timeout":
                    running.terminate()
                    await asyncio.wait({ended}, timeout=_GRACE)
                running.kill()
            return await ended
        except asyncio.CancelledError:  # the loop itself is being closed
            running.kill()
            raise
        finally:
            woken.cancel()
            if watcher is not None:
                watcher.cancel()

    def _outcome(
        self, backend: str, spec: ProcessSpec, running: Running, code: int, reason: str, out: Collector,
        err: Collector, took: float,
    ) -> ProcessOutcome:  # fmt: skip
        stdout = out.finish()
        stderr = stdout if spec.merge_stderr else err.finish()
        memory = reason == _MEMORY
        stopped, code = ("", 128 + signal.SIGKILL) if memory else (reason, code)
        if not stopped and not running.started and code <= 128:
            for captured in (stdout, stderr):
                if captured.spool is not None:
                    captured.spool.unlink(missing_ok=True)
            raise _not_started(stderr.text, code)
        name = _signal_name(code)
        exited = not stopped and not name
        hints = [line for line in running.notices if "set aside" in line]
        if not (exited and code == 0):
            hint = _hint(f"{stderr.text}\n{stdout.text}", name, spec.network)
            hints += ["reached the memory limit" if memory else hint, *running.notices]
        return ProcessOutcome(
            exit_code=code if exited else None,
            signal=name if not stopped else "",
            stdout=stdout,
            stderr=Captured() if spec.merge_stderr else stderr,
            stopped=stopped,
            duration_ms=took,
            backend=backend,
            hint="; ".join(dict.fromkeys(line for line in hints if line)),
        )


def _not_started(said: str, code: int) -> ToolFailed | SandboxUnavailable:
    """Why the program never ran, from what bubblewrap said."""
    missing = _EXEC_FAILED.search(said)
    if missing is not None:
        fix = "Check the program's name; only programs visible in the sandbox can run."
        return ToolFailed(f"{missing[1]} cannot be started: {missing[2]}", fix=fix)
    why = said.strip().splitlines()[-1:] or [f"exit {code}"]
    return SandboxUnavailable(f"the sandbox could not be set up: {why[0]}", fix="geode doctor tells more.")


async def _watch_memory(running: Running, limit: int, stop: _Stop) -> None:
    """End the tree when its processes together use more than one of them may."""
    pause = _WATCH / 4
    while True:
        await asyncio.sleep(pause)
        pause = min(pause * 2, _WATCH)
        if await asyncio.to_thread(running.memory, limit) > limit:
            stop.now(_MEMORY)


def _signal_name(code: int) -> str:
    if code <= 128:
        return ""
    try:
        return signal.Signals(code - 128).name
    except ValueError:
        return ""


def _hint(said: str, signal_name: str, network: bool) -> str:
    by_signal = {"SIGXCPU": "reached the CPU limit", "SIGXFSZ": "reached the file size limit",
                 "SIGSYS": "used a system call the sandbox forbids"}  # fmt: skip
    if signal_name in by_signal:
        return by_signal[signal_name]
    tail = said[-20_000:]
    for hint, pattern in _HINTS:
        if (hint != "blocked network" or not network) and pattern.search(tail):
            return hint
    return ""


class _Budget:
    """Bytes both streams together may write before the process is stopped."""

    def __init__(self, size: int, stop: _Stop) -> None:
        self.left = size
        self._stop = stop

    def take(self, size: int) -> int:
        """How many of `size` bytes may still be kept; stops the run when that is not all."""
        granted = min(size, self.left)
        self.left -= granted
        if granted < size:
            self._stop.now("output_limit")
        return granted


class _Pump:
    """Moves one pipe into a collector, as the loop finds it readable."""

    def __init__(self, collector: Collector, budget: _Budget) -> None:
        self._collector = collector
        self._budget = budget
        self._read_end, self.write_end = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self._read_end, False)
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._read_end, self._once)

    def _once(self) -> bool:
        try:
            data = os.read(self._read_end, _CHUNK)
        except BlockingIOError:
            return False
        if not data:
            self.close()
            return False
        granted = self._budget.take(len(data))
        self._collector.feed(data[:granted] if granted < len(data) else data)
        return True

    def drain(self) -> None:
        """Take what is left after every writer has gone."""
        while self._read_end >= 0 and self._budget.left > 0 and self._once():
            pass

    def close_write_end(self) -> None:
        if self.write_end >= 0:
            os.close(self.write_end)
            self.write_end = -1

    def close(self) -> None:
        self.close_write_end()
        if self._read_end >= 0:
            self._loop.remove_reader(self._read_end)
            os.close(self._read_end)
            self._read_end = -1
