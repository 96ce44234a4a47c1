"""The scripted model plays its turns in order and remembers what it was asked."""

from __future__ import annotations

import asyncio

import pytest

from geode.core.messages import Message
from geode.models.model import (
    CallReady,
    Model,
    ModelError,
    ModelEvent,
    ReasoningDelta,
    Request,
    StopReason,
    TextDelta,
    TurnEnded,
    Usage,
)
from geode.models.scripted import ScriptedModel, Turn, call, turn


def ask(text: str = "go") -> Request:
    return Request(system="s", messages=[Message.user(text)])


async def events_of(model: ScriptedModel, request: Request | None = None) -> list[ModelEvent]:
    return [event async for event in model.stream(request or ask())]


async def test_turns_come_in_order_and_calls_get_ids_counted_over_the_script() -> None:
    model = ScriptedModel([call("a", x=1), [call("b"), call("c", call_id="own")], "All  done"])
    assert isinstance(model, Model)
    first, second, third = [await events_of(model) for _ in range(3)]
    assert [e.call.id for e in first if isinstance(e, CallReady)] == ["call_1"]
    assert [e.call.id for e in second if isinstance(e, CallReady)] == ["call_2", "own"]
    assert "".join(e.text for e in third if isinstance(e, TextDelta)) == "All  done"
    end = third[-1]
    assert isinstance(end, TurnEnded) and end.stop is StopReason.END and end.message.text == "All  done"
    assert len(model.requests) == 3 and model.left == 0
    with pytest.raises(ModelError, match="script"):
        await events_of(model)


async def test_a_function_answers_and_every_request_is_validated() -> None:
    seen: list[str] = []
    model = ScriptedModel(
        lambda r: turn(r.messages[-1].text.upper(), usage=Usage(input=3)), validate=lambda r: seen.append(r.system)
    )
    end = (await events_of(model, ask("hello")))[-1]
    assert isinstance(end, TurnEnded) and end.message.text == "HELLO" and end.usage.input == 3
    assert seen == ["s"]


async def test_errors_before_and_at_the_end_and_a_stall_that_is_cancelled() -> None:
    broken = ModelError("cut", retryable=True)
    model = ScriptedModel([broken, turn("half", calls=[call("a")], error=broken, error_at_end=True), Turn(stall=True)])
    with pytest.raises(ModelError):
        await events_of(model)
    got: list[ModelEvent] = []
    with pytest.raises(ModelError):
        async for event in model.stream(ask()):
            got.append(event)
    assert isinstance(got[-1], CallReady)
    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(events_of(model), 0.02)
    assert model.open_streams == 0


async def test_calls_come_before_the_end_of_the_stream() -> None:
    model = ScriptedModel([turn("after", reasoning="hm", calls=[call("a"), call("b", raw='{"x":')], calls_first=True)])
    kinds = [type(e) for e in await events_of(model)]
    assert kinds == [ReasoningDelta, CallReady, CallReady, TextDelta, TurnEnded]
