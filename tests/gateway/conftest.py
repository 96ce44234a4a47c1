"""Clients of the official SDK against a gateway process."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mcp import Client, StdioServerParameters

FRONT = Path(__file__).with_name("front.py")


def over_stdio(expose: str, *more: str, **client: Any) -> Client:
    server = StdioServerParameters(command=sys.executable, args=[str(FRONT), "stdio", expose, *more])
    return Client(server, **client)


@asynccontextmanager
async def http_front(expose: str, *more: str) -> AsyncIterator[str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(FRONT), "http", expose, *more, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(30):
            line = await process.stdout.readline()
        yield line.decode().strip()
    finally:
        process.terminate()
        await process.wait()


@pytest.fixture(params=["legacy", "auto"])
def era(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(params=["stdio", "http"])
async def connect(request: pytest.FixtureRequest) -> AsyncIterator[Any]:
    """Opens clients: `async with connect(expose, mode=…) as client`."""
    fronts: dict[str, Any] = {}

    @asynccontextmanager
    async def opened(expose: str, **client: Any) -> AsyncIterator[Client]:
        if request.param == "stdio":
            async with over_stdio(expose, **client) as connected:
                yield connected
        else:
            async with http_front(expose) as url, Client(url, **client) as connected:
                yield connected

    yield opened
    fronts.clear()
