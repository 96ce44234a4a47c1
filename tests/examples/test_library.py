"""The library examples run as they stand, each in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import geode

FOLDER = Path(__file__).parents[2] / "examples" / "library"
SAYS = {
    "ten_lines.py": ["12 apples and 3 pears."],
    "own_rules.py": [
        "ok      send_invoice: sent 80.00 EUR to Ada",
        "denied  send_invoice:",
        "denied  send_reminder:",
        "ok: Ada has her invoice.",
    ],
}


def test_every_example_is_tested() -> None:
    assert {path.name for path in FOLDER.glob("*.py")} == set(SAYS)


@pytest.mark.parametrize("name", SAYS)
def test_the_example_runs_without_an_account(name: str, tmp_path: Path) -> None:
    env = {k: v for k, v in os.environ.items() if not k.endswith("_API_KEY")}
    done = subprocess.run(
        [sys.executable, str(FOLDER / name)],
        cwd=tmp_path,
        env={**env, "GEODE_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for line in SAYS[name]:
        assert line in done.stdout, done.stdout
    assert done.stderr == ""


def test_the_ten_lines_are_ten() -> None:
    source = (FOLDER / "ten_lines.py").read_text("utf-8")
    body = source.partition("@tool")[2].partition("if __name__")[0].splitlines()
    code = [line for line in body if line.strip() and '"""' not in line]
    assert len(code) <= 11, "what is left of @tool is a part of the first line"


def test_importing_geode_loads_nothing_else() -> None:
    seen = "import sys; before = set(sys.modules); import geode; print(sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", seen], capture_output=True, text=True, timeout=30, check=True)
    assert [m for m in eval(done.stdout) if m.startswith("geode.")] == []
    assert "pydantic" not in done.stdout


def test_every_public_name_is_there_and_typed_where_it_lives() -> None:
    for name in geode.__all__:
        assert getattr(geode, name) is not None, name
    assert set(geode.__all__) <= set(dir(geode))
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = geode.no_such_name
