"""`tool_search`: the resident tool through which an agent finds all the others."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Annotated, Any

from pydantic import Field

from ..core.call import Call
from ..tools.registry import ToolRegistry
from ..tools.tool import FunctionTool, ToolContext, ToolOutput, tool
from .search import SearchAnswer, ToolSearch

__all__ = ["render_answer", "tool_search_tool"]


def tool_search_tool(
    search: ToolSearch, registry: ToolRegistry, *, visible: Callable[[Call], Callable[[str], bool]]
) -> FunctionTool:
    """Make the `tool_search` tool.

    Args:
        search: finds.
        registry: gives the schemas of what was found.
        visible: for a call, which tool names its caller may use; others are not shown.
    """

    @tool(
        effects=(),
        category="meta",
        timeout=10,
        examples=[{"query": "read the tables of a PDF report"}, {"query": "select:read_file,grep_file"}],
    )
    async def tool_search(
        ctx: ToolContext,
        query: Annotated[str, Field(min_length=1, max_length=1_000)],
        limit: Annotated[int, Field(ge=1, le=10)] = 5,
    ) -> ToolOutput:
        """Find tools by what you need to do, in plain words; returns up to `limit` tools with their full schemas.

        Use it whenever the tools you have do not fit the next step, as often as needed. It searches
        names, descriptions and parameters of all tools, connected servers included; it does not run
        anything. When nothing fits it says so and what to do instead. Cheap: a few milliseconds, and
        only the schemas of what is found.

        Args:
            query: The need: what goes in and what should come out, e.g. "find text in source files with
                line numbers". `select:NAME` (or `select:A,B`) returns exactly the named tools.
            limit: The most tools to return.
        """
        answer = search.search(query, limit, visible=visible(ctx.call))
        found = [_full(registry, name) for name in (h.name for h in answer.results)]
        return ToolOutput(content=render_answer(answer, found), structured=answer.to_json() | {"tools": found})

    return tool_search


def _full(registry: ToolRegistry, name: str) -> dict[str, Any]:
    spec = registry.entry(name).spec
    return {"name": name, "description": spec.description, "parameters": dict(spec.parameters)}


def render_answer(answer: SearchAnswer, found: list[dict[str, Any]]) -> str:
    """The answer as a model reads it: reason or tools, each with band, description and schema."""
    if answer.not_found:
        return answer.reason
    parts = [f"{len(found)} of {answer.searched} tools fit:"]
    for hit, full in zip(answer.results, found, strict=True):
        where = f" (server {hit.server})" if hit.server else ""
        schema = json.dumps(full["parameters"], ensure_ascii=False, separators=(",", ":"))
        parts.append(f"## {hit.name}{where} · {hit.band}\n{full['description']}\nArguments: {schema}")
    return "\n\n".join(parts)
