"""What a sandboxed process sees of the file system, as an ordered list of mounts.

Nothing is visible unless it is listed here: the operating system's programs and libraries,
a copy of some files of /etc, the Python environment Geode runs in, and what the request names.
"""

from __future__ import annotations

import functools
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path

from ...core.errors import ToolFailed
from ...core.ports import ProcessSpec
from . import gitdirs
from .scan import TreeScan

__all__ = ["EXTRA_BIN", "HOME", "Bind", "Guard", "View", "base_environment", "build_view", "python_places", "within"]

HOME = "/home/user"
"""The private, empty home inside; it ends with the process."""

EXTRA_BIN = "/run/bin"
"""Last on the path: `python` is Geode's interpreter where the machine has no program of that name."""

_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix/store")
_MACHINE = tuple(Path(name) for name in ("/", "/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/proc", "/run",
                                         "/sbin", "/sys", "/usr", "/var", "/home", "/root", "/opt", "/tmp"))  # noqa: S108  # fmt: skip

READ_ONLY_NAMES = (".agents", ".codex", ".cursor", ".envrc", ".gitmodules", ".husky", ".idea", ".vscode", ".windsurf")
"""Made read-only inside a writable directory where they exist."""
RESERVED_FOLDERS = (".geode", ".claude")
"""Read-only, and not to be created either: agents take servers, hooks and rules from them."""
RESERVED_FILES = (".mcp.json",)


@dataclass(frozen=True, slots=True)
class Bind:
    """A host path made visible at the same path inside.

    Attributes:
        path: where; also the source, unless `source` is set.
        writable: whether it may be changed there.
        foreign: outside the operating system's own directories: as root it is mapped to the sandbox's user.
        source: another host path to show there.
        optional: it may have gone meanwhile.
    """

    path: Path
    writable: bool = False
    foreign: bool = True
    source: Path | None = None
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Guard:
    """A name that must not be changed or made inside; a placeholder holds it where it does not exist."""

    path: Path
    folder: bool


@dataclass(slots=True)
class View:
    """The mounts of one process, outermost first.

    `masks` are shown empty; `tripwires` cannot be covered by a mount (a symlink, a name that must
    not even exist while git runs), so they are compared afterwards and a change is undone.
    """

    links: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    binds: list[Bind] = field(default_factory=list[Bind])
    masks: list[Path] = field(default_factory=list[Path])
    guards: list[Guard] = field(default_factory=list[Guard])
    tripwires: list[Path] = field(default_factory=list[Path])
    notices: list[str] = field(default_factory=list[str])

    def shows(self, path: Path) -> bool:
        """Whether an absolute host path lies in something that is bound."""
        return any(within(path, bind.path) for bind in self.binds)


@functools.cache
def python_places() -> tuple[Path, ...]:
    """Directories the running Python needs: its environment, its base, and Geode's own package."""
    package = Path(__file__).resolve().parents[2]
    wanted = [Path(sys.prefix), Path(sys.base_prefix), Path(sys.exec_prefix), Path(sys.base_exec_prefix), package]
    link = Path(sys.executable)
    for _ in range(20):  # every hop of venv/bin/python -> ... must exist inside
        wanted.append(link.parent if link.parent.name != "bin" else link.parent.parent)
        if not os.path.islink(link):  # never raises, unlike Path.is_symlink
            break
        link = Path(os.path.normpath(link.parent / os.readlink(link)))
    wanted += [path.resolve() for path in wanted]
    system = tuple(Path(name) for name in _SYSTEM)
    unique = {path for path in wanted if path not in _MACHINE and not any(path.is_relative_to(s) for s in system)}
    return tuple(sorted(path for path in unique if not any(path != o and path.is_relative_to(o) for o in unique)))


def base_environment() -> dict[str, str]:
    """The clean environment every process starts from."""
    return {
        "PATH": f"{Path(sys.prefix, 'bin')}:/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin:{EXTRA_BIN}",
        "HOME": HOME, "USER": "user", "LOGNAME": "user", "SHELL": "/bin/sh", "TMPDIR": "/tmp",  # noqa: S108  private
        "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", "PYTHONUTF8": "1", "PYTHONNOUSERSITE": "1", "PYTHONUNBUFFERED": "1",
        "TERM": "dumb", "NO_COLOR": "1", "PAGER": "cat", "GIT_PAGER": "cat", "MANPAGER": "cat", "SYSTEMD_PAGER": "",
        "GIT_TERMINAL_PROMPT": "0", "GIT_EDITOR": "true", "EDITOR": "true", "VISUAL": "true",
        "DEBIAN_FRONTEND": "noninteractive", "CI": "1", "PIP_NO_INPUT": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "NPM_CONFIG_YES": "false", "NPM_CONFIG_UPDATE_NOTIFIER": "false", "GEODE_SANDBOX": "1",
        # The owner on disk is the person, seen through the sandbox's user: git must not call that dubious.
        "GIT_CONFIG_COUNT": "2", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*",
        "GIT_CONFIG_KEY_1": "core.excludesFile", "GIT_CONFIG_VALUE_1": "/dev/null",
    }  # fmt: skip


