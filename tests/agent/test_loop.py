"""The loop: what is sent is always valid, what is called passes the gate, what happened is never lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from geode.agent.history import problems
from geode.agent.loop import AgenticLoop, Limits, LoopParts
from geode.agent.session import Session
from geode.core.effects import Effect, Origin
from geode.core.messages import Role, Status
from geode.models.model import ModelError, Request, StopReason, Usage
from geode.models.scripted import ScriptedModel, Turn, call, turn
from geode.runtime import GeodeRuntime
from geode.store.transcripts import Transcripts
from geode.testing import EventLog, ScriptedApprover
from geode.tools.tool import Touch, tool

Loop = Callable[..., Any]
ORDER: list[str] = []


@tool(effects=[Effect.READ], idempotent=False)
async def look(n: int, wait: float = 0.0) -> str:
    """Look at something."""
    ORDER.append(f"look {n} begins")
    await asyncio.sleep(wait)
    ORDER.append(f"look {n} ends")
    return f"saw {n}"


@tool(effects=[Effect.WRITE], touches=lambda a: [Touch(Effect.WRITE, f"{a['n']}.txt")])
async def put(n: int, wait: float = 0.0) -> str:
    """Put something."""
    ORDER.append(f"put {n} begins")
    await asyncio.sleep(wait)
    ORDER.append(f"put {n} ends")
    return f"put {n}"


@tool(effects=[Effect.READ])
def fail(why: str) -> str:
    """Fail."""
    raise ValueError(why)


@tool(effects=[Effect.READ])
def poll() -> str:
    """A different answer every time."""
    ORDER.append("poll")
    return f"state {len(ORDER)}"


@tool(effects=[Effect.COMMUNICATE])
def send(to: str) -> str:
    """Send something."""
    ORDER.append(f"send {to}")
    return "sent"


TOOLS = [look, put, fail, poll, send]


@pytest.fixture(autouse=True)
def _forget() -> None:
    ORDER.clear()


def valid(request: Request) -> None:
    assert problems(request.messages) == [], problems(request.messages)


def opened(runtime: GeodeRuntime, model: ScriptedModel, session: Session, **options: Any) -> AgenticLoop:
    parts = LoopParts(
        model=model,
        gate=runtime.gate,
        registry=runtime.registry,
        make_call=lambda name, arguments: runtime.make_call(name, arguments, origin=Origin.MODEL, session=session.id),
        visible=lambda name: True,
        **{k: v for k, v in options.items() if k != "limits"},
    )
    return AgenticLoop(parts, session, limits=options.get("limits", Limits()))


@pytest.fixture
def loop_of(make: Any) -> Loop:
    async def create(script: Any, *, id: str = "", approver: Any = None, **options: Any) -> AgenticLoop:
        runtime = make(tools=TOOLS, approver=approver)
        model = script if isinstance(script, ScriptedModel) else ScriptedModel(script, validate=valid)
        session = await Session.open(Transcripts(runtime._database), runtime.redactor, id=id)
        loop = opened(runtime, model, session, **options)
        loop.test_runtime, loop.test_model = runtime, model  # type: ignore[attr-defined]
        return loop

    return create


def through(name: str, **arguments: Any) -> Any:
    return call("call_tool", name=name, arguments=arguments)


async def test_a_task_with_two_reads_and_a_write(loop_of: Loop) -> None:
    loop = await loop_of([[through("look", n=1), through("look", n=2)], [through("put", n=3)], "all done"])
    outcome = await loop.run("do it")
    assert (outcome.status, outcome.answer, outcome.turns) == ("ok", "all done", 3)
    assert [c["tool"] for c in outcome.calls] == ["look", "look", "put"]
    assert all(c["call_id"].startswith("call_") for c in outcome.calls)


async def test_T40_reads_of_a_turn_run_together_and_effects_one_after_another(loop_of: Loop) -> None:
    calls = [through("look", n=1, wait=0.2), through("look", n=2, wait=0.1), through("put", n=3), through("look", n=4)]
    loop = await loop_of([calls, "ok"])
    await loop.run("go")
    assert ORDER[:2] == ["look 1 begins", "look 2 begins"]
    assert ORDER.index("put 3 begins") > max(ORDER.index("look 1 ends"), ORDER.index("look 2 ends"))
    assert ORDER.index("look 4 begins") > ORDER.index("put 3 ends")
    results = loop.test_model.requests[1].messages[-1].results
    assert [r.text.split()[-1] for r in results] == ["1", "2", "3", "4"], "in call order, not in the order they ended"


async def test_R19_a_failing_call_does_not_stop_its_siblings(loop_of: Loop) -> None:
    loop = await loop_of([[through("fail", why="no"), through("look", n=1), through("nothing_like_it")], "ok"])
    outcome = await loop.run("go")
    assert [c["status"] for c in outcome.calls] == ["error", "ok", "error"]
    assert outcome.status == "ok"


async def test_R45_a_call_that_was_cut_is_not_run_and_the_model_is_told(loop_of: Loop) -> None:
    cut = turn(calls=[through("look", n=1), call("call_tool", raw='{"name":"put","argu')], stop=StopReason.LENGTH)
    loop = await loop_of([cut, "ok"])
    outcome = await loop.run("go")
    assert ORDER == ["look 1 begins", "look 1 ends"] and outcome.status == "ok"
    second = loop.test_model.requests[1]
    assert "not run" in second.messages[-1].text and "smaller" in second.messages[-1].text
    assert '{"name":"put","argu' not in str(second), "broken JSON is never sent back"


async def test_R45_the_same_when_the_only_call_was_cut(loop_of: Loop) -> None:
    loop = await loop_of([[call("write_file", raw='{"path":"a.txt","content":"abc')], "ok"])
    outcome = await loop.run("go")
    assert outcome.status == "ok" and outcome.turns == 2
    (made_wrongly,) = outcome.calls
    assert (made_wrongly["tool"], made_wrongly["status"]) == ("write_file", "error")
    (record,) = await loop.test_runtime.audit.show(made_wrongly["call_id"])
    assert (record.status, record.side_effects) == ("error", "none") and "not run" in str(record.body)


async def test_R44_an_unknown_name_is_answered_with_the_closest_and_three_times_stops(loop_of: Loop) -> None:
    loop = await loop_of([[call("read_fiel", path=f"{i}")] for i in range(9)])
    outcome = await loop.run("go")
    assert outcome.status == "stopped" and "read_fiel" in outcome.reason and outcome.turns == 3
    assert "read_file" in loop.test_model.requests[1].messages[-1].results[0].text


async def test_R30_the_same_call_with_the_same_end_is_blocked_and_recorded(loop_of: Loop) -> None:
    loop = await loop_of([[through("look", n=1)] for _ in range(5)] + ["enough"])
    outcome = await loop.run("go")
    assert [c["status"] for c in outcome.calls] == ["ok", "ok", "ok", "denied", "denied"]
    assert ORDER.count("look 1 begins") == 3
    records = await loop.test_runtime.audit.show(outcome.calls[3]["call_id"])
    assert records[0].status == "denied" and "repeat-guard" in str(records[0].body)


async def test_R30_polling_with_changing_results_is_not_blocked(loop_of: Loop) -> None:
    loop = await loop_of([[through("poll")] for _ in range(8)] + ["enough"])
    outcome = await loop.run("go")
    assert {c["status"] for c in outcome.calls} == {"ok"} and len(outcome.calls) == 8


async def test_R82_a_wrong_call_of_a_deferred_tool_is_answered_with_its_schema(loop_of: Loop) -> None:
    loop = await loop_of([[through("look", number=1)], [through("look", n=1)], "ok"])
    outcome = await loop.run("go")
    told = loop.test_model.requests[1].messages[-1].results[0].text
    assert '"n"' in told and "Schema of look" in told
    assert [c["status"] for c in outcome.calls] == ["error", "ok"]


async def test_a_denial_reaches_the_model_with_reason_and_the_run_goes_on(loop_of: Loop) -> None:
    loop = await loop_of([[through("send", to="a")], "I could not send it"])
    outcome = await loop.run("go")
    assert outcome.calls[0]["status"] == "needs_approval" and ORDER == []
    assert "approval" in loop.test_model.requests[1].messages[-1].results[0].text


async def test_calls_begin_while_the_model_still_speaks_and_run_only_after_the_turn(loop_of: Loop) -> None:
    loop = await loop_of([Turn(calls=(through("put", n=1), through("put", n=2)), call_delay=0.1), "ok"])
    log = EventLog()
    loop.test_runtime.gate.subscribe(log)
    await loop.run("go")
    names = log.names()
    assert names.index("CallDecided") < names.index("TurnFinished") < names.index("CallExecuting")


async def test_R02_the_first_request_costs_the_same_whatever_is_installed(loop_of: Loop) -> None:
    small = await loop_of(["hi"])
    await small.run("fix a typo")
    big = await loop_of(["hi"])
    for i in range(300):
        name = f"extra_tool_{i}"

        @tool(effects=[Effect.READ], name=name)
        def extra(a: str, b: int) -> str:
            """One of very many tools with a long description that would cost a lot."""
            return ""

        big.test_runtime.registry.register(extra)
    again = opened(big.test_runtime, ScriptedModel(["hi"]), big.session)
    await again.run("fix a typo")
    assert small.test_model.requests[0].tools == again._parts.model.requests[0].tools  # type: ignore[attr-defined]


async def test_E17_a_tool_added_in_mid_conversation_is_announced_and_the_prefix_does_not_change(loop_of: Loop) -> None:
    loop = await loop_of([[through("look", n=1)], [through("late")], "ok"])
    original = loop.test_runtime.gate.finish

    @tool(effects=[Effect.READ])
    def late() -> str:
        """Come late."""
        return "here"

    def on_event(event: Any) -> None:
        if type(event).__name__ == "CallExecuting" and "late" not in loop.test_runtime.registry:
            loop.test_runtime.registry.register(late)

    loop.test_runtime.gate.subscribe(on_event)
    outcome = await loop.run("go")
    assert original is not None and [c["status"] for c in outcome.calls] == ["ok", "ok"]
    first, second, third = loop.test_model.requests
    assert "late" in second.messages[-1].text
    assert first.tools == second.tools == third.tools and first.system == third.system
    assert third.messages[: len(second.messages)] == second.messages
    assert loop.refresh_tools() == len(loop.test_runtime.registry.names())


async def test_R01_a_run_cancelled_in_the_middle_of_its_calls_resumes_with_what_had_happened(loop_of: Loop) -> None:
    calls = [through("look", n=1), through("put", n=2), through("put", n=3, wait=30)]
    loop = await loop_of([calls])
    task = asyncio.create_task(loop.run("go"))
    while "put 3 begins" not in ORDER:
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    resumed = await loop_of(["what now?"], id=loop.session.id)
    outcome = await resumed.run("go on")
    assert outcome.status == "ok"
    results = resumed.test_model.requests[0].messages[2].results
    assert [r.status for r in results] == [Status.OK, Status.OK, Status.ERROR]
    assert "may or may not" in results[2].text


async def test_a_model_that_fails_ends_the_run_with_its_reason_and_the_session_goes_on(loop_of: Loop) -> None:
    loop = await loop_of([[through("look", n=1)], ModelError("overloaded", fix="try later"), "fine"])
    outcome = await loop.run("go")
    assert outcome.status == "error" and "overloaded" in outcome.reason and "try later" in outcome.reason
    assert (await loop.run("again")).status == "ok"


async def test_a_stream_that_breaks_in_mid_turn_runs_none_of_its_calls(loop_of: Loop) -> None:
    broken = Turn(calls=(through("put", n=1),), error=ModelError("connection lost"), error_at_end=True)
    loop = await loop_of([broken, "ok"])
    assert (await loop.run("go")).status == "error"
    assert ORDER == []
    assert (await loop.run("again")).status == "ok"


@pytest.mark.parametrize(
    ("limits", "word"),
    [
        (Limits(turns=2), "turns"),
        (Limits(tokens=150), "tokens"),
        (Limits(cost_usd=0.015), "dollars"),
        (Limits(seconds=0.3), "s is reached"),
    ],
)
async def test_limits_stop_a_run_with_their_name(loop_of: Loop, limits: Limits, word: str) -> None:
    usage = Usage(input=90, output=10, cost_usd=0.01)
    script = [Turn(calls=(through("look", n=i, wait=0.2),), usage=usage) for i in range(99)]
    loop = await loop_of(script, limits=limits)
    outcome = await loop.run("go")
    assert outcome.status == "stopped" and word in outcome.reason
    assert outcome.turns == 2 or limits.seconds is not None
    assert (await (await loop_of(["ok"], id=loop.session.id)).run("and now?")).status == "ok"


async def test_usage_and_cost_of_all_turns_are_added(loop_of: Loop) -> None:
    usage = Usage(input=10, output=5, cache_read=100, cost_usd=0.001)
    loop = await loop_of([Turn(calls=(through("look", n=1),), usage=usage), Turn(text="ok", usage=usage)])
    outcome = await loop.run("go")
    assert outcome.usage == usage + usage


async def test_a_history_that_fills_the_window_is_compacted_and_keeps_what_was_revealed_and_decided(
    loop_of: Loop,
) -> None:
    big = "words " * 400

    def player(request: Request) -> Any:
        if "hand-over" in request.messages[-1].text:
            return "Goal: many looks. Done: a few."
        turns = sum(m.role is Role.ASSISTANT for m in request.messages)
        if "hand-over" in request.messages[0].text:
            return "finished"
        if turns == 0:
            return [call("tool_search", query="select:look")]
        if turns == 1:
            return [through("send", to="x")]
        return turn(big, calls=[through("look", n=turns)])

    model = ScriptedModel(player, validate=valid, context_tokens=9_000, output_tokens=500)
    loop = await loop_of(model)
    log = EventLog()
    loop.test_runtime.gate.subscribe(log)
    outcome = await loop.run("look at many things")
    assert outcome.status == "ok" and "HistoryCompacted" in log.names()
    first = model.requests[-1].messages[0].text
    assert "Goal: many looks" in first and "look at many things" in first
    assert "- look:" in first and "Arguments:" in first, "the schema that was revealed"
    assert "send" in first, "what was not approved"
    resumed = await loop_of(["ok"], id=loop.session.id)
    assert "Goal: many looks" in resumed.session.messages[0].text


async def test_R05_lone_surrogates_of_the_model_are_replaced(loop_of: Loop) -> None:
    loop = await loop_of([[through("fail", why="a\ud99cb")], turn("bad \ud83d text"), "ok"])
    await loop.run("hel\ud83dlo")
    await loop.run("more")
    for request in loop.test_model.requests:
        str([m.to_json() for m in request.messages]).encode("utf-8")


async def test_an_approval_in_the_conversation_lets_exactly_that_call_run(loop_of: Loop) -> None:
    loop = await loop_of([[through("send", to="a")], "sent"], approver=ScriptedApprover([True]))
    outcome = await loop.run("send it")
    assert outcome.calls[0]["status"] == "ok" and ORDER == ["send a"]


ACTIONS = st.lists(
    st.one_of(
        st.sampled_from(["look", "put", "fail", "send", "poll", "nothing"]).map(lambda n: ("calls", [n])),
        st.lists(st.sampled_from(["look", "put", "fail", "cut", "send"]), min_size=2, max_size=4).map(
            lambda n: ("calls", n)
        ),
        st.just(("text", [])),
        st.just(("error", [])),
        st.just(("broken", ["put", "look"])),
        st.just(("cancel", ["look", "put"])),
    ),
    min_size=1,
    max_size=6,
)


def _turn_of(action: tuple[str, Sequence[str]], number: int) -> Any:
    kind, names = action
    calls: list[Any] = []
    for i, name in enumerate(names):
        arguments = {"look": {"n": i}, "put": {"n": i}, "fail": {"why": "x"}, "send": {"to": "x"}}.get(name, {})
        calls.append(call("call_tool", raw='{"na') if name == "cut" else through(name, **arguments))
    match kind:
        case "text":
            return f"answer {number}"
        case "error":
            return ModelError("down")
        case "broken":
            return Turn(calls=tuple(calls), error=ModelError("cut off"), error_at_end=True)
        case "cancel":
            return Turn(calls=tuple(calls), stall=True)
        case _:
            return calls


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(actions=ACTIONS)
async def test_R01_whatever_happens_every_request_is_valid(make: Any, actions: list[tuple[str, Sequence[str]]]) -> None:
    runtime = make(tools=TOOLS)
    session_id = ""
    script = [_turn_of(a, i) for i, a in enumerate(actions)]
    model = ScriptedModel([*script, "the end"], validate=valid)
    for _ in range(len(actions) + 2):
        session = await Session.open(Transcripts(runtime._database), runtime.redactor, id=session_id)
        session_id = session.id
        loop = opened(runtime, model, session, limits=Limits(turns=4))
        task = asyncio.create_task(loop.run("go"))
        done, _pending = await asyncio.wait([task], timeout=0.25 if any(a[0] == "cancel" for a in actions) else 20)
        if not done:
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        if not model.left:
            break
    assert model.open_streams == 0
    assert model.left == 0
    await runtime.aclose()


def test_the_loop_is_readable_in_one_file() -> None:
    import geode.agent.loop as module

    assert len(Path(module.__file__).read_text("utf-8").splitlines()) < 400


async def test_E17_a_skill_added_in_a_conversation_is_used_in_the_next_turn_and_the_prefix_stays(
    make: Any, home: Path
) -> None:
    runtime = make(tools=TOOLS)
    model = ScriptedModel(["hello", [call("skill_read", name="brew")], "brewed"], validate=valid)
    loop = await runtime.agent(model)
    await loop.run("hello")
    folder = home / "skills" / "brew"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(
        '---\nname: brew\ndescription: Make tea. Triggers: "tea"\n---\nBoil the water first.\n', "utf-8"
    )
    outcome = await loop.run("make some tea")
    first, second, third = model.requests
    assert outcome.answer == "brewed" and [c["status"] for c in outcome.calls] == ["ok"]
    assert "brew" in second.messages[-1].text and "Boil the water" in second.messages[-1].text
    assert "Boil the water first." in third.messages[-1].results[0].text
    assert first.system == second.system == third.system and first.tools == second.tools
    assert second.messages[: len(first.messages)] == first.messages


async def test_E5_a_node_gets_its_own_skills_and_tools_and_no_others(make: Any, home: Path) -> None:
    for name, nodes in (("for_scoring", "scoring"), ("for_analyst", "analyst"), ("for_all", "")):
        (home / "skills" / name).mkdir(parents=True)
        scope = f"nodes: [{nodes}]\n" if nodes else ""
        (home / "skills" / name / "SKILL.md").write_text(
            f"---\nname: {name}\ndescription: Knowledge.\n{scope}---\nBody.\n"
        )
    runtime = make(tools=TOOLS)
    model = ScriptedModel([[through("look", n=1)], "ok"], validate=valid)
    loop = await runtime.agent(model, node="scoring")
    outcome = await loop.run("score it")
    system = model.requests[0].system
    assert "for_scoring" in system and "for_all" not in system and "for_analyst" not in system
    assert [t["function"]["name"] for t in model.requests[0].tools] == ["call_tool"], "only what the node may use"
    assert outcome.calls[0]["status"] == "denied" and ORDER == []
