"""`geode serve` itself: the real gate, policy, record and servers behind the gateway."""

from __future__ import annotations

import asyncio
import json
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
