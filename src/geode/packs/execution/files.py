"""write_file, edit_file: change files of the workspace; what was written is linted at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from ...core.counts import counted
from ...core.effects import Effect
from ...core.errors import ToolFailed
from ...core.messages import SideEffects
from ...tools.tool import ToolContext, ToolOutput, Touch, tool
from ..access import kind_of_path
from ..text import Decoded, count_endings, decode, is_binary, kind_of_binary, version_of
from .diff import small_diff
from .editing import apply_edit
from .lint import lint_written

__all__ = ["edit_file", "write_file"]

_MAX_EDIT_BYTES = 16 * 1024 * 1024
_MAX_CONTENT = 4_000_000
_BOM = {"utf-8-bom": b"\xef\xbb\xbf", "utf-16-le": b"\xff\xfe", "utf-16-be": b"\xfe\xff"}

Encoding = Literal["keep", "utf-8", "utf-8-bom", "utf-16-le", "utf-16-be", "cp949", "latin-1"]


def _touch_written(arguments: Mapping[str, Any]) -> Iterable[Touch]:
    return (Touch(Effect.WRITE, str(arguments.get("path", ""))),)


def _failed(message: str, fix: str) -> ToolFailed:
    return ToolFailed(message, fix=fix, side_effects=SideEffects.NONE)


def _view_write(arguments: Mapping[str, Any]) -> str:
    content = str(arguments.get("content", ""))
    lines = content.split("\n")
    shown = "\n".join(lines[:40]) + (f"\n… {len(lines) - 40} more lines" if len(lines) > 40 else "")
    mode = arguments.get("mode", "create")
    return f"{mode} {arguments.get('path')} ({len(content):,} characters)\n{shown}"


def _view_edit(arguments: Mapping[str, Any]) -> str:
    every = "every place" if arguments.get("replace_all") else "one place"
    old, new = str(arguments.get("old_text", "")), str(arguments.get("new_text", ""))
    return f"edit {arguments.get('path')}, {every}\n{small_diff(old, new)}"


@dataclass(frozen=True, slots=True)
class _Existing:
    """A file as it is now."""

    data: bytes

    @property
    def version(self) -> str:
        return version_of(self.data)


@contextmanager
def _whole_or_not() -> Iterator[None]:
    """Whatever fails in here has changed nothing: there is one write, and it replaces the file as a whole."""
    try:
        yield
    except ToolFailed as error:
        error.side_effects = error.side_effects or SideEffects.NONE
        raise


@_whole_or_not()
def _existing(context: ToolContext, path: str, *, limit: int) -> _Existing | None:
    """The file's content, or None when there is no such file.

    Raises:
        PathEscape, ToolFailed: it cannot be read, or is larger than `limit`.
    """
    if kind_of_path(context.workspace.resolve(path)) == "missing":
        return None
    with context.workspace.open_read(path) as stream:
        data = stream.read(limit + 1)
    if len(data) > limit:
        raise _failed(
            f"{path} is larger than {limit // 1024**2} MB", "change it with shell_exec (for example sed -i) instead"
        )
    return _Existing(data)


@_whole_or_not()
def _write(context: ToolContext, path: str, data: bytes, *, create_parents: bool = True) -> bool:
    return context.workspace.write(path, data, create_parents=create_parents)


def _check_version(path: str, version: str, now: str) -> None:
    if version and version.lower() != now:
        raise _failed(
            f"{path} has changed since it was read (version {version}, now {now})",
            "read it again with read_file and repeat the change on what is there now",
        )


# ---------------------------------------------------------------- write_file


@tool(
    effects=[Effect.WRITE],
    category="files",
    touches=_touch_written,
    verify=lint_written,
    view=_view_write,
    idempotent=False,
    timeout=60,
    examples=[
        {"path": "src/app/hello.py", "content": "def hello() -> str:\n    return 'hello'\n"},
        {"path": "data/config.json", "content": '{"retries": 3}\n', "mode": "overwrite", "version": "3f2a9c01b7de"},
    ],
)
def write_file(
    context: ToolContext,
    path: Annotated[str, Field(min_length=1, max_length=4096)],
    content: Annotated[str, Field(max_length=_MAX_CONTENT)],
    mode: Literal["create", "overwrite"] = "create",
    version: Annotated[str, Field(pattern="^([0-9a-fA-F]{12})?$")] = "",
    encoding: Encoding = "keep",
) -> ToolOutput:
    """Write a whole text file: a new one, or (with `mode` overwrite) instead of an existing one.

    Use it for new files and for rewriting small ones. To change part of a file use edit_file: it is
    cheaper and leaves the rest alone. It does not append, writes text only, refuses to replace an
    existing file unless `mode` is `overwrite`, and missing directories are made. The content is
    written as given, with two exceptions that the result reports: an existing file keeps its
    encoding, and a file with CRLF line ends keeps them when the content has none.

    Result: what was done, size and version of the file, for an overwritten file a small diff, and
    findings of the linter (Python, JSON, TOML, YAML, shell) as `line:column message`. The file is
    replaced in one step: on an error nothing has changed.

    Args:
        path: File relative to the workspace, for example `src/app/hello.py`.
        content: The whole new text, with its last line end.
        mode: `create` fails when the file exists; `overwrite` replaces it, or makes it.
        version: Version that read_file showed; when the file has changed since, nothing is written.
        encoding: `keep` means the existing file's, or UTF-8 for a new one.
    """
    before = _existing(context, path, limit=_MAX_EDIT_BYTES)
    if before is not None and mode == "create":
        raise _failed(
            f"{path} already exists ({len(before.data):,} bytes, version {before.version})",
            'change it with edit_file, or replace it whole with "mode": "overwrite"',
        )
    if before is None and version:
        raise _failed(f"{path} does not exist any more", "leave out version to create it")
    if before is not None:
        _check_version(path, version, before.version)
    notes: list[str] = []
    old = decode(before.data) if before is not None and not is_binary(before.data[:8192]) else None
    text = _line_ends(content, old, notes)
    data = _encoded(path, text, old, encoding, notes)
    if before is not None and before.data == data:
        return ToolOutput(
            content=f"{path} already has exactly this content; nothing was written",
            structured={"path": path, "created": False, "changed": False, "version": before.version},
            side_effects=SideEffects.NONE,
        )
    if before is not None:
        _recheck(context, path, before)
    created = _write(context, path, data)
    done = "created" if created else "overwritten"
    diff = small_diff(old.text, text) if old is not None else ""
    return _written(path, data, done, diff, notes, {"created": created})


def _line_ends(content: str, old: Decoded | None, notes: list[str]) -> str:
    """The content with the line ends of the file it replaces, when that has CRLF throughout."""
    if old is None or "\r" in content:
        return content
    counts = count_endings(old.text)
    if counts["\r\n"] and not counts["\n"] and "\n" in content:
        notes.append("the file's CRLF line ends were kept")
        return content.replace("\n", "\r\n")
    return content


def _encoded(path: str, text: str, old: Decoded | None, encoding: str, notes: list[str]) -> bytes:
    if encoding == "keep" and old is not None:
        codec, bom = old.encoding, old.bom
        if codec != "utf-8" or bom:
            notes.append(f"the file's encoding was kept: {old.label}")
    else:
        codec = {"keep": "utf-8", "utf-8-bom": "utf-8"}.get(encoding, encoding)
        bom = _BOM.get(encoding, b"")
    text = text.removeprefix("\ufeff") if bom else text
    try:
        return bom + text.encode(codec)
    except UnicodeEncodeError as error:
        char = text[error.start]
        line = text.count("\n", 0, error.start) + 1
        raise _failed(
            f"{path} is written in {codec}, which has no {char!r} (U+{ord(char):04X}, line {line})",
            'give "encoding": "utf-8" to write it in UTF-8 from now on, or leave the character out',
        ) from error


def _recheck(context: ToolContext, path: str, before: _Existing) -> None:
    """The file must still be what was looked at: another writer's work is not overwritten."""
    now = _existing(context, path, limit=_MAX_EDIT_BYTES)
    if now is None or now.data != before.data:
        raise _failed(f"{path} was changed by someone else meanwhile", "read it again and repeat the change")


