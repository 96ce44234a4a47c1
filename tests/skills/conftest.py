"""Skills written to folders of the test."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from geode.skills.document import Parsed, parse_skill
from geode.skills.library import SkillLibrary, open_library


def text_of(
    name: str = "demo", description: str = "What it does. Use it for tests.", body: str = "Do it.", **keys: str
) -> str:
    """A SKILL.md; further keys are written as given."""
    more = "".join(f"{key.replace('_', '-')}: {value}\n" for key, value in keys.items())
    return f"---\nname: {name}\ndescription: {description}\n{more}---\n{body}\n"


def parse(text: str | bytes, folder: str = "demo") -> Parsed:
    data = text.encode() if isinstance(text, str) else text
    return parse_skill(data, file=f"{folder}/SKILL.md", folder=folder)


def problems(parsed: Parsed, *, strict: bool = False) -> str:
    """All errors as one text."""
    return "\n".join(f.problem for f in parsed.errors(strict=strict))


@dataclass
class Shelf:
    """A project and a home with skills."""

    root: Path

    def __post_init__(self) -> None:
        self.project = self.root / "project"
        self.home = self.root / "home"
        self.project.mkdir()
        self.home.mkdir()

    def add(self, place: str, text: str | bytes | None = None, **files: str) -> Path:
        """Write a skill; `place` is relative to the test's folder, files are named with `__` for `/`."""
        folder = self.root / place
        folder.mkdir(parents=True, exist_ok=True)
        content = text_of(folder.name) if text is None else text
        (folder / "SKILL.md").write_bytes(content.encode() if isinstance(content, str) else content)
        for name, body in files.items():
            path = folder / name.replace("__", "/").replace("_DOT_", ".")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(body)
        return folder

    def mine(self, name: str, text: str | bytes | None = None, **files: str) -> Path:
        return self.add(f"home/skills/{name}", text, **files)

    def theirs(self, name: str, text: str | bytes | None = None, **files: str) -> Path:
        return self.add(f"project/.claude/skills/{name}", text, **files)

    def open(self, *, trusted: bool = True, **more: object) -> SkillLibrary:
        library = open_library(self.project, self.home, trusted=trusted, **more)  # type: ignore[arg-type]
        library.entries()  # looks for the first time
        return library


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path)
