"""Who says what inside a user message: each part is a block of its own, and only its beginning counts.

A user message holds what the person says and what Geode tells, and some of that was written by
others (skills, names of tools, a model's summary). Blocks are made here, so where one begins is never
decided by what stands in it: a mark inside a text is text.
"""

from __future__ import annotations

import re

from ..core.messages import Message, Role, Text

__all__ = ["inert", "notice", "person", "spoken"]

_PERSON = "[FROM_USER]\n"
_NOTICE = "[GEODE] "
_MARK = re.compile(r"\[(?=\s*(?:FROM_[A-Z_]+|GEODE|TOOL_RESULT)\b)", re.IGNORECASE)


def person(words: str) -> Text:
    """What the person says."""
    return Text(_PERSON + words)


def notice(text: str) -> Text:
    """What Geode tells the model."""
    return Text(_NOTICE + text)


def spoken(message: Message) -> list[str]:
    """The person's own words in a message, one text for each time they spoke."""
    if message.role is not Role.USER:
        return []
    texts = (b.text for b in message.blocks if isinstance(b, Text))
    return [text.removeprefix(_PERSON) for text in texts if text.startswith(_PERSON)]


def inert(text: str) -> str:
    """A text that others wrote, whose marks cannot be taken for Geode's: `[FROM_USER]` becomes `(FROM_USER]`."""
    return _MARK.sub("(", text)
