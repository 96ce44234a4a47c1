"""OpenAI's Responses API.

Nothing is stored at the provider: reasoning comes back sealed (`encrypted_content`) and is sent
again at its place, only to the model it is from.
"""

from __future__ import annotations

import hashlib
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
    arguments_text,
    as_dict,
    as_list,
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

__all__ = ["OpenAIModel", "responses_body"]

URL = "https://api.openai.com/v1"
BEARER = {"security": {"bearer_auth": True}}
"""What the SDK calls "authenticate with the key"."""


class OpenAIModel(SdkModel):
    """A model of OpenAI's, or of a server that speaks its Responses API.

    Args:
        profile: from `profiles.profile_of`.
        api_key: the key.
        base_url: another server than OpenAI's own.
        extra: further fields of the request, as `{"reasoning": {"effort": "low"}}`.

    Raises:
        ModelUnavailable: the SDK is not installed.
    """

    path = "/responses"
    options = BEARER

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
            import openai
        except ImportError as exc:
            raise missing_extra("openai") from exc
        url = base_url.rstrip("/") or URL
        client = openai.AsyncOpenAI(
            api_key=api_key, base_url=url, max_retries=0, http_client=http_client(timeouts, url)
        )
        explainer = Explainer(
            who="OpenAI" if url == URL else "the server",
            url=url,
            key=api_key,
            key_name="OPENAI_API_KEY",
            stall=timeouts.stall,
            local=is_local(url),
        )
        super().__init__(profile, client, openai.AsyncStream, explainer, backoff=backoff, clock=clock)
        self._extra = dict(extra or {})

    def body(self, request: Request) -> dict[str, Any]:
        return responses_body(request, self._profile, self._extra)

    def parser(self) -> Parser:
        return _Answer(self._profile)


# ---------------------------------------------------------------- what goes out


