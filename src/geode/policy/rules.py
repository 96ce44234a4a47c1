"""Effect rules: what a call does, where, from whom -> allow, ask or deny.

A rule is a TOML table. Every condition that is given must hold; what is not given does not
matter. The strictest verdict wins for each impact of a call, and over its impacts.

    [[rules]]
    name = "tests-may-run"
    tool = "shell_exec"
    command = "pytest*"
    verdict = "allow"
    match = ["pytest -q tests"]
    no_match = ["pytest; rm -rf x"]

`match` and `no_match` are examples that are tried when the rule is loaded: a table of
conditions, or a text that is a command line, a path, a host or a tool name, whichever the
rule is about. Command patterns are compared with parsed words, never with the line.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeVar, cast
from urllib.parse import urlsplit

from ..analysis.command import UNPARSED, analyse
from ..core.call import Decision
from ..core.effects import Effect, Impact, Origin, Scope
from ..core.errors import ConfigError
from .globs import GlobError, Names, compile_glob, compile_path_glob, is_glob

__all__ = ["CommandPattern", "Rule", "Subject", "compile_rule"]

_PATH_EFFECTS = frozenset({Effect.READ, Effect.WRITE, Effect.DELETE})
_CONDITIONS = ("tool", "source", "effect", "scope", "origin", "mode", "taint", "command", "path", "host")
_KEYS = frozenset({"name", "verdict", "reason", "advice", "match", "no_match", *_CONDITIONS})
E = TypeVar("E", bound=StrEnum)


@dataclass(frozen=True, slots=True)
class Subject:
    """Who calls what: the part of a question that does not depend on effects."""

    tool: str
    source: str
    origin: Origin | None
    modes: frozenset[str]
    tainted: bool


@dataclass(frozen=True, slots=True)
class CommandPattern:
    """A pattern on the words of one simple command: `git log*`, `npm run test:*`, `make`.

    Each word is a glob. A `*` at the very end also lets any further words follow. The program
    itself must be named exactly: `head*` is `head` with any arguments, not `headless`.
    """

    text: str
    words: tuple[Any, ...]
    program: str
    open_end: bool

    @classmethod
    def parse(cls, text: str) -> CommandPattern:
        """Compile a pattern.

        Raises:
            GlobError: empty, badly quoted, or a wildcard for the program.
        """
        try:
            words = shlex.split(text)
        except ValueError as problem:
            raise GlobError(f"badly quoted command pattern: {problem}") from problem
        if not words:
            raise GlobError("a command pattern must not be empty")
        program = words[0]
        open_end = text.rstrip().endswith("*")
        if len(words) == 1 and open_end and program != "*":
            program = program[:-1]
        if is_glob(program) and program != "*":
            raise GlobError("a command pattern must name its program without wildcards")
        rest = words[1:-1] if len(words) > 1 and open_end and words[-1] == "*" else words[1:]
        return cls(text, tuple(compile_glob(w) for w in rest), program, open_end)

    def matches(self, argv: tuple[str, ...]) -> bool:
        """Whether the words of one simple command fit."""
        if not argv or (self.program not in ("*", argv[0])):
            return False
        given = argv[1:]
        if len(given) < len(self.words) or (len(given) > len(self.words) and not self.open_end):
            return False
        return all(p.match(w) for p, w in zip(self.words, given, strict=False))


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A checked and compiled rule. A condition of None holds always."""

    name: str
    verdict: Decision
    layer: str
    place: str
    reason: str = ""
    advice: str = ""
    tools: Names | None = None
    sources: Names | None = None
    hosts: Names | None = None
    effects: frozenset[Effect] | None = None
    scopes: frozenset[Scope] | None = None
    origins: frozenset[Origin] | None = None
    modes: frozenset[str] | None = None
    taint: bool | None = None
    commands: tuple[CommandPattern, ...] | None = None
    paths: tuple[Any, ...] | None = None
    text: Mapping[str, Any]

    @property
    def about_target(self) -> bool:
        """Whether it looks at the target of an impact, not only at its kind and scope."""
        return self.commands is not None or self.paths is not None or self.hosts is not None

    @property
    def about_impact(self) -> bool:
        """Whether it can only be judged once the effects are known."""
        return self.effects is not None or self.scopes is not None or self.about_target

    @property
    def names_tools(self) -> bool:
        """Whether it is about tools by name (`*` alone names none)."""
        return self.tools is not None and "*" not in _strings(self.text.get("tool"))

    def applies(self, subject: Subject) -> bool:
        """Whether the conditions on tool, source, origin, mode and taint hold."""
        return (
            (self.tools is None or subject.tool in self.tools)
            and (self.sources is None or subject.source in self.sources)
            and (self.origins is None or subject.origin in self.origins)
            and (self.modes is None or not self.modes.isdisjoint(subject.modes))
            and (self.taint is None or self.taint == subject.tainted)
        )

    def covers(self, impact: Impact) -> bool:
        """Whether the conditions on effect, scope and target hold."""
        if self.effects is not None and impact.kind not in self.effects:
            return False
        if self.scopes is not None and impact.scope not in self.scopes:
            return False
        return not self.about_target or self._covers_target(impact)

    def _covers_target(self, impact: Impact) -> bool:
        if self.commands is not None:
            if impact.kind is not Effect.EXECUTE or impact.target.startswith(UNPARSED):
                return False
            argv = _words(impact.target)
            if not any(p.matches(argv) for p in self.commands):
                return False
        if self.paths is not None:
            if impact.kind not in _PATH_EFFECTS:
                return False
            target = impact.target.replace("\\", "/") if os.sep == "\\" else impact.target
            if not any(p.match(target) for p in self.paths):
                return False
        if self.hosts is not None:
            return impact.kind is Effect.NETWORK and _host(impact.target) in self.hosts
        return True

    def to_json(self) -> dict[str, Any]:
        """For `geode policy show`."""
        shown = {k: v for k, v in self.text.items() if k not in ("match", "no_match")}
        return {**shown, "layer": self.layer, "place": self.place}


