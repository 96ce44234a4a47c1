"""The chat on a pseudo-terminal: what a person sees and types, with real tools and a scripted model server."""

from __future__ import annotations

import json
import os
import stat
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.conftest import Place
from cli.terminal import Terminal
from geode.cli.chat.markdown import MarkdownPieces
from geode.cli.chat.slash import SLASH
from geode.models.scripted import call, turn
from geode.models.scripted_server import Reply, ScriptedServer

DEMO = Path(__file__).parents[1] / "mcp" / "servers" / "demo.py"
READ = turn("I look at it.", calls=[call("read_file", path="a.txt")])


@pytest.fixture
def place(geode: Place) -> Place:
    geode.write("a.txt", "one\n")
    return geode


def chat(place: Place, server: ScriptedServer, *words: str) -> Terminal:
    """The chat, at its first prompt."""
    model = f"openai-compatible:{server.url}/v1#scripted"
    terminal = Terminal(place.words("--model", model, *words), cwd=place.project, env=place.env)
    terminal.see("> ")
    return terminal


def always_ask(place: Place) -> None:
    """A rule of the person's own, so that the question does not depend on what Geode thinks of a command."""
    place.home.mkdir(mode=0o700)
    rule = '[[rules]]\nname = "see-it-first"\ntool = "shell_exec"\nverdict = "ask"\nreason = "I want to see it"\n'
    (place.home / "config.toml").write_text(rule)


def last_user_text(server: ScriptedServer) -> str:
    message = [m for m in server.bodies[-1]["messages"] if m["role"] == "user"][-1]
    content = message["content"]
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


def alive(mark: str) -> bool:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if mark.encode() in (entry / "cmdline").read_bytes():
                    return True
            except OSError:
                continue
    return False


# ---------------------------------------------------------------- a conversation


def test_a_conversation_streams_answers_shows_calls_and_can_be_resumed(place: Place) -> None:
    with ScriptedServer([READ, "It says **one**.", "You are welcome."]) as server:
        with chat(place, server) as terminal:
            terminal.type("what is in a.txt?\r")
            seen = terminal.see("tokens read")
            assert "I look at it." in seen
            assert "✓ read_file a.txt" in seen
            assert "It says one." in seen, "Markdown is shown, not printed"
            terminal.type("\x04")
            seen = terminal.see("geode --resume ")
            assert terminal.ended() == 0
        session = seen.partition("geode --resume ")[2].split()[0]
        with chat(place, server, "--resume", session) as terminal:
            shown = terminal.text
            assert "> what is in a.txt?" in shown
            assert "It says one." in shown
            terminal.type("thanks\r")
            terminal.see("You are welcome.")
        assert [m["role"] for m in server.bodies[-1]["messages"]][:3] == ["system", "user", "assistant"]
    history = place.home / "chat_history"
    assert stat.S_IMODE(history.stat().st_mode) == 0o600
    assert "+what is in a.txt?" in history.read_text()


def test_pasted_lines_are_one_message_and_secrets_do_not_get_into_the_history(place: Place) -> None:
    key = "ghp_" + "aB3" * 12
    with ScriptedServer(["Fine."]) as server, chat(place, server) as terminal:
        terminal.type(f"\x1b[200~first line\nsecond {key}\x1b[201~")
        terminal.see("second")
        terminal.type("\r")
        terminal.see("Fine.")
        assert f"[FROM_USER]\nfirst line\nsecond {key}" in last_user_text(server)
    assert key not in (place.home / "chat_history").read_text()


def test_what_is_typed_while_it_works_waits_for_the_prompt(place: Place) -> None:
    slow = Reply(turn=turn("Thinking is done."), pause=0.3)
    with ScriptedServer([slow, "Second."]) as server, chat(place, server) as terminal:
        terminal.type("first\r")
        terminal.see("thinking")
        terminal.type("second thing\r")
        terminal.see("Second.")
        assert "second thing" in last_user_text(server)


# ---------------------------------------------------------------- approvals


def test_an_approval_shows_exactly_what_will_run_and_why_and_anything_but_yes_is_no(place: Place) -> None:
    always_ask(place)
    ask = turn(calls=[call("shell_exec", command="touch made; echo \x1b[2Khidden")])
    with ScriptedServer([ask, "As you wish.", ask, "Made."]) as server, chat(place, server) as terminal:
        terminal.type("make it\r")
        seen = terminal.see("Run it? [y/N]")
        assert "touch made; echo \\x1b[2Khidden" in seen, "no escape sequence hides what runs"
        assert "why: I want to see it" in seen
        terminal.type("no idea\r")
        terminal.see("As you wish.")
        assert not (place.project / "made").exists()
        terminal.type("now make it\r")
        terminal.see("Run it? [y/N]")
        terminal.type("y\r")
        terminal.see("Made.")
        assert (place.project / "made").exists()


# ---------------------------------------------------------------- Ctrl-C


