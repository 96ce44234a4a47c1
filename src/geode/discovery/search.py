"""`ToolSearch`: a need in plain words -> the few tools that serve it, or an honest "not found"."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..tools.registry import ToolEntry, ToolRegistry
from .index import LexicalIndex

__all__ = ["Hit", "SearchAnswer", "ToolSearch"]

_WEIGHTS = {"name": 3.0, "server": 1.5, "description": 1.0, "parameters": 0.6, "examples": 0.4, "category": 1.0}

STRONG = 0.30
"""Score from which a hit is called strong."""
FOUND = 0.03
"""Score below which the best hit counts as nothing found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """One tool that may serve the need.

    Attributes:
        name, server, description: as registered; `server` is "" for tools of this process.
        score: 0..1, comparable between queries.
        band: "exact" (named in the query), "strong" or "weak".
    """

    name: str
    server: str
    score: float
    band: str
    description: str

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "server": self.server,
            "score": round(self.score, 3),
            "band": self.band,
            "description": self.description,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchAnswer:
    """What a search found. `reason` explains an empty answer, with what to do next."""

    query: str
    results: tuple[Hit, ...]
    not_found: bool
    reason: str
    searched: int
    duration_ms: float

    def to_json(self) -> dict[str, Any]:
        """The `tools search` document of the command contract."""
        return {
            "query": self.query,
            "results": [h.to_json() for h in self.results],
            "not_found": self.not_found,
            "reason": self.reason,
            "searched": self.searched,
            "duration_ms": round(self.duration_ms, 3),
        }


class ToolSearch:
    """Searches the active tools of a registry; follows the registry tool by tool.

    Args:
        registry: where the tools are.
        unavailable: server name -> state, for servers whose tools cannot be had now;
            an answer with nothing found names them (case R57).
        visible: which names the asker may see (policy and node scope); None shows all.
    """

    def __init__(self, registry: ToolRegistry, *, unavailable: Callable[[], Mapping[str, str]] = dict) -> None:
        self._registry = registry
        self._unavailable = unavailable
        self._index = LexicalIndex(_WEIGHTS)
        self._digests: dict[str, str] = {}
        self._version = -1

    def search(self, query: str, limit: int = 5, *, visible: Callable[[str], bool] | None = None) -> SearchAnswer:
        """Rank tools for `query`; at most `limit`, fewer when the rest is far behind.

        `select:NAME` (or several, separated by commas) returns exactly the named tools.
        """
        started = time.perf_counter()
        self._follow()
        entries = {e.name: e for e in self._registry.entries() if e.status == "active"}
        if visible is not None:
            entries = {n: e for n, e in entries.items() if visible(n)}
        hits = self._ranked(query, entries, max(1, limit))
        return SearchAnswer(
            query=query,
            results=tuple(hits),
            not_found=not hits,
            reason="" if hits else self._why_nothing(query),
            searched=len(entries),
            duration_ms=(time.perf_counter() - started) * 1000,
        )

    def _follow(self) -> None:
        """Bring the index to the registry's state, touching only what changed."""
        snapshot = self._registry.snapshot()
        if snapshot.version == self._version:
            return
        now = {e.name: e for e in self._registry.entries()}
        for name in self._digests.keys() - now.keys():
            self._index.remove(name)
            del self._digests[name]
        for name, entry in now.items():
            if self._digests.get(name) != entry.digest:
                self._index.add(name, _fields(entry))
                self._digests[name] = entry.digest
        self._version = snapshot.version

    def _ranked(self, query: str, entries: Mapping[str, ToolEntry], limit: int) -> list[Hit]:
        if query.startswith("select:"):
            names = [n.strip() for n in query.removeprefix("select:").split(",")]
            return [_hit(entries[n], 1.0, "exact") for n in names if n in entries]
        hits = [_hit(entries[n], 1.0, "exact") for n in _named(query, entries)][:limit]
        seen = {h.name for h in hits}
        for name, score in self._index.search(query, len(self._digests) or 1):
            if len(hits) >= limit or score < FOUND:
                break
            if name in entries and name not in seen:
                hits.append(_hit(entries[name], score, "strong" if score >= STRONG else "weak"))
        best = max((h.score for h in hits if h.band != "exact"), default=0.0)
        return [h for h in hits if h.band == "exact" or h.score >= 0.35 * best]

    def _why_nothing(self, query: str) -> str:
        reason = f"No tool among {len(self._digests)} fits {query!r}."
        states = self._unavailable()
        if states:
            reason += " Not searched: " + ", ".join(f"server {n} ({s})" for n, s in sorted(states.items())) + "."
        return (
            f"{reason} Say the need in other words (what goes in, what should come out), "
            "do it with the tools at hand (files, shell, code), or add a server or tool for it."
        )


_NAME_IN_QUERY = re.compile(r"[A-Za-z_][\w.\-]*")


def _named(query: str, entries: Mapping[str, ToolEntry]) -> list[str]:
    """Tools whose name, or last part of it, stands in the query as a word with a separator, or is the whole query."""
    words = {w.lower() for w in _NAME_IN_QUERY.findall(query) if "_" in w or "-" in w or "." in w}
    words.add(query.strip().lower())
    exact = [n for n in entries if n.lower() in words or (entries[n].spec.original_name or n).lower() in words]
    suffix = [n for n in entries if n not in exact and any(n.lower().endswith(f"_{w}") for w in words if w)]
    return sorted(exact) + sorted(suffix)


def _hit(entry: ToolEntry, score: float, band: str) -> Hit:
    text = entry.spec.description
    first = text.split("\n\n", 1)[0].replace("\n", " ")
    return Hit(name=entry.name, server=entry.spec.server, score=min(1.0, score), band=band, description=first[:300])


def _fields(entry: ToolEntry) -> dict[str, str]:
    spec = entry.spec
    properties = spec.parameters.get("properties", {})
    named = properties.items() if isinstance(properties, Mapping) else ()  # a server may have written anything
    described = [f"{k} {v.get('description', '') if isinstance(v, Mapping) else ''}" for k, v in named]
    return {
        "name": f"{spec.original_name or spec.name} {spec.title}",
        "server": spec.server,
        "description": spec.description[:2_000],
        "parameters": " ".join(described)[:2_000],
        "examples": " ".join(str(e) for e in spec.examples)[:1_000],
        "category": spec.category,
    }
