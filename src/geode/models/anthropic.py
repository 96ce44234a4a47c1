"""Anthropic's Messages API.

The system text, the last tool that is not deferred, and the last two user messages carry a
cache mark. Marks move; everything else of a request's beginning is the same bytes in the next
one. Thinking comes back with its signature, at its place, and only to the model it is from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..core.messages import Block, Image, Message, Role, Text, ToolCall, ToolResult
from ..core.ports import Clock
from .failures import AnswerBroken, AnswerRefused, Explainer
from .model import (
    CallReady,
    ModelEvent,
    Profile,
    ReasoningDelta,
    Request,
    StopReason,
    TextDelta,
    TurnEnded,
    Usage,
)
from .retry import Backoff
from .sdk import (
    DEFAULT_BACKOFF,
    DEFAULT_CLOCK,
    DEFAULT_TIMEOUTS,
    Parser,
    SdkModel,
    Timeouts,
    http_client,
    is_local,
    missing_extra,
)
from .wire import (
    Halves,
    as_dict,
    as_text,
    blank,
    block_text,
    count,
    make_call,
    priced,
    replayed,
    result_text,
    sees,
    stop_of,
    unique_id,
    wire_ids,
)

__all__ = ["AnthropicModel", "messages_body"]

URL = "https://api.anthropic.com"
MARK = {"type": "ephemeral"}
_STOPS = {
    "max_tokens": StopReason.LENGTH,
    "model_context_window_exceeded": StopReason.LENGTH,
    "refusal": StopReason.REFUSAL,
}


class AnthropicModel(SdkModel):
    """A model of Anthropic's, or of a server that speaks its Messages API.

    Args:
        profile: from `profiles.profile_of`.
        api_key: the key.
        base_url: another server than Anthropic's own.
        extra: further fields of the request, as `{"thinking": {"type": "adaptive"}}`.

    Raises:
        ModelUnavailable: the SDK is not installed.
    """

    path = "/v1/messages"

    def __init__(
        self,
        profile: Profile,
        *,
        api_key: str,
        base_url: str = "",
        extra: Mapping[str, Any] | None = None,
        backoff: Backoff = DEFAULT_BACKOFF,
        timeouts: Timeouts = DEFAULT_TIMEOUTS,
        clock: Clock = DEFAULT_CLOCK,
    ) -> None:
        try:
            import anthropic
        except ImportError as exc:
            raise missing_extra("anthropic") from exc
        url = base_url.rstrip("/") or URL
        client = anthropic.AsyncAnthropic(
            api_key=api_key, base_url=url, max_retries=0, http_client=http_client(timeouts, url)
        )
        explainer = Explainer(
            who="Anthropic" if url == URL else "the server",
            url=url,
            key=api_key,
            key_name="ANTHROPIC_API_KEY",
            stall=timeouts.stall,
            local=is_local(url),
        )
        super().__init__(profile, client, anthropic.AsyncStream, explainer, backoff=backoff, clock=clock)
        self._extra = dict(extra or {})

    def body(self, request: Request) -> dict[str, Any]:
        return messages_body(request, self._profile, self._extra)

    def parser(self) -> Parser:
        return _Answer(self._profile)


# ---------------------------------------------------------------- what goes out


def messages_body(request: Request, profile: Profile, extra: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The body of a request."""
    tools = [dict(t) for t in request.tools]
    messages = _messages(request.messages, profile)
    system: list[dict[str, Any]] = [{"type": "text", "text": request.system}] if request.system.strip() else []
    if profile.prompt_cache:
        _mark(system[-1:])
        _mark([t for t in tools if not t.get("defer_loading")][-1:])
        _mark([m["content"][-1] for m in messages if m["role"] == "user"][-2:])
    body: dict[str, Any] = {
        "model": profile.name,
        "max_tokens": request.max_output_tokens or profile.output_tokens,
        "stream": True,
        **(extra or {}),
    }
    if system:
        body["system"] = system
    if tools:
        body["tools"] = tools
        if not profile.parallel_calls:
            body["tool_choice"] = {"type": "auto", "disable_parallel_tool_use": True}
    body["messages"] = messages
    return body


def _mark(parts: Sequence[dict[str, Any]]) -> None:
    for part in parts:
        part["cache_control"] = MARK


