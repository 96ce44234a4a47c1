"""One call over one connection, and every way in which it can go wrong."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from ..core.errors import ToolTimeout
from ..core.messages import SideEffects, Text
from ..tools.tool import ToolContext, ToolOutput, ToolSpec
from .server_task import ServerTask
from .source import to_output

__all__ = ["call_once"]

_RELIST_SECONDS = 2.0


async def call_once(
    task: ServerTask,
    spec: ToolSpec,
    arguments: Mapping[str, Any],
    context: ToolContext,
    *,
    redact: Callable[[str], str],
    last: bool,
) -> ToolOutput | None:
    """Run a tool; None when the server had forgotten our session before it looked at the call (case R49).

    Args:
        task: a connection that is ready.
        spec: of the tool, as registered.
        redact: applied to texts of the server that end up in an error.
        last: no further try follows.

    Raises:
        ToolTimeout: no answer within the server's call_timeout; it was told to stop.
    """
    from mcp.shared.exceptions import MCPError

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        context.progress(message or "", min(1.0, progress / total) if total else None)

    connection = await task.ready()
    limit = task.config.call_timeout
    began = time.monotonic()
    task.calls += 1
    task.used = True
    try:
        result = await connection.call_tool(
            spec.original_name, arguments, schema=spec.parameters, timeout=limit, on_progress=on_progress
        )
    except MCPError as error:
        if getattr(task.link, "session_lost", False) and not last:
            return None
        return await _failed(task, spec, error, redact, late=time.monotonic() - began > limit * 0.98)
    finally:
        task.calls -= 1
        task.last_used = time.monotonic()
    await task.fresh(_RELIST_SECONDS)
    if result.get("resultType") == "input_required":
        text = "The server asks for input from a person before it goes on; Geode cannot pass that on yet."
        return _failure(spec, text)
    return to_output(result, spec.output_schema)


async def _failed(
    task: ServerTask, spec: ToolSpec, error: Any, redact: Callable[[str], str], *, late: bool
) -> ToolOutput:
    from mcp_types import CONNECTION_CLOSED, INVALID_PARAMS, METHOD_NOT_FOUND, REQUEST_TIMEOUT

    name, tool = task.config.name, spec.original_name
    closed = task.link is None or task.link.closed.is_set()
    if error.code == CONNECTION_CLOSED and closed:  # servers use the same code for other things
        why = redact(await task.why_closed())
        return _failure(spec, f"MCP server {name!r} ended during the call of {tool!r}: {why}. It was not repeated.")
    if error.code == REQUEST_TIMEOUT and late:  # and this one
        raise ToolTimeout(
            f"MCP server {name!r} did not answer {tool!r} within {task.config.call_timeout:g} s; it was told to stop",
            fix="ask for less at a time, or raise call_timeout in its entry",
        )
    text = f"MCP server {name!r} answered {tool!r} with an error: {redact(error.message)} (code {error.code})"
    return _failure(spec, text, refused=error.code in (INVALID_PARAMS, METHOD_NOT_FOUND))


def _failure(spec: ToolSpec, text: str, *, refused: bool = False) -> ToolOutput:
    """A failed result. Whether the world has changed is not known, unless the server refused or only reads."""
    nothing = refused or spec.read_only
    return ToolOutput(
        content=[Text(text)], failed=True, side_effects=SideEffects.NONE if nothing else SideEffects.UNKNOWN
    )
