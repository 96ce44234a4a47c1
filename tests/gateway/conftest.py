"""Clients of the official SDK against a gateway process."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
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


@pytest.fixture(scope="session")
def shared_fronts() -> Iterator[Callable[[str], str]]:
    """HTTP gateways that all tests of a worker share: exposing -> address."""
    running: dict[str, tuple[subprocess.Popen[str], str]] = {}

    def address(expose: str) -> str:
        if expose not in running:
            command = [sys.executable, str(FRONT), "http", expose]
            process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            assert process.stdout is not None
            running[expose] = process, process.stdout.readline().strip()
        return running[expose][1]

    yield address
    for process, _ in running.values():
        process.kill()
        process.communicate()


@pytest.fixture(params=["stdio", "http"])
def connect(request: pytest.FixtureRequest, shared_fronts: Callable[[str], str]) -> Any:
    """Opens clients: `async with connect(expose, mode=…) as client`."""

    @asynccontextmanager
    async def opened(expose: str, **client: Any) -> AsyncIterator[Client]:
        where = Client(shared_fronts(expose), **client) if request.param == "http" else over_stdio(expose, **client)
        async with where as connected:
            yield connected

    return opened
