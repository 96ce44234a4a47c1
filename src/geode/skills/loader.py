"""`SkillLoader`: finds SKILL.md files below the roots and reads them.

A skill is a direct child folder of a root with a SKILL.md in it; nothing below a skill is one
(case R75). One folder reached twice, through links or two roots, is one skill.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from .document import MAX_BYTES, Parsed, SkillDefinition, parse_skill
from .files import read_beneath
from .findings import Finding, SkillInvalid
from .registry import SkillRegistry

__all__ = ["Candidate", "Root", "SkillLoader", "default_roots", "skill_file"]

NAMES = ("SKILL.md", "skill.md")
_MAX_FOLDERS = 5000


@dataclass(frozen=True, slots=True)
class Root:
    """A folder whose child folders are skills.

    Attributes:
        path: the folder; it need not exist.
        origin: "project" (its skills need project trust), "user" or "extra".
        label: what people call it.
    """

    path: Path
    origin: str = "user"
    label: str = ""

    @property
    def shown(self) -> str:
        return self.label or str(self.path)


def default_roots(project: Path, home: Path, extra: Iterable[Path | str] = (".agents/skills",)) -> tuple[Root, ...]:
    """The roots in order of precedence: `.claude/skills`, `skills`, `HOME/skills`, then the extra ones.

    Args:
        project: the project folder.
        home: Geode's home.
        extra: further roots; relative ones lie in the project. Whatever lies in the project needs its trust.
    """
    roots = [
        Root(project / ".claude" / "skills", "project", ".claude/skills"),
        Root(project / "skills", "project", "./skills"),
        Root(home / "skills", "user", str(home / "skills")),
    ]
    real = os.path.realpath(project)
    for path in extra:  # beyond .agents/skills, tell `TrustStore(skill_roots=…)` of those in the project
        place = Path(os.path.abspath(project / Path(path).expanduser()))
        inside = any(place.is_relative_to(top) for top in (project, Path(os.path.abspath(project)), real))
        inside = inside or Path(os.path.realpath(place)).is_relative_to(real)
        roots.append(Root(place, "project" if inside else "extra", str(path)))
    return tuple(roots)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A folder that looks like a skill, or a finding about one that cannot be looked at.

    Attributes:
        root: where it was found.
        folder: the folder as found, absolute.
        real: the folder it really is.
        file: its SKILL.md, or None when there is only `finding`.
        finding: why it cannot be read.
    """

    root: Root
    folder: Path
    real: Path
    file: Path | None
    finding: Finding | None = None


def skill_file(folder: Path) -> Path | None:
    """The SKILL.md of a folder; `skill.md` only where there is no SKILL.md.

    Raises:
        OSError: the folder cannot be read.
    """
    present = {entry.name for entry in os.scandir(folder)}
    return next((folder / name for name in NAMES if name in present), None)


def _candidate(root: Root, entry: os.DirEntry[str]) -> Candidate | None:
    """What one entry of a root is, None for something that is no skill."""
    folder = Path(root.path, entry.name)

    def broken(problem: str, fix: str) -> Candidate:
        finding = Finding(level="error", problem=problem, fix=fix, file=str(folder), strict=True)
        return Candidate(root, folder, folder, None, finding)

    try:
        if not entry.is_dir():
            dead = entry.is_symlink() and not os.path.exists(folder)
            return broken("the link leads nowhere", "remove it or correct its target") if dead else None
        real = Path(os.path.realpath(folder))
        if real == Path(os.path.realpath(root.path)):
            return None  # a link to the root itself
        file = skill_file(folder)
        if file is not None:
            return Candidate(root, folder, real, file)
        names = {e.name.lower(): e.name for e in os.scandir(folder)}
        if "skill.md" in names:
            return broken(f"the file is named {names['skill.md']}", "rename it to SKILL.md")
        deep = [n for n in sorted(names.values()) if os.path.isfile(folder / n / "SKILL.md")]
        if deep:
            return broken(
                f"it holds skills one level too deep ({', '.join(deep[:3])})",
                f"move them up into {root.shown}, or make {folder} an extra root",
            )
    except OSError as error:
        return broken(f"it cannot be read: {error.strerror}", "chmod u+rx it, or correct the link")
    return None


