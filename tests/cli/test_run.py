"""`geode run` as people and programs start it: a process, a scripted model server on loopback, real tools."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import SECONDS, Done, Place
from geode.agent.session import history_of
from geode.cli.events import event_document
from geode.core import events
from geode.models.scripted import call, turn
from geode.models.scripted_server import Reply, ScriptedServer
from geode.runtime import GeodeRuntime

READS = turn("I look first.", calls=[call("read_file", path="a.txt"), call("read_file", path="b.txt")])
WRITE = turn(calls=[call("write_file", path="sum.txt", content="3\n")])
TASK = "add the numbers of a.txt and b.txt and write them to sum.txt"
NO_MODEL = {"ANTHROPIC_API_KEY": "", "OPENAI_API_KEY": "", "ANTHROPIC_AUTH_TOKEN": "", "GEODE_MODEL": ""}


def spec(server: ScriptedServer) -> str:
    return f"openai-compatible:{server.url}/v1#scripted"


@pytest.fixture
def place(geode: Place) -> Place:
    geode.write("a.txt", "1\n")
    geode.write("b.txt", "2\n")
    return geode


@contextmanager
def started(place: Place, *words: str, env: dict[str, str] | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """`geode …` running; killed at the end when it has not ended by itself."""
    process = subprocess.Popen(
        place.words(*words),
        cwd=place.project,
        env={**place.env, **(env or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def until(true: Callable[[], bool], seconds: float = SECONDS) -> None:
    """Wait for something that happens in another process."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)


def lines(done: Done | bytes) -> list[dict[str, Any]]:
    text = done.decode() if isinstance(done, bytes) else done.out
    found = [json.loads(line) for line in text.splitlines()]
    assert all(line["schema"] == 1 for line in found)
    return found


# ---------------------------------------------------------------- a task to its end


def test_a_task_with_two_parallel_reads_and_one_write_prints_the_answer_alone_on_stdout(place: Place) -> None:
    with ScriptedServer([READS, WRITE, "The sum is 3."]) as server:
        done = place.process("run", TASK, "--model", spec(server))
    assert (done.code, done.out) == (0, "The sum is 3.\n"), done.err
    assert (place.project / "sum.txt").read_text() == "3\n"
    assert "✓ read_file a.txt" in done.err
    assert "✓ write_file sum.txt" in done.err
    assert "3 turns · 3 tool calls" in done.err


