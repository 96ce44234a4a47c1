"""What each protocol demands of a request, as far as a provider answers with 400: for tests and the scripted server.

`ScriptedServer(script, validate=broken_rules)` refuses what a provider would refuse.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from .scripted_wire import Protocol
from .wire import IMAGE_TYPES, as_dict, as_list, as_text

__all__ = ["broken_rules"]

_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_NAMES = {"messages": 128, "responses": 64, "chat": 64}
_MOST_MARKS = 4
_BODY = {
    "messages": "model max_tokens stream system tools tool_choice thinking output_config messages",
    "responses": "model stream store include max_output_tokens prompt_cache_key instructions tools parallel_tool_calls "
    "reasoning input",
    "chat": "model stream stream_options max_tokens max_completion_tokens tools parallel_tool_calls messages",
}


def broken_rules(protocol: Protocol, body: Mapping[str, Any]) -> list[str]:
    """The rules that a request breaks, as sentences; empty when the provider takes it."""
    rules = {"messages": _messages, "responses": _responses, "chat": _chat}[protocol]
    found = [f"unknown field {k!r}" for k in body if k not in _BODY[protocol].split()]
    found += [] if as_text(body.get("model")) else ["no model"]
    try:
        json.dumps(body, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        found.append("lone surrogate")
    return [*found, *_tools(protocol, as_list(body.get("tools"))), *rules(body)]


def _tools(protocol: Protocol, tools: Sequence[Any]) -> Iterator[str]:
    names: list[str] = []
    for tool in tools:
        found = as_dict(tool.get("function")) if protocol == "chat" else tool
        name = as_text(found.get("name"))
        names.append(name)
        if not re.fullmatch(rf"[A-Za-z0-9_-]{{1,{_NAMES[protocol]}}}", name):
            yield f"tool name {name!r}"
        schema = as_dict(found.get("input_schema" if protocol == "messages" else "parameters"))
        if schema.get("type") != "object":
            yield f"tool {name} has no object schema"
    if len(set(names)) != len(names):
        yield "two tools of one name"
    if protocol != "messages" and len(names) > 128:
        yield "more than 128 tools"


def _named(protocol: Protocol, names: Iterable[Any]) -> Iterator[str]:
    for name in names:
        if not re.fullmatch(rf"[A-Za-z0-9_-]{{1,{_NAMES[protocol]}}}", as_text(name)):
            yield f"a call of {name!r}, which is no name"


def _once(ids: Iterable[str]) -> Iterator[str]:
    seen: set[str] = set()
    for call_id in ids:
        if not _ID.fullmatch(call_id):
            yield f"illegal id {call_id!r}"
        if call_id in seen:
            yield f"id {call_id!r} is used twice"
        seen.add(call_id)


def _whole_arguments(text: Any) -> bool:
    try:
        return isinstance(text, str) and isinstance(json.loads(text), dict)
    except ValueError:
        return False


def _data_url(url: Any) -> Iterator[str]:
    head, _, data = as_text(url).partition(";base64,")
    if head.removeprefix("data:") not in IMAGE_TYPES or not _is_base64(data):
        yield "image that cannot be read"


def _is_base64(data: str) -> bool:
    try:
        return bool(base64.b64decode(data, validate=True))
    except ValueError:
        return False


# ---------------------------------------------------------------- Anthropic Messages


def _messages(body: Mapping[str, Any]) -> Iterator[str]:
    messages = [as_dict(m) for m in as_list(body.get("messages"))]
    if not isinstance(body.get("max_tokens"), int) or body["max_tokens"] < 1:
        yield "max_tokens"
    if not messages or messages[0].get("role") != "user" or messages[-1].get("role") != "user":
        yield "the first and the last message are the user's"
    for number, message in enumerate(messages):
        before = messages[number - 1] if number else {}
        if message.get("role") == before.get("role"):
            yield f"message {number}: two {message.get('role')} messages in a row"
        if not as_list(message.get("content")):
            yield f"message {number}: empty"
        yield from _content(message, before, number)
    uses = [b for m in messages for b in as_list(m.get("content")) if b.get("type") == "tool_use"]
    yield from _once(as_text(b.get("id")) for b in uses)
    yield from _named("messages", (b.get("name") for b in uses))
    yield from _marks(body)


def _content(message: Mapping[str, Any], before: Mapping[str, Any], number: int) -> Iterator[str]:
    blocks = [as_dict(b) for b in as_list(message.get("content"))]
    asked = [b.get("id") for b in as_list(before.get("content")) if b.get("type") == "tool_use"]
    results = [b for b in blocks if b.get("type") == "tool_result"]
    if [b.get("tool_use_id") for b in results] != asked:
        yield f"message {number}: results do not answer the calls before them"
    if any(b.get("type") != "tool_result" for b in blocks[: len(results)]):
        yield f"message {number}: results do not come first"
    allowed = ("text", "image", "tool_result")
    if message.get("role") == "assistant":
        allowed = ("text", "tool_use", "thinking", "redacted_thinking")
    for block in blocks:
        if block.get("type") not in allowed:
            yield f"message {number}: {block.get('type')} does not belong here"
        yield from _block(block, number)


def _block(block: Mapping[str, Any], number: int) -> Iterator[str]:
    match block.get("type"):
        case "text" if not as_text(block.get("text")).strip():
            yield f"message {number}: empty text"
        case "tool_use" if not isinstance(block.get("input"), dict):
            yield f"message {number}: input is no object"
        case "thinking" if not block.get("signature"):
            yield f"message {number}: thinking without signature"
        case "image":
            source = as_dict(block.get("source"))
            if source.get("media_type") not in IMAGE_TYPES or not _is_base64(as_text(source.get("data"))):
                yield f"message {number}: image that cannot be read"
        case "tool_result":
            for inner in as_list(block.get("content")):
                if inner.get("type") not in ("text", "image"):
                    yield f"message {number}: {inner.get('type')} in a result"
                yield from _block(inner, number)
        case _:
            pass


def _marks(body: Mapping[str, Any]) -> Iterator[str]:
    def count(value: Any) -> int:
        if isinstance(value, dict):
            found = cast("dict[str, Any]", value)
            return ("cache_control" in found) + sum(count(v) for v in found.values())
        return sum(count(v) for v in as_list(value))

    if (marks := count({k: v for k, v in body.items() if k != "cache_control"})) > _MOST_MARKS:
        yield f"{marks} cache marks"
    if any(t.get("defer_loading") and "cache_control" in t for t in as_list(body.get("tools"))):
        yield "cache mark on a deferred tool"


# ---------------------------------------------------------------- OpenAI Responses


def _responses(body: Mapping[str, Any]) -> Iterator[str]:
    items = [as_dict(i) for i in as_list(body.get("input"))]
    if not items:
        yield "no input"
    calls = [i for i in items if i.get("type") == "function_call"]
    yield from _once(as_text(i.get("call_id")) for i in calls)
    yield from _named("responses", (i.get("name") for i in calls))
    waiting: list[str] = []
    for number, item in enumerate(items):
        kind = item.get("type")
        if waiting and kind not in ("function_call", "function_call_output", "reasoning"):
            yield f"item {number}: no output for the calls {waiting}"
        if kind == "function_call":
            waiting.append(as_text(item.get("call_id")))
            if not _whole_arguments(item.get("arguments")):
                yield f"item {number}: arguments are no object"
        elif kind == "function_call_output":
            if item.get("call_id") not in waiting:
                yield f"item {number}: an output that nobody asked for"
            else:
                waiting.remove(as_text(item.get("call_id")))
            yield from _parts(item.get("output"), number)
        elif kind == "reasoning":
            after = as_dict(items[number + 1]) if number + 1 < len(items) else {}
            follows = after.get("type") in ("function_call", "reasoning") or after.get("role") == "assistant"
            if not item.get("encrypted_content") or not follows:
                yield f"item {number}: reasoning without seal, or without what follows it"
        elif kind == "message" and item.get("role") in ("user", "assistant"):
            yield from _parts(item.get("content"), number)
        else:
            yield f"item {number}: {kind} of {item.get('role')}"
    if waiting:
        yield f"no output for the calls {waiting}"


def _parts(content: Any, number: int) -> Iterator[str]:
    if isinstance(content, str):
        return
    if not as_list(content):
        yield f"item {number}: empty"
    for part in as_list(content):
        match part.get("type"):
            case "input_text" | "text":
                if not isinstance(part.get("text"), str):
                    yield f"item {number}: text"
            case "input_image":
                yield from _data_url(part.get("image_url"))
            case "image_url":
                yield from _data_url(as_dict(part.get("image_url")).get("url"))
            case kind:
                yield f"item {number}: {kind}"


# ---------------------------------------------------------------- Chat Completions


def _chat(body: Mapping[str, Any]) -> Iterator[str]:
    messages = [as_dict(m) for m in as_list(body.get("messages"))]
    if not [m for m in messages if m.get("role") != "system"]:
        yield "no messages"
    waiting: list[Any] = []
    for number, message in enumerate(messages):
        role = message.get("role")
        if waiting and (role != "tool" or message.get("tool_call_id") != waiting[0]):
            yield f"message {number}: calls {waiting} are not answered"
            waiting = []
        match role:
            case "system" if number == 0:
                pass
            case "user":
                yield from _parts(message.get("content"), number)
                if number and messages[number - 1].get("role") == "user":
                    yield f"message {number}: two user messages in a row"
            case "assistant":
                calls = [as_dict(c) for c in as_list(message.get("tool_calls"))]
                waiting = [c.get("id") for c in calls]
                if not calls and not as_text(message.get("content")):
                    yield f"message {number}: says nothing"
                if not all(_whole_arguments(as_dict(c.get("function")).get("arguments")) for c in calls):
                    yield f"message {number}: arguments are no object"
            case "tool" if waiting:
                waiting = waiting[1:]
                if not isinstance(message.get("content"), str):
                    yield f"message {number}: a result is text"
            case _:
                yield f"message {number}: {role} does not belong here"
    if waiting:
        yield f"calls {waiting} are not answered"
    made = [as_dict(c) for m in messages for c in as_list(m.get("tool_calls"))]
    yield from _once(as_text(c.get("id")) for c in made)
    yield from _named("chat", (as_dict(c.get("function")).get("name") for c in made))
