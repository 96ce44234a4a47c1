"""Policies on tool names: allow and deny lists per mode, all of which must agree."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ..core.call import Decision, TraceStep
from ..core.errors import UsageError
from .globs import Names

__all__ = ["BUILTIN_MODES", "PolicyAuditResult", "PolicyChain", "ToolPolicy"]

BUILTIN_MODES = ("default", "read_only", "dry_run", "auto")
ANY_MODE = "*"


@dataclass(frozen=True, slots=True)
class ToolPolicy:
    """One rule on names. Entries may be globs (`github__*`).

    Attributes:
        name: shown in traces; unique in a chain.
        mode: the mode it applies to, or "*".
        priority: order in traces, lower first; the verdict does not depend on it.
        allowed_tools: None restricts nothing, an empty list allows nothing; a name on it is
            allowed even when `denied_tools` has it too.
        denied_tools: names that are denied.
        unless_requested: names that are denied unless the person asked for them explicitly.
    """

    name: str
    mode: str
    priority: int = 100
    allowed_tools: Iterable[str] | None = None
    denied_tools: Iterable[str] = frozenset()
    unless_requested: Iterable[str] = frozenset()
    _allowed: Names | None = field(init=False, repr=False, compare=False)
    _denied: Names = field(init=False, repr=False, compare=False)
    _unless: Names = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for attribute in ("name", "mode"):
            if not getattr(self, attribute):
                raise UsageError(f"a policy needs a {attribute}", fix=f"give the ToolPolicy a {attribute}")
        set_ = object.__setattr__
        if self.allowed_tools is not None:
            set_(self, "allowed_tools", _entries(self.allowed_tools, self.name))
        set_(self, "denied_tools", _entries(self.denied_tools, self.name))
        set_(self, "unless_requested", _entries(self.unless_requested, self.name))
        set_(self, "_allowed", None if self.allowed_tools is None else Names(self.allowed_tools))
        set_(self, "_denied", Names(self.denied_tools))
        set_(self, "_unless", Names(self.unless_requested))

    def applies(self, modes: frozenset[str]) -> bool:
        """Whether it has a say in any of these modes."""
        return self.mode == ANY_MODE or self.mode in modes

    def is_allowed(self, tool: str, *, requested: bool = False) -> bool:
        """Whether this policy lets `tool` pass; `requested`: the person asked for it explicitly."""
        return self.explain(tool, requested=requested).verdict is Decision.ALLOW

    def explain(self, tool: str, *, requested: bool = False) -> TraceStep:
        """The same, as a trace step with the reason."""
        if self._allowed is not None:
            if tool in self._allowed:
                return TraceStep(self.name, Decision.ALLOW, "on the allow list")
            return TraceStep(self.name, Decision.DENY, f"{tool} is not on the allow list of policy {self.name}")
        if tool in self._denied:
            where = "" if self.mode == ANY_MODE else f" in mode {self.mode}"
            return TraceStep(self.name, Decision.DENY, f"policy {self.name} denies {tool}{where}")
        if tool in self._unless:
            if requested:
                return TraceStep(self.name, Decision.ALLOW, "explicitly requested by the person")
            return TraceStep(self.name, Decision.DENY, f"policy {self.name} denies {tool} unless explicitly requested")
        return TraceStep(self.name, Decision.ALLOW, "no objection")


def _entries(names: Iterable[str], policy: str) -> frozenset[str]:
    """A set of names; a single string is refused, because it would be taken letter by letter."""
    if isinstance(names, str):
        raise UsageError(f"policy {policy!r}: tool names must be a list, not one text", fix=f"write [{names!r}]")
    return frozenset(names)


@dataclass(frozen=True, slots=True)
class PolicyAuditResult:
    """What every applicable policy says about one tool."""

    tool: str
    mode: str
    user: str
    allowed: bool
    steps: tuple[TraceStep, ...]

    @property
    def blocking_policies(self) -> list[str]:
        """Names of the policies that deny, in order of evaluation."""
        return [s.policy for s in self.steps if s.verdict is Decision.DENY]


class PolicyChain:
    """All name policies together: a tool passes when every policy of the mode lets it pass.

    Args:
        policies: the first members.
        modes: modes known besides the built-in ones; a mode that is not known denies everything.
    """

    def __init__(self, policies: Iterable[ToolPolicy] = (), *, modes: Iterable[str] = ()) -> None:
        self._policies: list[ToolPolicy] = []
        self._modes: dict[str, str] = dict.fromkeys((*BUILTIN_MODES, *modes), "")
        self._by_mode: dict[str, tuple[ToolPolicy, ...]] = {}
        self.version = 0
        """Grows with every change; caches of verdicts depend on it."""
        for policy in policies:
            self.add_policy(policy)

    @property
    def policies(self) -> tuple[ToolPolicy, ...]:
        """All policies by priority."""
        return tuple(self._policies)

    @property
    def modes(self) -> tuple[str, ...]:
        return tuple(self._modes)

    def add_mode(self, mode: str, *, like: str = "") -> None:
        """Make a mode known, so that calls in it are judged by its policies, and by those of `like`."""
        self._modes[mode] = like
        self._changed()

    def modes_like(self, mode: str) -> frozenset[str]:
        """The mode and the one it is like: what rules for either of them hold in."""
        like = self._modes.get(mode, "")
        return frozenset({mode, like}) if like else frozenset({mode})

    def add_policy(self, policy: ToolPolicy) -> None:
        """Add a policy; the mode it names becomes known.

        Raises:
            UsageError: a policy of that name is already there.
        """
        if any(p.name == policy.name for p in self._policies):
            raise UsageError(f"a policy named {policy.name!r} is already in the chain", fix="choose another name")
        if policy.mode != ANY_MODE:
            self._modes.setdefault(policy.mode, "")
        self._policies.append(policy)
        self._policies.sort(key=lambda p: p.priority)
        self._changed()

    def remove_policy(self, name: str) -> bool:
        """Take a policy out; False when there is none of that name."""
        kept = [p for p in self._policies if p.name != name]
        found = len(kept) != len(self._policies)
        self._policies = kept
        self._changed()
        return found

    def _changed(self) -> None:
        self.version += 1
        self._by_mode = {}

    def _applicable(self, mode: str) -> tuple[ToolPolicy, ...]:
        found = self._by_mode.get(mode)
        if found is None:
            found = tuple(p for p in self._policies if p.applies(self.modes_like(mode)))
            self._by_mode = {**self._by_mode, mode: found}
        return found

    def filter_tools(self, names: Sequence[str], *, mode: str, requested: Iterable[str] = ()) -> list[str]:
        """Those of `names` that may be used in `mode`, in their order. An unknown mode leaves none."""
        if mode not in self._modes:
            return []
        asked = frozenset(requested)
        policies = self._applicable(mode)
        return [n for n in names if all(p.is_allowed(n, requested=n in asked) for p in policies)]

    def audit_check(
        self, tool_name: str, *, mode: str, user: str = "", requested: Iterable[str] = ()
    ) -> PolicyAuditResult:
        """Ask every policy of the mode and keep what each said."""
        if mode not in self._modes:
            known = ", ".join(self._modes)
            step = TraceStep("modes", Decision.DENY, f"unknown mode {mode!r}; known modes: {known}")
            return PolicyAuditResult(tool_name, mode, user, False, (step,))
        asked = tool_name in frozenset(requested)
        steps = tuple(p.explain(tool_name, requested=asked) for p in self._applicable(mode))
        allowed = all(s.verdict is Decision.ALLOW for s in steps)
        return PolicyAuditResult(tool_name, mode, user, allowed, steps)