@pytest.mark.parametrize("provider", ["openai-compatible", "openai", "anthropic"])
def test_every_protocol_completes_the_same_task_with_the_same_document(
    place: Place, provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ScriptedServer([READS, WRITE, "The sum is 3."]) as server:
        model = spec(server) if provider == "openai-compatible" else f"{provider}:scripted"
        names = {"openai": "OPENAI", "anthropic": "ANTHROPIC"}
        prefix = names.get(provider, "UNUSED")
        monkeypatch.setenv(f"{prefix}_API_KEY", "sk-test-0000")
        monkeypatch.setenv(f"{prefix}_BASE_URL", f"{server.url}/v1")
        done = place("run", TASK, "--model", model, "--json")
        paths = {r.path for r in server.requests}
    wanted = {"openai": "/v1/responses", "anthropic": "/v1/messages"}.get(provider, "/v1/chat/completions")
    assert (done.code, paths) == (0, {wanted}), done.err
    document = done.json
    assert {k: document[k] for k in ("status", "answer", "turns")} == {
        "status": "ok",
        "answer": "The sum is 3.",
        "turns": 3,
    }
    assert [(c["tool"], c["status"]) for c in document["tool_calls"]] == [
        ("read_file", "ok"),
        ("read_file", "ok"),
        ("write_file", "ok"),
    ]
    assert set(document["usage"]) >= {"input_tokens", "output_tokens", "cost_usd"}
    assert document["session"]


def _texts(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text", "") for part in content or ())


def _said(body: dict[str, Any]) -> list[tuple[str, ...]]:
    """What a request body tells the model, in one form for the three protocols: who, what, with which arguments."""
    out: list[tuple[str, ...]] = []
    for item in body.get("messages") or body["input"]:
        kind, role, content = item.get("type", "message"), item.get("role", ""), item.get("content")
        if kind == "function_call":
            out.append(("call", item["name"], json.dumps(json.loads(item["arguments"]), sort_keys=True)))
        elif kind == "function_call_output":
            out.append(("result", _texts(item["output"])))
        elif role == "tool":
            out.append(("result", _texts(content)))
        elif role != "system":
            for part in [{"type": "text", "text": content}] if isinstance(content, str) else content or ():
                if part["type"] == "tool_use":
                    out.append(("call", part["name"], json.dumps(part["input"], sort_keys=True)))
                elif part["type"] == "tool_result":
                    out.append(("result", _texts(part["content"])))
                elif part.get("text"):
                    out.append((role, part["text"]))
            for wish in item.get("tool_calls") or ():
                arguments = json.dumps(json.loads(wish["function"]["arguments"]), sort_keys=True)
                out.append(("call", wish["function"]["name"], arguments))
    return out


def _history(place: Place, session: str) -> list[Any]:
    """The stored conversation without ids and times."""

    async def load() -> list[Any]:
        async with GeodeRuntime.create(place.project, place.home, servers=False) as runtime:
            messages = history_of(await runtime.transcripts.load(session))
        return [
            (m.role, m.text, [(c.name, c.arguments) for c in m.calls], [(r.tool, r.status, r.text) for r in m.results])
            for m in messages
        ]

    return asyncio.run(load())


def test_bodies_and_transcripts_are_the_same_over_the_three_protocols(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    bodies: dict[str, list[Any]] = {}
    transcripts: dict[str, list[Any]] = {}
    for provider, prefix in (("openai-compatible", "UNUSED"), ("openai", "OPENAI"), ("anthropic", "ANTHROPIC")):
        (place.project / "sum.txt").unlink(missing_ok=True)
        with ScriptedServer([READS, WRITE, "The sum is 3."]) as server:
            model = spec(server) if provider == "openai-compatible" else f"{provider}:scripted"
            monkeypatch.setenv(f"{prefix}_API_KEY", "sk-test-0000")
            monkeypatch.setenv(f"{prefix}_BASE_URL", f"{server.url}/v1")
            done = place("run", TASK, "--model", model, "--json")
            bodies[provider] = [_said(body) for body in server.bodies]
        assert done.code == 0, done.err
        transcripts[provider] = _history(place, done.json["session"])
    first, *others = bodies.values()
    assert len(first) == 3 and len(first[-1]) == 8, first[-1]
    for other in others:
        assert other == first
    first, *others = transcripts.values()
    assert len(first) == 6 and [o == first for o in others] == [True, True]


def test_events_are_json_lines_and_the_last_one_is_the_outcome(place: Place) -> None:
    with ScriptedServer([READS, WRITE, "The sum is 3."]) as server:
        done = place("run", TASK, "--model", spec(server), "--events")
    found = lines(done)
    names = [line["event"] for line in found]
    assert (done.code, names[0], names[-2:]) == (0, "turn_started", ["run_finished", "outcome"])
    assert names.count("call_finished") == names.count("call_started") == 3
    assert found[-1]["status"] == "ok"
    assert "".join(line["text"] for line in found if line["event"] == "text_piece").startswith("I look first.")
    write = next(line for line in found if line["event"] == "call_started" and line["tool"] == "write_file")
    assert write["arguments"] == {"path": "sum.txt", "content": "3\n"}


def test_secrets_in_arguments_are_not_in_the_events(place: Place) -> None:
    key = "sk-ant-api03-" + "a1B2" * 20
    write = turn(calls=[call("write_file", path="k.txt", content=key)])
    with ScriptedServer([write, "done"]) as server:
        done = place("run", "x", "--model", spec(server), "--events")
    started_call = next(line for line in lines(done) if line["event"] == "call_started")
    assert key not in json.dumps(started_call)


def test_there_is_a_document_for_every_kind_of_event() -> None:
    import typing

    kinds = typing.get_args(events.Event)
    covered = {"Call" in kind.__name__ or hasattr(events, kind.__name__) for kind in kinds}
    assert covered == {True}
    assert event_document(events.ToolsChanged(("a",), (), ())) == {
        "event": "tools_changed",
        "added": ["a"],
        "removed": [],
        "changed": [],
    }
    assert event_document(events.ServerChanged("s", "failed", "x"))["state"] == "failed"
    assert event_document(events.HistoryCompacted("s", 9, 1))["after_tokens"] == 1


# ---------------------------------------------------------------- how it can end


def test_without_a_model_it_exits_5_and_says_how_to_get_one(place: Place) -> None:
    done = place.process("run", TASK, "--model", "anthropic:claude-x", "--json", env=NO_MODEL)
    assert (done.code, done.error["code"]) == (5, "model_unavailable")
    assert "ANTHROPIC_API_KEY" in done.error["fix"]
    assert not place.home.exists(), "nothing is made before there is a model"


def test_what_cannot_work_is_told_before_the_model_is_asked(place: Place) -> None:
    with ScriptedServer([]) as server:
        typo = place("--mode", "raed_only", "run", TASK, "--model", spec(server))
        assert (typo.code, typo.out) == (2, "")
        assert "'raed_only' is unknown" in typo.err
        assert "did you mean read_only?" in typo.err
        served = place("--mode", "raed_only", "serve")
        assert served.code == 2
        words = place("run", "--resume", "go on", "--model", spec(server))
        assert words.code == 2
        assert 'geode run "go on" --resume' in words.err
        place.home.mkdir(mode=0o700)
        (place.home / "config.toml").write_text('mode = "defualt"\n')
        wrong = place("run", TASK, "--model", "anthropic:claude-x")
        assert wrong.code == 2
        assert "config.toml" in wrong.err
        assert "'defualt' is unknown" in wrong.err
        assert place("--mode", "default", "policy", "check", "read_file").code == 0
        assert not server.requests


def test_an_allowed_tool_that_does_not_exist_is_told_with_the_closest_name(place: Place) -> None:
    with ScriptedServer(["Fine."]) as server:
        done = place("run", TASK, "--model", spec(server), "--allow", "shell_exce", "--allow", "read_*", "--json")
    assert (done.code, done.json["answer"]) == (0, "Fine.")
    assert "--allow shell_exce: no tool has this name now; did you mean shell_exec?" in done.err
    assert "read_*" not in done.err


def test_a_mode_that_one_call_names_is_denied_not_an_error(place: Place) -> None:
    assert place("tools", "call", "read_file", "--args", '{"path": "a.txt"}', "--mode", "no_such_mode").code == 3
    assert "deny" in place("policy", "check", "read_file", "--mode", "no_such_mode").out


def test_with_events_an_error_is_one_line_too(place: Place) -> None:
    done = place.process("run", TASK, "--model", "anthropic:claude-x", "--events", env=NO_MODEL)
    assert done.code == 5
    assert lines(done)[0]["error"]["code"] == "model_unavailable"


def test_the_turn_limit_ends_with_stopped_and_exit_1(place: Place) -> None:
    with ScriptedServer([READS, WRITE, "never"]) as server:
        done = place("run", TASK, "--model", spec(server), "--max-turns", "1", "--json")
    assert (done.code, done.json["status"], done.json["turns"]) == (1, "stopped", 1)
    assert "1 turns" in done.json["reason"]


def test_a_server_that_refuses_ends_with_error_and_exit_1(place: Place) -> None:
    with ScriptedServer([Reply(status=400, body='{"error": {"message": "no such thing"}}')]) as server:
        done = place("run", TASK, "--model", spec(server), "--json")
    assert (done.code, done.json["status"]) == (1, "error")
    assert "no such thing" in done.json["reason"]


def test_no_task_an_empty_one_and_a_bad_limit_are_usage_errors(geode: Place) -> None:
    for words in (["run"], ["run", "  "], ["run", "x", "--max-turns", "0"], ["run", "x", "--max-turns", "²"]):
        assert geode(*words, "--json").code == 2, words


def test_an_unknown_session_is_a_usage_error(place: Place) -> None:
    with ScriptedServer([]) as server:
        for wanted in ("nothing-of-this-name", "last"):
            done = place("run", "--resume", wanted, "--model", spec(server), "--json")
            assert (done.code, done.error["code"]) == (2, "usage"), done.out


def test_the_task_can_come_from_stdin(place: Place) -> None:
    with ScriptedServer(["Hello."]) as server:
        done = place("run", "-", "--model", spec(server), stdin="say hello\n")
        sent = server.bodies[0]["messages"][-1]["content"]
    assert done.out == "Hello.\n"
    assert "[FROM_USER]\nsay hello" in json.dumps(sent, ensure_ascii=False).replace("\\n", "\n")


# ---------------------------------------------------------------- approvals


def test_R60_what_needs_a_person_and_finds_none_ends_with_4_and_runs_after_the_approval(place: Place) -> None:
    place.home.mkdir(mode=0o700)
    rule = '[[rules]]\nname = "see-it-first"\ntool = "shell_exec"\nverdict = "ask"\nreason = "I want to see it"\n'
    (place.home / "config.toml").write_text(rule)
    ask = turn(calls=[call("shell_exec", command="touch made")])
    with ScriptedServer([ask, "It needs your approval.", ask, "Made."]) as server:
        first = place("run", "make it", "--model", spec(server), "--json")
        assert (first.code, first.json["status"]) == (4, "needs_approval")
        approval = first.json["approvals"][0]
        assert approval["tool"] == "shell_exec"
        assert not (place.project / "made").exists()
        assert place("approvals", "approve", approval["id"]).code == 0
        second = place("run", "--resume", first.json["session"], "--model", spec(server), "--json")
    assert (second.code, second.json["answer"]) == (0, "Made."), second.out
    assert (place.project / "made").exists()


def test_a_denial_is_told_to_the_model_and_the_run_goes_on(place: Place) -> None:
    evil = turn(calls=[call("write_file", path="/etc/geode-was-here", content="x")])
    with ScriptedServer([evil, "I may not."]) as server:
        done = place("run", "x", "--model", spec(server), "--json")
    assert (done.code, done.json["tool_calls"][0]["status"]) == (0, "denied")
    assert not Path("/etc/geode-was-here").exists()


# ---------------------------------------------------------------- stopped and resumed


def test_R01_killed_after_the_results_of_a_turn_it_resumes_with_them_and_completes(place: Place) -> None:
    with ScriptedServer([READS, Reply(turn=WRITE, how="stall", at=0.0), WRITE, "The sum is 3."]) as server:
        with started(place, "run", TASK, "--model", spec(server)) as process:
            until(lambda: len(server.requests) == 2)
            process.kill()
            process.wait()
        done = place.process("run", "--resume", "--model", spec(server), "--json")
        resumed = server.bodies[2]["messages"]
    assert (done.code, done.json["answer"]) == (0, "The sum is 3."), done.out + done.err
    assert (place.project / "sum.txt").read_text() == "3\n"
    assert [m["role"] for m in resumed] == ["system", "user", "assistant", "tool", "tool", "user"]
    assert "1" in resumed[3]["content"]
    assert "2" in resumed[4]["content"]


def test_R01_killed_between_the_results_of_a_turn_it_resumes_with_the_one_that_was_there(place: Place) -> None:
    slow = call("code_interpreter", code="import time; time.sleep(60)")
    half = turn(calls=[call("read_file", path="a.txt"), slow])
    with ScriptedServer([half, WRITE, "The sum is 3."]) as server:
        with started(place, "run", TASK, "--model", spec(server), "--events") as process:
            assert process.stdout is not None
            seen: list[str] = []
            while "call_finished" not in seen:
                seen.append(json.loads(process.stdout.readline())["event"])
            time.sleep(0.5)  # the event comes a moment before the result is stored
            process.kill()
            process.wait()
        done = place.process("run", "--resume", "--model", spec(server), "--json")
        resumed = server.bodies[1]["messages"]
    assert (done.code, done.json["answer"]) == (0, "The sum is 3."), done.out + done.err
    tools = [m["content"] for m in resumed if m["role"] == "tool"]
    assert "[TOOL_RESULT read_file]" in tools[0]
    assert "Interrupted before a result arrived" in tools[1]


def test_ctrl_c_stops_with_130_leaves_no_process_and_says_how_to_go_on(place: Place) -> None:
    mark = f"31{os.getpid()}"
    slow = turn(calls=[call("code_interpreter", code=f"import subprocess; subprocess.run(['sleep', '{mark}'])")])
    with ScriptedServer([slow, "Gone on."]) as server:
        with started(place, "run", TASK, "--model", spec(server)) as process:
            until(lambda: _alive(mark))
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=SECONDS)
        assert process.returncode == 130, err.decode()
        assert not _alive(mark)
        words = err.decode().partition("fix: go on: geode ")[2].split()
        assert words[:2] == ["run", "--resume"], err.decode()
        done = place.process(*words, "--model", spec(server), "--json")
    assert (done.code, done.json["answer"]) == (0, "Gone on.")


def _alive(mark: str) -> bool:
    """Is there a process with this text on its command line or in its code?"""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if mark.encode() in (entry / "cmdline").read_bytes():
                    return True
            except OSError:
                continue
    return False


def test_sessions_of_another_project_are_not_the_last_one_here(place: Place, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    with ScriptedServer(["one", "two"]) as server:
        assert place("run", "x", "--model", spec(server), "--project", str(other)).code == 0
        done = place("run", "--resume", "--model", spec(server), "--json")
    assert (done.code, done.error["code"]) == (2, "usage")


def test_a_session_is_found_by_the_end_of_its_name(place: Place) -> None:
    with ScriptedServer(["one", "two"]) as server:
        first = place("run", "x", "--model", spec(server), "--json").json["session"]
        second = place("run", "y", "--resume", first[-6:], "--model", spec(server), "--json")
    assert second.json["session"] == first


def test_a_run_whose_reader_has_gone_stops_quietly_and_can_be_resumed(place: Place) -> None:
    with ScriptedServer([Reply(turn=READS), Reply(turn=WRITE), "done"]) as server:
        with started(place, "run", TASK, "--model", spec(server), "--events") as process:
            assert process.stdout is not None
            process.stdout.readline()
            process.stdout.close()
            code = process.wait(SECONDS)
            told = process.stderr.read().decode() if process.stderr else ""
            process.stdout = None
        assert code != 0
        assert "Traceback" not in told
        assert not (place.project / "sum.txt").exists()
        server.add("done")
        assert place.process("run", "--resume", "--model", spec(server)).code == 0
