"""Streamable HTTP servers: both eras, headers, restarts, and clients that must stay apart."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from geode.core.effects import Origin
from geode.core.errors import GeodeError, ServerUnavailable

from .conftest import SERVERS, Bench, text_of
from .test_hub import until


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@contextmanager
def serving(script: str, port: int, *args: str) -> Iterator[None]:
    process = subprocess.Popen([sys.executable, str(SERVERS / script), str(port), *args])
    try:
        yield
    finally:
        process.kill()
        process.wait()


async def answering(port: int) -> None:
    for _ in range(400):
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.close()
            return
        except OSError:
            await asyncio.sleep(0.05)
    raise AssertionError("the server did not start")


async def test_an_http_server_of_the_newer_era(bench: Bench, started) -> None:
    port = free_port()
    bench.declare("web", url=f"http://127.0.0.1:{port}/mcp")
    with serving("demo.py", port):
        await answering(port)
        hub = await started()
        await hub.discover("web")
        assert hub.status()[0]["era"] == "modern"
        assert text_of(await bench.call("web__add", {"a": 1, "b": 2})) == "3"
        await bench.call("web__unlock")
        await until(lambda: "web__secret" in bench.registry)
    output = await bench.call("web__add", {"a": 1, "b": 2})
    assert output.failed and "web" in text_of(output)


async def test_R49_a_forgotten_session_is_opened_once_more_and_the_call_repeated(bench: Bench, started) -> None:
    port = free_port()
    bench.declare("web", url=f"http://127.0.0.1:{port}/mcp")
    with serving("forgetful.py", port, "once"):
        await answering(port)
        hub = await started()
        await hub.discover("web")
        await bench.call("web__forget")
        counted = json.loads(text_of(await bench.call("web__hello")))
        assert counted == {"n": 2, "lost": 0, "initialize": 2}


async def test_R49_a_server_that_always_forgets_fails_cleanly_after_one_try(bench: Bench, started) -> None:
    port = free_port()
    bench.declare("web", url=f"http://127.0.0.1:{port}/mcp")
    with serving("forgetful.py", port, "always"):
        await answering(port)
        hub = await started()
        await hub.discover("web")
        output = await bench.call("web__hello")
        assert output.failed and "Session not found" in text_of(output)


async def test_an_http_server_that_is_not_there_is_named(bench: Bench, started) -> None:
    port = free_port()
    bench.declare("web", url=f"http://127.0.0.1:{port}/mcp")
    hub = await started()
    with pytest.raises(ServerUnavailable, match=f"127.0.0.1:{port}"):
        await hub.discover("web")


async def test_R83_clients_of_the_gateway_do_not_share_a_servers_state(bench: Bench, started) -> None:
    bench.declare(max_connections=2)
    hub = await started()
    await hub.discover("demo")

    async def count(session: str) -> str:
        return text_of(await bench.call("demo__count", origin=Origin.GATEWAY, session=session))

    assert [await count("one") for _ in range(3)] == ["1", "2", "3"]
    assert [await count("two") for _ in range(3)] == ["1", "2", "3"]
    with pytest.raises(GeodeError, match="busy"):
        await count("three")
    await hub.release("one")
    assert await count("three") == "1"
    assert [text_of(await bench.call("demo__pid"))] != [
        text_of(await bench.call("demo__pid", origin=Origin.GATEWAY, session="two"))
    ]


async def test_R03_everybody_else_shares_one_process(bench: Bench, started) -> None:
    bench.declare()
    hub = await started()
    await hub.discover("demo")
    pids = await asyncio.gather(*(bench.call("demo__pid", session=f"s{i}") for i in range(5)))
    assert len({text_of(p) for p in pids}) == 1


async def test_an_answer_that_cannot_be_read_is_an_error_without_a_traceback(bench: Bench, started) -> None:
    port = free_port()
    bench.declare("web", url=f"http://127.0.0.1:{port}/mcp")
    with serving("unreadable.py", port):
        await answering(port)
        hub = await started()
        await hub.discover("web")
        output = await asyncio.wait_for(bench.call("web__ping"), 10)
    assert output.failed and "web" in text_of(output)
    assert logging.getLogger("mcp").handlers, "without one, Python prints the SDK's traceback on stderr"
