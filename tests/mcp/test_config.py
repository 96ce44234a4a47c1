"""Server files: expansion, scopes, precedence, edits."""

from __future__ import annotations

import json
import multiprocessing
import os
from pathlib import Path

import pytest

from geode.core.effects import Effect
from geode.core.errors import ConfigError
from geode.mcp.config import ServerConfig, add_server, load_servers, remove_server, server_file

from .conftest import Bench

ENVIRON = {"T": "a$b", "N": "${T}", "EMPTY": ""}


@pytest.mark.parametrize(
    ("raw", "expanded"),
    [
        ("${T}", "a$b"),
        ("${M:-d f}", "d f"),
        ("${EMPTY:-d}", "d"),
        ("${EMPTY}", ""),
        ("${M:-}", ""),
        ("$${x}", "${x}"),
        ("$$", "$$"),
        ("$T", "$T"),
        ("a${T}b${N}c", "aa$bb${T}c"),
        ("${not a name}", "${not a name}"),
    ],
)
def test_R37_one_rule_in_every_field(raw: str, expanded: str) -> None:
    stdio = ServerConfig(name="a", command=raw, args=(raw, raw), env={"K": raw}, cwd=raw).resolve(ENVIRON)
    web = ServerConfig(name="a", url=raw, headers={"H": raw}).resolve(ENVIRON)
    assert {stdio.command, *stdio.args, stdio.env["K"], stdio.cwd, web.url, web.headers["H"]} == {expanded}


def test_R37_every_unset_variable_is_named_with_its_fields() -> None:
    config = ServerConfig(name="a", command="${X}", args=("${Y}", "${X}"), headers={"H": "${Z}"})
    with pytest.raises(ConfigError, match=r"X \(in command, args\[1\]\), Y \(in args\[0\]\), Z \(in headers.H\)"):
        config.resolve({})


def test_the_users_server_keeps_its_name(bench: Bench) -> None:
    bench.declare("same", "raw.py", "plain")
    bench.declare("same", "demo.py", scope="project")
    (bench.project / ".mcp.json").write_text('{"mcpServers": {"other": {"url": "http://127.0.0.1:1/mcp"}}}')
    found = load_servers(bench.project, bench.home)
    assert found.servers["same"].scope == "user"
    assert found.servers["other"].url.endswith("/mcp")
    assert [p.server for p in found.problems] == ["same"]


@pytest.mark.parametrize(
    ("entry", "what"),
    [
        ('{"command": "a", "url": "http://x"}', "either a command or a url"),
        ("{}", "either a command or a url"),
        ('{"command": 3}', "command must be text"),
        ('{"command": "a", "args": "b"}', "args must be a list"),
        ('{"command": "a", "env": {"K": 1}}', "env.K must be text"),
        ('{"url": "ftp://x"}', "must start with http"),
        ('{"url": "http://x", "headers": {"A": "b\\nc: d"}}', "headers.A must be one line"),
        ('{"url": "http://x", "type": "sse"}', "old SSE transport"),
        ('{"command": "a", "start_timeout": 0}', "start_timeout must be a number above 0"),
        ('{"command": "a", "effects": {"*": ["fly"]}}', "effects"),
        ("[]", "is not an object"),
    ],
)
def test_a_bad_entry_is_reported_and_costs_only_itself(bench: Bench, entry: str, what: str) -> None:
    (bench.home / "mcp.json").write_text(f'{{"mcpServers": {{"bad": {entry}, "good": {{"command": "x"}}}}}}')
    found = load_servers(bench.project, bench.home)
    assert list(found.servers) == ["good"]
    assert what in found.problems[0].message and "bad" in found.problems[0].message


@pytest.mark.parametrize("name", ["a__b", "", "a b", "../x", "a" * 65, "-a"])
def test_names_that_cannot_be_a_prefix_are_refused(bench: Bench, name: str) -> None:
    with pytest.raises(ConfigError, match="usable name"):
        add_server(bench.home / "mcp.json", name, {"command": "x"})
    assert not (bench.home / "mcp.json").exists()