def _messages(messages: Sequence[Message], profile: Profile) -> list[dict[str, Any]]:
    """Messages in turns: results come first in a user message, what the person says then follows in the same one."""
    out: list[dict[str, Any]] = []
    for message, ids in zip(messages, wire_ids(messages), strict=True):
        if message.role is Role.ASSISTANT:
            role, content = "assistant", _assistant(message, ids, profile)
        elif message.role is Role.TOOL:
            role, content = "user", [_result(r, ids.get(r.call_id, r.call_id), profile) for r in message.results]
        else:
            role, content = "user", _blocks(message.blocks, profile) or [_text("(nothing)")]
        if out and out[-1]["role"] == role:
            out[-1]["content"] += content
        else:
            out.append({"role": role, "content": content})
    return out


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _blocks(blocks: Sequence[Block], profile: Profile) -> list[dict[str, Any]]:
    """Blocks that say something; the API refuses empty text."""
    out: list[dict[str, Any]] = []
    for block in blocks:
        if isinstance(block, Image) and sees(block, profile.images):
            source = {"type": "base64", "media_type": block.mime_type, "data": block.data}
            out.append({"type": "image", "source": source})
        elif (text := block_text(block)).strip():
            out.append(_text(text))
    return out


def _result(result: ToolResult, call_id: str, profile: Profile) -> dict[str, Any]:
    content = _blocks(result.content, profile)
    found: dict[str, Any] = {
        "type": "tool_result",
        "tool_use_id": call_id,
        "content": content or [_text(result_text(result, mark=True))],
    }
    if result.is_error:
        found["is_error"] = True
    return found


def _assistant(message: Message, ids: Mapping[str, str], profile: Profile) -> list[dict[str, Any]]:
    said = [_text(b.text) for b in message.blocks if isinstance(b, Text) and b.text.strip()]
    calls = [
        {"type": "tool_use", "id": ids[c.id], "name": c.name, "input": dict(c.arguments or {})} for c in message.calls
    ]
    layout = replayed(message, "anthropic", profile.name)
    placed = _placed(layout, said, {c.id: made for c, made in zip(message.calls, calls, strict=True)})
    return placed or [*said, *calls] or [_text("(no answer)")]


def _placed(
    layout: Sequence[Mapping[str, Any]], said: Sequence[dict[str, Any]], calls: Mapping[str, dict[str, Any]]
) -> list[dict[str, Any]]:
    """Text and calls with thinking at its place, or [] when the turn is no longer the one the thinking came with."""
    texts = iter(said)
    left = dict(calls)
    out: list[dict[str, Any]] = []
    for item in layout:
        match item.get("type"):
            case "text":
                found = next(texts, None)
            case "tool_use":
                found = left.pop(as_text(item.get("id")), None)
            case _:
                found = dict(item)
        if found is None:
            return []
        out.append(found)
    return out if not left and next(texts, None) is None else []


# ---------------------------------------------------------------- what comes in


@dataclass(slots=True)
class _Part:
    """One content block while it arrives."""

    kind: str
    first: dict[str, Any]
    text: list[str] = field(default_factory=list[str])
    signature: list[str] = field(default_factory=list[str])
    call: ToolCall | None = None
    stopped: bool = False


