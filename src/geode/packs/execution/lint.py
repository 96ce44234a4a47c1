"""Check a file right after it was written: Python, JSON, TOML, YAML, shell; findings with their place."""

from __future__ import annotations

import ast
import asyncio
import json
import os
import re
import shutil
import sys
import tomllib
import warnings
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any

from ...core.errors import GeodeError
from ...core.ports import Limits, ProcessRunner, ProcessSpec
from ...tools.tool import Problem, ToolContext, Verification
from ..process import whole_output
from ..text import decode
from .lint_json import check_json

__all__ = ["check_python", "check_toml", "check_yaml", "lint_written"]

_MAX_BYTES = 4 * 1024 * 1024
_MAX_PROBLEMS = 50
_WITH_COMMENTS = re.compile(r"(tsconfig|jsconfig|devcontainer|settings|launch|tasks|\.eslintrc|\.babelrc)[\w.-]*\.json")
"""Files of these names may hold comments by custom."""
_RUFF_RULES = "E9,F"
"""Syntax errors and what pyflakes finds: undefined names, unused imports and variables."""


async def lint_written(context: ToolContext, arguments: Mapping[str, Any], output: Any) -> Verification | None:
    """The `verify` of write_file and edit_file; None for files of which nothing is known."""
    del output
    path = str(arguments["path"])
    name = PurePosixPath(path.replace("\\", "/")).name.lower()
    check = _kind(name)
    if check is None:
        return None
    data = await asyncio.to_thread(_load, context, path)
    if data is None:
        return None
    if check == "python":
        return _limited(await _lint_python(context.runner, context, path, data))
    if check == "shell":
        return await _lint_shell(context.runner, context, path, data)
    text = decode(data).text
    checker = {"json": check_json, "toml": check_toml, "yaml": check_yaml}[check]
    found = await asyncio.to_thread(checker, text)
    return None if found is None else _limited(Verification(check, tuple(_at(p, path) for p in found)))


def _kind(name: str) -> str | None:
    if name.endswith((".py", ".pyi")):
        return "python"
    if name.endswith(".json") and not _WITH_COMMENTS.fullmatch(name):
        return "json"
    if name.endswith(".toml"):
        return "toml"
    if name.endswith((".yaml", ".yml")):
        return "yaml"
    return "shell" if name.endswith((".sh", ".bash")) else None


def _load(context: ToolContext, path: str) -> bytes | None:
    with context.workspace.open_read(path) as stream:
        data = stream.read(_MAX_BYTES + 1)
    return data if len(data) <= _MAX_BYTES else None


def _at(problem: Problem, path: str) -> Problem:
    return Problem(problem.message, problem.line, problem.column, problem.rule, path)


def _limited(verification: Verification) -> Verification:
    problems = verification.problems
    if len(problems) <= _MAX_PROBLEMS:
        return verification
    more = Problem(f"{len(problems) - _MAX_PROBLEMS} more problems", file=problems[0].file)
    return Verification(verification.checked_with, (*problems[:_MAX_PROBLEMS], more))


# ---------------------------------------------------------------- Python


@lru_cache(maxsize=1)
def _ruff() -> str:
    """The ruff program beside this Python or on the PATH, or ""."""
    beside = Path(sys.executable).parent / ("ruff.exe" if os.name == "nt" else "ruff")
    return str(beside) if beside.is_file() else shutil.which("ruff") or ""


async def _lint_python(runner: ProcessRunner | None, context: ToolContext, path: str, data: bytes) -> Verification:
    program = _ruff()
    if runner is not None and program:
        try:
            found = await _run_ruff(runner, context, program, path, data)
        except GeodeError:
            found = None  # the sandbox or ruff does not work here: the compiler's check remains
        if found is not None:
            return Verification("ruff", found)
    problems = await asyncio.to_thread(check_python, data)
    return Verification("python", tuple(_at(p, path) for p in problems))


