"""Reading the command line: fast, lazy, one clear line for a mistake, one document with --json."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout

import pytest

from geode.cli.commands.help import TOPICS
from geode.cli.main import main
from geode.cli.parser import COMMANDS, build_parser, global_options


def run(*words: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main(words)
    return code, out.getvalue(), err.getvalue()


def test_help_imports_nothing_heavy():
    program = (
        "import sys, io, contextlib\n"
        "from geode.cli.main import main\n"
        "with contextlib.redirect_stdout(io.StringIO()): main(['--help'])\n"
        "print([m for m in ('mcp','pydantic','sqlalchemy','alembic','rich','asyncio','anthropic','openai','dbos')"
        " if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_without_arguments_the_help_is_shown():
    code, out, _ = run()
    assert code == 0
    assert all(f"\n    {name}" in out for name in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command: str):
    code, out, _ = run(command, "--help")
    assert code == 0
    assert out.startswith(f"usage: geode {command}")
    assert "--project" in out


def test_global_options_stand_before_or_after_the_command():
    for words in (
        ["--json", "--mode", "m", "--home", "h", "policy", "check", "x"],
        ["policy", "--home", "h", "check", "x", "--json", "--mode=m"],
        ["policy", "check", "--mode", "m", "x", "--json", "--home", "h"],
    ):
        options = global_options(build_parser().parse_args(words))
        assert (options.json, options.mode, options.home, options.project) == (True, "m", "h", None)


def test_the_later_of_two_equal_options_counts():
    assert global_options(build_parser().parse_args(["--mode", "a", "policy", "show", "--mode", "b"])).mode == "b"


@pytest.mark.parametrize(
    ("words", "said", "fix"),
    [
        (["tool"], "there is no command 'tool'", "did you mean: tools?"),
        (["tools", "shw"], "tools: there is no command 'shw'", "did you mean: show?"),
        (["tools"], "a command is missing", "geode tools --help"),
        (["tools", "call"], "required: name", "geode tools call --help"),
        (["tools", "list", "--limit", "0"], "not a number from 1", "--help"),
        (["tools", "list", "--limit", "many"], "not a number from 1", "--help"),
        (["policy", "check", "x", "--jsno"], "unrecognized arguments: --jsno", "--help"),
        (["--mode"], "expected one argument", "--help"),
    ],
)
def test_a_mistake_gives_one_line_and_a_fix(words: list[str], said: str, fix: str):
    code, out, err = run(*words)
    assert code == 2
    assert out == ""
    first, second = err.strip().splitlines()
    assert first.startswith("geode: ")
    assert said in first
    assert fix in second


@pytest.mark.parametrize(
    "words", [["nonsense", "--json"], ["--json", "tools"], ["tools", "call", "--json"], ["audit", "show", "--json"]]
)
def test_a_mistake_with_json_is_one_document(words: list[str]):
    code, out, err = run(*words)
    assert code == 2
    assert err == ""
    document = json.loads(out)
    assert document["schema"] == 1
    assert set(document["error"]) == {"code", "message", "fix"}


def test_a_foreign_command_line_keeps_its_own_options():
    parser = build_parser()
    for words, command, env in (
        (
            ["mcp", "add", "x", "--env", "A=b", "--", "srv", "--json", "--", "-e"],
            ["srv", "--json", "--", "-e"],
            ["A=b"],
        ),
        (["mcp", "add", "x", "srv", "--home", "y"], ["srv", "--home", "y"], []),
        (["mcp", "add", "-e", "A=b", "x", "-e", "C", "srv"], ["srv"], ["A=b", "C"]),
        (["mcp", "add", "x", "--url", "http://h/"], [], []),
    ):
        args = parser.parse_args(words)
        assert (args.name, args.command, args.env) == ("x", command, env)
        assert not global_options(args).json
        assert global_options(args).home is None


def test_version_in_both_forms():
    from importlib.metadata import version

    assert run("--version")[1].strip() == f"geode {version('geode-runtime')}"
    assert json.loads(run("--version", "--json")[1]) == {"schema": 1, "version": version("geode-runtime")}


@pytest.mark.parametrize("topic", [*TOPICS, *COMMANDS])
def test_every_topic_and_command_is_explained(topic: str):
    code, out, _ = run("help", topic)
    assert code == 0
    assert len(out.splitlines()) > 3


def test_an_unknown_topic_names_the_closest():
    code, _, err = run("help", "polcy")
    assert code == 2
    assert "policy" in err
