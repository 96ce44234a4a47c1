"""`geode serve` and `geode mcp` as people use them: an official client, real servers, signals."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mcp import Client, StdioServerParameters

from .conftest import Place

SERVER = '''\
from mcp.server.mcpserver import MCPServer

server = MCPServer("demo")


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


server.run("stdio")
'''


def serve_words(geode: Place, *more: str) -> list[str]:
    return [*geode.words("serve", *more), "--project", str(geode.project), "--home", str(geode.home)]


async def test_an_official_client_lists_and_calls_over_stdio(geode: Place):
    geode.write("a.txt", "hello\n")
    words = serve_words(geode, "--stdio")
    server = StdioServerParameters(command=words[0], args=words[1:], env=geode.env, cwd=str(geode.project))
    async with Client(server, read_timeout_seconds=30) as client:
        names = {tool.name for tool in (await client.list_tools()).tools}
        assert {"tool_search", "read_file", "shell_exec"} <= names
        assert "hello" in (await client.call_tool("read_file", {"path": "a.txt"})).content[0].text  # type: ignore[union-attr]
        refused = await client.call_tool("shell_exec", {"command": "rm -rf ~"})
        assert refused.is_error
    calls = geode.process("audit", "list", "--json").json["calls"]
    assert [(c["tool"], c["status"], c["origin"]) for c in calls] == [
        ("shell_exec", "denied", "gateway"),
        ("read_file", "ok", "gateway"),
    ]


def test_R05_a_client_that_sends_nonsense_or_half_a_character_is_answered(geode: Place):
    def request(id: int, method: str, params: str) -> str:
        return f'{{"jsonrpc": "2.0", "id": {id}, "method": "{method}", "params": {params}}}'

    hello = '{"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}}'
    lines = [
        request(1, "initialize", hello),
        '{"jsonrpc": "2.0", "method": "notifications/initialized"}',
        request(2, "tools/call", r'{"name": "read_file", "arguments": {"path": "no \ud99c"}}'),
        request(3, "tools/list", "[1]"),
        "hello",
    ]
    process = subprocess.Popen(
        serve_words(geode, "--stdio"), env=geode.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None and process.stdout is not None
    with process, process.stdin:
        process.stdin.write("\n".join(lines) + "\n")
        process.stdin.flush()
        answers = {a["id"]: a for a in (json.loads(process.stdout.readline()) for _ in range(4))}
    assert "no \ufffd" in answers[2]["result"]["content"][0]["text"]
    assert answers[3]["error"]["code"] == -32600
    assert answers[None]["error"]["code"] == -32700


async def test_over_http_with_search_and_sigterm_ends_it(geode: Place):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        serve_words(geode, "--http", f"127.0.0.1:{port}", "--expose", "search"),
        env=geode.env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        await _listening(port)
        async with Client(f"http://127.0.0.1:{port}/mcp", read_timeout_seconds=30) as client:
            names = [tool.name for tool in (await client.list_tools()).tools]
            assert names == ["tool_search", "tool_inspect", "tool_call"]
            listed = await client.call_tool("tool_call", {"name": "list_directory", "arguments": {}})
            assert not listed.is_error
    finally:
        process.send_signal(signal.SIGTERM)
        out, err = await asyncio.to_thread(process.communicate, timeout=20)
    assert process.returncode == 0
    assert out == b""
    assert b"Traceback" not in err


async def _listening(port: int) -> None:
    end = time.monotonic() + 30
    while True:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            assert time.monotonic() < end, "the gateway did not come up"
            await asyncio.sleep(0.1)
        else:
            writer.close()
            return


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_ends_the_stdio_gateway_quietly(geode: Place, number: int, code: int):
    process = subprocess.Popen(
        serve_words(geode, "--stdio"),
        env=geode.env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    database = geode.home / "geode.db-wal"
    end = time.monotonic() + 30
    while not database.exists() and time.monotonic() < end:
        time.sleep(0.1)
    time.sleep(1.0)
    process.send_signal(number)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out) == (code, b"")
    assert b"Traceback" not in err
    assert len(err.splitlines()) <= 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_the_http_gateway_quietly_with_a_client_connected(geode: Place, number: int):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        serve_words(geode, "--http", f"127.0.0.1:{port}"),
        env=geode.env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        await _listening(port)
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        process.send_signal(number)
        out, err = await asyncio.to_thread(process.communicate, timeout=20)
        writer.close()
    finally:
        process.kill()
        process.wait()
    assert out == b""
    assert process.returncode == (130 if number == signal.SIGINT else 0)
    assert b"Traceback" not in err
    assert len(err.splitlines()) <= 2
    with pytest.raises(ProcessLookupError):  # its session is empty: no child stays
        os.killpg(process.pid, 0)


def test_a_server_is_added_used_and_removed(geode: Place):
    geode.write("server.py", SERVER)
    added = geode("mcp", "add", "demo", "--json", "--", sys.executable, "server.py")
    assert (added.code, added.json["tools"]) == (0, 1), added.out
    assert geode("trust", "--show", "--json").json["state"] == "trusted"
    listed = geode("mcp", "list", "--json").json["servers"]
    assert [(s["name"], s["state"], s["tools"]) for s in listed] == [("demo", "idle", 1)]
    tools = geode("tools", "list", "--source", "mcp:demo", "--json").json["tools"]
    assert [(t["name"], t["server"], t["effects"]) for t in tools] == [("demo__add", "demo", None)]
    asked = geode("tools", "call", "demo__add", "--args", '{"a": 1, "b": 2}', "--json")
    assert asked.code == 4
    assert asked.json["error"]["fix"].startswith("geode approvals approve appr_")
    done = geode("tools", "call", "demo__add", "--args", '{"a": 1, "b": 2}', "--allow", "demo__add", "--json")
    assert (done.code, done.json["text"]) == (0, "3")
    status = geode("mcp", "status", "demo", "--json").json["servers"][0]
    assert {"name", "state", "era", "tools", "pid", "last_error", "stderr_tail"} <= set(status)
    assert status["state"] == "ready"
    assert geode("mcp", "remove", "demo").code == 0
    assert geode("tools", "show", "demo__add").code == 2


def test_a_server_that_cannot_start_is_saved_and_reported(geode: Place):
    added = geode("mcp", "add", "demo", "--json", "--", "/no/such/program")
    assert added.code == 5
    assert "/no/such/program" in added.json["error"]["message"]
    assert geode("mcp", "list", "--json").json["servers"][0]["name"] == "demo"


def test_an_untrusted_project_stays_untrusted_when_a_server_is_added(geode: Place):
    geode.write(".mcp.json", '{"mcpServers": {"theirs": {"command": "true"}}}')
    added = geode("mcp", "add", "mine", "--no-connect", "--", "true")
    assert added.code == 0
    assert "geode trust" in added.err
    states = {s["name"]: s["state"] for s in geode("mcp", "list", "--json").json["servers"]}
    assert states == {"mine": "untrusted", "theirs": "untrusted"}
    assert geode("trust", "--json").json["state"] == "trusted"
    states = {s["name"]: s["state"] for s in geode("mcp", "list", "--json").json["servers"]}
    assert states == {"mine": "idle", "theirs": "idle"}
    assert geode("trust", "--revoke", "--json").json["state"] == "untrusted"


def test_doctor_and_config_report(geode: Place):
    doctor = geode("doctor", "--json")
    assert {c["name"] for c in doctor.json["checks"]} >= {"home", "sandbox", "database", "policy"}
    assert doctor.code == (0 if doctor.json["ok"] else 1)
    shown = geode("config", "show", "--mode", "read_only", "--json").json["settings"]
    assert shown["mode"] == {"value": "read_only", "origin": "command line"}


def test_the_files_of_the_first_run_are_made_again_byte_for_byte(tmp_path: Path):
    pytest.importorskip("reportlab")
    example = Path(__file__).resolve().parents[2] / "examples" / "first-run"
    subprocess.run([sys.executable, str(example / "make_files.py"), str(tmp_path)], check=True, timeout=60)
    made = sorted(p.relative_to(tmp_path) for p in tmp_path.rglob("*") if p.is_file())
    assert len(made) == 12
    for name in made:
        assert (tmp_path / name).read_bytes() == (example / name).read_bytes(), name


@pytest.mark.timeout(120)
def test_the_first_run_behaves(geode: Place):
    import json

    run = Path(__file__).resolve().parents[2] / "examples" / "first-run" / "run.py"
    done = subprocess.run(
        [sys.executable, str(run), "--json"],
        env={**geode.env, "TMPDIR": str(geode.root)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    document = json.loads(done.stdout)
    assert [(s["title"], s["proof"]) for s in document["steps"] if not s["ok"]] == []
    assert len(document["steps"]) == 10
    assert done.returncode == 0
    assert not (geode.user_home / ".geode").exists()