@dataclass(slots=True)
class SkillLoader:
    """Reads skills from one folder or several roots.

    Args:
        roots: a folder, or roots in order of precedence.

    Attributes:
        problems: what was found by the last `discover` or `load_all`: invalid skills and conflicts.
    """

    roots: Path | str | Iterable[Root | Path | str]
    problems: list[Finding] = field(default_factory=list[Finding])
    _roots: tuple[Root, ...] = field(init=False, repr=False, default=())

    def __post_init__(self) -> None:
        given = [self.roots] if isinstance(self.roots, str | Path) else self.roots
        self._roots = tuple(root if isinstance(root, Root) else Root(Path(root)) for root in given)

    def candidates(self) -> Iterator[Candidate]:
        """Every folder that could be a skill, root by root, sorted by name; each real folder once."""
        seen: set[str] = set()
        own = [(root, Path(os.path.realpath(root.path))) for root in self._roots if root.origin != "project"]
        for root in self._roots:
            for candidate in self._children(root):
                mine = next((r for r, top in own if candidate.real.is_relative_to(top)), None)
                if root.origin == "project" and mine is not None:  # the project only links to the person's own
                    candidate = replace(candidate, root=mine)
                key = os.path.normcase(str(candidate.real))
                if candidate.file is None or key not in seen:
                    seen.add(key)
                    yield candidate

    def _children(self, root: Root) -> Iterator[Candidate]:
        try:
            entries = [entry for entry in os.scandir(root.path) if not entry.name.startswith(".")]
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            problem = f"the skills in {root.shown} cannot be listed: {error.strerror}"
            finding = Finding(level="error", problem=problem, fix="chmod u+rx it", file=str(root.path))
            yield Candidate(root, root.path, root.path, None, finding)
            return
        # A link to a skill beside it is the same skill: the real folder names it.
        entries.sort(key=lambda entry: (entry.is_symlink(), entry.name))
        if len(entries) > _MAX_FOLDERS:
            problem = f"{root.shown} holds {len(entries):,} folders; only {_MAX_FOLDERS:,} were looked at"
            finding = Finding(level="error", problem=problem, fix="use a folder for skills alone", file=str(root.path))
            yield Candidate(root, root.path, root.path, None, finding)
            del entries[_MAX_FOLDERS:]
        found = (_candidate(root, entry) for entry in entries)
        yield from sorted((c for c in found if c is not None), key=lambda c: (c.folder.is_symlink(), c.folder.name))

    def discover(self) -> list[Path]:
        """Every SKILL.md in order: roots by precedence, folders by name."""
        found = list(self.candidates())
        self.problems = [c.finding for c in found if c.finding is not None]
        return [c.file for c in found if c.file is not None]

    def parse(self, file: Path, *, origin: str = "user") -> Parsed:
        """Read one file with all that is to say about it. Never raises for a bad file."""
        folder = Path(os.path.abspath(file.parent))
        real = Path(os.path.realpath(folder))
        try:
            data = read_beneath(folder, file.name, limit=MAX_BYTES)
        except SkillInvalid as error:
            return Parsed(None, tuple(f.at(str(file)) for f in error.findings), folder.name)
        return parse_skill(
            data, file=str(file), folder=folder.name, folder_path=str(real), origin=origin, also=(real.name,)
        )

    def load_file(self, path: Path | str) -> SkillDefinition:
        """Load one SKILL.md.

        Raises:
            SkillInvalid: it cannot be used; its findings name line, column and fix.
        """
        parsed = self.parse(Path(path))
        if parsed.skill is None:
            first = parsed.errors()[0]
            raise SkillInvalid(str(first), findings=parsed.findings)
        return parsed.skill

    def load_all(self, registry: SkillRegistry | None = None) -> list[SkillDefinition]:
        """Load every skill; an invalid one is left out and stands in `problems`.

        Args:
            registry: receives the skills, the first of each name.
        """
        loaded: list[SkillDefinition] = []
        self.problems = []
        for candidate in self.candidates():
            if candidate.file is None:
                self.problems += [candidate.finding] if candidate.finding else []
                continue
            parsed = self.parse(candidate.file, origin=candidate.root.origin)
            self.problems += parsed.errors()
            if parsed.skill is not None and (registry is None or registry.register(parsed.skill)):
                loaded.append(parsed.skill)
        return loaded
