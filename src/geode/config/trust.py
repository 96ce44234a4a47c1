"""Whether a person trusts what a project brings along: servers, tools, rules and their scripts.

A project's servers and tools run code on the person's machine. They are used only after the
person has said so for exactly this content; when any byte of it changes, they are asked again.
The answer is kept in the Geode home, out of the project's reach.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from ..core.call import canonical_json
from ..core.errors import ConfigError, StoreError, UsageError
from .home import ensure_home, locked, read_bounded, write_private

__all__ = ["SKILL_ROOTS", "TOOL_FILES", "TRUSTED_FILES", "TrustState", "TrustStore"]

TRUSTED_FILES = (
    ".geode/tools.json",
    ".geode/mcp.json",
    ".claude/mcp_servers.json",
    ".mcp.json",
    ".geode/config.toml",
)
"""What a project can steer Geode with, relative to it."""

TOOL_FILES = TRUSTED_FILES[:4]
"""Those of them that bring tools or servers."""

SKILL_ROOTS = (".claude/skills", "skills", ".agents/skills")
"""Where a project brings skills along: instructions a model follows, and scripts it runs."""

_TEXT_KEYS = frozenset({"description", "title", "examples", "parameters", "output_schema", "name", "url", "$schema"})
_MODULE = re.compile(r"([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)(?::[A-Za-z_][\w.]*)?")
_MANIFESTS = (
    "package.json",
    "pyproject.toml",
    "Makefile",
    "makefile",
    "GNUmakefile",
    "justfile",
    "deno.json",
    "index.js",
    "__main__.py",
)
_RUNNERS = frozenset(
    {
        "npm",
        "npx",
        "yarn",
        "pnpm",
        "bun",
        "bunx",
        "uv",
        "uvx",
        "poetry",
        "make",
        "just",
        "deno",
        "node",
        "python",
        "python3",
    }
)
_MAX_FILES = 2000
_NOT_OF_SKILLS = frozenset({".git", "__pycache__"})
"""Folders inside a skill that are never read, shown or copied."""
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class TrustState:
    """What is known about a project's content.

    Attributes:
        state: "nothing" (it brings nothing along), "untrusted", "trusted", or "changed" since it was trusted.
        files: the covered files that exist, relative to the project.
        digest: SHA-256 over their contents, "" when there is nothing.
        changed: files that differ from what was trusted (added, changed, removed).
        problem: why an earlier answer could not be read, or "".
    """

    state: str
    files: tuple[str, ...] = ()
    digest: str = ""
    changed: tuple[str, ...] = ()
    problem: str = ""

    @property
    def trusted(self) -> bool:
        return self.state == "trusted"

    def to_json(self) -> dict[str, Any]:
        return {
            "state": self.state,
            "files": list(self.files),
            "digest": self.digest,
            "changed": list(self.changed),
            "problem": self.problem,
        }


class TrustStore:
    """The person's answers, in `HOME/trust.json` (0600, replaced atomically, under a lock).

    Args:
        home: the Geode home.
        skill_roots: folders of skills, relative to a project.
    """

    def __init__(self, home: Path, *, skill_roots: Iterable[str] = SKILL_ROOTS) -> None:
        self._skill_roots = tuple(skill_roots)
        self._home = Path(os.path.abspath(home.expanduser()))
        self._file = self._home / "trust.json"

    def state(self, project: Path) -> TrustState:
        """Compare a project's content with what was trusted. Never raises for damaged answers: they do not count."""
        digests = self._digests(project)
        if not digests:
            return TrustState("nothing")
        files, digest = tuple(digests), _digest(digests)
        try:
            known = self._load().get(_key(project))
        except ConfigError as problem:
            return TrustState("untrusted", files, digest, problem=problem.message)
        if known is None:
            return TrustState("untrusted", files, digest)
        if known.get("digest") == digest:
            return TrustState("trusted", files, digest)
        before = cast("Mapping[str, str]", known.get("files", {}))
        changed = sorted(name for name in {*before, *digests} if before.get(name) != digests.get(name))
        return TrustState("changed", files, digest, tuple(changed))

    def trust(self, project: Path, *, digest: str = "") -> TrustState:
        """Remember that the person trusts the project as it is now.

        Args:
            project: the project directory.
            digest: what the person was shown; when given and different from now, nothing is trusted.

        Raises:
            UsageError: the project changed while the person was deciding.
            StoreError: the answer cannot be stored.
        """
        digests = self._digests(project)
        if not digests:
            return TrustState("nothing")
        now = _digest(digests)
        if digest and digest != now:
            raise UsageError("the project's files changed while you were deciding", fix="look at them again")
        entry = {"digest": now, "files": digests, "at": datetime.now(UTC).isoformat(timespec="seconds")}
        self._change(_key(project), entry)
        return TrustState("trusted", tuple(digests), now)

    def revoke(self, project: Path) -> bool:
        """Forget the answer; False when there was none."""
        return self._change(_key(project), None)

    def projects(self) -> dict[str, str]:
        """Every trusted directory and when it was trusted."""
        return {path: str(entry.get("at", "")) for path, entry in self._load().items()}

    # ------------------------------------------------------------ the file

    def _load(self) -> dict[str, dict[str, Any]]:
        raw = read_bounded(self._file, limit=64_000_000)
        if raw is None:
            return {}
        try:
            data: Any = json.loads(raw)
            projects = data["projects"]
            good = isinstance(projects, dict) and all(
                isinstance(v, dict) and isinstance(v.get("digest"), str) and isinstance(v.get("files"), dict)  # pyright: ignore[reportUnknownMemberType]
                for v in projects.values()  # pyright: ignore[reportUnknownVariableType]
            )
        except (ValueError, KeyError, TypeError, RecursionError):
            good = False
            projects = {}
        if not good:
            raise ConfigError(f"{self._file} is damaged", fix="trust the project again: geode trust DIR")
        return cast("dict[str, dict[str, Any]]", projects)

    def _change(self, key: str, entry: dict[str, Any] | None) -> bool:
        ensure_home(self._home)
        with locked(self._home / "trust.lock"):
            try:
                projects = self._load()
            except ConfigError:
                self._set_aside()
                projects = {}
            found = key in projects
            if entry is None:
                projects.pop(key, None)
            else:
                projects[key] = entry
            text = json.dumps({"version": 1, "projects": projects}, indent=1, sort_keys=True, ensure_ascii=False)
            write_private(self._file, text.encode("utf-8", "surrogateescape") + b"\n")
        return found

    def _set_aside(self) -> None:
        """Keep a damaged file for whoever wants to see what happened."""
        try:
            os.replace(self._file, self._file.with_suffix(".json.damaged"))
        except OSError as problem:
            raise StoreError(f"cannot replace {self._file}: {problem.strerror}", fix="remove it by hand") from problem

    # ------------------------------------------------------------ the content

    def _digests(self, project: Path) -> dict[str, str]:
        """Relative path -> SHA-256 of every covered file that exists."""
        root = Path(os.path.realpath(project.expanduser()))
        own = os.path.realpath(self._home)
        found: dict[str, str] = {}
        for name in TRUSTED_FILES:
            path = root / name
            if os.path.realpath(path.parent) == own:
                continue  # the project is the person's home: these are their own files
            digest = _file_digest(path)
            if digest:
                found[name] = digest
                if name.endswith(".json"):
                    for extra in sorted(_named_files(path, root)):
                        if extra not in found and len(found) < _MAX_FILES:
                            found[extra] = _file_digest(root / extra) or "missing"
        for name in self._skill_roots:
            for file in _skill_files(root / name, own):
                relative = _relative(file, root)
                found.setdefault(relative, _file_digest(file) or "missing")
        return dict(sorted(found.items()))


