"""Nonsense on every command: one clear line, a fix, the contract's exit code, nothing half-written."""

from __future__ import annotations

import io
import json
import sqlite3
import subprocess
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from geode.cli.main import main

from .conftest import Place

EVERY: dict[str, list[str]] = {
    "tools list": ["tools", "list"],
    "tools search": ["tools", "search", "read", "a", "file"],
    "tools show": ["tools", "show", "read_file"],
    "tools call": ["tools", "call", "read_file", "--args", '{"path": "x"}'],
    "tools export": ["tools", "export", "--format", "mcp"],
    "mcp list": ["mcp", "list"],
    "mcp status": ["mcp", "status"],
    "mcp add": ["mcp", "add", "x", "--no-connect", "--", "true"],
    "mcp remove": ["mcp", "remove", "x"],
    "mcp tools": ["mcp", "tools", "x"],
    "policy show": ["policy", "show"],
    "policy check": ["policy", "check", "read_file"],
    "policy command": ["policy", "command", "ls"],
    "audit list": ["audit", "list"],
    "audit show": ["audit", "show", "call_x"],
    "audit verify": ["audit", "verify"],
    "audit stats": ["audit", "stats"],
    "approvals list": ["approvals", "list"],
    "approvals approve": ["approvals", "approve", "appr_x"],
    "approvals deny": ["approvals", "deny", "appr_x", "--reason", "no"],
    "trust": ["trust"],
    "config show": ["config", "show"],
}
"""Every command that reports, in a form that is itself well-formed."""

WITHOUT_SETTINGS = {"mcp list", "mcp add", "mcp remove", "mcp tools", "trust"}
"""Commands that work although the settings file is broken: they are how one gets out of trouble."""


