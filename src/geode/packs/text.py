"""Bytes of a text file as text and back: encodings that round-trip, line endings, lines.

Shared by reading and editing. Whatever `decode` returns encodes back to exactly the same
bytes, so an edit can splice bytes and leave the rest alone.
"""

from __future__ import annotations

import codecs
import hashlib
import re
import unicodedata
from dataclasses import dataclass

__all__ = [
    "Decoded",
    "Ending",
    "count_endings",
    "cut_text",
    "decode",
    "is_binary",
    "kind_of_binary",
    "majority_ending",
    "split_lines",
    "version_of",
]

Ending = str
"""One of "\\n", "\\r\\n", "\\r"."""

_BOMS: tuple[tuple[bytes, str], ...] = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)

_MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"%PDF-", "PDF document"),
    (b"\x89PNG\r\n\x1a\n", "PNG image"),
    (b"\xff\xd8\xff", "JPEG image"),
    (b"GIF8", "GIF image"),
    (b"PK\x03\x04", "ZIP archive or Office document"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "old Office document"),
    (b"\x1f\x8b", "gzip archive"),
    (b"BZh", "bzip2 archive"),
    (b"\xfd7zXZ\x00", "xz archive"),
    (b"7z\xbc\xaf\x27\x1c", "7z archive"),
    (b"\x7fELF", "program"),
    (b"MZ", "Windows program"),
    (b"SQLite format 3\x00", "SQLite database"),
    (b"\x00asm", "WebAssembly"),
    (b"RIFF", "audio, video or WebP image"),
    (b"OggS", "Ogg audio"),
    (b"ID3", "MP3 audio"),
)

_TEXT_CONTROL = frozenset(b"\t\n\r\f\x08\x0b\x1b")


@dataclass(frozen=True, slots=True)
class Decoded:
    """A file's text and how to get its bytes back.

    Attributes:
        text: without the byte order mark; line endings as they are in the file.
        encoding: a Python codec name.
        bom: the byte order mark, or b"".
        errors: codec error handler that makes the round trip exact.
    """

    text: str
    encoding: str
    bom: bytes = b""
    errors: str = "strict"

    def encode(self, text: str) -> bytes:
        """Bytes of a piece of text in this file's encoding, without the mark.

        Raises:
            UnicodeEncodeError: the encoding has no such character.
        """
        return text.encode(self.encoding, self.errors)

    @property
    def label(self) -> str:
        """For people: "utf-8", "utf-8 with BOM", "utf-8 with invalid bytes"."""
        extra = " with BOM" if self.bom else ""
        return self.encoding + extra + (" with invalid bytes" if self.errors == "surrogateescape" else "")


def decode(data: bytes) -> Decoded:
    """Decode a text file: byte order mark, UTF-8, UTF-16 without mark, CP949, Windows-1252, Latin-1.

    Never fails; check `is_binary` first.
    """
    for bom, encoding in _BOMS:
        if data.startswith(bom):
            body = data[len(bom) :]
            errors = "surrogateescape" if encoding == "utf-8" else "surrogatepass"
            found = _exact(body, encoding, "strict") or _exact(body, encoding, errors)
            if found is not None:
                return Decoded(found.text, encoding, bom, found.errors)
    return (
        _utf16_without_bom(data)
        or _exact(data, "utf-8", "strict")
        or _mostly_utf8(data)
        or _korean(data)
        or _exact(data, "cp1252", "strict")
        or Decoded(data.decode("latin-1"), "latin-1")
    )


def _exact(data: bytes, encoding: str, errors: str) -> Decoded | None:
    try:
        text = data.decode(encoding, errors)
        return Decoded(text, encoding, errors=errors) if text.encode(encoding, errors) == data else None
    except UnicodeError:
        return None