def responses_body(request: Request, profile: Profile, extra: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The body of a request."""
    body: dict[str, Any] = {"model": profile.name, "stream": True, "store": False}
    if profile.reasoning:
        body["include"] = ["reasoning.encrypted_content"]  # a model that does not reason refuses this
    body["max_output_tokens"] = request.max_output_tokens or profile.output_tokens
    if request.session:
        body["prompt_cache_key"] = _cache_key(request.session)
    body |= extra or {}
    if request.system.strip():
        body["instructions"] = request.system
    if request.tools:
        body["tools"] = [dict(t) for t in request.tools]
        if not profile.parallel_calls:
            body["parallel_tool_calls"] = False
    body["input"] = _items(request.messages, profile)
    return body


def _cache_key(session: str) -> str:
    """At most 64 characters, as the API wants it."""
    return session if len(session) <= 64 else hashlib.sha256(session.encode("utf-8", "replace")).hexdigest()


def _items(messages: Sequence[Message], profile: Profile) -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = []
    for message, ids in zip(messages, wire_ids(messages), strict=True):
        if message.role is Role.ASSISTANT:
            out += _assistant(message, ids, profile)
        elif message.role is Role.TOOL:
            out += [_output(r, ids.get(r.call_id, r.call_id), profile) for r in message.results]
        else:
            content = _content(message.blocks, profile) or [_text("(nothing)")]
            out.append({"type": "message", "role": "user", "content": content})
    return out


def _text(text: str) -> dict[str, Any]:
    return {"type": "input_text", "text": text}


def _content(blocks: Sequence[Block], profile: Profile) -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = []
    for block in blocks:
        if isinstance(block, Image) and sees(block, profile.images):
            url = f"data:{block.mime_type};base64,{block.data}"
            out.append({"type": "input_image", "image_url": url, "detail": "auto"})
        elif (text := block_text(block)).strip():
            out.append(_text(text))
    return out


def _output(result: ToolResult, call_id: str, profile: Profile) -> dict[str, Any]:
    """Text, or a list of parts when the result shows images."""
    output: Any = result_text(result, images=profile.images)
    if any(sees(b, profile.images) for b in result.content):
        output = _content(result.content, profile)
    return {"type": "function_call_output", "call_id": call_id, "output": output}


def _assistant(message: Message, ids: Mapping[str, str], profile: Profile) -> list[dict[str, Any]]:
    said = [
        {"type": "message", "role": "assistant", "content": b.text}
        for b in message.blocks
        if isinstance(b, Text) and b.text.strip()
    ]
    calls = {
        c.id: {"type": "function_call", "call_id": ids[c.id], "name": c.name, "arguments": arguments_text(c)}
        for c in message.calls
    }
    placed = _placed(replayed(message, "openai", profile.name), said, calls)
    return placed or [*said, *calls.values()] or [{"type": "message", "role": "assistant", "content": "(no answer)"}]


def _placed(
    layout: Sequence[Mapping[str, Any]], said: Sequence[dict[str, Any]], calls: Mapping[str, dict[str, Any]]
) -> list[dict[str, Any]]:
    """Items with sealed reasoning at its place, or [] when the turn is no longer the one it came with."""
    texts = iter(said)
    left = dict(calls)
    out: list[dict[str, Any]] = []
    for item in layout:
        match item.get("type"):
            case "message":
                found = next(texts, None)
                if found is not None and item.get("phase"):
                    found = {**found, "phase": item["phase"]}
            case "function_call":
                found = left.pop(as_text(item.get("call_id")), None)
            case _:
                found = dict(item)
        if found is None:
            return []
        out.append(found)
    return out if not left and next(texts, None) is None else []


# ---------------------------------------------------------------- what comes in


@dataclass(slots=True)
class _Item:
    """One output item while it arrives."""

    kind: str
    first: dict[str, Any]
    text: list[str] = field(default_factory=list[str])
    done: dict[str, Any] | None = None
    call: ToolCall | None = None

    @property
    def last(self) -> dict[str, Any]:
        return self.done or self.first


class _Answer:
    """Reads one answer. A call is ready when its item is done, long before the response is."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._items: dict[int, _Item] = {}
        self._response: dict[str, Any] | None = None
        self._halves = Halves()

    def whole(self, body: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        if as_dict(body.get("error")):
            raise AnswerRefused(dict(body))
        return [{"type": "response.completed", "response": dict(body)}] if "output" in body else []

    def feed(self, event: Mapping[str, Any]) -> list[ModelEvent]:
        index = count(event.get("output_index"))
        match event.get("type"):
            case "response.output_item.added":
                item = as_dict(event.get("item"))
                self._items[index] = _Item(as_text(item.get("type")), item)
            case "response.output_text.delta" | "response.refusal.delta":
                return self._said(index, as_text(event.get("delta")))
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                text = self._halves.add(as_text(event.get("delta")))
                return [ReasoningDelta(text)] if text else []
            case "response.function_call_arguments.delta":
                if (found := self._items.get(index)) is not None:
                    found.text.append(as_text(event.get("delta")))
            case "response.output_item.done":
                return self._item_done(index, as_dict(event.get("item")))
            case "response.completed" | "response.incomplete":
                self._response = as_dict(event.get("response"))
            case "response.failed":
                raise AnswerRefused(as_dict(event.get("response")))
            case "error":
                raise AnswerRefused(dict(event))
            case _:
                pass
        return []

    def _said(self, index: int, delta: str) -> list[ModelEvent]:
        item = self._items.setdefault(index, _Item("message", {}))
        item.text.append(delta)
        return [TextDelta(text)] if (text := self._halves.add(delta)) else []

    def _item_done(self, index: int, item: dict[str, Any]) -> list[ModelEvent]:
        found = self._items.setdefault(index, _Item(as_text(item.get("type")), item))
        if found.done is not None:
            return []
        found.done = item
        if found.kind == "function_call":
            raw = item.get("arguments") or "".join(found.text)
            # Cut before the first argument looks the same as no arguments: `end` knows why the response stopped.
            wait = blank(raw) or item.get("status") == "incomplete"
            return [] if wait else self._ready(found, raw, whole=True)
        if found.kind == "message" and not found.text and (text := _text_of(item)):
            found.text.append(text)
            return [TextDelta(ready)] if (ready := self._halves.add(text)) else []
        return [TextDelta(rest)] if (rest := self._halves.rest()) else []

    def _ready(self, item: _Item, raw: Any, *, whole: bool) -> list[ModelEvent]:
        taken = [i.call.id for i in self._items.values() if i.call is not None]
        wanted = as_text(item.last.get("call_id")) or as_text(item.last.get("id"))
        call_id = unique_id(wanted, taken, len(taken) + 1)
        item.call = make_call(call_id, as_text(item.last.get("name")), raw, whole=whole)
        return [CallReady(item.call)]

    def end(self) -> list[ModelEvent]:
        response = self._response
        if response is None:
            raise AnswerBroken("broke off before its end" if self._items else "is empty")
        events: list[ModelEvent] = []
        for index, item in enumerate(as_list(response.get("output"))):
            if index not in self._items or self._items[index].done is None:
                events += self._item_done(index, as_dict(item))
        told = _stop(response)
        for item in self._items.values():
            if item.kind == "function_call" and item.call is None:
                raw = item.last.get("arguments") or "".join(item.text)
                cut = told is StopReason.LENGTH or item.last.get("status") == "incomplete"
                events += self._ready(item, raw, whole=not cut)
        if rest := self._halves.rest():
            events.append(TextDelta(rest))
        message = self._message()
        if told is StopReason.END and any(_refuses(i.last) for i in self._items.values()):
            told = StopReason.REFUSAL
        events.append(TurnEnded(message=message, stop=stop_of(told, message.calls), usage=self._counted(response)))
        return events

    def _message(self) -> Message:
        items = [self._items[i] for i in sorted(self._items)]
        blocks = tuple(Text("".join(i.text)) for i in items if i.kind == "message" and "".join(i.text).strip())
        calls = tuple(i.call for i in items if i.call is not None)
        layout = [made for i in items if (made := _layout_item(i)) is not None]
        more = any(made["type"] == "reasoning" or "phase" in made for made in layout)
        opaque = {"provider": "openai", "model": self._profile.name, "items": layout} if more else None
        return Message(Role.ASSISTANT, blocks, calls=calls, opaque=opaque)

    def _counted(self, response: Mapping[str, Any]) -> Usage:
        usage = as_dict(response.get("usage"))
        details = as_dict(usage.get("input_tokens_details"))
        read, written = count(details.get("cached_tokens")), count(details.get("cache_write_tokens"))
        found = Usage(
            input=max(0, count(usage.get("input_tokens")) - read - written),
            output=count(usage.get("output_tokens")),
            cache_read=read,
            cache_write=written,
        )
        return priced(found, self._profile.price)


def _text_of(item: Mapping[str, Any]) -> str:
    parts = [as_dict(p) for p in as_list(item.get("content"))]
    return "".join(as_text(p.get("text")) or as_text(p.get("refusal")) for p in parts)


def _refuses(item: Mapping[str, Any]) -> bool:
    return any(as_dict(p).get("type") == "refusal" for p in as_list(item.get("content")))


def _stop(response: Mapping[str, Any]) -> StopReason:
    reason = as_text(as_dict(response.get("incomplete_details")).get("reason"))
    if reason == "content_filter":
        return StopReason.REFUSAL
    return StopReason.LENGTH if reason or response.get("status") == "incomplete" else StopReason.END


def _layout_item(item: _Item) -> dict[str, Any] | None:
    """An item's place in the turn; reasoning as it must be sent again, without what the API would look up."""
    match item.kind:
        case "message":
            if not "".join(item.text).strip():
                return None
            phase = item.last.get("phase")
            return {"type": "message", "phase": phase} if phase else {"type": "message"}
        case "function_call":
            return {"type": "function_call", "call_id": item.call.id} if item.call else None
        case "reasoning":
            sealed = as_text(item.last.get("encrypted_content"))
            if not sealed:
                return None  # by its id alone the API would look for it where nothing is stored
            return {
                "type": "reasoning",
                "id": as_text(item.last.get("id")),
                "summary": as_list(item.last.get("summary")),
                "encrypted_content": sealed,
            }
        case _:
            return None
