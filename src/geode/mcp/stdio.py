"""Transport to a server process: JSON-RPC lines over pipes, and everything around them that goes wrong.

Against the SDK's own stdio transport it adds: banners and logs on stdout are set aside
instead of being errors (case R21), stderr is always read and its end kept (R66), the exit
code or signal is known (R26), nothing the server started survives (R03), one message has a
size limit. It also has no task and no queue between pipe and dispatcher.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core.errors import ServerUnavailable
from .lines import MessageLines
from .stream import MessageStream

if TYPE_CHECKING:
    from mcp.shared.message import SessionMessage

__all__ = ["ServerProcess", "base_environment", "open_process"]

MAX_MESSAGE = 64 * 1024 * 1024
"""Bytes of one message; a server that writes a longer line is cut off."""
STDERR_TAIL = 8 * 1024
NOISE_LINES = 40
LIST_CHANGED = "notifications/tools/list_changed"
_CHUNK = 256 * 1024
_STOP_AFTER_STDIN = 2.0
_STOP_AFTER_TERM = 2.5
_INHERITED = ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "TZ")
_INHERITED_WINDOWS = (
    "APPDATA", "COMSPEC", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATH", "PATHEXT", "PROCESSOR_ARCHITECTURE",
    "PROGRAMDATA", "PROGRAMFILES", "SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "USERNAME", "USERPROFILE",
)  # fmt: skip


def base_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The few variables every server gets; whatever else it needs, its entry names (least credentials, T32)."""
    names = _INHERITED_WINDOWS if sys.platform == "win32" else _INHERITED
    return {n: environ[n] for n in names if n in environ and not environ[n].startswith("()")}


