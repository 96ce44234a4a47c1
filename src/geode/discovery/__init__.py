"""Find the right tool by need: `ToolSearch` over a registry, and the `tool_search` tool made of it."""

from .search import Hit, SearchAnswer, ToolSearch
from .tool import tool_search_tool

__all__ = ["Hit", "SearchAnswer", "ToolSearch", "tool_search_tool"]
