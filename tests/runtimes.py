"""A real runtime in a fresh project and home for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from geode.runtime import GeodeRuntime

MakeRuntime = Callable[..., GeodeRuntime]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    return root


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
async def make(project: Path, home: Path) -> AsyncIterator[MakeRuntime]:
    made: list[GeodeRuntime] = []

    def create(**options: Any) -> GeodeRuntime:
        runtime = GeodeRuntime.create(project, home, servers=False, **options)
        made.append(runtime)
        return runtime

    yield create
    for runtime in made:
        await runtime.aclose()
