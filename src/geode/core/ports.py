"""Ports: what a low floor needs from a high one, as small Protocols.

`runtime.py` wires real ones; tests use the ones in `geode.testing`. A port that nobody
provides is None in `ToolContext`, and the tool says what is missing.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from .call import Call, Verdict
from .effects import Scope
from .messages import Message, ToolResult

__all__ = [
    "ApprovalAnswer",
    "ApprovalRequest",
    "Approver",
    "Caller",
    "Captured",
    "Clock",
    "Elicitor",
    "Http",
    "HttpRequest",
    "HttpResponse",
    "Inbox",
    "InboxItem",
    "Judge",
    "Limits",
    "ProcessOutcome",
    "ProcessRunner",
    "ProcessSpec",
    "ResultStore",
    "Sampler",
    "Scheduler",
    "Spawner",
    "StoredText",
    "Workspace",
]


# ---------------------------------------------------------------- people and judges


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRequest:
    """What a person is asked. `digest` is bound to exactly the call that will run.

    Attributes:
        id: id of the stored request.
        call: the call, arguments as they will be executed (secrets redacted by the front end's view).
        verdict: why it asks.
        digest: `Call.digest` including the tool's definition.
        view: readable lines that show what will run.
        expires_at: wall time (UTC) after which an answer changes nothing.
    """

    id: str
    call: Call
    verdict: Verdict
    digest: str
    view: str
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class ApprovalAnswer:
    """Yes or no, by whom and why. `answered` is False when nobody was there to ask."""

    approved: bool
    by: str
    reason: str = ""
    answered: bool = True


class Approver(Protocol):
    """Asks a person. Never the agent itself."""

    async def ask(self, request: ApprovalRequest) -> ApprovalAnswer:
        """Wait for the answer; `answered=False` at once when there is nobody to ask."""
        ...


class Judge(Protocol):
    """A second opinion on a call that would ask. May turn Ask into Allow or Deny, never lifts a Deny."""

    async def judge(self, call: Call, verdict: Verdict) -> Verdict: ...


class Elicitor(Protocol):
    """Asks the person behind a front for structured input."""

    async def elicit(self, message: str, schema: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """The answer as an object that satisfies `schema`, or None when declined."""
        ...


class Sampler(Protocol):
    """Asks a model for one completion; it spends money, so it is a call like any other."""

    async def sample(self, messages: Sequence[Message], *, max_tokens: int) -> Message: ...


# ---------------------------------------------------------------- calls and agents


class Caller(Protocol):
    """Makes a tool call through the gate; what a tool or a façade uses to call another tool."""

    async def call(self, call: Call) -> ToolResult: ...


class Spawner(Protocol):
    """Starts sub-agents and talks to them."""

    async def spawn(self, role: str, task: str, *, parent: Call, tools: Sequence[str]) -> str:
        """Start one and return its id at once."""
        ...

    async def send(self, agent: str, text: str) -> None: ...

    async def cancel(self, agent: str) -> None: ...


class Scheduler(Protocol):
    """Registers what should happen later."""

    async def at(self, when: datetime, message: str, *, session: str) -> str: ...

    async def cancel(self, timer: str) -> bool: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxItem:
    """One event that arrived: from where, over which channel, with which content."""

    id: str
    source: str
    channel: str
    content: str
    at: datetime
    context: Mapping[str, Any] = field(default_factory=dict[str, Any])


class Inbox(Protocol):
    """Events for a session, taken only at safe points."""

    async def put(self, item: InboxItem, *, session: str) -> None: ...

    def take(self, session: str) -> AsyncIterator[InboxItem]: ...


# ---------------------------------------------------------------- processes


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a process tree may use. None means the backend's own default.

    Attributes:
        seconds: wall time; afterwards the whole tree is ended.
        cpu_seconds: CPU time of one process.
        memory_bytes: address space of one process.
        processes: processes and threads of the tree.
        file_bytes: size of any one file it writes.
        open_files: file descriptors of one process.
        output_bytes: output kept on disk; beyond it the process is stopped and the fact reported.
    """

    seconds: float = 120.0
    cpu_seconds: int | None = None
    memory_bytes: int | None = None
    processes: int | None = None
    file_bytes: int | None = None
    open_files: int | None = None
    output_bytes: int = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessSpec:
    """A process to run inside the sandbox.

    Attributes:
        argv: program and arguments; no shell is added.
        cwd: working directory inside the sandbox; must lie in a bound path.
        env: variables on top of the clean base environment; nothing else is inherited.
        stdin: bytes to feed, or None for /dev/null.
        writable: host paths the process may change.
        readable: further host paths it may read.
        network: True gives it the host's network; the gate sets it only after policy allowed it.
        merge_stderr: True writes stderr into stdout, in order.
        limits: quotas.
    """

    argv: tuple[str, ...]
    cwd: Path
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    stdin: bytes | None = None
    writable: tuple[Path, ...] = ()
    readable: tuple[Path, ...] = ()
    network: bool = False
    merge_stderr: bool = False
    limits: Limits = Limits()


@dataclass(frozen=True, slots=True, kw_only=True)
class Captured:
    """One output stream: decoded (invalid bytes become U+FFFD), escapes and redraws removed.

    Attributes:
        text: everything when it is small, else head + marker + tail.
        total_bytes: bytes the process wrote.
        total_lines: line ends the process wrote.
        omitted_bytes: bytes of `text` left out between head and tail.
        spool: file with everything (raw bytes, mode 0600) when `text` is not whole, else None;
            whoever receives it deletes it.
    """

    text: str = ""
    total_bytes: int = 0
    total_lines: int = 0
    omitted_bytes: int = 0
    spool: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessOutcome:
    """How a process ended.

    Attributes:
        exit_code: its code, or None when a signal or we ended it.
        signal: name of the signal that ended it, or "".
        stopped: "" | "timeout" | "cancelled" | "output_limit".
        duration_ms: wall time.
        backend: the sandbox backend that contained it.
        hint: what a failed process probably needed ("needed input", "blocked network"), or "".
    """

    exit_code: int | None
    signal: str = ""
    stdout: Captured = Captured()
    stderr: Captured = Captured()
    stopped: str = ""
    duration_ms: float = 0.0
    backend: str = ""
    hint: str = ""


class ProcessRunner(Protocol):
    """Runs processes inside the sandbox, or not at all."""

    async def run(self, spec: ProcessSpec) -> ProcessOutcome:
        """Run to the end, to the limit, or until the awaiting task is cancelled.

        On return no process of the tree is alive. Cancellation kills the tree before it propagates.

        Raises:
            SandboxUnavailable: no backend works here; says how to get one.
            ToolFailed: the program does not exist or cannot be started.
        """
        ...


# ---------------------------------------------------------------- files, results, network, time


class Workspace(Protocol):
    """The files a call may touch: everything resolved beneath one root, symlinks included."""

    @property
    def root(self) -> Path: ...

    def resolve(self, path: str) -> Path:
        """The absolute real path of `path` (relative to the root), existing or not.

        Raises:
            PathEscape: it leads out of the root, by `..`, symlink or otherwise.
        """
        ...

    def scope(self, path: str) -> Scope:
        """Where a path lies, whether or not it may be touched. Never raises."""
        ...

    def open_read(self, path: str) -> BinaryIO:
        """Open a regular file beneath the root, race-free against symlink swaps.

        Raises:
            PathEscape, ToolFailed (missing, a directory, unreadable, not a regular file).
        """
        ...

    def write(self, path: str, data: bytes, *, create_parents: bool = True) -> bool:
        """Replace or create a file atomically, keeping its mode; True when it was created.

        Raises:
            PathEscape, ToolFailed (no space, read-only, a directory); then nothing has changed.
        """
        ...

    def delete(self, path: str) -> None:
        """Remove one file beneath the root."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredText:
    """A part of a stored result: lines `first_line`.. of `total_lines`."""

    text: str
    first_line: int
    total_lines: int
    total_chars: int


class ResultStore(Protocol):
    """Full outputs, redacted before they are stored, readable within session and principal."""

    async def put(self, text: str, *, session: str, principal: str, call_id: str, tool: str) -> str:
        """Store and return the id without the `result:` prefix."""
        ...

    async def put_file(
        self,
        path: Path,
        *,
        session: str,
        principal: str,
        call_id: str,
        tool: str,
        redact: Callable[[str], str] | None = None,
    ) -> str:
        """Store a file's text piece by piece, each through `redact`; the file is not removed."""
        ...

    async def get(
        self,
        result_id: str,
        *,
        session: str,
        principal: str,
        offset: int = 1,
        limit: int = 2000,
        start_char: int = 0,
        max_chars: int | None = None,
    ) -> StoredText:
        """Lines from `offset` (1-based), at most `limit`; of these at most `max_chars` characters from `start_char`.

        Raises:
            NotStored: unknown, expired, or of another session or principal (not told apart).
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """An outgoing request; the port guards addresses and redirects.

    Attributes:
        timeout: seconds for the whole exchange, redirects included.
        max_bytes: size of the body that is read; a longer one is an error.
        reach: scopes the resolved address may lie in; the gate narrows it to what was allowed.
    """

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: bytes | None = None
    timeout: float = 30.0
    max_bytes: int = 16 * 1024 * 1024
    reach: frozenset[Scope] = frozenset({Scope.INTERNET})


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpResponse:
    """The final answer; `url` is where it came from, after redirects."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    url: str


class Http(Protocol):
    """Sends requests after the address check."""

    async def send(self, request: HttpRequest) -> HttpResponse:
        """Send, following redirects, each checked again.

        Raises:
            Denied: the address lies outside `request.reach`.
            ToolFailed: no answer, too large, too slow, too many redirects.
        """
        ...


class Clock(Protocol):
    """Time as the gate sees it; tests turn it by hand."""

    def now(self) -> datetime:
        """Aware UTC wall time."""
        ...

    def monotonic(self) -> float:
        """Seconds; comparable with `Call.deadline`."""
        ...

    async def sleep(self, seconds: float) -> None: ...
