"""What is said about a skill file: where, what is wrong, what to do."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from ..core.errors import GeodeError

__all__ = ["Finding", "SkillInvalid", "errors_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing to say about a skill.

    Attributes:
        level: "error" (the skill is not loaded), "warning" (loaded, but look at it) or "notice".
        problem: what is wrong, one line.
        fix: what to do about it.
        file: the file, or "".
        line: 1-based, 0 when it has no line.
        column: 1-based, 0 when it has no column.
        strict: True when it breaks the Agent Skills specification: an error in strict mode.
    """

    level: Literal["error", "warning", "notice"]
    problem: str
    fix: str = ""
    file: str = ""
    line: int = 0
    column: int = 0
    strict: bool = False

    def at(self, file: str) -> Finding:
        """The same finding in `file`, when it names none yet."""
        return self if self.file else replace(self, file=file)

    def to_json(self) -> dict[str, Any]:
        """The form of the command contract, with column, level and strictness added."""
        return {
            "file": self.file,
            "line": self.line,
            "column": self.column,
            "problem": self.problem,
            "fix": self.fix,
            "level": self.level,
            "strict": self.strict,
        }

    def __str__(self) -> str:
        place = ":".join(str(part) for part in (self.file, self.line, self.column) if part)
        return f"{place}: {self.problem}" if place else self.problem


def errors_of(findings: Iterable[Finding], *, strict: bool = False) -> tuple[Finding, ...]:
    """The findings that make a skill invalid; with `strict` also what breaks the specification."""
    return tuple(
        f if f.level == "error" else replace(f, level="error")
        for f in findings
        if f.level == "error" or (strict and f.strict)
    )


class SkillInvalid(GeodeError):
    """A skill cannot be used; `findings` say where and why."""

    code: ClassVar[str] = "invalid_skill"

    def __init__(self, message: str, *, findings: tuple[Finding, ...] = (), fix: str = "") -> None:
        first = next((f for f in findings if f.level == "error"), None)
        super().__init__(message, fix=fix or (first.fix if first else ""))
        self.findings = findings
