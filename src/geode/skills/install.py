"""Adding a skill to a project, and removing it: the whole folder or nothing."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import stat
from dataclasses import dataclass
from pathlib import Path

from ..core.errors import GeodeError, UsageError
from .conform import is_conforming_name
from .document import Parsed, SkillDefinition
from .files import SkillFile, folder_files, read_beneath
from .findings import Finding, SkillInvalid
from .loader import NAMES, SkillLoader, skill_file

__all__ = ["Installed", "check_skill", "install_skill", "remove_skill", "skill_folder"]


@dataclass(frozen=True, slots=True)
class Installed:
    """What was added: the skill as it now is, where, and its files."""

    skill: SkillDefinition
    folder: Path
    files: tuple[SkillFile, ...]
    findings: tuple[Finding, ...]
    replaced: bool


def skill_folder(path: Path) -> Path:
    """The folder that a path to a skill means: the folder itself, or that of a SKILL.md.

    Raises:
        UsageError: there is no such folder, or it holds no SKILL.md.
    """
    path = Path(os.path.abspath(path.expanduser()))
    try:
        if path.is_dir():
            if skill_file(path) is None:
                raise UsageError(f"{path} has no SKILL.md", fix="name a folder that holds a SKILL.md")
            return path
        if not path.exists():
            raise UsageError(f"{path} does not exist", fix="name a folder that holds a SKILL.md")
    except (OSError, ValueError) as error:
        raise UsageError(f"{str(path)!r} cannot be read: {error}", fix="check its permissions") from error
    if path.name not in NAMES:
        raise UsageError(f"{path.name} is not a SKILL.md", fix="name a folder that holds a SKILL.md, or that file")
    return path.parent


def check_skill(folder: Path) -> Parsed:
    """Everything about a skill's folder: its SKILL.md and whether its files can be taken along."""
    file = skill_file(folder)
    parsed = SkillLoader(()).parse(file or folder / NAMES[0])
    try:
        folder_files(folder)
    except SkillInvalid as error:
        return Parsed(None, (*error.findings, *parsed.findings), parsed.name)
    return parsed


def install_skill(path: Path, target_root: Path, *, force: bool = False, within: Path | None = None) -> Installed:
    """Copy a skill's folder into `target_root`, under its name.

    Args:
        path: the skill's folder, or its SKILL.md.
        target_root: usually `PROJECT/.claude/skills`.
        force: take the place of a skill of that name.
        within: folder that `target_root` must really lie in.

    Raises:
        UsageError: there is no skill, or one of that name is there already.
        SkillInvalid: it is not valid, links lead out of it, or it is too large.
        GeodeError: it cannot be written; nothing has changed then.
    """
    source = skill_folder(path)
    parsed = check_skill(source)
    if parsed.skill is None:
        raise SkillInvalid(f"the skill in {source} is not valid: {parsed.errors()[0]}", findings=parsed.findings)
    name = parsed.skill.name if is_conforming_name(parsed.skill.name) else source.name
    real_root = Path(os.path.realpath(target_root))
    if within is not None and not real_root.is_relative_to(os.path.realpath(within)):
        raise UsageError(f"{target_root} leads out of {within}", fix="make it a folder of the project")
    target = real_root / name
    if name.startswith(".") or target.parent != real_root:
        raise UsageError(f"{name!r} cannot be the name of a folder", fix="rename the skill's folder")
    real_source = Path(os.path.realpath(source))
    if real_root.is_relative_to(real_source):
        raise UsageError(f"{source} holds {target_root}", fix="name the skill's own folder")
    if real_source == target:
        raise UsageError(f"{source} is in {target_root} already", fix="there is nothing to do")
    present = os.path.lexists(target)
    if present and not force:
        raise UsageError(f"there is a skill {name!r} already in {target_root}", fix="use --force to replace it")
    try:
        _copy(real_source, target, present)
    except OSError as error:
        what = f"the skill cannot be written to {target}: {error.strerror}"
        raise GeodeError(what, fix="check space and permissions") from error
    done = check_skill(target)
    if done.skill is None:
        raise SkillInvalid(f"the skill changed while it was copied: {done.errors()[0]}", findings=done.findings)
    return Installed(done.skill, target, folder_files(target), done.findings, present)


def _copy(source: Path, target: Path, present: bool) -> None:
    """Make the copy beside its place, then put it there with a rename."""
    target.parent.mkdir(parents=True, exist_ok=True)
    token = secrets.token_hex(6)
    made = target.parent / f".{target.name}.new-{token}"
    old = target.parent / f".{target.name}.old-{token}"
    try:
        made.mkdir(mode=0o755)
        for file in folder_files(source):
            place = made.joinpath(*file.name.split("/"))
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(read_beneath(source, file.name))
            runs = os.stat(source / file.name).st_mode & stat.S_IXUSR
            place.chmod(0o755 if runs else 0o644)
        if present:
            os.rename(target, old)
        try:
            os.rename(made, target)
        except OSError:
            if present:
                os.rename(old, target)
            raise
    finally:
        for leftover in (made, old):
            _delete(leftover)


def remove_skill(name: str, root: Path, *, within: Path | None = None) -> Path:
    """Remove the folder of a skill from a root; returns where it was.

    A linked skill loses its link only.

    Raises:
        UsageError: there is none of that name.
    """
    real_root = Path(os.path.realpath(root))
    if within is not None and not real_root.is_relative_to(os.path.realpath(within)):
        raise UsageError(f"{root} leads out of {within}", fix="remove the skill by hand")
    found = next((c for c in SkillLoader(real_root).candidates() if c.folder.name == name), None)
    if found is None:
        loader = SkillLoader(real_root)
        found = next((c for c in loader.candidates() if c.file and loader.parse(c.file).name == name), None)
    if found is None or found.folder.parent != real_root:
        raise UsageError(f"there is no skill {name!r} in {root}", fix="see: geode skills list")
    if found.folder.is_symlink():
        found.folder.unlink()
        return found.folder
    gone = real_root / f".{found.folder.name}.old-{secrets.token_hex(6)}"
    try:
        os.rename(found.folder, gone)
    except OSError as error:
        raise GeodeError(f"{found.folder} cannot be removed: {error.strerror}", fix="check its permissions") from error
    _delete(gone)
    return found.folder


def _delete(path: Path) -> None:
    if path.is_symlink():
        path.unlink()
    elif path.exists():
        with contextlib.suppress(OSError):  # hidden and out of use: what is left of it is never a skill
            shutil.rmtree(path)
