"""A lexical index over documents of weighted fields (BM25F), updated document by document.

Score: Robertson, Zaragoza: "The Probabilistic Relevance Framework: BM25 and Beyond" (2009),
section 3.6. Term frequencies of all fields are added with their weights, then saturated.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter, defaultdict
from collections.abc import Mapping

from .text import tokens

__all__ = ["LexicalIndex"]

_K1 = 1.2
_B = 0.6


class LexicalIndex:
    """Documents are added and removed one by one; nothing is rebuilt."""

    def __init__(self, weights: Mapping[str, float]) -> None:
        """`weights`: how much one occurrence in a field counts."""
        self._weights = dict(weights)
        self._terms: dict[str, dict[str, float]] = {}
        self._postings: defaultdict[str, dict[str, float]] = defaultdict(dict)
        self._lengths: dict[str, float] = {}
        self._total = 0.0

    def __len__(self) -> int:
        return len(self._terms)

    def add(self, key: str, fields: Mapping[str, str]) -> None:
        """Index a document under `key`, replacing what was there."""
        self.remove(key)
        counts: defaultdict[str, float] = defaultdict(float)
        for name, text in fields.items():
            for term in tokens(text):
                counts[term] += self._weights.get(name, 1.0)
        self._terms[key] = dict(counts)
        for term, weight in counts.items():
            self._postings[term][key] = weight
        self._lengths[key] = length = sum(counts.values())
        self._total += length

    def remove(self, key: str) -> None:
        """Forget a document; unknown keys are fine."""
        for term in self._terms.pop(key, ()):
            postings = self._postings[term]
            del postings[key]
            if not postings:
                del self._postings[term]
        self._total -= self._lengths.pop(key, 0.0)

    def search(self, query: str, limit: int) -> list[tuple[str, float]]:
        """The best keys with a score of 0..1: the share of what a perfect document would score.

        Dividing by the query's own upper bound makes one threshold mean the same for every query.
        """
        terms = Counter(tokens(query))
        if not terms or not self._terms:
            return []
        average = self._total / len(self._terms) or 1.0
        scores: defaultdict[str, float] = defaultdict(float)
        bound = 0.0
        for term, repeated in terms.items():
            postings = self._postings.get(term, {})
            rarity = math.log(1 + (len(self._terms) - len(postings) + 0.5) / (len(postings) + 0.5))
            bound += repeated * rarity * (_K1 + 1)
            for key, weight in postings.items():
                norm = _K1 * (1 - _B + _B * self._lengths[key] / average)
                scores[key] += repeated * rarity * weight * (_K1 + 1) / (weight + norm)
        best = heapq.nsmallest(limit, scores.items(), key=lambda item: (-item[1], item[0]))
        return [(key, score / bound) for key, score in best]
