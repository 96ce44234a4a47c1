"""From a call to what it would do: policy by name, look-up, validation, impacts, verdict.

Policy is evaluated before the tool is looked up, so a denied name is denied whether or
not it is installed, and again with the resolved effects.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ..analysis.command import analyse
from ..core.call import Call, Decision, TraceStep, Verdict
from ..core.effects import Effect, Impact, Scope
from ..core.errors import GeodeError, InvalidArguments, UnknownTool
from ..core.messages import clean_json
from ..core.ports import Workspace
from ..policy.engine import PolicyEngine, Question
from ..tools.registry import ToolEntry, ToolRegistry
from ..tools.tool import ToolSpec, Touch

__all__ = ["Resolved", "impacts_of", "judge", "resolve"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """A call with everything known about it before anybody is asked.

    Attributes:
        call: the call; name and arguments as they would be executed.
        entry: the registry entry, or None when policy denied the name or nothing has it.
        verdict: what the policies say; a denial needs no entry.
        notes: normalisations that were made, for the result.
        error: the reason why the call cannot run although no policy forbids it.
    """

    call: Call
    entry: ToolEntry | None
    verdict: Verdict
    notes: tuple[str, ...] = ()
    error: GeodeError | None = None

    @property
    def digest(self) -> str:
        """Digest of exactly what would run, the tool's definition included; computed anew each time."""
        if self.entry is None:
            return self.call.digest()
        binds = self.entry.spec.binds
        about = binds(self.call.arguments) if binds is not None else ""
        return self.call.digest(f"{self.entry.digest} {about}".rstrip())


def resolve(call: Call, registry: ToolRegistry, policy: PolicyEngine, workspace: Workspace) -> Resolved:
    """Work out what `call` is and what the policies say about it. Never raises for a bad call."""
    call = replace(call, arguments=clean_json(call.arguments))
    by_name = policy.evaluate(Question.of(call))
    if by_name.decision is Decision.DENY:
        return Resolved(call=call, entry=None, verdict=by_name)
    notes: list[str] = []
    try:
        entry = registry.entry(call.tool)
    except UnknownTool as unknown:
        name = registry.resolve_name(call.tool)
        if name is None:
            return Resolved(call=call, entry=None, verdict=by_name, error=unknown)
        notes.append(f"{call.tool!r} was taken as {name!r}")
        call = replace(call, tool=name)
        by_name = policy.evaluate(Question.of(call))
        if by_name.decision is Decision.DENY:
            return Resolved(call=call, entry=None, verdict=by_name, notes=tuple(notes))
        entry = registry.entry(name)
    if entry.status != "active":
        why = UnknownTool(entry.name, why=f"{entry.name} is {entry.status}: {entry.reason}")
        return Resolved(call=call, entry=entry, verdict=by_name, notes=tuple(notes), error=why)
    try:
        checked = entry.validator.check(call.arguments)
    except InvalidArguments as invalid:
        return Resolved(call=call, entry=entry, verdict=by_name, notes=tuple(notes), error=invalid)
    notes += checked.notes
    call = replace(call, arguments=checked.arguments)
    verdict = judge(call, entry, policy, workspace)
    return Resolved(call=call, entry=entry, verdict=verdict, notes=tuple(notes))


def judge(call: Call, entry: ToolEntry, policy: PolicyEngine, workspace: Workspace) -> Verdict:
    """All policies on a call whose tool and arguments are known; effects that cannot be told deny."""
    try:
        impacts = impacts_of(entry.spec, call.arguments, workspace)
    except Exception as error:  # a tool's own `touches` is foreign code: a failure must not let the call through
        step = TraceStep("effects", Decision.DENY, f"the effects of {entry.name} cannot be told: {error}")
        return Verdict(Decision.DENY, (step,))
    return policy.evaluate(Question.of(call, source=entry.source, impacts=impacts))


def _without_target(name: str, effect: Effect, scope: Scope) -> str:
    """What stands for the target of an effect that the tool declares without saying on what."""
    if scope is not Scope.UNKNOWN:
        return name
    return f"{name} ({effect.value}, but its declaration does not say of what: touches=)"


_WITHOUT_TARGET = {
    Effect.READ: Scope.WORKSPACE,
    Effect.SPEND: Scope.SERVICE,
    Effect.COMMUNICATE: Scope.SERVICE,
    Effect.SPAWN: Scope.SANDBOX,
    Effect.CONFIGURE: Scope.GEODE,
}
"""Scope of a declared effect of which the tool names no target; all others are UNKNOWN."""


def impacts_of(spec: ToolSpec, arguments: Mapping[str, Any], workspace: Workspace) -> tuple[Impact, ...]:
    """The effects of one call with their targets and scopes.

    Undeclared effects come out as one execution in an unknown scope (SERVICE for a tool of an
    MCP server), which no default rule allows.
    """
    if spec.effects is None and spec.touches is None:
        scope = Scope.SERVICE if spec.server else Scope.UNKNOWN
        return (Impact(Effect.EXECUTE, f"{spec.name} (effects not declared)", scope),)
    impacts: list[Impact] = []
    for touch in spec.touches(arguments) if spec.touches else ():
        impacts += _impacts_of_touch(touch, workspace)
    named = {i.kind for i in impacts}
    if not any(i.kind is Effect.EXECUTE for i in impacts):
        for effect in sorted((spec.effects or frozenset()) - named):
            outside = Scope.SERVICE if spec.server else _WITHOUT_TARGET.get(effect, Scope.UNKNOWN)
            impacts.append(Impact(effect, _without_target(spec.name, effect, outside), outside))
    return tuple(dict.fromkeys(impacts))


def _impacts_of_touch(touch: Touch, workspace: Workspace) -> list[Impact]:
    match touch.kind:
        case "path":
            return [Impact(touch.effect, _real(touch.target, workspace), workspace.scope(touch.target))]
        case "url":
            return [Impact(touch.effect, touch.target, host_scope(touch.target))]
        case "command":
            return list(analyse(touch.target, str(workspace.root), str(Path.home()), workspace.scope).impacts)
        case "sandbox":
            return [Impact(touch.effect, touch.target, Scope.SANDBOX)]
        case "service":
            return [Impact(touch.effect, touch.target, Scope.SERVICE)]
        case _:
            return [Impact(touch.effect, touch.target, Scope.UNKNOWN)]


def _real(path: str, workspace: Workspace) -> str:
    """The absolute path a rule is matched against, symbolic links followed; other targets come back unchanged."""
    if path.startswith("result:"):
        return path
    if path == "~" or path.startswith(("~/", "~\\")):  # as the workspace reads it, or a rule could be walked around
        path = os.path.join(Path.home(), path[2:])
    return os.path.realpath(os.path.join(workspace.root, path))


def host_scope(url: str) -> Scope:
    """Scope of a URL's host as it is written; the egress guard checks the resolved address again."""
    try:
        host = (urlsplit(url).hostname or "").rstrip(".")
    except ValueError:
        return Scope.UNKNOWN
    if host == "localhost" or host.endswith(".localhost"):
        return Scope.LOOPBACK
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return Scope.INTERNET if host else Scope.UNKNOWN
    if address.is_loopback:
        return Scope.LOOPBACK
    return Scope.INTERNET if address.is_global else Scope.PRIVATE_NET
