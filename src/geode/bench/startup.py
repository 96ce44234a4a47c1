"""`geode bench startup`: how long a command takes before it does anything, and what it loads."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from typing import Any

from .figures import Figure, document

__all__ = ["HEAVY", "measure_startup"]

HEAVY = ("mcp", "anthropic", "openai", "sqlalchemy", "alembic", "dbos", "pydantic", "rich", "asyncio")
"""Modules that `geode --help` must not load: each costs more than all the rest together."""

HELP_TARGET_MS = 150.0

_WHICH = """
import contextlib, io, json, sys
from geode.cli.main import main
with contextlib.redirect_stdout(io.StringIO()):
    main(["--help"])
print(json.dumps(sorted(sys.modules)))
"""


def measure_startup(runs: int) -> dict[str, Any]:
    """Start `python -m geode --help` again and again.

    Args:
        runs: how many processes, after one that warms the caches.

    Returns:
        The bench document; times in milliseconds.
    """
    words = [sys.executable, "-m", "geode", "--help"]
    _timed(words)
    times = [_timed(words) for _ in range(runs)]
    bare = [_timed([sys.executable, "-c", "pass"]) for _ in range(min(runs, 10))]
    loaded = _modules()
    heavy = [name for name in HEAVY if name in loaded]
    figures = [
        Figure("geode --help, median", statistics.median(times), "ms", HELP_TARGET_MS),
        Figure("heavy modules loaded", len(heavy), "", 0),
    ]
    facts = {
        "runs": runs,
        "best_ms": round(min(times), 1),
        "worst_ms": round(max(times), 1),
        "bare_python_ms": round(statistics.median(bare), 1),
        "modules": len(loaded),
        "heavy": heavy,
    }
    return document("startup", figures, facts)


def _timed(words: list[str]) -> float:
    started = time.perf_counter()
    subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    return (time.perf_counter() - started) * 1000


def _modules() -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", _WHICH], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)
