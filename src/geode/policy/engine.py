"""The policy engine: name policies, node scopes and effect rules; the strictest wins, one trace explains it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import zip_longest
from pathlib import Path
from typing import Any, cast

from ..config.settings import RuleText, Settings
from ..core.call import Call, Decision, TraceStep, Verdict
from ..core.effects import Effect, Impact, Origin, Scope
from ..core.errors import ConfigError, GeodeError
from .chain import BUILTIN_MODES, PolicyChain, ToolPolicy
from .defaults import DEFAULTS, DEFAULTS_NAME
from .globs import GlobError, Names
from .rules import Rule, Subject, compile_rule
from .scopes import NodeScopePolicy

__all__ = ["PolicyEngine", "Question"]

_CACHE_LIMIT = 4096
_SHOWN_TARGETS = 3
_SHOWN_CHARS = 120

_IN_THE_TOOL = frozenset({Effect.COMMUNICATE, Effect.SPEND, Effect.SPAWN, Effect.CONFIGURE})
_NEVER_BY_REQUEST = frozenset({Effect.DELETE, Effect.PRIVILEGE, Effect.NETWORK})
"""A request for a tool answers "may this tool act at all", not "may it do this to that"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What the engine is asked about one call.

    Attributes:
        tool: the tool's name.
        mode: policy mode; an unknown one denies.
        node: pipeline node, or None.
        user: on whose behalf; kept for the record.
        origin: which kind of front asks; None when it is not known.
        requested: names or patterns of tools the person asked for explicitly.
        taint: labels of untrusted content the caller has seen.
        source: where the tool comes from ("builtin", "mcp:NAME", …), "" when not known.
        impacts: the resolved effects; None before the tool is looked up.
    """

    tool: str
    mode: str = "default"
    node: str | None = None
    user: str = ""
    origin: Origin | None = None
    requested: frozenset[str] = frozenset()
    taint: frozenset[str] = frozenset()
    source: str = ""
    impacts: tuple[Impact, ...] | None = None

    @classmethod
    def of(cls, call: Call, *, source: str = "", impacts: tuple[Impact, ...] | None = None) -> Question:
        """The question a call raises."""
        return cls(
            tool=call.tool,
            mode=call.mode,
            node=call.node,
            user=call.principal,
            origin=call.origin,
            requested=call.requested,
            taint=call.taint,
            source=source,
            impacts=impacts,
        )


class _ByName:
    """Everything that depends on the name part of a question alone, computed once."""

    __slots__ = ("advice", "judged", "name_rules", "requested", "rules", "steps", "target_rules")

    def __init__(self, steps: list[TraceStep], advice: str, rules: tuple[Rule, ...], requested: bool) -> None:
        self.steps = tuple(steps)
        self.advice = advice
        self.rules = rules
        self.name_rules = tuple(r for r in rules if not r.about_impact)
        self.target_rules = any(r.about_target for r in rules)
        self.requested = requested
        self.judged: dict[tuple[str, str], _Judged] = {}


@dataclass(frozen=True, slots=True)
class _Judged:
    """The verdict on one impact."""

    decision: Decision
    steps: tuple[TraceStep, ...]
    advice: str = ""


class PolicyEngine:
    """Answers questions about calls.

    Args:
        chain: name policies.
        scopes: node scopes.
        rules: effect rules of all layers.
        likes: mode -> built-in mode whose rules hold in it too.
        described: mode -> description.
    """

    def __init__(
        self,
        chain: PolicyChain,
        scopes: NodeScopePolicy,
        rules: Iterable[Rule],
        *,
        described: Mapping[str, str] | None = None,
    ) -> None:
        self.chain = chain
        self.scopes = scopes
        self.rules = tuple(rules)
        self.notices: tuple[str, ...] = ()
        self._described = dict(described or {})
        self._cache: dict[tuple[object, ...], _ByName] = {}
        self._cached_version = chain.version

    @classmethod
    def from_settings(cls, settings: Settings) -> PolicyEngine:
        """Defaults, then the user's rules, then the project's (which only tighten).

        Raises:
            ConfigError: a rule, policy, scope or mode is wrong; names file, line and rule. So is a mode
                in force that no layer knows, when a file says it; one that a call names is denied instead.
        """
        engine = _Builder(str(_person_home())).build(settings.rules)
        origin = settings.origins.get("mode", "default")
        file = next((text.file for text in settings.rules if text.layer == origin), "")
        if file and settings.mode not in engine.modes():
            raise ConfigError(f"{file}: mode {settings.mode!r} is unknown", fix=engine.closest_modes(settings.mode))
        return engine

    def modes(self) -> tuple[str, ...]:
        """All known modes."""
        return self.chain.modes

    def closest_modes(self, mode: str) -> str:
        """What to write instead of a mode that is unknown, for people."""
        near = difflib.get_close_matches(mode, self.modes(), 3)
        listed = f"known modes: {', '.join(self.modes())}"
        return f"did you mean {' or '.join(near)}? {listed}" if near else listed

    @property
    def default_rules(self) -> frozenset[str]:
        """Names under which the package's own rules stand in a trace; all others are the person's or a project's."""
        return frozenset({"no-rule", *(r.name for r in self.rules if r.layer == "default")})

    # ------------------------------------------------------------ evaluation

    def evaluate(self, question: Question) -> Verdict:
        """The strictest of all that have a say.

        With `impacts=None` only names are judged (chain, node scope, rules without conditions on
        effects), and the answer is deny, or allow in the sense of "not denied by name".
        """
        named = self._named(question)
        steps = list(named.steps)
        advice = named.advice
        decision = Decision.DENY if any(s.verdict is Decision.DENY for s in steps) else Decision.ALLOW
        if question.impacts is None:
            return Verdict(decision, tuple(steps), (), advice)
        judged = [self._judge(named, impact) for impact in question.impacts] or [self._without_effects(named)]
        worst = max(judged, key=lambda j: j.decision.rank)
        steps += _merged(judged, question.impacts)
        if worst.decision.rank > decision.rank:
            decision = worst.decision
        if not advice and decision is worst.decision:
            advice = worst.advice.replace("{tool}", question.tool)
        return Verdict(decision, tuple(steps), question.impacts, advice)

    def _named(self, q: Question) -> _ByName:
        if self._cached_version != self.chain.version or len(self._cache) > _CACHE_LIMIT:
            self._cache = {}
            self._cached_version = self.chain.version
        asked_for = bool(q.requested) and q.tool in _names(q.requested)
        key = (q.tool, q.mode, q.node, q.origin, bool(q.taint), asked_for, q.source)
        found = self._cache.get(key)
        if found is None:
            found = self._cache[key] = self._by_name(q, asked_for)
        return found

    def _by_name(self, q: Question, asked_for: bool) -> _ByName:
        subject = Subject(q.tool, q.source, q.origin, self.chain.modes_like(q.mode), bool(q.taint))
        rules = tuple(r for r in self.rules if r.applies(subject))
        lifted = any(
            r.layer == "user" and r.verdict is Decision.ALLOW and r.names_tools and not r.about_impact for r in rules
        )
        requested = lifted or asked_for
        audit = self.chain.audit_check(
            q.tool, mode=q.mode, user=q.user, requested=frozenset({q.tool}) if requested else frozenset()
        )
        steps = list(audit.steps)
        advice = "" if audit.allowed else _chain_advice(self.chain, q)
        if q.node is not None:
            steps.append(self.scopes.explain(q.tool, q.node))
        for rule in rules:
            if rule.verdict is Decision.DENY and not rule.about_impact:
                steps.append(_step(rule, q.tool))
                advice = advice or rule.advice
        return _ByName(steps, advice, rules, asked_for)

    def _judge(self, named: _ByName, impact: Impact) -> _Judged:
        if named.target_rules:
            return _judge_impact(named, impact)
        key = (impact.kind, impact.scope)
        found = named.judged.get(key)
        if found is None:
            found = named.judged[key] = _judge_impact(named, impact)
        return found

    def _without_effects(self, named: _ByName) -> _Judged:
        """A tool that declares to have no effect: only rules about its name can object."""
        asks = [r for r in named.name_rules if r.verdict is Decision.ASK]
        if asks:
            return _Judged(Decision.ASK, tuple(_step(r, "") for r in asks), asks[0].advice)
        return _Judged(Decision.ALLOW, (TraceStep("effects", Decision.ALLOW, "it has no effects"),))

    # ------------------------------------------------------------ showing

    def show(self) -> dict[str, Any]:
        """Everything that is in force, for `geode policy show`."""
        return {
            "modes": {mode: self._described.get(mode, "") for mode in self.modes()},
            "policies": [
                {
                    "name": p.name,
                    "mode": p.mode,
                    "priority": p.priority,
                    "allowed_tools": None if p.allowed_tools is None else sorted(p.allowed_tools),
                    "denied_tools": sorted(p.denied_tools),
                    "unless_requested": sorted(p.unless_requested),
                }
                for p in self.chain.policies
            ],
            "node_scopes": self.scopes.allowlists,
            "rules": [r.to_json() for r in self.rules],
        }


