"""Finds, inside the directories a process gets, what it must not read or must not change.

A rule that keeps `.env` from a file tool is worth nothing when `cat .env` works, so secret
files are masked in the sandbox too. Names that steer other programs are found in nested
projects as well. A directory is read again only when its modification time has changed.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from ..places import is_secret

__all__ = ["Found", "TreeScan"]

_SKIPPED = frozenset({"node_modules", "site-packages", "dist-packages", "__pycache__", ".git", ".hg", ".svn", ".tox",
                      ".nox", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".cache"})  # fmt: skip
_STEERING = frozenset(
    {".claude", ".codex", ".cursor", ".geode", ".husky", ".idea", ".mcp.json", ".vscode", ".windsurf"}
)
_FOLDERS = 20_000
_MASKED = 256
_SETTLED = 1.0  # seconds: a directory changed more recently is read again, its time stamp is too coarse to trust


@dataclass(slots=True)
class Found:
    """What a tree holds. `complete` is False when it was too large to look through."""

    secrets: list[Path] = field(default_factory=list[Path])
    steering: list[Path] = field(default_factory=list[Path])
    checkouts: list[Path] = field(default_factory=list[Path])
    complete: bool = True


@dataclass(slots=True)
class _Folder:
    changed: int
    folders: list[str]
    found: Found


class TreeScan:
    """Looks through directories, remembering what did not change.

    Args:
        home: the person's home, for secrets that are known by their place in it.
        skip: directories that are not looked into.
    """

    def __init__(self, home: Path, skip: Iterable[Path] = ()) -> None:
        self._home = home
        self._skip = frozenset(str(path) for path in skip)
        self._known: dict[str, _Folder] = {}
        self._lock = threading.Lock()

    def find(self, top: Path) -> Found:
        """Everything beneath one real directory; symlinks are not followed. Never raises."""
        result = Found()
        with self._lock:
            waiting = [str(top)]
            count = 0
            while waiting:
                count += 1
                if count > _FOLDERS or len(result.secrets) > _MASKED:
                    result.complete = False
                    break
                folder = self._folder(waiting.pop())
                waiting += folder.folders
                result.secrets += folder.found.secrets
                result.steering += folder.found.steering
                result.checkouts += folder.found.checkouts
            if len(self._known) > 4 * _FOLDERS:
                self._known.clear()
        return result

    def _folder(self, path: str) -> _Folder:
        try:
            changed = os.stat(path).st_mtime_ns
        except OSError:
            return _Folder(0, [], Found())
        known = self._known.get(path)
        if known is not None and known.changed == changed and changed / 1e9 < time.time() - _SETTLED:
            return known
        folder = _Folder(changed, [], Found())
        try:
            with os.scandir(path) as entries:
                for entry in entries:
                    self._entry(entry, folder)
        except OSError:
            pass  # unreadable for us, so for the process too
        self._known[path] = folder
        return folder

    def _entry(self, entry: os.DirEntry[str], folder: _Folder) -> None:
        here = Path(entry.path)
        if entry.is_symlink():
            return
        directory = entry.is_dir(follow_symlinks=False)
        if entry.name in _STEERING:
            folder.found.steering.append(here)
        if entry.name == ".git":
            folder.found.checkouts.append(here.parent)
        elif is_secret(here, self._home):
            folder.found.secrets.append(here)
            return
        if directory and entry.name not in _SKIPPED and entry.path not in self._skip:
            folder.folders.append(entry.path)
