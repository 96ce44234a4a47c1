"""Calls out of the pieces that servers really send."""

from __future__ import annotations

from typing import Any

import pytest

from geode.core.messages import ToolCall
from geode.models.calls import CallPieces
from geode.models.chat import _Answer
from geode.models.model import CallReady, ModelEvent, StopReason, TurnEnded
from geode.models.profiles import profile_of

A, B = {"path": "a"}, {"path": "b"}


def piece(
    index: int | None = 0, call_id: str | None = None, name: str | None = None, args: Any = None
) -> dict[str, Any]:
    out: dict[str, Any] = {"function": {}}
    if index is not None:
        out["index"] = index
    if call_id is not None:
        out["id"] = call_id
    if name is not None:
        out["function"]["name"] = name
    if args is not None:
        out["function"]["arguments"] = args
    return out


SERVERS: dict[str, list[dict[str, Any]]] = {
    "openai": [
        piece(0, "c1", "read", ""),
        piece(0, args='{"path"'),
        piece(0, args=': "a"}'),
        piece(1, "c2", "read", ""),
        piece(1, args='{"path": "b"}'),
    ],
    "mixed by index": [
        piece(0, "c1", "read", ""),
        piece(1, "c2", "read", ""),
        piece(1, args='{"path":'),
        piece(0, args='{"path":'),
        piece(0, args='"a"}'),
        piece(1, args='"b"}'),
    ],
    "whole, index always 0 (Ollama)": [piece(0, "c1", "read", '{"path":"a"}'), piece(0, "c2", "read", '{"path":"b"}')],
    "whole, no index": [piece(None, "c1", "read", '{"path":"a"}'), piece(None, "c2", "read", '{"path":"b"}')],
    "whole, no ids": [piece(0, None, "read", '{"path":"a"}'), piece(1, None, "read", '{"path":"b"}')],
    "whole, neither index nor id": [
        piece(None, None, "read", '{"path":"a"}'),
        piece(None, None, "read", '{"path":"b"}'),
    ],
    "one id for all": [piece(0, "call_0", "read", '{"path":"a"}'), piece(1, "call_0", "read", '{"path":"b"}')],
    "one id and one index for all": [
        piece(0, "call_0", "read", '{"path":"a"}'),
        piece(0, "call_0", "read", '{"path":"b"}'),
    ],
    "arguments as objects": [piece(0, "c1", "read", {"path": "a"}), piece(1, "c2", "read", {"path": "b"})],
    "a new id in every piece": [
        piece(0, "x1", "read", ""),
        piece(0, "x2", None, '{"path":'),
        piece(0, "x3", None, '"a"}'),
        piece(1, "y1", "read", ""),
        piece(1, "y2", None, '{"path":"b"}'),
    ],
    "the name in every piece": [
        piece(0, "c1", "read", '{"path"'),
        piece(0, "c1", "read", ':"a"}'),
        piece(0, "c1", "read", ""),
        piece(1, "c2", "read", '{"path":"b"}'),
    ],
    "empty pieces": [
        {},
        piece(0),
        piece(0, "c1", "read", ""),
        {"index": 0, "id": None, "function": None},
        piece(0, args='{"path":"a"}'),
        piece(0, "", "", ""),
        piece(1, "c2", "read", '{"path":"b"}'),
        piece(1),
    ],
    "encoded twice": [piece(0, "c1", "read", '"{\\"path\\": \\"a\\"}"'), piece(1, "c2", "read", '{"path":"b"}')],
    "index from 1": [piece(1, "c1", "read", '{"path":"a"}'), piece(2, "c2", "read", '{"path":"b"}')],
}


@pytest.mark.parametrize("pieces", SERVERS.values(), ids=SERVERS)
def test_two_calls_are_two_calls_however_a_server_sends_them(pieces: list[dict[str, Any]]) -> None:
    collected = CallPieces()
    early = [c for p in pieces for c in collected.add(p)]
    ready = [*early, *collected.finish(cut=False)]
    assert [(c.name, c.arguments) for c in ready] == [("read", A), ("read", B)]
    assert ready == list(collected.calls()) and len({c.id for c in ready}) == 2
    assert all(c.id for c in ready)
    # The first is ready before the turn ends.
    assert len(early) == 1


def test_no_call_is_ready_before_its_arguments_are_whole() -> None:
    collected = CallPieces()
    assert collected.add(piece(0, "c1", "read", '{"path": "a')) == []
    assert collected.add(piece(1, "c2", "read", '{"path": "b"}')) == []
    assert collected.add(piece(2, "c3", "read", "")) == []
    assert [c.id for c in collected.add(piece(0, args='"}'))] == ["c1", "c2"]


@pytest.mark.parametrize("raw", ["[1]", "3", '"text"', "{'path': 'a'}", '{"a": NaN}', "{" * 5000, '{"a":' * 3000 + "1"])
def test_what_is_no_json_object_is_no_arguments(raw: str) -> None:
    collected = CallPieces()
    collected.add(piece(0, "c", "read", raw))
    [call] = collected.finish(cut=False)
    assert call.arguments is None and call.raw == raw


@pytest.mark.parametrize(("cut", "arguments"), [(False, {}), (True, None)])
def test_R45_empty_arguments_are_an_empty_object_only_when_the_turn_was_not_cut(cut: bool, arguments: Any) -> None:
    for raw in ("", " ", "null"):
        collected = CallPieces()
        collected.add(piece(0, "c", "read", raw))
        assert [c.arguments for c in collected.finish(cut=cut)] == [arguments]


def test_signatures_that_a_server_sends_with_a_call_go_back_with_it() -> None:
    collected = CallPieces()
    signed = {**piece(0, "c1", "read", "{}"), "extra_content": {"google": {"thought_signature": "s"}}}
    collected.add(signed)
    collected.finish(cut=False)
    assert collected.extras() == [("c1", {"extra_content": {"google": {"thought_signature": "s"}}})]


def read(*events: dict[str, Any]) -> list[ModelEvent]:
    answer = _Answer(profile_of("chat", "x"))
    return [made for e in events for made in answer.feed(e)] + answer.end()


def delta(finish: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


def test_calls_count_even_when_the_server_says_stop_and_reports_no_usage() -> None:
    events = read(delta(tool_calls=[piece(0, None, "read", A)]), delta("stop"), {"choices": [], "usage": None})
    end = events[-1]
    assert isinstance(end, TurnEnded) and end.stop is StopReason.CALLS and end.usage.total == 0
    assert [e.call for e in events if isinstance(e, CallReady)] == [ToolCall("call_1", "read", A, '{"path": "a"}')]


def test_odd_chunks_do_no_harm() -> None:
    events = read(
        {},
        {"choices": None},
        {"choices": [None]},
        {"choices": [{"delta": None}]},
        delta(content=None, tool_calls=None, reasoning_content=None),
        delta(content=[{"type": "text", "text": "par"}]),
        delta("stop", content="ts"),
        {"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": None, "prompt_tokens_details": None}},
    )
    end = events[-1]
    assert isinstance(end, TurnEnded) and end.message.text == "parts" and end.usage.input == 10
