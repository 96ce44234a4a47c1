"""The tools that are known without a database: built-ins, declared ones, and what servers offered last time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ..core.call import Call
from ..core.errors import GeodeError

if TYPE_CHECKING:
    from ..config.settings import Settings
    from ..tools.registry import ToolRegistry
    from ..tools.tool import ToolContext, ToolOutput

__all__ = ["known_tools"]


def known_tools(settings: Settings) -> ToolRegistry:
    """A registry for looking at: nothing is started, and nothing in it can run.

    Raises:
        ConfigError: the project's `.geode/tools.json` cannot be used (only when it is trusted).
    """
    from ..discovery import ToolSearch, tool_search_tool
    from ..packs import builtin_tools
    from ..packs.skills import skill_tools
    from ..skills.library import open_library
    from ..skills.rights import SkillRights
    from ..tools.definitions import load_definitions
    from ..tools.registry import ToolRegistry

    registry = ToolRegistry()
    search = tool_search_tool(ToolSearch(registry), registry, visible=_all_visible)
    library = open_library(settings.project, settings.home, trusted=settings.trusted)
    skills = skill_tools(library, SkillRights(library))
    registry.replace_source("builtin", [search, *builtin_tools(), *skills])
    if settings.trusted:
        registry.replace_source("definitions", load_definitions(settings.project))
    _add_servers(settings, registry)
    return registry


def _add_servers(settings: Settings, registry: ToolRegistry) -> None:
    from ..mcp import snapshot
    from ..mcp.config import load_servers
    from ..mcp.source import build_tools

    for config in load_servers(settings.project, settings.home).servers.values():
        known = snapshot.load(settings.home, config)
        if known is not None and config.enabled and (config.scope == "user" or settings.trusted):
            registry.replace_source(f"mcp:{config.name}", build_tools(config, known.tools, _refuse).tools)


def _all_visible(_call: Call) -> Callable[[str], bool]:
    def may_see(_name: str) -> bool:
        return True

    return may_see


async def _refuse(_server: str, tool: str, _arguments: Mapping[str, Any], _context: ToolContext) -> ToolOutput:
    raise GeodeError(f"{tool} cannot be run from a catalogue", fix="use geode tools call")
