"""Search with ripgrep inside the sandbox."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import shutil
import sys
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from ...core.errors import SandboxUnavailable, ToolFailed
from ...core.ports import Limits, ProcessRunner, ProcessSpec, Workspace
from ..access import kind_of_path
from ..process import whole_output
from .matches import MAX_FILE_BYTES, MAX_MATCHES_PER_FILE, FileHits, Search, Searched
from .tree import place_of

__all__ = ["ripgrep", "search_with_ripgrep"]

_SECONDS = 45.0
_OUTPUT_BYTES = 48 * 1024 * 1024


@lru_cache(maxsize=1)
def ripgrep() -> str:
    """Path of the `rg` program beside this Python or on the PATH, or ""."""
    beside = Path(sys.executable).parent / ("rg.exe" if os.name == "nt" else "rg")
    return str(beside) if beside.is_file() else shutil.which("rg") or ""


async def search_with_ripgrep(
    runner: ProcessRunner, workspace: Workspace, program: str, search: Search
) -> Searched | None:
    """Search below `search.path`; None when ripgrep could not do it and Python has to.

    Raises:
        ToolFailed: the path does not exist, or it took too long; PathEscape: it lies outside.
    """
    real, parts = await asyncio.to_thread(place_of, workspace, search.path)
    is_dir = kind_of_path(real) == "dir"
    target = "/".join(parts) or "."
    argv = [program, "--json", "--no-config", "--hidden", "--no-messages", "--no-require-git", "--no-follow"]
    argv += ["--no-ignore-dot", "--no-ignore-exclude", "--no-ignore-global", "--no-ignore-parent"]
    argv += ["--max-filesize", str(MAX_FILE_BYTES), "--max-count", str(MAX_MATCHES_PER_FILE), "--crlf"]
    argv += ["--glob", "!**/.git", "--glob", "!**/.hg", "--glob", "!**/.svn"] if is_dir else []
    argv += ["--no-ignore"] if search.include_ignored else []
    argv += ["--fixed-strings"] if search.literal else []
    argv += ["--ignore-case"] if search.ignore_case else ["--case-sensitive"]
    argv += ["--context", str(search.context)] if search.context else []
    argv += ["--regexp", search.pattern, "--", target]
    spec = ProcessSpec(
        argv=tuple(argv),
        cwd=workspace.root,
        readable=(workspace.root,),
        limits=Limits(seconds=_SECONDS, output_bytes=_OUTPUT_BYTES),
    )
    try:
        outcome = await runner.run(spec)
    except (SandboxUnavailable, ToolFailed):
        return None  # no sandbox, or ripgrep lies where the sandbox does not see it
    whole_output(outcome.stderr)
    data = await asyncio.to_thread(whole_output, outcome.stdout)
    if outcome.exit_code not in (0, 1, 2) and not outcome.stopped:
        return None
    if outcome.exit_code == 2 and not data.strip():
        return None
    if outcome.stopped == "timeout" and not data:
        raise ToolFailed(f"the search took longer than {_SECONDS:.0f} s", fix="search a smaller directory")
    files, whole = await asyncio.to_thread(_parse, data, search, len(parts) if is_dir else None)
    notes: tuple[str, ...] = ()
    if outcome.stopped or not whole:
        notes = ("the search was cut off: there are more matches; search for less",)
    return Searched(files, "ripgrep", not notes, notes)


def _parse(data: bytes, search: Search, below: int | None) -> tuple[list[FileHits], bool]:
    files: list[FileHits] = []
    current: FileHits | None = None
    whole = False
    for event in _events(data):
        kind, body = event.get("type"), event.get("data", {})
        if kind == "begin":
            current = FileHits(_text(body["path"]).removeprefix("./").replace(os.sep, "/"))
        elif kind in ("match", "context") and current is not None:
            line, number = _text(body["lines"]), int(body["line_number"])
            current.lines[number] = line.removesuffix("\n").removesuffix("\r")
            if kind == "match":
                current.matched.add(number)
        elif kind == "end" and current is not None:
            if body.get("binary_offset") is None and _wanted(current, search, below):
                files.append(current)
            current = None
        elif kind == "summary":
            whole = True
    return files, whole


def _wanted(hits: FileHits, search: Search, below: int | None) -> bool:
    if not hits.matched:
        return False
    return search.glob is None or below is None or search.glob.matches(tuple(hits.path.split("/"))[below:])


def _events(data: bytes) -> Iterator[dict[str, Any]]:
    for line in data.split(b"\n"):
        if line.startswith(b"{"):
            try:
                yield json.loads(line)
            except ValueError:
                return  # cut off by the output limit


def _text(value: dict[str, str]) -> str:
    if "text" in value:
        return value["text"]
    return base64.b64decode(value["bytes"]).decode("utf-8", "replace")
