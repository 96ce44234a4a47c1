"""What every containment backend offers."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from ...core.ports import ProcessSpec

__all__ = ["Backend", "Running", "Streams", "byte_file"]


@dataclass(frozen=True, slots=True)
class Streams:
    """Descriptors a process gets as 0, 1 and 2; they stay the caller's to close."""

    stdin: int
    stdout: int
    stderr: int


class Running(Protocol):
    """A started process tree."""

    async def wait(self) -> int:
        """Wait until no process of the tree is alive; the first process's wait status as a shell sees it
        (0..128 an exit code, 128 + n ended by signal n)."""
        ...

    def memory(self, limit: int) -> int:
        """Bytes the whole tree uses, at least exact enough to compare with `limit`; may block for some milliseconds."""
        ...

    def terminate(self) -> None:
        """Ask the first process (and its group) to end. Never blocks, never fails."""
        ...

    def kill(self) -> None:
        """End the whole tree at once. Never blocks, never fails."""
        ...

    @property
    def notices(self) -> Sequence[str]:
        """What was weaker than asked for, or was put back afterwards; complete once `wait` returned."""
        ...

    @property
    def started(self) -> bool:
        """Whether the sandbox came up, so that an exit status is the program's own."""
        ...


class Backend(Protocol):
    """One way to contain a process."""

    @property
    def name(self) -> str:
        """Short name for records: `bubblewrap`, `bubblewrap+uid`."""
        ...

    @property
    def notices(self) -> tuple[str, ...]:
        """Lines for people: what is weaker here than it could be."""
        ...

    def check(self) -> None:
        """Start something trivial inside; blocking.

        Raises:
            SandboxUnavailable: it does not work here; says why and what to do.
        """
        ...

    async def start(self, spec: ProcessSpec, streams: Streams) -> Running:
        """Start the process; returns once it runs inside.

        Raises:
            SandboxUnavailable: the sandbox could not be set up.
            ToolFailed: the program does not exist in the sandbox or the request cannot be contained.
        """
        ...


def byte_file(name: str, data: bytes) -> int:
    """A descriptor positioned at the start of `data`, which lies in memory where the system can do that."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create(name, os.MFD_CLOEXEC)
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor
