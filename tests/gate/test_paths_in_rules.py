"""A rule about a path sees the file that would be opened, however its path is spelled."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from geode.containment.paths import BeneathWorkspace
from geode.core.effects import Effect
from geode.gate.resolve import impacts_of
from geode.tools.tool import ToolSpec, Touch


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BeneathWorkspace:
    monkeypatch.setenv("HOME", str(tmp_path))
    project = tmp_path / "project"
    (project / "private").mkdir(parents=True)
    (project / "private" / "a.txt").write_text("x", "utf-8")
    (project / "link").symlink_to("private")
    return BeneathWorkspace(project, home=tmp_path, geode_home=tmp_path / ".geode")


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="tells the opened file by /proc")
@pytest.mark.parametrize(
    "spelled",
    ["private/a.txt", "./x/../private/a.txt", "link/a.txt", "~/project/private/a.txt", "ABSOLUTE"],
)
def test_the_target_of_an_impact_is_the_file_that_would_be_opened(workspace: BeneathWorkspace, spelled: str) -> None:
    path = str(workspace.root / "private" / "a.txt") if spelled == "ABSOLUTE" else spelled
    spec = ToolSpec(
        name="t",
        description="d",
        parameters={},
        effects=frozenset({Effect.READ}),
        touches=lambda arguments: [Touch(Effect.READ, str(arguments["path"]))],
    )
    (impact,) = impacts_of(spec, {"path": path}, workspace)
    with workspace.open_read(path) as file:
        assert impact.target == os.readlink(f"/proc/self/fd/{file.fileno()}")
