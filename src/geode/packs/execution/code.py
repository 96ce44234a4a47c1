"""code_interpreter: one piece of Python in the sandbox."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Annotated, Any

from pydantic import Field

from ...core.effects import Effect
from ...core.messages import SideEffects
from ...core.ports import Captured, Limits, ProcessOutcome, ProcessSpec
from ...tools.tool import FunctionTool, ToolContext, ToolOutput, Touch, tool
from ..process import PACKAGE, needed_runner, python_argv, python_env, shown_blocks
from .interpreter import installed
from .shell import describe_end, spools_of

__all__ = ["code_interpreter"]

_MAX_SECONDS = 300
_TAIL = 512 * 1024
_SHOWN = 32 * 1024


def _touches(arguments: Mapping[str, Any]) -> Iterable[Touch]:
    del arguments
    return (Touch(Effect.EXECUTE, "python", kind="sandbox"), Touch(Effect.WRITE, "."))


def _view(arguments: Mapping[str, Any]) -> str:
    return f"python, in the sandbox:\n{arguments.get('code', '')}"


@tool(
    effects=[Effect.EXECUTE, Effect.WRITE],
    category="execution",
    touches=_touches,
    view=_view,
    idempotent=False,
    timeout=_MAX_SECONDS + 30,
    examples=[
        {"code": "sum(x * x for x in range(1, 101))"},
        {"code": "import csv\nrows = list(csv.DictReader(open('data/sales.csv')))\nprint(len(rows))\nrows[0]"},
    ],
)
async def code_interpreter(
    context: ToolContext,
    code: Annotated[str, Field(min_length=1, max_length=200_000)],
    timeout: Annotated[float, Field(gt=0, le=_MAX_SECONDS)] = 60,
) -> ToolOutput:
    """Run Python code in the sandbox: calculate, transform data, work through files of the workspace.

    Use it for arithmetic you would otherwise guess, statistics, spreadsheets and CSV, and for steps
    that would take many tool calls. For a program that is already in the workspace use shell_exec. It starts
    fresh every time (no variables are kept), has no network, no input, no access outside the workspace
    and a scratch /tmp, and cannot install packages. Files are read and written relative to the workspace; what
    it writes there stays.

    Result: what the code printed, the value of its last line when that is an expression (`=> 338350`), or
    the error with the lines of your code. Printing large data costs tokens: print what you need, or
    write it to a file. Starting costs about 0.1 s.

    Args:
        code: Python source, for example `import statistics\\nstatistics.mean([1, 2, 4])`.
        timeout: Seconds after which it is ended, for example 60; at most 300.
    """
    runner = needed_runner(context, "code_interpreter")
    mark = f"=={secrets.token_hex(12)}=="
    outcome = await runner.run(
        ProcessSpec(
            argv=python_argv("geode.packs.execution.interpreter"),
            cwd=context.workspace.root,
            env={**python_env(), "MPLBACKEND": "Agg", "OPENBLAS_NUM_THREADS": "2", "OMP_NUM_THREADS": "2"},
            stdin=json.dumps({"code": code, "mark": mark}).encode("utf-8", "replace"),
            writable=(context.workspace.root,),
            readable=(PACKAGE,),
            limits=Limits(seconds=timeout, memory_bytes=4 * 1024**3),
        )
    )
    report, stderr = await asyncio.to_thread(_take_report, outcome.stderr, mark)
    return _shown(replace(outcome, stderr=stderr), report, timeout)


def _take_report(stderr: Captured, mark: str) -> tuple[dict[str, Any] | None, Captured]:
    """The line of the interpreter at the end of stderr, and stderr without it."""
    if stderr.spool is None:
        found = stderr.text.rfind(mark)
        if found < 0:
            return None, stderr
        return _report(stderr.text[found + len(mark) :]), replace(stderr, text=stderr.text[:found].rstrip("\n"))
    size = stderr.spool.stat().st_size
    with stderr.spool.open("rb") as stream:
        stream.seek(max(0, size - _TAIL))
        tail = stream.read()
    found = tail.rfind(mark.encode())
    if found < 0:
        return None, stderr
    left = max(0, size - len(tail) + found - 1)
    os.truncate(stderr.spool, left)
    with stderr.spool.open("rb") as stream:
        head = stream.read(_SHOWN)
        stream.seek(max(len(head), left - _SHOWN))
        end = stream.read()
    omitted = left - len(head) - len(end)
    text = head.decode("utf-8", "replace")
    text += f"\n[… {omitted:,} bytes omitted …]\n" if omitted else ""
    text += end.decode("utf-8", "replace")
    report = _report(tail[found + len(mark) :].decode("utf-8", "replace"))
    if omitted:
        return report, replace(stderr, text=text, omitted_bytes=omitted)
    stderr.spool.unlink()
    return report, replace(stderr, text=text.rstrip("\n"), omitted_bytes=0, spool=None)


def _report(line: str) -> dict[str, Any] | None:
    try:
        return json.loads(line)
    except ValueError:
        return None


def _shown(outcome: ProcessOutcome, report: dict[str, Any] | None, timeout: float) -> ToolOutput:
    ok = bool(report and report["ok"]) and not outcome.stopped
    parts: list[str] = []
    if outcome.stdout.text.strip():
        parts.append(outcome.stdout.text.rstrip("\n"))
    if outcome.stderr.text.strip():
        parts.append(f"[stderr]\n{outcome.stderr.text.strip()}")
    printed, parts = parts, []
    facts: dict[str, Any] = {"ok": ok, "duration_ms": round(outcome.duration_ms, 1)}
    if report and "value" in report:
        cut = report["value_chars"] - len(report["value"])
        parts.append(f"=> {report['value']}" + (f"… ({cut:,} more characters)" if cut else ""))
        facts["value"] = report.get("json", report["value"])
    if report and report.get("error"):
        parts.append(report["error"])
        facts["error"] = report["error"]
    if report and report.get("hint"):
        parts.append(f"Hint: {report['hint']}")
    if report is None or outcome.stopped:
        parts.append(f"[Python did not come to its end: {describe_end(outcome, timeout)}]")
        if outcome.hint:
            parts.append(f"Hint: {outcome.hint}")
    content = shown_blocks("\n".join(printed), "\n".join(parts), spools_of(outcome))
    return ToolOutput(
        content=content or "(no output; the last line has no value)",
        structured=facts,
        failed=not ok,
        side_effects=SideEffects.UNKNOWN if outcome.stopped or report is None else None,
        details={"backend": outcome.backend},
        spools=spools_of(outcome),
    )


def with_packages(item: FunctionTool) -> FunctionTool:
    """The tool with the packages that exist here named in its description."""
    names = installed()
    listed = f"the standard library and {', '.join(names)}" if names else "the standard library only"
    return item.with_spec(description=f"{item.spec.description}\n\nPackages here: {listed}.")
