"""Scopes: where a path lies, by its name and by where it really leads."""

from __future__ import annotations

from pathlib import Path

import pytest

from geode.containment.paths import BeneathWorkspace
from geode.containment.places import Places, is_secret
from geode.core.effects import Scope

HOME = Path("/home/someone")


@pytest.fixture
def places() -> Places:
    return Places(HOME / "project", home=HOME, geode_home=HOME / ".geode")


@pytest.mark.parametrize(
    ("path", "scope"),
    [
        ("project/src/a.py", Scope.WORKSPACE),
        ("project", Scope.WORKSPACE),
        ("project/.github/workflows/x", Scope.WORKSPACE),
        ("project/.git/hooks/pre-commit", Scope.PROTECTED),
        ("project/.GIT/config", Scope.PROTECTED),
        ("project/.g\u200cit/config", Scope.PROTECTED),
        ("project/nested/.git/config", Scope.PROTECTED),
        ("project/.claude/settings.json", Scope.PROTECTED),
        ("project/.mcp.json", Scope.PROTECTED),
        ("project/.geode/config.toml", Scope.PROTECTED),
        ("project/.vscode/tasks.json", Scope.PROTECTED),
        ("project/.env", Scope.SECRET),
        ("project/.env.local", Scope.SECRET),
        ("project/certs/server.pem", Scope.SECRET),
        ("project/.env.example", Scope.WORKSPACE),
        ("project/id_rsa.pub", Scope.WORKSPACE),
        (".ssh/id_ed25519", Scope.SECRET),
        (".aws/credentials", Scope.SECRET),
        (".config/gh/hosts.yml", Scope.SECRET),
        (".npmrc", Scope.SECRET),
        ("project/.npmrc", Scope.WORKSPACE),
        (".bashrc", Scope.HOME),
        ("notes.txt", Scope.HOME),
        ("project2/a", Scope.HOME),
        (".geode/geode.db", Scope.GEODE),
        ("/etc/passwd", Scope.SYSTEM),
        ("/etc/shadow", Scope.SECRET),
        ("/dev/sda", Scope.SYSTEM),
        ("/tmp/x", Scope.TEMP),
        ("/", Scope.SYSTEM),
        ("/proc/1/environ", Scope.SECRET),
        ("/usr/bin/python3", Scope.SYSTEM),
        ("/home/other/x", Scope.SYSTEM),
    ],
)
def test_scope_of_a_path(places: Places, path: str, scope: Scope) -> None:
    assert places.scope(HOME / path) is scope


def test_the_more_sensitive_of_name_and_target_counts(tmp_path: Path) -> None:
    root = tmp_path / "R"
    (root / "plain").mkdir(parents=True)
    (root / "key").symlink_to("/etc/shadow")
    (root / ".git").symlink_to("plain")
    (root / "g").symlink_to(tmp_path / "gh")
    workspace = BeneathWorkspace(root, home=tmp_path / "home", geode_home=tmp_path / "gh")
    assert workspace.scope("key") is Scope.SECRET
    assert workspace.scope(".git/config") is Scope.PROTECTED
    assert workspace.scope("g/x") is Scope.GEODE
    assert workspace.scope("") is Scope.UNKNOWN
    assert workspace.scope("a\0b") is Scope.UNKNOWN


def test_a_home_as_workspace_keeps_its_dot_files_home() -> None:
    places = Places(HOME, home=HOME, geode_home=HOME / ".geode")
    assert places.scope(HOME / ".bashrc") is Scope.HOME
    assert places.scope(HOME / "project/x") is Scope.WORKSPACE
    everything = Places(Path("/"), home=HOME, geode_home=HOME / ".geode")
    assert everything.scope(Path("/etc/passwd")) is Scope.SYSTEM


def test_secret_names() -> None:
    assert is_secret(Path("/w/prod.env"))
    assert is_secret(Path("/w/ID_RSA"))
    assert not is_secret(Path("/w/environment.py"))
    assert not is_secret(Path("/w/key.py"))
