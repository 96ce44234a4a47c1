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
