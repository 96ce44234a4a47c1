"""Whatever a person tries first, their home is private and every later command works."""

from __future__ import annotations

import stat
import sys

import pytest

from cli.conftest import Place

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="permission bits are POSIX")


@pytest.mark.parametrize(
    "words",
    [
        ("doctor",),
        ("doctor", "--fix"),
        ("sandbox", "probe"),
        ("config", "show"),
        ("tools", "list"),
        ("tools", "call", "shell_exec", "--args", '{"command": "seq 200000"}'),
        ("mcp", "add", "demo", "--scope", "user", "--", "true"),
        ("mcp", "status"),
        ("skills", "list"),
        ("audit", "list"),
        ("approvals", "list"),
        ("trust",),
        ("run", "hello", "--model", "anthropic:none"),
    ],
    ids=" ".join,
)
def test_the_first_command_leaves_a_private_home_or_none(geode: Place, words: tuple[str, ...]) -> None:
    assert geode(*words).code != 2
    if geode.home.exists():
        assert stat.S_IMODE(geode.home.stat().st_mode) == 0o700
    assert geode("audit", "list").code == 0


def test_doctor_says_which_model_would_be_used(geode: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def model() -> dict[str, str]:
        return next(c for c in geode("doctor", "--json").json["checks"] if c["name"] == "model")

    monkeypatch.setenv("GEODE_MODEL", "openai-compatible:http://127.0.0.1:9/v1#mine")
    assert model()["state"] == "ok"
    assert "mine, from GEODE_MODEL" in model()["detail"]
    monkeypatch.setenv("GEODE_MODEL", "antropic:claude-x")
    assert model()["state"] == "warning"
    assert "did you mean anthropic:claude-x?" in model()["fix"]
    monkeypatch.setenv("GEODE_MODEL", "")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-test-0000")
    assert model()["detail"].startswith("anthropic:")


def test_a_server_added_twice_says_how_to_replace_it(geode: Place) -> None:
    words = ("mcp", "add", "demo", "--no-connect", "--", "true")
    assert geode(*words).code == 0
    again = geode(*words)
    assert again.code == 2
    assert "--replace" in again.err
