"""Small tools for the tests of this folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from geode.core.call import Call
from geode.core.effects import Effect, Origin
from geode.core.ports import HttpRequest, HttpResponse, ProcessOutcome, ProcessSpec
from geode.tools.tool import FunctionTool, ToolContext, ToolSpec, raw_callable

EMPTY: dict[str, Any] = {"type": "object", "properties": {}}


def make_tool(name: str, schema: Any = None, *, description: str = "Does a thing.", **fields: Any) -> FunctionTool:
    async def run(_context: Any, arguments: Mapping[str, Any]) -> Any:
        return {"got": dict(arguments)}

    spec = ToolSpec(name=name, description=description, parameters=EMPTY if schema is None else schema, **fields)
    return FunctionTool(spec, run)


def obj(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


class Folder:
    """The part of `Workspace` that declared tools look at."""

    def __init__(self, root: Path) -> None:
        self.root = root


class RecordingRunner:
    """A `ProcessRunner` that remembers what it was asked and gives a prepared answer."""

    def __init__(self, answer: ProcessOutcome) -> None:
        self.answer = answer
        self.asked: list[ProcessSpec] = []

    async def run(self, spec: ProcessSpec) -> ProcessOutcome:
        self.asked.append(spec)
        return self.answer


class RecordingHttp:
    def __init__(self, answer: HttpResponse) -> None:
        self.answer = answer
        self.asked: list[HttpRequest] = []

    async def send(self, request: HttpRequest) -> HttpResponse:
        self.asked.append(request)
        return self.answer


def context(root: Path, **ports: Any) -> ToolContext:
    call = Call(tool="t", arguments={}, origin=Origin.CLI, cwd=root)
    folder: Any = Folder(root)
    return ToolContext(call=call, workspace=folder, progress=lambda _text, _part: None, **ports)


async def run_raw(tool: FunctionTool, ctx: Any, arguments: Mapping[str, Any]) -> Any:
    """The unguarded function: what the gate would run after its checks."""
    return await raw_callable(tool)(ctx, arguments)


READ = frozenset({Effect.READ})
