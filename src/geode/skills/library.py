"""`SkillLibrary`: all skills of a project and its person, with the state of each, kept up to date.

Every folder that looks like a skill is an entry: in use, shadowed by one of the same name,
untrusted, or invalid with file, line and fix. None is dropped silently, and one bad file does
not keep the others from loading (R12).
"""

from __future__ import annotations

import threading
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .block import context_block
from .document import SkillDefinition
from .files import SkillFile, fingerprint, folder_files
from .findings import Finding, SkillInvalid, errors_of
from .loader import Candidate, Root, SkillLoader, default_roots
from .offers import Offer, SkillSource
from .registry import SkillConflict, SkillRegistry

__all__ = [
    "Root", "SkillChanges", "SkillConflict", "SkillEntry", "SkillLibrary", "SkillLoader", "SkillRegistry",
    "default_roots", "open_library",
]  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillEntry:
    """One folder that is, or should be, a skill; or one that an MCP server offers.

    Attributes:
        name: the declared name, or the folder's.
        status: "active", "shadowed", "untrusted" or "invalid".
        reason: why it is not active.
        root: where it was found.
        folder: the folder as found.
        skill: what it says; None when it is invalid.
        findings: everything there is to say about it.
        files: its files with digests; empty when it is invalid.
        asks: why reading it asks a person first, whatever its risk; "" when it does not.
    """

    name: str
    status: str
    root: Root
    folder: Path
    reason: str = ""
    skill: SkillDefinition | None = None
    findings: tuple[Finding, ...] = ()
    files: tuple[SkillFile, ...] = ()
    asks: str = ""

    @property
    def digest(self) -> str:
        """Changes when any of its files does."""
        return "\n".join(f"{file.name} {file.sha256}" for file in self.files)

    def to_json(self) -> dict[str, Any]:
        """A row of `geode skills list`."""
        skill = self.skill
        return {
            "name": self.name,
            "status": self.status,
            "reason": self.reason,
            "root": self.root.shown,
            "origin": self.root.origin,
            "path": str(self.folder),
            "asks": self.asks,
            "description": skill.description if skill else "",
            "triggers": skill.triggers if skill else [],
            "tools": skill.tools if skill else [],
            "risk": skill.risk if skill else None,
            "errors": [f.to_json() for f in errors_of(self.findings)],
            "warnings": [f.to_json() for f in self.findings if f.level == "warning"],
            "notices": [f.to_json() for f in self.findings if f.level == "notice"],
        }


