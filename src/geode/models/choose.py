"""Which model: `open_model` out of what the person says, the keys in the environment, or a local server."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..core.errors import UsageError
from .detect import USUAL, LocalServer, detect, probe
from .model import Model, ModelUnavailable, Profile
from .profiles import default_name, profile_of

__all__ = ["HOW", "Offer", "offers", "open_model"]

HOW = (
    "set ANTHROPIC_API_KEY or OPENAI_API_KEY, start a local server (Ollama, LM Studio, llama.cpp or vLLM), "
    "or say --model openai-compatible:URL#NAME"
)
_KINDS = tuple(kind for kind, _ in USUAL)
_PROVIDERS = ("anthropic", "openai", "openai-compatible", *_KINDS, "pydantic-ai")
_CLAUDE = re.compile(r"claude", re.I)
_GPT = re.compile(r"(gpt-(?!oss)|chatgpt|o[1-9](-|$))", re.I)


async def open_model(
    spec: str | None,
    env: Mapping[str, str] | None = None,
    *,
    usual: Sequence[tuple[str, str]] = USUAL,
    **options: Any,
) -> Model:
    """The model that `spec` names.

    Args:
        spec: `anthropic:NAME`, `openai:NAME`, `openai-compatible:URL[#NAME]`, `ollama:NAME` (also `lmstudio:`,
            `llamacpp:`, `vllm:`), `pydantic-ai:PROVIDER:NAME`, or a bare NAME. NAME may be left out after a provider.
            None takes `GEODE_MODEL`, else the provider whose key is set, else a local server.
        env: the environment; None takes the process's.
        usual: where local servers are looked for.
        options: passed to the adapter (`backoff`, `timeouts`, `clock`, `extra`).

    Raises:
        ModelUnavailable: nothing is configured, the key or the SDK is missing, or the server has no such model.
        UsageError: `spec` cannot be understood.
    """
    env = os.environ if env is None else env
    spec = (spec or env.get("GEODE_MODEL") or "").strip()
    if not spec:
        return await _by_environment(env, usual, options)
    kind, colon, rest = spec.partition(":")
    if colon and kind in ("anthropic", "openai"):
        return _hosted(kind, rest, env, options)
    if kind in ("anthropic", "openai"):
        return _hosted(kind, "", env, options)
    if colon and kind == "openai-compatible":
        return await _compatible(rest, env, options)
    if kind in _KINDS:
        return await _local(kind, rest, env, usual, options)
    if colon and kind == "pydantic-ai":
        from .bridge import open_bridged

        return open_bridged(rest)
    return await _bare(spec, env, usual, options)


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A model that can be opened now.

    Attributes:
        spec: for `open_model`.
        where: whose key is set, or the kind and address of the local server.
        profile: what is known of it.
    """

    spec: str
    where: str
    profile: Profile


async def offers(env: Mapping[str, str] | None = None, *, usual: Sequence[tuple[str, str]] = USUAL) -> list[Offer]:
    """What `open_model` could open without a name, best first: hosted models whose key is set, then local ones."""
    env = os.environ if env is None else env
    found: list[Offer] = []
    for provider in ("anthropic", "openai"):
        if _key(provider, env):
            profile = profile_of(provider, default_name(provider))
            spec = f"{provider}:{profile.name}"
            found.append(Offer(spec=spec, where=f"the key of {provider} is set", profile=profile))
    for server in await detect(env, usual):
        for model in server.models:
            profile = profile_of("chat", model.name, **_known(server, model.name))
            where = f"{server.kind} at {server.url}"
            found.append(Offer(spec=f"{server.kind}:{model.name}", where=where, profile=profile))
    return found


async def _by_environment(env: Mapping[str, str], usual: Sequence[tuple[str, str]], options: dict[str, Any]) -> Model:
    if _key("anthropic", env):
        return _hosted("anthropic", "", env, options)
    if _key("openai", env):
        return _hosted("openai", "", env, options)
    servers = await detect(env, usual)
    if servers:
        return _served(servers[0], servers[0].models[0].name, env, options)
    raise ModelUnavailable("no model is configured and no local server was found", fix=HOW)


def _key(provider: str, env: Mapping[str, str]) -> str:
    if provider == "anthropic":
        return env.get("ANTHROPIC_API_KEY", "").strip() or env.get("ANTHROPIC_AUTH_TOKEN", "").strip()
    return env.get("OPENAI_API_KEY", "").strip()