class ServerProcess(MessageStream):
    """One running server. Made by `open_process`; also the read and write stream of the dispatcher.

    Attributes:
        pid: of the server itself (not of its guard); 0 until known.
        exit_code: when it ended by itself.
        signal: number of the signal that ended it, or 0.
        closed: set when nothing more can be read from it.
        noise: first lines on stdout that were not JSON-RPC.
        noise_count: how many such lines there were.
        on_list_changed: called the moment such a notice is read, before any later answer is.
    """

    def __init__(self, process: asyncio.subprocess.Process, lifeline: int) -> None:
        assert process.stdin and process.stdout and process.stderr
        self._process = process
        self._stdin, self._stdout, self._stderr = process.stdin, process.stdout, process.stderr
        self._lifeline = lifeline
        self._lines = MessageLines(self._note_noise)
        self._ready: deque[SessionMessage] = deque()
        self._tail = bytearray()
        self._drain = asyncio.Lock()
        self._tasks: list[asyncio.Task[None]] = []
        self._pipe: asyncio.BaseTransport | None = None
        self.pid = 0 if lifeline >= 0 else process.pid
        self.exit_code: int | None = None
        self.signal = 0
        self.failure = ""
        self.exited = asyncio.Event()
        self.closed = asyncio.Event()
        self.noise: deque[str] = deque(maxlen=NOISE_LINES)
        self.noise_count = 0
        self.on_list_changed: Callable[[], None] = lambda: None

    # ------------------------------------------------------------ what people are told

    @property
    def stderr_tail(self) -> str:
        """The last 8 KB the server wrote to stderr."""
        return self._tail.decode("utf-8", "replace").strip()

    def describe_end(self) -> str:
        """How it ended: "exited with code 3", "was ended by signal 9", "closed its output"."""
        if self.failure:
            return self.failure
        if self.signal:
            return f"was ended by signal {self.signal}"
        if self.exit_code is not None:
            return f"exited with code {self.exit_code}"
        return "closed its output"

    # ------------------------------------------------------------ read stream

    async def receive(self) -> SessionMessage:
        """The next message; lines that are none are set aside.

        Raises:
            anyio.EndOfStream: the server closed its output or ended.
        """
        from anyio import EndOfStream

        while not self._ready:
            chunk = await self._stdout.read(_CHUNK)
            self._take(self._lines.feed(chunk) if chunk else self._lines.end())
            if self._ready:
                break
            if self._lines.pending > MAX_MESSAGE:
                self.failure = f"wrote a line of more than {MAX_MESSAGE // 1024 // 1024} MB"
                chunk = b""
            if not chunk:
                self.closed.set()
                raise EndOfStream
        return self._ready.popleft()

    def _take(self, messages: list[SessionMessage]) -> None:
        for item in messages:
            if getattr(item.message, "method", "") == LIST_CHANGED:
                self.on_list_changed()
            self._ready.append(item)

    def _note_noise(self, line: bytes) -> None:
        self.noise_count += 1
        if len(self.noise) < NOISE_LINES:
            self.noise.append(line[:500].decode("utf-8", "replace").strip())

    # ------------------------------------------------------------ write stream

    async def send(self, item: SessionMessage, /) -> None:
        """Write one message; waits while the server does not read.

        Raises:
            anyio.BrokenResourceError: the server is gone.
        """
        from anyio import BrokenResourceError

        data = item.message.model_dump_json(by_alias=True, exclude_unset=True).encode("utf-8", "replace") + b"\n"
        if self._stdin.is_closing():
            raise BrokenResourceError
        try:
            self._stdin.write(data)
            async with self._drain:
                await self._stdin.drain()
        except (ConnectionError, RuntimeError, OSError) as error:
            raise BrokenResourceError from error

    # ------------------------------------------------------------ background reading

    def watch(self, report: asyncio.StreamReader | None, pipe: asyncio.BaseTransport | None) -> None:
        """Start reading stderr and the guard's facts; `pipe` is what the facts come over."""
        self._pipe = pipe
        self._tasks.append(asyncio.create_task(self._read_stderr(), name="mcp stderr"))
        watcher = self._read_report(report) if report is not None else self._wait_plain()
        self._tasks.append(asyncio.create_task(watcher, name="mcp exit"))

    async def _read_stderr(self) -> None:
        with contextlib.suppress(ConnectionError):
            while chunk := await self._stderr.read(_CHUNK):
                self._tail += chunk
                if len(self._tail) > STDERR_TAIL:
                    del self._tail[:-STDERR_TAIL]

    async def _read_report(self, report: asyncio.StreamReader) -> None:
        """Facts from the guard; its silence means that it is gone too."""
        with contextlib.suppress(ConnectionError, ValueError):
            while line := await report.readline():
                fact: dict[str, Any] = json.loads(line)
                self.pid = fact.get("pid", self.pid)
                if "error" in fact:
                    self.failure = f"could not be started: {fact['error']}"
                    self.exited.set()
                elif "exit" in fact or "signal" in fact:
                    self.exit_code, self.signal = fact.get("exit"), fact.get("signal", 0)
                    self.exited.set()
                    asyncio.get_running_loop().call_later(0.4, self._no_more_output)
        self.exited.set()
        self._no_more_output()
        self._kill_group()

    async def _wait_plain(self) -> None:
        code = await self._process.wait()
        self.exit_code, self.signal = (code, 0) if code >= 0 else (None, -code)
        self.exited.set()

    def _no_more_output(self) -> None:
        """A descendant may hold stdout open after the server has ended: do not wait for it."""
        if not self._stdout.at_eof():
            self._stdout.feed_eof()

    def _kill_group(self) -> None:
        """Only reached when the guard was killed: its own work is done by us."""
        if self.pid and self.exit_code is None and not self.signal and sys.platform != "win32":
            with contextlib.suppress(OSError):
                os.killpg(self.pid, 9)

    # ------------------------------------------------------------ end

    async def stop(self) -> None:
        """Close stdin, then terminate, then kill the whole tree. Bounded; no process is left."""
        with contextlib.suppress(OSError, RuntimeError):
            self._stdin.close()
        for command, seconds in ((b"", _STOP_AFTER_STDIN), (b"t", _STOP_AFTER_TERM), (b"k", 2.0)):
            if self.exited.is_set():
                break
            self._tell(command)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self.exited.wait()
        if self._lifeline >= 0:
            os.close(self._lifeline)
            self._lifeline = -1
        try:
            async with asyncio.timeout(4.0):
                await self._process.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._pipe is not None:
            self._pipe.close()
        # Nothing public closes the pipes of a process whose output was not read to its end.
        transport: asyncio.BaseTransport | None = getattr(self._process, "_transport", None)
        if transport is not None:
            transport.close()
        self.closed.set()
        await asyncio.sleep(0)  # the loop runs what close() has scheduled

    def _tell(self, command: bytes) -> None:
        if not command:
            return
        if self._lifeline >= 0:
            with contextlib.suppress(OSError):
                os.write(self._lifeline, command)
        else:
            with contextlib.suppress(ProcessLookupError):
                self._process.terminate() if command == b"t" else self._process.kill()


