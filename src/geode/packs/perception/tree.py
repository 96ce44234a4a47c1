"""Walk the directories of a workspace without ever following a link out of it."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ...core.effects import Scope
from ...core.errors import PathEscape, ToolFailed
from ...core.ports import Workspace
from ..access import kind_of_path
from .globs import IgnoreFile

__all__ = ["Entry", "place_of", "sort_key", "walk"]

_SKIPPED = frozenset({".git", ".hg", ".svn"})
_HAS_DIR_FD = os.open in os.supports_dir_fd and os.scandir in os.supports_fd
_MAX_IGNORE_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a directory.

    Attributes:
        parts: path relative to the workspace root.
        kind: "dir" | "file" | "link" | "other".
        size: bytes of a file; 0 otherwise.
        ignored: a `.gitignore` rule or version control excludes it.
        error: why a directory could not be read, or "".
    """

    parts: tuple[str, ...]
    kind: str
    size: int = 0
    ignored: bool = False
    error: str = ""

    @property
    def path(self) -> str:
        return "/".join(self.parts)


def sort_key(entry: Entry) -> tuple[str, ...]:
    return entry.parts


def place_of(workspace: Workspace, path: str) -> tuple[Path, tuple[str, ...]]:
    """The real path of an existing directory or file, and its parts below the root.

    Raises:
        PathEscape: outside.
        ToolFailed: it does not exist.
    """
    real = workspace.resolve(path)
    if kind_of_path(real) == "missing":
        raise ToolFailed(f"no such file or directory: {path}", fix='list what there is: list_directory {"path": "."}')
    return real, real.relative_to(workspace.root).parts


def walk(workspace: Workspace, path: str, *, depth: int | None = None, ignored: bool = False) -> Iterator[Entry]:
    """Entries below the directory `path`, each directory before its content, sorted by name.

    Args:
        workspace: resolves and guards the start.
        path: a directory in the workspace.
        depth: levels to descend; None: all.
        ignored: True also descends into what `.gitignore` excludes (never into `.git`).

    Symbolic links are reported and not followed. Ignored entries are reported with
    `ignored=True` and, unless `ignored`, not descended into.

    Raises:
        PathEscape, ToolFailed: see `place_of`; not a directory.
    """
    real, parts = place_of(workspace, path)
    if kind_of_path(real) != "dir":
        raise ToolFailed(f"{path} is not a directory", fix="give its directory, or use read_file")
    rules: list[tuple[int, IgnoreFile]] = []
    for level in range(len(parts)):
        _add_rules(rules, workspace, parts[:level])
    handle = _open_checked(real, workspace.root)
    try:
        yield from _walk(workspace, handle, real, parts, rules, depth, ignored)
    finally:
        if handle is not None:
            os.close(handle)


def _open_checked(real: Path, root: Path) -> int | None:
    """A handle on the directory that provably lies beneath the root; None where handles do not exist."""
    if not _HAS_DIR_FD:
        return None
    try:
        handle = os.open(real, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise ToolFailed(f"{real} cannot be read: {error.strerror}", fix="check its permissions") from error
    try:
        opened = Path(f"/proc/self/fd/{handle}").readlink()
    except OSError:
        return handle  # no /proc on this system: the check at resolving has to do
    if opened != root and root not in opened.parents:
        os.close(handle)
        raise PathEscape(f"{real} was replaced by a link out of the workspace while it was opened")
    return handle


def _walk(
    workspace: Workspace,
    handle: int | None,
    real: Path,
    parts: tuple[str, ...],
    rules: list[tuple[int, IgnoreFile]],
    depth: int | None,
    ignored: bool,
) -> Iterator[Entry]:
    if depth is not None and depth < 1:
        return
    rules = list(rules)
    _add_rules(rules, workspace, parts)
    for entry in _scan(handle, real, parts):
        excluded = entry.parts[-1] in _SKIPPED or _is_ignored(rules, entry)
        descend = entry.kind == "dir" and entry.parts[-1] not in _SKIPPED and (ignored or not excluded)
        if descend and workspace.scope(entry.path) is Scope.GEODE:
            continue
        problem = ""
        below: Iterator[Entry] = iter(())
        child: int | None = None
        if descend:
            try:
                child = _open_child(handle, entry.parts[-1])
                below = _walk(workspace, child, real / entry.parts[-1], entry.parts, rules, _less(depth), ignored)
            except OSError as error:
                problem = error.strerror or str(error)
        try:
            yield Entry(entry.parts, entry.kind, entry.size, excluded, problem)
            yield from below
        finally:
            if child is not None:
                os.close(child)


def _less(depth: int | None) -> int | None:
    return None if depth is None else depth - 1


def _open_child(handle: int | None, name: str) -> int | None:
    if handle is None:
        return None
    return os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=handle)


def _scan(handle: int | None, real: Path, parts: tuple[str, ...]) -> list[Entry]:
    entries: list[Entry] = []
    with os.scandir(real if handle is None else handle) as found:
        for item in found:
            try:
                info = item.stat(follow_symlinks=False)
            except OSError:
                continue  # gone since it was listed
            kind = "other"
            if stat.S_ISLNK(info.st_mode):
                kind = "link"
            elif stat.S_ISDIR(info.st_mode):
                kind = "dir"
            elif stat.S_ISREG(info.st_mode):
                kind = "file"
            entries.append(Entry((*parts, item.name), kind, info.st_size if kind == "file" else 0))
    return sorted(entries, key=sort_key)


def _add_rules(rules: list[tuple[int, IgnoreFile]], workspace: Workspace, parts: tuple[str, ...]) -> None:
    path = "/".join((*parts, ".gitignore"))
    if not os.path.isfile(workspace.root / path):
        return
    try:
        with workspace.open_read(path) as stream:
            text = stream.read(_MAX_IGNORE_BYTES).decode("utf-8", "replace")
    except (ToolFailed, PathEscape, OSError):
        return  # unreadable rules exclude nothing
    rules.append((len(parts), IgnoreFile(text)))


def _is_ignored(rules: list[tuple[int, IgnoreFile]], entry: Entry) -> bool:
    for level, file in reversed(rules):
        verdict = file.verdict(entry.parts[level:], is_dir=entry.kind == "dir")
        if verdict is not None:
            return verdict
    return False