def _hosted(provider: str, name: str, env: Mapping[str, str], options: dict[str, Any]) -> Model:
    key = _key(provider, env)
    variable = f"{provider.upper()}_API_KEY"
    if not key:
        raise ModelUnavailable(f"{variable} is not set", fix=f"set {variable}, or choose another model with --model")
    profile = profile_of(provider, name or default_name(provider))
    url = env.get(f"{provider.upper()}_BASE_URL", "").strip()
    if provider == "anthropic":
        from .anthropic import AnthropicModel

        # Their SDK puts "/v1" in front of every path by itself.
        return AnthropicModel(profile, api_key=key, base_url=re.sub(r"/v1/?$", "", url), **options)
    from .openai import OpenAIModel

    return OpenAIModel(profile, api_key=key, base_url=url, **options)


def _chat(url: str, name: str, env: Mapping[str, str], options: dict[str, Any], **known: Any) -> Model:
    from .chat import ChatModel

    variable = "GEODE_MODEL_API_KEY"
    key = env.get(variable, "").strip()
    profile = profile_of("chat", name, **known)
    return ChatModel(profile, base_url=url, api_key=key, key_name=variable, **options)


async def _compatible(rest: str, env: Mapping[str, str], options: dict[str, Any]) -> Model:
    url, _, name = rest.partition("#")
    url = url.strip().rstrip("/")
    if not re.match(r"https?://[^/\s]+", url):
        raise UsageError(
            f"{rest!r} is no address of a model server", fix="write openai-compatible:http://HOST:PORT/v1#NAME"
        )
    if name:
        return _chat(url, name, env, options)
    server = await probe("chat", re.sub(r"/v1$", "", url))
    if server is None or not server.models:
        raise ModelUnavailable(
            f"the server at {_shown(url)} names no model", fix="add its name: openai-compatible:URL#NAME"
        )
    return _chat(url, server.models[0].name, env, options, **_known(server, server.models[0].name))


def _shown(url: str) -> str:
    """The address without user and password."""
    return re.sub(r"//[^/@]*@", "//", url).partition("?")[0]


async def _local(
    kind: str, name: str, env: Mapping[str, str], usual: Sequence[tuple[str, str]], options: dict[str, Any]
) -> Model:
    servers = await detect(env, [u for u in usual if u[0] == kind])
    if not servers:
        raise ModelUnavailable(f"no {kind} server with a model runs on this machine", fix=f"start {kind}; or {HOW}")
    server = servers[0]
    found = _match(server, name) if name else server.models[0].name
    if found is None:
        listed = ", ".join(m.name for m in server.models[:8])
        raise ModelUnavailable(f"{kind} has no model {name!r}", fix=f"choose one of: {listed}")
    return _served(server, found, env, options)


def _match(server: LocalServer, name: str) -> str | None:
    """The server's spelling: "qwen3" is Ollama's "qwen3:latest"."""
    names = [m.name for m in server.models]
    return next((n for n in (name, f"{name}:latest") if n in names), None)


def _served(server: LocalServer, name: str, env: Mapping[str, str], options: dict[str, Any]) -> Model:
    return _chat(server.url, name, env, options, **_known(server, name))


def _known(server: LocalServer, name: str) -> dict[str, Any]:
    context = next((m.context_tokens for m in server.models if m.name == name), None)
    return {"context_tokens": context} if context else {}


async def _bare(name: str, env: Mapping[str, str], usual: Sequence[tuple[str, str]], options: dict[str, Any]) -> Model:
    if _CLAUDE.match(name):
        return _hosted("anthropic", name, env, options)
    if _GPT.match(name):
        return _hosted("openai", name, env, options)
    for server in await detect(env, usual):
        if (found := _match(server, name)) is not None:
            return _served(server, found, env, options)
    provider, colon, rest = name.partition(":")
    near = difflib.get_close_matches(provider, _PROVIDERS, 1, 0.5) if colon else []
    if near:
        raise ModelUnavailable(
            f"there is no provider {provider!r}, and nobody here offers a model named {name!r}",
            fix=f"did you mean {near[0]}:{rest}? Providers: {', '.join(_PROVIDERS)}",
        )
    raise ModelUnavailable(
        f"nobody here offers a model named {name!r}",
        fix="say whose it is: anthropic:NAME, openai:NAME, ollama:NAME or openai-compatible:URL#NAME",
    )
