"""Geode: one registry, one search, one gate and one record for the tools of an LLM agent.

The public names are loaded when they are first used, so that `import geode` costs nothing:

    from geode import GeodeRuntime, tool
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .agent.loop import AgenticLoop, Limits, Outcome
    from .core.call import Call, Decision, Verdict
    from .core.effects import Effect, Impact, Origin, Scope
    from .core.errors import GeodeError
    from .core.messages import ToolResult
    from .core.ports import ApprovalAnswer, ApprovalRequest, Approver
    from .gate.gate import Gate
    from .models.model import Model
    from .models.scripted import ScriptedModel
    from .policy.chain import PolicyAuditResult, PolicyChain, ToolPolicy
    from .policy.scopes import NODE_TOOL_ALLOWLISTS, NodeScopePolicy
    from .runtime import GeodeRuntime
    from .skills.document import SkillDefinition
    from .skills.loader import SkillLoader
    from .skills.registry import SkillRegistry
    from .tools.registry import ToolRegistry
    from .tools.tool import Tool, ToolContext, ToolOutput, tool

__all__ = [
    "NODE_TOOL_ALLOWLISTS",
    "AgenticLoop",
    "ApprovalAnswer",
    "ApprovalRequest",
    "Approver",
    "Call",
    "Decision",
    "Effect",
    "Gate",
    "GeodeError",
    "GeodeRuntime",
    "Impact",
    "Limits",
    "Model",
    "NodeScopePolicy",
    "Origin",
    "Outcome",
    "PolicyAuditResult",
    "PolicyChain",
    "Scope",
    "ScriptedModel",
    "SkillDefinition",
    "SkillLoader",
    "SkillRegistry",
    "Tool",
    "ToolContext",
    "ToolOutput",
    "ToolPolicy",
    "ToolRegistry",
    "ToolResult",
    "Verdict",
    "tool",
]

_HOMES = {
    "agent.loop": ("AgenticLoop", "Limits", "Outcome"),
    "core.call": ("Call", "Decision", "Verdict"),
    "core.effects": ("Effect", "Impact", "Origin", "Scope"),
    "core.errors": ("GeodeError",),
    "core.messages": ("ToolResult",),
    "core.ports": ("ApprovalAnswer", "ApprovalRequest", "Approver"),
    "gate.gate": ("Gate",),
    "models.model": ("Model",),
    "models.scripted": ("ScriptedModel",),
    "policy.chain": ("PolicyAuditResult", "PolicyChain", "ToolPolicy"),
    "policy.scopes": ("NODE_TOOL_ALLOWLISTS", "NodeScopePolicy"),
    "runtime": ("GeodeRuntime",),
    "skills.document": ("SkillDefinition",),
    "skills.loader": ("SkillLoader",),
    "skills.registry": ("SkillRegistry",),
    "tools.registry": ("ToolRegistry",),
    "tools.tool": ("Tool", "ToolContext", "ToolOutput", "tool"),
}
"""Module -> its public names."""


def __getattr__(name: str) -> Any:
    """Load the module of a public name (PEP 562)."""
    for home, names in _HOMES.items():
        if name in names:
            value = globals()[name] = getattr(import_module(f".{home}", __name__), name)
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
