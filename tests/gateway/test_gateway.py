"""The gateway as clients of the official SDK see it: both eras, both transports."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest

from geode.core.errors import GeodeError, UsageError
from geode.gateway.http import serve_http
from geode.gateway.modes import META_TOOLS
from geode.gateway.parts import GatewayParts
from geode.tools.registry import ToolRegistry
from mcp import Client

from .conftest import http_front, over_stdio


def text_of(result: Any) -> str:
    return "\n".join(getattr(b, "text", "") for b in result.content)


async def test_direct_lists_and_calls_every_tool(connect: Any, era: str) -> None:
    async with connect("direct", mode=era) as client:
        assert client.protocol_version == ("2025-11-25" if era == "legacy" else "2026-07-28")
        names = [t.name for t in (await client.list_tools()).tools]
        assert {"add", "slow", "who"} <= set(names)
        result = await client.call_tool("add", {"a": 2, "b": 40})
        assert not result.is_error and result.structured_content == {"sum": 42} and '"sum": 42' in text_of(result)
        assert result.meta["geode"]["call_id"].startswith("call_") and result.meta["geode"]["status"] == "ok"


async def test_search_offers_three_tools_and_calls_the_target(connect: Any, era: str) -> None:
    async with connect("search", mode=era) as client:
        names = [t.name for t in (await client.list_tools()).tools]
        assert names == ["tool_search", "tool_inspect", "tool_call"]
        shown = text_of(await client.call_tool("tool_inspect", {"name": "add"}))
        assert "Add two whole numbers" in shown and "inputSchema" in shown
        through = await client.call_tool("tool_call", {"name": "add", "arguments": {"a": 1, "b": 2}})
        assert through.structured_content == {"sum": 3}
        as_text = await client.call_tool("tool_call", {"name": "add", "arguments": '{"a": 1, "b": 2}'})
        assert as_text.structured_content == {"sum": 3}
        assert (await client.call_tool("add", {"a": 1, "b": 1})).structured_content == {"sum": 2}
        wrong = await client.call_tool("tool_call", {"name": "add", "arguments": {"a": "x"}})
        assert wrong.is_error and "Arguments of add" in text_of(wrong)
        nameless = await client.call_tool("tool_call", {"arguments": {}})
        assert nameless.is_error and "needs the name" in text_of(nameless)
        unknown = await client.call_tool("tool_call", {"name": "ad"})
        assert unknown.is_error and "Did you mean: add" in text_of(unknown)


async def test_denials_and_errors_are_readable_results(connect: Any, era: str) -> None:
    async with connect("direct", mode=era) as client:
        denied = await client.call_tool("forbidden", {})
        assert denied.is_error and "You may use add" in text_of(denied)
        assert denied.meta["geode"]["status"] == "denied"
        unknown = await client.call_tool("nothing_like_it", {})
        assert unknown.is_error and unknown.meta["geode"]["error_code"] == "unknown_tool"
        waiting = await client.call_tool("ask_me", {"what": "it"})
        assert waiting.is_error and "geode approvals approve" in text_of(waiting)
        assert waiting.meta["geode"]["approval_id"]


async def test_pictures_pass_as_pictures(connect: Any, era: str) -> None:
    async with connect("direct", mode=era) as client:
        result = await client.call_tool("picture", {})
        assert result.content[1].type == "image" and result.content[1].data == "aGVsbG8="
        assert result.structured_content == (None if era == "legacy" else [1, 2])


async def test_one_session_and_a_principal_per_client(connect: Any, era: str) -> None:
    info = types.Implementation(name="some-editor", version="1")
    async with connect("direct", mode=era, client_info=info) as client:
        first = (await client.call_tool("who", {})).structured_content
        second = (await client.call_tool("who", {})).structured_content
        assert first == second
        assert first["principal"] == "mcp:some-editor" and first["origin"] == "gateway" and first["session"]


async def test_progress_reaches_a_client_that_asked_for_it(connect: Any, era: str) -> None:
    seen: list[tuple[float, Any]] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, message))

    async with connect("direct", mode=era) as client:
        result = await client.call_tool("slow", {"seconds": 0.3}, progress_callback=note)
        assert text_of(result) == "done"
    assert (0.6, "step 3") in seen and [p for p, _ in seen] == sorted(p for p, _ in seen)


async def test_cancelling_a_request_cancels_the_call_and_lets_the_gate_finish(
    connect: Any, era: str, tmp_path: Path
) -> None:
    marker = tmp_path / "marker"
    async with connect("direct", mode=era) as client:
        task = asyncio.create_task(client.call_tool("slow", {"seconds": 30, "marker": str(marker)}))
        await asyncio.sleep(0.7)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        for _ in range(200):
            if marker.exists():
                break
            await asyncio.sleep(0.02)
        assert marker.read_text() == "cancelled and recorded"
        assert not (await client.call_tool("add", {"a": 1, "b": 1})).is_error


@pytest.mark.parametrize("answer", ["yes", "no", "closed"])
async def test_the_persons_answer_decides_a_call_that_asks(connect: Any, era: str, answer: str) -> None:
    asked: list[str] = []

    async def person(context: Any, params: Any) -> types.ElicitResult:
        asked.append(params.message)
        if answer == "closed":
            return types.ElicitResult(action="cancel")
        return types.ElicitResult(action="accept", content={"approve": answer == "yes", "reason": "not today"})

    async with connect("direct", mode=era, elicitation_callback=person) as client:
        result = await client.call_tool("ask_me", {"what": "the thing"})
    assert len(asked) == 1 and "ask_me" in asked[0] and "the thing" in asked[0]
    if answer == "yes":
        assert text_of(result) == "did the thing" and not result.is_error
    elif answer == "no":
        assert result.is_error and "Denied by the person: not today" in text_of(result)
    else:
        assert result.is_error and result.meta["geode"]["status"] == "needs_approval"


async def test_R24_the_notice_of_a_changed_list_is_passed_on_legacy(connect: Any) -> None:
    noticed = asyncio.Event()

    async def on_message(message: Any) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            noticed.set()

    async with connect("direct", mode="legacy", message_handler=on_message) as client:
        assert client.server_capabilities.tools.list_changed is True
        await asyncio.sleep(0.2)
        await client.call_tool("grow", {})
        async with asyncio.timeout(5):
            await noticed.wait()
        assert "grown" in [t.name for t in (await client.list_tools()).tools]


async def test_R24_the_notice_of_a_changed_list_is_passed_on_modern(connect: Any) -> None:
    async with connect("direct", mode="auto") as client:
        async with client.listen(tools_list_changed=True) as stream:
            await client.call_tool("grow", {})
            async with asyncio.timeout(5):
                async for _ in stream:
                    break
        assert "grown" in [t.name for t in (await client.list_tools(cache_mode="refresh")).tools]


async def test_R90_a_tool_whose_child_reads_stdin_does_not_hang(era: str) -> None:
    async with over_stdio("direct", mode=era) as client, asyncio.timeout(20):
        assert text_of(await client.call_tool("child_reads_stdin", {})) == "0"
        assert not (await client.call_tool("add", {"a": 1, "b": 1})).is_error


async def test_two_http_clients_of_the_older_era_have_separate_sessions() -> None:
    async with http_front("direct") as url, Client(url, mode="legacy") as one, Client(url, mode="legacy") as two:
        a = (await one.call_tool("who", {})).structured_content["session"]
        b = (await two.call_tool("who", {})).structured_content["session"]
        assert a != b


async def test_foreign_hosts_and_origins_are_refused() -> None:
    import httpx2

    body = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    headers = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
    async with http_front("direct") as url, httpx2.AsyncClient() as client:
        bad_host = await client.post(url, json=body, headers={**headers, "host": "evil.example"})
        bad_origin = await client.post(url, json=body, headers={**headers, "origin": "http://evil.example"})
        assert bad_host.status_code == 421 and bad_origin.status_code == 403


def test_the_definitions_of_search_mode_cost_at_most_400_tokens() -> None:
    """Common tokenizers need about 4 characters of such JSON for one token; 3 leaves a margin."""
    text = json.dumps(META_TOOLS, separators=(",", ":"))
    assert len(text) / 3 <= 400


async def test_R83_counters_behind_the_gateway_are_kept_per_client(tmp_path: Path) -> None:
    home, project = tmp_path / "home", tmp_path / "project"
    home.mkdir()
    project.mkdir()
    demo = Path(__file__).parents[1] / "mcp" / "servers" / "demo.py"
    (home / "mcp.json").write_text(
        json.dumps({"mcpServers": {"demo": {"command": sys.executable, "args": [str(demo)]}}})
    )
    async with (
        http_front("direct", str(home), str(project)) as url,
        Client(url, mode="legacy") as one,
        Client(url, mode="legacy") as two,
    ):
        for _ in range(200):
            if "demo__count" in [t.name for t in (await one.list_tools(cache_mode="refresh")).tools]:
                break
            await asyncio.sleep(0.05)
        assert [text_of(await one.call_tool("demo__count", {})) for _ in range(3)] == ["1", "2", "3"]
        assert [text_of(await two.call_tool("demo__count", {})) for _ in range(3)] == ["1", "2", "3"]
        untouched = await one.call_tool("demo__echo", {"value": [1, {"a": None}]})
        assert untouched.structured_content == {"value": [1, {"a": None}]}  # R58
        error = await one.call_tool("demo__fail", {"text": "no such project"})
        assert error.is_error and text_of(error) == "no such project"


async def test_R24_a_servers_new_tool_reaches_the_client_of_the_gateway(tmp_path: Path) -> None:
    demo = Path(__file__).parents[1] / "mcp" / "servers" / "demo.py"
    (tmp_path / "mcp.json").write_text(
        json.dumps({"mcpServers": {"demo": {"command": sys.executable, "args": [str(demo)]}}})
    )
    noticed = asyncio.Event()

    async def on_message(message: Any) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            noticed.set()

    front = over_stdio("direct", str(tmp_path), str(tmp_path), mode="legacy", message_handler=on_message)
    async with front as client, asyncio.timeout(30):
        while "demo__unlock" not in [t.name for t in (await client.list_tools()).tools]:
            await asyncio.sleep(0.05)
        noticed.clear()
        await client.call_tool("demo__unlock", {})
        await noticed.wait()
        assert text_of(await client.call_tool("demo__secret", {})) == "swordfish"
        await client.call_tool("demo__lock", {})
        gone = await client.call_tool("demo__secret", {})
        assert gone.is_error and "no longer offered" in text_of(gone)


async def test_a_token_keeps_strangers_out(tmp_path: Path) -> None:
    import httpx2

    parts = GatewayParts(registry=ToolRegistry(), caller=Nobody(), cwd=tmp_path)
    where: asyncio.Queue[str] = asyncio.Queue()
    stop = asyncio.Event()
    server = asyncio.create_task(serve_http(parts, token="right", ready=where.put_nowait, stop=stop))
    url = await where.get()
    async with httpx2.AsyncClient() as client:
        assert (await client.post(url, json={})).status_code == 401
        assert (await client.post(url, json={}, headers={"authorization": "Bearer wrong"})).status_code == 401
        assert (await client.post(url, json={}, headers={"authorization": "Bearer right"})).status_code != 401
    port = int(url.rpartition(":")[2].partition("/")[0])
    with pytest.raises(GeodeError, match="cannot listen"):
        await serve_http(parts, port=port)
    stop.set()
    await server
    with pytest.raises(UsageError, match="reached by others"):
        await serve_http(parts, "0.0.0.0")
    with pytest.raises(GeodeError, match="cannot listen"):
        await serve_http(parts, "203.0.113.1", token="t")


class Nobody:
    """A gate for fronts that are never asked to call."""

    async def call(self, call: Any) -> Any:
        raise AssertionError("not reached")
