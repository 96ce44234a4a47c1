"""Tools run for real: the real workspace and the real sandbox, without the gate."""

from __future__ import annotations

import shutil
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import pytest

from geode.config.settings import SandboxSettings
from geode.containment.paths import BeneathWorkspace
from geode.containment.sandbox.runner import SandboxRunner
from geode.containment.sandbox.select import select_backend
from geode.core.call import Call
from geode.core.effects import Origin
from geode.core.errors import NotStored, SandboxUnavailable
from geode.core.messages import Text, clean_json
from geode.core.ports import ProcessRunner, ResultStore, StoredText
from geode.packs import builtin_tools
from geode.tools.tool import FunctionTool, ToolContext, ToolOutput, Verification, raw_callable

TOOLS = {item.name: item for item in builtin_tools()}


class Run(Protocol):
    """Runs a tool by name with its arguments, like the gate but without asking anybody."""

    def __call__(self, name: str, /, **arguments: Any) -> Awaitable[ToolOutput]: ...


class StoredResults:
    """A `ResultStore` in memory."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    async def put(self, text: str, *, session: str, principal: str, call_id: str, tool: str) -> str:
        self.texts[call_id] = text
        return call_id

    async def put_file(
        self,
        path: Path,
        *,
        session: str,
        principal: str,
        call_id: str,
        tool: str,
        redact: Callable[[str], str] | None = None,
    ) -> str:
        raise NotImplementedError

    async def get(
        self,
        result_id: str,
        *,
        session: str,
        principal: str,
        offset: int = 1,
        limit: int = 2000,
        start_char: int = 0,
        max_chars: int | None = None,
    ) -> StoredText:
        if result_id not in self.texts:
            raise NotStored(f"there is no result {result_id}")
        text = self.texts[result_id]
        lines = text.splitlines()
        return StoredText(
            text="\n".join(lines[offset - 1 : offset - 1 + limit]),
            first_line=offset,
            total_lines=len(lines),
            total_chars=len(text),
        )


@dataclass
class Bench:
    """One workspace with what tools need."""

    root: Path
    workspace: BeneathWorkspace
    runner: ProcessRunner | None
    results: ResultStore

    def context(self, tool: str, arguments: Mapping[str, Any]) -> ToolContext:
        return ToolContext(
            call=Call(tool=tool, arguments=arguments, origin=Origin.LIBRARY, cwd=self.root, session="s"),
            workspace=self.workspace,
            progress=lambda message, fraction: None,
            runner=self.runner,
            results=self.results,
        )

    async def run(self, name: str, /, **arguments: Any) -> ToolOutput:
        item: FunctionTool = TOOLS[name]
        arguments = clean_json(arguments)
        output = await raw_callable(item)(self.context(name, arguments), arguments)
        assert isinstance(output, ToolOutput)
        if isinstance(output.content, str):
            return output
        assert output.spools, "only what is shown in part comes in blocks"
        return replace(output, content="\n".join(b.text for b in output.content if isinstance(b, Text)))

    async def verify(self, name: str, /, **arguments: Any) -> Verification | None:
        check = TOOLS[name].spec.verify
        assert check is not None
        return await check(self.context(name, arguments), arguments, None)


@pytest.fixture(scope="session")
def runner(tmp_path_factory: pytest.TempPathFactory) -> SandboxRunner:
    """The sandbox of this machine; tests that need it are skipped where there is none."""
    home = tmp_path_factory.mktemp("geode-home")
    try:
        select_backend(SandboxSettings(), home=home)
    except SandboxUnavailable as error:
        pytest.skip(f"no sandbox here: {error.message}")
    return SandboxRunner(SandboxSettings(), home=home)


@pytest.fixture
def bare(tmp_path: Path) -> Bench:
    """A workspace without a sandbox."""
    root = tmp_path / "work"
    root.mkdir()
    home = tmp_path / "home"
    home.mkdir()
    workspace = BeneathWorkspace(root, home=home, geode_home=home / ".geode")
    return Bench(workspace.root, workspace, None, StoredResults())


@pytest.fixture
def bench(bare: Bench, runner: SandboxRunner) -> Bench:
    """A workspace with the sandbox."""
    bare.runner = runner
    return bare


@pytest.fixture
def put(bare: Bench) -> Callable[[str, bytes | str], Path]:
    """Write a file into the workspace."""

    def write(path: str, data: bytes | str) -> Path:
        target = bare.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data.encode() if isinstance(data, str) else data)
        return target

    return write


needs_ripgrep = pytest.mark.skipif(shutil.which("rg") is None, reason="ripgrep is not installed")
