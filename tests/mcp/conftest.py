"""What the tests of MCP servers share: a project, a hub over the real registry, and a context."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from geode.core.call import Call
from geode.core.effects import Origin
from geode.mcp.hub import Hub
from geode.tools.registry import ToolRegistry
from geode.tools.tool import ToolContext, ToolOutput, raw_callable

SERVERS = Path(__file__).with_name("servers")


@dataclass
class Settings:
    project: Path
    home: Path


@dataclass
class Trusting:
    answer: str = "trusted"

    def state(self, project: Path) -> str:
        return self.answer


@dataclass
class Bench:
    """A project with servers, and a hub over the real registry."""

    project: Path
    home: Path
    trust: Trusting = field(default_factory=Trusting)
    environ: dict[str, str] = field(default_factory=dict)
    registry: ToolRegistry = field(default_factory=ToolRegistry)
    events: list[Any] = field(default_factory=list)

    def declare(
        self, name: str = "demo", script: str = "demo.py", *args: str, scope: str = "user", **more: Any
    ) -> None:
        path = self.home / "mcp.json" if scope == "user" else self.project / ".geode" / "mcp.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        document = json.loads(path.read_text()) if path.exists() else {"mcpServers": {}}
        entry = more if "url" in more else {"command": sys.executable, "args": [str(SERVERS / script), *args], **more}
        document["mcpServers"][name] = entry
        path.write_text(json.dumps(document))

    def hub(self) -> Hub:
        import os

        environ = {**os.environ, **self.environ}
        return Hub(Settings(self.project, self.home), self.trust, self.registry, self.events.append, environ=environ)

    async def call(self, tool: str, arguments: dict[str, Any] | None = None, **call: Any) -> ToolOutput:
        """Run a registered tool as the gate would, without its checks."""
        entry = self.registry.entry(tool)
        context = ToolContext(
            call=Call(
                tool=tool,
                arguments=arguments or {},
                origin=call.pop("origin", Origin.LIBRARY),
                cwd=self.project,
                **call,
            ),
            workspace=None,  # type: ignore[arg-type]
            progress=lambda message, fraction: self.events.append((message, fraction)),
        )
        return await raw_callable(entry.tool)(context, arguments or {})


def text_of(output: ToolOutput) -> str:
    blocks = output.content
    return blocks if isinstance(blocks, str) else "\n".join(getattr(b, "text", "") for b in blocks)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    project, home = tmp_path / "project", tmp_path / "home"
    project.mkdir()
    home.mkdir()
    return Bench(project, home)


@pytest.fixture
async def started(bench: Bench) -> AsyncIterator[Callable[[], Any]]:
    hubs: list[Hub] = []

    async def start() -> Hub:
        hub = bench.hub()
        hubs.append(hub)
        await hub.start()
        return hub

    yield start
    for hub in hubs:
        await hub.stop()
