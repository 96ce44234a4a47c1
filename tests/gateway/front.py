"""A gateway program over a small gate of the tests: `front.py stdio|http EXPOSE [HOME PROJECT]`.

The gate here only runs, refuses `forbidden` and asks for `ask_me`; the real one has its own tests.
"""

import asyncio
import hashlib
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from geode.core.call import Call
from geode.core.effects import Effect
from geode.core.errors import GeodeError, InvalidArguments
from geode.core.events import CallProgress
from geode.core.messages import Image, SideEffects, Status, Structured, Text, ToolResult
from geode.gateway.http import serve_http
from geode.gateway.parts import GatewayParts
from geode.gateway.stdio import serve_stdio
from geode.mcp.hub import Hub
from geode.tools.registry import ToolRegistry
from geode.tools.tool import ToolContext, ToolOutput, raw_callable, tool


@tool(effects=())
def add(a: int, b: int) -> dict[str, int]:
    """Add two whole numbers."""
    return {"sum": a + b}


@tool(effects=())
async def slow(ctx: ToolContext, seconds: float, marker: str = "") -> str:
    """Take some time and report progress."""
    try:
        for step in range(5):
            ctx.progress(f"step {step}", step / 5)
            await asyncio.sleep(seconds / 5)
    except asyncio.CancelledError:
        await asyncio.sleep(0.05)  # what a gate does: end processes, record the outcome
        Path(marker).write_text("cancelled and recorded")
        raise
    return "done"


@tool(effects=())
def who(ctx: ToolContext) -> dict[str, str]:
    """Say who is calling."""
    return {"session": ctx.call.session, "principal": ctx.call.principal, "origin": ctx.call.origin.value}


@tool(effects=())
def child_reads_stdin() -> str:
    """Start a child process that reads its standard input to the end."""
    code = "import sys; print(len(sys.stdin.read()))"
    print("a stray line on stdout")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=20)
    return done.stdout.strip()


@tool(effects=())
def picture() -> ToolOutput:
    """Return a picture."""
    return ToolOutput(content=[Text("look"), Image("aGVsbG8=", "image/png")], structured=[1, 2])


@tool(effects={Effect.WRITE})
def ask_me(what: Annotated[str, Field(max_length=100)]) -> str:
    """Do something a person must allow."""
    return f"did {what}"


@tool(effects=())
def forbidden() -> str:
    """Do what is never allowed."""
    return "!"


@tool(effects=())
def grow(ctx: ToolContext) -> str:
    """Register one more tool."""
    registry.register(forbidden.with_spec(name="grown", description=ctx.call.id), replace=True)
    return "grown"


registry = ToolRegistry()


class TinyGate:
    """Runs tools; asks for `ask_me`, denies `forbidden`."""

    def __init__(self) -> None:
        self.pending: dict[str, str] = {}
        self.allowed: set[str] = set()
        self.sinks: list[Any] = []

    def subscribe(self, sink: Any) -> Any:
        self.sinks.append(sink)
        return lambda: self.sinks.remove(sink)

    async def told(self, approval_id: str) -> None:
        return None

    async def answer(self, approval_id: str, approved: bool, by: str, reason: str = "") -> None:
        digest = self.pending.pop(approval_id)
        if approved:
            self.allowed.add(digest)

    async def call(self, call: Call) -> ToolResult:
        def end(status: Status, *blocks: Any, **more: Any) -> ToolResult:
            return ToolResult(call_id=call.id, tool=call.tool, status=status, content=blocks, **more)

        if call.tool == "forbidden":
            return end(Status.DENIED, Text("Denied: never. You may use add."), error_code="denied")
        if call.tool == "ask_me" and call.digest() not in self.allowed:
            approval = hashlib.sha256(call.id.encode()).hexdigest()[:8]
            self.pending[approval] = call.digest()
            text = Text(f"needs approval; geode approvals approve {approval}")
            return end(Status.NEEDS_APPROVAL, text, details={"approval_id": approval}, error_code="needs_approval")
        self.allowed.discard(call.digest())
        try:
            entry = registry.entry(call.tool)
            checked = entry.validator.check(call.arguments)
            context = ToolContext(
                call=call,
                workspace=None,  # type: ignore[arg-type]
                progress=lambda m, f: [s(CallProgress(call, m, f)) for s in self.sinks] and None,
            )
            value = await raw_callable(entry.tool)(context, checked.arguments)
        except InvalidArguments as error:
            return end(Status.ERROR, Text(f"{error.message} {error.problems}"), error_code=error.code)
        except GeodeError as error:
            return end(Status.ERROR, Text(f"Error: {error.message}\n{error.fix}"), error_code=error.code)
        if isinstance(value, ToolOutput):
            content = (Text(value.content),) if isinstance(value.content, str) else tuple(value.content)
            status = Status.ERROR if value.failed else Status.OK
            return end(status, *content, structured=value.structured, side_effects=SideEffects.UNKNOWN)
        if isinstance(value, str):
            return end(Status.OK, Text(value))
        return end(Status.OK, Structured(value), structured=value)


class Settings:
    project: Path
    home: Path


class Trusting:
    def state(self, project: Path) -> str:
        return "trusted"


async def main(front: str, expose: Any, home: str = "", project: str = "") -> None:
    gate = TinyGate()
    registry.replace_source("builtin", [add, slow, who, child_reads_stdin, picture, ask_me, forbidden, grow])
    hub = None
    if home:
        settings = Settings()
        settings.home, settings.project = Path(home), Path(project)
        hub = Hub(settings, Trusting(), registry)
        await hub.start()
    parts = GatewayParts(
        registry=registry, caller=gate, cwd=Path.cwd(), hub=hub, approvals=gate, subscribe=gate.subscribe
    )
    try:
        if front == "stdio":
            await serve_stdio(parts, expose)
        else:
            await serve_http(parts, expose=expose, ready=lambda url: print(url, flush=True))
    finally:
        if hub is not None:
            await hub.stop()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
