"""What active skills change about permissions: `tools` restricts, `allowed-tools` pre-approves.

Both hold while a skill is active in a session: from the moment it was activated until
`release`, which a loop calls when the person speaks next. Ruling 6:

- A restriction denies. With several active skills a call must satisfy each of them.
- A pre-approval answers a question the *default* policy asks; it never lifts a denial, a question
  that the person's own rules ask, or one about rights of others, settings, secrets or places
  outside the project; nor does it count once the conversation has seen untrusted content.
- A skill of risk caution or dangerous, one whose front matter was broken, one that came over MCP
  and one that has changed since pre-approve nothing.
- Once the instructions of a server's skill are in a conversation, whatever runs a program asks, to
  the end of the conversation: its text stays in the context. No rule and no skill lifts that.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Protocol

from ..core.call import Call, Decision, TraceStep, Verdict
from ..core.effects import Effect, Impact, Origin, Scope
from .document import SkillDefinition
from .grants import ToolGrant, resolve_denials, resolve_grants, resolve_only

__all__ = ["SkillRights"]

_ALWAYS = frozenset({"skill_read", "tool_search"})
"""Reading skills and looking for tools change nothing; a restriction leaves them."""
_PERSON = frozenset({Origin.USER, Origin.CLI})
_MODEL = frozenset({Origin.MODEL, Origin.SUB_AGENT})
_NEVER_EFFECTS = frozenset({Effect.PRIVILEGE, Effect.CONFIGURE, Effect.SPEND})
_NEVER_SCOPES = frozenset({Scope.SECRET, Scope.GEODE, Scope.SYSTEM, Scope.HOME, Scope.PROTECTED, Scope.PRIVATE_NET})


@dataclass(frozen=True, slots=True)
class _Active:
    skill: SkillDefinition
    allowed: tuple[ToolGrant, ...]
    only: tuple[ToolGrant, ...] | None
    denied: tuple[ToolGrant, ...]


def _any(_policy: str) -> bool:
    return True


class _Known(Protocol):
    """A `SkillRegistry` or a `SkillLibrary`."""

    def get(self, name: str) -> SkillDefinition | None: ...


class SkillRights:
    """Active skills by session. Satisfies `core.ports.Judge`.

    Args:
        registry: the skills in use, a registry or a library; one that was withdrawn or changed
            pre-approves nothing more.
        exists: whether a tool is installed, to resolve foreign names.
        liftable: whether a question of the policy with this name may be answered by a
            pre-approval; give only the names of default rules.
    """

    def __init__(
        self,
        registry: _Known,
        *,
        exists: Callable[[str], bool] | None = None,
        liftable: Callable[[str], bool] = _any,
    ) -> None:
        self._registry = registry
        self._exists = exists
        self._liftable = liftable
        self._active: dict[str, dict[str, _Active]] = {}
        self._foreign: dict[str, dict[str, str]] = {}
        self._invited: dict[str, frozenset[str]] = {}
        self._lock = threading.Lock()

    # ------------------------------------------------------------ activation

    def activate(self, session: str, skill: SkillDefinition) -> None:
        """The skill is active in the session from now on."""
        only = resolve_only(skill.tools) if skill.restricts else None
        record = _Active(
            skill,
            resolve_grants(skill.allowed_tools, self._exists)[0] if _may_pre_approve(skill) else (),
            only,
            resolve_denials(skill.denied_tools),
        )
        with self._lock:
            active = self._active.get(session, {})
            self._active = {**self._active, session: {**active, skill.name: record}}
            if skill.server:
                read = self._foreign.get(session, {})
                self._foreign = {**self._foreign, session: {**read, skill.name: skill.digest}}

    def invite(self, session: str, name: str) -> None:
        """The person named a skill that must still be read: until they speak again a model may activate it."""
        with self._lock:
            self._invited = {**self._invited, session: self._invited.get(session, frozenset()) | {name}}

    def may_activate(self, session: str, skill: SkillDefinition) -> bool:
        """Whether a model may activate it: it says so, or the person called it."""
        named = self._invited.get(session, frozenset()) | self._active.get(session, {}).keys()
        return skill.model_may_activate or skill.name in named

    def was_read(self, session: str, skill: SkillDefinition) -> bool:
        """Whether exactly this version of a server's skill was read in the session."""
        return self._foreign.get(session, {}).get(skill.name) == skill.digest

    def end(self, session: str) -> None:
        """The session is over: nothing of it is kept."""
        self.release(session)
        with self._lock:
            self._foreign = {s: names for s, names in self._foreign.items() if s != session}

    def release(self, session: str, name: str | None = None) -> None:
        """End one skill, or all, of a session."""
        with self._lock:
            left = {n: r for n, r in self._active.get(session, {}).items() if name is not None and n != name}
            self._active = {s: r for s, r in self._active.items() if s != session} | ({session: left} if left else {})
            if name is None:
                self._invited = {s: names for s, names in self._invited.items() if s != session}

    def active(self, session: str) -> list[str]:
        """Names of the skills that are active in a session, sorted."""
        return sorted(self._active.get(session, {}))

    # ------------------------------------------------------------ judging

    def restriction(self, call: Call, impacts: Iterable[Impact] = ()) -> TraceStep | None:
        """The denial of a call that an active skill does not leave open, or the question that a server's raises.

        None when there is neither. What the person does by hand is not restricted.

        Args:
            call: the call.
            impacts: what it would do.
        """
        if call.origin in _PERSON or call.tool in _ALWAYS:
            return None
        for name, record in sorted(self._active.get(call.session, {}).items()):
            if any(grant.forbids(call.tool, call.arguments) for grant in record.denied):
                return _denied(name, f"forbids {call.tool} while it is active")
            if record.only is not None and not _among(record.only, call, record.skill):
                allowed = ", ".join(record.skill.tools) or "none"
                return _denied(name, f"restricts tools while it is active; allowed: {allowed}")
        foreign = self._foreign.get(call.session)
        if foreign and any(i.kind is Effect.EXECUTE and i.scope is not Scope.SERVICE for i in impacts):
            name = min(foreign)
            why = f"the skill {name} of an MCP server was read in this conversation: running a program asks first"
            return TraceStep(f"skill:{name}", Decision.ASK, why)
        return None

    async def judge(self, call: Call, verdict: Verdict) -> Verdict:
        """Answer the policy's question with yes when an active skill pre-approves exactly this call."""
        if verdict.decision is not Decision.ASK or call.origin not in _MODEL or call.taint:
            return verdict
        asking = [step.policy for step in verdict.trace if step.verdict is Decision.ASK]
        if not all(self._liftable(policy) for policy in asking) or any(map(_beyond, verdict.impacts)):
            return verdict
        for name, record in sorted(self._active.get(call.session, {}).items()):
            grant = next((g for g in record.allowed if g.covers(call.tool, call.arguments)), None)
            if grant is not None and self._registry.get(name) == record.skill:
                step = TraceStep(f"skill:{name}", Decision.ALLOW, f"pre-approved by the skill {name}: {grant.written}")
                return replace(verdict, decision=Decision.ALLOW, trace=(*verdict.trace, step))
        return verdict


def _may_pre_approve(skill: SkillDefinition) -> bool:
    return skill.risk == "safe" and not skill.recovered and not skill.server


def _among(only: tuple[ToolGrant, ...], call: Call, skill: SkillDefinition) -> bool:
    if any(grant.covers(call.tool, call.arguments) for grant in only):
        return True
    # A skill that may run any command may run its own scripts.
    own = call.tool == "skill_run" and call.arguments.get("name") == skill.name
    return own and any(grant.pattern is None and "shell_exec" in grant.tools for grant in only)


def _denied(name: str, what: str) -> TraceStep:
    return TraceStep(f"skill:{name}", Decision.DENY, f"the skill {name} {what}")


def _beyond(impact: Impact) -> bool:
    return impact.kind in _NEVER_EFFECTS or impact.scope in _NEVER_SCOPES
