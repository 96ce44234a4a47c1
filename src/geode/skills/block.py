"""The list of skills in a system prompt: names first, as much description as fits.

Every skill keeps its name as long as all names fit (requirement E4); descriptions are shortened
before a name is left out, and the block says what it left out. Equal skills give equal text.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence

from .document import SkillDefinition

__all__ = ["EMPTY", "context_block", "fill_prompt"]

EMPTY = "No skills loaded."
PLACEHOLDER = "{skill_context}"
_SHORT = 24
"""A description shorter than this says nothing; it is left out instead."""


def context_block(skills: Iterable[SkillDefinition], max_chars: int = 8000) -> str:
    """One line a skill, sorted by name, at most `max_chars` characters together.

    `- **NAME**: DESCRIPTION (tools: A, B)`; `EMPTY` when there is none.
    """
    ordered = sorted(skills, key=lambda skill: skill.name)
    if not ordered:
        return EMPTY[: max(0, max_chars)]
    whole = "\n".join(_line(skill, None) for skill in ordered)
    if len(whole) <= max_chars:
        return whole
    note = f"(descriptions shortened to fit, {len(ordered)} skills; skill_read NAME shows one in full)"
    low, high, best = 0, max(len(skill.description) for skill in ordered), ""
    while low <= high:  # the longest common limit on a description that fits
        middle = (low + high) // 2
        text = "\n".join([*(_line(skill, middle) for skill in ordered), note])
        if len(text) <= max_chars:
            best, low = text, middle + 1
        else:
            high = middle - 1
    return best or _names_only(ordered, max_chars)


def _names_only(ordered: Sequence[SkillDefinition], max_chars: int) -> str:
    """As many bare names as fit, and how many are missing."""
    lines = [f"- **{skill.name}**" for skill in ordered]
    total = sum(len(line) + 1 for line in lines)
    for kept in range(len(lines), -1, -1):
        more = len(lines) - kept
        note = f"- … and {more} more (skill_read without a name lists all)" if more else "(descriptions left out)"
        if total + len(note) <= max_chars:
            return "\n".join([*lines[:kept], note])
        if kept:
            total -= len(lines[kept - 1]) + 1
    return f"… and {len(lines)} more skills"[: max(0, max_chars)]


def _line(skill: SkillDefinition, limit: int | None) -> str:
    """A skill's line; with `limit`, at most so many characters of its description."""
    text = one_line(skill.description)
    tools = f" (tools: {', '.join(skill.tools)})" if skill.tools else ""
    if limit is not None and len(text) > limit:
        text = text[: max(0, limit - 1)].rstrip() + "…" if limit >= _SHORT else ""
    if limit is not None and len(tools) > max(limit, _SHORT):
        shown = skill.tools[:2]
        left = len(skill.tools) - len(shown)
        tools = f" (tools: {', '.join(shown)}{f' and {left} more' if left else ''})" if limit >= _SHORT else ""
    return f"- **{skill.name}**: {text}{tools}" if text or tools else f"- **{skill.name}**"


def one_line(text: str) -> str:
    """`text` on one line, without control and direction characters."""
    return " ".join("".join(c for c in text if c.isspace() or unicodedata.category(c) not in ("Cc", "Cf")).split())


def fill_prompt(prompt: str, block: str) -> str:
    """Put the block at `{skill_context}`; every other brace stays, and the block is not looked into."""
    return prompt.replace(PLACEHOLDER, block or EMPTY)
