"""Which skills fit some words: triggers first, then words of name and description.

Skills need no index (requirement T121): there are few, and their descriptions are short.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from .document import SkillDefinition
from .triggers import matches

__all__ = ["SkillHit", "search_skills"]

_WORD = re.compile(r"[^\W_]+")
_STOP = frozenset("a an the of to for in on with and or is are be it this that my me i you please how what".split())


@dataclass(frozen=True, slots=True)
class SkillHit:
    """A skill, how well it fits (0 to 1) and the triggers that matched."""

    skill: SkillDefinition
    score: float
    triggers: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.skill.name,
            "score": round(self.score, 3),
            "triggers": list(self.triggers),
            "description": self.skill.description,
        }


def search_skills(skills: Iterable[SkillDefinition], text: str, limit: int = 10) -> list[SkillHit]:
    """The skills that fit best, best first; none that shares nothing with the text."""
    wanted = _pieces(text)
    hits: list[SkillHit] = []
    for skill in skills:
        found = tuple(matches(skill.triggers, text))
        in_name = _share(wanted, _pieces(skill.name))
        in_text = _share(wanted, _pieces(f"{skill.name} {skill.description} {' '.join(skill.triggers)}"))
        score = 1.0 if found or text.strip().casefold() == skill.name.casefold() else 0.9 * in_text + 0.05 * in_name
        if score > 0:
            hits.append(SkillHit(skill, score, found))
    return sorted(hits, key=lambda hit: (-hit.score, -len(hit.triggers), hit.skill.name))[:limit]


def _share(wanted: frozenset[str], present: frozenset[str]) -> float:
    return len(wanted & present) / len(wanted) if wanted else 0.0


def _pieces(text: str) -> frozenset[str]:
    """Words without endings; pairs of characters where words are not told apart by blanks."""
    pieces: set[str] = set()
    for word in _WORD.findall(unicodedata.normalize("NFKC", text).casefold()):
        if word in _STOP:
            continue
        if any(ord(c) >= 0x1100 for c in word):
            pieces.update(word[i : i + 2] for i in range(max(1, len(word) - 1)))
        else:
            pieces.add(re.sub(r"(?:ies|es|s|ing|ed)$", "", word) if len(word) > 4 else word)
    return frozenset(pieces)