def test_ctrl_c_stops_the_turn_and_all_it_started_and_the_conversation_goes_on(place: Place) -> None:
    mark = f"32{os.getpid()}"
    slow = turn(
        calls=[
            call("read_file", path="a.txt"),
            call("code_interpreter", code=f"import subprocess; subprocess.run(['sleep', '{mark}'])"),
        ]
    )
    with ScriptedServer([slow, "Gone on."]) as server, chat(place, server) as terminal:
        terminal.type("wait\r")
        end = time.monotonic() + 40
        while not alive(mark):
            assert time.monotonic() < end, terminal.text
            time.sleep(0.05)
        terminal.type("\x03")
        terminal.see("stopped; what was done is kept")
        assert not alive(mark)
        terminal.type("go on\r")
        terminal.see("Gone on.")
        sent = server.bodies[-1]["messages"]
        assert [m["role"] for m in sent] == ["system", "user", "assistant", "tool", "tool", "user"]
        assert "one" in sent[3]["content"], "what was read before the stop is not lost"
        assert sent[:2] == server.bodies[0]["messages"], "what the provider has cached stays as it was"


def test_ctrl_c_stops_a_stream_and_an_open_question(place: Place) -> None:
    always_ask(place)
    ask = turn(calls=[call("shell_exec", command="touch made")])
    endless = Reply(turn=turn("I will never end."), how="stall", at=0.8)
    with ScriptedServer([endless, ask]) as server, chat(place, server) as terminal:
        terminal.type("talk\r")
        terminal.see("I will never")
        terminal.type("\x03")
        terminal.see("stopped; what was done is kept")
        terminal.type("make it\r")
        terminal.see("Run it? [y/N]")
        terminal.type("\x03")
        terminal.see("stopped; what was done is kept")
        assert not (place.project / "made").exists()


@pytest.mark.parametrize("typed_before", ["", "ye"])
def test_after_ctrl_c_at_a_question_the_prompt_gets_every_key(place: Place, typed_before: str) -> None:
    always_ask(place)
    ask = turn(calls=[call("shell_exec", command="touch made")])
    with ScriptedServer([ask, ask, "Gone on."]) as server, chat(place, server) as terminal:
        for words in ("make it", "again"):
            terminal.type(f"{words}\r")
            terminal.see("Run it? [y/N]")
            terminal.type(f"{typed_before}\x03")
            terminal.see("stopped; what was done is kept")
            terminal.see("\n> ")
        terminal.type("go on\r")
        terminal.see("Gone on.")
        assert "go on" in last_user_text(server)
        assert not (place.project / "made").exists()
        terminal.type("\x04")
        assert terminal.ended() == 0


def test_ctrl_d_at_a_question_is_no(place: Place) -> None:
    always_ask(place)
    ask = turn(calls=[call("shell_exec", command="touch made")])
    with ScriptedServer([ask, "As you wish."]) as server, chat(place, server) as terminal:
        terminal.type("make it\r")
        terminal.see("Run it? [y/N]")
        terminal.type("\x04")
        terminal.see("As you wish.")
        assert not (place.project / "made").exists()


def test_sigterm_in_a_turn_ends_it_with_all_it_started(place: Place) -> None:
    mark = f"33{os.getpid()}"
    slow = turn(calls=[call("code_interpreter", code=f"import subprocess; subprocess.run(['sleep', '{mark}'])")])
    with ScriptedServer([slow]) as server, chat(place, server) as terminal:
        terminal.type("wait\r")
        end = time.monotonic() + 40
        while not alive(mark):
            assert time.monotonic() < end, terminal.text
            time.sleep(0.05)
        terminal.process.terminate()
        assert terminal.ended() == 143
        assert not alive(mark)


def test_ctrl_c_twice_at_the_prompt_quits(place: Place) -> None:
    with ScriptedServer([]) as server, chat(place, server) as terminal:
        terminal.type("some words\x03")
        terminal.see("Ctrl-C again quits")
        terminal.type("\x03")
        assert terminal.ended() == 0


# ---------------------------------------------------------------- slash commands


def test_the_slash_commands_of_the_contract_are_one_table_and_each_answers(place: Place) -> None:
    assert list(SLASH) == [
        *("help", "skills", "mcp", "tools", "policy", "audit", "model", "context", "cost", "clear", "resume", "quit")
    ]
    with ScriptedServer([READ, "It says one."]) as server, chat(place, server) as terminal:
        terminal.type("/help\r")
        seen = terminal.see("/quit ")
        assert all(f"/{name}" in seen for name in SLASH)
        terminal.type("look\r")
        terminal.see("It says one.")
        for line, wanted in {
            "/tools": "builtin",
            "/tools search list the files of a directory": "list_directory",
            "/mcp": "no MCP server",
            "/policy check shell_exec": "allow",
            "/policy command 'rm -rf ~'": "deny",
            "/policy command rm -rf /": "deny",
            "/policy command echo 'never closed": "ask  ",
            "/audit": "read_file",
            "/model": "tokens, at most",
            "/context": "results of tools",
            "/cost": "written",
            "/hlep": "did you mean /help?",
            "/policy check 'unclosed": "close the quotes",
            "/policy nonsense": "geode policy --help",
            "/clear": "a new conversation; back with /resume ",
            "/resume": "began with",
            "/resume last": "> look",
            "/resume nobody": "there is no session 'nobody'",
        }.items():
            terminal.type(f"{line}\r")
            terminal.see(wanted)
            terminal.see("\n> ")
        terminal.type("/quit\r")
        assert terminal.ended() == 0


