"""Programs that change no more than the files they are given: mkdir, touch, tee, cp, mv.

Copies of whole trees, links and backups are left out: what they write, or where the names they
leave behind lead, cannot be told from the words.
"""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from typing import Protocol

from .known import TABLES
from .options import Parsed, parse
from .shell import Word

__all__ = ["WRITERS", "WriterReport", "copy", "move", "write_all"]


class WriterReport(Protocol):
    """What these handlers tell about one command."""

    def read(self, word: Word, *, content: bool = True) -> None: ...

    def write(self, word: Word, *, beneath: str = "") -> None:
        """A file is written; with `beneath`, it or, when it is a directory, the entry of that name in it."""
        ...

    def delete(self, word: Word) -> None: ...

    def moved(self) -> None:
        """From here on, names may lead to something else than they did."""
        ...


def _parsed(name: str, words: Sequence[Word], report: WriterReport) -> Parsed:
    found = parse(TABLES[name], words)
    for word in found.files:
        report.read(word)
    return found


def write_all(name: str, words: Sequence[Word], report: WriterReport) -> bool:
    """mkdir, touch and tee: every operand is written."""
    found = _parsed(name, words, report)
    for word in found.operands:
        report.write(word)
    return not found.unknown


def _ends(found: Parsed) -> tuple[list[Word], Word | None, bool]:
    """Sources, target, and whether the target must be a directory."""
    for option, value in found.options:
        if option in ("-t", "--target-directory") and value is not None:
            return found.operands, value, True
    if len(found.operands) < 2:
        return found.operands, None, False
    target = found.operands[-1]
    directory = len(found.operands) > 2 or posixpath.basename(target.text) in ("", ".", "..") or target.text == "~"
    return found.operands[:-1], target, directory


def _write_target(sources: Sequence[Word], target: Word, found: Parsed, directory: bool, report: WriterReport) -> bool:
    """Report what is written; False when the names are not known."""
    certain = True
    for source in sources:
        name = posixpath.basename(source.text.rstrip("/"))
        if source.globs or not source.known or name in ("", ".", ".."):
            certain = False
            report.write(target)
        elif directory:
            joined = Word(f"{target.text.rstrip('/')}/{name}", target.known, list(target.globs), tilde=target.tilde)
            report.write(joined)
        else:
            report.write(target, beneath="" if found.has("-T", "--no-target-directory") else name)
    return certain


def copy(words: Sequence[Word], report: WriterReport) -> bool:
    """cp of single files, with every name spelled out."""
    found = _parsed("cp", words, report)
    sources, target, directory = _ends(found)
    for source in sources:
        report.read(source)
    if target is None:
        return False
    return _write_target(sources, target, found, directory, report) and not found.unknown


def move(words: Sequence[Word], report: WriterReport) -> bool:
    """mv: the sources disappear from where they were; losing the home or the root that way is a deletion."""
    found = _parsed("mv", words, report)
    sources, target, directory = _ends(found)
    for source in sources:
        if source.tilde or source.text.rstrip("/*") in ("", "/"):
            report.delete(source)
        else:
            report.read(source)
            report.write(source)
    report.moved()
    if target is None:
        return False
    return _write_target(sources, target, found, directory, report) and not found.unknown


WRITERS = frozenset({"mkdir", "touch", "tee", "cp", "mv"})
"""Programs handled here."""