async def _run_ruff(
    runner: ProcessRunner, context: ToolContext, program: str, path: str, data: bytes
) -> tuple[Problem, ...] | None:
    argv = (program, "check", "--isolated", "--no-cache", "--quiet", "--output-format=json", "--no-fix", "--exit-zero")
    argv += (f"--select={_RUFF_RULES}", f"--stdin-filename={PurePosixPath(path).name}", "-")
    outcome = await runner.run(
        ProcessSpec(argv=argv, cwd=context.workspace.root, stdin=data, limits=Limits(seconds=20))
    )
    text = whole_output(outcome.stdout)
    whole_output(outcome.stderr)
    if outcome.exit_code != 0:
        return None
    try:
        found: list[dict[str, Any]] = json.loads(text)
    except ValueError:
        return None
    return tuple(
        Problem(
            item["message"],
            int(item["location"]["row"]),
            int(item["location"]["column"]),
            str(item.get("code") or "syntax"),
            path,
        )
        for item in found
    )


def check_python(data: bytes) -> tuple[Problem, ...]:
    """Syntax errors of a Python file, found by the compiler without running anything."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            ast.parse(data)
        except SyntaxError as error:
            return (Problem(error.msg, error.lineno or 0, error.offset or 0, "syntax"),)
        except (ValueError, RecursionError, MemoryError) as error:
            return (Problem(str(error) or "nested too deeply", rule="syntax"),)
    return ()


# ---------------------------------------------------------------- others


def check_toml(text: str) -> tuple[Problem, ...]:
    """The first error of a TOML file."""
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        place = re.search(r" \(at line (\d+), column (\d+)\)\Z", str(error))
        if place is None:
            return (Problem(str(error).removesuffix(" (at end of document)"), text.count("\n") + 1, rule="syntax"),)
        return (Problem(str(error)[: place.start()], int(place[1]), int(place[2]), "syntax"),)
    except RecursionError:
        return (Problem("nested too deeply", rule="syntax"),)
    return ()


def check_yaml(text: str) -> tuple[Problem, ...] | None:
    """The first error of a YAML file and its repeated keys; None where no YAML parser is installed."""
    try:
        import yaml
    except ImportError:
        return None
    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        nodes: list[Any] = list(yaml.compose_all(text, Loader=loader))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        message = ": ".join(part for part in (error.context, error.problem) if part)
        if mark is None:
            return (Problem(message, rule="syntax"),)
        return (Problem(message, mark.line + 1, mark.column + 1, "syntax"),)
    except (yaml.YAMLError, RecursionError) as error:
        return (Problem(str(error).split("\n")[0] or "nested too deeply", rule="syntax"),)
    return tuple(_repeated(nodes))


def _repeated(nodes: list[Any]) -> list[Problem]:
    problems: list[Problem] = []
    todo, seen_nodes = [n for n in nodes if n is not None], set[int]()
    while todo:
        node = todo.pop()
        if id(node) in seen_nodes:
            continue
        seen_nodes.add(id(node))
        if node.id == "sequence":
            todo += node.value
        elif node.id == "mapping":
            keys: set[str] = set()
            for key, value in node.value:
                todo.append(value)
                if key.id == "scalar" and key.value != "<<":
                    if key.value in keys:
                        mark = key.start_mark
                        problems.append(
                            Problem(f"key {key.value!r} occurs twice", mark.line + 1, mark.column + 1, "duplicate-key")
                        )
                    keys.add(key.value)
    return sorted(problems, key=lambda p: (p.line, p.column))


async def _lint_shell(
    runner: ProcessRunner | None, context: ToolContext, path: str, data: bytes
) -> Verification | None:
    if runner is None:
        return None
    outcome = await runner.run(
        ProcessSpec(
            argv=("bash", "-n"), cwd=context.workspace.root, stdin=data, merge_stderr=True, limits=Limits(seconds=10)
        )
    )
    text = whole_output(outcome.stdout).decode("utf-8", "replace")
    found = re.findall(r"^bash: (?:line )?(\d+): (.+)$", text, re.MULTILINE)
    if outcome.exit_code not in (0, None) and not found:
        return None
    return Verification("bash -n", tuple(Problem(what, int(line), 0, "syntax", path) for line, what in found))
