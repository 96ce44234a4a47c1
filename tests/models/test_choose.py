"""Which model is opened: by name, by key, by what runs on this machine; and what is imported for it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from geode.core.errors import UsageError
from geode.core.messages import Message
from geode.models.choose import offers, open_model
from geode.models.detect import detect, probe
from geode.models.model import Model, ModelUnavailable, Request, TurnEnded
from geode.models.profiles import default_name, profile_of
from geode.models.scripted_server import ScriptedServer

NOBODY = (("ollama", "http://127.0.0.1:9"), ("vllm", "http://127.0.0.1:9"))
BOTH = {"ANTHROPIC_API_KEY": "a", "OPENAI_API_KEY": "b"}


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as found:
        yield found


def identity(model: Model) -> tuple[str, str]:
    return model.profile.provider, model.profile.name


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        ("anthropic:claude-opus-5-5", ("anthropic", "claude-opus-5-5")),
        ("anthropic:", ("anthropic", default_name("anthropic"))),
        ("anthropic", ("anthropic", default_name("anthropic"))),
        ("claude-haiku-5-5", ("anthropic", "claude-haiku-5-5")),
        ("openai:gpt-5", ("openai", "gpt-5")),
        ("gpt-6-luna", ("openai", "gpt-6-luna")),
        ("o3", ("openai", "o3")),
        ("openai-compatible:http://127.0.0.1:9/v1#qwen3:8b", ("chat", "qwen3:8b")),
        (None, ("anthropic", default_name("anthropic"))),
    ],
)
async def test_a_name_opens_its_model(spec: str | None, found: tuple[str, str]) -> None:
    assert identity(await open_model(spec, BOTH, usual=NOBODY)) == found


async def test_without_a_name_the_key_or_the_setting_decides() -> None:
    assert identity(await open_model(None, {"OPENAI_API_KEY": "b"}))[0] == "openai"
    assert identity(await open_model(None, {**BOTH, "GEODE_MODEL": "openai:gpt-5"})) == ("openai", "gpt-5")


@pytest.mark.parametrize(
    ("spec", "said", "fix"),
    [
        (None, "no model is configured", "ANTHROPIC_API_KEY"),
        ("anthropic:x", "ANTHROPIC_API_KEY is not set", "--model"),
        ("gpt-5", "OPENAI_API_KEY is not set", "--model"),
        ("ollama:x", "no ollama server", "start ollama"),
        ("llama-something", "nobody here offers", "ollama:NAME"),
        ("openai-compatible:http://me:secret@127.0.0.1:9/v1", "names no model", "URL#NAME"),
    ],
)
async def test_what_is_missing_is_said_with_a_way_out(spec: str | None, said: str, fix: str) -> None:
    with pytest.raises(ModelUnavailable, match=said) as caught:
        await open_model(spec, {}, usual=NOBODY)
    assert fix in caught.value.fix and "secret" not in caught.value.message
    assert caught.value.exit_code == 5


async def test_an_address_that_is_none_is_a_usage_error() -> None:
    with pytest.raises(UsageError):
        await open_model("openai-compatible:localhost", {})


PAGES: dict[str, dict[str, Any]] = {
    "ollama": {"/api/ps": {"models": [{"name": "qwen3:8b", "context_length": 8192}]}},
    "lmstudio": {
        "/api/v0/models": {
            "data": [
                {"id": "llama", "type": "llm", "state": "not-loaded", "max_context_length": 131072},
                {"id": "qwen3:8b", "type": "llm", "state": "loaded", "loaded_context_length": 8192},
                {"id": "nomic", "type": "embeddings", "state": "loaded"},
            ]
        }
    },
    "llamacpp": {"/props": {"default_generation_settings": {"n_ctx": 8192}}},
    "vllm": {"/v1/models": {"data": [{"id": "qwen3:8b", "max_model_len": 8192}]}},
}
MODELS = {"llamacpp": ("qwen3:8b",)}


@pytest.mark.parametrize("kind", PAGES)
async def test_a_local_server_is_found_with_what_it_says_of_its_models(kind: str, stack: ExitStack) -> None:
    names = MODELS.get(kind, ("llama", "qwen3:8b", "nomic", "nomic-embed-text"))
    if kind != "lmstudio":
        names = tuple(n for n in names if n != "nomic")
    server = stack.enter_context(ScriptedServer(["ok"], models=names, pages=PAGES[kind]))
    [found] = await detect({}, [(kind, server.url), *NOBODY])
    assert found.kind == kind and found.url == f"{server.url}/v1"
    first = found.models[0]
    assert (first.name, first.context_tokens) == ("qwen3:8b", 8192)
    assert not any("nomic" in m.name for m in found.models)
    model = await open_model(None, {}, usual=[(kind, server.url)])
    assert identity(model) == ("chat", "qwen3:8b") and model.profile.context_tokens == 8192
    assert model.profile.output_tokens <= 4096 and model.profile.family == "qwen"
    request = Request(system="s", messages=[Message.user("x")])
    assert isinstance([e async for e in model.stream(request)][-1], TurnEnded)


async def test_a_local_model_is_found_by_its_short_name_and_a_wrong_one_is_told(stack: ExitStack) -> None:
    server = stack.enter_context(ScriptedServer(models=("qwen3:latest",)))
    usual = [("ollama", server.url)]
    assert identity(await open_model("ollama:qwen3", {}, usual=usual)) == ("chat", "qwen3:latest")
    assert identity(await open_model("qwen3", {}, usual=usual)) == ("chat", "qwen3:latest")
    with pytest.raises(ModelUnavailable, match="no model 'other'") as caught:
        await open_model("ollama:other", {}, usual=usual)
    assert "qwen3:latest" in caught.value.fix
    port = server.url.rpartition(":")[2]
    assert [s.url for s in await detect({"OLLAMA_HOST": f"0.0.0.0:{port}"}, [("ollama", "http://127.0.0.1:9")])]
    assert identity(await open_model(f"openai-compatible:{server.url}/v1", {}))[1] == "qwen3:latest"


async def test_offers_are_what_can_be_opened_now(stack: ExitStack) -> None:
    server = stack.enter_context(ScriptedServer(models=("qwen3:8b", "llama3")))
    found = await offers({"OPENAI_API_KEY": "b"}, usual=[("vllm", server.url)])
    assert [o.spec for o in found] == [f"openai:{default_name('openai')}", "vllm:qwen3:8b", "vllm:llama3"]
    for offer in found:
        opened = await open_model(offer.spec, {"OPENAI_API_KEY": "b"}, usual=[("vllm", server.url)])
        assert opened.profile == offer.profile
    assert await offers({}, usual=NOBODY) == []


async def test_something_else_on_a_usual_port_is_no_model_server(stack: ExitStack) -> None:
    server = stack.enter_context(ScriptedServer(pages={"/v1/models": {"data": "no list"}}))
    assert await probe("llamacpp", server.url) is None


def test_profiles_are_facts_with_sane_limits() -> None:
    sonnet = profile_of("anthropic", "claude-sonnet-5-5-20260901")
    assert (sonnet.wire, sonnet.family, sonnet.context_tokens) == ("messages", "claude", 1_000_000)
    assert sonnet.prompt_cache and sonnet.price is not None and sonnet.price.output == 10
    future = profile_of("anthropic", "claude-unheard-of")
    assert future.context_tokens == 200_000 and future.price is None and future.images
    assert profile_of("openai", "gpt-6.1-sol").wire == "responses"
    assert not profile_of("openai", "gpt-4.1").reasoning and profile_of("openai", "o3").reasoning
    assert profile_of("chat", "openai/gpt-oss-20b").family == "gpt"
    assert profile_of("chat", "unknown").context_tokens == 32_768
    tiny = profile_of("chat", "x", context_tokens=2048)
    assert tiny.output_tokens == 1024
    assert profile_of("chat", "claude-sonnet-5-5").prompt_cache is False


def test_the_contract_and_the_command_line_import_no_sdk() -> None:
    code = (
        "import sys; import geode.models.model, geode.models.scripted, geode.models.choose, geode.models.chat, "
        "geode.models.anthropic, geode.models.openai, geode.models.bridge, geode.models.scripted_server; "
        "print([m for m in ('anthropic', 'openai', 'httpx2', 'pydantic', 'pydantic_ai') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"


async def test_a_model_of_pydantic_ai_is_a_model_here(stack: ExitStack) -> None:
    pytest.importorskip("pydantic_ai")
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    from geode.models.bridge import BridgedModel
    from geode.models.model import CallReady, ModelError, TextDelta
    from geode.models.scripted import call, turn
    from geode.models.scripted_server import Reply

    script = [
        turn("I look.", calls=[call("read_file", path="a"), call("read_file", raw='{"path": "b')]),
        Reply(status=401, content_type="application/json", body='{"error": {"message": "bad key sk-abcdefgh1234"}}'),
    ]
    server = stack.enter_context(ScriptedServer(script))
    model = BridgedModel(OpenAIChatModel("m", provider=OpenAIProvider(api_key="k", base_url=f"{server.url}/v1")))
    assert isinstance(model, Model)
    request = Request(system="s", messages=[Message.user("x")])
    events = [e async for e in model.stream(request)]
    assert "".join(e.text for e in events if isinstance(e, TextDelta)) == "I look."
    assert [e.call.arguments for e in events if isinstance(e, CallReady)] == [{"path": "a"}, None]
    assert isinstance(events[-1], TurnEnded) and events[-1].usage.input == 10
    with pytest.raises(ModelError) as caught:
        _ = [e async for e in model.stream(request)]
    assert caught.value.status == 401 and "sk-abc" not in caught.value.message
    with pytest.raises(ModelUnavailable):
        await open_model("pydantic-ai:nonsense:x", {})
