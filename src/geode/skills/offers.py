"""Skills that lie on other servers: what the library needs to know of them, and from whom."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from .document import SkillDefinition
from .files import SkillFile
from .findings import Finding

__all__ = ["Offer", "SkillSource"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """One skill as a server offers it now.

    Attributes:
        server: our label of the server.
        name: `SERVER:NAME`, or what is known of the name of one that cannot be used.
        folder: where its verified files are kept; need not exist.
        skill: what its entry says, without instructions; None when it cannot be used.
        files: every file it has, whether or not it was fetched.
        status: "active", "invalid" or "untrusted".
        reason: why it is not active.
        asks: why reading it asks a person first; "" when it does not.
        findings: what there is to say about it.
    """

    server: str
    name: str
    folder: Path
    skill: SkillDefinition | None = None
    files: tuple[SkillFile, ...] = ()
    status: str = "active"
    reason: str = ""
    asks: str = ""
    findings: tuple[Finding, ...] = ()


class SkillSource(Protocol):
    """Where skills of servers come from; see `mcp.skills.ServerSkills`."""

    def offers(self) -> tuple[Offer, ...]:
        """All that is known now; costs nothing and asks nobody. The same object while nothing changes."""
        ...

    async def obtain(self, skill: SkillDefinition, files: Iterable[str]) -> SkillDefinition:
        """The skill with its instructions, after SKILL.md and `files` were fetched where needed and verified.

        Raises:
            SkillInvalid: it is not what its entry says, or it has changed.
            GeodeError: the server cannot be reached.
        """
        ...
