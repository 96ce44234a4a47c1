"""The real command line, as a subprocess with a home and a project of its own."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from geode.cli.main import main

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

    def __call__(self, *words: str, stdin: str = "") -> Done:
        """Run a command in this process: the same code, without the second it takes to start Python."""
        out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(self.project)
            for name in ("HOME", "GEODE_HOME"):
                patch.setenv(name, self.env[name])
            patch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin.encode()), encoding="utf-8"))
            with redirect_stdout(out), redirect_stderr(err):
                code = main(words)
        return self._done(code, *(_bytes(stream) for stream in (out, err)))

    def process(self, *words: str, stdin: str = "", env: dict[str, str] | None = None) -> Done:
        """Run `python -m geode` as people do."""
        done = subprocess.run(
            self.words(*words),
            cwd=self.project,
            env={**self.env, **(env or {})},
            input=stdin.encode(),
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )
        return self._done(done.returncode, done.stdout, done.stderr)

    @staticmethod
    def _done(code: int, out: bytes, err: bytes) -> Done:
        result = Done(code, out.decode(), err.decode())
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


def _bytes(stream: io.TextIOWrapper) -> bytes:
    stream.flush()
    return stream.buffer.getvalue()  # type: ignore[attr-defined]
