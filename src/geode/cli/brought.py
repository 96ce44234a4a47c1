"""What a project brings along, in words: what a person looks at before trusting it. Starts and runs nothing."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

from ..core.errors import ConfigError

__all__ = ["Brought", "brought_along"]

_CHARS = 300


@dataclass(frozen=True, slots=True)
class Brought:
    """One thing: its kind ("server", "tool", "rule", "skill", "problem"), its name, and what it runs or says."""

    kind: str
    name: str
    detail: str

    def to_json(self) -> dict[str, str]:
        return asdict(self)


def brought_along(project: Path, home: Path, files: tuple[str, ...]) -> list[Brought]:
    """Servers with their commands, declared tools with what they run, rules, and skills of a project.

    Args:
        project: the project directory.
        home: Geode's home.
        files: the files that trust covers, relative to the project.
    """
    return [*_servers(project, home), *_tools(project), *_rules(project), *_skills(files)]


def _cut(text: str) -> str:
    return text if len(text) <= _CHARS else f"{text[:_CHARS]}… ({len(text):,} characters)"


def _servers(project: Path, home: Path) -> Iterator[Brought]:
    from ..mcp.config import load_servers

    declared = load_servers(project, home)
    for config in declared.servers.values():
        if config.scope != "user":
            names = [f"{key}=…" for key in (*config.env, *config.headers)]
            yield Brought("server", config.name, _cut(" ".join((config.target, *names))))
    for problem in declared.problems:
        yield Brought("problem", problem.server, _cut(problem.message))


def _tools(project: Path) -> Iterator[Brought]:
    from ..tools.definitions import FILE, load_definitions

    path = project / FILE
    try:
        loaded = load_definitions(project)
        if not os.path.lexists(path):
            return
        document: Any = json.loads(path.read_bytes().decode("utf-8-sig"))
    except (ConfigError, OSError, ValueError, RecursionError) as problem:
        yield Brought("problem", str(FILE), _cut(str(problem)))
        return
    entries: list[Any] = document.get("tools", []) if isinstance(document, dict) else document
    usable = {tool.name for tool in loaded.tools}
    for entry in entries:
        if isinstance(entry, dict) and cast("dict[str, Any]", entry).get("name") in usable:
            given = cast("dict[str, Any]", entry)
            yield Brought("tool", str(given.get("name", "")), _cut(_binding(given)))
    for problem in loaded.problems:
        yield Brought("problem", problem.tool, _cut(problem.reason))


def _binding(entry: Mapping[str, Any]) -> str:
    """What a declared tool runs: its command line, request or Python function."""
    for kind in ("command", "http", "python"):
        value = entry.get(kind)
        if isinstance(value, list):
            return " ".join(map(str, cast("list[Any]", value)))
        if isinstance(value, dict):
            request = cast("dict[str, Any]", value)
            return f"{request.get('method', 'GET')} {request.get('url', '')}"
        if value is not None:
            return f"{kind} {value}"
    return ""


def _rules(project: Path) -> Iterator[Brought]:
    import tomllib

    path = project / ".geode" / "config.toml"
    try:
        with path.open("rb") as file:
            rules: Any = tomllib.load(file).get("rules", [])
    except (OSError, ValueError):
        return  # a bad settings file is told by every command
    for rule in rules if isinstance(rules, list) else []:
        if isinstance(rule, dict):
            given = cast("dict[str, Any]", rule)
            conditions = {k: v for k, v in given.items() if k not in ("name", "verdict", "reason", "advice")}
            yield Brought(
                "rule", str(given.get("name", "")), _cut(f"{given.get('verdict')} {conditions or ''}".strip())
            )


def _skills(files: tuple[str, ...]) -> Iterator[Brought]:
    folders: dict[str, int] = {}
    heads = {str(Path(name).parent.as_posix()) for name in files if name.rpartition("/")[2].lower() == "skill.md"}
    for name in files:
        for folder in heads:
            if name.startswith(f"{folder}/"):
                folders[folder] = folders.get(folder, 0) + 1
    for folder, count in sorted(folders.items()):
        yield Brought("skill", folder.rpartition("/")[2], f"{folder}: {count} file{'' if count == 1 else 's'}")
