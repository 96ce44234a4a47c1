"""OpenAI's Chat Completions, as many servers speak it: Ollama, LM Studio, llama.cpp, vLLM, and providers.

Servers differ in how they stream calls; `calls.py` puts them together. Reasoning that a server
shows is sent back to it under the name it came with, as providers with thinking models demand.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, cast

from ..core.messages import Block, Image, Message, Role, Text, ToolResult
from ..core.ports import Clock
from .calls import CallPieces
from .failures import AnswerBroken, AnswerRefused, Explainer
from .model import (
    CallReady,
    ModelError,
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
    block_text,
    count,
    joined_text,
    priced,
    replayed,
    result_text,
    sees,
    stop_of,
    wire_ids,
)

__all__ = ["ChatModel", "chat_body"]

OPENAI = "https://api.openai.com"
LOCAL_TIMEOUTS = Timeouts(stall=600.0)
"""A local server may read a long prompt for minutes before it says a word."""

_STOPS = {
    "length": StopReason.LENGTH,
    "max_tokens": StopReason.LENGTH,
    "content_filter": StopReason.REFUSAL,
    "refusal": StopReason.REFUSAL,
}
_THOUGHTS = ("reasoning_content", "reasoning")


class ChatModel(SdkModel):
    """A model behind an OpenAI-compatible server.

    Args:
        profile: from `profiles.profile_of`.
        base_url: the server, with its "/v1".
        api_key: the key; servers without one take any text.
        key_name: the environment variable that holds it, for messages.
        extra: further fields of the request.

    Raises:
        ModelUnavailable: the SDK is not installed.
    """

    path = "/chat/completions"
    options: Mapping[str, Any] = {"security": {"bearer_auth": True}}

    def __init__(
        self,
        profile: Profile,
        *,
        base_url: str,
        api_key: str = "",
        key_name: str = "",
        extra: Mapping[str, Any] | None = None,
        backoff: Backoff = DEFAULT_BACKOFF,
        timeouts: Timeouts = LOCAL_TIMEOUTS,
        clock: Clock = DEFAULT_CLOCK,
    ) -> None:
        try:
            import openai
        except ImportError as exc:
            raise missing_extra("openai") from exc
        url = base_url.rstrip("/")
        client = openai.AsyncOpenAI(
            api_key=api_key or "none",
            base_url=url,
            max_retries=0,
            http_client=http_client(timeouts, url),
            # What the environment says of an account at OpenAI is not for other servers.
            default_headers=cast("Any", {"OpenAI-Organization": openai.omit, "OpenAI-Project": openai.omit}),
        )
        explainer = Explainer(
            who="the server", url=url, key=api_key, key_name=key_name, stall=timeouts.stall, local=is_local(url)
        )
        super().__init__(profile, client, openai.AsyncStream, explainer, backoff=backoff, clock=clock)
        self._extra = dict(extra or {})
        self._limit_name = "max_completion_tokens" if url.startswith(OPENAI) else "max_tokens"
        self._asks_usage = True

    def body(self, request: Request) -> dict[str, Any]:
        return chat_body(request, self._profile, self._extra, limit_name=self._limit_name, usage=self._asks_usage)

    def parser(self) -> Parser:
        return _Answer(self._profile)

    async def stream(self, request: Request) -> AsyncGenerator[ModelEvent]:
        """See `Model.stream`. A server that refuses to report usage is asked again without it, once for all."""
        try:
            async with aclosing(super().stream(request)) as events:
                async for event in events:
                    yield event
            return
        except ModelError as error:
            if not self._asks_usage or error.status not in (400, 422) or "stream_options" not in error.message:
                raise
        self._asks_usage = False
        async with aclosing(super().stream(request)) as events:
            async for event in events:
                yield event


# ---------------------------------------------------------------- what goes out


def chat_body(
    request: Request,
    profile: Profile,
    extra: Mapping[str, Any] | None = None,
    *,
    limit_name: str = "max_tokens",
    usage: bool = True,
) -> dict[str, Any]:
    """The body of a request.

    The output limit is sent only when the request asks for one: a local server refuses a limit
    that does not fit into the context it was started with.
    """
    body: dict[str, Any] = {"model": profile.name, "stream": True}
    if usage:
        body["stream_options"] = {"include_usage": True}
    if request.max_output_tokens:
        body[limit_name] = request.max_output_tokens
    body |= extra or {}
    if request.tools:
        body["tools"] = [dict(t) for t in request.tools]
        if not profile.parallel_calls:
            body["parallel_tool_calls"] = False
    system = [{"role": "system", "content": request.system}] if request.system.strip() else []
    body["messages"] = [*system, *_messages(request.messages, profile)]
    return body


def _messages(messages: Sequence[Message], profile: Profile) -> list[dict[str, Any]]:
    """Results are text; images of results stand in the user message that follows them."""
    out: list[dict[str, Any]] = []
    shown: list[dict[str, Any]] = []
    for message, ids in zip(messages, wire_ids(messages), strict=True):
        if message.role is Role.TOOL:
            for result in message.results:
                text = result_text(result, images=profile.images)
                call_id = ids.get(result.call_id, result.call_id)
                out.append({"role": "tool", "tool_call_id": call_id, "content": text})
                shown += _images(result, profile)
        elif message.role is Role.ASSISTANT:
            if shown:
                out.append({"role": "user", "content": shown})
            shown = []
            out.append(_assistant(message, ids, profile))
        else:
            out.append({"role": "user", "content": _content(message.blocks, profile, shown)})
            shown = []
    if shown:
        out.append({"role": "user", "content": shown})
    return out


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _image(block: Image) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": f"data:{block.mime_type};base64,{block.data}"}}


def _images(result: ToolResult, profile: Profile) -> list[dict[str, Any]]:
    found = [_image(b) for b in result.content if isinstance(b, Image) and sees(b, profile.images)]
    return [_text(f"[image from {result.tool}]"), *found] if found else []


def _content(blocks: Sequence[Block], profile: Profile, before: Sequence[dict[str, Any]]) -> Any:
    """A string where text is all there is: some servers know nothing else."""
    if not before and not any(sees(b, profile.images) for b in blocks):
        return joined_text(blocks) or "(nothing)"
    parts = list(before)
    for block in blocks:
        if isinstance(block, Image) and sees(block, profile.images):
            parts.append(_image(block))
        elif (text := block_text(block)).strip():
            parts.append(_text(text))
    return parts


def _assistant(message: Message, ids: Mapping[str, str], profile: Profile) -> dict[str, Any]:
    text = "".join(b.text for b in message.blocks if isinstance(b, Text))
    found: dict[str, Any] = {"role": "assistant", "content": text if text.strip() else None}
    extras: dict[str, dict[str, Any]] = {}
    for item in replayed(message, "chat", profile.name):
        if item.get("type") == "reasoning" and as_text(item.get("key")) in _THOUGHTS:
            found[as_text(item.get("key"))] = as_text(item.get("text"))
        elif item.get("type") == "call":
            extras[as_text(item.get("id"))] = as_dict(item.get("fields"))
    if message.calls:
        found["tool_calls"] = [
            {
                **extras.get(c.id, {}),
                "id": ids[c.id],
                "type": "function",
                "function": {"name": c.name, "arguments": arguments_text(c)},
            }
            for c in message.calls
        ]
    elif found["content"] is None:
        found["content"] = "(no answer)"
    return found


# ---------------------------------------------------------------- what comes in


class _Answer:
    """Reads one answer."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._text: list[str] = []
        self._thoughts: list[str] = []
        self._thought_key = ""
        self._calls = CallPieces()
        self._usage: dict[str, Any] = {}
        self._finish = ""
        self._refused = False
        self._halves = Halves()
        self._thought_halves = Halves()
        self._begun = False

    def whole(self, body: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        """A completion from a server that does not stream: its message is one big delta."""
        if body.get("error"):
            raise AnswerRefused(dict(body))
        choice = as_dict((as_list(body.get("choices")) or [None])[0])
        made = {"delta": as_dict(choice.get("message")), "finish_reason": choice.get("finish_reason")}
        return [{"choices": [made], "usage": body.get("usage")}] if choice else []

    def feed(self, event: Mapping[str, Any]) -> list[ModelEvent]:
        if event.get("error"):
            raise AnswerRefused(dict(event))
        self._usage |= {k: v for k, v in as_dict(event.get("usage")).items() if v is not None}
        choices = as_list(event.get("choices"))
        choice = as_dict(choices[0]) if choices else {}
        events: list[ModelEvent] = []
        if delta := as_dict(choice.get("delta")) or as_dict(choice.get("message")):
            self._begun = True
            events += self._delta(delta)
        self._finish = as_text(choice.get("finish_reason")) or self._finish
        return events

    def _delta(self, delta: Mapping[str, Any]) -> list[ModelEvent]:
        events: list[ModelEvent] = []
        for key in _THOUGHTS:
            if thought := as_text(delta.get(key)):
                self._thought_key = self._thought_key or key
                if key == self._thought_key:
                    self._thoughts.append(thought)
                    if ready := self._thought_halves.add(thought):
                        events.append(ReasoningDelta(ready))
        refusal = as_text(delta.get("refusal"))
        self._refused = self._refused or bool(refusal)
        if text := _content_text(delta.get("content")) + refusal:
            self._text.append(text)
            if ready := self._halves.add(text):
                events.append(TextDelta(ready))
        for piece in as_list(delta.get("tool_calls")):
            events += [CallReady(c) for c in self._calls.add(as_dict(piece))]
        return events

    def end(self) -> list[ModelEvent]:
        if not self._finish:
            raise AnswerBroken("broke off before its end" if self._begun else "is empty")
        told = StopReason.REFUSAL if self._refused else _STOPS.get(self._finish, StopReason.END)
        events: list[ModelEvent] = [TextDelta(rest)] if (rest := self._halves.rest()) else []
        events += [CallReady(c) for c in self._calls.finish(cut=told is StopReason.LENGTH)]
        message = self._message()
        events.append(TurnEnded(message=message, stop=stop_of(told, message.calls), usage=self._counted()))
        return events

    def _message(self) -> Message:
        text = "".join(self._text)
        items: list[dict[str, Any]] = []
        if self._thoughts:
            items.append({"type": "reasoning", "key": self._thought_key, "text": "".join(self._thoughts)})
        items += [{"type": "call", "id": i, "fields": fields} for i, fields in self._calls.extras()]
        opaque = {"provider": "chat", "model": self._profile.name, "items": items} if items else None
        blocks = (Text(text),) if text.strip() else ()
        return Message(Role.ASSISTANT, blocks, calls=self._calls.calls(), opaque=opaque)

    def _counted(self) -> Usage:
        usage = self._usage
        details = as_dict(usage.get("prompt_tokens_details"))
        read = count(details.get("cached_tokens"), usage.get("prompt_cache_hit_tokens"))
        written = count(details.get("cache_write_tokens"))
        found = Usage(
            input=max(0, count(usage.get("prompt_tokens")) - read - written),
            output=count(usage.get("completion_tokens")),
            cache_read=read,
            cache_write=written,
        )
        return priced(found, self._profile.price)


def _content_text(content: Any) -> str:
    """The text of a delta; some servers send a list of parts."""
    if isinstance(content, str):
        return content
    return "".join(as_text(as_dict(p).get("text")) for p in as_list(content))
