"""Every error Geode raises on purpose.

    GeodeError
    ├── UsageError            2  the request itself is wrong
    │   ├── InvalidArguments     arguments do not satisfy the tool's schema
    │   ├── UnknownTool          no tool of that name; carries the closest names
    │   └── ConfigError          a settings, rule or server file cannot be used
    ├── Denied                3  a policy forbids the call
    ├── NeedsApproval         4  a person must decide and nobody can be asked
    ├── Missing               5  something needed is not there
    │   ├── SandboxUnavailable   no containment backend works on this machine
    │   └── ServerUnavailable    an MCP server is off, failed or still starting
    ├── ToolFailed            1  the tool ran and reported a failure
    │   ├── ToolTimeout          its time was over
    │   └── ToolCancelled        somebody stopped it
    ├── PathEscape            1  a path leaves the workspace
    └── StoreError            1  the database cannot be read or written
        ├── StoreBusy            another process holds it for too long
        └── NotStored            no such record for this session and principal

The number is the process exit code of the command contract. `message` says what
happened and why, `fix` what to do; neither may ever contain a secret.
"""

from __future__ import annotations

from typing import Any, ClassVar

from .messages import SideEffects

__all__ = [
    "ConfigError",
    "Denied",
    "GeodeError",
    "InvalidArguments",
    "Missing",
    "NeedsApproval",
    "NotStored",
    "PathEscape",
    "SandboxUnavailable",
    "ServerUnavailable",
    "StoreBusy",
    "StoreError",
    "ToolCancelled",
    "ToolFailed",
    "ToolTimeout",
    "UnknownTool",
    "UsageError",
]


class GeodeError(Exception):
    """Base of all errors that are meant for a reader.

    Args:
        message: what happened and why, one line where possible.
        fix: what the reader can do about it; may be empty.
    """

    code: ClassVar[str] = "error"
    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, fix: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.fix = fix

    def to_json(self) -> dict[str, Any]:
        """The error object of the command contract: `code`, `message`, `fix`."""
        return {"code": self.code, "message": self.message, "fix": self.fix}


class UsageError(GeodeError):
    """The request itself is wrong: a bad option, an unreadable input, nonsense."""

    code = "usage"
    exit_code = 2


class InvalidArguments(UsageError):
    """Arguments do not satisfy the schema. `problems` holds one line per violation."""

    code = "invalid_arguments"

    def __init__(self, message: str, *, problems: tuple[str, ...] = (), fix: str = "") -> None:
        super().__init__(message, fix=fix)
        self.problems = problems

    @property
    def readable(self) -> tuple[str, ...]:
        """The problems as people read them: `path: expected …` for `$.path: expected …`."""
        return tuple(p.removeprefix("$: ").removeprefix("$.") for p in self.problems)


class UnknownTool(UsageError):
    """No tool has this name. `closest` are similar names, best first."""

    code = "unknown_tool"

    def __init__(self, name: str, *, closest: tuple[str, ...] = (), why: str = "") -> None:
        hint = (
            f"Did you mean: {', '.join(closest)}?"
            if closest
            else "Find one with tool_search, or: geode tools search WORDS"
        )
        super().__init__(why or f"no tool is named {name!r}", fix=hint)
        self.name = name
        self.closest = closest


class ConfigError(UsageError):
    """A settings, rule, server or tool definition file cannot be used."""

    code = "config"


class Denied(GeodeError):
    """A policy forbids the call."""

    code = "denied"
    exit_code = 3


class NeedsApproval(GeodeError):
    """The call waits for a person and nobody can be asked now."""

    code = "needs_approval"
    exit_code = 4


class Missing(GeodeError):
    """Something needed is not installed, not configured or not reachable."""

    code = "missing"
    exit_code = 5


class SandboxUnavailable(Missing):
    """No containment backend works here; nothing is run without one."""

    code = "sandbox_unavailable"


class ServerUnavailable(Missing):
    """An MCP server is off, failed, or still starting."""

    code = "server_unavailable"


class ToolFailed(GeodeError):
    """The tool ran and failed in a way its caller can act on.

    Args:
        side_effects: what is known about changes made before the failure; None leaves it to
            the tool's declaration (a tool that can change things: unknown).
    """

    code = "tool_failed"

    def __init__(self, message: str, *, fix: str = "", side_effects: SideEffects | None = None) -> None:
        super().__init__(message, fix=fix)
        self.side_effects = side_effects


class ToolTimeout(ToolFailed):
    """The tool's time was over."""

    code = "timeout"


class ToolCancelled(ToolFailed):
    """The call was stopped before it finished."""

    code = "cancelled"


class PathEscape(GeodeError):
    """A path leads out of the workspace."""

    code = "path_escape"


class StoreError(GeodeError):
    """The database cannot be read or written."""

    code = "store"


class StoreBusy(StoreError):
    """Another process holds the database for longer than we wait."""

    code = "store_busy"


class NotStored(StoreError):
    """There is no such record for this session and principal."""

    code = "not_stored"
    exit_code = 2