def _written(path: str, data: bytes, done: str, diff: str, notes: list[str], facts: Mapping[str, Any]) -> ToolOutput:
    lines = data.count(b"\n") + (bool(data) and not data.endswith(b"\n"))
    version = version_of(data)
    text = [f"{path} {done}: {counted(lines, 'line')}, {counted(len(data), 'byte')}, version {version}"]
    if diff:
        text.append(diff)
    structured = {"path": path, "changed": True, "bytes": len(data), "lines": lines, "version": version, **facts}
    return ToolOutput(
        content="\n".join(text),
        structured={**structured, "diff": diff, "notes": notes},
        side_effects=SideEffects.DONE,
        notes=tuple(notes),
    )


# ---------------------------------------------------------------- edit_file


@tool(
    effects=[Effect.WRITE],
    category="files",
    touches=_touch_written,
    verify=lint_written,
    view=_view_edit,
    idempotent=False,
    timeout=60,
    examples=[
        {"path": "src/app/hello.py", "old_text": "return 'hello'", "new_text": "return 'hello, world'"},
        {"path": "README.md", "old_text": "colour", "new_text": "color", "replace_all": True},
    ],
)
def edit_file(
    context: ToolContext,
    path: Annotated[str, Field(min_length=1, max_length=4096)],
    old_text: Annotated[str, Field(min_length=1, max_length=1_000_000)],
    new_text: Annotated[str, Field(max_length=1_000_000)],
    replace_all: bool = False,
    version: Annotated[str, Field(pattern="^([0-9a-fA-F]{12})?$")] = "",
) -> ToolOutput:
    """Replace one piece of text in a file; everything else keeps its bytes.

    Use it to change an existing file: read the place with read_file, copy it without the line
    numbers, and give old and new text. It does not create files (use write_file), takes no regular
    expression and no line numbers, and refuses when `old_text` is missing or occurs more than once.
    Looking is tolerant only where that is unambiguous: other line ends, tabs for blanks, typographic
    quotes, Unicode form, blanks at line ends; the result says which difference was overlooked. Writing
    is exact: `new_text` as given, with the file's line ends, indentation and encoding.

    Result: how many places were replaced at which lines, a small diff, the new version, and findings
    of the linter (Python, JSON, TOML, YAML, shell) as `line:column message`. On an error nothing has changed.
    Costs little more than the two texts; much cheaper than writing the file anew.

    Args:
        path: File relative to the workspace, for example `src/app/hello.py`.
        old_text: The text to replace, with enough lines around it to be unique.
        new_text: The text to put there; empty removes it.
        replace_all: True replaces every occurrence, for example to rename something.
        version: Version that read_file showed; when the file has changed since, nothing is written.
    """
    before = _existing(context, path, limit=_MAX_EDIT_BYTES)
    if before is None:
        with _whole_or_not(), context.workspace.open_read(path):  # says why, with similar names
            raise _failed(f"{path} appeared just now", "read it first")
    if is_binary(before.data[:8192]):
        raise _failed(f"{path} is not text: it looks like {kind_of_binary(before.data[:64])}", "edit text files only")
    _check_version(path, version, before.version)
    edited = apply_edit(before.data, old_text, new_text, replace_all=replace_all, name=path)
    _recheck(context, path, before)
    _write(context, path, edited.data, create_parents=False)
    places = "1 place" if edited.replacements == 1 else f"{edited.replacements:,} places"
    at = ", ".join(str(n) for n in edited.lines[:10]) + (", …" if len(edited.lines) > 10 else "")
    notes = [f"overlooked: {what}" for what in edited.tolerances] + list(edited.notes)
    facts = {
        "created": False,
        "replacements": edited.replacements,
        "at_lines": list(edited.lines[:100]),
        "tolerances": list(edited.tolerances),
    }
    diff = small_diff(edited.before, edited.after)
    return _written(path, edited.data, f"edited, {places} replaced (line {at})", diff, notes, facts)
