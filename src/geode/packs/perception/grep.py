"""grep_file: search in files, with ripgrep in the sandbox or in Python; both give the same."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field
from pydantic_core import SchemaError, SchemaValidator, core_schema

from ...core.counts import counted
from ...core.effects import Effect, Scope
from ...core.errors import Missing, ToolFailed
from ...tools.tool import ToolContext, ToolOutput, tool
from ..text import cut_text
from .files import RESULT, next_call, touch_path
from .globs import Glob
from .grep_python import search_in_python, search_in_text
from .grep_ripgrep import ripgrep, search_with_ripgrep
from .matches import FileHits, Search, Searched

__all__ = ["grep_file"]

_LINE_CHARS = 400
_HIDDEN = frozenset({Scope.SECRET, Scope.GEODE, Scope.HOME, Scope.SYSTEM, Scope.UNKNOWN})


@tool(
    effects=[Effect.READ],
    category="files",
    touches=touch_path,
    timeout=60,
    max_chars=30_000,
    examples=[
        {"pattern": "def main"},
        {"pattern": r"TODO\(\w+\)", "path": "src", "glob": "*.{py,ts}", "context": 2},
        {"pattern": "price[0]", "literal": True, "ignore_case": True},
    ],
)
async def grep_file(
    context_: ToolContext,
    pattern: Annotated[str, Field(min_length=1, max_length=2000)],
    path: Annotated[str, Field(min_length=1, max_length=4096)] = ".",
    glob: Annotated[str, Field(max_length=1000)] = "",
    literal: bool = False,
    ignore_case: bool = False,
    context: Annotated[int, Field(ge=0, le=10)] = 0,
    include_ignored: bool = False,
    limit: Annotated[int, Field(ge=1, le=500)] = 50,
    offset: Annotated[int, Field(ge=0)] = 0,
) -> ToolOutput:
    """Search the text of files, or of a stored full output (`result:ID`), line by line.

    Use it to find where something is defined or used before reading whole files. It does not match
    over line ends, does not look into PDF, Office or other binary files (use read_document), skips what
    `.gitignore` excludes, `.git`, and files that hold secrets, and does not follow symbolic links.
    The regular expression is Rust's: no look-around, no back references.

    Result: a header with the number of matching lines and files, then `path:12: text` a match and
    `path-11- text` a context line, sorted by path; long lines are cut visibly. When there are more, the
    last line gives the call for the next ones. The same on every platform. About 25 tokens a match.

    Args:
        pattern: Regular expression, for example `def \\w+_test`; with `literal` plain text.
        path: Directory or file to search, relative to the workspace, or `result:4f7c2a91`.
        glob: Only files that match, for example `*.py` or `src/**/*.{ts,tsx}`; empty: all.
        literal: True takes `pattern` as plain text, for example `price[0]`.
        ignore_case: True ignores upper and lower case.
        context: Lines to show before and after each match.
        include_ignored: True also searches what `.gitignore` excludes.
        limit: How many matches to show at most.
        offset: How many matches to skip.
    """
    _check_pattern(pattern, literal)
    search = Search(pattern, path, literal, ignore_case, context, include_ignored, Glob(glob) if glob.strip() else None)
    if path.startswith(RESULT):
        searched = await _search_result(context_, search)
        files, hidden = searched.files, 0
    else:
        searched = await _search(context_, search)
        files, hidden = _visible(context_, searched.files)
    again = {"pattern": pattern, "path": path, "glob": glob, "literal": literal, "ignore_case": ignore_case}
    again |= {"context": context, "include_ignored": include_ignored}
    asked = {name: value for name, value in again.items() if value not in ("", False, 0, ".")}
    return _shown(files, searched, hidden, asked, limit, offset)


def _check_pattern(pattern: str, literal: bool) -> None:
    if "\n" in pattern:
        raise ToolFailed("the pattern holds a line end; matching is line by line", fix="search for one line of it")
    if literal:
        return
    try:
        SchemaValidator(core_schema.str_schema(pattern=pattern))
    except SchemaError as error:
        reason = str(error).split("error: ")[-1].strip()
        raise ToolFailed(
            f"{pattern!r} is not a regular expression: {reason}",
            fix="correct it, or set literal to search for this text as it is",
        ) from error


async def _search(context: ToolContext, search: Search) -> Searched:
    program = ripgrep()
    if context.runner is not None and program:
        found = await search_with_ripgrep(context.runner, context.workspace, program, search)
        if found is not None:
            return found
    return await asyncio.to_thread(search_in_python, context.workspace, search)


_RESULT_CHARS = 16 * 1024 * 1024


async def _search_result(context: ToolContext, search: Search) -> Searched:
    """Search a full output that was stored, as far as it fits into memory comfortably."""
    if context.results is None:
        raise Missing("no stored results are available here", fix="run the tool again and ask for less at a time")
    call = context.call
    stored = await context.results.get(
        search.path.removeprefix(RESULT).strip(),
        session=call.session,
        principal=call.principal,
        limit=1_000_000,
        max_chars=_RESULT_CHARS,
    )
    return await asyncio.to_thread(search_in_text, stored.text, stored.total_chars > len(stored.text) + 1, search)


def _visible(context: ToolContext, files: list[FileHits]) -> tuple[list[FileHits], int]:
    """Without files whose content must not be shown; and how many those are."""
    shown = [file for file in files if context.workspace.scope(file.path) not in _HIDDEN]
    return shown, len(files) - len(shown)


def _shown(
    files: list[FileHits], searched: Searched, hidden: int, asked: Mapping[str, Any], limit: int, offset: int
) -> ToolOutput:
    files = sorted(files, key=lambda f: f.path.split("/"))
    total = sum(len(file.matches) for file in files)
    lines: list[str] = []
    matches: list[dict[str, Any]] = []
    skip, room = offset, limit
    for file in files:
        wanted = file.matches[skip : skip + room]
        skip = max(0, skip - len(file.matches))
        room -= len(wanted)
        if not wanted:
            continue
        lines += _file_lines(file, wanted, int(asked.get("context", 0)))
        matches += [{"path": file.path, "line": n, "text": _cut(file.lines[n])} for n in wanted]
    shown = len(matches)
    more = total - offset - shown
    header = f"{counted(total, 'matching line')} in {counted(len(files), 'file')}"
    header = header if total else f"no match for {asked['pattern']}"
    notes = list(searched.notes)
    if hidden:
        notes.append(f"{counted(hidden, 'file')} with secrets left out")
    if not total and not asked.get("include_ignored") and searched.engine != "stored":
        notes.append("ignored files were not searched: include_ignored")
    header += f" ({'; '.join(notes)})" if notes else ""
    if more > 0:
        lines.append(f"[{more:,} more matches. Next: {next_call('grep_file', **asked, offset=offset + shown)}]")
    facts = {
        "matches": matches,
        "total": total,
        "files": len(files),
        "next_offset": offset + shown if more > 0 else None,
        "complete": searched.complete,
    }
    return ToolOutput(
        content="\n".join([header, *lines]), structured=facts, details={"engine": searched.engine, "hidden": hidden}
    )


def _file_lines(file: FileHits, wanted: list[int], context: int) -> list[str]:
    marked = set(wanted)
    near = sorted({n for w in wanted for n in range(w - context, w + context + 1) if n in file.lines})
    lines: list[str] = []
    last = 0
    for number in near:
        if context and last and number > last + 1:
            lines.append("--")
        sign = ":" if number in marked or number in file.matched else "-"
        lines.append(f"{file.path}{sign}{number}{sign} {_cut(file.lines[number])}")
        last = number
    return lines


def _cut(line: str) -> str:
    if len(line) <= _LINE_CHARS:
        return line
    return f"{cut_text(line, _LINE_CHARS)} [… {len(line):,} characters]"
