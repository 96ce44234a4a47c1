"""Every adapter against a real server on loopback, in each protocol: whole, in pieces, cut, stalled, garbled."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing
from datetime import timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from geode.core.messages import Message, Role, Status, Text, ToolCall, ToolResult
from geode.models.choose import open_model
from geode.models.model import (
    CallReady,
    Model,
    ModelError,
    ModelEvent,
    ModelUnavailable,
    ReasoningDelta,
    Request,
    StopReason,
    TextDelta,
    TurnEnded,
    Usage,
)
from geode.models.retry import Backoff
from geode.models.rules import broken_rules
from geode.models.scripted import call, turn
from geode.models.scripted_server import Reply, ScriptedServer
from geode.models.sdk import Timeouts

from .histories import tools_for

PROTOCOLS = ("messages", "responses", "chat")
SECRET = "sk-test-0123456789abcdef"


class QuickClock:
    """A clock whose sleepers do not wait; it remembers how long they would have."""

    def __init__(self) -> None:
        from datetime import UTC, datetime

        self.slept: list[float] = []
        self._now = datetime(2026, 1, 1, tzinfo=UTC)

    def now(self) -> Any:
        return self._now

    def monotonic(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


@pytest.fixture
def serve() -> Iterator[Callable[..., ScriptedServer]]:
    running: list[ScriptedServer] = []

    def start(*script: Any, **more: Any) -> ScriptedServer:
        server = ScriptedServer(script, **more)
        running.append(server)
        return server.__enter__()

    yield start
    for server in running:
        server.__exit__(None, None, None)


async def model_for(protocol: str, server: ScriptedServer, **options: Any) -> Model:
    env = {
        "ANTHROPIC_API_KEY": SECRET,
        "OPENAI_API_KEY": SECRET,
        "GEODE_MODEL_API_KEY": SECRET,
        "ANTHROPIC_BASE_URL": server.url,
        "OPENAI_BASE_URL": f"{server.url}/v1",
    }
    names = {
        "messages": "anthropic:claude-sonnet-5-5",
        "responses": "openai:gpt-6.1-sol",
        "chat": f"openai-compatible:{server.url}/v1#some-qwen",
    }
    return await open_model(names[protocol], env, **options)


def ask(text: str = "go", **more: Any) -> Request:
    return Request(system="Be brief.", messages=[Message.user(text)], **more)


async def events_of(model: Model, request: Request | None = None) -> list[ModelEvent]:
    return [event async for event in model.stream(request or ask())]


def ended(events: list[ModelEvent]) -> TurnEnded:
    last = events[-1]
    assert isinstance(last, TurnEnded)
    assert sum(isinstance(e, TurnEnded) for e in events) == 1
    return last


def text_of(events: list[ModelEvent]) -> str:
    return "".join(e.text for e in events if isinstance(e, TextDelta))


def calls_of(events: list[ModelEvent]) -> list[ToolCall]:
    return [e.call for e in events if isinstance(e, CallReady)]


# ---------------------------------------------------------------- answers


@pytest.mark.parametrize("how", ["whole", "bytes"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_turn_with_thoughts_text_and_two_calls_arrives_the_same_however_it_is_cut_up(
    protocol: str, how: Any, serve: Callable[..., ScriptedServer]
) -> None:
    usage = Usage(input=100, output=7, cache_read=40, cache_write=3)
    calls = [call("read_file", path="a.txt"), call("read_file", path="한글 \U0001f600.txt", lines=[1, 2])]
    server = serve(Reply(turn=turn("I look at  both.", reasoning="Two files.", calls=calls, usage=usage), how=how))
    events = await events_of(await model_for(protocol, server))
    end = ended(events)
    assert text_of(events) == end.message.text == "I look at  both."
    assert "".join(e.text for e in events if isinstance(e, ReasoningDelta)) == "Two files."
    assert calls_of(events) == list(end.message.calls)
    assert [(c.id, c.arguments) for c in end.message.calls] == [
        ("call_1", {"path": "a.txt"}),
        ("call_2", {"path": "한글 \U0001f600.txt", "lines": [1, 2]}),
    ]
    assert end.stop is StopReason.CALLS
    counted = (end.usage.input, end.usage.output, end.usage.cache_read, end.usage.cache_write)
    assert counted == (100, 7, 40, 3)


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_call_is_ready_while_the_stream_goes_on(protocol: str, serve: Callable[..., ScriptedServer]) -> None:
    calls = [call("a", x="long enough to come in pieces"), call("b", y=2)]
    server = serve(turn("words after the calls", calls=calls, calls_first=True))
    events = await events_of(await model_for(protocol, server))
    first = next(i for i, e in enumerate(events) if isinstance(e, CallReady))
    assert any(isinstance(e, TextDelta) for e in events[first:])


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_what_the_usage_costs_is_counted_where_the_price_is_known(
    protocol: str, serve: Callable[..., ScriptedServer]
) -> None:
    server = serve(turn("x", usage=Usage(input=1_000_000, output=1_000_000)))
    end = ended(await events_of(await model_for(protocol, server)))
    assert end.usage.cost_usd == {"messages": 12.0, "responses": 12.0, "chat": 0.0}[protocol]


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_refusal_and_the_output_limit_are_told_apart(
    protocol: str, serve: Callable[..., ScriptedServer]
) -> None:
    server = serve(turn("no", stop=StopReason.REFUSAL), turn("long", stop=StopReason.LENGTH))
    model = await model_for(protocol, server)
    assert ended(await events_of(model)).stop is StopReason.REFUSAL
    assert ended(await events_of(model)).stop is StopReason.LENGTH


@pytest.mark.parametrize("stop", [StopReason.CALLS, StopReason.LENGTH])
@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_R45_arguments_that_are_cut_are_never_arguments(
    protocol: str, stop: StopReason, serve: Callable[..., ScriptedServer]
) -> None:
    whole = call("read_file", path="a")
    server = serve(turn(calls=[whole, call("write_file", raw='{"path":"a.txt","content":"abc')], stop=stop))
    events = await events_of(await model_for(protocol, server))
    read, cut = ended(events).message.calls
    assert read.arguments == {"path": "a"}
    assert cut.arguments is None and cut.raw == '{"path":"a.txt","content":"abc'
    assert ended(events).stop is stop
    assert [c for c in calls_of(events) if c.arguments is not None] == [read]


@pytest.mark.parametrize(("stop", "arguments"), [(StopReason.CALLS, {}), (StopReason.LENGTH, None)])
@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_R45_no_arguments_at_the_output_limit_are_not_an_empty_object(
    protocol: str, stop: StopReason, arguments: Any, serve: Callable[..., ScriptedServer]
) -> None:
    server = serve(turn(calls=[ToolCall("c", "delete_all", None, " ")], stop=stop))
    events = await events_of(await model_for(protocol, server))
    assert [c.arguments for c in ended(events).message.calls] == [arguments]
    assert [c.arguments for c in calls_of(events)] == [arguments]


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_R05_halves_of_a_character_are_joined_and_lone_ones_replaced(
    protocol: str, serve: Callable[..., ScriptedServer]
) -> None:
    server = serve(turn("half \ud83d end", calls=[call("t", raw='{"x": "\\ud99c", "y": "\\ud83d\\ude00"}')]))
    server._script[0] = Reply(
        turn=turn("half \ud83d end", calls=[ToolCall("c", "t", {}, '{"x": "\\ud99c", "y": "\\ud83d\\ude00"}')])
    )
    events = await events_of(await model_for(protocol, server))
    assert text_of(events) == ended(events).message.text == "half � end"
    assert ended(events).message.calls[0].arguments == {"x": "�", "y": "\U0001f600"}


# ---------------------------------------------------------------- what breaks


@pytest.mark.parametrize("at", [0.0, 0.2, 0.6, 0.97])
@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_stream_that_is_cut_off_is_one_error_that_may_be_retried(
    protocol: str, at: float, serve: Callable[..., ScriptedServer]
) -> None:
    cut = Reply(turn=turn("some words come first " * 5, calls=[call("a", x="1234567890" * 5)]), how="cut", at=at)
    server = serve(cut, cut)
    got: list[ModelEvent] = []
    model = await model_for(protocol, server, backoff=Backoff(attempts=2), clock=QuickClock())
    with pytest.raises(ModelError) as caught:
        async for event in model.stream(ask()):
            got.append(event)
    assert (caught.value.retryable and "broke off" in caught.value.message) or "empty" in caught.value.message
    assert not any(isinstance(e, TurnEnded) for e in got)
    # Nothing was asked again once something had been given out.
    assert len(server.requests) == (1 if got else 2)


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_stream_that_stalls_ends_after_the_limit(protocol: str, serve: Callable[..., ScriptedServer]) -> None:
    server = serve(Reply(turn=turn("some words come first " * 5), how="stall", at=0.6))
    model = await model_for(protocol, server, timeouts=Timeouts(stall=0.3))
    with pytest.raises(ModelError, match=r"sent nothing for 0\.3 s") as caught:
        await asyncio.wait_for(events_of(model), 5)
    assert caught.value.retryable


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_silent_server_is_asked_once_more(protocol: str, serve: Callable[..., ScriptedServer]) -> None:
    silent = Reply(how="stall", at=0.0)
    server = serve(silent, silent, silent)
    model = await model_for(protocol, server, timeouts=Timeouts(stall=0.2), clock=QuickClock())
    with pytest.raises(ModelError, match="sent nothing"):
        await events_of(model)
    assert len(server.requests) == 2


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_rate_limit_is_waited_for_as_the_server_asks(
    protocol: str, serve: Callable[..., ScriptedServer]
) -> None:
    clock = QuickClock()
    date = format_datetime(clock.now() + timedelta(seconds=9), usegmt=True)
    limited = Reply(status=429, content_type="application/json", body='{"error":{"message":"slow down"}}')
    script = [
        Reply(**{**_fields(limited), "headers": {"retry-after": "7"}}),
        Reply(**{**_fields(limited), "headers": {"retry-after": date}}),
        Reply(**{**_fields(limited), "headers": {"retry-after-ms": "1500"}}),
        "ok",
    ]
    server = serve(*script)
    model = await model_for(protocol, server, clock=clock)
    assert ended(await events_of(model)).message.text == "ok"
    assert clock.slept == [7.0, 9.0, 1.5]


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_wait_that_is_too_long_is_reported_instead(protocol: str, serve: Callable[..., ScriptedServer]) -> None:
    server = serve(Reply(status=429, headers={"retry-after": "3600"}, content_type="application/json", body="{}"))
    with pytest.raises(ModelError) as caught:
        await events_of(await model_for(protocol, server, clock=QuickClock()))
    assert caught.value.status == 429 and "3600 s" in caught.value.fix and len(server.requests) == 1


@pytest.mark.parametrize("status", [500, 503, 529])
@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_an_overloaded_server_is_asked_again_with_growing_waits(
    protocol: str, status: int, serve: Callable[..., ScriptedServer]
) -> None:
    clock = QuickClock()
    server = serve(Reply(status=status, body="busy", content_type="text/plain"), Reply(status=status, body=""), "ok")
    model = await model_for(protocol, server, clock=clock, backoff=Backoff(chance=lambda: 0.5))
    assert ended(await events_of(model)).message.text == "ok"
    assert clock.slept == [0.5, 1.0]
    assert server.requests[0].raw == server.requests[2].raw


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_x_should_retry_decides(protocol: str, serve: Callable[..., ScriptedServer]) -> None:
    server = serve(Reply(status=500, headers={"x-should-retry": "false"}, body="no"))
    with pytest.raises(ModelError):
        await events_of(await model_for(protocol, server, clock=QuickClock()))
    assert len(server.requests) == 1
    server = serve(Reply(status=400, headers={"x-should-retry": "true"}, body="odd"), "ok")
    assert ended(await events_of(await model_for(protocol, server, clock=QuickClock()))).message.text == "ok"


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_refused_request_is_one_sentence_without_the_key(
    protocol: str, serve: Callable[..., ScriptedServer]
) -> None:
    told = json.dumps({"type": "error", "error": {"type": "x", "message": f"bad key {SECRET}, or sk-other-9876543210"}})
    server = serve(Reply(status=401, content_type="application/json", body=told))
    with pytest.raises(ModelError) as caught:
        await events_of(await model_for(protocol, server))
    assert "401" in caught.value.message and "bad key [key], or [key]" in caught.value.message
    assert SECRET not in str(caught.value) + caught.value.fix and not caught.value.retryable
    assert "KEY" in caught.value.fix and len(server.requests) == 1


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (Reply(body="<html><h1>502 Bad Gateway</h1></html>", content_type="text/html"), "web page"),
        (Reply(status=404, body="<!doctype html><title>nginx</title>", content_type="text/html"), "answered 404"),
        (Reply(body="data: {not json}\n\nevent: x\ndata: {also not\n\n"), "cannot be read"),
        (Reply(body="complete nonsense", content_type="text/plain"), "is empty"),
        (Reply(body="[1, 2, 3]", content_type="application/json"), "cannot be read"),
        (Reply(body='{"error": {"message": "model is loading"}}', content_type="application/json"), "loading"),
        (Reply(body=b"\xff\xfe\x00", content_type="application/json"), "cannot be read"),
        (Reply(body=b""), "is empty"),
        (Reply(status=302, headers={"location": "https://example.invalid/"}, body=""), "answered 302"),
        (
            Reply(status=400, body='{"detail": [{"msg": "too many tools"}]}', content_type="application/json"),
            "too many",
        ),
    ],
)
@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_garbage_is_one_clear_error(
    protocol: str, reply: Reply, said: str, serve: Callable[..., ScriptedServer]
) -> None:
    if reply.body is not None and b"not json" in _raw(reply):
        reply = Reply(body="event: message_start\ndata: {not json}\n\n")
    server = serve(reply)
    with pytest.raises(ModelError) as caught:
        await events_of(await model_for(protocol, server, backoff=Backoff(attempts=1)))
    assert said in caught.value.message
    assert (
        "\n" not in caught.value.message and "Traceback" not in caught.value.message and "<" not in caught.value.message
    )


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_nobody_there_is_said_at_once_with_a_way_out(protocol: str, serve: Callable[..., ScriptedServer]) -> None:
    server = serve()
    model = await model_for(protocol, server)
    server.__exit__(None, None, None)
    with pytest.raises(ModelUnavailable, match=r"cannot be reached at http://127\.0\.0\.1:\d+") as caught:
        await asyncio.wait_for(events_of(model), 5)
    assert "start the server" in caught.value.fix


@pytest.mark.parametrize(
    ("protocol", "events"),
    [
        ("messages", [{"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}]),
        ("responses", [{"type": "error", "code": "server_error", "message": "Overloaded"}]),
        (
            "responses",
            [{"type": "response.failed", "response": {"error": {"code": "server_error", "message": "Overloaded"}}}],
        ),
        ("chat", [{"error": {"type": "server_error", "message": "Overloaded"}}]),
    ],
)
async def test_an_error_inside_the_stream_is_retried_before_the_first_event(
    protocol: str, events: list[Any], serve: Callable[..., ScriptedServer]
) -> None:
    lines = "".join(f"event: {e.get('type', 'x')}\ndata: {json.dumps(e)}\n\n" for e in events)
    server = serve(Reply(body=lines), Reply(body=lines), "ok")
    model = await model_for(protocol, server, clock=QuickClock())
    assert ended(await events_of(model)).message.text == "ok"
    server = serve(Reply(body=lines))
    with pytest.raises(ModelError, match="Overloaded") as caught:
        await events_of(await model_for(protocol, server, backoff=Backoff(attempts=1)))
    assert caught.value.retryable


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_closing_the_iterator_ends_the_request(protocol: str, serve: Callable[..., ScriptedServer]) -> None:
    server = serve(Reply(turn=turn("one two three " * 50), pause=0.05), "next")
    model = await model_for(protocol, server)
    async with aclosing(_generator(model)) as events:
        async for _ in events:
            break
    assert ended(await events_of(model)).message.text == "next"


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_cancelling_ends_the_request(protocol: str, serve: Callable[..., ScriptedServer]) -> None:
    server = serve(Reply(turn=turn("x"), how="stall", at=0.5))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(events_of(await model_for(protocol, server)), 0.3)


async def test_a_server_that_refuses_stream_options_is_asked_without(serve: Callable[..., ScriptedServer]) -> None:
    refused = Reply(
        status=422, content_type="application/json", body='{"message": "Extra inputs: stream_options not permitted"}'
    )
    server = serve(refused, "ok", "ok")
    model = await model_for("chat", server)
    assert ended(await events_of(model)).message.text == "ok"
    await events_of(model)
    assert ["stream_options" in b for b in server.bodies] == [True, False, False]


async def test_a_server_that_does_not_stream_is_understood(serve: Callable[..., ScriptedServer]) -> None:
    function = {"name": "read_file", "arguments": '{"path": "a"}'}
    message = {
        "role": "assistant",
        "content": "ok",
        "tool_calls": [{"id": "c", "type": "function", "function": function}],
    }
    body = {"choices": [{"message": message, "finish_reason": "stop"}], "usage": {"prompt_tokens": 3}}
    server = serve(Reply(body=json.dumps(body), content_type="application/json"))
    end = ended(await events_of(await model_for("chat", server)))
    assert end.message.text == "ok" and end.message.calls[0].arguments == {"path": "a"}
    assert end.stop is StopReason.CALLS and end.usage.input == 3


async def test_the_environment_of_an_openai_account_does_not_travel(
    serve: Callable[..., ScriptedServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_ORG_ID", "org-mine")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "proj-mine")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-mine-0123456789")
    server = serve("ok")
    await events_of(await open_model(f"openai-compatible:{server.url}/v1#m", {}))
    sent = server.requests[0].headers
    assert "mine" not in json.dumps(dict(sent)) and sent["authorization"] == "Bearer none"


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_on_the_wire_a_request_begins_with_the_bytes_of_the_one_before(
    protocol: str, serve: Callable[..., ScriptedServer]
) -> None:
    script = [
        turn("I look.", reasoning="Hm.", calls=[call("read_file", path="한글")]),
        turn("Two.", reasoning="So."),
        "x",
    ]
    server = serve(*script, validate=broken_rules)
    model = await model_for(protocol, server)
    history = [Message.user("go")]
    for _ in range(3):
        tools = tools_for(protocol)
        said = ended(await events_of(model, Request(system="s", messages=history, tools=tools, session="one"))).message
        results = tuple(ToolResult(call_id=c.id, tool=c.name, status=Status.OK) for c in said.calls)
        history += [said, Message(Role.TOOL, results=results) if results else Message.user("and then?")]
    mark = b',"cache_control":{"type":"ephemeral"}'
    first, second, third = [r.raw.replace(mark, b"") for r in server.requests]
    assert second.startswith(first[: -len(b"]}")]) and third.startswith(second[: -len(b"]}")])
    if protocol == "messages":
        assert [r.raw.count(mark) for r in server.requests] == [3, 4, 4]


# ---------------------------------------------------------------- reasoning comes back


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_reasoning_goes_back_to_its_own_model_and_to_no_other(
    protocol: str, serve: Callable[..., ScriptedServer]
) -> None:
    server = serve(turn("I look.", reasoning="Hm, a file.", calls=[call("read_file", path="a")]), "done", "done")
    model = await model_for(protocol, server)
    said = ended(await events_of(model)).message
    result = ToolResult(call_id="call_1", tool="read_file", status=Status.OK, content=(Text("hello"),))
    history = [Message.user("go"), said, Message(Role.TOOL, results=(result,))]
    await events_of(model, Request(system="s", messages=history))
    sent = json.dumps(server.bodies[1], ensure_ascii=False)
    assert {"messages": "signed:11", "responses": "sealed:11", "chat": "Hm, a file."}[protocol] in sent
    for other in PROTOCOLS:
        if other != protocol:
            server.add("done")
            await events_of(await model_for(other, server), Request(system="s", messages=history))
            assert "signed:11" not in (told := json.dumps(server.bodies[-1])) and "sealed:11" not in told
            assert "Hm, a file." not in told


def _fields(reply: Reply) -> dict[str, Any]:
    return {name: getattr(reply, name) for name in Reply.__dataclass_fields__}


def _raw(reply: Reply) -> bytes:
    return reply.body if isinstance(reply.body, bytes) else (reply.body or "").encode()


async def _generator(model: Model) -> AsyncIterator[ModelEvent]:
    async with aclosing(model.stream(ask())) as events:  # type: ignore[type-var]
        async for event in events:
            yield event


@pytest.mark.parametrize(
    "after",
    [
        "Mon, 01 Jan 99999999999999999999 00:00:00 GMT",
        "Mon, 01 Jan 2024 00:00:00 +99999999999999",
        "nan",
        "-5",
        "x" * 999,
    ],
)
async def test_a_wait_that_makes_no_sense_is_no_crash(after: str, serve: Callable[..., ScriptedServer]) -> None:
    server = serve(Reply(status=429, headers={"retry-after": after}, body="{}"), "done")
    assert text_of(await events_of(await model_for("chat", server))) == "done"


async def test_usage_that_makes_no_sense_costs_nothing_and_is_no_crash(serve: Callable[..., ScriptedServer]) -> None:
    usage = '{"prompt_tokens": Infinity, "completion_tokens": 1e400, "prompt_tokens_details": 7}'
    event = '{"choices": [{"delta": {"content": "hi"}, "finish_reason": "stop"}], "usage": ' + usage + "}"
    assert ended(await events_of(await model_for("chat", serve(Reply(events=[event]))))).usage == Usage()


async def test_an_answer_without_end_is_ended(
    serve: Callable[..., ScriptedServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("geode.models.sdk._MOST_STREAM", 100_000)
    piece = {"choices": [{"delta": {"content": "x" * 1_000}}]}
    server = serve(Reply(events=[piece] * 1_000))
    with pytest.raises(ModelError, match="too large"):
        await events_of(await model_for("chat", server))
    assert len(server.requests) == 1