def _words(target: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(target))
    except ValueError:
        return ()


def _host(target: str) -> str:
    """The host of a URL or `host:port`, lower case."""
    try:
        host = urlsplit(target if "://" in target else f"//{target}").hostname
    except ValueError:
        return ""
    return (host or "").rstrip(".").lower()


# ---------------------------------------------------------------- loading


def _strings(value: Any) -> list[str]:
    if value is None:
        return []
    return [value] if isinstance(value, str) else list(value)


@dataclass(slots=True)
class _Loader:
    """Checks one table; every fault names file, line and rule."""

    item: Mapping[str, Any]
    layer: str
    place: str
    home: str
    modes: frozenset[str]
    number: int

    def fault(self, what: str, fix: str) -> ConfigError:
        name = self.item.get("name")
        who = f"rule {name!r}" if isinstance(name, str) and name else f"rule {self.number}"
        return ConfigError(f"{self.place}: {who}: {what}", fix=fix)

    def text(self, key: str, *, required: bool = False) -> str:
        value = self.item.get(key, "")
        if not isinstance(value, str) or (required and not value.strip()):
            raise self.fault(f"{key!r} must be a text", f'write {key} = "…"')
        return value

    def texts(self, key: str) -> list[str] | None:
        value = self.item.get(key)
        if value is None:
            return None
        values = _strings(value) if isinstance(value, str | list) else []
        if not values or not all(isinstance(v, str) and v for v in values):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise self.fault(f"{key!r} must be a text or a list of texts that is not empty", f'write {key} = "…"')
        return values

    def members(self, key: str, kind: type[E]) -> frozenset[E] | None:
        values = self.texts(key)
        if values is None:
            return None
        known = [member.value for member in kind]
        for value in values:
            if value not in known:
                raise self.fault(f"unknown {key} {value!r}", f"use one of: {', '.join(known)}")
        return frozenset(kind(v) for v in values)

    def patterns(self, key: str, compile_: Callable[[str], Any]) -> tuple[Any, ...] | None:
        values = self.texts(key)
        if values is None:
            return None
        try:
            return tuple(compile_(v) for v in values)
        except GlobError as problem:
            raise self.fault(f"bad pattern in {key!r}: {problem}", "correct the pattern") from problem

    def names(self, key: str) -> Names | None:
        return None if self.patterns(key, compile_glob) is None else Names(self.texts(key) or ())

    def load(self) -> Rule:
        if unknown := sorted(set(self.item) - _KEYS):
            raise self.fault(f"unknown key {unknown[0]!r}", f"known keys: {', '.join(sorted(_KEYS))}")
        verdicts = [d.value for d in Decision]
        if self.text("verdict", required=True) not in verdicts:
            raise self.fault(f"unknown verdict {self.item['verdict']!r}", f"use one of: {', '.join(verdicts)}")
        taint = self.item.get("taint")
        if taint is not None and not isinstance(taint, bool):
            raise self.fault("'taint' must be true or false", "write taint = true")
        modes = self.texts("mode")
        for mode in modes or ():
            if mode not in self.modes:
                raise self.fault(f"unknown mode {mode!r}", f"use one of: {', '.join(sorted(self.modes))}")
        rule = Rule(
            name=self.text("name", required=True),
            verdict=Decision(self.item["verdict"]),
            layer=self.layer,
            place=self.place,
            reason=self.text("reason"),
            advice=self.text("advice"),
            tools=self.names("tool"),
            sources=self.names("source"),
            hosts=self.names("host"),
            effects=self.members("effect", Effect),
            scopes=self.members("scope", Scope),
            origins=self.members("origin", Origin),
            modes=None if modes is None else frozenset(modes),
            taint=taint,
            commands=self.patterns("command", CommandPattern.parse),
            paths=self.patterns("path", lambda p: compile_path_glob(p, self.home)),
            text=dict(self.item),
        )
        self._check_allow(rule)
        self._self_test(rule)
        return rule

    def _check_allow(self, rule: Rule) -> None:
        """A rule that allows must say what: never everything."""
        if rule.verdict is not Decision.ALLOW or self.layer == "default":
            return
        specific = rule.names_tools or rule.sources or rule.about_target or (rule.effects and rule.scopes)
        if not specific:
            raise self.fault(
                "would allow everything", "name a tool, a source, a command, a path, a host, or an effect with a scope"
            )

    def _self_test(self, rule: Rule) -> None:
        for key, wanted in (("match", True), ("no_match", False)):
            value = self.item.get(key, [])
            if not isinstance(value, list):
                raise self.fault(f"{key!r} must be a list of examples", f"write {key} = [ … ]")
            for example in cast("list[Any]", value):
                if _example_matches(self, rule, example) is not wanted:
                    verb = "does not match" if wanted else "matches"
                    raise self.fault(
                        f"self-test failed: it {verb} {example!r}, which is listed under {key!r}",
                        "correct the rule or the example",
                    )


