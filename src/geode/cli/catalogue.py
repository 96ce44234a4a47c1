"""The tools that are known without a database: built-ins, declared ones, and what servers offered last time."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..config.settings import Settings
    from ..tools.registry import ToolRegistry

__all__ = ["known_tools"]


def known_tools(settings: Settings) -> ToolRegistry:
    """A registry of the built-in tools; nothing is started and nothing can be run from it."""
    from ..packs import builtin_tools
    from ..tools.registry import ToolRegistry

    registry = ToolRegistry()
    for tool in builtin_tools():
        registry.register(tool, source="builtin")
    return registry
