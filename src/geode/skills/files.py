"""The files of a skill's folder: listed, measured, and read without ever leaving it.

Links that stay inside the folder count as what they lead to; every other link, and everything
that is not a regular file, is refused. Where the system can, a file is opened step by step from
the folder's descriptor without following links, so a swapped link gains nothing.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .findings import Finding, SkillInvalid

__all__ = ["MAX_FILES", "MAX_TOTAL", "SkillFile", "fingerprint", "folder_files", "read_beneath"]

MAX_FILES = 2000
"""Files of one skill."""
MAX_TOTAL = 64 * 1024 * 1024
"""Bytes of one skill."""
_SKIPPED = frozenset({".git", "__pycache__", ".DS_Store"})
_DIR_FD = os.open in os.supports_dir_fd and hasattr(os, "O_NOFOLLOW")
_READ = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


@dataclass(frozen=True, slots=True)
class SkillFile:
    """One file: name with `/` relative to the folder, size in bytes, SHA-256 in hex."""

    name: str
    size: int
    sha256: str


def _refuse(problem: str, fix: str, file: str = "") -> SkillInvalid:
    finding = Finding(level="error", problem=problem, fix=fix, file=file, strict=True)
    return SkillInvalid(problem, findings=(finding,))


def _walk(folder: Path) -> Iterator[tuple[str, os.stat_result, bool]]:
    """Relative name, own status and whether it is a link, of everything below that is not a directory.

    Raises:
        SkillInvalid: it holds too many files, or a folder cannot be read.
    """
    count = 0
    waiting = [("", folder)]
    while waiting:
        prefix, place = waiting.pop()
        try:
            entries = sorted(os.scandir(place), key=lambda entry: entry.name)
        except OSError as error:
            raise _refuse(f"{place} cannot be read: {error.strerror}", "chmod u+rx it", str(place)) from error
        for entry in entries:
            if entry.name in _SKIPPED:
                continue
            count += 1
            if count > MAX_FILES:
                raise _refuse(f"{folder} holds more than {MAX_FILES:,} files", "move what is no part of the skill away")
            try:
                inner, status = entry.is_dir(follow_symlinks=False), entry.stat(follow_symlinks=False)
            except OSError as error:  # gone meanwhile, or its name is too long
                raise _refuse(f"{entry.path} cannot be read: {error.strerror}", "remove it", entry.path) from error
            if inner:
                waiting.append((f"{prefix}{entry.name}/", Path(entry.path)))
            else:
                yield f"{prefix}{entry.name}", status, entry.is_symlink()


def folder_files(folder: Path) -> tuple[SkillFile, ...]:
    """Every file of a skill, sorted by name, with size and digest.

    Raises:
        SkillInvalid: a link leads out, something is not a regular file, or there is too much of it.
    """
    found: list[SkillFile] = []
    total = 0
    for name, status, is_link in _walk(folder):
        if is_link and _leads_to_folder(folder, name):
            continue  # its files are listed where they really lie
        data = read_beneath(folder, name)
        total += len(data)
        if total > MAX_TOTAL:
            raise _refuse(f"{folder} holds more than {MAX_TOTAL:,} bytes", "move what is not part of the skill away")
        del status
        found.append(SkillFile(name, len(data), hashlib.sha256(data).hexdigest()))
    return tuple(sorted(found, key=lambda file: file.name))


def _leads_to_folder(folder: Path, name: str) -> bool:
    real = os.path.realpath(folder / name)
    return os.path.isdir(real) and Path(real).is_relative_to(os.path.realpath(folder))


def fingerprint(folder: Path) -> tuple[object, ...]:
    """Changes when anything below changes: names, sizes, times of change, inodes. Reads no content."""
    rows: list[tuple[str, ...]] = []
    try:
        for name, status, is_link in _walk(folder):
            facts = (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_mode)
            rows.append((name, *map(str, facts), os.path.realpath(folder / name) if is_link else ""))
    except SkillInvalid as error:
        return (error.message,)
    return tuple(sorted(rows))


def read_beneath(folder: Path, name: str, *, limit: int = MAX_TOTAL) -> bytes:
    """The content of one file of the folder.

    Args:
        folder: the skill's folder.
        name: relative to it.
        limit: bytes; a larger file is refused.

    Raises:
        SkillInvalid: it leads out of the folder, is missing, no regular file, too large or unreadable.
    """
    root = Path(os.path.realpath(folder))
    try:
        real = Path(os.path.realpath(root / name))
        if os.path.isabs(name) or "\0" in name or not real.is_relative_to(root) or real == root:
            raise _refuse(f"{name!r} is outside the skill's folder", "name a file of the skill, relative to its folder")
        descriptor = _open(root, real.relative_to(root).parts)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise _refuse(f"{name!r} cannot be read: {reason}", "see which files the skill has: skill_read NAME") from error
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise _refuse(f"{name!r} is not a regular file", "name a file of the skill")
        if status.st_size > limit:
            raise _refuse(f"{name!r} is larger than {limit:,} bytes", "a skill's files are read whole; make it smaller")
        with os.fdopen(os.dup(descriptor), "rb") as stream:
            return stream.read(limit + 1)[:limit]
    finally:
        os.close(descriptor)


def _open(root: Path, parts: tuple[str, ...]) -> int:
    if not _DIR_FD:
        return os.open(root.joinpath(*parts), _READ)
    holder = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in parts[:-1]:
            inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=holder)
            os.close(holder)
            holder = inner
        return os.open(parts[-1], _READ | os.O_NOFOLLOW, dir_fd=holder)
    finally:
        os.close(holder)