@dataclass(frozen=True, slots=True)
class SkillChanges:
    """What a refresh changed, by name; `announcement` is the text for a running conversation."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    announcement: str = ""

    def __bool__(self) -> bool:
        return bool(self.added or self.changed or self.removed)


class SkillLibrary:
    """Skills of some roots, live.

    Args:
        roots: in order of precedence.
        trusted: whether the project's skills may be used; asked again whenever something changed.
        servers: skills that MCP servers offer, or None. They come after all others.

    The files are looked at when something is asked for the first time, not before.
    """

    def __init__(
        self,
        roots: Iterable[Root],
        *,
        trusted: bool | Callable[[], bool] = False,
        servers: SkillSource | None = None,
    ) -> None:
        self.roots = tuple(roots)
        self._servers = servers
        self._registry = SkillRegistry()
        self._trusted = trusted
        self._entries: tuple[SkillEntry, ...] = ()
        self._own: tuple[SkillDefinition, ...] = ()
        self._seen: tuple[object, ...] | None = None
        self._parsed: dict[Path, tuple[tuple[object, ...], SkillEntry]] = {}
        self._sinks: list[Callable[[SkillChanges], None]] = []
        self._lock = threading.RLock()

    @property
    def registry(self) -> SkillRegistry:
        """The skills in use; the same object for the library's whole life."""
        self._look()
        return self._registry

    def _look(self) -> None:
        if self._seen is None:
            self.refresh()

    # ------------------------------------------------------------ keeping up

    def refresh(self) -> SkillChanges:
        """Look at the roots again and take what changed; cheap when nothing did.

        Listeners hear of changes to the skills in use.
        """
        with self._lock:
            candidates = list(SkillLoader(self.roots).candidates())
            prints = {c.folder: fingerprint(c.real) for c in candidates if c.file is not None}
            offers = self._servers.offers() if self._servers is not None else ()
            seen = (tuple((c, prints.get(c.folder)) for c in candidates), self._trust(candidates), offers)
            if seen == self._seen:
                return SkillChanges()
            before = {skill.name: skill for skill in self._registry.skills()}
            old_digests = {e.name: e.digest for e in self._entries if e.status == "active"}
            here = self._rebuild(candidates, prints)
            mine = [*(e.name for e in here if e.status == "active"), *(skill.name for skill in self._own)]
            self._entries = (*here, *_offered(offers, mine))
            self._seen = seen
            active = [e.skill for e in here if e.status == "active" and e.skill is not None]
            others = [e.skill for e in self._entries[len(here) :] if e.status == "active" and e.skill is not None]
            self._registry.replace([*active, *self._own, *others])
            changes = self._changes(before, old_digests)
        if changes:
            for sink in tuple(self._sinks):
                sink(changes)
        return changes

    def _trust(self, candidates: Iterable[Candidate]) -> bool:
        needed = any(c.root.origin == "project" for c in candidates)
        return needed and (self._trusted() if callable(self._trusted) else self._trusted)

    def _rebuild(
        self, candidates: list[Candidate], prints: Mapping[Path, tuple[object, ...]]
    ) -> tuple[SkillEntry, ...]:
        entries: list[SkillEntry] = []
        parsed: dict[Path, tuple[tuple[object, ...], SkillEntry]] = {}
        for candidate in candidates:
            mark = (candidate, prints.get(candidate.folder))
            known = self._parsed.get(candidate.folder)
            entry = known[1] if known is not None and known[0] == mark else _read(candidate)
            parsed[candidate.folder] = (mark, entry)
            entries.append(entry)
        self._parsed = parsed
        # Asked after the files were read: what was read is what was trusted.
        return _ranked(entries, self._trust(candidates))

    def _changes(self, before: Mapping[str, SkillDefinition], old_digests: Mapping[str, str]) -> SkillChanges:
        now = {skill.name: skill for skill in self._registry.skills()}
        digests = {e.name: e.digest for e in self._entries if e.status == "active"}
        added = tuple(name for name in now if name not in before)
        removed = tuple(name for name in before if name not in now)
        changed = tuple(
            name
            for name, skill in now.items()
            if name in before and (_differ(before[name], skill) or digests.get(name) != old_digests.get(name))
        )
        return SkillChanges(added, changed, removed, _announcement(now, added, changed, removed))

    def subscribe(self, sink: Callable[[SkillChanges], None]) -> Callable[[], None]:
        """Tell `sink` of every change of the skills in use from now on; the returned function ends it."""
        self._look()
        self._sinks.append(sink)
        return lambda: self._sinks.remove(sink) if sink in self._sinks else None

    def register(self, skill: SkillDefinition) -> bool:
        """Add a skill made in code; it stays over every refresh. False: the name is taken."""
        with self._lock:
            self._look()
            if not self._registry.register(skill):
                return False
            self._own = (*(s for s in self._own if s.name != skill.name), skill)
            return True

    # ------------------------------------------------------------ looking

    def entries(self) -> tuple[SkillEntry, ...]:
        """Every folder with its state, by precedence and name."""
        self._look()
        return self._entries

    def entry(self, name: str) -> SkillEntry | None:
        """The entry that counts under a name, else the first of that name in any state."""
        named = [entry for entry in self.entries() if entry.name == name]
        return next((entry for entry in named if entry.status == "active"), named[0] if named else None)

    def get(self, name: str) -> SkillDefinition | None:
        """The skill in use under a name, or None."""
        return self.registry.get(name)

    def files(self, name: str) -> tuple[SkillFile, ...]:
        """The files of a skill in use, as they were when it was loaded."""
        entry = self.entry(name)
        return entry.files if entry is not None and entry.status == "active" else ()

    async def obtain(self, skill: SkillDefinition, files: Iterable[str] = ()) -> SkillDefinition:
        """A skill in use with its instructions, and these files of it at hand in its folder.

        Only a skill of a server has to be fetched for that, and only what was not fetched before.

        Raises:
            SkillInvalid: the server's files are not what it said, or they have changed.
            GeodeError: the server cannot be reached.
        """
        if not skill.server or self._servers is None:
            return skill
        return await self._servers.obtain(skill, files)

    def summary(self) -> str:
        """One line: "12 loaded, 1 failed"."""
        count = {"active": 0, "invalid": 0, "shadowed": 0, "untrusted": 0}
        for entry in self.entries():
            count[entry.status] += 1
        parts = [f"{count['active'] + len(self._own)} loaded", f"{count['invalid']} failed"]
        parts += [f"{count[status]} {status}" for status in ("shadowed", "untrusted") if count[status]]
        return ", ".join(parts)


