"""A workspace, its surroundings, and a runner over the real backend."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from geode.config.settings import SandboxSettings
from geode.containment.paths import BeneathWorkspace
from geode.containment.sandbox.runner import SandboxRunner
from geode.containment.sandbox.select import select_backend
from geode.core.errors import SandboxUnavailable
from geode.core.ports import Limits, ProcessOutcome, ProcessSpec

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@dataclass
class Ground:
    """Directories of one test."""

    top: Path
    root: Path
    home: Path
    geode_home: Path

    def workspace(self) -> BeneathWorkspace:
        return BeneathWorkspace(self.root, home=self.home, geode_home=self.geode_home)


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    top = tmp_path.resolve()
    made = Ground(top, top / "R", top / "home", top / "home" / ".geode")
    for path in (made.root, made.home, made.geode_home):
        path.mkdir()
    return made


@pytest.fixture
def runner(ground: Ground) -> SandboxRunner:
    try:
        backend = select_backend(SandboxSettings(), home=ground.geode_home)
    except SandboxUnavailable as error:
        pytest.skip(f"no sandbox here: {error}")
    return SandboxRunner(backend=backend, home=ground.geode_home)


Shell = Callable[..., Awaitable[ProcessOutcome]]


@pytest.fixture
def sh(runner: SandboxRunner, ground: Ground) -> Shell:
    """Run a shell line in the workspace, which is writable."""

    async def run(line: str, *, limits: Limits = Limits(seconds=20), **more: object) -> ProcessOutcome:
        options: dict[str, object] = {"cwd": ground.root, "writable": (ground.root,), "limits": limits, **more}
        return await runner.run(ProcessSpec(argv=("/bin/sh", "-c", line), **options))  # type: ignore[arg-type]

    return run
