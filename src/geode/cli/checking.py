"""Verdicts without a runtime: what would the gate say, without a database and without running anything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core.call import Call, Decision, TraceStep, Verdict
from ..core.effects import Effect, Impact, Origin, Scope
from ..core.errors import UnknownTool

if TYPE_CHECKING:
    from ..config.settings import Settings
    from ..containment.paths import BeneathWorkspace
    from ..policy.engine import PolicyEngine
    from ..tools.registry import ToolEntry

__all__ = ["check_call", "check_command"]


def check_call(
    policy: PolicyEngine,
    settings: Settings,
    *,
    tool: str,
    arguments: Mapping[str, Any] | None,
    mode: str,
    node: str | None,
    user: str,
    requested: frozenset[str],
) -> Verdict:
    """What the policies say about one call, installed or not.

    Args:
        tool: name; a tool that is not installed is judged by its name alone.
        arguments: the call's arguments; None judges the declared effects on the workspace.
        mode: an unknown mode denies.
        node: pipeline node, or None.
        user: principal.
        requested: tools the person asked for explicitly.

    Raises:
        InvalidArguments: the arguments do not satisfy the tool's schema.
    """
    from ..policy.engine import Question

    call = Call(
        tool=tool,
        arguments=arguments or {},
        origin=Origin.CLI,
        cwd=settings.project,
        principal=user,
        mode=mode,
        node=node,
        requested=requested,
    )
    question = Question(
        tool=tool,
        mode=mode,
        node=node,
        user=user,
        origin=Origin.CLI,
        requested=requested,
        taint=frozenset(),
        source="",
        impacts=None,
    )
    by_name = policy.evaluate(question)
    if by_name.decision is Decision.DENY:
        return by_name
    return _with_effects(call, policy, settings, by_name, question, given=arguments is not None)


def _with_effects(
    call: Call, policy: PolicyEngine, settings: Settings, by_name: Verdict, question: Any, *, given: bool
) -> Verdict:
    from ..gate.resolve import resolve
    from .catalogue import known_tools

    registry = known_tools(settings)
    workspace = workspace_of(settings)
    if given:
        resolved = resolve(call, registry, policy, workspace)
        if isinstance(resolved.error, UnknownTool):
            return _noted(by_name, "look-up", f"{call.tool} is not installed: judged by its name alone")
        if resolved.error is not None:
            raise resolved.error
        return resolved.verdict
    try:
        entry = registry.entry(call.tool)
    except UnknownTool:
        return _noted(by_name, "look-up", f"{call.tool} is not installed: judged by its name alone")
    verdict = policy.evaluate(replace(question, source=entry.source, impacts=_declared(entry)))
    return _noted(verdict, "arguments", "not given: judged for paths inside the workspace; see --args")


_USUAL = {
    Effect.READ: Scope.WORKSPACE,
    Effect.WRITE: Scope.WORKSPACE,
    Effect.DELETE: Scope.WORKSPACE,
    Effect.NETWORK: Scope.INTERNET,
    Effect.SPEND: Scope.SERVICE,
    Effect.COMMUNICATE: Scope.SERVICE,
    Effect.SPAWN: Scope.SANDBOX,
    Effect.CONFIGURE: Scope.GEODE,
}


def _declared(entry: ToolEntry) -> tuple[Impact, ...]:
    """The declared effects where a call usually has them; undeclared ones count as unknown execution."""
    spec = entry.spec
    if spec.effects is None:
        scope = Scope.SERVICE if spec.server else Scope.UNKNOWN
        return (Impact(Effect.EXECUTE, f"{spec.name} (effects not declared)", scope),)
    return tuple(Impact(e, spec.name, _USUAL.get(e, Scope.UNKNOWN)) for e in sorted(spec.effects))


def _noted(verdict: Verdict, policy: str, reason: str) -> Verdict:
    """The verdict with a remark at the end of its trace; the decision stays."""
    return replace(verdict, trace=(*verdict.trace, TraceStep(policy, Decision.ALLOW, reason)))


def workspace_of(settings: Settings) -> BeneathWorkspace:
    """The guarded view of the project that tells scopes."""
    from ..containment.paths import BeneathWorkspace

    return BeneathWorkspace(settings.project, home=Path.home(), geode_home=settings.home)


def check_command(
    policy: PolicyEngine, settings: Settings, *, command: str, mode: str, node: str | None
) -> dict[str, Any]:
    """What the policies say about one shell command: `verdict`, `effects`, `argv`, `reason`."""
    from ..analysis.command import analyse

    workspace = workspace_of(settings)
    found = analyse(command, str(workspace.root), str(Path.home()), workspace.scope)
    verdict = check_call(
        policy,
        settings,
        tool="shell_exec",
        arguments={"command": command},
        mode=mode,
        node=node,
        user="",
        requested=settings.allow,
    )
    return {
        "command": command,
        "mode": mode,
        "argv": [list(words) for words in found.argv],
        "understood": found.understood,
        "analysis": found.reason,
        **verdict.to_json(),
    }
