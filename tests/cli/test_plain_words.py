"""What the commands say to people, and what they refuse with the choices there are."""

from __future__ import annotations

import json
import sys

import pytest

from .conftest import Place

TOOLS = {
    "tools": [
        {"name": "count_words", "description": "Count words", "command": ["wc", "-w"], "effects": ["read"]},
        {"name": "faulty", "descriptio": "x", "command": ["true"]},
    ]
}


def test_tools_of_an_untrusted_project_are_hinted_at(geode: Place) -> None:
    geode.write(".geode/tools.json", json.dumps(TOOLS))
    for done in (
        geode("tools", "list"),
        geode("tools", "call", "count_words"),
        geode("tools", "show", "count_words"),
    ):
        assert "geode trust --show" in done.err
    assert "geode trust" in geode("tools", "call", "count_words", "--json").error["fix"]
    geode("trust")
    listed = geode("tools", "list")
    assert "geode trust" not in listed.err
    assert "unknown key 'descriptio'" in listed.err
    assert geode("tools", "list", "--source", "definitions", "--json").json["count"] == 1


def test_trust_shows_what_the_project_would_run(geode: Place) -> None:
    geode.write(".geode/tools.json", json.dumps(TOOLS))
    geode.write(
        ".mcp.json", '{"mcpServers": {"theirs": {"command": "npx", "args": ["-y", "x"], "env": {"TOKEN": "t"}}}}'
    )
    geode.write(".geode/config.toml", "[[rules]]\nname='no-net'\neffect='network'\nverdict='deny'\n")
    geode.write("skills/one/SKILL.md", "---\nname: one\ndescription: d\n---\n")
    shown = geode("trust", "--show", "--json").json
    assert shown["state"] == "untrusted"
    found = {(b["kind"], b["name"]): b["detail"] for b in shown["brings"]}
    assert found["server", "theirs"] == "npx -y x TOKEN=…"
    assert found["tool", "count_words"] == "wc -w"
    assert found["rule", "no-net"].startswith("deny")
    assert found["skill", "one"] == "skills/one: 1 file"
    assert "descriptio" in found["problem", "faulty"]
    done = geode("trust")  # no terminal: nobody to ask
    assert done.code == 0
    assert done.out.startswith("trusted")
    assert "npx -y x" in done.out
    geode.write(".mcp.json", "{}")
    assert ".mcp.json (changed)" in geode("trust", "--show").out
    assert geode("trust", "--yes").code == 0


@pytest.mark.parametrize(
    ("words", "choice"),
    [
        (("audit", "list", "--status", "nonsense"), "needs_approval"),
        (("tools", "list", "--source", "nosuch"), "builtin"),
        (("tools", "search", "x", "--limit", "0"), "from 1 to 50"),
        (("tools", "search", "x", "--limit", "51"), "from 1 to 50"),
    ],
)
def test_a_value_that_does_not_exist_is_refused_with_those_that_do(
    geode: Place, words: tuple[str, ...], choice: str
) -> None:
    done = geode(*words)
    assert done.code == 2
    assert choice in done.err
    assert len(done.err) < 400


def test_a_declared_server_without_tools_is_a_known_source(geode: Place) -> None:
    geode("mcp", "add", "mine", "--no-connect", "--", "true")
    assert geode("tools", "list", "--source", "mcp:mine").code == 0


def test_a_server_that_cannot_start_is_told_with_the_way_out(geode: Place) -> None:
    assert "geode mcp remove bad" in geode("mcp", "add", "bad", "--", "/no/such/program").err


def test_columns_of_stats_add_up(geode: Place) -> None:
    geode("tools", "call", "list_directory")
    geode("tools", "call", "list_directory", "--args", '{"path": "no"}')
    geode("tools", "call", "shell_exec", "--args", '{"command": "make"}')
    geode("tools", "call", "shell_exec", "--args", '{"command": "rm -rf ~"}')
    document = geode("audit", "stats", "--json").json
    for figures in (document, *document["tools"]):
        parts = ("ok", "errors", "denied", "needs_approval", "unknown")
        assert figures["calls"] == sum(figures[part] for part in parts)
    assert (document["needs_approval"], document["denied"], document["success_rate"]) == (1, 1, 0.5)
    said = geode("audit", "stats")
    assert "need approval" in said.out
    assert "success:" in said.err


def test_limits_that_nobody_set_are_shown_as_they_hold(geode: Place) -> None:
    assert "8192 (built in)" in geode("config", "show").out


def test_wrong_arguments_are_told_without_a_path_language(geode: Place) -> None:
    done = geode("tools", "call", "read_file", "--args", '{"path": 1}')
    assert "invalid arguments: path: expected string" in done.out
    assert "$" not in done.out
    assert "geode tools show read_file" in done.err
    missing = geode("tools", "call", "read_file", "--json")
    assert missing.error["message"] == "invalid arguments: 'path' is required"
    assert "geode tools show read_file" in missing.error["fix"]


def test_a_waiting_call_is_listed_with_its_project_and_a_full_time(geode: Place) -> None:
    geode("tools", "call", "shell_exec", "--args", '{"command": "make all"}')
    waiting = geode("approvals", "list", "--json").json["approvals"][0]
    assert waiting["project"] == str(geode.project)
    assert waiting["expires_at"][:10] in geode("approvals", "list").out.replace("\n", "")
    shown = geode("audit", "show", waiting["call_id"]).out
    assert '{"' not in shown


def test_a_refusal_of_a_servers_tool_says_how_to_allow_it_for_good(geode: Place) -> None:
    geode.write(
        "server.py",
        "from mcp.server.mcpserver import MCPServer\nserver = MCPServer('demo')\n\n\n@server.tool()\n"
        "def add(a: int, b: int) -> int:\n    '''Add.'''\n    return a + b\n\n\nserver.run('stdio')\n",
    )
    assert geode("mcp", "add", "demo", "--", sys.executable, "server.py").code == 0
    call = ("tools", "call", "demo__add", "--args", '{"a": 1, "b": 2}')
    refused = geode(*call)
    assert refused.code == 4
    assert 'allow = ["demo__add"]' in refused.err
    (geode.home / "config.toml").write_text('allow = ["demo__*"]\n')
    assert geode(*call).code == 0


def test_a_server_that_failed_is_not_started_by_every_command(geode: Place) -> None:
    count = geode.project / "started"
    script = geode.write("bad.sh", f"echo x >> {count}\nexit 1\n")
    assert geode("mcp", "add", "bad", "--", "sh", str(script)).code == 5
    assert count.read_text() == "x\n"
    for _ in range(3):
        assert geode("tools", "call", "list_directory").code == 0
    assert count.read_text() == "x\n"
    geode("mcp", "status", "bad")  # asked for: tried again
    assert count.read_text() == "x\nx\n"