def _step(rule: Rule, what: str) -> TraceStep:
    return TraceStep(
        rule.name, rule.verdict, rule.reason or f"rule {rule.name} says {rule.verdict.value} {what}".strip()
    )


def _merged(judged: Iterable[_Judged], impacts: Iterable[Impact]) -> list[TraceStep]:
    """The steps of all impacts, each once; one about something unknown or a program names it."""
    targets: dict[TraceStep, list[str]] = {}
    for one, impact in zip_longest(judged, impacts):
        for step in one.steps if one else ():
            named = targets.setdefault(step, [])
            if impact is not None and impact.target and step.verdict is not Decision.ALLOW and _needs_naming(impact):
                named.append(impact.target)
    return [replace(step, reason=_about(step.reason, named)) if named else step for step, named in targets.items()]


def _needs_naming(impact: Impact) -> bool:
    return impact.kind is Effect.EXECUTE or impact.scope is Scope.UNKNOWN


def _about(reason: str, targets: list[str]) -> str:
    """`reason: target, target (and 2 more)`; long targets are cut, visibly."""
    each = list(dict.fromkeys(targets))
    shown = [t if len(t) <= _SHOWN_CHARS else f"{t[:_SHOWN_CHARS]}…" for t in each[:_SHOWN_TARGETS]]
    more = f" (and {len(each) - _SHOWN_TARGETS} more)" if len(each) > _SHOWN_TARGETS else ""
    return f"{reason}: {', '.join(shown)}{more}"


