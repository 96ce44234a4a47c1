"""`geode bench gateway`: what `geode serve --stdio` adds to a call of an MCP tool.

Three clients of the official SDK call the same trivial tool in turn: directly, through a relay made
of the SDK alone, and through Geode with policy, gate and both audit records. Taking turns keeps the
comparison fair when the machine's speed drifts.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters

from .figures import Figure, document
from .peers import command

__all__ = ["measure_gateway"]

ADDED_TARGET_MS = 1.0
READY_TARGET_MS = 2500.0
_WARM_UP = 30
_TOOL = "echo__echo"
_ALLOWED = f"""
[[rules]]
name = "bench"
tool = "{_TOOL}"
verdict = "allow"
"""


async def measure_gateway(calls: int) -> dict[str, Any]:
    """Make `calls` calls in each of the three ways.

    Args:
        calls: how many of each, after some that warm up.

    Returns:
        The bench document; times in milliseconds.
    """
    with tempfile.TemporaryDirectory(prefix="geode-bench-") as folder:
        async with AsyncExitStack() as stack:
            direct = await stack.enter_async_context(Client(command("echo")))
            relay = await stack.enter_async_context(Client(command("relay")))
            began = time.perf_counter()
            ours = await stack.enter_async_context(Client(_geode(Path(folder))))
            ready = time.perf_counter() - began
            await _listed(ours)
            ways = {"direct": (direct, "echo"), "relay": (relay, "echo"), "geode": (ours, _TOOL)}
            times: dict[str, list[float]] = {way: [] for way in ways}
            for turn in range(_WARM_UP + calls):
                for way, (client, tool) in ways.items():
                    took = await _one(client, tool)
                    if turn >= _WARM_UP:
                        times[way].append(took)
    p50 = {way: statistics.median(taken) for way, taken in times.items()}
    figures = [
        Figure("added over a bare relay, p50", p50["geode"] - p50["relay"], "ms", ADDED_TARGET_MS),
        Figure("gateway ready", ready * 1000, "ms", READY_TARGET_MS),
    ]
    facts: dict[str, Any] = {"calls": calls}
    for way, taken in times.items():
        facts[f"{way}_p50_ms"] = round(p50[way], 3)
        facts[f"{way}_p95_ms"] = round(sorted(taken)[int(len(taken) * 0.95)], 3)
        facts[f"{way}_best_ms"] = round(min(taken), 3)
    return document("gateway", figures, facts)


def _geode(folder: Path) -> StdioServerParameters:
    """`geode serve` with one server behind it, whose tool the person has allowed."""
    home, project = folder / "home", folder / "project"
    home.mkdir(mode=0o700)
    project.mkdir()
    behind = command("echo")
    entry = {"command": behind.command, "args": behind.args, "effects": {"echo": ["read"]}}
    (home / "mcp.json").write_text(json.dumps({"mcpServers": {"echo": entry}}))
    (home / "config.toml").write_text(_ALLOWED)
    args = ["-m", "geode", "--home", str(home), "--project", str(project), "serve", "--stdio"]
    return StdioServerParameters(command=sys.executable, args=args)


async def _listed(client: Client) -> None:
    """Wait until the server behind has started once and its tool is known."""
    async with asyncio.timeout(60):
        while not await _offered(client):  # noqa: ASYNC110 - another process is waited for
            await asyncio.sleep(0.1)


async def _offered(client: Client) -> bool:
    return _TOOL in [tool.name for tool in (await client.list_tools(cache_mode="refresh")).tools]


async def _one(client: Client, tool: str) -> float:
    """Milliseconds of one call."""
    began = time.perf_counter()
    result = await client.call_tool(tool, {"text": "hello"})
    took = (time.perf_counter() - began) * 1000
    if result.is_error:
        raise RuntimeError(f"the bench tool failed: {result.content}")
    return took