def within(path: Path, top: Path) -> bool:
    """`path.is_relative_to(top)` for normal absolute paths, a tenth of the time."""
    inner, outer = str(path), str(top)
    return inner == outer or inner.startswith(outer if outer.endswith("/") else outer + "/")


@functools.cache
def _system() -> tuple[tuple[tuple[str, str], ...], tuple[Bind, ...]]:
    """Symlinks and mounts that show the operating system's programs, libraries and public settings."""
    links: list[tuple[str, str]] = []
    binds: list[Bind] = []
    for name in _SYSTEM:
        path = Path(name)
        if path.is_symlink():
            links.append((os.readlink(path), name))
        elif path.exists():
            binds.append(Bind(path, foreign=False))
    return tuple(links), tuple(binds)


def _checked(path: Path, geode_home: Path, *, writable: bool) -> Path:
    """A path of the request as it really is, or a refusal.

    Raises:
        ToolFailed: it does not exist, or showing it would give the machine or Geode's own data away.
    """
    real = Path(os.path.realpath(path))
    if not real.exists():
        raise ToolFailed(f"{path} does not exist", fix="Create it first or leave it out.")
    if real in _MACHINE and (writable or real == Path("/")):
        raise ToolFailed(f"{path} belongs to the machine and is not given to a sandboxed process",
                         fix="Work in a project directory.")  # fmt: skip
    if real.is_relative_to(geode_home):
        raise ToolFailed(f"{path} belongs to Geode itself", fix="Use a path outside Geode's home.")
    return real


def build_view(spec: ProcessSpec, *, etc: Path, geode_home: Path, home: Path, scan: TreeScan) -> View:
    """The mounts for one request.

    Args:
        spec: the request; its paths are resolved here.
        etc: what is shown as /etc.
        geode_home: masked where a bound path holds it.
        home: the person's home: never writable as a whole.
        scan: finds secrets, which are masked, and what steers other programs, which is read-only.

    Raises:
        ToolFailed: a path cannot be given to a process.
    """
    links, binds = _system()
    view = View(list(links), [*binds, Bind(Path("/etc"), source=etc)])
    chosen: dict[Path, Bind] = {}
    for path in spec.readable:
        real = _checked(path, geode_home, writable=False)
        chosen[real] = Bind(real)
        if real != path and path.is_absolute():
            chosen[path] = Bind(path, source=real)
    tops: list[Path] = []
    for path in spec.writable:
        real = _checked(path, geode_home, writable=True)
        writable = not home.is_relative_to(real)
        if not writable:
            view.notices.append(f"{real} is or holds your home: commands can read it but not change it")
        chosen[real] = Bind(real, writable=writable)
        if writable and real.is_dir():
            tops.append(real)
    given = [path for path in chosen if path.is_dir()]
    for top in [path for path in given if not any(path != o and within(path, o) for o in given)]:
        _look_into(top, [t for t in tops if t.is_relative_to(top)], scan, chosen, view)
    for top in tops:
        _protect(top, chosen, view)
    for path in python_places():  # last: never writable, even inside a workspace
        if os.path.exists(path):
            chosen[path] = Bind(path)
    view.binds += sorted(chosen.values(), key=lambda bind: len(bind.path.parts))
    if any(geode_home.is_relative_to(top) for top in given) and geode_home.exists():
        view.masks.append(geode_home)
    return view


def _look_into(top: Path, writable: list[Path], scan: TreeScan, chosen: dict[Path, Bind], view: View) -> None:
    """Mask secrets beneath `top`; make read-only what steers programs beneath the writable ones."""
    found = scan.find(top)
    if not found.complete:
        view.notices.append(f"{top} is too large to look for every secret file in it")
    view.masks += found.secrets
    for path in found.steering:
        guarded = path.name in (*RESERVED_FOLDERS, *RESERVED_FILES) and path.parent in writable
        if not guarded and any(within(path, area) for area in writable):
            chosen[path] = Bind(path, optional=True)
    for checkout in found.checkouts:
        if any(checkout != area and checkout.is_relative_to(area) for area in writable):
            _protect_git(checkout, chosen, view)


def _protect(top: Path, chosen: dict[Path, Bind], view: View) -> None:
    """Keep what steers other programs read-only inside a writable directory."""
    for name in READ_ONLY_NAMES:
        path = top / name
        if path.exists() and not path.is_symlink():
            chosen[path] = Bind(path)
    for name in (*RESERVED_FOLDERS, *RESERVED_FILES):
        path = top / name
        if path.is_symlink():
            view.tripwires.append(path)
        else:
            view.guards.append(Guard(path, folder=name in RESERVED_FOLDERS))
    _protect_git(top, chosen, view)


def _protect_git(top: Path, chosen: dict[Path, Bind], view: View) -> None:
    git = gitdirs.git_places(top)
    for path in git.writable:
        chosen[path] = Bind(path, writable=True)
    for path in git.read_only:
        chosen[path] = Bind(path)
    view.guards += [Guard(path, folder=True) for path in git.held_folders]
    view.tripwires += git.never
