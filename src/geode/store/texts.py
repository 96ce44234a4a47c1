"""Text that every database takes."""

from __future__ import annotations

from ..core.messages import clean_text

__all__ = ["storable"]


def storable(text: str) -> str:
    """`text` with lone surrogates and NUL characters replaced by U+FFFD; Postgres takes neither."""
    text = clean_text(text)
    return text.replace("\x00", "\ufffd") if "\x00" in text else text
