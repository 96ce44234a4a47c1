"""Any model of pydantic-ai as a `Model`: for the providers that have no adapter here.

pydantic-ai is optional and imported only when a bridged model is made. It reports a call when
the turn is over, and brings its own retries; everything else is as with the other adapters.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from ..core.messages import Block, Image, Message, Role, Text, clean_json, clean_text
from .failures import Explainer
from .model import (
    CallReady,
    ModelError,
    ModelEvent,
    ModelUnavailable,
    Profile,
    ReasoningDelta,
    Request,
    StopReason,
    TextDelta,
    TurnEnded,
    Usage,
)
from .profiles import profile_of
from .wire import as_dict, block_text, count, make_call, priced, result_text, sees, stop_of, wire_ids

__all__ = ["BridgedModel", "open_bridged", "to_pydantic_ai"]

_STOPS = {"length": StopReason.LENGTH, "content_filter": StopReason.REFUSAL}


def open_bridged(spec: str) -> BridgedModel:
    """The model that pydantic-ai knows as `spec` ("google:gemini-3-pro", "bedrock:…").

    Raises:
        ModelUnavailable: pydantic-ai or the provider's package is missing, or the provider is not configured.
    """
    try:
        from pydantic_ai.exceptions import UserError
        from pydantic_ai.models import infer_model
    except ImportError as exc:
        raise ModelUnavailable(
            "pydantic-ai is not installed", fix="install it with: pip install 'pydantic-ai-slim'"
        ) from exc
    try:
        return BridgedModel(infer_model(spec))
    except (ImportError, UserError, ValueError) as exc:
        reason = " ".join(str(exc).split())[:300]
        raise ModelUnavailable(
            f"pydantic-ai cannot open {spec!r}: {reason}", fix="see pydantic-ai's providers"
        ) from exc


class BridgedModel:
    """Wraps a model of pydantic-ai.

    Args:
        model: a `pydantic_ai.models.Model`.
        known: attributes of the profile that are known better.
    """

    def __init__(self, model: Any, **known: Any) -> None:
        self._model = model
        self._profile: Profile = profile_of("chat", str(model.model_name), **known)
        self._explain = Explainer(
            who=f"the provider {model.system}", url="", key="", key_name="", stall=0.0, local=False
        )

    @property
    def profile(self) -> Profile:
        return self._profile

    async def stream(self, request: Request) -> AsyncGenerator[ModelEvent]:
        """See `Model.stream`."""
        from pydantic_ai.exceptions import AgentRunError

        try:
            async for event in self._events(request):
                yield event
        except AgentRunError as exc:
            status = getattr(exc, "status_code", None)
            text = self._explain(exc, datetime.now(UTC)).error.message
            raise ModelError(text, status=status, retryable=status is None or status == 429 or status >= 500) from exc
        except (ModelError, ModelUnavailable):
            raise
        except Exception as exc:
            raise self._explain(exc, datetime.now(UTC)).error from exc

    async def _events(self, request: Request) -> AsyncGenerator[ModelEvent]:
        from pydantic_ai import messages as theirs
        from pydantic_ai.models import ModelRequestParameters

        parameters = ModelRequestParameters(function_tools=[_tool(t) for t in request.tools], allow_text_output=True)
        limit = request.max_output_tokens
        settings: Any = {"max_tokens": limit} if limit else None
        history = to_pydantic_ai(request.messages, request.system, self._profile)
        async with self._model.request_stream(history, settings, parameters) as stream:
            async for event in stream:
                part: Any = getattr(event, "part", None) if isinstance(event, theirs.PartStartEvent) else None
                delta: Any = getattr(event, "delta", None) if isinstance(event, theirs.PartDeltaEvent) else None
                if isinstance(part, theirs.TextPart) and part.content:
                    yield TextDelta(part.content)
                elif isinstance(part, theirs.ThinkingPart) and part.content:
                    yield ReasoningDelta(part.content)
                elif isinstance(delta, theirs.TextPartDelta):
                    yield TextDelta(delta.content_delta)
                elif isinstance(delta, theirs.ThinkingPartDelta) and delta.content_delta:
                    yield ReasoningDelta(delta.content_delta)
            response: Any = stream.get()
        ended = self._ended(response, theirs)
        for call in ended.message.calls:
            yield CallReady(call)
        yield ended

    def _ended(self, response: Any, theirs: Any) -> TurnEnded:
        text = "".join(p.content for p in response.parts if isinstance(p, theirs.TextPart))
        told = _STOPS.get(str(response.finish_reason), StopReason.END)
        wishes = [p for p in response.parts if isinstance(p, theirs.ToolCallPart)]
        whole = told is not StopReason.LENGTH
        calls = tuple(make_call(p.tool_call_id, p.tool_name, p.args or "", whole=whole) for p in wishes)
        usage = response.usage
        read, written = count(usage.cache_read_tokens), count(usage.cache_write_tokens)
        counted = Usage(
            input=max(0, count(usage.input_tokens) - read - written),
            output=count(usage.output_tokens),
            cache_read=read,
            cache_write=written,
        )
        message = Message(Role.ASSISTANT, (Text(text),) if text.strip() else (), calls=calls)
        return TurnEnded(message=message, stop=stop_of(told, calls), usage=priced(counted, self._profile.price))


def _tool(wire: Mapping[str, Any]) -> Any:
    """A definition of the chat form as pydantic-ai wants it."""
    from pydantic_ai.tools import ToolDefinition

    function = as_dict(wire.get("function"))
    return ToolDefinition(
        name=function["name"],
        description=function.get("description"),
        parameters_json_schema=function["parameters"],
        strict=function.get("strict"),
    )


def to_pydantic_ai(messages: Sequence[Message], system: str, profile: Profile) -> list[Any]:
    """A history in pydantic-ai's words."""
    from pydantic_ai import messages as theirs

    out: list[Any] = []
    requests: list[Any] = []
    instructions = clean_text(system) or None
    called: dict[str, str] = {}
    for message, ids in zip(messages, wire_ids(messages), strict=True):
        if message.role is Role.ASSISTANT:
            out.append(theirs.ModelRequest(parts=requests, instructions=instructions))
            requests = []
            called = {c.id: c.name for c in message.calls}
            texts: list[Any] = [
                theirs.TextPart(b.text) for b in message.blocks if isinstance(b, Text) and b.text.strip()
            ]
            calls = [theirs.ToolCallPart(c.name, clean_json(c.arguments or {}), ids[c.id]) for c in message.calls]
            out.append(theirs.ModelResponse(parts=[*texts, *calls]))
        elif message.role is Role.TOOL:
            for result in message.results:
                content: Any = _user_content(result.content, profile) if _has_images(result.content, profile) else None
                requests.append(
                    theirs.ToolReturnPart(
                        called.get(result.call_id, result.tool),
                        result_text(result) if content is None else content,
                        ids.get(result.call_id, result.call_id),
                    )
                )
        else:
            requests.append(theirs.UserPromptPart(_user_content(message.blocks, profile)))
    if requests:
        out.append(theirs.ModelRequest(parts=requests, instructions=instructions))
    return out


def _has_images(blocks: Sequence[Block], profile: Profile) -> bool:
    return any(sees(b, profile.images) for b in blocks)


def _user_content(blocks: Sequence[Block], profile: Profile) -> list[Any]:
    from base64 import b64decode

    from pydantic_ai.messages import BinaryContent

    out: list[Any] = []
    for block in blocks:
        if isinstance(block, Image) and sees(block, profile.images):
            out.append(BinaryContent(b64decode(block.data), media_type=block.mime_type))
        elif (text := block_text(block)).strip():
            out.append(text)
    return out or ["(nothing)"]