@lru_cache(maxsize=64)
def _names(requested: frozenset[str]) -> Names:
    """What was asked for, as names and patterns. A malformed pattern is nobody's name; `*` alone names no tool."""
    return Names(entry for entry in requested if entry.strip("*") and _well_formed(entry))


def _well_formed(entry: str) -> bool:
    try:
        Names((entry,))
    except GlobError:
        return False
    return True


def _chain_advice(chain: PolicyChain, q: Question) -> str:
    if q.mode not in chain.modes:
        return f"use one of the modes {', '.join(chain.modes)}"
    if chain.audit_check(q.tool, mode=q.mode, requested={q.tool}).allowed:
        return f"ask the person to request it explicitly: --allow {q.tool}"
    return f"use another tool, or ask the person to leave the mode {q.mode}"


def _judge_impact(named: _ByName, impact: Impact) -> _Judged:
    """deny > ask > allow among the rules that cover an impact; one that no rule covers asks.

    What a user's own rule allows lifts the questions of the default rules, never those of the
    user's or the project's rules, and never a denial. A request for the tool by name lifts only
    those whose risk lies in the tool itself.
    """
    requested = named.requested and _by_request(impact)
    covering = [r for r in named.rules if r.covers(impact)]
    denies = [r for r in covering if r.verdict is Decision.DENY]
    if denies:
        return _judged(Decision.DENY, denies, impact)
    asks = [r for r in covering if r.verdict is Decision.ASK]
    firm = [r for r in asks if r.layer != "default"]
    if firm:
        return _judged(Decision.ASK, firm, impact)
    allows = [r for r in covering if r.verdict is Decision.ALLOW]
    lifting = [r for r in allows if r.layer == "user"]
    if asks and not lifting and not requested:
        return _judged(Decision.ASK, asks, impact)
    if lifting or (allows and not asks):
        return _judged(Decision.ALLOW, lifting or allows, impact)
    if requested:
        return _Judged(Decision.ALLOW, (TraceStep("requested", Decision.ALLOW, "explicitly requested by the person"),))
    reason = f"no rule covers {impact.kind.value} on {impact.scope.value}"
    return _Judged(Decision.ASK, (TraceStep("no-rule", Decision.ASK, reason),))


def _by_request(impact: Impact) -> bool:
    """Whether asking for the tool is an answer to the question this impact raises."""
    return impact.kind in _IN_THE_TOOL or (impact.scope is Scope.SERVICE and impact.kind not in _NEVER_BY_REQUEST)


def _judged(decision: Decision, rules: list[Rule], impact: Impact) -> _Judged:
    steps = tuple(_step(r, f"to {impact.kind.value} on {impact.scope.value}") for r in rules)
    return _Judged(decision, steps, next((r.advice for r in rules if r.advice), ""))


def _person_home() -> Path:
    try:
        return Path.home()
    except RuntimeError:
        return Path("/nonexistent")


# ---------------------------------------------------------------- building from files


