"""What the tools of the packs share about running child processes."""

from __future__ import annotations

import sys
from pathlib import Path

from ..core.errors import SandboxUnavailable
from ..core.messages import Text
from ..core.ports import Captured, ProcessRunner
from ..tools.tool import ToolContext

__all__ = ["PACKAGE", "needed_runner", "python_argv", "python_env", "shown_blocks", "whole_output"]

PACKAGE = Path(__file__).resolve().parents[1]
"""Where the child finds this package; bound read-only."""


def whole_output(captured: Captured) -> bytes:
    """Everything a process wrote to a stream; deletes the spool file."""
    if captured.spool is None:
        return captured.text.encode("utf-8", "surrogatepass")
    try:
        return captured.spool.read_bytes()
    finally:
        captured.spool.unlink(missing_ok=True)


def shown_blocks(printed: str, said: str, spools: tuple[Path, ...]) -> str | tuple[Text, ...]:
    """The content of a result: what a process printed and what is said about it.

    They are blocks of their own when spool files hold all that was printed: the gate then knows
    which part of the content is in them.
    """
    parts = tuple(Text(part) for part in (printed, said) if part)
    return parts if spools else "\n".join(part.text for part in parts)


def python_argv(module: str, *arguments: str) -> tuple[str, ...]:
    """Start a module of this package with this Python, without the working directory on its path."""
    return (sys.executable, "-P", "-s", "-m", module, *arguments)


def python_env() -> dict[str, str]:
    """Variables for such a child: UTF-8 whatever the locale says, no bytecode written."""
    return {
        "PYTHONPATH": str(PACKAGE.parent),
        "PYTHONUTF8": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONSAFEPATH": "1",
    }


def needed_runner(context: ToolContext, what: str) -> ProcessRunner:
    """The sandbox, or the error that says why `what` cannot be done.

    Raises:
        SandboxUnavailable
    """
    if context.runner is None:
        raise SandboxUnavailable(
            f"{what} runs in the sandbox only, and there is none here",
            fix="run `geode doctor` to see how to get one (on Debian: apt install bubblewrap)",
        )
    return context.runner
