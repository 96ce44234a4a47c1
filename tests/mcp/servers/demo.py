"""A well-behaved server made with the official SDK: both eras, tools of every result shape."""

import asyncio
import os
import subprocess
import sys

import mcp_types as types
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
TOOLS = {
    "add": ("Add two numbers.", {"a": {"type": "number"}, "b": {"type": "number"}}),
    "count": ("Add one to a counter kept in this process and return it.", {}),
    "echo": ("Return the arguments as structured content.", {"value": {}}),
    "picture": ("Return a text, a picture and the same picture again in structured content.", {}),
    "resource": ("Return an embedded text resource and a link.", {}),
    "fail": ("Report an error.", {"text": {"type": "string"}}),
    "empty": ("Return nothing at all.", {}),
    "slow": ("Report progress for some seconds.", {"seconds": {"type": "number"}}),
    "unlock": ("Offer the tool `secret` from now on.", {}),
    "lock": ("Withdraw the tool `secret`.", {}),
    "die": ("End this process in the middle of the call.", {"how": {"type": "string"}}),
    "flood": ("Write 256 KB to stderr, then answer.", {"newlines": {"type": "boolean"}}),
    "spawn": ("Start a child that lives for ever.", {"detach": {"type": "boolean"}}),
    "env": ("Return an environment variable.", {"name": {"type": "string"}}),
    "pid": ("Return the process id.", {}),
}
OUTPUT = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
bus = InMemorySubscriptionBus()
state = {"count": 0, "secret": False, "cancelled": 0}
marker = os.environ.get("DEMO_MARKER", "")


def listed() -> list[types.Tool]:
    tools = [
        types.Tool(name=n, description=d, input_schema={"type": "object", "properties": p})
        for n, (d, p) in TOOLS.items()
    ]
    tools += [
        types.Tool(name=f"out_{k}", description="R58.", input_schema={"type": "object"}, output_schema=OUTPUT)
        for k in ("both", "text", "wrong", "error")
    ]
    if state["secret"]:
        tools.append(types.Tool(name="secret", description="Tell the secret word.", input_schema={"type": "object"}))
    return tools


async def on_list(ctx, params):
    return types.ListToolsResult(tools=listed())


def text(value: str, **more) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=value)], **more)


async def changed(ctx):
    await bus.publish(ToolsListChanged())
    await ctx.session.send_notification(types.ToolListChangedNotification())


async def on_call(ctx, params):
    name, args = params.name, params.arguments or {}
    if name == "add":
        return text(str(args["a"] + args["b"]), structured_content={"sum": args["a"] + args["b"]})
    if name == "count":
        state["count"] += 1
        return text(str(state["count"]))
    if name == "echo":
        return types.CallToolResult(content=[], structured_content=args)
    if name == "picture":
        return types.CallToolResult(
            content=[types.TextContent(text="here"), types.ImageContent(data=PNG, mime_type="image/png")],
            structured_content={"again": PNG, "n": 1},
        )
    if name == "resource":
        return types.CallToolResult(
            content=[
                types.EmbeddedResource(resource=types.TextResourceContents(uri="demo://a", text="inside")),
                types.ResourceLink(uri="demo://b", name="b", mime_type="text/plain"),
            ]
        )
    if name == "fail":
        return types.CallToolResult(
            content=[types.TextContent(text=args["text"])] if args.get("text") else [], is_error=True
        )
    if name == "empty":
        return types.CallToolResult(content=[])
    if name == "slow":
        try:
            for i in range(10):
                await ctx.session.report_progress(i / 10, 1.0, f"step {i}")
                await asyncio.sleep(args["seconds"] / 10)
        except asyncio.CancelledError:
            state["cancelled"] += 1
            if marker:
                with open(marker, "a") as file:
                    file.write("cancelled\n")
            raise
        return text("done")
    if name in ("unlock", "lock"):
        state["secret"] = name == "unlock"
        await changed(ctx)
        return text("ok")
    if name == "secret":
        return text("swordfish")
    if name == "die":
        print("about to die", file=sys.stderr, flush=True)
        os._exit(7) if args.get("how") != "signal" else os.kill(os.getpid(), 9)
    if name == "flood":
        data = ("x" * 79 + ("\n" if args.get("newlines") else "y")) * 3277
        sys.stderr.write(data)
        sys.stderr.flush()
        return text("answered")
    if name == "spawn":
        child = subprocess.Popen(["sleep", "600"], start_new_session=bool(args.get("detach")))
        return text(str(child.pid))
    if name == "env":
        return text(os.environ.get(args["name"], "(unset)"))
    if name == "pid":
        return text(str(os.getpid()))
    if name == "out_both":
        return text("n is 1", structured_content={"n": 1})
    if name == "out_text":
        return text("n is 1")
    if name == "out_wrong":
        return text("n is x", structured_content={"n": "x"})
    if name == "out_error":
        return text("no such project", is_error=True)
    return text(f"unknown tool {name}", is_error=True)


server = Server(
    "demo",
    version="1.0",
    instructions="A demo.",
    on_list_tools=on_list,
    on_call_tool=on_call,
    on_subscriptions_listen=ListenHandler(bus),
)


async def main() -> None:
    if marker:
        with open(marker, "a") as file:
            file.write(f"{os.getpid()}\n")
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options(NotificationOptions(tools_changed=True)))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        import uvicorn

        uvicorn.run(server.streamable_http_app(), host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
    else:
        asyncio.run(main())