def _utf16_without_bom(data: bytes) -> Decoded | None:
    if len(data) < 4 or len(data) % 2:
        return None
    sample = data[:4096]
    half = len(sample) // 2
    if sample[1::2].count(0) > 0.6 * half and sample[0::2].count(0) < 0.1 * half:
        return _exact(data, "utf-16-le", "strict")
    if sample[0::2].count(0) > 0.6 * half and sample[1::2].count(0) < 0.1 * half:
        return _exact(data, "utf-16-be", "strict")
    return None


def _mostly_utf8(data: bytes) -> Decoded | None:
    text = data.decode("utf-8", "surrogateescape")
    broken = re.findall("[\udc80-\udcff]+", text)
    valid = sum(1 for c in text if c > "\x7f") - sum(map(len, broken))
    return Decoded(text, "utf-8", errors="surrogateescape") if valid and valid >= len(broken) else None


def _korean(data: bytes) -> Decoded | None:
    found = _exact(data, "cp949", "strict")
    if found is None:
        return None
    wide = [c for c in found.text if c > "\x7f"]
    hangul = sum(1 for c in wide if "\uac00" <= c <= "\ud7a3")
    return found if wide and hangul > 0.6 * len(wide) else None


def is_binary(sample: bytes) -> bool:
    """True when the first bytes of a file do not look like text in any encoding `decode` knows."""
    if any(sample.startswith(bom) for bom, _ in _BOMS):
        return False
    if sample.startswith((b"%PDF-", b"\x89PNG\r\n")):
        return True
    if b"\x00" in sample:
        return _utf16_without_bom(sample[: len(sample) // 2 * 2]) is None
    control = sum(1 for b in sample if b < 32 and b not in _TEXT_CONTROL)
    return control > len(sample) * 0.1


def kind_of_binary(sample: bytes) -> str:
    """What a binary file is, from its first bytes; "binary" when unknown."""
    return next((name for magic, name in _MAGIC if sample.startswith(magic)), "binary")


def version_of(data: bytes) -> str:
    """Short digest of a file's content: 12 hexadecimal digits of SHA-256."""
    return hashlib.sha256(data).hexdigest()[:12]


def count_endings(text: str) -> dict[Ending, int]:
    """How often each line ending occurs."""
    crlf = text.count("\r\n")
    return {"\n": text.count("\n") - crlf, "\r\n": crlf, "\r": text.count("\r") - crlf}


def majority_ending(text: str) -> Ending:
    """The line ending most lines of `text` have; "\\n" when there is none.

    A lone CR counts only where it is the only ending: elsewhere it is content.
    """
    counts = count_endings(text)
    if counts["\n"] == counts["\r\n"] == 0:
        return "\r" if counts["\r"] > 1 else "\n"
    if counts["\n"] == counts["\r\n"]:
        first = re.search(r"\r?\n", text)
        return first.group() if first else "\n"
    return "\r\n" if counts["\r\n"] > counts["\n"] else "\n"


def split_lines(text: str) -> list[str]:
    """Lines as ripgrep and editors count them: only LF and CRLF end a line; endings are removed.

    A final line end starts no further line.
    """
    lines = text.split("\n")
    if lines and lines[-1] == "":
        lines.pop()
    return [line[:-1] if line.endswith("\r") else line for line in lines]


_JOINERS = frozenset("\u200d\ufe0e\ufe0f\u20e3")


def cut_text(text: str, length: int) -> str:
    """About the first `length` characters of `text`: what a reader sees as one character is never split."""
    at = max(1, length)
    if at >= len(text):
        return text
    low = max(0, at - 32)
    back = at
    while back > low and _inside_character(text, back):
        back -= 1
    if back > low:
        return text[:back]
    high = min(len(text), at + 32)
    while at < high and _inside_character(text, at):
        at += 1
    return text[:at]


def _inside_character(text: str, at: int) -> bool:
    char = text[at]
    return (
        bool(unicodedata.combining(char))
        or char in _JOINERS
        or "\U0001f3fb" <= char <= "\U0001f3ff"
        or text[at - 1] == "\u200d"
    )
