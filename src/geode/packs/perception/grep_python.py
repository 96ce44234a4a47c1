"""Search in pure Python, with the regular expressions of ripgrep and in linear time.

`re` would need protection from patterns that backtrack for ever; pydantic carries Rust's
`regex`, which ripgrep uses too.
"""

from __future__ import annotations

from pydantic_core import SchemaValidator, core_schema

from ...core.errors import PathEscape, ToolFailed
from ...core.ports import Workspace
from ..access import kind_of_path
from ..text import decode
from .matches import MAX_FILE_BYTES, MAX_MATCHES_PER_FILE, FileHits, Search, Searched
from .tree import place_of, walk

__all__ = ["search_in_python", "search_in_text"]

_ESCAPED = {c: f"\\{c}" for c in r"\.+*?()|[]{}^$#&-~"}
_WIDE_MARKS = (b"\xff\xfe", b"\xfe\xff")


def search_in_python(workspace: Workspace, search: Search) -> Searched:
    """Search below `search.path`; see `search_with_ripgrep`."""
    matcher = _matcher(search)
    files: list[FileHits] = []
    skipped = 0
    for path in _paths(workspace, search):
        try:
            with workspace.open_read(path) as stream:
                data = stream.read(MAX_FILE_BYTES + 1)
        except (ToolFailed, PathEscape):
            skipped += 1
            continue
        if len(data) > MAX_FILE_BYTES:
            skipped += 1
            continue
        hits = _search_data(path, data, matcher, search.context)
        if hits is not None:
            files.append(hits)
    notes = (f"{skipped} file{'' if skipped == 1 else 's'} could not be searched",) if skipped else ()
    return Searched(files, "python", not skipped, notes)


def search_in_text(text: str, cut: bool, search: Search) -> Searched:
    """Search one text, that of a stored result; `cut` when it is only the beginning."""
    hits = _search_lines(search.path, text.split("\n"), _matcher(search), search.context)
    notes = (f"only its first {len(text):,} characters were searched",) if cut else ()
    return Searched([hits] if hits is not None else [], "stored", not cut, notes)


def _matcher(search: Search) -> SchemaValidator:
    pattern = "".join(_ESCAPED.get(c, c) for c in search.pattern) if search.literal else search.pattern
    return SchemaValidator(core_schema.str_schema(pattern=f"(?i){pattern}" if search.ignore_case else pattern))


def _paths(workspace: Workspace, search: Search) -> list[str]:
    real, parts = place_of(workspace, search.path)
    if kind_of_path(real) != "dir":
        return ["/".join(parts)]
    return [
        entry.path
        for entry in walk(workspace, search.path, ignored=search.include_ignored)
        if entry.kind == "file"
        and (search.include_ignored or not entry.ignored)
        and (search.glob is None or search.glob.matches(entry.parts[len(parts) :]))
    ]


def _search_data(path: str, data: bytes, matcher: SchemaValidator, context: int) -> FileHits | None:
    if data.startswith(_WIDE_MARKS):
        text = decode(data).text
    elif b"\x00" in data:
        return None
    else:
        text = data.decode("utf-8-sig", "replace")
    return _search_lines(path, text.split("\n"), matcher, context)


def _search_lines(path: str, lines: list[str], matcher: SchemaValidator, context: int) -> FileHits | None:
    if lines[-1] == "":
        lines.pop()
    lines = [line.removesuffix("\r") for line in lines]
    test = matcher.isinstance_python
    matched = [number for number, line in enumerate(lines, 1) if test(line)][:MAX_MATCHES_PER_FILE]
    if not matched:
        return None
    hits = FileHits(path, matched=set(matched))
    for number in matched:
        for near in range(max(1, number - context), min(len(lines), number + context) + 1):
            hits.lines[near] = lines[near - 1]
    return hits