def test_effects_count_only_in_the_users_file(bench: Bench) -> None:
    bench.declare("mine", effects={"*": ["read"], "write": ["write", "network"]})
    bench.declare("theirs", scope="project", effects={"*": []})
    servers = load_servers(bench.project, bench.home).servers
    assert servers["mine"].effects_of("any") == {Effect.READ}
    assert servers["mine"].effects_of("write") == {Effect.WRITE, Effect.NETWORK}
    assert servers["theirs"].effects_of("any") is None


def test_E9_a_claude_file_is_read_and_written_where_it_exists(bench: Bench) -> None:
    assert server_file(bench.project, bench.home, "project") == bench.project / ".geode" / "mcp.json"
    claude = bench.project / ".claude" / "mcp_servers.json"
    claude.parent.mkdir()
    claude.write_text('{"flat": {"command": "x", "comment": "kept"}}')
    path = server_file(bench.project, bench.home, "project")
    assert path == claude
    add_server(path, "new", {"command": "npx", "args": ["-y", "thing"], "env": {"TOKEN": "${TOKEN}"}})
    document = json.loads(claude.read_text())
    assert document["flat"]["comment"] == "kept"
    assert document["new"]["env"] == {"TOKEN": "${TOKEN}"}
    assert set(load_servers(bench.project, bench.home).servers) == {"flat", "new"}


def test_an_edit_keeps_what_it_does_not_know_and_the_mode(bench: Bench) -> None:
    path = bench.home / "mcp.json"
    path.write_text('{"theme": "dark", "mcpServers": {"a": {"command": "x", "odd": [1]}}}')
    path.chmod(0o640)
    with pytest.raises(ConfigError, match="already"):
        add_server(path, "a", {"command": "y"})
    add_server(path, "a", {"command": "y"}, replace=True)
    document = json.loads(path.read_text())
    assert document == {"theme": "dark", "mcpServers": {"a": {"odd": [1], "command": "y"}}}
    assert path.stat().st_mode & 0o777 == 0o640
    assert remove_server(path, "a") and not remove_server(path, "a")
    assert json.loads(path.read_text()) == {"theme": "dark", "mcpServers": {}}
    assert [p.name for p in path.parent.iterdir()] == ["mcp.json"]


def test_a_new_user_file_is_private(bench: Bench) -> None:
    add_server(bench.home / "mcp.json", "a", {"command": "x"})
    assert (bench.home / "mcp.json").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"{", "line 1, column 2"),
        (b"\xff\xfe", "not UTF-8"),
        (b"[]", "JSON object"),
        (b"[" * 100_000, "nested too deeply"),
    ],
)
def test_a_broken_file_is_named_and_left_alone(bench: Bench, content: bytes, what: str) -> None:
    path = bench.home / "mcp.json"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=what):
        add_server(path, "a", {"command": "x"})
    assert path.read_bytes() == content
    found = load_servers(bench.project, bench.home)
    assert found.servers == {} and what in found.problems[0].message


@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
def test_what_is_no_regular_file_is_named_and_not_waited_for(bench: Bench, kind: str) -> None:
    path = bench.home / "mcp.json"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        path.mkdir()
    found = load_servers(bench.project, bench.home)
    assert found.servers == {} and "not a regular file" in found.problems[0].message
    with pytest.raises(ConfigError, match="not a regular file"):
        add_server(path, "a", {"command": "x"})


def test_a_file_with_a_byte_order_mark_is_read(bench: Bench) -> None:
    (bench.home / "mcp.json").write_bytes(b'\xef\xbb\xbf{"servers": {"a": {"command": "x"}}}')
    assert list(load_servers(bench.project, bench.home).servers) == ["a"]


def add_many(path: Path, first: int) -> None:
    for i in range(first, first + 15):
        add_server(path, f"s{i}", {"command": "x"})


def test_two_processes_that_add_at_once_lose_nothing(bench: Bench) -> None:
    path = bench.home / "mcp.json"
    spawn = multiprocessing.get_context("fork")
    workers = [spawn.Process(target=add_many, args=(path, n)) for n in (0, 100)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(load_servers(bench.project, bench.home).servers) == 30
