"""What the documents show is what Geode does: marked snippets are loaded or run.

A comment in the line before a fence says what becomes of it:

    <!-- test -->          it is checked: toml as a user's settings, json as tools or servers, python and
                           sh are run, console is run and its output compared
    <!-- file: PATH -->    it is also kept under PATH (~/ is the home), for what follows in the same document

Every document has a home and a project of its own, empty at its beginning. In a console, lines that
begin with `$ ` are commands, what follows is their output; `…` stands for any text in a line, a line
of nothing but `…` for any lines. A command must succeed; one that is meant to fail says `|| echo …`.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from geode.config.settings import load_settings
from geode.core.effects import Effect, Impact, Scope
from geode.core.errors import ConfigError
from geode.mcp.config import load_servers
from geode.mcp.stdio import base_environment
from geode.policy.engine import PolicyEngine, Question
from geode.policy.rules import compile_rule
from geode.tools.definitions import parse_definitions

ROOT = Path(__file__).resolve().parents[2]
_SNIPPET = re.compile(
    r"^<!-- (?:test|file: (?P<file>\S+)) -->\n```(?P<kind>\w+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)
_ALL = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
DOCUMENTS = [path for path in _ALL if _SNIPPET.search(path.read_text("utf-8"))]


@dataclass
class Place:
    """Where the snippets of one document live."""

    home: Path
    project: Path

    def path(self, name: str) -> Path:
        return self.home / name[2:] if name.startswith("~/") else self.project / name

    def run(self, argv: list[str]) -> tuple[int, str]:
        """Exit code and output; no terminal, no keys, Geode's data in the home."""
        env = {k: v for k, v in os.environ.items() if not k.startswith("GEODE_") and not k.endswith("_API_KEY")}
        env |= {"PYTHONUNBUFFERED": "1"}  # messages and output in the order in which they are written
        env |= {"HOME": str(self.home), "PATH": f"{Path(sys.executable).parent}:{env['PATH']}"}
        done = subprocess.run(
            argv,
            cwd=self.project,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=50,
            check=False,
        )
        return done.returncode, done.stdout.decode("utf-8", "replace")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    made = Place(tmp_path / "home", tmp_path / "project")
    made.home.mkdir()
    made.project.mkdir()
    return made


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_snippets_do_what_the_document_says(document: Path, place: Place, tmp_path: Path) -> None:
    source = document.read_text("utf-8")
    for number, found in enumerate(_SNIPPET.finditer(source)):
        kind, text = found["kind"], found["text"]
        line = source.count("\n", 0, found.start()) + 1
        where = f"{document.relative_to(ROOT)}:{line}"
        if found["file"]:
            target = place.path(found["file"])
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, "utf-8")
        alone = tmp_path / f"alone{number}"
        alone.mkdir()
        if kind == "toml":
            _loads_as_settings(text, alone, where)
        elif kind == "json":
            _loads_as_json(text, alone, where)
        elif kind == "console":
            for command, expected in _commands(text):
                _, said = place.run(["bash", "-c", command])
                assert re.fullmatch(_pattern(expected), _plain(said)), f"{where}: $ {command}\n{said}"
        elif not found["file"]:
            argv = [sys.executable, "-c", text] if kind == "python" else ["bash", "-euc", text]
            code, said = place.run(argv)
            assert code == 0, f"{where}:\n{said}"


def _loads_as_settings(text: str, alone: Path, where: str) -> None:
    """Nothing of a user's settings may be ignored."""
    (alone / "config.toml").write_text(text, "utf-8")
    settings = load_settings(alone, alone, env={})
    assert settings.notices == (), where
    PolicyEngine.from_settings(settings)


def _loads_as_json(text: str, alone: Path, where: str) -> None:
    if "mcpServers" in json.loads(text):
        (alone / "mcp.json").write_text(text, "utf-8")
        found = load_servers(alone, alone)
        assert found.problems == (), where
        assert found.servers, where
    else:
        loaded = parse_definitions(text.encode(), where)
        assert loaded.problems == (), where
        assert loaded.tools, where


def _commands(text: str) -> list[tuple[str, str]]:
    """Each command with the output that is shown for it."""
    parts = re.split(r"^\$ (.*)\n", text, flags=re.MULTILINE)
    assert not parts[0].strip(), "a console begins with a command"
    return list(zip(parts[1::2], parts[2::2], strict=True))


def _plain(said: str) -> str:
    """Without the width of tables: blanks in a row are one, none at the end of a line."""
    return "\n".join(re.sub(" +", " ", line).rstrip() for line in said.rstrip().splitlines()) + "\n"


def _pattern(expected: str) -> str:
    """A regular expression of shown output."""
    lines = _plain(expected).splitlines()
    return "".join(r"(?:.*\n)*?" if line == "…" else re.escape(line).replace("…", ".*?") + "\n" for line in lines)


# ---------------------------------------------------------------- tables


def _rows(document: str, first: str) -> list[list[str]]:
    """Cells of the table whose header row begins with `first`; ` ` around them removed."""
    lines = (ROOT / document).read_text("utf-8").splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(f"| {first}"))
    rows: list[list[str]] = []
    for line in lines[start:]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip().strip("`") for cell in line.strip("|").split("|")])
    return [rows[0], *rows[2:]]


def test_the_table_of_effects_and_scopes_is_the_default_policy(tmp_path: Path) -> None:
    header, *rows = _rows("docs/policy.md", "effect \\ scope")
    assert header[1:] == [s.value for s in Scope]
    assert [row[0] for row in rows] == [e.value for e in Effect]
    engine = PolicyEngine.from_settings(load_settings(tmp_path, tmp_path, env={}))
    for row in rows:
        shown = {}
        for scope, cell in zip(Scope, row[1:], strict=True):
            impact = Impact(Effect(row[0]), "x", scope)
            shown[scope.value] = engine.evaluate(Question(tool="t", impacts=(impact,))).decision.value, cell
        assert {k: v for k, v in shown.items() if v[0] != v[1]} == {}, row[0]


def test_the_table_of_settings_names_every_key_with_its_default(tmp_path: Path) -> None:
    values = load_settings(tmp_path, tmp_path, env={}).values()
    shown = {row[0]: row[1] for row in _rows("docs/configuration.md", "key")[1:]}
    assert list(shown) == list(values)
    simple = {k: v for k, v in values.items() if isinstance(v, int | float) and not isinstance(v, bool)}
    assert {k: float(shown[k].replace(",", "")) for k in simple} == {k: float(v) for k, v in simple.items()}


def test_the_keys_of_a_rule_are_all_described() -> None:
    with pytest.raises(ConfigError) as refused:
        compile_rule({"nonsense": 1}, layer="user", place="x", home="/", modes=frozenset())
    known = set(re.findall(r"\w+", refused.value.fix.partition(":")[2]))
    described = {name for row in _rows("docs/policy.md", "key of a rule")[1:] for name in re.findall(r"\w+", row[0])}
    assert described == known


def test_the_variables_that_servers_get_are_named() -> None:
    text = (ROOT / "docs/servers.md").read_text("utf-8")
    named = set(re.findall(r"`([A-Z_]+)`", text.partition("and no others:")[2].partition("\n")[0]))
    assert set(base_environment(dict.fromkeys([*named, "SECRET", "LD_PRELOAD", "PYTHONPATH"], "x"))) == named
    assert {"HOME", "PATH"} <= named
