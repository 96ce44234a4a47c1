from collections.abc import Callable
from pathlib import Path

import pytest

from geode.config.settings import load_settings
from geode.policy.engine import PolicyEngine

Build = Callable[..., PolicyEngine]


@pytest.fixture
def build(tmp_path: Path) -> Build:
    """An engine from the text of a user's and a project's settings file."""

    def make(user: str = "", project: str = "") -> PolicyEngine:
        home, root = tmp_path / "home", tmp_path / "project"
        (root / ".geode").mkdir(parents=True, exist_ok=True)
        home.mkdir(exist_ok=True)
        (home / "config.toml").write_text(user, encoding="utf-8")
        (root / ".geode" / "config.toml").write_text(project, encoding="utf-8")
        return PolicyEngine.from_settings(load_settings(root, home, env={}))

    return make