def run(*words: str) -> tuple[int, dict[str, Any]]:
    """In this process: exit code and the one document on stdout."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main(["--json", *words])
    assert "Traceback" not in out.getvalue() + err.getvalue()
    document = json.loads(out.getvalue())
    assert document["schema"] == 1
    return code, document


def refused(words: list[str], code: int, *said: str) -> dict[str, Any]:
    """The error object of a command that must fail with `code`."""
    found, document = run(*words)
    error = document["error"]
    assert found == code, error
    assert all(text in error["message"] for text in said), error
    assert "\n" not in error["message"]
    assert error["fix"]
    assert error["code"] != "unexpected"
    return error


@pytest.mark.parametrize("command", EVERY)
def test_a_missing_project_is_named(command: str, tmp_path: Path):
    where = ["--home", str(tmp_path / "home"), "--project", str(tmp_path / "none")]
    refused([*where, *EVERY[command]], 2, "project directory", "does not exist")
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize("command", [c for c in EVERY if c not in WITHOUT_SETTINGS])
def test_bad_toml_is_named_with_file_and_line(command: str, geode: Place):
    geode.home.mkdir()
    (geode.home / "config.toml").write_text('mode = "default"\n[output\nlines = 3\n', encoding="utf-8")
    where = ["--home", str(geode.home), "--project", str(geode.project)]
    refused([*where, *EVERY[command]], 2, "config.toml:2")
    assert sorted(p.name for p in geode.home.iterdir()) == ["config.toml"]


@pytest.mark.parametrize("command", ["tools call", "audit list", "approvals list", "trust", "mcp add"])
def test_a_home_that_is_a_file_is_refused(command: str, geode: Place):
    geode.home.write_text("not a directory", encoding="utf-8")
    where = ["--home", str(geode.home), "--project", str(geode.project)]
    refused([*where, *EVERY[command]], 2, "is not a directory")
    assert not list(geode.project.iterdir())


@pytest.mark.parametrize("command", ["tools list", "tools call", "audit verify", "audit list", "approvals list"])
def test_a_damaged_database_is_named(command: str, geode: Place):
    geode.home.mkdir()
    (geode.home / "geode.db").write_bytes(b"this is no database at all" * 400)
    where = ["--home", str(geode.home), "--project", str(geode.project)]
    refused([*where, *EVERY[command]], 1, "geode.db")
    assert (geode.home / "geode.db").read_bytes().startswith(b"this is no database")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["tools", "show", "raed_file"], 2, "raed_file"),
        (["tools", "call", "raed_file"], 2, "raed_file"),
        (["tools", "call", "read_file", "--args", "{"], 2, "not valid JSON"),
        (["tools", "call", "read_file", "--args", "@none.json"], 2, "does not exist"),
        (["tools", "call", "read_file", "--args", "[1]"], 2, "a JSON array"),
        (["tools", "call", "read_file", "--args", '{"pth": "x"}'], 2, ""),
        (["tools", "call", "read_file", "--args", '{"path": "none.txt"}'], 1, "none.txt"),
        (["tools", "call", "read_file", "--args", '{"path": "../../etc/passwd"}'], 1, ""),
        (["tools", "list", "--cursor", "x"], 2, "not a cursor"),
        (["tools", "export", "--format", "openai", "--defer"], 2, "--defer"),
        (["mcp", "remove", "nobody"], 2, "nobody"),
        (["mcp", "tools", "nobody"], 2, "nobody"),
        (["mcp", "status", "nobody"], 2, "nobody"),
        (["mcp", "add", "x"], 2, "--url"),
        (["mcp", "add", "bad__name", "--", "true"], 2, "bad__name"),
        (["mcp", "add", "x", "--url", "ftp://h/"], 2, "http"),
        (["mcp", "add", "x", "--env", "=v", "--", "true"], 2, "K=V"),
        (["policy", "check"], 2, "name of a tool"),
        (["policy", "check", "read_file", "--args", "nonsense"], 2, "not valid JSON"),
        (["policy", "check", "--batch", "none.jsonl"], 2, "does not exist"),
        (["policy", "command"], 2, "give a command"),
        (["audit", "show", "call_nothing"], 2, "call_nothing"),
        (["audit", "list", "--since", "whenever"], 2, "whenever"),
        (["audit", "list", "--cursor", "x"], 2, "cursor"),
        (["approvals", "approve", "appr_nothing"], 2, "appr_nothing"),
        (["trust", "no/such/dir"], 2, "no/such/dir"),
        (["help", "nonsense"], 2, "nonsense"),
        (["bench", "loop", "--calls", "none"], 2, "none"),
        (["serve", "--http", "nonsense"], 2, "serve"),
    ],
)
def test_a_wrong_request_is_refused(words: list[str], code: int, said: str, geode: Place):
    refused(["--home", str(geode.home), "--project", str(geode.project), *words], code, said)


def test_a_broken_server_file_costs_only_itself(geode: Place):
    geode.write(".geode/mcp.json", '{"mcpServers": {"x": ')
    where = ["--home", str(geode.home), "--project", str(geode.project)]
    code, document = run(*where, "mcp", "list")
    assert code == 0
    assert "mcp.json" in document["problems"][0]["message"]
    refused([*where, "mcp", "add", "y", "--no-connect", "--", "true"], 2, "not valid JSON")
    assert (geode.project / ".geode/mcp.json").read_text(encoding="utf-8") == '{"mcpServers": {"x": '


def test_a_secret_is_not_written_into_a_server_file(geode: Place):
    where = ["--home", str(geode.home), "--project", str(geode.project)]
    for secret in (["--env", "API_KEY=sk-ant-api03-" + "a1B2" * 20], ["--env", "DB_PASSWORD=hunter2hunter2"]):
        refused([*where, "mcp", "add", "x", "--no-connect", *secret, "--", "true"], 2, "secret")
    assert not (geode.project / ".geode").exists()
    code, _ = run(*where, "mcp", "add", "x", "--no-connect", "--env", "API_KEY", "--", "true")
    assert code == 0
    assert '"API_KEY": "${API_KEY}"' in (geode.project / ".geode/mcp.json").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.timeout(90)
def test_a_locked_database_is_reported_and_nothing_runs(geode: Place):
    assert geode("audit", "list").code == 0
    holder = sqlite3.connect(geode.home / "geode.db", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    try:
        done = geode.process("tools", "call", "write_file", "--args", '{"path": "a.txt", "content": "x"}', "--json")
    finally:
        holder.close()
    assert done.code == 1
    assert "another process" in done.out
    assert not (geode.project / "a.txt").exists()


def test_two_processes_make_the_database_at_once(geode: Place):
    started = [
        subprocess.Popen(
            geode.words("audit", "list", "--json"),
            env=geode.env,
            cwd=geode.project,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for _ in range(3)
    ]
    for process in started:
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        assert json.loads(out)["calls"] == []
