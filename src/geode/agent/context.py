"""What the model is shown: the instructions, fixed for a session, and the request of one turn.

The instructions and the resident tools never change within a session, so that what a
provider has cached stays valid; what is added live is announced in an appended message.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Any, Protocol

from ..core.errors import InvalidArguments
from ..core.messages import Message, Role, ToolCall, clean_json, clean_text
from ..discovery.deferral import resident
from ..models.model import Profile, Request
from ..tools.formats import Toolset
from ..tools.registry import ToolRegistry
from .history import mend

__all__ = ["Activated", "Context", "Skills", "base_prompt", "fill_prompt"]

PLACEHOLDER = "{skill_context}"
NO_SKILLS = "No skills loaded."


@dataclass(frozen=True, slots=True)
class Activated:
    """A skill that the person's words called up: its name and the text the model gets."""

    name: str
    text: str


class Skills(Protocol):
    """What the loop needs of the skill library."""

    def context_block(self) -> str:
        """Names and descriptions, at most 8,000 characters; "" when there is none."""
        ...

    def activate(self, text: str) -> Sequence[Activated]:
        """Skills whose triggers stand in `text`."""
        ...


def base_prompt() -> str:
    """The instructions that come with the package, with the placeholder for skills."""
    return files("geode.agent").joinpath("prompt.md").read_text("utf-8")


def fill_prompt(base: str, skills: str, suffix: str = "") -> str:
    """Put the skills into `{skill_context}` and append the suffix; all other braces stay (requirement E4)."""
    text = base.replace(PLACEHOLDER, skills or NO_SKILLS)
    return f"{text.rstrip()}\n\n{suffix.strip()}\n" if suffix.strip() else text


class Context:
    """Makes requests of one session. The tools a request carries are settled when it is made.

    Args:
        registry: where the tools are.
        profile: the model's.
        system: the filled instructions.
        residents: key of `discovery.deferral.RESIDENT`.
        visible: True for names the session may use.
        session: key for provider-side caching.
    """

    def __init__(
        self,
        registry: ToolRegistry,
        profile: Profile,
        system: str,
        *,
        residents: str,
        visible: Callable[[str], bool],
        session: str,
    ) -> None:
        specs = resident(registry, residents, visible=[n for n in registry.names() if visible(n)])
        self.resident = tuple(s.name for s in specs)
        self._toolset = Toolset("anthropic" if profile.wire == "messages" else "openai", specs)
        tools = self._toolset.responses_tools if profile.wire == "responses" else self._toolset.tools
        self._tools: tuple[dict[str, Any], ...] = tuple(tools)
        self._system = system
        self._session = session

    def request(self, messages: Sequence[Message]) -> Request:
        """The request for the next turn; the history is made valid first."""
        sent = tuple(self._on_the_wire(m) for m in mend(messages))
        return Request(system=self._system, messages=sent, tools=self._tools, session=self._session)

    def original(self, call: ToolCall) -> ToolCall:
        """A model's call under the tool's own name and argument keys, lone surrogates replaced (case R05)."""
        call = replace(call, name=clean_text(call.name), raw=clean_text(call.raw), arguments=clean_json(call.arguments))
        try:
            name, arguments = self._toolset.decode(call.name, call.arguments or {})
        except InvalidArguments:
            return call  # validation will say what is wrong
        return replace(call, name=name, arguments=None if call.arguments is None else arguments)

    def _on_the_wire(self, message: Message) -> Message:
        if message.role is not Role.ASSISTANT or not message.calls:
            return message
        return replace(message, calls=tuple(self._encoded(c) for c in message.calls))

    def _encoded(self, call: ToolCall) -> ToolCall:
        name, arguments = self._toolset.encode(call.name, call.arguments or {})
        return replace(call, name=name, arguments=arguments)
