"""Which options a program has, and which of its words are values, files or operands.

Only what is in a program's table is understood. A letter or a long name that is not there may
take a value, write a file or run something, so the whole command counts as not understood.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from .shell import Word

__all__ = ["OptionTable", "Parsed", "given", "parse"]

_NUMBER = re.compile(r"-\d+")


@dataclass(frozen=True, slots=True)
class OptionTable:
    """The options of one program.

    Attributes:
        takes: option -> what follows: "" nothing, "=" a value, "?" a value only when attached,
            "@" a file that is read, "#" any number after the dash (`-20`).
    """

    takes: dict[str, str]

    @classmethod
    def of(cls, text: str) -> OptionTable:
        """Compile a table: `-abc` are flags, `-n= -f@ -I?` take something, `--long --lines= --file@` too."""
        takes: dict[str, str] = {}
        for entry in text.split():
            kind = entry[-1] if entry[-1] in "=?@" else ""
            name = entry.removesuffix(kind) if kind else entry
            if name.startswith("--"):
                takes[name] = kind
            elif name == "-#":
                takes["-#"] = "#"
            else:
                takes |= {f"-{letter}": kind for letter in name[1:]}
        return cls(takes)


@dataclass(slots=True)
class Parsed:
    """The words of one command, sorted out.

    Attributes:
        options: option and its value (None without), in order.
        files: values of options that are files to be read.
        operands: what is left.
        unknown: the first option that is not in the table, or "".
    """

    options: list[tuple[str, Word | None]] = field(default_factory=list[tuple[str, "Word | None"]])
    files: list[Word] = field(default_factory=list[Word])
    operands: list[Word] = field(default_factory=list[Word])
    unknown: str = ""

    def has(self, *names: str) -> bool:
        """Whether any of these options was given."""
        return any(name in names for name, _ in self.options)


def given(word: Word, start: int) -> Word:
    """The part of a word from position `start` on, as the value of an option; a tilde there is taken as one."""
    text = word.text[start:]
    return Word(
        text,
        word.known,
        [g - start for g in word.globs if g >= start],
        tilde=text.startswith("~"),
        bare=word.bare,
    )


def parse(table: OptionTable, words: Sequence[Word]) -> Parsed:
    """Sort out the words after a program's name.

    Options may follow operands (as GNU programs have it); after `--` everything is an operand.
    When an option is unknown, every word that could be one is an operand, so that no file is
    overlooked.
    """
    found = Parsed()
    rest = list(words)
    while rest:
        word = rest.pop(0)
        text = word.text
        if text == "--":
            found.operands += rest
            break
        if len(text) < 2 or not text.startswith("-"):
            found.operands.append(word)
        elif text.startswith("--"):
            _long(table, word, rest, found)
        elif _NUMBER.fullmatch(text) and "-#" in table.takes:
            found.options.append(("-#", given(word, 1)))
        else:
            _cluster(table, word, rest, found)
    return found


def _take(name: str, kind: str, value: Word, found: Parsed) -> None:
    found.options.append((name, value))
    if kind == "@":
        found.files.append(value)


def _miss(name: str, found: Parsed) -> None:
    found.unknown = found.unknown or name


def _long(table: OptionTable, word: Word, rest: list[Word], found: Parsed) -> None:
    name, equals, value = word.text.partition("=")
    kind = table.takes.get(name)
    if kind is None or (equals and not kind):
        _miss(name, found)
        if value:
            found.files.append(given(word, len(name) + 1))
    elif equals:
        _take(name, kind, given(word, len(name) + 1), found)
    elif kind in ("", "?"):
        found.options.append((name, None))
    elif rest:
        _take(name, kind, rest.pop(0), found)
    else:
        _miss(name, found)


def _cluster(table: OptionTable, word: Word, rest: list[Word], found: Parsed) -> None:
    text = word.text
    for at in range(1, len(text)):
        name = f"-{text[at]}"
        kind = table.takes.get(name)
        attached = at + 1 < len(text)
        if kind is None:
            _miss(name, found)
            if attached:
                found.files.append(given(word, at + 1))
            return
        if kind == "":
            found.options.append((name, None))
            continue
        if attached:
            _take(name, kind, given(word, at + 1), found)
        elif kind == "?":
            found.options.append((name, None))
        elif rest:
            _take(name, kind, rest.pop(0), found)
        else:
            _miss(name, found)
        return
