"""A started sandbox: knowing when it is up, when it is over, and ending it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ...core.errors import SandboxUnavailable
from ..quotas import tree_memory

__all__ = ["Status", "Tree"]

_SETUP_SECONDS = 20.0


async def _readable(descriptor: int) -> None:
    """Wait until a descriptor can be read."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    loop.add_reader(descriptor, lambda: ready.done() or ready.set_result(None))
    try:
        await ready
    finally:
        loop.remove_reader(descriptor)


class Status:
    """Bubblewrap's `--json-status-fd`: one JSON document a line."""

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self._descriptor = descriptor
        self._buffer = b""
        self.values: dict[str, Any] = {}
        self.ended = False

    def poll(self) -> None:
        """Take what is there."""
        while not self.ended:
            try:
                data = os.read(self._descriptor, 4096)
            except BlockingIOError:
                break
            except OSError:
                data = b""
            if not data:
                self.close()
            self._buffer += data
        *lines, self._buffer = self._buffer.split(b"\n")
        for line in lines:
            with contextlib.suppress(ValueError):
                document = json.loads(line)
                if isinstance(document, dict):
                    self.values.update(document)

    async def until(self, key: str) -> bool:
        """Wait for a key; False when the other end closed without it."""
        self.poll()
        while key not in self.values and not self.ended:
            await _readable(self._descriptor)
            self.poll()
        return key in self.values

    def close(self) -> None:
        """Give the descriptor back."""
        if not self.ended:
            self.ended = True
            os.close(self._descriptor)


class Tree:
    """`base.Running` for bubblewrap.

    Args:
        process: the outer bubblewrap process.
        status: its status pipe.
        release: called once when nothing is alive any more.
        notices: lines for people; may grow until `wait` returns.
    """

    def __init__(
        self, process: subprocess.Popen[bytes], status: Status, release: Callable[[], None], notices: list[str]
    ) -> None:
        self._process = process
        self._status = status
        self.notices = notices
        self._release: Callable[[], None] | None = release
        self._outer = os.pidfd_open(process.pid)
        self._inner = -1
        self._inner_pid = 0
        self._code: int | None = None

    @property
    def started(self) -> bool:
        """Whether the program's own exit status is known."""
        return "exit-code" in self._status.values

    async def begin(self, prepare: Callable[[int], None], block: int) -> None:
        """Wait for the sandbox, set limits on its waiting first process, let it go.

        Raises:
            SandboxUnavailable: it did not come up in time.
        """
        try:
            async with asyncio.timeout(_SETUP_SECONDS):
                up = await self._status.until("child-pid")
        except TimeoutError as error:
            await self._abandon()
            raise SandboxUnavailable(
                "the sandbox did not come up", fix="Try again; geode doctor tells more."
            ) from error
        except asyncio.CancelledError:
            await self._abandon()
            raise
        if not up:
            return  # it failed; `wait` ends at once and its message is on stderr
        self._inner_pid = int(self._status.values["child-pid"])
        with contextlib.suppress(OSError):
            self._inner = os.pidfd_open(self._inner_pid)
        try:
            prepare(self._inner_pid)
        except (OSError, ValueError) as error:
            await self._abandon()
            raise SandboxUnavailable(f"limits cannot be set on the sandbox: {error}",
                                     fix="geode doctor tells more.") from error  # fmt: skip
        with contextlib.suppress(BrokenPipeError):
            os.write(block, b"1")

    async def _abandon(self) -> None:
        self.kill()
        await self.wait()

    async def wait(self) -> int:
        """See `Running.wait`."""
        if self._code is not None:
            return self._code
        await _readable(self._outer)
        self._process.wait()  # it has ended: this only collects it
        # The outer process may go before the kernel has ended the rest; the first process of the
        # process namespace goes last of all in it.
        if self._inner >= 0:
            self._signal(self._inner, signal.SIGKILL)
            await _readable(self._inner)
        self._status.poll()
        code = self._status.values.get("exit-code", self._process.returncode)
        result = 128 - code if code < 0 else int(code)
        self._code = result
        self._close()
        return result

    def _close(self) -> None:
        for descriptor in (self._outer, self._inner):
            if descriptor >= 0:
                os.close(descriptor)
        self._outer = self._inner = -1
        self._status.close()
        if self._release is not None:
            release, self._release = self._release, None
            release()

    @staticmethod
    def _signal(descriptor: int, number: signal.Signals) -> None:
        if descriptor >= 0:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                signal.pidfd_send_signal(descriptor, number)

    def kill(self) -> None:
        """See `Running.kill`."""
        self._signal(self._inner, signal.SIGKILL)
        self._signal(self._outer, signal.SIGKILL)

    def memory(self, limit: int) -> int:
        """See `Running.memory`."""
        return tree_memory(self._inner_pid, limit) if self._inner >= 0 else 0

    def terminate(self) -> None:
        """See `Running.terminate`."""
        if self._inner < 0:
            self.kill()
            return
        with contextlib.suppress(OSError, ValueError):
            children = Path(f"/proc/{self._inner_pid}/task/{self._inner_pid}/children").read_text(encoding="ascii")
            for child in children.split():
                with contextlib.suppress(OSError):
                    group = os.getpgid(int(child))
                    os.killpg(group, signal.SIGTERM) if group == int(child) else os.kill(int(child), signal.SIGTERM)