def compile_rule(
    item: Mapping[str, Any], *, layer: str, place: str, home: str, modes: frozenset[str], number: int = 1
) -> Rule:
    """Check a rule completely and compile it.

    Args:
        item: the TOML table.
        layer: "default", "user" or "project".
        place: file and line, for messages.
        home: the person's home directory, for `~/` in paths.
        modes: known modes.
        number: position in its file, 1-based, for rules without a name.

    Raises:
        ConfigError: unknown keys, wrong types, bad patterns, failing self-tests.
    """
    return _Loader(item, layer, place, home, modes, number).load()


# ---------------------------------------------------------------- self-tests


def _example_matches(loader: _Loader, rule: Rule, example: Any) -> bool:
    if isinstance(example, str):
        key = next((k for k in ("command", "path", "host", "tool", "source") if k in loader.item), "")
        if not key:
            raise loader.fault("a text as example needs a rule with command, path, host or tool", "use a table")
        example = {key: example}
    if not isinstance(example, Mapping) or not example:
        raise loader.fault(f"bad example {example!r}", "use a text or a table of conditions")
    checks: dict[str, Callable[[Any], bool]] = {
        "tool": lambda v: rule.tools is None or v in rule.tools,
        "source": lambda v: rule.sources is None or v in rule.sources,
        "host": lambda v: rule.hosts is None or _host(v) in rule.hosts,
        "effect": lambda v: rule.effects is None or v in rule.effects,
        "scope": lambda v: rule.scopes is None or v in rule.scopes,
        "origin": lambda v: rule.origins is None or v in rule.origins,
        "mode": lambda v: rule.modes is None or v in rule.modes,
        "taint": lambda v: rule.taint is None or v is rule.taint,
        "command": lambda v: _matches_command(rule, v),
        "path": lambda v: rule.paths is None or any(p.match(_absolute(v, loader.home)) for p in rule.paths),
    }
    kinds: dict[str, type[StrEnum]] = {"effect": Effect, "scope": Scope, "origin": Origin}
    for key, value in cast("Mapping[str, Any]", example).items():
        if key not in checks:
            raise loader.fault(f"unknown key {key!r} in an example", f"known keys: {', '.join(checks)}")
        if not isinstance(value, bool if key == "taint" else str):
            raise loader.fault(f"{key!r} of an example has the wrong type", "use a text (taint: true or false)")
        if key in kinds and value not in [m.value for m in kinds[key]]:
            raise loader.fault(f"unknown {key} {value!r} in an example", "correct the example")
        if not checks[key](value):
            return False
    return True


def _absolute(path: str, home: str) -> str:
    if path == "~" or path.startswith("~/"):
        return home.rstrip("/") + path[1:]
    return path if path.startswith("/") else f"/project/{path}"


def _matches_command(rule: Rule, line: str) -> bool:
    """An allow rule must cover every command of the line, any other rule at least one."""
    if rule.commands is None:
        return True
    found = analyse(line, "/project", "/home/user")
    hits = [any(p.matches(argv) for p in rule.commands) for argv in found.argv]
    if rule.verdict is Decision.ALLOW:
        return found.understood and bool(hits) and all(hits)
    return any(hits)