class _Builder:
    """Puts the layers together. Names must be unique, modes must exist, every table is checked."""

    def __init__(self, home: str) -> None:
        self.home = home
        self.chain = PolicyChain()
        self.described: dict[str, str] = {}
        self.rules: list[Rule] = []
        self.scopes: dict[str, list[str]] = {}
        self.narrowed: dict[str, list[str]] = {}
        self.notices: list[str] = []
        self.rule_names: dict[str, str] = {}

    def build(self, texts: Iterable[RuleText]) -> PolicyEngine:
        data = DEFAULTS.data
        default = RuleText(
            "default",
            DEFAULTS_NAME,
            tuple(data["rules"]),
            DEFAULTS.lines_of_tables("rules"),
            tuple(data["policies"]),
            DEFAULTS.lines_of_tables("policies"),
            data["node_scopes"],
            data["modes"],
        )
        for text in (default, *texts):
            self.add(text)
        engine = PolicyEngine(
            self.chain,
            NodeScopePolicy(self.scopes, narrowed=self.narrowed),
            self.rules,
            described=self.described,
        )
        engine.notices = tuple(self.notices)
        return engine

    def add(self, text: RuleText) -> None:
        self._modes(text)
        for number, item in enumerate(text.policies):
            self._policy(text, item, _place(text.file, text.policy_lines, number), number)
        for node, tools in text.node_scopes.items():
            self._scope(text, node, tools)
        known = frozenset(self.chain.modes)
        for number, item in enumerate(text.items):
            place = _place(text.file, text.lines, number)
            rule = compile_rule(item, layer=text.layer, place=place, home=self.home, modes=known, number=number + 1)
            if rule.name in self.rule_names:
                raise ConfigError(
                    f"{place}: rule {rule.name!r}: the name is taken by {self.rule_names[rule.name]}",
                    fix="choose another name",
                )
            self.rule_names[rule.name] = place
            if text.layer != "project" or rule.verdict is not Decision.ALLOW:
                self.rules.append(rule)

    def _modes(self, text: RuleText) -> None:
        for name, value in text.modes.items():
            fault = f"{text.file}: mode {name!r}"
            table = cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {"description": value}
            if set(table) - {"description", "like"} or not all(isinstance(v, str) for v in table.values()):
                raise ConfigError(f"{fault} must be a description, or a table", fix="keys: description, like")
            if not name or name == "*" or name != name.strip():
                raise ConfigError(f"{fault} is no name", fix="choose another name")
            like = table.get("like", "")
            if like and like not in BUILTIN_MODES:
                raise ConfigError(f"{fault} is like unknown {like!r}", fix=f"use one of: {', '.join(BUILTIN_MODES)}")
            if text.layer == "project":
                continue  # reported when the settings were read
            if text.layer != "default" and name in self.described:
                raise ConfigError(f"{fault} is built in", fix="choose another name")
            self.described[name] = table.get("description", "")
            self.chain.add_mode(name, like=like)

    def _policy(self, text: RuleText, item: Mapping[str, Any], place: str, number: int) -> None:
        name = item.get("name")
        fault = f"{place}: policy {name!r}" if isinstance(name, str) and name else f"{place}: policy {number + 1}"
        keys = {"name", "mode", "priority", "allowed_tools", "denied_tools", "unless_requested"}
        if unknown := sorted(set(item) - keys):
            raise ConfigError(f"{fault}: unknown key {unknown[0]!r}", fix=f"known keys: {', '.join(sorted(keys))}")
        if not isinstance(name, str) or not name.strip():
            raise ConfigError(f"{fault}: a policy needs a name", fix='write name = "…"')
        mode = item.get("mode")
        if mode != "*" and mode not in self.chain.modes:
            raise ConfigError(f"{fault}: unknown mode {mode!r}", fix=f"use one of: *, {', '.join(self.chain.modes)}")
        priority = item.get("priority", 100)
        if not isinstance(priority, int) or isinstance(priority, bool):
            raise ConfigError(f"{fault}: 'priority' must be a whole number", fix="write priority = 100")
        for key in ("allowed_tools", "denied_tools", "unless_requested"):
            _check_names(item.get(key, []), f"{fault}: {key!r}")
        try:
            self.chain.add_policy(ToolPolicy(**item))
        except (GeodeError, ValueError, TypeError) as problem:
            fix = problem.fix if isinstance(problem, GeodeError) else "correct it"
            raise ConfigError(f"{fault}: {problem}", fix=fix) from problem

    def _scope(self, text: RuleText, node: str, tools: Any) -> None:
        _check_names(tools, f"{text.file}: node scope {node!r}")
        try:
            base = NodeScopePolicy(self.scopes)
            NodeScopePolicy({node: tools})
        except ValueError as problem:
            raise ConfigError(f"{text.file}: node scope {node!r}: {problem}", fix="correct the pattern") from problem
        if text.layer != "project":
            self.scopes[node] = list(tools)
        elif base.knows(node):
            self.narrowed[node] = list(tools)
        else:
            self.notices.append(f"{text.file}: node {node!r} ignored: a project cannot add nodes")


def _check_names(value: Any, what: str) -> None:
    good = isinstance(value, list) and all(isinstance(v, str) and v for v in cast("list[Any]", value))
    if not good:
        raise ConfigError(f"{what} must be a list of tool names", fix='write ["name", "other"]')


def _place(file: str, lines: tuple[int, ...], number: int) -> str:
    return f"{file}:{lines[number]}" if number < len(lines) else file
