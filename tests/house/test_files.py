"""What the files of the repository may and may not hold."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SKIPPED_FOLDERS = {
    ".git",
    ".venv",
    "__pycache__",
    ".pytest_cache",
    ".ruff_cache",
    ".hypothesis",
    "build",
    "dist",
    ".run",
}
# Written in pieces, so that this file does not hold them.
REGISTRIES = re.compile(
    "|".join(
        re.escape(a + b)
        for a, b in (("pypi.", "org"), ("python", "hosted"), ("registry.npm", "js"), ("deb.", "debian.org"))
    )
)
MACHINE_PATHS = re.compile(
    "|".join(("(?<![\\w.~-])/" + "work/(main|shared|\\.)", "/tmp/" + "team", "/root/" + "\\.pyenv", "/opt/" + "wheels"))
)


def text_files() -> list[Path]:
    found = (path for path in ROOT.rglob("*") if not SKIPPED_FOLDERS.intersection(path.relative_to(ROOT).parts[:-1]))
    return [
        path for path in found if path.is_file() and not path.is_symlink() and b"\0" not in path.read_bytes()[:4096]
    ]


@pytest.mark.parametrize("pattern", [REGISTRIES, MACHINE_PATHS], ids=["registry host", "path of a machine"])
def test_no_file_names_a(pattern: re.Pattern[str]) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:120]}"
        for path in text_files()
        for number, line in enumerate(path.read_text("utf-8", "replace").splitlines(), 1)
        if pattern.search(line)
    ]
    assert found == []


def test_no_source_file_is_longer_than_500_lines() -> None:
    too_long = runpy.run_path(str(ROOT / "scripts/check_sizes.py"))["too_long"]
    assert too_long(ROOT / "src") == []


def test_the_size_check_finds_a_file_that_is_too_long(tmp_path: Path) -> None:
    too_long = runpy.run_path(str(ROOT / "scripts/check_sizes.py"))["too_long"]
    (tmp_path / "long.py").write_text("x = 1\n" * 501)
    (tmp_path / "right.py").write_text("x = 1\n" * 500)
    assert [(path.name, lines) for path, lines in too_long(tmp_path)] == [("long.py", 501)]


@pytest.mark.parametrize("name", ["run.txt", "dev.txt", "build.txt"])
def test_every_locked_package_has_an_exact_version_and_hashes_and_no_address(name: str) -> None:
    text = (ROOT / "requirements" / name).read_text("utf-8")
    assert "://" not in text
    assert not re.search(r"^-", text, re.MULTILINE), "no option lines such as --index-url or --find-links"
    entries = re.split(r"\n(?=[a-zA-Z0-9])", re.sub(r"^ *#.*\n", "", text, flags=re.MULTILINE).strip())
    assert len(entries) > 2
    for entry in entries:
        assert re.match(r"[a-z0-9.-]+(\[[a-z,-]+\])?==[\w.!+]+( ; .*)? \\\n", entry), entry.splitlines()[0]
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", entry), entry.splitlines()[0]


def test_the_development_lock_holds_the_run_lock_at_the_same_versions() -> None:
    def pins(name: str) -> set[str]:
        text = (ROOT / "requirements" / name).read_text("utf-8")
        return set(re.findall(r"^[a-z0-9.-]+==\S+", text, re.MULTILINE))

    assert pins("run.txt") <= pins("dev.txt")


@pytest.mark.parametrize("target", ["run", "test", "test-slow", "check", "lock", "clean", "help"])
def test_make_has_the_target(target: str) -> None:
    text = (ROOT / "Makefile").read_text("utf-8")
    assert re.search(rf"^{target}:.*## ", text, re.MULTILINE)


def test_ci_checks_and_runs_both_suites() -> None:
    text = (ROOT / ".ci/run").read_text("utf-8")
    assert text.startswith("#!/usr/bin/env bash") and "set -euo pipefail" in text
    assert re.findall(r"^make (\S+)$", text, re.MULTILINE) == ["run", "check", "test", "test-slow"]


def test_the_licence_is_apache_2() -> None:
    text = (ROOT / "LICENSE").read_text("utf-8")
    assert "Apache License" in text and "END OF TERMS AND CONDITIONS" in text
