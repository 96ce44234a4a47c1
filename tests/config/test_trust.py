import json
import os
import stat
import sys
from pathlib import Path

import pytest

from geode.config.trust import TrustStore
from geode.core.errors import UsageError


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "p"
    (root / ".geode").mkdir(parents=True)
    return root


@pytest.fixture
def store(tmp_path: Path) -> TrustStore:
    return TrustStore(tmp_path / "home")


def servers(root: Path, **entry: object) -> None:
    (root / ".geode" / "mcp.json").write_text(json.dumps({"mcpServers": {"s": entry}}))


def test_a_project_that_brings_nothing_needs_no_trust(store: TrustStore, project: Path) -> None:
    assert store.state(project).state == "nothing"
    assert store.trust(project).state == "nothing"
    assert store.projects() == {}


@pytest.mark.parametrize(
    "name", [".geode/tools.json", ".geode/mcp.json", ".claude/mcp_servers.json", ".mcp.json", ".geode/config.toml"]
)
def test_each_file_is_covered_and_any_change_asks_again(store: TrustStore, project: Path, name: str) -> None:
    file = project / name
    file.parent.mkdir(exist_ok=True)
    file.write_text("{}")
    assert store.state(project).state == "untrusted"
    assert store.trust(project).trusted
    assert TrustStore(store._home).state(project).trusted  # pyright: ignore[reportPrivateUsage]
    file.write_text("{} ")
    state = store.state(project)
    assert (state.state, state.changed) == ("changed", (name,))
    file.write_text("{}")
    assert store.state(project).trusted


def test_added_and_removed_files_are_changes(store: TrustStore, project: Path) -> None:
    servers(project)
    store.trust(project)
    (project / ".mcp.json").write_text("{}")
    assert store.state(project).changed == (".mcp.json",)
    (project / ".mcp.json").unlink()
    assert store.state(project).trusted
    (project / ".geode" / "mcp.json").unlink()
    assert store.state(project).state == "nothing"


@pytest.mark.parametrize(
    ("entry", "file"),
    [
        ({"command": "python", "args": ["tools/server.py"]}, "tools/server.py"),
        ({"command": "./run.sh"}, "run.sh"),
        ({"command": "bash", "args": ["-c", "exec ./bin/serve --port 1"]}, "bin/serve"),
        ({"command": "python", "args": ["-m", "srv.main"]}, "srv/main.py"),
        ({"command": "python", "args": ["-m", "srv.main"]}, "srv/helper.py"),
        ({"command": "npm", "args": ["run", "mcp"]}, "package.json"),
        ({"command": "node", "args": ["srv"]}, "srv/index.js"),
        ({"command": "node", "args": ["x.js"], "env": {"NODE_OPTIONS": "--require ./hook.js"}}, "hook.js"),
        ({"command": "python", "args": ["main.py"], "cwd": "sub"}, "sub/main.py"),
    ],
)
def test_what_the_files_start_is_covered_too(
    store: TrustStore, project: Path, entry: dict[str, object], file: str
) -> None:
    script = project / file
    script.parent.mkdir(parents=True, exist_ok=True)
    if file == "srv/helper.py":
        (project / "srv" / "main.py").write_text("import srv.helper")
    script.write_text("one")
    servers(project, **entry)
    assert file in store.trust(project).files
    script.write_text("two")
    assert store.state(project).changed == (file,)


def test_python_tools_are_covered_with_their_package(store: TrustStore, project: Path) -> None:
    (project / "src" / "mytools").mkdir(parents=True)
    (project / "src" / "mytools" / "__init__.py").write_text("")
    (project / "src" / "mytools" / "calc.py").write_text("def add(): ...")
    (project / ".geode" / "tools.json").write_text(
        json.dumps({"tools": [{"name": "add", "description": "see README.md", "python": "mytools.calc:add"}]})
    )
    (project / "README.md").write_text("x")
    state = store.trust(project)
    assert {"src/mytools/calc.py", "src/mytools/__init__.py"} <= set(state.files)
    assert "README.md" not in state.files


def test_a_script_that_appears_later_is_a_change(store: TrustStore, project: Path) -> None:
    servers(project, command="./late.sh")
    store.trust(project)
    (project / "late.sh").write_text("evil")
    assert store.state(project).changed == ("late.sh",)


def test_content_that_changed_while_the_person_decided_is_not_trusted(store: TrustStore, project: Path) -> None:
    servers(project, command="a")
    shown = store.state(project).digest
    servers(project, command="b")
    with pytest.raises(UsageError, match="changed while"):
        store.trust(project, digest=shown)
    assert store.state(project).state == "untrusted"


def test_revoking_forgets(store: TrustStore, project: Path) -> None:
    servers(project)
    store.trust(project)
    assert store.revoke(project)
    assert not store.revoke(project)
    assert store.state(project).state == "untrusted"


def test_the_answer_is_private_and_survives_damage_closed(store: TrustStore, project: Path, tmp_path: Path) -> None:
    servers(project)
    store.trust(project)
    file = tmp_path / "home" / "trust.json"
    if sys.platform != "win32":
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    for damage in ("{", "[]", '{"projects": 3}', '{"projects": {"x": 1}}', "\0"):
        file.write_text(damage)
        state = store.state(project)
        assert state.state == "untrusted"
        assert "damaged" in state.problem
    store.trust(project)
    assert store.state(project).trusted
    assert (tmp_path / "home" / "trust.json.damaged").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="links and pipes")
def test_links_are_followed_to_their_content_and_pipes_do_not_hang(
    store: TrustStore, project: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside.json"
    outside.write_text("{}")
    (project / ".mcp.json").symlink_to(outside)
    store.trust(project)
    outside.write_text("{ }")
    assert store.state(project).changed == (".mcp.json",)
    (project / ".mcp.json").unlink()
    os.mkfifo(project / ".mcp.json")
    assert store.state(project).state == "changed"
    alias = tmp_path / "alias"
    alias.symlink_to(project)
    store.trust(project)
    assert store.state(alias).trusted


def test_a_persons_own_files_need_no_trust_when_the_project_is_their_home(tmp_path: Path) -> None:
    home = tmp_path / ".geode"
    home.mkdir()
    (home / "mcp.json").write_text("{}")
    assert TrustStore(home).state(tmp_path).state == "nothing"


def test_broken_json_is_covered_as_it_stands(store: TrustStore, project: Path) -> None:
    (project / ".mcp.json").write_text("{ nope")
    assert store.trust(project).files == (".mcp.json",)
    (project / ".mcp.json").write_text("[" * 100_000)
    assert store.state(project).state == "changed"
