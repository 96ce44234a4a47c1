"""Local servers on their usual ports: Ollama, LM Studio, llama.cpp, vLLM.

Only this machine is asked, with GET and without any secret; all ports at once, with short limits.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from .wire import as_dict, as_list, as_text, count

__all__ = ["USUAL", "LocalModel", "LocalServer", "detect", "probe"]

USUAL: tuple[tuple[str, str], ...] = (
    ("ollama", "http://127.0.0.1:11434"),
    ("lmstudio", "http://127.0.0.1:1234"),
    ("llamacpp", "http://127.0.0.1:8080"),
    ("vllm", "http://127.0.0.1:8000"),
)
"""Kind and address, in the order in which they are preferred."""

CONNECT, READ = 0.3, 1.5
"""Seconds."""
_NOT_FOR_CHAT = re.compile(r"embed|rerank|whisper|\bbge\b|\btts\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalModel:
    """A model that a server offers.

    Attributes:
        name: to ask for it.
        context_tokens: its context as the server gives it, or None.
        loaded: True when it is in memory.
    """

    name: str
    context_tokens: int | None = None
    loaded: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalServer:
    """A server that answered.

    Attributes:
        kind: "ollama", "lmstudio", "llamacpp" or "vllm".
        url: base of its OpenAI-compatible interface, with "/v1".
        models: for chat; loaded ones first.
    """

    kind: str
    url: str
    models: tuple[LocalModel, ...]


async def detect(env: Mapping[str, str], usual: Sequence[tuple[str, str]] = USUAL) -> list[LocalServer]:
    """The servers that run on this machine and have a model, in the order of `usual`.

    Args:
        env: `OLLAMA_HOST` moves Ollama's port.
    """
    places = [(kind, _moved(kind, url, env)) for kind, url in usual]
    found = await asyncio.gather(*(probe(kind, url) for kind, url in places))
    return [s for s in found if s is not None and s.models]


def _moved(kind: str, url: str, env: Mapping[str, str]) -> str:
    """Ollama's own variable: "0.0.0.0:11500", ":11500", "http://localhost:11500"; other machines are not asked."""
    host = env.get("OLLAMA_HOST", "").strip()
    if kind != "ollama" or not host:
        return url
    try:
        port = urlsplit(host if "//" in host else f"http://{host}").port
    except ValueError:
        return url
    return f"http://127.0.0.1:{port}" if port else url


async def probe(kind: str, url: str) -> LocalServer | None:
    """Ask one address; None when nothing there speaks the protocol."""
    import httpx2

    limits = httpx2.Timeout(READ, connect=CONNECT)
    async with httpx2.AsyncClient(base_url=url, timeout=limits, trust_env=False, follow_redirects=False) as http:
        listed = await _get(http, "/v1/models")
        entries = [as_dict(e) for e in as_list(as_dict(listed).get("data"))]
        if not entries:
            return None
        more = await _details(http, kind)
    models = [_model(e, as_dict(more.get(as_text(e.get("id"))) or more.get(""))) for e in entries if _chats(e, more)]
    return LocalServer(kind=kind, url=f"{url}/v1", models=tuple(sorted(models, key=lambda m: not m.loaded)))


async def _get(http: Any, path: str) -> Any:
    import httpx2

    try:
        answer = await http.get(path)
        return answer.json() if answer.status_code == 200 else None
    except (httpx2.HTTPError, ValueError):
        return None  # nothing there, or something else


async def _details(http: Any, kind: str) -> dict[str, Any]:
    """What the server's own interface adds, by model name; "" is for all."""
    if kind == "lmstudio":
        listed = as_list(as_dict(await _get(http, "/api/v0/models")).get("data"))
        return {as_text(as_dict(e).get("id")): e for e in listed}
    if kind == "ollama":
        listed = as_list(as_dict(await _get(http, "/api/ps")).get("models"))
        return {as_text(as_dict(e).get("name")): {**as_dict(e), "state": "loaded"} for e in listed}
    if kind == "llamacpp":
        settings = as_dict(as_dict(await _get(http, "/props")).get("default_generation_settings"))
        return {"": {"context_length": settings.get("n_ctx"), "state": "loaded"}}
    return {}


def _chats(entry: Mapping[str, Any], more: Mapping[str, Any]) -> bool:
    name = as_text(entry.get("id"))
    kind = as_text(as_dict(more.get(name)).get("type"))
    return bool(name) and kind != "embeddings" and not _NOT_FOR_CHAT.search(name)


def _model(entry: Mapping[str, Any], more: Mapping[str, Any]) -> LocalModel:
    context = count(
        entry.get("max_model_len"),
        more.get("loaded_context_length"),
        more.get("context_length"),
        more.get("max_context_length"),
        as_dict(entry.get("meta")).get("n_ctx"),
    )
    loaded = more.get("state") == "loaded"
    return LocalModel(name=as_text(entry.get("id")), context_tokens=context or None, loaded=loaded)
