"""`geode bench loop`: what the gate costs for one call, its two audit records included.

The tool does nothing, so all that is measured is Geode: policy, look-up, validation, both
records, shaping, events. CPU time is that of all threads of the process (the writer's too).
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from ..core.effects import Effect, Origin
from ..runtime import GeodeRuntime
from ..tools.tool import FunctionTool, tool
from .figures import Figure, document

__all__ = ["measure_loop"]

CPU_TARGET_MS = 2.0
FILES_TARGET = 12
_PACKAGE = str(Path(__file__).resolve().parents[1])


async def measure_loop(calls: int) -> dict[str, Any]:
    """Make `calls` calls of a trivial tool, one after another, in a fresh home.

    Args:
        calls: how many, after 50 that warm up.

    Returns:
        The bench document; times in milliseconds a call.
    """
    with tempfile.TemporaryDirectory(prefix="geode-bench-") as project, tempfile.TemporaryDirectory() as home:
        runtime = GeodeRuntime.create(project, home, tools=[_trivial()], servers=False)
        async with runtime:
            for _ in range(50):
                await _one(runtime)
            cpu, walls = await _measured(runtime, calls)
            entered = await _files_entered(runtime)
            report = await runtime.audit.verify()
    walls.sort()
    per_call = cpu * 1000 / calls
    figures = [
        Figure("CPU of one call with both records", per_call, "ms", CPU_TARGET_MS),
        Figure("record intact afterwards", float(report.ok), "", 1.0, ">="),
    ]
    facts = {
        "calls": calls,
        "wall_p50_ms": round(statistics.median(walls) * 1000, 3),
        "wall_p95_ms": round(walls[int(len(walls) * 0.95)] * 1000, 3),
        "records": report.records,
        "files_entered": len(entered),
        "files_target": FILES_TARGET,
    }
    return document("loop", figures, facts)


def _trivial() -> FunctionTool:
    @tool(effects=[Effect.READ])
    async def bench_echo(text: str) -> str:
        """Return the text.

        Args:
            text: what to return.
        """
        return text

    return bench_echo


async def _one(runtime: GeodeRuntime) -> None:
    result = await runtime.call("bench_echo", {"text": "hello"}, origin=Origin.LIBRARY, session="bench")
    if result.is_error:
        raise RuntimeError(f"the bench tool failed: {result.text}")


async def _measured(runtime: GeodeRuntime, calls: int) -> tuple[float, list[float]]:
    walls: list[float] = []
    cpu = time.process_time()
    for _ in range(calls):
        started = time.perf_counter()
        await _one(runtime)
        walls.append(time.perf_counter() - started)
    return time.process_time() - cpu, walls


async def _files_entered(runtime: GeodeRuntime) -> set[str]:
    """Our source files in which a function of one call runs (in this thread)."""
    seen: set[str] = set()

    def watch(frame: Any, event: str, _argument: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(_PACKAGE):
            seen.add(frame.f_code.co_filename)

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        await _one(runtime)
    finally:
        sys.setprofile(before)
    seen.discard(__file__)
    return seen
