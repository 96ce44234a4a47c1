"""A scripted turn as the server-sent events of each protocol."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Literal

from ..core.messages import ToolCall
from .model import StopReason, Usage
from .scripted import Turn, pieces

__all__ = ["Protocol", "events_of"]

Protocol = Literal["messages", "responses", "chat"]
_STEP = 7
"""Characters of arguments in one event."""


def events_of(protocol: Protocol, turn: Turn, model: str) -> list[bytes]:
    """The events, each with its blank line."""
    if protocol == "messages":
        return [f"event: {e['type']}\ndata: {json.dumps(e)}\n\n".encode() for e in _messages(turn, model)]
    if protocol == "responses":
        return [f"event: {e['type']}\ndata: {json.dumps(e)}\n\n".encode() for e in _responses(turn, model)]
    made = [f"data: {json.dumps(e)}\n\n".encode() for e in _chat(turn, model)]
    return [*made, b"data: [DONE]\n\n"]


def _usage(turn: Turn) -> Usage:
    return turn.usage if turn.usage.total else Usage(input=10, output=5)


def _raw(call: ToolCall) -> str:
    return call.raw or json.dumps(dict(call.arguments or {}), ensure_ascii=False)


def _steps(text: str) -> Iterator[str]:
    for at in range(0, len(text), _STEP):
        yield text[at : at + _STEP]


# ---------------------------------------------------------------- Anthropic Messages


def _messages(turn: Turn, model: str) -> Iterator[dict[str, Any]]:
    usage = _usage(turn)
    counted = {
        "input_tokens": usage.input,
        "cache_read_input_tokens": usage.cache_read,
        "cache_creation_input_tokens": usage.cache_write,
        "output_tokens": 1,
    }
    start = {"id": "msg_1", "type": "message", "role": "assistant", "model": model, "content": [], "usage": counted}
    yield {"type": "message_start", "message": {**start, "stop_reason": None, "stop_sequence": None}}
    index = 0
    if turn.reasoning:
        yield from _block(index, {"type": "thinking", "thinking": "", "signature": ""}, _thoughts(turn))
        index += 1
    parts = (
        [*_call_blocks(turn), *_text_blocks(turn)] if turn.calls_first else [*_text_blocks(turn), *_call_blocks(turn)]
    )
    for first, deltas in parts:
        yield from _block(index, first, deltas)
        index += 1
        yield {"type": "ping"}
    stops = {StopReason.LENGTH: "max_tokens", StopReason.REFUSAL: "refusal", StopReason.CALLS: "tool_use"}
    stop = stops.get(turn.stop) if turn.stop else None
    reason = stop or ("tool_use" if turn.calls else "end_turn")
    delta = {"stop_reason": reason, "stop_sequence": None}
    yield {"type": "message_delta", "delta": delta, "usage": {"output_tokens": usage.output}}
    yield {"type": "message_stop"}


def _block(index: int, first: dict[str, Any], deltas: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    yield {"type": "content_block_start", "index": index, "content_block": first}
    for delta in deltas:
        yield {"type": "content_block_delta", "index": index, "delta": delta}
    yield {"type": "content_block_stop", "index": index}


def _thoughts(turn: Turn) -> list[dict[str, Any]]:
    thoughts = [{"type": "thinking_delta", "thinking": p} for p in pieces(turn.reasoning)]
    return [*thoughts, {"type": "signature_delta", "signature": f"signed:{len(turn.reasoning)}"}]


def _text_blocks(turn: Turn) -> list[tuple[dict[str, Any], list[dict[str, Any]]]]:
    if not turn.text:
        return []
    return [({"type": "text", "text": ""}, [{"type": "text_delta", "text": p} for p in pieces(turn.text)])]


def _call_blocks(turn: Turn) -> list[tuple[dict[str, Any], list[dict[str, Any]]]]:
    return [
        (
            {"type": "tool_use", "id": c.id, "name": c.name, "input": {}},
            [{"type": "input_json_delta", "partial_json": p} for p in ("", *_steps(_raw(c)))],
        )
        for c in turn.calls
    ]


# ---------------------------------------------------------------- OpenAI Responses


def _responses(turn: Turn, model: str) -> Iterator[dict[str, Any]]:
    response: dict[str, Any] = {"id": "resp_1", "object": "response", "model": model, "status": "in_progress"}
    number = 0
    output: list[dict[str, Any]] = []

    def event(kind: str, **more: Any) -> dict[str, Any]:
        nonlocal number
        number += 1
        return {"type": kind, "sequence_number": number, **more}

    yield event("response.created", response={**response, "output": []})
    items = [_reasoning_item(turn)] if turn.reasoning else []
    texts = [_message_item(turn)] if turn.text else []
    calls = [_call_item(c, n) for n, c in enumerate(turn.calls)]
    if calls and turn.stop is StopReason.LENGTH and turn.calls[-1].arguments is None:
        calls[-1]["status"] = "incomplete"
    items += [*calls, *texts] if turn.calls_first else [*texts, *calls]
    for index, item in enumerate(items):
        yield event("response.output_item.added", output_index=index, item=_empty(item))
        for kind, delta in _deltas(item):
            yield event(kind, output_index=index, item_id=item["id"], content_index=0, delta=delta)
        yield event("response.output_item.done", output_index=index, item=item)
        output.append(item)
    usage = _usage(turn)
    counted = {
        "input_tokens": usage.input + usage.cache_read + usage.cache_write,
        "input_tokens_details": {"cached_tokens": usage.cache_read, "cache_write_tokens": usage.cache_write},
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.total,
    }
    if turn.stop in (StopReason.LENGTH, StopReason.REFUSAL):
        reason = "max_output_tokens" if turn.stop is StopReason.LENGTH else "content_filter"
        ended = {**response, "status": "incomplete", "incomplete_details": {"reason": reason}}
        yield event("response.incomplete", response={**ended, "output": output, "usage": counted})
    else:
        ended = {**response, "status": "completed", "incomplete_details": None}
        yield event("response.completed", response={**ended, "output": output, "usage": counted})


def _reasoning_item(turn: Turn) -> dict[str, Any]:
    return {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": turn.reasoning}],
        "encrypted_content": f"sealed:{len(turn.reasoning)}",
    }


def _message_item(turn: Turn) -> dict[str, Any]:
    content = [{"type": "output_text", "text": turn.text, "annotations": []}]
    return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content}


def _call_item(call: ToolCall, number: int) -> dict[str, Any]:
    return {
        "type": "function_call",
        "id": f"fc_{number}",
        "call_id": call.id,
        "name": call.name,
        "arguments": _raw(call),
        "status": "completed",
    }


def _empty(item: dict[str, Any]) -> dict[str, Any]:
    blank = {"arguments": "", "content": [], "summary": [], "status": "in_progress"}
    return {**item, **{k: v for k, v in blank.items() if k in item}}


def _deltas(item: dict[str, Any]) -> list[tuple[str, str]]:
    match item["type"]:
        case "message":
            return [("response.output_text.delta", p) for p in pieces(item["content"][0]["text"])]
        case "function_call":
            return [("response.function_call_arguments.delta", p) for p in _steps(item["arguments"])]
        case _:
            return [("response.reasoning_summary_text.delta", p) for p in pieces(item["summary"][0]["text"])]


# ---------------------------------------------------------------- Chat Completions


def _chat(turn: Turn, model: str) -> Iterator[dict[str, Any]]:
    base = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": model}

    def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        return {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    yield chunk({"role": "assistant", "content": ""})
    for piece in pieces(turn.reasoning):
        yield chunk({"reasoning_content": piece})
    texts = [chunk({"content": piece}) for piece in pieces(turn.text)]
    calls = [chunk({"tool_calls": [piece]}) for n, c in enumerate(turn.calls) for piece in _call_pieces(c, n)]
    yield from [*calls, *texts] if turn.calls_first else [*texts, *calls]
    stops = {StopReason.LENGTH: "length", StopReason.REFUSAL: "content_filter", StopReason.CALLS: "tool_calls"}
    stop = stops.get(turn.stop) if turn.stop else None
    yield chunk({}, stop or ("tool_calls" if turn.calls else "stop"))
    usage = _usage(turn)
    counted = {
        "prompt_tokens": usage.input + usage.cache_read + usage.cache_write,
        "completion_tokens": usage.output,
        "total_tokens": usage.total,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read, "cache_write_tokens": usage.cache_write},
    }
    yield {**base, "choices": [], "usage": counted}


def _call_pieces(call: ToolCall, index: int) -> Iterator[dict[str, Any]]:
    yield {"index": index, "id": call.id, "type": "function", "function": {"name": call.name, "arguments": ""}}
    for step in _steps(_raw(call)):
        yield {"index": index, "function": {"arguments": step}}