class _Answer:
    """Reads one answer. A call is ready when its block stops, long before the turn ends."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._parts: dict[int, _Part] = {}
        self._usage: dict[str, Any] = {}
        self._stop = ""
        self._halves = Halves()

    def whole(self, body: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        if body.get("type") == "error" or "error" in body:
            raise AnswerRefused(dict(body))
        return []

    def feed(self, event: Mapping[str, Any]) -> list[ModelEvent]:
        match event.get("type"):
            case "message_start":
                self._usage |= as_dict(as_dict(event.get("message")).get("usage"))
            case "content_block_start":
                return self._start(count(event.get("index")), as_dict(event.get("content_block")))
            case "content_block_delta":
                return self._delta(count(event.get("index")), as_dict(event.get("delta")))
            case "content_block_stop":
                return self._block_stop(count(event.get("index")))
            case "message_delta":
                self._stop = as_text(as_dict(event.get("delta")).get("stop_reason")) or self._stop
                self._usage |= {k: v for k, v in as_dict(event.get("usage")).items() if v is not None}
            case "error":
                raise AnswerRefused(dict(event))
            case _:
                pass  # ping, and whatever is added to the protocol later
        return []

    def _start(self, index: int, block: dict[str, Any]) -> list[ModelEvent]:
        part = self._parts[index] = _Part(as_text(block.get("type")), block)
        if part.kind == "text" and (text := as_text(block.get("text"))):
            return self._said(part, text)
        return []

    def _delta(self, index: int, delta: dict[str, Any]) -> list[ModelEvent]:
        part = self._parts.get(index)
        if part is None:
            raise AnswerBroken("cannot be read: a part begins in its middle")
        match delta.get("type"):
            case "text_delta":
                return self._said(part, as_text(delta.get("text")))
            case "input_json_delta":
                part.text.append(as_text(delta.get("partial_json")))
            case "thinking_delta":
                thought = as_text(delta.get("thinking"))
                part.text.append(thought)
                return [ReasoningDelta(text)] if (text := self._halves.add(thought)) else []
            case "signature_delta":
                part.signature.append(as_text(delta.get("signature")))
            case _:
                pass  # citations, and whatever is added later
        return []

    def _said(self, part: _Part, text: str) -> list[ModelEvent]:
        part.text.append(text)
        return [TextDelta(ready)] if (ready := self._halves.add(text)) else []

    def _block_stop(self, index: int) -> list[ModelEvent]:
        part = self._parts.get(index)
        if part is None or part.kind != "tool_use" or part.call is not None:
            return [TextDelta(rest)] if (rest := self._halves.rest()) else []
        part.stopped = True
        raw: Any = "".join(part.text)
        if not raw and part.first.get("input"):
            raw = part.first["input"]  # a server that sends the arguments whole
        # Cut before the first argument looks the same as no arguments: `end` knows the reason of the stop.
        return [] if blank(raw) else self._ready(part, raw, whole=True)

    def _ready(self, part: _Part, raw: Any, *, whole: bool) -> list[ModelEvent]:
        taken = [p.call.id for p in self._parts.values() if p.call is not None]
        wanted = unique_id(as_text(part.first.get("id")), taken, len(taken) + 1)
        part.call = make_call(wanted, as_text(part.first.get("name")), raw, whole=whole)
        return [CallReady(part.call)]

    def end(self) -> list[ModelEvent]:
        if not self._stop:
            raise AnswerBroken("broke off before its end" if self._parts else "is empty")
        told = _STOPS.get(self._stop, StopReason.END)
        events: list[ModelEvent] = [TextDelta(rest)] if (rest := self._halves.rest()) else []
        for part in self._parts.values():
            if part.kind == "tool_use" and part.call is None:
                whole = part.stopped and told is not StopReason.LENGTH
                events += self._ready(part, "".join(part.text), whole=whole)
        message = self._message()
        events.append(TurnEnded(message=message, stop=stop_of(told, message.calls), usage=self._counted()))
        return events

    def _message(self) -> Message:
        parts = [self._parts[i] for i in sorted(self._parts)]
        blocks = tuple(Text("".join(p.text)) for p in parts if p.kind == "text" and "".join(p.text).strip())
        calls = tuple(p.call for p in parts if p.call is not None)
        layout = [item for p in parts if (item := _layout_item(p)) is not None]
        more = any(item["type"] not in ("text", "tool_use") for item in layout)
        opaque = {"provider": "anthropic", "model": self._profile.name, "items": layout} if more else None
        return Message(Role.ASSISTANT, blocks, calls=calls, opaque=opaque)

    def _counted(self) -> Usage:
        found = Usage(
            input=count(self._usage.get("input_tokens")),
            output=count(self._usage.get("output_tokens")),
            cache_read=count(self._usage.get("cache_read_input_tokens")),
            cache_write=count(self._usage.get("cache_creation_input_tokens")),
        )
        return priced(found, self._profile.price)


def _layout_item(part: _Part) -> dict[str, Any] | None:
    """A block's place in the turn; thinking whole, because its signature covers every byte."""
    text = "".join(part.text)
    match part.kind:
        case "text":
            return {"type": "text"} if text.strip() else None
        case "tool_use":
            return {"type": "tool_use", "id": part.call.id} if part.call else None
        case "thinking":
            signature = as_text(part.first.get("signature")) + "".join(part.signature)
            thought = as_text(part.first.get("thinking")) + text
            return {"type": "thinking", "thinking": thought, "signature": signature} if signature else None
        case "redacted_thinking":
            return {"type": "redacted_thinking", "data": as_text(part.first.get("data"))}
        case _:
            return None
