"""A skill's files for a tool: checked against what was loaded, as text or as a copy to run from.

A script runs from a private copy: the sandbox never sees Geode's home, where a person's skills lie,
and nothing can be swapped between the check and the run.
"""

from __future__ import annotations

import difflib
import hashlib
import re
import sys
from pathlib import Path, PurePosixPath

from ...containment.places import is_secret
from ...core.errors import ToolFailed
from ...core.messages import SideEffects
from ...skills.document import SkillDefinition
from ...skills.files import SkillFile, read_beneath
from ...skills.findings import SkillInvalid
from ...skills.library import SkillLibrary

__all__ = ["argv_for", "file_text", "known_file", "needed_files", "staged_copy"]

_MAX_TEXT = 1_000_000
_RUNS_WITH = {
    ".py": (sys.executable, "-s"), ".sh": ("bash",), ".bash": ("bash",), ".js": ("node",), ".mjs": ("node",),
    ".cjs": ("node",), ".rb": ("ruby",), ".pl": ("perl",),
}  # fmt: skip
"""Ending of a script -> program that runs it, whether or not the file is executable."""


def _failed(what: str, fix: str) -> ToolFailed:
    return ToolFailed(what, fix=fix, side_effects=SideEffects.NONE)


def known_file(library: SkillLibrary, skill: SkillDefinition, name: str) -> SkillFile:
    """The file of a skill that a model means.

    Raises:
        ToolFailed: it is not one of the files that were loaded, or it holds secrets.
    """
    files = {file.name: file for file in library.files(skill.name)}
    plain = name.removeprefix("./")
    if skill.folder and plain.startswith(skill.folder.rstrip("/") + "/"):
        plain = plain[len(skill.folder.rstrip("/")) + 1 :]
    if plain not in files:
        near = difflib.get_close_matches(plain, files, 3) or [
            other for other in files if PurePosixPath(other).name == PurePosixPath(plain).name
        ]
        hint = f"did you mean {', '.join(near)}?" if near else f"its files: {', '.join(list(files)[:40])}"
        raise _failed(f"the skill {skill.name} has no file {name!r}", hint)
    if is_secret(PurePosixPath(plain)):
        raise _failed(f"{name} holds keys, tokens or passwords and is not read", "ask the person for what you need")
    return files[plain]


def needed_files(library: SkillLibrary, skill: SkillDefinition, script: str) -> list[str]:
    """What a copy to run `script` from is made of: every file but those that hold secrets.

    Raises:
        ToolFailed: the script is not part of the skill, or it holds secrets.
    """
    known_file(library, skill, script)
    return [file.name for file in library.files(skill.name) if not is_secret(PurePosixPath(file.name))]


def _content(skill: SkillDefinition, file: SkillFile) -> bytes:
    """The bytes of a file, exactly as they were when the skill was loaded.

    Raises:
        ToolFailed: it changed or cannot be read.
    """
    try:
        data = read_beneath(Path(skill.folder), file.name)
    except SkillInvalid as error:
        raise _failed(f"{skill.name}: {error.message}", error.fix) from error
    if hashlib.sha256(data).hexdigest() != file.sha256:
        raise _failed(f"{file.name} of the skill {skill.name} is being changed", f"read it again: {skill.name}")
    return data


def file_text(library: SkillLibrary, skill: SkillDefinition, name: str) -> str:
    """The text of one file of a skill.

    Raises:
        ToolFailed: there is no such file, or it is not text.
    """
    file = known_file(library, skill, name)
    if file.size > _MAX_TEXT:
        raise _failed(f"{file.name} has {file.size:,} bytes, too many to read", "use a script of the skill on it")
    data = _content(skill, file)
    if b"\0" in data[:8192]:
        raise _failed(f"{file.name} is not text ({file.size:,} bytes)", "use a script of the skill on it")
    return data.decode("utf-8-sig", "replace")


def staged_copy(library: SkillLibrary, skill: SkillDefinition, script: str, room: Path) -> tuple[Path, Path]:
    """Copy the skill below `room`; returns the copy's folder and the script in it.

    Raises:
        ToolFailed: the script is not part of the skill, or a file changed.
    """
    wanted = known_file(library, skill, script)
    folder = room / re.sub(r"[:/\\]", "_", skill.name)
    for place in (room, folder):
        place.mkdir(exist_ok=True)
        place.chmod(0o755)  # the sandbox runs it as another user where Geode is root
    for file in library.files(skill.name):
        if is_secret(PurePosixPath(file.name)):
            continue
        data = _content(skill, file)
        place = folder.joinpath(*file.name.split("/"))
        for parent in reversed(place.relative_to(folder).parents):
            (folder / parent).mkdir(mode=0o755, exist_ok=True)
        place.write_bytes(data)
        place.chmod(0o755 if data.startswith(b"#!") or _executable(skill, file) else 0o644)
    return folder, folder.joinpath(*wanted.name.split("/"))


def _executable(skill: SkillDefinition, file: SkillFile) -> bool:
    try:
        return bool((Path(skill.folder) / file.name).stat().st_mode & 0o100)
    except OSError:
        return False


def argv_for(path: Path) -> tuple[str, ...]:
    """The command that runs a script of a staged skill.

    Raises:
        ToolFailed: nothing says how to run it.
    """
    program = _RUNS_WITH.get(path.suffix.lower())
    if program is not None:
        return (*program, str(path))
    if path.stat().st_mode & 0o100:
        return (str(path),)
    raise _failed(
        f"nothing says how to run {path.name}", f"known endings: {', '.join(_RUNS_WITH)}; or make it executable"
    )
