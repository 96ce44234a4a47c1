"""shell_exec: one command line in the sandbox."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from ...core.effects import Effect
from ...core.errors import ToolFailed
from ...core.messages import SideEffects
from ...core.ports import Limits, ProcessOutcome, ProcessSpec
from ...tools.tool import ToolContext, ToolOutput, Touch, tool
from ..access import kind_of_path
from ..process import needed_runner, shown_blocks

__all__ = ["describe_end", "shell_exec", "spools_of"]

_MAX_SECONDS = 600


def _touch_command(arguments: Mapping[str, Any]) -> Iterable[Touch]:
    yield Touch(Effect.EXECUTE, str(arguments.get("command", "")), kind="command")
    folder = str(arguments.get("cwd", "."))
    if folder != ".":
        yield Touch(Effect.READ, folder)


def _view(arguments: Mapping[str, Any]) -> str:
    folder = arguments.get("cwd", ".")
    return f"$ {arguments.get('command', '')}" + (f"\n(in {folder})" if folder != "." else "")


@tool(
    effects=[Effect.EXECUTE],
    category="execution",
    touches=_touch_command,
    view=_view,
    idempotent=False,
    timeout=_MAX_SECONDS + 30,
    examples=[
        {"command": "git status --short"},
        {"command": "python -m pytest -q tests/unit", "timeout": 300},
        {"command": "wc -l *.csv | sort -n", "cwd": "data"},
    ],
)
async def shell_exec(
    context: ToolContext,
    command: Annotated[str, Field(min_length=1, max_length=100_000)],
    cwd: Annotated[str, Field(min_length=1, max_length=4096)] = ".",
    timeout: Annotated[float, Field(gt=0, le=_MAX_SECONDS)] = 120,
) -> ToolOutput:
    """Run a command line with bash, inside the sandbox, in the workspace.

    Use it for builds, tests, git and other programs. For reading, finding and changing files use
    read_file, grep_file, find_file and edit_file: they are cheaper, work everywhere and need no
    approval; for calculations use code_interpreter. It cannot answer prompts (stdin is empty, pagers and
    password questions are off), has no network unless policy allowed it, sees no home directory,
    and keeps nothing running: every process ends with the call. Nothing is kept between calls, neither
    variables nor the working directory. Commands that do more than read may ask a person first.

    Result: stdout and stderr in order, without colours and progress bars, then `[exit code 0, 1.2 s]`;
    long output keeps its first and last lines and says how to read the rest. An exit code other than 0 is
    reported as a failure with the output. At the time limit all processes are ended and what was written
    up to then is shown.

    Args:
        command: One or more bash commands, for example `git log --oneline -5 | cat`.
        cwd: Directory to run in, relative to the workspace.
        timeout: Seconds after which everything is ended, for example 300; at most 600.
    """
    runner = needed_runner(context, "shell_exec")
    if "\0" in command:
        raise ToolFailed("the command holds a NUL character", fix="remove it", side_effects=SideEffects.NONE)
    folder = _directory(context, cwd)
    outcome = await runner.run(
        ProcessSpec(
            argv=("bash", "-c", command),
            cwd=folder,
            writable=(context.workspace.root,),
            network=True,
            merge_stderr=True,
            limits=Limits(seconds=timeout),
        )
    )
    return _shown(outcome, timeout)


def _directory(context: ToolContext, cwd: str) -> Path:
    folder = context.workspace.resolve(cwd)
    if kind_of_path(folder) != "dir":
        raise ToolFailed(
            f"there is no directory {cwd}", fix="give an existing directory", side_effects=SideEffects.NONE
        )
    return folder


def describe_end(outcome: ProcessOutcome, timeout: float) -> str:
    """How a process ended, in words: "exit code 0, 1.2 s"."""
    seconds = f"{outcome.duration_ms / 1000:.1f} s"
    if outcome.stopped == "timeout":
        return f"timed out: ended with all its processes after {timeout:g} s; what was written up to then is above"
    if outcome.stopped == "output_limit":
        return f"ended because it wrote too much output, {seconds}"
    if outcome.stopped:
        return f"{outcome.stopped}, {seconds}"
    if outcome.exit_code is None:
        return f"ended by {outcome.signal or 'a signal'}, {seconds}"
    return f"exit code {outcome.exit_code}, {seconds}"


def spools_of(outcome: ProcessOutcome) -> tuple[Path, ...]:
    """Files with the full outputs, for the gate to store."""
    return tuple(s.spool for s in (outcome.stdout, outcome.stderr) if s.spool is not None)


def _shown(outcome: ProcessOutcome, timeout: float) -> ToolOutput:
    output = outcome.stdout
    text = output.text.rstrip("\n") if output.text.strip() else "(no output)"
    end = f"[{describe_end(outcome, timeout)}]" + (f"\n[Hint: {outcome.hint}]" if outcome.hint else "")
    failed = outcome.exit_code != 0
    facts = {
        "exit_code": outcome.exit_code,
        "signal": outcome.signal or None,
        "stopped": outcome.stopped or None,
        "output_bytes": output.total_bytes,
        "output_lines": output.total_lines,
        "omitted_bytes": output.omitted_bytes,
        "duration_ms": round(outcome.duration_ms, 1),
    }
    return ToolOutput(
        content=shown_blocks(text, end, spools_of(outcome)),
        structured=facts,
        failed=failed,
        side_effects=SideEffects.UNKNOWN if outcome.stopped or outcome.exit_code is None else None,
        details={"backend": outcome.backend},
        spools=spools_of(outcome),
    )
