"""Skills in one conversation: what is in its prompt, what the person's words call up, what is new.

The list in the prompt is settled when the conversation begins and never changes (the provider
caches it); what comes later is told in a message.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from .document import SkillDefinition
from .library import SkillLibrary
from .render import activation_text
from .rights import SkillRights

__all__ = ["Activation", "ConversationSkills"]

_MOST = 3
"""Skills activated by the words of one message; further ones are only named."""
_CALL = re.compile(r"/(\S+)(?:\s+(.*))?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Activation:
    """A skill that the person's words called up: its name and the text the model gets."""

    name: str
    text: str


class ConversationSkills:
    """The skills of one session.

    Args:
        library: all skills of the project.
        rights: what active skills change about permissions.
        session: id of the session.
        node: pipeline node the session acts as; its prompt then holds that node's skills and no others.
    """

    def __init__(self, library: SkillLibrary, rights: SkillRights, session: str, *, node: str | None = None) -> None:
        self._library = library
        self._rights = rights
        self._session = session
        self._node = node
        self._news: list[str] = []
        self._stop = library.subscribe(lambda changes: self._news.append(changes.announcement))

    def context_block(self, max_chars: int = 8000) -> str:
        """Names and descriptions for the prompt; what is in it is not announced again."""
        self._library.refresh()
        self._news.clear()
        return self._library.registry.get_context_block(max_chars, node=self._node)

    def news(self) -> str:
        """What changed since the prompt or the last call, for a message; "" when nothing did."""
        self._library.refresh()
        text = "\n".join(filter(None, self._news))
        self._news.clear()
        return text

    def activate(self, text: str) -> list[Activation]:
        """A person speaks: what was active ends, and the skills that their words call up begin.

        `/NAME arguments` calls one skill, whatever its risk, since a person names it. By trigger
        at most three are activated; a dangerous one is only named, and asks when the model reads it.
        """
        self._library.refresh()
        self._rights.release(self._session)
        called = _CALL.fullmatch(text.strip())
        named = self._library.get(called[1]) if called else None
        if called and named is not None:
            return [self._call(named, called[2] or "")]
        found = self._library.registry.find_by_trigger(text)
        given = [self._begin(skill) if skill.risk != "dangerous" else _offer(skill) for skill in found[:_MOST]]
        return [*given, *(_offer(skill) for skill in found[_MOST:])]

    def _call(self, skill: SkillDefinition, arguments: str) -> Activation:
        """The person names a skill; one of a server is read like every other thing of that server, by a call."""
        if not skill.server:
            return self._begin(skill, arguments)
        self._rights.invite(self._session, skill.name)
        more = f", arguments={arguments!r}" if arguments else ""
        text = f"The person calls this skill. Get its instructions first: skill_read(name={skill.name!r}{more})."
        return Activation(skill.name, text)

    def _begin(self, skill: SkillDefinition, arguments: str = "") -> Activation:
        self._rights.activate(self._session, skill)
        files = [file.name for file in self._library.files(skill.name)]
        return Activation(skill.name, activation_text(skill, arguments, files=files))

    def close(self) -> None:
        """The conversation is over."""
        self._stop()
        self._rights.end(self._session)


def _offer(skill: SkillDefinition) -> Activation:
    risk = f" It is marked {skill.risk}: reading it may ask a person." if skill.risk != "safe" else ""
    return Activation(skill.name, f"It is not active; skill_read(name={skill.name!r}) activates it.{risk}")
