"""Small MCP servers to measure against: `python -m geode.bench.peers echo` and `… relay`.

Both use the official SDK as its documentation shows it, and nothing of Geode: `echo` returns its
text, `relay` passes every request on to an `echo` of its own.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import AsyncExitStack
from typing import Any

import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from mcp import Client, StdioServerParameters

__all__ = ["command"]

_ECHO = types.Tool(
    name="echo",
    description="Return the text.",
    input_schema={"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
)


def command(which: str) -> StdioServerParameters:
    """How to start one of them."""
    return StdioServerParameters(command=sys.executable, args=["-m", "geode.bench.peers", which])


def _echo() -> Server[Any]:
    async def list_tools(_ctx: Any, _params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[_ECHO])

    async def call_tool(_ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        text = str((params.arguments or {}).get("text", ""))
        return types.CallToolResult(content=[types.TextContent(type="text", text=text)])

    return Server("echo", on_list_tools=list_tools, on_call_tool=call_tool)


def _relay(behind: Client) -> Server[Any]:
    async def list_tools(_ctx: Any, _params: Any) -> types.ListToolsResult:
        return await behind.list_tools()

    async def call_tool(_ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        return await behind.call_tool(params.name, params.arguments)

    return Server("relay", on_list_tools=list_tools, on_call_tool=call_tool)


async def _serve(which: str) -> None:
    async with AsyncExitStack() as stack:
        server = _echo() if which == "echo" else _relay(await stack.enter_async_context(Client(command("echo"))))
        read, write = await stack.enter_async_context(stdio_server())
        await server.run(read, write, server.create_initialization_options())


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1]))
