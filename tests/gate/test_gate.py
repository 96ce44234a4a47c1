"""The stages of one call: what is refused, asked, run, checked, cut and recorded."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from geode.core.effects import Effect
from geode.core.errors import ToolFailed
from geode.core.messages import Image, SideEffects, Status, Text
from geode.core.ports import ApprovalAnswer
from geode.testing import EventLog, ScriptedApprover
from geode.tools.tool import Problem, ToolContext, ToolOutput, Touch, Verification, tool

RUNS: list[str] = []


@pytest.fixture(autouse=True)
def _forget_runs() -> None:
    RUNS.clear()


@tool(effects=[Effect.READ])
def peek(n: int) -> str:
    """Look at a number."""
    RUNS.append("peek")
    return f"saw {n}"


@tool(effects=[Effect.COMMUNICATE])
def post(to: str) -> str:
    """Send something to somebody."""
    RUNS.append(f"post {to}")
    return f"sent to {to}"


@tool()
def mystery() -> str:
    """Do something nobody declared."""
    RUNS.append("mystery")
    return "done"


@tool(effects=[Effect.WRITE], touches=lambda a: [Touch(Effect.WRITE, a["path"])], timeout=0.2)
async def slow_write(path: str) -> str:
    """Write slowly."""
    RUNS.append("started")
    await asyncio.sleep(30)
    return "never"


@tool(effects=[Effect.READ])
def long_text(lines: int) -> str:
    """Print many lines."""
    return "\n".join(f"line {i}" for i in range(1, lines + 1))


@tool(effects=[Effect.READ])
def crash(secret: str) -> str:
    """Fail in a way nobody expected."""
    raise RuntimeError(f"could not use {secret}")


# ------------------------------------------------------------------ refused before anything runs


async def test_policy_is_evaluated_before_the_tool_is_looked_up(make: Any) -> None:
    runtime = make(mode="dry_run")
    result = await runtime.call("run_analyst", {})
    assert result.status is Status.DENIED
    assert result.verdict["blocking_policies"]
    assert result.side_effects is SideEffects.NONE


async def test_an_unknown_tool_is_answered_with_the_closest_names(make: Any) -> None:
    result = await make(tools=[peek]).call("peak", {"n": 1})
    assert result.status is Status.ERROR and result.error_code == "unknown_tool"
    assert "peek" in result.text
    assert RUNS == []


async def test_R44_a_safe_spelling_is_taken_noted_and_judged_again(make: Any) -> None:
    runtime = make(tools=[peek])
    result = await runtime.call(" peek", {"n": 1})
    assert result.status is Status.OK and "taken as 'peek'" in result.text
    denied = await runtime.call("functions.run_analyst", {}, mode="dry_run")
    assert denied.status is not Status.OK
    assert RUNS == ["peek"]


async def test_invalid_arguments_never_reach_the_tool_and_every_problem_is_named(make: Any) -> None:
    result = await make(tools=[peek]).call("peek", {"n": "one", "m": 2})
    assert result.status is Status.ERROR and result.error_code == "invalid_arguments"
    assert "n" in result.text and "m" in result.text
    assert RUNS == []


async def test_an_unknown_mode_or_node_denies(make: Any) -> None:
    runtime = make(tools=[peek])
    assert (await runtime.call("peek", {"n": 1}, mode="no_such_mode")).status is Status.DENIED
    assert (await runtime.call("peek", {"n": 1}, node="no_such_node")).status is Status.DENIED
    assert (await runtime.call("peek", {"n": 1}, node="scoring")).status is Status.DENIED
    assert RUNS == []


# ------------------------------------------------------------------ asked


async def test_undeclared_effects_ask(make: Any) -> None:
    result = await make(tools=[mystery]).call("mystery", {})
    assert result.status is Status.NEEDS_APPROVAL
    assert RUNS == []


async def test_R60_headless_is_refused_at_once_with_rule_and_way_out_and_never_user_cancelled(make: Any) -> None:
    result = await make(tools=[post]).call("post", {"to": "a"})
    assert result.status is Status.NEEDS_APPROVAL
    assert "no approver" in result.text and "rule" in result.text and result.details["approval_id"] in result.text
    assert "cancel" not in result.text.lower()
    assert RUNS == []


async def test_a_yes_runs_it_and_a_no_gives_the_reason_to_the_model(make: Any) -> None:
    no = ApprovalAnswer(approved=False, by="ann", reason="wrong person")
    runtime = make(tools=[post], approver=ScriptedApprover([True, no]))
    assert (await runtime.call("post", {"to": "a"})).status is Status.OK
    refused = await runtime.call("post", {"to": "b"})
    assert refused.status is Status.DENIED and "wrong person" in refused.text
    assert RUNS == ["post a"]


async def test_R78_an_approval_given_later_runs_exactly_that_call_once(make: Any) -> None:
    runtime = make(tools=[post])
    first = await runtime.call("post", {"to": "A"})
    await runtime.approvals.answer(first.details["approval_id"], True, "ann", "")
    assert (await runtime.call("post", {"to": "B"})).status is Status.NEEDS_APPROVAL, "other arguments ask again"
    assert (await runtime.call("post", {"to": "A"})).status is Status.OK
    assert (await runtime.call("post", {"to": "A"})).status is Status.NEEDS_APPROVAL, "used once"
    assert RUNS == ["post A"]


async def test_R78_two_at_once_with_one_approval_run_it_once(make: Any) -> None:
    runtime = make(tools=[post])
    first = await runtime.call("post", {"to": "A"})
    await runtime.approvals.answer(first.details["approval_id"], True, "ann", "")
    results = await asyncio.gather(*(runtime.call("post", {"to": "A"}) for _ in range(5)))
    assert [r.status for r in results].count(Status.OK) == 1
    assert RUNS == ["post A"]


async def test_asking_twice_for_the_same_call_leaves_one_request(make: Any) -> None:
    runtime = make(tools=[post])
    ids = {(await runtime.call("post", {"to": "A"})).details["approval_id"] for _ in range(3)}
    assert len(ids) == 1


async def test_a_no_given_later_reaches_whoever_asks_again_with_its_reason(make: Any) -> None:
    runtime = make(tools=[post])
    first = await runtime.call("post", {"to": "A"})
    await runtime.approvals.answer(first.details["approval_id"], False, "ann", "use the other list")
    again = await runtime.call("post", {"to": "A"})
    assert again.status is Status.DENIED and "refused by ann: use the other list" in again.text
    assert (await runtime.call("post", {"to": "A"})).status is Status.NEEDS_APPROVAL, "told once; then it can be asked"
    assert RUNS == []


async def test_R53_nobody_answers_in_time_expired_not_run_and_a_late_answer_changes_nothing(make: Any) -> None:
    approver = ScriptedApprover([True], delay=30)
    runtime = make(tools=[post], approver=approver, overrides={"approval_timeout": 0.2})
    result = await runtime.call("post", {"to": "a"})
    assert result.status is Status.DENIED
    assert "expired" in result.text and "not run" in result.text and "timed out" not in result.text
    with pytest.raises(Exception, match="expired"):
        await runtime.approvals.answer(result.details["approval_id"], True, "ann", "")
    assert RUNS == []


async def test_R53_the_tools_clock_starts_after_the_approval(make: Any) -> None:
    @tool(effects=[Effect.COMMUNICATE], timeout=0.3)
    async def quick_post() -> str:
        """Send at once."""
        return "sent"

    runtime = make(tools=[quick_post], approver=ScriptedApprover([True], delay=0.5))
    result = await runtime.call("quick_post", {})
    assert result.status is Status.OK and result.duration_ms < 300


async def test_a_tool_changed_while_a_person_was_thinking_is_not_run(make: Any) -> None:
    runtime: Any = None

    class Meddler(ScriptedApprover):
        async def ask(self, request: Any) -> ApprovalAnswer:
            runtime.registry.unregister("post")
            return await super().ask(request)

    runtime = make(tools=[post], approver=Meddler([True]))
    result = await runtime.call("post", {"to": "a"})
    assert result.status is Status.DENIED and "while the call waited" in result.text
    assert RUNS == []


# ------------------------------------------------------------------ run


async def test_events_tell_every_stage_in_order(make: Any) -> None:
    runtime = make(tools=[peek])
    log = EventLog()
    runtime.gate.subscribe(log)
    await runtime.call("peek", {"n": 1})
    assert log.names() == ["CallStarted", "CallDecided", "CallExecuting", "CallFinished"]


async def test_a_tool_over_its_time_is_stopped_and_its_effect_is_unknown(make: Any) -> None:
    result = await make(tools=[slow_write]).call("slow_write", {"path": "x"})
    assert result.error_code == "timeout" and result.side_effects is SideEffects.UNKNOWN
    assert RUNS == ["started"]


async def test_a_deadline_that_has_passed_stops_at_once(make: Any) -> None:
    import time

    result = await make(tools=[slow_write]).call("slow_write", {"path": "x"}, deadline=time.monotonic() - 1)
    assert result.error_code == "timeout"


async def test_a_cancelled_call_is_recorded_as_such_and_cancellation_propagates(make: Any) -> None:
    @tool(effects=[Effect.WRITE], touches=lambda a: [Touch(Effect.WRITE, "x")])
    async def endless() -> str:
        """Never end."""
        RUNS.append("running")
        await asyncio.sleep(60)
        return ""

    runtime = make(tools=[endless])
    task = asyncio.create_task(runtime.call("endless", {}))
    while not RUNS:
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    last = (await runtime.audit.list(limit=1)).entries[0]
    assert (last.status, last.side_effects) == ("cancelled", "unknown")


async def test_a_crash_is_an_error_result_without_traceback_or_secret(make: Any, monkeypatch: Any) -> None:
    key = "sk-ant-api03-" + "a1B2" * 12
    runtime = make(tools=[crash])
    result = await runtime.call("crash", {"secret": key})
    assert result.status is Status.ERROR
    assert "RuntimeError" in result.text and "Traceback" not in result.text
    assert key not in result.text and key not in str(result.details)
    assert key not in str(await runtime.audit.show(result.call_id))


async def test_a_failure_that_knows_nothing_was_changed_says_so(make: Any) -> None:
    @tool(effects=[Effect.WRITE], touches=lambda a: [Touch(Effect.WRITE, "x")])
    def careful() -> str:
        """Check, then write."""
        raise ToolFailed("the text was not found", fix="read the file again", side_effects=SideEffects.NONE)

    result = await make(tools=[careful]).call("careful", {})
    assert result.side_effects is SideEffects.NONE and "read the file again" in result.text


async def test_the_tools_own_check_is_reported_with_the_result(make: Any) -> None:
    async def check(ctx: ToolContext, arguments: Any, output: Any) -> Verification:
        return Verification("lint", (Problem("name 'x' is not defined", 3, 5, "F821", "a.py"),))

    @tool(effects=[Effect.READ], verify=check)
    def produce() -> str:
        """Make something."""
        return "made"

    result = await make(tools=[produce]).call("produce", {})
    assert result.status is Status.OK
    assert "a.py:3:5 F821 name 'x' is not defined" in result.text
    assert result.details["verification"]["ok"] is False


async def test_a_check_that_fails_itself_leaves_the_work_done_and_unproven(make: Any) -> None:
    async def broken(ctx: ToolContext, arguments: Any, output: Any) -> Verification:
        raise ValueError("no linter")

    @tool(effects=[Effect.READ], verify=broken)
    def produce() -> str:
        """Make something."""
        return "made"

    result = await make(tools=[produce]).call("produce", {})
    assert "made" in result.text and "could not be checked" in result.text


async def test_a_tool_calls_another_tool_only_with_its_own_rights(make: Any) -> None:
    @tool(effects=[Effect.READ])
    async def outer(ctx: ToolContext) -> str:
        """Call another tool."""
        from dataclasses import replace

        assert ctx.caller is not None
        inner = replace(ctx.call, tool="post", arguments={"to": "x"}, mode="auto", node=None, id="child")
        return (await ctx.caller.call(inner)).text

    runtime = make(tools=[outer, post])
    result = await runtime.call("outer", {})
    assert "needs approval" in result.text
    assert RUNS == []
    child = next(r for r in (await runtime.audit.list(limit=10)).entries if r.tool == "post")
    assert child.parent == result.call_id


# ------------------------------------------------------------------ shaped


async def test_T72_long_output_is_cut_visibly_and_the_rest_can_be_read(make: Any) -> None:
    runtime = make(tools=[long_text])
    result = await runtime.call("long_text", {"lines": 1_000}, session="s")
    assert "line 50\n" in result.text and "line 51\n" not in result.text and "line 951\n" in result.text
    assert "900 lines" in result.text and "read_file" in result.text
    ref = result.details["result"]
    rest = await runtime.call("read_file", {"path": ref, "offset": 51, "limit": 100}, session="s")
    assert rest.status is Status.OK and "line 51" in rest.text and "line 150" in rest.text


async def test_stored_results_are_closed_to_other_sessions_and_principals(make: Any) -> None:
    runtime = make(tools=[long_text])
    result = await runtime.call("long_text", {"lines": 1_000}, session="s", principal="ann")
    ref = {"path": result.details["result"]}
    assert (await runtime.call("read_file", ref, session="other", principal="ann")).is_error
    assert (await runtime.call("read_file", ref, session="s", principal="bob")).is_error
    assert not (await runtime.call("read_file", ref, session="s", principal="ann")).is_error


async def test_R13_one_huge_line_is_cut_and_the_middle_can_be_read(make: Any) -> None:
    @tool(effects=[Effect.READ])
    def blob() -> str:
        """Print one line."""
        return "a" * 145_000 + "MIDDLE" + "b" * 145_000

    runtime = make(tools=[blob])
    result = await runtime.call("blob", {}, session="s")
    assert len(result.text) < 11_000 and "MIDDLE" not in result.text
    stored = await runtime.results.get(
        result.details["result"].removeprefix("result:"), session="s", principal=runtime.make_call("x").principal
    )
    assert "MIDDLE" in stored.text


async def test_secrets_are_redacted_before_the_full_text_is_stored(make: Any, home: Path) -> None:
    key = "ghp_" + "aB3d" * 9

    @tool(effects=[Effect.READ])
    def leak() -> str:
        """Print a token in a long text."""
        return "x\n" * 500 + f"token {key}\n" + "y\n" * 500

    runtime = make(tools=[leak])
    await runtime.call("leak", {}, session="s")
    await runtime.aclose()
    for file in home.rglob("*"):
        if file.is_file():
            assert key.encode() not in file.read_bytes(), file


async def test_R05_a_lone_surrogate_in_result_or_argument_is_replaced(make: Any) -> None:
    @tool(effects=[Effect.READ])
    def echo(text: str) -> str:
        """Return a text."""
        return text + "ok \ud83d end"

    result = await make(tools=[echo]).call("echo", {"text": "a\ud99c"})
    assert result.text == "a\ufffdok \ufffd end"


async def test_R20_an_image_stays_one_image_block(make: Any) -> None:
    data = "iVBORw0KGgo" + "A" * 40_000

    @tool(effects=[Effect.READ])
    def picture() -> ToolOutput:
        """Make a picture."""
        return ToolOutput(content=[Text("a chart"), Image(data, "image/png")])

    result = await make(tools=[picture]).call("picture", {})
    assert [type(b).__name__ for b in result.content] == ["Text", "Image"]
    assert data not in result.text


# ------------------------------------------------------------------ recorded


async def test_every_end_is_recorded_denials_too(make: Any) -> None:
    runtime = make(tools=[peek, post])
    ok = await runtime.call("peek", {"n": 1})
    denied = await runtime.call("run_analyst", {}, mode="dry_run")
    asked = await runtime.call("post", {"to": "x"})
    invalid = await runtime.call("peek", {})
    assert [r.kind for r in await runtime.audit.show(ok.call_id)] == ["intent", "outcome"]
    for result, status in ((denied, "denied"), (asked, "needs_approval"), (invalid, "error")):
        records = await runtime.audit.show(result.call_id)
        assert [(r.kind, r.status) for r in records] == [("outcome", status)]
    assert (await runtime.audit.verify()).ok


async def test_nothing_runs_when_the_intent_cannot_be_recorded(make: Any, home: Path) -> None:
    runtime = make(tools=[peek])
    await runtime.call("peek", {"n": 1})
    blocker = sqlite3.connect(home / "geode.db", timeout=1)
    RUNS.clear()
    blocker.execute("DROP TABLE audit")
    blocker.commit()
    log = EventLog()
    runtime.subscribe(log)
    result = await runtime.call("peek", {"n": 2})
    blocker.close()
    assert result.status is Status.ERROR and RUNS == []
    assert log.names()[-1] == "CallFinished", "whoever listens learns that it is over"


async def test_a_call_whose_intent_could_not_be_recorded_does_not_use_up_its_key(make: Any, home: Path) -> None:
    runtime = make(tools=[peek])
    await runtime.call("peek", {"n": 1})
    with sqlite3.connect(home / "geode.db", timeout=1) as away:
        away.execute("ALTER TABLE audit RENAME TO audit_away")
    assert (await runtime.call("peek", {"n": 2}, idempotency_key="k")).is_error
    with sqlite3.connect(home / "geode.db", timeout=1) as back:
        back.execute("ALTER TABLE audit_away RENAME TO audit")
    RUNS.clear()
    assert (await runtime.call("peek", {"n": 2}, idempotency_key="k")).status is Status.OK
    assert RUNS == ["peek"]


async def test_T84_the_same_idempotency_key_returns_the_first_result(make: Any) -> None:
    runtime = make(tools=[post], approver=ScriptedApprover([True, True, True]))
    first = await runtime.call("post", {"to": "a"}, idempotency_key="k")
    again = await runtime.call("post", {"to": "a"}, idempotency_key="k")
    other = await runtime.call("post", {"to": "b"}, idempotency_key="k")
    assert first.status is again.status is Status.OK
    assert "sent to a" in again.text and first.call_id in again.text
    assert other.is_error and "another call" in other.text
    assert RUNS == ["post a"]


async def test_a_refused_call_does_not_use_up_its_idempotency_key(make: Any) -> None:
    runtime = make(tools=[post])
    first = await runtime.call("post", {"to": "a"}, idempotency_key="k")
    await runtime.approvals.answer(first.details["approval_id"], True, "ann", "")
    assert (await runtime.call("post", {"to": "a"}, idempotency_key="k")).status is Status.OK


KILLED = """
    import asyncio, os, signal, sys
    from geode.core.effects import Effect
    from geode.runtime import GeodeRuntime
    from geode.tools.tool import Touch, tool

    @tool(effects=[Effect.WRITE], touches=lambda a: [Touch(Effect.WRITE, "out.txt")])
    def write_and_die() -> str:
        "Write, then the machine goes away."
        with open("out.txt", "a") as f:
            f.write("once\\n")
        os.kill(os.getpid(), signal.SIGKILL)

    async def main():
        runtime = GeodeRuntime.create(sys.argv[1], sys.argv[2], servers=False, tools=[write_and_die])
        await runtime.call("write_and_die", {}, idempotency_key="k")

    asyncio.run(main())
