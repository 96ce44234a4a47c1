"""`geode serve` itself: the real gate, policy, record and servers behind the gateway."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest

from mcp import Client, StdioServerParameters

DEMO = Path(__file__).parents[1] / "mcp" / "servers" / "demo.py"


def geode(home: Path, project: Path, *more: str, **client: Any) -> Client:
    home.mkdir(exist_ok=True)
    project.mkdir(exist_ok=True)
    args = ["-m", "geode", "serve", "--stdio", "--home", str(home), "--project", str(project), *more]
    return Client(StdioServerParameters(command=sys.executable, args=args), **client)


def text_of(result: Any) -> str:
    return "\n".join(getattr(b, "text", "") for b in result.content)


def declare(home: Path, **more: Any) -> None:
    home.mkdir(exist_ok=True)
    entry = {"command": sys.executable, "args": [str(DEMO)], **more}
    (home / "mcp.json").write_text(json.dumps({"mcpServers": {"demo": entry}}))


async def offered(client: Client, name: str) -> None:
    async with asyncio.timeout(30):
        while name not in [t.name for t in (await client.list_tools(cache_mode="refresh")).tools]:
            await asyncio.sleep(0.1)


async def test_the_whole_path_read_search_refuse(tmp_path: Path, era: str) -> None:
    home, project = tmp_path / "home", tmp_path / "project"
    project.mkdir()
    (project / "a.txt").write_text("hello\n")
    async with geode(home, project, "--expose", "search", mode=era) as client:
        found = await client.call_tool("tool_search", {"query": "read a text file"})
        assert "read_file" in text_of(found)
        read = await client.call_tool("tool_call", {"name": "read_file", "arguments": {"path": "a.txt"}})
        assert "hello" in text_of(read) and not read.is_error
        escape = await client.call_tool("tool_call", {"name": "read_file", "arguments": {"path": "../../etc/shadow"}})
        assert escape.is_error
        home_wipe = await client.call_tool("tool_call", {"name": "shell_exec", "arguments": {"command": "rm -rf ~"}})
        assert home_wipe.is_error and home_wipe.meta["geode"]["status"] == "denied"


async def test_a_servers_tool_asks_until_its_effects_are_declared_by_the_user(tmp_path: Path, era: str) -> None:
    home, project = tmp_path / "home", tmp_path / "project"
    declare(home)
    async with geode(home, project, mode=era) as client:
        await offered(client, "demo__add")
        waiting = await client.call_tool("demo__add", {"a": 1, "b": 2})
        assert waiting.is_error and waiting.meta["geode"]["status"] == "needs_approval"
        assert "geode approvals approve" in text_of(waiting)


@pytest.mark.parametrize("answer", [True, False])
async def test_the_clients_person_can_approve_exactly_one_call(tmp_path: Path, era: str, answer: bool) -> None:
    home, project = tmp_path / "home", tmp_path / "project"
    declare(home)
    asked: list[str] = []

    async def person(context: Any, params: Any) -> types.ElicitResult:
        asked.append(params.message)
        return types.ElicitResult(action="accept", content={"approve": answer})

    async with geode(home, project, mode=era, elicitation_callback=person) as client:
        await offered(client, "demo__add")
        result = await client.call_tool("demo__add", {"a": 1, "b": 2})
        assert len(asked) == 1 and "demo__add" in asked[0]
        if answer:
            assert result.structured_content == {"sum": 3}
        else:
            assert result.meta["geode"]["status"] == "denied"
        await client.call_tool("demo__add", {"a": 1, "b": 2})
        assert len(asked) == 2


async def test_serve_over_http_and_its_end(tmp_path: Path) -> None:
    home, project = tmp_path / "home", tmp_path / "project"
    project.mkdir()
    marker = tmp_path / "pids"
    declare(home, env={"DEMO_MARKER": str(marker)}, effects={"*": ["read"]})
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "geode", "serve", "--http", "127.0.0.1:0"),
        *("--home", str(home), "--project", str(project)),
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    async with asyncio.timeout(30):
        line = (await process.stderr.readline()).decode()
    url = next(word for word in line.split() if word.startswith("http"))
    for mode in ("legacy", "auto"):
        async with Client(url, mode=mode) as client:
            await offered(client, "demo__add")
            assert not (await client.call_tool("list_directory", {"path": "."})).is_error
    process.send_signal(signal.SIGINT)
    async with asyncio.timeout(20):
        assert await process.wait() in (130, -signal.SIGINT)
    assert [p for p in pids(marker) if running(p)] == []


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("how", ["the client leaves", "SIGKILL"])
async def test_R03_no_server_outlives_the_gateway(tmp_path: Path, how: str) -> None:
    home, project = tmp_path / "home", tmp_path / "project"
    marker = tmp_path / "pids"
    declare(home, env={"DEMO_MARKER": str(marker)})
    if how == "SIGKILL":
        args = ["-m", "geode", "serve", "--stdio", "--home", str(home), "--project", str(tmp_path)]
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(sys.executable, *args, stdin=pipe, stdout=pipe)
        async with asyncio.timeout(30):
            while not pids(marker):
                await asyncio.sleep(0.05)
        process.kill()
        await process.wait()
    else:
        async with geode(home, project) as client:
            await offered(client, "demo__add")
    async with asyncio.timeout(10):
        while any(running(p) for p in pids(marker)):
            await asyncio.sleep(0.05)


def pids(marker: Path) -> list[int]:
    return [int(word) for word in marker.read_text().split() if word.isdigit()] if marker.exists() else []


def running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
