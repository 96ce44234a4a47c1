"""`geode bench loop`: what the gate and the whole loop cost for one call, beside other agent loops.

The tool does nothing, so all that is measured is Geode: policy, look-up, validation, both
records, shaping, events. CPU time is that of all threads of the process (the writer's too). The
loops run one after another in processes of their own (`bench.loops`), peers where they are installed
(extra `peers`).
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
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
from .loops import MODULES

__all__ = ["measure_loop"]

CPU_TARGET_MS = 2.0
LOOP_TARGET_MS = 2.5
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
    loops = [row for name in MODULES if (row := await _loop_alone(name, min(calls, 500)))]
    ours = loops[0]
    walls.sort()
    per_call = cpu * 1000 / calls
    figures = [
        Figure("CPU of one call with both records", per_call, "ms", CPU_TARGET_MS),
        Figure("record intact afterwards", float(report.ok), "", 1.0, ">="),
        Figure(
            "CPU of the whole loop for one call, records and transcript included", ours["cpu_ms"], "ms", LOOP_TARGET_MS
        ),
    ]
    for row in loops:
        row["ratio_to_geode"] = round(row["cpu_ms"] / ours["cpu_ms"], 2)
    facts = {
        "calls": calls,
        "wall_p50_ms": round(statistics.median(walls) * 1000, 3),
        "wall_p95_ms": round(walls[int(len(walls) * 0.95)] * 1000, 3),
        "records": report.records,
        "gate_files_entered": len(entered),
        "loop_files_target": FILES_TARGET,
        "loops": loops,
        "loops_not_installed": [n for n in MODULES if n not in {row["name"] for row in loops}],
    }
    return document("loop", figures, facts)


async def _loop_alone(name: str, turns: int) -> dict[str, Any] | None:
    """One loop of `bench.loops` in its own process; None when it is not installed."""
    if importlib.util.find_spec(MODULES[name]) is None:
        return None
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "geode.bench.loops", name, str(turns), stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    if process.returncode != 0:
        raise RuntimeError(f"the loop of {name} failed with exit code {process.returncode}")
    row: dict[str, Any] = json.loads(out.splitlines()[-1])
    return {"name": name, "cpu_ms": round(row["cpu_ms"], 3), "files": row["files"]}


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
