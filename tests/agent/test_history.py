"""Whatever interrupted a conversation, what is sent is valid, and nothing that was answered is lost."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from geode.agent.history import INTERRUPTED, mend, problems
from geode.core.messages import Message, Role, Status, Text, ToolCall, ToolResult


def call(id: str, arguments: dict[str, object] | None = None, *, cut: bool = False) -> ToolCall:
    return ToolCall(id, "t", None if cut else (arguments or {}), '{"path": "a' if cut else "{}")


def result(id: str, text: str = "ok") -> ToolResult:
    return ToolResult(call_id=id, tool="t", status=Status.OK, content=(Text(text),))


def turn(*calls: ToolCall, text: str = "") -> Message:
    return Message(Role.ASSISTANT, (Text(text),) if text else (), calls)


def results(*items: ToolResult) -> Message:
    return Message(Role.TOOL, results=items)


USER = Message.user("go")


def test_a_valid_history_comes_back_unchanged() -> None:
    history = [USER, turn(call("a"), call("b")), results(result("a"), result("b")), turn(text="done")]
    assert mend(history) == history and problems(history) == []


def test_R01_a_missing_result_becomes_an_error_directly_after_its_turn_in_call_order() -> None:
    mended = mend([USER, turn(call("a"), call("b")), results(result("a")), Message.user("and?")])
    assert [r.call_id for r in mended[2].results] == ["a", "b"]
    assert mended[2].results[0].status is Status.OK
    assert mended[2].results[1].content == (Text(INTERRUPTED),)
    assert problems(mended) == []


def test_R01_a_call_whose_arguments_never_finished_goes_with_its_result() -> None:
    mended = mend([USER, turn(call("a"), call("b", cut=True)), results(result("a"), result("b")), turn(text="x")])
    assert [c.id for c in mended[1].calls] == ["a"]
    assert [r.call_id for r in mended[2].results] == ["a"]
    alone = mend([USER, turn(call("b", cut=True)), results(result("b"))])
    assert problems(alone) == [] and all(not m.calls for m in alone)


def test_results_out_of_order_and_spread_over_messages_are_put_in_call_order() -> None:
    mended = mend(
        [USER, turn(call("a"), call("b"), call("c")), results(result("c")), results(result("a"), result("b"))]
    )
    assert [r.call_id for r in mended[2].results] == ["a", "b", "c"]
    assert all(r.status is Status.OK for r in mended[2].results)


def test_results_of_calls_nobody_made_are_dropped() -> None:
    mended = mend([results(result("x")), USER, results(result("y")), turn(text="hi")])
    assert mended == [USER, turn(text="hi")]


def test_a_late_result_does_not_answer_a_call_of_another_turn() -> None:
    mended = mend([USER, turn(call("a")), Message.user("stop"), results(result("a"))])
    assert mended[2].results[0].error_code == "interrupted"


CALLS = st.lists(st.tuples(st.sampled_from("abcd"), st.booleans()), max_size=4)
MESSAGES = st.lists(
    st.one_of(
        st.sampled_from(["hello", ""]).map(lambda t: Message(Role.USER, (Text(t),) if t else ())),
        st.builds(
            lambda cs, t: turn(*(call(i, cut=c) for i, c in cs), text=t), CALLS, st.sampled_from(["", "text", " "])
        ),
        st.lists(st.sampled_from("abcd"), max_size=4).map(lambda ids: results(*(result(i) for i in ids))),
    ),
    max_size=12,
)


@given(MESSAGES)
def test_R01_every_mended_history_is_valid_and_mending_twice_changes_nothing(messages: list[Message]) -> None:
    mended = mend(messages)
    assert problems(mended) == []
    assert mend(mended) == mended


@given(MESSAGES)
def test_messages_survive_storage(messages: list[Message]) -> None:
    import json

    for message in messages:
        assert Message.from_json(json.loads(json.dumps(message.to_json()))) == message
