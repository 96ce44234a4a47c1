"""Capability profiles: facts of `profiles.toml`, found by provider and by the model's name."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files
from typing import Any, cast

from .model import Price, Profile

__all__ = ["default_name", "profile_of"]


@cache
def _data() -> dict[str, Any]:
    return tomllib.loads(files("geode.models").joinpath("profiles.toml").read_text("utf-8"))


def default_name(provider: str) -> str:
    """The model that is taken when only the provider is named."""
    return str(_data()["defaults"][provider])


def profile_of(provider: str, name: str, **known: Any) -> Profile:
    """What is known of a model.

    Args:
        provider: "anthropic", "openai" or "chat".
        name: the provider's name of the model; an unknown one gets what is true for most.
        known: what the server itself reports, as `context_tokens`; counts more than the data.
    """
    facts: dict[str, Any] = {**_data()["provider"][provider], **_entry(name), **known}
    if provider == "chat":
        # What OpenAI and Anthropic offer on their own wires is no promise of a server that speaks chat.
        facts |= {"reasoning": False, "deferral": False, "prompt_cache": False}
    facts["output_tokens"] = min(facts["output_tokens"], max(1, facts["context_tokens"] // 2))
    price = facts.pop("price", None)
    return Profile(provider=provider, name=name, price=_price(price), **facts)


def _entry(name: str) -> Mapping[str, Any]:
    short = name.lower().rpartition("/")[2]
    for entry in cast("list[dict[str, Any]]", _data()["model"]):
        if fnmatchcase(short, entry["pattern"]):
            return {k: v for k, v in entry.items() if k != "pattern"}
    return {}


def _price(numbers: list[float] | None) -> Price | None:
    if numbers is None:
        return None
    return Price(input=numbers[0], output=numbers[1], cache_read=numbers[2], cache_write=numbers[3])
