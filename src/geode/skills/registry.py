"""`SkillRegistry`: the skills in use, found by name, by trigger and by pipeline node."""

from __future__ import annotations

import threading
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

from .block import context_block
from .document import SkillDefinition
from .triggers import matches

__all__ = ["SkillConflict", "SkillRegistry"]


@dataclass(frozen=True, slots=True)
class SkillConflict:
    """Two skills of one name: the first one counts, the other one was left out."""

    name: str
    kept: str
    lost: str


class SkillRegistry:
    """Skills by name. Reads see one consistent state; changes replace it whole."""

    def __init__(self, skills: Iterable[SkillDefinition] = ()) -> None:
        self._lock = threading.Lock()
        self._skills: dict[str, SkillDefinition] = {}
        self._conflicts: tuple[SkillConflict, ...] = ()
        for skill in skills:
            self.register(skill)

    # ------------------------------------------------------------ changes

    def register(self, skill: SkillDefinition) -> bool:
        """Add a skill; the same source again replaces it.

        Returns:
            False when another source has the name already: the first one stays and
            `conflicts` names both.
        """
        with self._lock:
            key = _key(skill.name)
            present = self._skills.get(key)
            if present is not None and present.source != skill.source:
                lost = SkillConflict(skill.name, present.source or "code", skill.source or "code")
                self._conflicts = (*self._conflicts, lost)
                return False
            self._skills = {**self._skills, key: skill}
            return True

    def unregister(self, name: str) -> bool:
        """Remove a skill; False when there is none of that name."""
        with self._lock:
            if _key(name) not in self._skills:
                return False
            self._skills = {key: skill for key, skill in self._skills.items() if key != _key(name)}
            return True

    def replace(self, skills: Iterable[SkillDefinition]) -> None:
        """Take exactly these, the first of each name, in place of all there were."""
        with self._lock:
            self._skills, self._conflicts = {}, ()
        for skill in skills:
            self.register(skill)

    # ------------------------------------------------------------ looking

    @property
    def conflicts(self) -> tuple[SkillConflict, ...]:
        """Skills that were left out because another one has their name."""
        return self._conflicts

    def __len__(self) -> int:
        return len(self._skills)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and _key(name) in self._skills

    def get(self, name: str) -> SkillDefinition | None:
        """The skill of that name, or None."""
        return self._skills.get(_key(name))

    def names(self) -> list[str]:
        """All names, sorted."""
        return sorted(skill.name for skill in self._skills.values())

    def skills(self) -> list[SkillDefinition]:
        """All skills, sorted by name."""
        return sorted(self._skills.values(), key=lambda skill: skill.name)

    def find_by_trigger(self, text: str) -> list[SkillDefinition]:
        """The skills a person's words activate: most and longest matching triggers first, then by name.

        Skills of pipeline nodes and those that only a person may call by name are not among them.
        """
        found: list[tuple[int, int, str, SkillDefinition]] = []
        for skill in self.skills():
            if skill.for_nodes_only or not skill.model_may_activate:
                continue
            hits = matches(skill.triggers, text)
            if hits:
                found.append((-len(hits), -len(hits[0]), skill.name, skill))
        return [skill for *_, skill in sorted(found, key=lambda row: row[:3])]

    def for_node(self, node: str, type: str | None = None, role: str | None = None) -> list[SkillDefinition]:
        """The skills that belong to a pipeline node, sorted by name.

        A skill belongs there when its `nodes` fit, and its `types` and `roles` where it declares
        some. `analyst` fits the node `analyst` and `analyst_game`, not `analystX`; `*` fits every node.

        Args:
            node: name of the node.
            type: kind of the node, for example the analyst's subject.
            role: role the node plays.
        """
        return [
            skill
            for skill in self.skills()
            if skill.for_nodes_only
            and any(name in (node, "*") or node.startswith(f"{name}_") for name in skill.nodes)
            and (not skill.types or (type is not None and type in skill.types))
            and (not skill.roles or (role is not None and role in skill.roles))
        ]

    def get_context_block(
        self, max_chars: int = 8000, *, node: str | None = None, type: str | None = None, role: str | None = None
    ) -> str:
        """The list for a system prompt, at most `max_chars` characters; "No skills loaded." when empty.

        Without `node`: what the main conversation may use. With it: that node's own skills.
        """
        if node is not None:
            return context_block(self.for_node(node, type, role), max_chars)
        shown = (skill for skill in self.skills() if not skill.for_nodes_only and skill.model_may_activate)
        return context_block(shown, max_chars)


def _key(name: str) -> str:
    return unicodedata.normalize("NFKC", name)
