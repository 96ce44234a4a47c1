"""What the package may import, and when."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted((ROOT / "src/geode").rglob("*.py"))
# Standard modules that do not exist on Windows, or on macOS.
NOT_EVERYWHERE = set("fcntl resource pwd grp termios tty pty spwd crypt syslog readline curses msvcrt winreg".split())
HEAVY = (
    "mcp sqlalchemy alembic pydantic pydantic_core dbos anthropic openai httpx2 jsonschema_rs uvicorn starlette "
    "openpyxl xberg pdf_oxide pypdfium2 trafilatura rich prompt_toolkit"
).split()
# Modules whose distribution has another name; the first two come with one, at exactly the version it needs.
PART_OF = {
    "pydantic_core": "pydantic",
    "mcp_types": "mcp",
    "PIL": "pillow",
    "agents": "openai-agents",
    "pydantic_ai": "pydantic-ai-slim",
    "yaml": "pyyaml",
}


def test_every_folder_is_a_package_so_that_the_floor_check_sees_it() -> None:
    folders = {path.parent for path in SOURCES if "migrations" not in path.parts}
    assert [str(folder) for folder in sorted(folders) if not (folder / "__init__.py").exists()] == []


def top_level(path: Path) -> Iterator[tuple[int, str]]:
    """Yield line and module of every import that runs when the module at `path` is imported on any system."""

    def walk(body: list[ast.stmt]) -> Iterator[tuple[int, str]]:
        for node in body:
            if isinstance(node, ast.Import):
                yield from ((node.lineno, alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
                yield node.lineno, node.module
            elif isinstance(node, ast.ClassDef):
                yield from walk(node.body)
            # an import below `if sys.platform ...` or in `try: ... except ImportError` is guarded

    yield from walk(ast.parse(path.read_text("utf-8")).body)


def linux_only() -> dict[str, list[str]]:
    """Modules that cannot be imported everywhere, with the reasons."""
    found = {
        path.stem: [
            f"line {line}: {name}" for line, name in top_level(path) if name.partition(".")[0] in NOT_EVERYWHERE
        ]
        for path in SOURCES
    }
    return {name: reasons for name, reasons in found.items() if reasons}


def test_only_sandbox_backends_need_their_system_to_be_imported() -> None:
    # probe_inside is a program that runs in the sandbox; nobody imports it
    assert set(linux_only()) <= {"bubblewrap", "probe_inside"}


def test_no_module_imports_one_that_needs_its_system_without_having_chosen_it() -> None:
    found: list[str] = []
    chosen = linux_only()
    for path in SOURCES:
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.ImportFrom) and node.level:
                parts = {*(node.module or "").split("."), *(alias.name for alias in node.names)}
                found += [f"{path.relative_to(ROOT)}:{node.lineno}" for name in chosen if name in parts]
    assert found == []


@pytest.mark.parametrize("words", [["--help"], ["tools", "--help"], ["--version"]], ids=" ".join)
def test_help_imports_nothing_heavy(words: list[str]) -> None:
    program = (
        "import sys\n"
        "from geode.cli.main import main\n"
        "try:\n    main(sys.argv[1:])\nexcept SystemExit:\n    pass\n"
        "print('LOADED ' + ' '.join(sorted({name.partition('.')[0] for name in sys.modules})))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *words], capture_output=True, text=True, timeout=30, check=True
    )
    loaded = done.stdout.rpartition("LOADED ")[2].split()
    assert [name for name in HEAVY if name in loaded] == []


def test_every_foreign_import_is_a_declared_dependency() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = (line for name, lines in declared["optional-dependencies"].items() if name != "dev" for line in lines)
    names = {
        re.split(r"[\[<>=!~; ]", line)[0].lower().replace("_", "-") for line in (*declared["dependencies"], *extras)
    }
    packages = metadata.packages_distributions()
    missing: set[str] = set()
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                modules = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
                modules = [node.module]
            else:
                continue
            for module in (module.partition(".")[0] for module in modules):
                if module in sys.stdlib_module_names or module == "geode":
                    continue
                owners = {PART_OF.get(module, module.replace("_", "-"))}
                owners |= {owner.lower().replace("_", "-") for owner in packages.get(module, [])}
                if not owners & names:
                    missing.add(f"{module} ({path.relative_to(ROOT)})")
    assert sorted(missing) == []


@pytest.mark.parametrize("name", ["mcp", "httpx2", "alembic", "sqlalchemy", "xberg"])
def test_a_dependency_that_breaks_with_majors_is_held_to_one(name: str) -> None:
    locked = (ROOT / "requirements/run.txt").read_text("utf-8")
    major = {"mcp": "2", "httpx2": "2", "alembic": "1", "sqlalchemy": "2", "xberg": "1"}[name]
    assert re.search(rf"^{name}=={major}\.", locked, re.MULTILINE)
