"""read_file, list_directory, find_file: look at files of the workspace and at stored results."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from ...core.counts import counted
from ...core.effects import Effect
from ...core.errors import Missing, ToolFailed
from ...tools.tool import ToolContext, ToolOutput, Touch, tool
from ..text import kind_of_binary
from .globs import Glob
from .tree import Entry, walk
from .window import BinaryContent, TooLarge, Window, read_window, window_of_lines

__all__ = ["find_file", "list_directory", "read_file", "touch_path"]

_CHARS = 9_000
_MORE_CHARS = 50_000
RESULT = "result:"


def touch_path(arguments: Mapping[str, Any]) -> Iterable[Touch]:
    """The `path` of a reading tool; a stored result is no file."""
    path = str(arguments.get("path", "."))
    return () if path.startswith(RESULT) else (Touch(Effect.READ, path),)


def next_call(name: str, **arguments: Any) -> str:
    """How to call a tool again, as a model writes it."""
    return f"{name} {json.dumps(arguments, ensure_ascii=False)}"


# ---------------------------------------------------------------- read_file


@tool(
    effects=[Effect.READ],
    category="files",
    touches=touch_path,
    timeout=60,
    max_chars=60_000,
    examples=[
        {"path": "src/app/main.py"},
        {"path": "logs/build.log", "offset": 4801, "limit": 200},
        {"path": "result:4f7c2a91", "offset": 51},
    ],
)
async def read_file(
    context: ToolContext,
    path: Annotated[str, Field(min_length=1, max_length=4096)],
    offset: Annotated[int, Field(ge=1)] = 1,
    limit: Annotated[int, Field(ge=1, le=2000)] = 200,
    column: Annotated[int, Field(ge=1)] = 1,
) -> ToolOutput:
    """Read lines of a text file, or of a stored full output (`result:ID`).

    Use it to see a file before you change it and to read on where an output was cut. It does
    not read PDF, Word, Excel or HTML as documents (use read_document), does not search (use
    grep_file, much cheaper than reading whole files), and refuses binary files and directories.
    Text in UTF-8, UTF-16, CP949, Windows-1252 and Latin-1 is recognised.

    Result: a header (lines shown of all, encoding, line ends, version), then one line per line as
    `   12│text`: the number and │ are not part of the file, everything after │ is, tabs included.
    When there is more, the last line gives the call that reads on. Costs about 10 tokens a line;
    200 lines or 9,000 characters at once unless `limit` asks for more.

    Args:
        path: File relative to the workspace, for example `src/app/main.py`, or `result:4f7c2a91`.
        offset: First line to show, counted from 1.
        limit: How many lines to show at most; above 200 up to 50,000 characters are shown.
        column: Start at this character of the first line; only for a line too long to show at once.
    """
    chars = _CHARS if limit <= 200 else _MORE_CHARS
    if path.startswith(RESULT):
        window = await _read_result(context, path, offset, limit, column, chars)
    else:
        window = await asyncio.to_thread(_read_path, context, path, offset, limit, column, chars)
    return _shown(path, window, offset)


async def _read_result(context: ToolContext, path: str, offset: int, limit: int, column: int, chars: int) -> Window:
    if context.results is None:
        raise Missing("no stored results are available here", fix="run the tool again and ask for less at a time")
    call = context.call
    stored = await context.results.get(
        path.removeprefix(RESULT).strip(), session=call.session, principal=call.principal, offset=offset, limit=limit
    )
    lines = stored.text.split("\n")
    if lines and lines[-1] == "" and len(lines) > 1:
        lines.pop()
    if offset > stored.total_lines:
        lines = []
    return window_of_lines(lines[:limit], offset, stored.total_lines, column=column, chars=chars)


def _read_path(context: ToolContext, path: str, offset: int, limit: int, column: int, chars: int) -> Window:
    try:
        with context.workspace.open_read(path) as stream:
            return read_window(stream, offset=offset, limit=limit, column=column, chars=chars)
    except BinaryContent as binary:
        kind = kind_of_binary(binary.sample)
        document = kind.startswith(("PDF", "ZIP", "old Office"))
        raise ToolFailed(
            f"{path} is not text: it looks like {kind}",
            fix=next_call("read_document", path=path) if document else "use a tool that knows this kind of file",
        ) from binary
    except TooLarge as large:
        raise ToolFailed(
            f"{path} is too large to read as text",
            fix="search it with grep_file, or cut a part out with shell_exec (for example sed -n '1,200p')",
        ) from large


def _shown(path: str, window: Window, offset: int) -> ToolOutput:
    total = window.total_lines
    facts = {
        "path": path,
        "first_line": window.first,
        "shown_lines": len(window.lines),
        "total_lines": total,
        "next_offset": window.next_line or None,
        "next_column": window.next_column if window.next_line and window.next_column > 1 else None,
        "encoding": window.encoding or None,
        "version": window.version or None,
    }
    if total == 0:
        return ToolOutput(content=f"{path}: empty{_about(window)}", structured=facts)
    if offset > total:
        raise ToolFailed(
            f"{path} has {counted(total, 'line')}; line {offset:,} does not exist", fix="use a smaller offset"
        )
    last = window.first + len(window.lines) - 1
    header = f"{path}: lines {window.first:,}-{last:,} of {total:,}"
    if window.column > 1:
        header += f", from character {window.column:,}"
    body = [f"{window.first + at:>5}│{line}" for at, line in enumerate(window.lines)]
    footer: list[str] = []
    if window.next_line and window.next_column > 1:
        again = next_call("read_file", path=path, offset=window.next_line, column=window.next_column)
        footer = [f"[line {window.next_line:,} goes on at character {window.next_column:,}. Read on: {again}]"]
    elif window.next_line:
        again = next_call("read_file", path=path, offset=window.next_line)
        footer = [f"[{counted(total - window.next_line + 1, 'more line')}. Read on: {again}]"]
    return ToolOutput(content="\n".join([header + _about(window), *body, *footer]), structured=facts)


def _about(window: Window) -> str:
    facts = [window.encoding] if window.encoding not in ("", "utf-8") else []
    facts += [f"{window.endings} line ends"] if window.endings else []
    facts += ["tabs"] if window.tabs else []
    facts += [f"version {window.version}"] if window.version else []
    return f" ({', '.join(facts)})" if facts else ""


# ---------------------------------------------------------------- list_directory


@tool(
    effects=[Effect.READ],
    category="files",
    touches=touch_path,
    timeout=60,
    max_chars=30_000,
    examples=[{"path": "."}, {"path": "src", "depth": 3}],
)
def list_directory(
    context: ToolContext,
    path: Annotated[str, Field(min_length=1, max_length=4096)] = ".",
    depth: Annotated[int, Field(ge=1, le=6)] = 1,
    limit: Annotated[int, Field(ge=1, le=1000)] = 200,
    offset: Annotated[int, Field(ge=0)] = 0,
) -> ToolOutput:
    """List what a directory holds: names, sizes, kinds.

    Use it to get to know a project. To find files by name anywhere use find_file, by content
    grep_file: both are cheaper than listing a whole tree. It shows hidden entries, does not
    follow symbolic links, and does not open what `.gitignore` excludes or `.git` (their names are
    shown, marked `ignored`). It shows no file content.

    Result: a header with the number of entries, then one line an entry, sorted, as
    `src/app/main.py  1,204 bytes`; directories end in `/`. When there are more entries, the last
    line gives the call for the next ones.

    Args:
        path: Directory relative to the workspace, for example `src/app`; `.` is the workspace itself.
        depth: How many levels to list: 1 lists the directory alone.
        limit: How many entries to show at most.
        offset: How many entries to skip.
    """
    entries = list(walk(context.workspace, path, depth=depth))
    shown = entries[offset : offset + limit]
    lines = [_entry_line(entry) for entry in shown]
    more = len(entries) - offset - len(shown)
    if more > 0:
        again = next_call("list_directory", path=path, depth=depth, offset=offset + len(shown))
        lines.append(f"[{more:,} more entries. Next: {again}]")
    header = f"{path}: {len(entries):,} entries" if entries else f"{path}: empty"
    facts = {
        "path": path,
        "entries": [_entry_json(entry) for entry in shown],
        "total": len(entries),
        "next_offset": offset + len(shown) if more > 0 else None,
    }
    return ToolOutput(content="\n".join([header, *lines]), structured=facts)


def _entry_line(entry: Entry) -> str:
    if entry.kind == "dir":
        text = f"{entry.path}/"
    elif entry.kind == "file":
        text = f"{entry.path}  {entry.size:,} bytes"
    else:
        text = f"{entry.path}  ({'symbolic link' if entry.kind == 'link' else 'not a regular file'})"
    text += "  (ignored)" if entry.ignored else ""
    return text + (f"  ({entry.error})" if entry.error else "")


def _entry_json(entry: Entry) -> dict[str, Any]:
    return {"path": entry.path, "kind": entry.kind, "size": entry.size, "ignored": entry.ignored}


# ---------------------------------------------------------------- find_file


@tool(
    effects=[Effect.READ],
    category="files",
    touches=touch_path,
    timeout=60,
    max_chars=30_000,
    examples=[
        {"pattern": "*.py"},
        {"pattern": "src/**/test_*.{ts,tsx}"},
        {"pattern": "readme*", "ignore_case": True, "kind": "file"},
    ],
)
def find_file(
    context: ToolContext,
    pattern: Annotated[str, Field(min_length=1, max_length=1000)],
    path: Annotated[str, Field(min_length=1, max_length=4096)] = ".",
    kind: Literal["file", "dir", "any"] = "file",
    ignore_case: bool = False,
    include_ignored: bool = False,
    limit: Annotated[int, Field(ge=1, le=1000)] = 100,
    offset: Annotated[int, Field(ge=0)] = 0,
) -> ToolOutput:
    """Find files or directories by name.

    Use it when you know (part of) a name. It does not look into files (use grep_file), takes glob
    patterns and no regular expressions, skips what `.gitignore` excludes and `.git`, and does not
    follow symbolic links. Works the same on every platform.

    Result: a header with the number found, then one path a line, relative to the workspace and
    sorted, as `src/app/main.py  1,204 bytes`. When there are more, the last line gives the call for the
    next ones. Cheap: about 10 tokens a path.

    Args:
        pattern: Glob. Without `/` it is compared with names at any depth, for example `*.py`; with `/`
            with the whole path below `path`, for example `src/**/*.md`. `{a,b}` gives alternatives.
        path: Directory to search in, relative to the workspace.
        kind: What to find.
        ignore_case: True makes `readme*` find `README.md`.
        include_ignored: True also searches what `.gitignore` excludes, for example `node_modules`.
        limit: How many paths to show at most.
        offset: How many paths to skip.
    """
    glob = Glob(pattern, ignore_case=ignore_case)
    below = len(context.workspace.resolve(path).relative_to(context.workspace.root).parts)
    found = [
        entry
        for entry in walk(context.workspace, path, ignored=include_ignored)
        if (include_ignored or not entry.ignored)
        and (kind == "any" or entry.kind == kind or (kind == "file" and entry.kind == "link"))
        and glob.matches(entry.parts[below:])
    ]
    shown = found[offset : offset + limit]
    lines = [_entry_line(entry) for entry in shown]
    more = len(found) - offset - len(shown)
    if more > 0:
        again = {"pattern": pattern, "path": path, "kind": kind, "offset": offset + len(shown)}
        again |= {"ignore_case": True} if ignore_case else {}
        again |= {"include_ignored": True} if include_ignored else {}
        lines.append(f"[{more:,} more. Next: {next_call('find_file', **again)}]")
    header = f"{len(found):,} found for {pattern}" + ("" if path == "." else f" in {path}")
    if not found and not include_ignored:
        header += " (ignored files were not searched: include_ignored)"
    facts = {
        "paths": [entry.path for entry in shown],
        "total": len(found),
        "next_offset": offset + len(shown) if more > 0 else None,
    }
    return ToolOutput(content="\n".join([header, *lines]), structured=facts)
