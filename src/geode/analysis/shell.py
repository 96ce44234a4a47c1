"""Cutting a shell line into simple commands, the careful way.

This is a lexer for the part of the shell language that can be decided without running it.
Quotes, escapes, operators, redirections, comments and here-documents are exact; anything else
(substitutions, parameters other than `$HOME`, brace expansion, compound commands) is kept as
it stands and noted, and what is noted asks. Text inside substitutions is handed on, so that a
deletion hidden there is still seen.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

__all__ = ["Redirect", "Simple", "Word", "split_commands"]

_OPERATORS = ("&&", "||", ";;", "|&", ";", "|", "&", "\n", "(", ")")
_REDIRECTS = ("<<<", "<<-", "&>>", "<<", "<>", ">>", ">|", "<&", ">&", "&>", "<", ">")
_PLAIN_RUN = re.compile(r"[A-Za-z0-9_./:@%^+,-]+")
_QUOTED_RUN = re.compile(r'[^"\\$`]+')
_DESCRIPTOR = re.compile(r"[0-9]*(?=[<>])")
_MAX_SUBSTITUTIONS = 20
_PARAMETER = re.compile(r"\$(?:\{[^}]*\}|[A-Za-z_][A-Za-z0-9_]*|[0-9@*#?$!_-])")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\[[^\]]*\])?\+?=")
_GLOB = "*?["


@dataclass(slots=True)
class Word:
    """One word after quote removal.

    Attributes:
        text: its value; parts that are not known stay as written.
        known: whether the value is what the shell would use, apart from globs and a tilde.
        globs: positions of unquoted wildcards in `text`.
        tilde: begins with an unquoted `~`.
        bare: no character was quoted or escaped.
        assignment: has the form `NAME=…`.
        brace: 1 after an unquoted `{`, 2 when a comma or `..` followed: it may expand to several words.
    """

    text: str = ""
    known: bool = True
    globs: list[int] = field(default_factory=list[int])
    tilde: bool = False
    bare: bool = True
    assignment: bool = False
    brace: int = 0


@dataclass(slots=True)
class Redirect:
    """A redirection: operator, target, and the body of a here-document."""

    operator: str
    target: Word
    body: str | None = None


@dataclass(slots=True)
class Simple:
    """One simple command, with the operators around it."""

    words: list[Word] = field(default_factory=list[Word])
    redirects: list[Redirect] = field(default_factory=list[Redirect])
    before: str = ""
    after: str = ""


class _Lexer:
    def __init__(self, text: str, home: str, depth: int = 0) -> None:
        self.depth = depth
        self.text = text
        self.home = home
        self.at = 0
        self.notes: list[str] = []
        self.nested: list[str] = []
        self.commands: list[Simple] = [Simple()]
        self.pending: list[tuple[Redirect, bool, bool]] = []

    def note(self, what: str) -> None:
        if what not in self.notes:
            self.notes.append(what)

    # -------------------------------------------------------- commands

    def run(self) -> None:
        text = self.text
        while self.at < len(text):
            c = text[self.at]
            if c in " \t":
                self.at += 1
            elif c == "\\" and text.startswith("\\\n", self.at):
                self.at += 2
            elif c == "#":
                end = text.find("\n", self.at)
                self.at = len(text) if end < 0 else end
            elif operator := self._redirect_here():
                self._redirect(operator)
            elif operator := next((o for o in _OPERATORS if text.startswith(o, self.at)), ""):
                self._operator(operator)
            else:
                self.commands[-1].words.append(self._word())
        if self.pending:
            self.note("a here-document is not ended")

    def _operator(self, operator: str) -> None:
        self.at += len(operator)
        if operator == "\n" and self.pending:
            self._bodies()
        if operator in ("(", ")", ";;"):
            self.note("a sub-shell or function")
        if operator == "&":
            self.note("a background job")
        current = self.commands[-1]
        if current.words or current.redirects:
            current.after = operator
            self.commands.append(Simple(before=operator))
        elif operator != "\n":
            current.before = operator

    def _redirect_here(self) -> str:
        match = _DESCRIPTOR.match(self.text, self.at)
        start = match.end() if match and match.end() < len(self.text) else self.at
        if self.text.startswith(("<(", ">("), start):
            return ""
        found = next((r for r in _REDIRECTS if self.text.startswith(r, start)), "")
        if found:
            self.at = start
        return found

    def _redirect(self, operator: str) -> None:
        self.at += len(operator)
        while self.at < len(self.text) and self.text[self.at] in " \t":
            self.at += 1
        target = self._word() if self.at < len(self.text) else Word(known=False)
        redirect = Redirect(operator, target)
        self.commands[-1].redirects.append(redirect)
        if operator in ("<<", "<<-"):
            self.pending.append((redirect, operator == "<<-", not target.bare))

    def _bodies(self) -> None:
        """Take the bodies of the here-documents announced on the line that has just ended."""
        for redirect, tabs, quoted in self.pending:
            lines: list[str] = []
            while True:
                if self.at >= len(self.text):
                    self.note("a here-document is not ended")
                    break
                end = self.text.find("\n", self.at)
                end = len(self.text) if end < 0 else end
                line = self.text[self.at : end]
                self.at = min(end + 1, len(self.text))
                if (line.lstrip("\t") if tabs else line) == redirect.target.text:
                    break
                lines.append(line)
            redirect.body = "\n".join(lines)
            if not quoted and ("$" in redirect.body or "`" in redirect.body):
                self.note("an expansion in a here-document")
                self._substitutions_in(redirect.body)
        self.pending = []

    def _substitutions_in(self, body: str) -> None:
        if self.depth >= _MAX_SUBSTITUTIONS:
            self.note("substitutions nested too deeply")
            return
        inner = _Lexer('"' + body.replace('"', '\\"') + '"', self.home, self.depth + 1)
        inner.run()
        self.nested += inner.nested

    # -------------------------------------------------------- words

    def _word(self) -> Word:
        word = Word()
        text = self.text
        start = self.at
        while self.at < len(text):
            c = text[self.at]
            if c in " \t\n;|&()<>":
                if text.startswith(("<(", ">("), self.at) and c in "<>":
                    self._process_substitution(word)
                    continue
                break
            if c == "'":
                self._single(word)
            elif c == '"':
                self._double(word)
            elif c == "\\":
                self._escape(word)
            elif c == "$":
                self._dollar(word, quoted=False)
            elif c == "`":
                self._backticks(word)
            else:
                self._plain(word, c, self.at == start)
        if self.at == start:  # an operator where a word was expected
            self.note("a redirection without a target")
            word.known = False
            self.at += 1
        word.globs = [g for g in word.globs if word.text[g] != "[" or "]" in word.text[g:]]
        if word.brace == 2:
            self.note("a brace expansion")
            word.known = False
        return word

    def _plain(self, word: Word, c: str, first: bool) -> None:
        if run := _PLAIN_RUN.match(self.text, self.at):
            if word.brace and ("," in run[0] or ".." in run[0]):
                word.brace = 2
            word.text += run[0]
            self.at = run.end()
            return
        if c < " " or c == "\x7f":
            self.note("a control character")
            word.known = False
        if first and c == "~":
            word.tilde = True
        if c in _GLOB:
            word.globs.append(len(word.text))
        if c == "{" and not word.brace:
            word.brace = 1
        word.text += c
        if c == "=" and word.bare and _ASSIGNMENT.fullmatch(word.text):
            word.assignment = True
        self.at += 1

    def _single(self, word: Word) -> None:
        word.bare = False
        end = self.text.find("'", self.at + 1)
        if end < 0:
            self.note("a quote is not closed")
            word.known = False
            end = len(self.text)
        word.text += self.text[self.at + 1 : end]
        self.at = end + 1

    def _double(self, word: Word) -> None:
        word.bare = False
        self.at += 1
        text = self.text
        while self.at < len(text) and text[self.at] != '"':
            c = text[self.at]
            if c == "\\" and self.at + 1 < len(text):
                following = text[self.at + 1]
                word.text += "" if following == "\n" else following if following in '$`"\\' else c + following
                self.at += 2
            elif c == "$":
                self._dollar(word, quoted=True)
            elif c == "`":
                self._backticks(word)
            elif run := _QUOTED_RUN.match(text, self.at):
                word.text += run[0]
                self.at = run.end()
            else:  # a backslash at the very end
                word.text += c
                self.at += 1
        if self.at >= len(text):
            self.note("a quote is not closed")
            word.known = False
        self.at += 1

    def _escape(self, word: Word) -> None:
        following = self.text[self.at + 1 : self.at + 2]
        if following != "\n":
            word.bare = False
            word.text += following
        if not following:
            self.note("a trailing backslash")
            word.known = False
        self.at += 2

    def _dollar(self, word: Word, *, quoted: bool) -> None:
        text = self.text
        if text.startswith("$(", self.at):
            self._dollar_paren(word)
            return
        if not quoted and text.startswith("$'", self.at):
            self.note("an escaped string $'…'")
            word.known = False
            self.at += 1
            self._single(word)
            return
        if not quoted and text.startswith('$"', self.at):
            self.at += 1
            return
        found = _PARAMETER.match(text, self.at)
        if not found:
            word.text += "$"
            self.at += 1
            return
        self.at = found.end()
        plain_home = not any(c in " \t*?[" for c in self.home)
        if found[0] in ("$HOME", "${HOME}") and (quoted or plain_home):
            word.text += self.home
            return
        self.note(f"the value of {found[0][:40]}")
        word.known = False
        word.text += found[0]
        if "$(" in found[0] or "`" in found[0]:
            self._substitutions_in(found[0][2:])

    def _dollar_paren(self, word: Word) -> None:
        end = self._closing(self.at + 2)
        inner = self.text[self.at + 2 : end]
        if inner.startswith("(") and inner.endswith(")"):
            self.note("an arithmetic expansion")
            self._substitutions_in(inner)
        else:
            self.nested.append(inner)
            self.note("a command substitution")
        word.known = False
        word.text += self.text[self.at : end + 1]
        self.at = end + 1

    def _closing(self, start: int) -> int:
        """Position of the parenthesis that closes the one before `start`, quotes respected."""
        depth, at, text = 1, start, self.text
        while at < len(text):
            c = text[at]
            if c == "\\":
                at += 1
            elif c in "'\"":
                at = self._skip_quote(at)
            elif c == "(":
                depth += 1
            elif c == ")":
                depth -= 1
                if not depth:
                    return at
            at += 1
        self.note("a parenthesis is not closed")
        return len(text)

    def _skip_quote(self, at: int) -> int:
        quote, text = self.text[at], self.text
        at += 1
        while at < len(text) and text[at] != quote:
            at += 2 if quote == '"' and text[at] == "\\" else 1
        return at

    def _backticks(self, word: Word) -> None:
        end = self.at + 1
        while end < len(self.text) and self.text[end] != "`":
            end += 2 if self.text[end] == "\\" else 1
        self.nested.append(self.text[self.at + 1 : end].replace("\\`", "`"))
        self.note("a command substitution")
        word.known = False
        word.text += self.text[self.at : end + 1]
        self.at = end + 1

    def _process_substitution(self, word: Word) -> None:
        end = self._closing(self.at + 2)
        self.nested.append(self.text[self.at + 2 : end])
        self.note("a process substitution")
        word.known = False
        word.text += self.text[self.at : end + 1]
        self.at = end + 1


def split_commands(text: str, home: str) -> tuple[list[Simple], list[str], list[str]]:
    """Cut a line into simple commands.

    Args:
        text: the shell text.
        home: value of `$HOME`.

    Returns:
        The commands, the texts inside substitutions, and what was not understood.
    """
    lexer = _Lexer(text, home)
    lexer.run()
    return [c for c in lexer.commands if c.words or c.redirects], lexer.nested, lexer.notes
