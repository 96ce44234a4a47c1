"""The contract: documents and exit codes of the real command line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from .conftest import Done, Place

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "first-run"


def call(geode: Place, tool: str, arguments: dict[str, object], *more: str, process: bool = False) -> Done:
    run = geode.process if process else geode
    return run("tools", "call", tool, "--args", json.dumps(arguments), "--json", *more)


# ---------------------------------------------------------------- tools


def test_a_page_of_the_report_is_read(geode: Place):
    (geode.project / "report.pdf").write_bytes((EXAMPLES / "report.pdf").read_bytes())
    done = call(geode, "read_document", {"path": "report.pdf", "pages": "2"}, process=True)
    document = done.json
    assert done.code == 0, done.out
    assert document["status"] == "ok"
    assert "349,545" in document["text"]
    assert document["content"][0]["type"] == "text"
    assert document["side_effects"] == "none"
    assert document["verdict"]["verdict"] == "allow"
    assert document["duration_ms"] > 0
    assert document["call_id"].startswith("call_")


def test_a_denied_name_is_denied_whether_installed_or_not(geode: Place):
    done = geode.process("tools", "call", "run_analyst", "--mode", "dry_run", "--args", "{}", "--json")
    assert done.code == 3
    assert done.json["status"] == "denied"
    assert done.json["verdict"]["blocking_policies"]
    assert done.json["error"]["code"] == "denied"
    people = geode("tools", "call", "run_analyst", "--mode", "no_such_mode")
    assert people.code == 3
    assert people.out == ""
    assert "Denied" in people.err


def test_headless_a_question_gives_4_and_the_answer_later_lets_it_run_once(geode: Place):
    arguments = {"command": "python3 -c 'print(6*7)'"}
    first = call(geode, "shell_exec", arguments, process=True)
    assert first.code == 4, first.out
    request = first.json["details"]["approval_id"]
    listed = geode("approvals", "list", "--json").json["approvals"]
    assert [a["id"] for a in listed] == [request]
    assert "print(6*7)" in listed[0]["view"]
    assert geode("approvals", "approve", request, "--json").json["approval"]["state"] == "approved"
    second = call(geode, "shell_exec", arguments, process=True)
    assert second.code == 0, second.out
    assert "42" in second.json["text"]
    assert call(geode, "shell_exec", arguments).code == 4
    assert geode("approvals", "approve", request).code != 0


def test_a_long_result_is_read_on_by_the_next_command(geode: Place):
    geode.write("long.txt", "".join(f"line {i}\n" for i in range(1, 1001)))
    shown = call(geode, "shell_exec", {"command": "cat long.txt"}).json
    assert shown["status"] == "ok", shown
    found = shown["text"].split("result:", 1)[1].split()[0].strip("\"'.,)]}")
    on = call(geode, "read_file", {"path": f"result:{found}", "offset": 500, "limit": 2})
    assert on.code == 0, on.out
    assert "line 500" in on.json["text"]


def test_an_idempotency_key_gives_the_first_result_again(geode: Place):
    arguments = {"path": "a.txt", "content": "one"}
    assert call(geode, "write_file", arguments, "--idempotency-key", "k1").code == 0
    (geode.project / "a.txt").write_text("changed since", encoding="utf-8")
    again = call(geode, "write_file", arguments, "--idempotency-key", "k1")
    assert again.code == 0
    assert "first_call_id" in again.json["details"]
    assert (geode.project / "a.txt").read_text(encoding="utf-8") == "changed since"
    other = call(geode, "write_file", {"path": "b.txt", "content": "two"}, "--idempotency-key", "k1")
    assert other.code == 2


def test_tools_are_listed_searched_shown_and_exported(geode: Place):
    listed = geode("tools", "list", "--json", "--limit", "2").json
    assert len(listed["tools"]) == 2
    assert listed["count"] > 5
    assert {"name", "source", "server", "category", "effects", "deferred"} <= set(listed["tools"][0])
    rest = geode("tools", "list", "--json", "--cursor", listed["next_cursor"]).json
    assert len(rest["tools"]) == listed["count"] - 2
    found = geode("tools", "search", "read", "a", "PDF", "--json").json
    assert found["results"][0]["name"] == "read_document"
    assert {"query", "not_found", "reason", "searched", "duration_ms"} <= set(found)
    assert geode("tools", "show", "grep_file", "--json").json["parameters"]["type"] == "object"
    exported = geode("tools", "export", "--format", "openai").json
    assert exported["count"] == listed["count"]


# ---------------------------------------------------------------- policy


def test_policy_check_needs_no_database(geode: Place):
    done = geode.process("policy", "check", "run_analyst", "--mode", "dry_run", "--json")
    assert done.code == 0
    assert done.json["verdict"] == "deny"
    assert done.json["blocking_policies"]
    assert done.json["trace"][0].keys() == {"policy", "verdict", "reason"}
    assert geode("policy", "check", "read_file", "--mode", "no_such_mode", "--exit-code").code == 3
    assert geode("policy", "check", "shell_exec", "--args", '{"command": "make"}', "--exit-code").code == 4
    assert not (geode.home / "geode.db").exists()


def test_policy_batch_answers_line_by_line(geode: Place):
    lines = [
        '{"id": 1, "tool": "read_file", "args": {"path": "a"}}',
        '{"id": 2, "tool": "run_analyst", "mode": "dry_run"}',
        "nonsense",
        '{"id": 4, "tool": "read_file", "colour": "red"}',
        '{"id": 5, "tool": "shell_exec", "args": {"command": "rm -rf ~"}}',
    ]
    done = geode.process("policy", "check", "--batch", "-", stdin="\n".join(lines))
    answers = [json.loads(line) for line in done.out.splitlines()]
    assert [a.get("verdict", "error") for a in answers] == ["allow", "deny", "error", "error", "deny"]
    assert [a.get("id") for a in answers] == [1, 2, None, 4, 5]
    assert answers[2]["line"] == 3
    assert done.code == 2


def test_policy_command_shows_what_a_command_does(geode: Place):
    document = geode("policy", "command", "echo ok; rm -rf ~", "--json").json
    assert document["verdict"] == "deny"
    assert document["argv"] == [["echo", "ok"], ["rm", "-rf", "~"]] or document["argv"]
    assert any(e["kind"] == "delete" and e["scope"] == "home" for e in document["effects"])


# ---------------------------------------------------------------- audit


def test_the_record_is_listed_verified_and_a_changed_byte_is_found(geode: Place):
    import sqlite3

    geode.write("a.txt", "hello\n")
    shown = call(geode, "read_file", {"path": "a.txt"}).json
    listed = geode("audit", "list", "--json").json["calls"]
    assert [(c["tool"], c["status"], c["call_id"]) for c in listed] == [("read_file", "ok", shown["call_id"])]
    records = geode("audit", "show", shown["call_id"], "--json").json["records"]
    assert [r["kind"] for r in records] == ["intent", "outcome"]
    assert geode("audit", "stats", "--json").json["calls"] == 1
    good = geode("audit", "verify", "--json")
    assert (good.code, good.json["ok"], good.json["first_bad"]) == (0, True, None)
    with sqlite3.connect(geode.home / "geode.db") as db:
        db.execute("UPDATE audit SET tool = 'read_filf' WHERE kind = 'outcome'")
    bad = geode.process("audit", "verify", "--json")
    assert (bad.code, bad.json["ok"]) == (1, False)
    assert bad.json["first_bad"]


# ---------------------------------------------------------------- process behaviour


def test_a_closed_pipe_is_quiet(geode: Place):
    process = subprocess.Popen(
        geode.words("policy", "show", "--json"),
        env=geode.env,
        cwd=geode.project,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout
    assert process.stderr
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait(timeout=30) == 141


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_under_the_output_is_one_line(geode: Place):
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            geode.words("--help"), env=geode.env, stdout=full, stderr=subprocess.PIPE, check=False, timeout=30
        )
    assert done.returncode == 1
    assert done.stderr.decode().splitlines()[0] == "geode: cannot write the output: No space left on device"


def test_an_unexpected_error_goes_to_a_private_log(geode: Place):
    broken = geode.root / "broken"
    (broken / "geode_break").mkdir(parents=True)
    (broken / "sitecustomize.py").write_text(
        "import getpass\ndef broken(): raise RuntimeError('key sk-ant-api03-' + 'a1B2' * 20)\n"
        "import geode.config.person as p\np.local_user = broken\n",
        encoding="utf-8",
    )
    done = geode.process("policy", "check", "x", env={"PYTHONPATH": str(broken)})
    assert done.code == 1
    assert "unexpected" in done.err
    log = next((geode.home / "logs").iterdir())
    assert str(log) in done.err
    assert log.stat().st_mode & 0o777 == 0o600
    text = log.read_text(encoding="utf-8")
    assert "RuntimeError" in text
    assert "a1B2a1B2" not in text


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_ctrl_c_ends_with_130_and_leaves_no_process(geode: Place):
    process = subprocess.Popen(
        geode.words(
            "tools",
            "call",
            "code_interpreter",
            "--args",
            "{\"code\": \"import os; os.spawnlp(0, 'sleep', 'sleep', '6543')\"}",
        ),
        env=geode.env,
        cwd=geode.project,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    wait_for(lambda: running("6543"), 20)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert b"Traceback" not in err
    wait_for(lambda: not running("6543"), 5)
    assert geode("audit", "list", "--json").json["calls"][0]["status"] in {"cancelled", "error"}


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_kill_between_intent_and_outcome_is_shown_as_unknown_and_not_repeated(geode: Place):
    code = "open('a.txt', 'a').write('once'); import os; os.spawnlp(0, 'sleep', 'sleep', '6544')"
    words = ["tools", "call", "code_interpreter", "--args", json.dumps({"code": code}), "--idempotency-key", "k"]
    process = subprocess.Popen(
        geode.words(*words), env=geode.env, cwd=geode.project, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    wait_for(lambda: running("6544"), 20)
    process.kill()
    process.communicate()
    wait_for(lambda: not running("6544"), 5)
    found = geode("audit", "list", "--json").json["calls"]
    assert [(c["tool"], c["status"], c["side_effects"]) for c in found] == [("code_interpreter", "unknown", "unknown")]
    again = geode(*words, "--json")
    assert again.code == 1
    assert again.json["error"]["code"] == "outcome_unknown"
    assert (geode.project / "a.txt").read_text(encoding="utf-8").count("once") <= 1
    assert geode("audit", "verify", "--json").json["ok"]
    assert geode("audit", "stats", "--json").json["unknown"] == 1


def test_a_terminal_without_unicode_and_closed_streams_do_no_harm(geode: Place):
    assert geode.process("--help", env={"PYTHONIOENCODING": "ascii"}).code == 0
    shown = geode.process("policy", "check", "caf\udce9", "--json", env={"PYTHONIOENCODING": "ascii"})
    assert shown.code == 0
    for closed in ("<&-", ">&-", "2>&-", "<&- >&- 2>&-"):
        line = " ".join(["exec", *geode.words("policy", "check", "x"), closed])
        done = subprocess.run(["sh", "-c", line], env=geode.env, cwd=geode.project, timeout=30, check=False)
        assert done.returncode == 0, closed


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root writes everywhere")
def test_a_read_only_home_and_an_unreadable_project_are_named(geode: Place):
    geode.home.mkdir(mode=0o500)
    done = geode("tools", "call", "list_directory", "--json")
    assert done.code == 1
    assert "cannot be written" in done.error["message"]
    closed = geode.root / "closed"
    closed.mkdir(mode=0o000)
    assert "cannot be read" in geode("tools", "list", "--json", "--project", str(closed)).error["message"]


def running(mark: str) -> bool:
    """Whether a process with `mark` in its command line or its stdin file is alive."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if mark.encode() in words and b"geode" not in words:
            return True
    return False


def wait_for(condition: object, seconds: float) -> None:
    end = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.05)