"""


async def test_T83_kill_9_between_intent_and_outcome_is_unknown_and_never_repeated(
    make: Any, project: Path, home: Path
) -> None:
    died = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(KILLED), str(project), str(home)],
        cwd=project,
        env={**os.environ},
        timeout=60,
        check=False,
    )
    assert died.returncode == -signal.SIGKILL

    @tool(effects=[Effect.WRITE], touches=lambda a: [Touch(Effect.WRITE, "out.txt")])
    def write_and_die() -> str:
        """Write, then the machine goes away."""
        RUNS.append("again")
        return ""

    runtime = make(tools=[write_and_die])
    last = (await runtime.audit.list(tool="write_and_die", limit=1)).entries[0]
    assert (last.status, last.side_effects) == ("unknown", "unknown")
    assert (await runtime.audit.verify()).ok, "a killed process is no tampering"
    result = await runtime.call("write_and_die", {}, idempotency_key="k")
    assert result.is_error and "not known" in result.text and result.side_effects is SideEffects.UNKNOWN
    assert RUNS == [] and (project / "out.txt").read_text() == "once\n"


# ------------------------------------------------------------------ foreign code around the gate


async def test_a_listener_that_fails_changes_nothing(make: Any) -> None:
    def broken(_event: object) -> None:
        raise RuntimeError("a listener's own fault")

    runtime = make(tools=[peek])
    runtime.subscribe(broken)
    result = await runtime.call("peek", {"n": 1})
    assert result.status is Status.OK and RUNS == ["peek"]
    assert [r.status for r in await runtime.audit.show(result.call_id)][-1] == "ok"


async def test_an_approver_that_fails_means_no_and_is_recorded(make: Any) -> None:
    class Broken(ScriptedApprover):
        async def ask(self, request: Any) -> ApprovalAnswer:
            raise OSError("the window is gone")

    runtime = make(tools=[post], approver=Broken())
    result = await runtime.call("post", {"to": "a"})
    assert result.status is Status.DENIED and "approver failed" in result.text and RUNS == []
    assert (await runtime.audit.show(result.call_id))[-1].status == "denied"


async def test_an_effect_without_a_target_asks_and_says_what_is_missing(make: Any) -> None:
    @tool(effects=["write"])
    def book() -> str:
        """Write somewhere."""
        return ""

    result = await make(tools=[book]).call("book", {})
    assert result.status is Status.NEEDS_APPROVAL and "touches=" in result.text


def test_an_effect_that_does_not_exist_is_refused_where_it_is_declared() -> None:
    with pytest.raises(TypeError, match="'raed' is no effect; there are: read"):
        tool(effects=["raed"])


def test_the_decorator_works_without_parentheses_too() -> None:
    @tool
    def plain(x: int) -> str:
        """Say x."""
        return str(x)

    assert plain.name == "plain" and plain.spec.effects is None