@contextlib.asynccontextmanager
async def open_process(
    name: str, argv: tuple[str, ...], env: Mapping[str, str], cwd: Path
) -> AsyncIterator[ServerProcess]:
    """Start a server; leaving the block ends it and everything it started.

    Args:
        name: of the server, for errors.
        argv: program and arguments.
        env: its whole environment.
        cwd: working directory.

    Raises:
        ServerUnavailable: the program or the folder does not exist, or the process cannot be started.
    """
    program = shutil.which(argv[0], path=env.get("PATH")) or ""
    if not program:
        raise ServerUnavailable(
            f"MCP server {name!r}: the command {argv[0]!r} was not found",
            fix="install it, put it on PATH, or correct the command in the server's entry",
        )
    if not os.path.isdir(cwd):  # noqa: ASYNC240 - one look, at once
        raise ServerUnavailable(f"MCP server {name!r}: the folder {cwd} does not exist", fix="correct cwd in its entry")
    try:
        process, lifeline, report, pipe = await _spawn((program, *argv[1:]), dict(env), cwd)
    except OSError as error:
        raise ServerUnavailable(
            f"MCP server {name!r} could not be started: {error.strerror or error}",
            fix="run its command by hand to see why",
        ) from error
    server = ServerProcess(process, lifeline)
    server.watch(report, pipe)
    try:
        yield server
    finally:
        await _finish(server)


async def _finish(server: ServerProcess) -> None:
    """`stop`, also when our own task is being cancelled: a cancelled owner must not leave a process."""
    task = asyncio.ensure_future(server.stop())
    cancelled = False
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            cancelled = True
    if cancelled:
        raise asyncio.CancelledError


async def _spawn(
    argv: tuple[str, ...], env: dict[str, str], cwd: Path
) -> tuple[asyncio.subprocess.Process, int, asyncio.StreamReader | None, asyncio.BaseTransport | None]:
    pipe = asyncio.subprocess.PIPE
    if sys.platform == "win32":
        process = await asyncio.create_subprocess_exec(
            *argv, stdin=pipe, stdout=pipe, stderr=pipe, env=env, cwd=cwd, limit=_CHUNK
        )
        return process, -1, None, None
    lifeline_r, lifeline_w = os.pipe()
    report_r, report_w = os.pipe()
    guard = (
        sys.executable,
        "-I",
        "-S",
        str(Path(__file__).with_name("guard.py")),
        str(lifeline_r),
        str(report_w),
        "--",
    )
    try:
        process = await asyncio.create_subprocess_exec(
            *guard, *argv, stdin=pipe, stdout=pipe, stderr=pipe, env=env, cwd=cwd, limit=_CHUNK,
            pass_fds=(lifeline_r, report_w), start_new_session=True,
        )  # fmt: skip
    except BaseException:
        os.close(lifeline_w)
        os.close(report_r)
        raise
    finally:
        os.close(lifeline_r)
        os.close(report_w)
    report = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(report), os.fdopen(report_r, "rb", buffering=0)
    )
    return process, lifeline_w, report, transport