def test_a_server_added_while_running_is_announced_and_the_cached_prefix_stays(place: Place) -> None:
    find = turn(calls=[call("tool_search", query="echo a text")])
    with ScriptedServer(["Hello.", find, "Found."]) as server, chat(place, server) as terminal:
        terminal.type("hello\r")
        terminal.see("tokens read")
        terminal.type(f"/mcp add demo {sys.executable} {DEMO}\r")
        terminal.see("tools came")
        terminal.type("/mcp\r")
        terminal.see("demo")
        terminal.type("find echo\r")
        terminal.see("Found.")
        first, second, third = server.bodies
        assert "[GEODE] New tools" in last_user_text(server)
        assert "demo__" in json.dumps(third["messages"][-1])
        for later in (second, third):
            assert later["tools"] == first["tools"]
            assert later["messages"][: len(first["messages"])] == first["messages"]


def test_a_skill_added_while_running_is_used_in_the_next_turn_and_the_cached_prefix_stays(
    place: Place, tmp_path: Path
) -> None:
    skill = tmp_path / "tidy-tables"
    skill.mkdir()
    (skill / "SKILL.md").write_text(
        "---\nname: tidy-tables\ndescription: Makes tables tidy.\n---\nSort by $ARGUMENTS.\n"
    )
    with ScriptedServer(["Hello.", "Sorted.", "Again."]) as server, chat(place, server) as terminal:
        terminal.type("hello\r")
        terminal.see("tokens read")
        terminal.type(f"/skills add {skill}\r")
        terminal.see("tidy-tables")
        terminal.see("\n> ")
        assert (place.project / ".claude" / "skills" / "tidy-tables" / "SKILL.md").exists()
        terminal.type("what can you do now?\r")
        terminal.see("Sorted.")
        assert "Makes tables tidy." in last_user_text(server)
        terminal.type("/tidy-tables price\r")
        terminal.see("Again.")
        assert "Sort by price." in last_user_text(server)
        first = server.bodies[0]
        for later in server.bodies[1:]:
            assert later["tools"] == first["tools"]
            assert later["messages"][: len(first["messages"])] == first["messages"]


# ---------------------------------------------------------------- around it


def test_what_a_project_brings_is_used_only_after_a_yes(place: Place) -> None:
    place.write(".geode/mcp.json", json.dumps({"mcpServers": {"theirs": {"command": sys.executable, "args": ["-V"]}}}))
    with ScriptedServer([]) as server:
        words = place.words("--model", f"openai-compatible:{server.url}/v1#scripted")
        with Terminal(words, cwd=place.project, env=place.env) as terminal:
            assert ".geode/mcp.json" in terminal.see("[y/N]")
            terminal.type("n\r")
            terminal.see("They are not used.")
            terminal.see("> ")
            terminal.type("/mcp\r")
            terminal.see("untrusted")


def test_without_a_terminal_there_is_help_and_no_chat(geode: Place) -> None:
    done = geode()
    assert done.code == 0
    assert "geode run" in done.out
    for words in (["--resume"], ["--model", "x"], ["--json"]):
        assert geode(*words).code == 2
    assert "are for the chat" in geode("--resume", "x", "tools", "list").err


def test_without_a_model_the_chat_says_how_to_get_one_and_exits_5(place: Place) -> None:
    words = place.words("--model", "anthropic:claude-x")
    with Terminal(words, cwd=place.project, env={**place.env, "ANTHROPIC_API_KEY": ""}) as terminal:
        terminal.see("ANTHROPIC_API_KEY")
        assert terminal.ended() == 5


# ---------------------------------------------------------------- Markdown in pieces


def test_markdown_blocks_are_given_out_when_the_next_one_begins() -> None:
    pieces = MarkdownPieces()
    given_out = [pieces.feed(piece) for piece in ("# Ti", "tle\n", "\nText\n", "- a\n- b\n\n", "  still b\n\nEnd")]
    assert given_out == ["", "", "# Title\n\n", "Text\n", "- a\n- b\n\n  still b\n\n"]
    assert pieces.rest() == "End"


def test_a_fence_is_one_block_whatever_it_holds() -> None:
    pieces = MarkdownPieces()
    source = "```py\n# no title\n\n- no list\n"
    assert pieces.feed(source) == ""
    assert pieces.feed("```\n\nafter\n") == source + "```\n\n"


@given(st.lists(st.sampled_from(["a", "\n", "\n\n", "# ", "- ", "1. ", "```", "> ", "| x |", "---", "    ", "\u2028"])))
def test_no_piece_of_markdown_is_lost_or_given_out_twice(source: list[str]) -> None:
    pieces = MarkdownPieces()
    assert "".join([*map(pieces.feed, source), pieces.rest()]) == "".join(source)
