"""Trigger phrases: found in a description or a `triggers:` key, matched against what a person says.

Korean particles are written onto the word ("파이프라인을"), so a phrase may be followed by
letters of another script; inside a Latin word it does not match ("graph" is not in "paragraph").
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

__all__ = ["matches", "quoted_phrases", "triggers_in"]

_PAIRS = {'"': '"', "“": "”", "„": "“", "'": "'", "‘": "’", "「": "」", "『": "』", "«": "»", "`": "`"}
_CLOSING = {close: open_ for open_, close in _PAIRS.items()}
_MAX_PHRASE = 200
_KOREAN = re.compile(r"(?:등의?\s*)?(?:키워드|단어|문구)(?:로|에|가\s*나오면)?\s*(?:트리거|활성화)")
_ENGLISH = re.compile(
    r"\b(?:trigger(?:ed|s)?(?:\s+(?:keywords?|words?|phrases?|terms?))?(?:\s+(?:by|on|with|for|when|include|are))*"
    r"|(?:keywords?|activat(?:ed|es)\s+(?:by|on)))\s*[:：-]?\s*",
    re.IGNORECASE,
)
_BETWEEN = re.compile(r"\s*(?:[,、;|/·]|\bor\b|\band\b|또는|및|혹은|와|과)?\s*(?:\bor\b|\band\b)?\s*")


def triggers_in(description: str) -> list[str]:
    """The phrases a description names as triggers, each once, in order.

    `… "pipeline", "graph" 키워드로 트리거`, `Triggers: "a", "b"`, `triggered by "a" or "b"`.
    """
    found: list[str] = []
    for mark in _KOREAN.finditer(description):
        found += _before(description, mark.start())
    read_to = 0
    for mark in _ENGLISH.finditer(description):
        if mark.start() >= read_to:  # a phrase may hold such a word itself
            phrases, read_to = _after(description, mark.end())
            found += phrases
    return _usable(found)


def _usable(phrases: Iterable[str]) -> list[str]:
    """Each once; one without a letter or digit would fit every message."""
    return list(dict.fromkeys(p for p in phrases if any(c.isalnum() for c in p)))


def quoted_phrases(text: str) -> list[str]:
    """The phrases of a text value of `triggers:`: quoted ones, else separated by commas."""
    start = _skip(text, 0)
    if text[start : start + 1] in _PAIRS:
        return _usable(_after(text, 0)[0])
    return _usable(part.strip() for part in re.split(r"[,、;\n]", text))


def _skip(text: str, at: int) -> int:
    found = _BETWEEN.match(text, at)
    return found.end() if found else at


def _after(text: str, at: int) -> tuple[list[str], int]:
    """Quoted phrases from `at` on, up to the first thing that is none, and where that is."""
    found: list[str] = []
    at = _skip(text, at)
    while at < len(text) and text[at] in _PAIRS:
        end = text.find(_PAIRS[text[at]], at + 1, at + 2 + _MAX_PHRASE)
        if end < 0:
            break
        if phrase := text[at + 1 : end].strip():
            found.append(phrase)
        at = _skip(text, end + 1)
    return found, at


def _before(text: str, at: int) -> list[str]:
    """Quoted phrases that end directly before `at`, in order."""
    found: list[str] = []
    while True:
        head = text[max(0, at - 40) : at]
        gap = re.search(r"\s*(?:[,、;|/·]|또는|및|혹은|와|과|or|and)?\s*$", head)
        at -= len(gap[0]) if gap else 0
        if not at or text[at - 1] not in _CLOSING:
            return found[::-1]
        start = text.rfind(_CLOSING[text[at - 1]], max(0, at - 2 - _MAX_PHRASE), at - 1)
        if start < 0:
            return found[::-1]
        if phrase := text[start + 1 : at - 1].strip():
            found.append(phrase)
        at = start


def matches(triggers: Iterable[str], text: str) -> list[str]:
    """Which of `triggers` occur in what a person said, the longest first."""
    said = _folded(text)
    hits = [trigger for trigger in triggers if _occurs(_folded(trigger), said)]
    return sorted(hits, key=lambda trigger: (-len(trigger), trigger))


def _folded(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def _occurs(trigger: str, said: str) -> bool:
    at = said.find(trigger) if trigger else -1
    while at >= 0:
        end = at + len(trigger)
        inside = (at > 0 and _latin(said[at - 1]) and _latin(trigger[0])) or (
            end < len(said) and _latin(said[end]) and _latin(trigger[-1])
        )
        if not inside:
            return True
        at = said.find(trigger, at + 1)
    return False


def _latin(char: str) -> bool:
    return char == "_" or (char.isalnum() and ord(char) < 0x250)
