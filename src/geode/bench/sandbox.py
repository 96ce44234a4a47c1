"""`geode bench sandbox`: what the sandbox adds to the run of a small program.

The same program runs bare and in the sandbox, in turn, with a writable workspace of a few files.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from ..containment.sandbox.runner import SandboxRunner
from ..core.ports import ProcessSpec
from .figures import Figure, document

__all__ = ["measure_sandbox"]

ADDED_TARGET_MS = 15.0
_WARM_UP = 5


async def measure_sandbox(runs: int) -> dict[str, Any]:
    """Run the program `runs` times in each way.

    Args:
        runs: how many of each, after some that warm up.

    Returns:
        The bench document; times in milliseconds.

    Raises:
        SandboxUnavailable: there is none here.
    """
    program = shutil.which("true") or "/bin/true"
    with tempfile.TemporaryDirectory(prefix="geode-bench-") as folder:
        project, home = _places(Path(folder))
        runner = SandboxRunner(home=home)
        spec = ProcessSpec(argv=(program,), cwd=project, writable=(project,))

        async def bare() -> int | None:
            pipe = asyncio.subprocess.PIPE
            process = await asyncio.create_subprocess_exec(program, stdin=None, stdout=pipe, stderr=pipe, cwd=project)
            await process.communicate()
            return process.returncode

        async def contained() -> int | None:
            return (await runner.run(spec)).exit_code

        pairs = [(await _timed(bare), await _timed(contained)) for _ in range(_WARM_UP + runs)][_WARM_UP:]
        backend = (await runner.backend()).name
    added = [inside - outside for outside, inside in pairs]
    figures = [Figure("added by the sandbox, median", statistics.median(added), "ms", ADDED_TARGET_MS)]
    facts = {
        "runs": runs,
        "backend": backend,
        "as_root": hasattr(os, "geteuid") and os.geteuid() == 0,
        "added_best_ms": round(min(added), 2),
        "bare_median_ms": round(statistics.median(outside for outside, _ in pairs), 2),
        "bare_best_ms": round(min(outside for outside, _ in pairs), 2),
        "sandbox_median_ms": round(statistics.median(inside for _, inside in pairs), 2),
        "sandbox_best_ms": round(min(inside for _, inside in pairs), 2),
    }
    return document("sandbox", figures, facts)


def _places(folder: Path) -> tuple[Path, Path]:
    """A project with a few files, and a home."""
    project, home = folder / "project", folder / "home"
    home.mkdir(mode=0o700)
    for number in range(20):
        file = project / f"part{number % 4}" / f"file{number}.txt"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("text\n")
    return project, home


async def _timed(run: Callable[[], Awaitable[int | None]]) -> float:
    """Milliseconds until it has ended."""
    began = time.perf_counter()
    code = await run()
    took = (time.perf_counter() - began) * 1000
    if code != 0:
        raise RuntimeError(f"the bench program ended with {code}")
    return took