def _key(project: Path) -> str:
    return os.path.realpath(project.expanduser())


def _digest(digests: Mapping[str, str]) -> str:
    return hashlib.sha256(canonical_json(digests).encode("utf-8", "surrogateescape")).hexdigest()


def _file_digest(path: Path) -> str:
    """SHA-256 of a regular file; a marker for anything else that exists; "" when there is nothing."""
    try:
        fd = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except (OSError, ValueError):
        return "unreadable"
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return "not a regular file"
        state = hashlib.sha256()
        while chunk := os.read(fd, _CHUNK):
            state.update(chunk)
        return state.hexdigest()
    except OSError:
        return "unreadable"
    finally:
        os.close(fd)


# ---------------------------------------------------------------- what those files name


@dataclass(slots=True)
class _Strings:
    """The texts of a JSON file that can name programs, and the directories they are relative to."""

    texts: list[str] = field(default_factory=list[str])
    folders: list[str] = field(default_factory=list[str])

    def collect(self, value: Any, key: str = "") -> None:
        if isinstance(value, str):
            self.texts.append(value)
            if key in ("cwd", "workdir", "directory"):
                self.folders.append(value)
        elif isinstance(value, Mapping):
            for name, item in cast("Mapping[str, Any]", value).items():
                if name not in _TEXT_KEYS or isinstance(item, Mapping):
                    self.collect(item, name)
        elif isinstance(value, list):
            for item in cast("list[Any]", value):
                self.collect(item, key)


