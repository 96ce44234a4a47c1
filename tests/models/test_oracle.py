"""The same histories through pydantic-ai's own models: equal request bodies, on the wire.

Allowed differences, each brought to one form by `canonical` and nothing else:

1. order of keys; arguments as parsed JSON (we keep the model's own bytes, pydantic-ai writes them anew);
2. cache marks (pydantic-ai sets none by default; ours have their own test);
3. ways of asking that are no part of the history: output limit, `store`, `include`, `prompt_cache_key`, tool choice,
   `parallel_tool_calls`, `stream_options`;
4. a text that stands alone: string, or list with one text part; `type: message` said or not; `content: null` or absent;
5. `is_error`: pydantic-ai does not know that a returned result is an error, so for Messages all results are good ones;
6. results in the chat form: pydantic-ai puts an image of a result into a user message of its own words;
7. several texts in a row: one text with blank lines or lines between, or several parts;
8. a paragraph of pydantic-ai's own about system messages, before the instructions.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from geode.core.messages import Image, Message, Status, clean_json
from geode.models.anthropic import messages_body
from geode.models.chat import chat_body
from geode.models.model import Request
from geode.models.openai import responses_body
from geode.models.profiles import profile_of
from geode.models.scripted_server import ScriptedServer

from .histories import histories, tools_for

pydantic_ai = pytest.importorskip("pydantic_ai")
pytest.importorskip("anthropic")
pytest.importorskip("openai")

ASKING = {
    *("max_tokens", "max_output_tokens", "max_completion_tokens", "store", "include", "prompt_cache_key"),
    *(
        "tool_choice",
        "parallel_tool_calls",
        "stream_options",
        "stream",
        "temperature",
        "text",
        "reasoning",
        "truncation",
    ),
}


PREFACE = "Mid-conversation system messages"


def difference(ours: Any, theirs: Any, path: str = "") -> str:
    """Where two values differ first, or ""."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key in sorted({*ours, *theirs}):
            if found := difference(ours.get(key), theirs.get(key), f"{path}.{key}"):
                return found
        return ""
    if isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        pairs = zip(ours, theirs, strict=True)
        return next((d for n, (a, b) in enumerate(pairs) if (d := difference(a, b, f"{path}[{n}]"))), "")
    return "" if ours == theirs else f"{path}: ours {ours!r}, theirs {theirs!r}"


def canonical(value: Any, *, top: bool = True) -> Any:
    if isinstance(value, list):
        return _merged([canonical(v, top=False) for v in value if not _is_preface(v)])
    if not isinstance(value, dict):
        return value
    out: dict[str, Any] = {}
    for key, item in value.items():
        if (top and key in ASKING) or key in ("cache_control", "is_error", "detail") or item is None:
            continue
        if key == "arguments" and isinstance(item, str):
            out[key] = json.loads(item)
        elif key in ("content", "system", "output") and isinstance(item, str):
            out[key] = _merged([{"type": "text", "text": item}])
        else:
            out[key] = canonical(item, top=False)
    if out.get("type") == "message":
        del out["type"]
    if str(out.get("type")).endswith("_text"):
        out["type"] = "text"
    if out.get("strict") is False:
        del out["strict"]
    return out


def _merged(parts: list[Any]) -> list[Any]:
    out: list[Any] = []
    for part in parts:
        is_text = isinstance(part, dict) and part.get("type") == "text"
        if is_text and out and isinstance(out[-1], dict) and out[-1].get("type") == "text":
            out[-1] = {**out[-1], "text": f"{out[-1]['text']}\n{part['text']}"}
        else:
            out.append(part)
    return [{**p, "text": re.sub(r"\n+", "\n", p["text"])} if isinstance(p, dict) and "text" in p else p for p in out]


def _is_preface(value: Any) -> bool:
    return isinstance(value, dict) and str(value.get("text", "")).startswith(PREFACE)


def theirs_for(protocol: str, url: str) -> Any:
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.providers.anthropic import AnthropicProvider
    from pydantic_ai.providers.openai import OpenAIProvider

    if protocol == "messages":
        return AnthropicModel("claude-sonnet-4-6", provider=AnthropicProvider(api_key="k", base_url=url))
    provider = OpenAIProvider(api_key="k", base_url=f"{url}/v1")
    if protocol == "responses":
        return OpenAIResponsesModel("gpt-4.1", provider=provider)
    return OpenAIChatModel("gpt-4.1", provider=provider)


OURS: dict[str, tuple[str, str, Callable[..., dict[str, Any]]]] = {
    "messages": ("anthropic", "claude-sonnet-4-6", messages_body),
    "responses": ("openai", "gpt-4.1", responses_body),
    "chat": ("chat", "gpt-4.1", chat_body),
}


def simple(history: list[Message], protocol: str) -> list[Message]:
    """Without what the differences 5 and 6 are about."""
    out: list[Message] = []
    for message in history:
        results = message.results
        if protocol == "messages":
            results = tuple(replace(r, status=Status.OK) for r in results)
        if protocol == "chat":
            results = tuple(replace(r, content=_without_images(r.content)) for r in results)
        out.append(replace(message, results=results))
    return out


def _without_images(blocks: Any) -> Any:
    return tuple(b for b in blocks if not isinstance(b, Image))


@pytest.mark.parametrize("protocol", ["messages", "responses", "chat"])
def test_equal_histories_give_equal_bodies(protocol: str) -> None:
    import asyncio

    from geode.models.bridge import BridgedModel

    provider, name, build = OURS[protocol]
    profile = profile_of(provider, name)
    with ScriptedServer() as server, asyncio.Runner() as runner:
        bridged = BridgedModel(theirs_for(protocol, server.url), images=profile.images)

        async def ask(request: Request) -> None:
            async for _ in bridged.stream(request):
                pass

        @settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
        @given(histories())
        def compare(drawn: list[Message]) -> None:
            history = simple(drawn, protocol)
            server.add("ok")
            chat_tools = tools_for("chat")
            runner.run(ask(Request(system="Be brief.", messages=history, tools=chat_tools)))
            request = Request(system="Be brief.", messages=history, tools=tools_for(protocol))
            ours = json.loads(json.dumps(clean_json(build(request, profile))))
            assert difference(canonical(ours), canonical(server.bodies[-1])) == ""

        compare()
