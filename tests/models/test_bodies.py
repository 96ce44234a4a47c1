"""Request bodies: legal for every history, the same bytes from turn to turn, marks and images at their place."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from geode.agent.history import mend, problems
from geode.core.messages import Image, Message, Role, Status, Text, ToolCall, ToolResult, clean_json
from geode.models.anthropic import messages_body
from geode.models.chat import chat_body
from geode.models.model import Profile, Request
from geode.models.openai import responses_body
from geode.models.profiles import profile_of
from geode.models.rules import broken_rules
from geode.models.scripted_wire import Protocol

from .histories import PNG, histories, tools_for

Build = Callable[[Request, Profile], dict[str, Any]]
BUILD: dict[Protocol, Build] = {"messages": messages_body, "responses": responses_body, "chat": chat_body}
NAMES = {"messages": ("anthropic", "claude-sonnet-5-5"), "responses": ("openai", "gpt-6.1-sol"), "chat": ("chat", "x")}
PROTOCOLS: tuple[Protocol, ...] = ("messages", "responses", "chat")


def profile(protocol: Protocol, **known: Any) -> Profile:
    provider, name = NAMES[protocol]
    return profile_of(provider, name, **known)


def body_of(protocol: Protocol, history: list[Message], **known: Any) -> dict[str, Any]:
    request = Request(system="Be brief.", messages=history, tools=tools_for(protocol), session="s1")
    made = clean_json(BUILD[protocol](request, profile(protocol, **known)))
    return json.loads(json.dumps(made))


def history(*, image: bool = False, error: bool = False) -> list[Message]:
    calls = (ToolCall("c1", "read_file", {"path": "a"}, '{"path": "a"}'), ToolCall("c2", "read_file", {"path": "b"}))
    content = (Text("one"), Image(PNG, "image/png")) if image else (Text("one"),)
    status = Status.ERROR if error else Status.OK
    results = (
        ToolResult(call_id="c1", tool="read_file", status=Status.OK, content=content),
        ToolResult(call_id="c2", tool="read_file", status=status, content=(Text("two"),)),
    )
    return [
        Message.user("go"),
        Message(Role.ASSISTANT, (Text("I look."),), calls=calls),
        Message(Role.TOOL, results=results),
        Message.user("and then?"),
    ]


@pytest.mark.parametrize("images", [True, False])
@pytest.mark.parametrize("protocol", PROTOCOLS)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_every_valid_history_makes_a_request_that_obeys_the_protocol(
    protocol: Protocol, images: bool, data: st.DataObject
) -> None:
    valid = data.draw(histories())
    assert problems(valid) == []
    body = body_of(protocol, valid, images=images)
    assert broken_rules(protocol, body) == []
    assert images or PNG not in json.dumps(body)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_what_was_interrupted_and_mended_obeys_the_protocol(protocol: Protocol, data: st.DataObject) -> None:
    whole = data.draw(histories())
    kept = [m for m in whole if data.draw(st.booleans())]
    mended = mend(kept)
    if mended and mended[-1].role is not Role.ASSISTANT:
        assert broken_rules(protocol, body_of(protocol, mended)) == []


@pytest.mark.parametrize("protocol", PROTOCOLS)
@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_a_request_begins_with_the_bytes_of_the_one_before(protocol: Protocol, data: st.DataObject) -> None:
    whole = data.draw(histories())
    # A model was asked before each of its turns, and is asked now.
    asked = [i for i, m in enumerate(whole) if m.role is Role.ASSISTANT] + [len(whole)]
    marked = [json.dumps(body_of(protocol, whole[:end]), ensure_ascii=False) for end in asked]
    bodies = [b.replace(', "cache_control": {"type": "ephemeral"}', "") for b in marked]
    for before, after in pairwise(bodies):
        assert after.startswith(before[: -len("]}")])


def test_the_rules_find_what_providers_refuse() -> None:
    for protocol in PROTOCOLS:
        good = body_of(protocol, history())
        assert broken_rules(protocol, good) == []
        key = "input" if protocol == "responses" else "messages"
        for number in range(len(good[key])):
            part = good[key][number]
            if part.get("type") == "message" or (part.get("role") in ("user", "system") and number != 2):
                continue  # the history stays legal without it
            broken = {**good, key: [m for n, m in enumerate(good[key]) if n != number]}
            assert broken_rules(protocol, broken), (protocol, number)


def test_results_come_first_and_what_the_person_says_follows_in_the_same_message() -> None:
    body = body_of("messages", history(error=True, image=True))
    assert [m["role"] for m in body["messages"]] == ["user", "assistant", "user"]
    first, second, said = body["messages"][2]["content"]
    assert first["tool_use_id"] == "c1" and second["tool_use_id"] == "c2" and said["text"] == "and then?"
    assert "is_error" not in first and second["is_error"] is True
    assert [b["type"] for b in first["content"]] == ["text", "image"]


def test_R20_an_image_is_one_image_and_never_text() -> None:
    for protocol in PROTOCOLS:
        shown = json.dumps(body_of(protocol, history(image=True), images=True))
        assert shown.count(PNG) == 1
        hidden = json.dumps(body_of(protocol, history(image=True), images=False))
        assert PNG not in hidden and "[image/png, 9 bytes: this model cannot be shown it]" in hidden


def test_images_of_results_stand_after_all_results_where_results_are_text() -> None:
    messages = body_of("chat", history(image=True), images=True)["messages"]
    assert [m["role"] for m in messages] == ["system", "user", "assistant", "tool", "tool", "user"]
    assert [p["type"] for p in messages[-1]["content"]] == ["text", "image_url", "text"]


def test_R46_an_error_without_text_still_says_that_it_is_one() -> None:
    said = history()
    empty = ToolResult(call_id="c1", tool="read_file", status=Status.ERROR)
    fine = ToolResult(call_id="c2", tool="read_file", status=Status.OK)
    said[2] = Message(Role.TOOL, results=(empty, fine))
    for protocol in PROTOCOLS:
        text = json.dumps(body_of(protocol, said))
        assert "Error: the tool failed and said nothing." in text and "(no output)" in text


def test_marks_stand_on_system_last_tool_and_last_two_user_messages_and_never_on_a_deferred_tool() -> None:
    request = Request(system="s", messages=history(), tools=tools_for("messages", deferred=True))
    body = messages_body(request, profile("messages"))
    assert "cache_control" in body["system"][0]
    assert ["cache_control" in t for t in body["tools"]] == [True, False]
    marked = [[("cache_control" in b) for b in m["content"]] for m in body["messages"] if m["role"] == "user"]
    assert marked == [[True], [False, False, True]]
    assert broken_rules("messages", body) == []
    plain = messages_body(request, profile("messages", prompt_cache=False))
    assert "cache_control" not in json.dumps(plain)


def test_R05_the_last_step_before_sending_replaces_lone_surrogates_everywhere() -> None:
    call = ToolCall("c\ud800", "read_file", {"a\ud801": "b\ud802"}, "")
    result = ToolResult(call_id="c\ud800", tool="t", status=Status.OK, content=(Text("x\ud83d"),))
    said = [Message.user("u\udfff"), Message(Role.ASSISTANT, calls=(call,)), Message(Role.TOOL, results=(result,))]
    for protocol in PROTOCOLS:
        request = Request(system="s\ud83d", messages=said)
        json.dumps(clean_json(BUILD[protocol](request, profile(protocol))), ensure_ascii=False).encode()


def test_ids_that_servers_use_again_are_told_apart_in_the_history() -> None:
    turn = history()[1:3]
    said = [Message.user("go"), *turn, *turn, *turn]
    for protocol in PROTOCOLS:
        assert broken_rules(protocol, body_of(protocol, said)) == []


def test_a_models_own_bytes_of_arguments_are_sent_back_as_long_as_they_say_the_same() -> None:
    own = ToolCall("c1", "read_file", {"path": "a"}, '{ "path":"a" }')
    renamed = ToolCall("c1", "read_file", {"file": "a"}, '{ "path":"a" }')
    for call, sent in ((own, '{ "path":"a" }'), (renamed, '{"file": "a"}')):
        said = [Message.user("go"), Message(Role.ASSISTANT, calls=(call,)), history()[2]]
        said[2] = Message(Role.TOOL, results=(ToolResult(call_id="c1", tool="t", status=Status.OK),))
        assert body_of("responses", said)["input"][1]["arguments"] == sent
        assert body_of("chat", said)["messages"][2]["tool_calls"][0]["function"]["arguments"] == sent


def test_a_model_that_does_not_reason_is_not_asked_for_sealed_reasoning() -> None:
    request = Request(system="", messages=[Message.user("x")], session="k" * 80)
    assert "include" not in responses_body(request, profile_of("openai", "gpt-4.1"))
    body = responses_body(request, profile_of("openai", "gpt-6.1-sol"))
    assert body["include"] == ["reasoning.encrypted_content"] and body["store"] is False
    assert len(body["prompt_cache_key"]) == 64 and "instructions" not in body


def test_a_model_that_makes_one_call_at_a_time_is_told_so() -> None:
    for protocol in PROTOCOLS:
        body = body_of(protocol, history(), parallel_calls=False)
        told = body.get("tool_choice", {}).get("disable_parallel_tool_use") or body.get("parallel_tool_calls") is False
        assert told and broken_rules(protocol, body) == []


def test_thinking_that_no_longer_fits_its_turn_is_left_out() -> None:
    layout = [
        {"type": "thinking", "thinking": "t", "signature": "s"},
        {"type": "text"},
        {"type": "tool_use", "id": "c1"},
        {"type": "thinking", "thinking": "u", "signature": "v"},
        {"type": "tool_use", "id": "c2"},
    ]
    opaque = {"provider": "anthropic", "model": "claude-sonnet-5-5", "items": layout}
    said = history()
    turn = said[1]
    said[1] = Message(Role.ASSISTANT, turn.blocks, calls=turn.calls, opaque=opaque)
    kinds = [b["type"] for b in body_of("messages", said)["messages"][1]["content"]]
    assert kinds == ["thinking", "text", "tool_use", "thinking", "tool_use"]
    said[1] = Message(Role.ASSISTANT, (*turn.blocks, Text("more")), calls=turn.calls, opaque=opaque)
    kinds = [b["type"] for b in body_of("messages", said)["messages"][1]["content"]]
    assert kinds == ["text", "text", "tool_use", "tool_use"]