def _named_files(path: Path, root: Path) -> Iterator[str]:
    """Files inside the project that a servers or tools file mentions, relative to the project."""
    try:
        data = json.loads(read_bounded(path) or b"")
        strings = _Strings()
        strings.collect(data)
    except (ValueError, RecursionError, ConfigError):
        return  # not readable as JSON: nothing of it will be used either; its own digest still counts
    bases = [root, *(p for p in (_inside(root, f, root) for f in strings.folders) if p is not None and p.is_dir())]
    tokens = {t for text in strings.texts for t in (text, *re.split(r"[\s=:,;\"'()]+", text)) if 0 < len(t) < 1024}
    for base in bases:
        for token in tokens:
            yield from _files_of(base, token, root)


def _files_of(base: Path, token: str, root: Path) -> Iterator[str]:
    """What a word names: a file, a directory's entry points, a Python module, a runner's manifest."""
    path = _inside(base, token, root)
    if path is not None and path.is_file():
        yield _relative(path, root)
    elif path is not None and path.is_dir():
        yield from _present((path / name for name in _MANIFESTS), root)
    if token in _RUNNERS:
        yield from _present(
            (base / name for name in _MANIFESTS if "." not in name or name.endswith((".json", ".toml"))), root
        )
    if module := _MODULE.fullmatch(token):
        parts = module[1].split(".")
        for start in (base, base / "src"):
            yield from _module_files(start, parts, root)


def _skill_files(place: Path, own: str) -> Iterator[Path]:
    """Every file of the skills in a folder. Skills that really lie in the Geode home are the person's own."""
    try:
        folders = sorted(entry.path for entry in os.scandir(place) if entry.is_dir())
    except OSError:
        return
    for folder in map(Path, folders):
        if Path(os.path.realpath(folder)).is_relative_to(own):
            continue
        names = {entry.name for entry in os.scandir(folder)} if os.access(folder, os.R_OK | os.X_OK) else set[str]()
        if not {"SKILL.md", "skill.md"} & names:
            continue
        for parent, below, files in os.walk(folder):
            below[:] = sorted(name for name in below if name not in _NOT_OF_SKILLS)
            for name in sorted(files):
                yield Path(parent, name)


def _module_files(start: Path, parts: list[str], root: Path) -> Iterator[str]:
    """A module's file; for a package, all of its Python files, since each can import the others."""
    yield from _present([start / f"{parts[0]}.py"], root)
    package = start / parts[0]
    if (package / "__init__.py").is_file() or (len(parts) > 1 and (package / f"{parts[1]}.py").is_file()):
        for count, path in enumerate(sorted(package.rglob("*.py"))):
            if count >= _MAX_FILES:
                return
            yield from _present([path], root)


def _present(paths: Iterable[Path], root: Path) -> Iterator[str]:
    for path in paths:
        if path.is_file():
            yield _relative(path, root)


def _relative(path: Path, root: Path) -> str:
    return os.path.relpath(path, root).replace(os.sep, "/")


def _inside(base: Path, token: str, root: Path) -> Path | None:
    """The path a word means when that lies inside the project, its spelling taken as it is."""
    try:
        path = Path(os.path.normpath(base / token))
        return path if path != root and path.is_relative_to(root) and path.exists() else None
    except (OSError, ValueError):
        return None
