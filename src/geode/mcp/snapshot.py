"""What a server offered when it was last connected, kept so that listing starts nothing.

One file per declared server under `HOME/cache/mcp/`. It is a cache: lost or damaged it is
made again by connecting once. It holds what the server said (names, descriptions, schemas),
no argument, no result and no expanded value.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from ..config.home import private_folder
from .config import ServerConfig

__all__ = ["Snapshot", "forget", "load", "note_failure", "recent_failure", "save", "skills_folder"]

_SCHEMA = 1
_TRIED_AGAIN = 120.0
"""Seconds for which a server that did not start is not started again merely to learn its tools."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Tools as the server described them, with the era it spoke.

    Attributes:
        tools: raw tool objects of `tools/list`, all pages, in the server's order.
        era: "modern" (2026-07-28 envelope) or "legacy" (initialize handshake).
        version: negotiated protocol version.
        instructions: the server's own text about itself; untrusted.
        title: name the server gives itself; untrusted.
        at: when, seconds since the epoch.
        skills: raw entries of the skills it offers.
        skills_problem: what keeps that list from being whole, or "".
    """

    tools: tuple[dict[str, Any], ...] = ()
    era: str = "legacy"
    version: str = ""
    instructions: str = ""
    title: str = ""
    at: float = 0.0
    skills: tuple[dict[str, Any], ...] = ()
    skills_problem: str = ""

    def same_offer(self, other: Snapshot) -> bool:
        """Whether both say the same about tools, skills and era."""
        mine = (self.tools, self.skills, self.skills_problem, self.era)
        return mine == (other.tools, other.skills, other.skills_problem, other.era)


def _file(home: Path, config: ServerConfig) -> Path:
    mark = hashlib.sha256(config.identity.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return home / "cache" / "mcp" / f"{config.name}-{mark}.json"


def skills_folder(home: Path, config: ServerConfig) -> Path:
    """Where verified files of its skills are kept; no root in which skills are looked for."""
    return _file(home, config).with_suffix(".skills")


def load(home: Path, config: ServerConfig) -> Snapshot | None:
    """The snapshot of exactly this declaration, or None."""
    try:
        data = json.loads(_file(home, config).read_bytes())
        if data["schema"] != _SCHEMA or not isinstance(data["tools"], list):
            return None
        tools = tuple(t for t in cast(list[Any], data["tools"]) if isinstance(t, dict))
        skills = tuple(s for s in cast(list[Any], data.get("skills", [])) if isinstance(s, dict))
        return Snapshot(
            tools=tools,
            era=str(data["era"]),
            version=str(data["version"]),
            instructions=str(data["instructions"]),
            title=str(data["title"]),
            at=float(data["at"]),
            skills=skills,
            skills_problem=str(data.get("skills_problem", "")),
        )
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def save(home: Path, config: ServerConfig, snapshot: Snapshot) -> bool:
    """Replace the snapshot atomically; False when the home cannot be written (it is only a cache)."""
    path = _file(home, config)
    document = {
        "schema": _SCHEMA,
        "server": config.name,
        "era": snapshot.era,
        "version": snapshot.version,
        "instructions": snapshot.instructions,
        "title": snapshot.title,
        "at": snapshot.at,
        "tools": list(snapshot.tools),
        "skills": list(snapshot.skills),
        "skills_problem": snapshot.skills_problem,
    }
    try:
        private_folder(path.parent)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(json.dumps(document, ensure_ascii=True).encode())
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError:
        return False
    return True


def note_failure(home: Path, config: ServerConfig, error: str) -> None:
    """Remember that a server nobody has seen yet could not be started, so that not every command tries again."""
    with contextlib.suppress(OSError):  # only a cache
        path = _file(home, config).with_suffix(".failed")
        private_folder(path.parent)
        path.write_text(error[:2000], encoding="utf-8", errors="replace")


def recent_failure(home: Path, config: ServerConfig) -> tuple[str, float]:
    """Why it could not be started lately, and the seconds until it is tried again by itself; "" and 0.0 if not."""
    path = _file(home, config).with_suffix(".failed")
    try:
        left = path.stat().st_mtime + _TRIED_AGAIN - time.time()
        return (path.read_text(encoding="utf-8", errors="replace"), left) if 0 < left <= _TRIED_AGAIN else ("", 0.0)
    except OSError:
        return "", 0.0


def forget(home: Path, config: ServerConfig) -> None:
    """Remove the snapshot and the fetched skills, when a server is removed."""
    for suffix in (".json", ".failed"):
        _file(home, config).with_suffix(suffix).unlink(missing_ok=True)
    shutil.rmtree(skills_folder(home, config), ignore_errors=True)
