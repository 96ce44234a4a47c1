"""Which parts of git's metadata a sandboxed process may write.

Index, objects and refs stay writable, so that `git add` and `git commit` work. Hooks and
configuration do not: git runs what they name, later and outside. A linked worktree keeps
its metadata in the main repository; it is made available only when the two point at each
other, because a `.git` file alone can name any directory.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["GitPlaces", "git_places"]

_RUN_BY_GIT = ("config", "config.worktree", "hooks")
_SUBMODULES = 256


@dataclass(slots=True)
class GitPlaces:
    """Absolute paths; `held_folders` must not be changed or made inside; `never` are
    put back afterwards when they changed: nothing can be mounted on them without confusing git."""

    writable: list[Path] = field(default_factory=list[Path])
    read_only: list[Path] = field(default_factory=list[Path])
    held_folders: list[Path] = field(default_factory=list[Path])
    never: list[Path] = field(default_factory=list[Path])


def _repository(directory: Path, places: GitPlaces) -> None:
    # The directory is a mount of its own, so that it cannot be renamed away and replaced.
    places.writable.append(directory)
    nested = [directory]
    for folder in ("modules", "worktrees"):
        if (directory / folder).is_dir():
            nested += [path for path in sorted((directory / folder).iterdir())[:_SUBMODULES] if path.is_dir()]
    for repository in nested:
        names = [name for name in _RUN_BY_GIT if repository != directory or name != "hooks"]
        places.read_only += [path for name in names if (path := repository / name).exists()]
    # A `commondir` file would send git to another directory for its configuration and hooks.
    places.never += [path for name in ("commondir", "config.worktree") if not (path := directory / name).exists()]
    hooks = directory / "hooks"
    (places.never if hooks.is_symlink() else places.held_folders).append(hooks)


def _first_line(path: Path) -> str:
    if not path.is_file():  # a pipe would be waited for
        return ""
    try:
        with path.open("rb") as file:
            return file.read(4096).decode("utf-8", "replace").split("\n", 1)[0].strip()
    except OSError:
        return ""


def git_places(top: Path) -> GitPlaces:
    """Git's metadata of a checkout.

    Args:
        top: the directory that holds `.git`; a directory or a linked worktree's file.
    """
    places = GitPlaces()
    git = top / ".git"
    if git.is_symlink():
        return places
    if git.is_dir():
        _repository(git, places)
    elif git.is_file():
        places.read_only.append(git)
        line = _first_line(git)
        if line.startswith("gitdir:"):
            _linked(git, (top / line.removeprefix("gitdir:").strip()).resolve(), places)
    return places


def _linked(git: Path, directory: Path, places: GitPlaces) -> None:
    """`directory` is `MAIN/.git/worktrees/NAME` and names `git` in its own `gitdir` file."""
    back = _first_line(directory / "gitdir")
    common = (directory / (_first_line(directory / "commondir") or "missing")).resolve()
    if directory.parent.name != "worktrees" or directory.parent.parent != common or not back:
        return
    if (directory / back).resolve() == git.resolve() and (common / "objects").is_dir():
        _repository(common, places)
