"""From a shell command to what it does: words, effects, and whether all of it is understood.

A first cut that errs on the side of asking: a short list of programs that only read is known,
and so are the ways to delete; all else runs something unknown. What is not understood is
still searched for deletions, so that they are denied rather than merely asked about.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..core.effects import Effect, Impact, Scope
from .places import lexical_scopes, looks_secret
from .programs import (
    HANDLERS,
    NETWORK_PROGRAMS,
    PRIVILEGE_PROGRAMS,
    SHELLS,
    VERSIONED,
    WRAPPERS,
    options_from_wildcards,
)
from .shell import Redirect, Simple, Word, split_commands

__all__ = ["UNPARSED", "CommandAnalysis", "analyse"]

UNPARSED = "(not understood) "
"""Begins the target of an impact that stands for a whole line; no quoted argv begins like this."""

MAX_CHARS = 50_000
MAX_DEPTH = 6
MAX_FOLDERS = 8
_KEYWORDS = frozenset(
    "{ } if then else elif fi for while until do done case esac select in function time coproc ! [[ ]]".split()
)
_BIN = re.compile(r"(?:/usr)?(?:/local)?/s?bin/([^/]+)")
_DEVICES = frozenset(
    {"/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/tty", "/dev/fd/0", "/dev/fd/1", "/dev/fd/2"}
)
_SAMPLE_SECRETS = (".env", ".env.local", ".netrc", ".npmrc", ".pgpass", "id_rsa", "id_ed25519", "x.pem", "server.key")
_PATH_STATE = frozenset({"pushd", "popd", "dirs"})
ScopeOf = Callable[[str], Scope]


@dataclass(frozen=True, slots=True)
class CommandAnalysis:
    """What a command line does.

    Attributes:
        argv: the words of every simple command found, nested ones too.
        impacts: what they do, in order, each once.
        understood: False when any part could do something that is not in `impacts`.
        reason: what was not understood, or "".
    """

    argv: tuple[tuple[str, ...], ...]
    impacts: tuple[Impact, ...]
    understood: bool
    reason: str = ""


def analyse(command: str, cwd: str, home: str, scope_of: ScopeOf | None = None) -> CommandAnalysis:
    """Analyse a shell command without running anything.

    Args:
        command: what would be given to `bash -c`.
        cwd: absolute directory it would run in.
        home: absolute home directory, the value of `~` and `$HOME`.
        scope_of: where an absolute path lies; None judges by spelling, with `cwd` as workspace.
    """
    analyser = _Analyser(cwd, home, scope_of or lexical_scopes(cwd, home))
    if not command.strip():
        analyser.note("the command is empty")
    elif len(command) > MAX_CHARS:
        analyser.note(f"the command is longer than {MAX_CHARS:,} characters")
    else:
        analyser.line(command, 0)
    analyser.finish()
    if analyser.notes:
        analyser.add(Effect.EXECUTE, f"{UNPARSED}{'; '.join(analyser.notes)}, in: {command[:2000]}", Scope.UNKNOWN)
    return CommandAnalysis(tuple(analyser.argv), tuple(analyser.impacts), not analyser.notes, "; ".join(analyser.notes))


class _Analyser:
    """Walks over the commands, keeping track of the directories they may run in."""

    def __init__(self, cwd: str, home: str, scope_of: ScopeOf) -> None:
        self.home = home.rstrip("/") or "/"
        self.scope_of = scope_of
        self.cwds: tuple[str, ...] = (cwd,)
        self.seen: tuple[str, ...] = (cwd,)
        self.argv: list[tuple[str, ...]] = []
        self.impacts: dict[Impact, None] = {}
        self.notes: list[str] = []
        self.depth = 0
        self.moving = False
        self.led_elsewhere = False

    def note(self, what: str) -> None:
        if what not in self.notes:
            self.notes.append(what)

    def add(self, kind: Effect, target: str, scope: Scope) -> None:
        self.impacts[Impact(kind, target, scope)] = None

    def finish(self) -> None:
        """What only the whole line shows: git obeys files that other commands of it may have written."""
        if any(i.kind is Effect.WRITE for i in self.impacts) and any(_program(a[0]) == "git" for a in self.argv):
            self.note("git beside a command that writes files")

    # -------------------------------------------------------- structure

    def line(self, text: str, depth: int) -> None:
        if depth > MAX_DEPTH:
            self.note("commands nested too deeply")
            return
        if "\0" in text:
            self.note("a NUL character")
        commands, nested, notes = split_commands(text, self.home)
        for what in notes:
            self.note(what)
        outer = self.depth
        self.depth = depth
        for inner in nested:
            before = self.cwds, self.seen
            self.line(inner, depth + 1)
            self.cwds, self.seen = before
        for simple in commands:
            self.simple(simple)
        self.depth = outer

    def simple(self, simple: Simple) -> None:
        if simple.before != "&&":  # whether a `cd` of an earlier chain took place is not known
            self.cwds = self.seen
        words = list(simple.words)
        while words and (words[0].assignment or (words[0].bare and words[0].text in _KEYWORDS)):
            self.note("a variable assignment" if words[0].assignment else "a compound command")
            words.pop(0)
        for redirect in simple.redirects:
            self.redirect(redirect, words)
        if words:
            self.command(words, simple)

    def redirect(self, redirect: Redirect, words: Sequence[Word]) -> None:
        operator, target = redirect.operator, redirect.target
        if operator in ("<<", "<<-"):
            if redirect.body and words and _program(words[0].text) in SHELLS:
                self.line(redirect.body, self.depth + 1)
            return
        if operator == "<<<":
            return
        if operator in ("<&", ">&") and re.fullmatch(r"\d+|-|\d+-", target.text):
            return
        if not target.known:
            self.note("a redirection to an unknown target")
        if operator in ("<", "<>"):
            self.read(target)
        if operator != "<" and not (target.text in _DEVICES and target.known):
            self.write(target)

    # -------------------------------------------------------- one command

    def command(self, words: Sequence[Word], simple: Simple | None = None) -> None:
        """One simple command: its program's effects, then whether it is known to have no others."""
        if self.depth > MAX_DEPTH or not words:
            self.note("commands nested too deeply" if words else "an empty command")
            return
        shown = tuple(w.text for w in words)
        self.argv.append(shown)
        if not words[0].known or words[0].globs or words[0].tilde:
            self.note("a program name that is not fixed")
        if not all(w.known for w in words):
            self.note("a word that is not fixed")
        name = _program(words[0].text)
        harmless = self.program(name, words, simple) and not options_from_wildcards(name, words)
        listed = name == words[0].text or _BIN.fullmatch(words[0].text) is not None
        contained = harmless and listed and not (name == "mv" and _piped(simple))
        self.led_elsewhere = self.led_elsewhere or self.moving
        self.moving = False
        self.add(Effect.EXECUTE, shlex.join(shown), Scope.SANDBOX if contained else Scope.UNKNOWN)

    def program(self, name: str, words: Sequence[Word], simple: Simple | None) -> bool:
        rest = words[1:]
        if name in VERSIONED and [w.text for w in rest] in (["--version"], ["-V"]) and name != "java":
            return True
        if name in ("cd", "chdir"):
            return self.change_directory(rest, simple)
        if name in _PATH_STATE:
            self.note(f"the directory after {name}")
            return False
        if name in PRIVILEGE_PROGRAMS:
            self.add(Effect.PRIVILEGE, shlex.join(w.text for w in words), Scope.SYSTEM)
            self.inner(_inner_command(rest))
            return False
        if name == "eval":
            self.shell(" ".join(w.text for w in rest))
            return False
        if name in SHELLS:
            return self.shell_program(rest)
        if name in HANDLERS:
            return HANDLERS[name](rest, self)
        if name.startswith("mkfs") or name in ("fdisk", "parted", "sgdisk", "mkswap"):
            for word in rest:
                if word.text.startswith("/"):
                    self.delete(word)
            return False
        if name in WRAPPERS:
            self.inner(_inner_command(rest))
        elif name in NETWORK_PROGRAMS:
            self.network(name)
            self.inner(_inner_command(rest))
        return False

    def change_directory(self, rest: Sequence[Word], simple: Simple | None) -> bool:
        if len(self.seen) > MAX_FOLDERS:
            return False
        operands = [w for w in rest if not re.fullmatch(r"-[LPe@]+|--", w.text)]
        if len(operands) > 1 or (operands and (operands[0].text == "-" or not operands[0].known or operands[0].globs)):
            self.note("the directory it changes to")
            return False
        target = operands[0] if operands else Word(self.home)
        self.read(target, content=False)
        new = [p for p, _ in self.places(target)]
        self.seen = tuple(dict.fromkeys((*self.seen, *new)))
        if len(self.seen) > MAX_FOLDERS:
            self.note("too many directories it may run in")
            return False
        sure = simple is not None and simple.after == "&&" and simple.before in ("", "&&", ";", "\n")
        self.cwds = tuple(dict.fromkeys(new)) if sure else self.seen
        return True

    def shell_program(self, rest: Sequence[Word]) -> bool:
        for i, word in enumerate(rest):
            if re.fullmatch(r"[-+][A-Za-z]*c[A-Za-z]*", word.text) and i + 1 < len(rest):
                following = [w for w in rest[i + 1 :] if not w.text.startswith(("-", "+"))]
                if following:
                    self.shell(following[0].text)
                break
        return False

    # -------------------------------------------------------- what handlers report

    def inner(self, words: Sequence[Word]) -> None:
        if words:
            self.depth += 1
            self.command(words)
            self.depth -= 1

    def shell(self, text: str) -> None:
        self.line(text, self.depth + 1)

    def network(self, target: str) -> None:
        self.add(Effect.NETWORK, target, Scope.INTERNET)

    def moved(self) -> None:
        """A name may lead to something else for the commands after this one (see `WriterReport`)."""
        self.moving = True

    def touched(self) -> None:
        if self.led_elsewhere:
            self.note("where a path leads after mv")

    def read(self, word: Word, *, content: bool = True) -> None:
        if word.text in ("-", *_DEVICES) and word.known:
            return
        self.touched()
        for path, scope in self.places(word):
            guess = content and scope in (Scope.WORKSPACE, Scope.TEMP) and _may_name_secret(word)
            self.add(Effect.READ, path, Scope.UNKNOWN if guess else scope)

    def write(self, word: Word, *, beneath: str = "") -> None:
        """A written file. A wildcard may stand for a link, so its directory says nothing about it."""
        if word.text in _DEVICES and word.known:
            return
        self.touched()
        for path, scope in self.places(word):
            inside = self.scope(posixpath.join(path, beneath)) if beneath and scope is not Scope.UNKNOWN else scope
            guess = bool(word.globs) and scope in (Scope.WORKSPACE, Scope.TEMP)
            self.add(Effect.WRITE, path, Scope.UNKNOWN if guess else scope)
            if inside is not scope:
                self.add(Effect.WRITE, posixpath.join(path, beneath), inside)

    def delete(self, word: Word) -> None:
        self.touched()
        for path, scope in self.places(word):
            self.add(Effect.DELETE, path, self.worst(path, scope))

    def sweep(self, word: Word) -> None:
        """A recursive change of rights at the root, the home or a system tree is as bad as a deletion."""
        for path, scope in self.places(word):
            worst = self.worst(path, scope)
            if worst is not scope or (scope is Scope.SYSTEM and _static(path).count("/") == 1) or path == self.home:
                self.add(Effect.DELETE, path, worst)

    def worst(self, path: str, scope: Scope) -> Scope:
        """Deleting a directory above the home deletes the home, wherever it is thought to lie."""
        if scope is Scope.UNKNOWN:
            return scope
        plain = _static(path)
        if plain == "/":
            return Scope.SYSTEM
        return Scope.HOME if f"{self.home}/".startswith(f"{plain}/") else scope

    def places(self, word: Word) -> list[tuple[str, Scope]]:
        """The absolute paths a word may stand for, with their scopes; wildcards count as their directory."""
        if not word.known:
            return [(word.text, Scope.UNKNOWN)]
        text = word.text
        if word.tilde:
            user, slash, rest = text[1:].partition("/")
            if user.startswith(("+", "-")) or user.isdigit():
                return [(text, Scope.UNKNOWN)]
            base = {"": self.home, "root": "/root"}.get(user, f"/home/{user}")
            text = base + slash + rest
        found: list[tuple[str, Scope]] = []
        for cwd in self.cwds:
            absolute = text if text.startswith("/") else f"{cwd.rstrip('/')}/{text}"
            if word.globs:
                shift = len(absolute) - len(word.text)
                first = min(word.globs) + shift
                head, tail = absolute[:first].rpartition("/")[0] or "/", absolute[first:]
                scope = Scope.UNKNOWN if ".." in tail.split("/") else self.scope(head)
            else:
                scope = self.scope(absolute)
            found.append((_normal(absolute), scope))
        return found

    def scope(self, path: str) -> Scope:
        """The scope of a path; when `..` follows a name that may be a link, both readings must agree."""
        as_written = self.scope_of(path)
        normal = _normal(path)
        return as_written if normal == path or self.scope_of(normal) is as_written else Scope.UNKNOWN


