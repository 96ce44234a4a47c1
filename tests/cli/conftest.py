"""The real command line, as a subprocess with a home and a project of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

SECONDS = 40.0


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """The one document on stdout."""
        document = json.loads(self.out)
        assert document["schema"] == 1
        return document

    @property
    def error(self) -> dict[str, Any]:
        return self.json["error"]


@dataclass
class Place:
    """A project, a home, and `geode` run in them."""

    root: Path

    def __post_init__(self) -> None:
        self.project = self.root / "project"
        self.home = self.root / "home"
        self.user_home = self.root / "user"
        self.project.mkdir()
        self.user_home.mkdir()

    @property
    def env(self) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith("GEODE_") and k != "NO_COLOR"}
        return {**kept, "HOME": str(self.user_home), "GEODE_HOME": str(self.home)}

    @staticmethod
    def words(*words: str) -> list[str]:
        return [sys.executable, "-m", "geode", *words]

    def __call__(self, *words: str, stdin: str = "", env: dict[str, str] | None = None) -> Done:
        done = subprocess.run(
            self.words(*words),
            cwd=self.project,
            env={**self.env, **(env or {})},
            input=stdin.encode(),
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )
        result = Done(done.returncode, done.stdout.decode(), done.stderr.decode())
        assert "Traceback" not in result.out + result.err, result.err
        return result

    def write(self, name: str, text: str) -> Path:
        """A file of the project."""
        path = self.project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path


@pytest.fixture
def geode(tmp_path: Path) -> Place:
    return Place(tmp_path)


Run = Callable[..., Done]
