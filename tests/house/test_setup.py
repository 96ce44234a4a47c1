"""Setting up says in one line what is missing, and does nothing twice."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ("sh", "cat", "cksum", "dirname", "grep", "rm", "tail", "printf", "mkdir")

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="setup.sh is for systems with a POSIX shell")


class Machine:
    """A copy of the project with a PATH of our making, on which one is an ordinary user of Linux."""

    def __init__(self, root: Path) -> None:
        self.project = root / "geode"
        self.bin = root / "bin"
        self.bin.mkdir()
        shutil.copytree(ROOT / "scripts", self.project / "scripts")
        shutil.copytree(ROOT / "requirements", self.project / "requirements")
        shutil.copy(ROOT / "pyproject.toml", self.project)
        for name in TOOLS:
            found = shutil.which(name)
            if found:
                (self.bin / name).symlink_to(found)
        self.program("id", "echo 1000")
        self.program("uname", "echo Linux")
        self.program("bwrap", "exit 0")
        self.program("rg", "exit 0")

    def program(self, name: str, body: str) -> None:
        (self.bin / name).unlink(missing_ok=True)
        (self.bin / name).write_text(f"#!/bin/sh\n{body}\n")
        (self.bin / name).chmod(0o755)

    def setup(self, want: str = "run", **env: str) -> tuple[int, str]:
        done = subprocess.run(
            ["/bin/sh", self.project / "scripts/setup.sh", want],
            env={"PATH": str(self.bin), **env},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_without_a_python_that_is_new_enough_one_line_says_so(machine: Machine) -> None:
    machine.program("python3", "exit 1")  # what an old one answers to the version check
    code, said = machine.setup()
    assert code == 5
    assert said.splitlines() == [
        "setup: Geode needs Python 3.11 or newer; install one, or name it: make run PYTHON=/path/to/python3.12"
    ]


def test_without_bubblewrap_an_ordinary_user_is_told_the_exact_command(machine: Machine) -> None:
    (machine.bin / "bwrap").unlink()
    (machine.bin / "rg").unlink()
    code, said = machine.setup()
    assert code == 5
    assert (
        said.strip()
        == "setup: please install what is missing, then run make again: sudo apt-get install bubblewrap ripgrep"
    )


def test_without_the_venv_module_one_line_says_what_to_install(machine: Machine) -> None:
    machine.program("python3", 'case $1 in -c) exit 0;; --version) echo "Python 3.11.2";; *) exit 1;; esac')
    code, said = machine.setup()
    assert code == 5
    assert (
        said.splitlines()[-1] == "setup: this Python has no venv module; on Debian: sudo apt-get install python3-venv"
    )
    assert not (machine.project / ".venv").exists()


def test_without_a_registry_one_line_says_so_and_nothing_counts_as_done(machine: Machine) -> None:
    venv_python = '#!/bin/sh\ncase $2 in pip) echo "no route" >&2; exit 1;; esac\nexit 0\n'
    machine.program(
        "python3",
        'case $1 in -c) exit 0;; --version) echo "Python 3.11.2";; -m) mkdir -p .venv/bin; '
        f"printf '%s' '{venv_python}' >.venv/bin/python; chmod +x .venv/bin/python;; esac",
    )
    (machine.bin / "chmod").symlink_to(shutil.which("chmod") or "chmod")
    code, said = machine.setup()
    assert code == 5
    assert said.splitlines()[-1].startswith(
        "setup: the packages could not be installed: is a package registry reachable?"
    )
    assert not list((machine.project / ".venv").glob(".done-*"))


def test_what_is_set_up_is_not_set_up_again(machine: Machine) -> None:
    python = machine.project / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text("#!/bin/sh\nexit 0\n")
    python.chmod(0o755)
    first = machine.setup("dev")
    second = machine.setup("dev")
    smaller = machine.setup("run")
    assert (first[0], second, smaller) == (0, (0, ""), (0, ""))
    with (machine.project / "requirements/dev.txt").open("a") as file:
        file.write("# changed\n")
    assert "installing" in machine.setup("dev")[1]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_fresh_copy_sets_up_and_answers(tmp_path: Path) -> None:
    project = tmp_path / "geode"
    shutil.copytree(
        ROOT, project, ignore=shutil.ignore_patterns(".venv", ".git", "__pycache__", ".*_cache", ".hypothesis")
    )
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    done = subprocess.run(
        [project / "scripts/setup.sh", "run"],
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answer = subprocess.run(
        [project / ".venv/bin/geode", "--version"], capture_output=True, text=True, check=True, timeout=30
    )
    assert answer.stdout.startswith("geode ")