def _normal(path: str) -> str:
    return "/" + posixpath.normpath(path).lstrip("/")


def _static(path: str) -> str:
    """The part of a path before its first wildcard component."""
    first = re.search(r"[*?\[]", path)
    return path if not first else path[: first.start()].rpartition("/")[0] or "/"


def _piped(simple: Simple | None) -> bool:
    """Whether a command runs at the same time as its neighbours, or as part of another one."""
    return simple is None or bool({simple.before, simple.after} & {"|", "|&"})


def _program(word: str) -> str:
    return word.rpartition("/")[2]


def _may_name_secret(word: Word) -> bool:
    """Whether a wildcard could stand for a file that holds secrets."""
    if not word.globs:
        return False
    name = word.text.rpartition("/")[2]
    if looks_secret(name):
        return True
    pattern = re.escape(name).replace(r"\*", ".*").replace(r"\?", ".")
    if "[" in name:
        return True
    return any(
        re.fullmatch(pattern, sample) for sample in _SAMPLE_SECRETS if not sample.startswith(".") or name[:1] == "."
    )


def _inner_command(words: Sequence[Word]) -> Sequence[Word]:
    """The command inside a wrapper's words: from the first known program, else the first plain word."""
    known = HANDLERS.keys() | SHELLS | WRAPPERS | PRIVILEGE_PROGRAMS | NETWORK_PROGRAMS | {"eval", "cd"}
    for i, word in enumerate(words):
        name = _program(word.text)
        if name in known or name.startswith("mkfs"):
            return words[i:]
    return ()
