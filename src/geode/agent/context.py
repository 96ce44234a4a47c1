"""What the model is shown: the instructions, fixed for a session, and the request of one turn.

The instructions and the resident tools never change within a session, so that what a
provider has cached stays valid; what is added live is announced in an appended message.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.resources import files
from typing import Any, Protocol

from ..core.errors import InvalidArguments
from ..core.messages import Message, Role, ToolCall, clean_json, clean_text
from ..discovery.deferral import resident
from ..models.model import Profile, Request
from ..tools.formats import Toolset
from ..tools.registry import ToolRegistry
from .compaction import estimate_tokens
from .history import mend, problems

__all__ = ["Activated", "Context", "Skills", "base_prompt", "fill_prompt"]

PLACEHOLDER = "{skill_context}"
NO_SKILLS = "No skills loaded."


class Activated(Protocol):
    """A skill that the person's words called up: its name and the text the model gets."""

    @property
    def name(self) -> str: ...
    @property
    def text(self) -> str: ...


class Skills(Protocol):
    """What the loop needs of the skill library."""

    def context_block(self) -> str:
        """Names and descriptions, at most 8,000 characters; "" when there is none."""
        ...

    def activate(self, text: str) -> Sequence[Activated]:
        """Skills whose triggers stand in `text`."""
        ...

    def news(self) -> str:
        """What changed since the block was made or the last call; "" when nothing did."""
        ...


def base_prompt() -> str:
    """The instructions that come with the package, with the placeholder for skills."""
    return files("geode.agent").joinpath("prompt.md").read_text("utf-8")


def fill_prompt(base: str, skills: str, suffix: str = "") -> str:
    """Put the skills into `{skill_context}` and append the suffix; all other braces stay (requirement E4)."""
    text = base.replace(PLACEHOLDER, skills or NO_SKILLS)
    return f"{text.rstrip()}\n\n{suffix.strip()}\n" if suffix.strip() else text


class _Ready:
    """The messages that were sent, with their form on the wire and the tokens up to each.

    Messages are immutable, so the same object needs no second look. Validity is local to a turn
    and its results, so a valid tail after a valid beginning makes a valid whole.
    """

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.wire: list[Message] = []
        self.tokens: list[int] = [0]

    def common(self, messages: Sequence[Message]) -> int:
        """How many messages at the beginning are those known here."""
        count = 0
        for mine, given in zip(self.messages, messages, strict=False):
            if mine is not given:
                break
            count += 1
        return count

    def new(self, messages: Sequence[Message]) -> list[Message]:
        """What has to be added to stand for `messages`; forgets everything when they do not go on from here."""
        known = len(self.messages)
        tail = list(messages[known:])
        goes_on = known > 0 and self.common(messages) == known and self.messages[-1].role is not Role.ASSISTANT
        if goes_on and (not tail or tail[0].role is Role.ASSISTANT) and not problems([_START, *tail]):
            return tail
        self.messages, self.wire, self.tokens = [], [], [0]
        return mend(messages)

    def add(self, messages: Sequence[Message], wire: Sequence[Message]) -> None:
        """Add messages with their form on the wire."""
        self.messages += messages
        self.wire += wire
        for message in messages:
            self.tokens.append(self.tokens[-1] + estimate_tokens([message]))


_START = Message.user("…")


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
        self._ready = _Ready()

    def request(self, messages: Sequence[Message]) -> Request:
        """The request for the next turn; the history is made valid first.

        What was sent before is not worked on again: a turn costs what is new.
        """
        new = self._ready.new(messages)
        self._ready.add(new, [self._on_the_wire(m) for m in new])
        sent = tuple(self._ready.wire)
        return Request(system=self._system, messages=sent, tools=self._tools, session=self._session)

    def aside(self, messages: Sequence[Message]) -> Request:
        """A request beside the conversation: the same beginning, which the provider has cached, with other messages."""
        sent = tuple(self._on_the_wire(m) for m in mend(messages))
        return Request(system=self._system, messages=sent, tools=self._tools, session=self._session)

    def tokens(self, messages: Sequence[Message]) -> int:
        """A rough count of a history; see `compaction.estimate_tokens`."""
        known = self._ready.common(messages)
        return self._ready.tokens[known] + estimate_tokens(messages[known:])

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