def _read(candidate: Candidate) -> SkillEntry:
    """The entry of one folder, not yet compared with others."""
    where: dict[str, Any] = {"root": candidate.root, "folder": candidate.folder}
    if candidate.file is None:
        found = (candidate.finding,) if candidate.finding else ()
        reason = found[0].problem if found else ""
        return SkillEntry(name=candidate.folder.name, status="invalid", reason=reason, findings=found, **where)
    parsed = SkillLoader(()).parse(candidate.file, origin=candidate.root.origin)
    findings, skill, files = parsed.findings, parsed.skill, ()
    if skill is not None:
        try:
            files = folder_files(candidate.real)
        except SkillInvalid as error:
            findings, skill = (*error.findings, *findings), None
    if skill is None:
        return SkillEntry(
            name=parsed.name, status="invalid", reason=errors_of(findings)[0].problem, findings=findings, **where
        )
    return SkillEntry(name=skill.name, status="active", skill=skill, findings=findings, files=files, **where)


def _ranked(entries: Iterable[SkillEntry], trusted: bool) -> tuple[SkillEntry, ...]:
    """Which of the readable ones count: trusted ones, the first of each name."""
    first: dict[str, SkillEntry] = {}
    ranked: list[SkillEntry] = []
    for entry in entries:
        if entry.skill is None:
            ranked.append(entry)
            continue
        status, reason = "active", ""
        if entry.root.origin == "project" and not trusted:
            status, reason = "untrusted", "the project is not trusted as it is now: geode trust"
        elif entry.name in first:
            status, reason = "shadowed", f"{first[entry.name].folder} has the same name and comes first"
        else:
            first[entry.name] = entry
        ranked.append(
            SkillEntry(
                name=entry.name, status=status, reason=reason, root=entry.root, folder=entry.folder,
                skill=entry.skill, findings=entry.findings, files=entry.files,
            )
        )  # fmt: skip
    return tuple(ranked)


def _offered(offers: Iterable[Offer], taken: Iterable[str]) -> Iterable[SkillEntry]:
    """Entries of what servers offer; never in the place of a skill of another origin."""
    names = {unicodedata.normalize("NFKC", name) for name in taken}
    for offer in offers:
        status, reason = offer.status, offer.reason
        if status == "active" and unicodedata.normalize("NFKC", offer.name) in names:
            status, reason = "shadowed", "a skill that is not of a server has the same name and comes first"
        origin = f"mcp:{offer.server}"
        yield SkillEntry(
            name=offer.name, status=status, reason=reason, root=Root(offer.folder.parent, origin, origin),
            folder=offer.folder, skill=offer.skill, findings=offer.findings, files=offer.files, asks=offer.asks,
        )  # fmt: skip


def _differ(before: SkillDefinition, now: SkillDefinition) -> bool:
    return before.digest != now.digest if before.server and before.server == now.server else before != now


def _announcement(
    now: Mapping[str, SkillDefinition], added: Iterable[str], changed: Iterable[str], removed: Iterable[str]
) -> str:
    """What a running conversation is told; the list in its prompt stays as it is."""
    lines: list[str] = []
    new = [now[name] for name in added if now[name].model_may_activate and not now[name].for_nodes_only]
    if new:
        lines += ["Skills added (read one with skill_read):", context_block(new, 4000)]
    if names := ", ".join(changed):
        lines.append(f"Skills changed, read them again before use: {names}")
    if names := ", ".join(removed):
        lines.append(f"Skills no longer available: {names}")
    return "\n".join(lines)


def open_library(
    project: Path,
    home: Path,
    *,
    trusted: bool | Callable[[], bool] = False,
    extra_roots: Iterable[Path | str] = (".agents/skills",),
    servers: SkillSource | None = None,
) -> SkillLibrary:
    """The library of a project.

    Args:
        project: the project folder.
        home: Geode's home.
        trusted: whether the person trusts the project's content now; a function is asked at every change.
        extra_roots: roots after the standard ones; relative ones lie in the project.
        servers: skills that MCP servers offer, or None.
    """
    return SkillLibrary(default_roots(project, home, extra_roots), trusted=trusted, servers=servers)
