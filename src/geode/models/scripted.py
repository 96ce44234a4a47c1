"""`ScriptedModel`: a model that says what it was told to say; shipped for tests and demonstrations.

    model = ScriptedModel([turn(calls=[call("read_file", path="a.txt")]), turn("Done.")])

Nothing it does is a measure of a model's ability: every use is labelled as scripted.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..core.messages import Message, Role, Text, ToolCall
from .model import (
    CallReady,
    ModelError,
    ModelEvent,
    Profile,
    ReasoningDelta,
    Request,
    StopReason,
    TextDelta,
    TurnEnded,
    Usage,
)

__all__ = ["ScriptedModel", "Turn", "as_turn", "call", "pieces", "turn"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What the model does when it is asked.

    Attributes:
        text: the answer.
        reasoning: shown before it.
        calls: calls; a call without id gets "call_1", "call_2" … counted over the whole script.
        stop: None: CALLS when there are calls, else END.
        usage: as if the provider had reported it.
        error: raised instead of answering, or after the text and calls when `error_at_end`.
        error_at_end: the stream breaks when everything but the end was given out.
        delay: seconds of waiting before the first event.
        call_delay: seconds of waiting after each call, while the turn is still open.
        stall: after text and calls nothing ever comes: the turn ends by being closed or cancelled.
        calls_first: calls come before the text.
        opaque: what the message carries for its provider.
    """

    text: str = ""
    reasoning: str = ""
    calls: tuple[ToolCall, ...] = ()
    stop: StopReason | None = None
    usage: Usage = Usage()
    error: BaseException | None = None
    error_at_end: bool = False
    delay: float = 0.0
    call_delay: float = 0.0
    stall: bool = False
    calls_first: bool = False
    opaque: Mapping[str, Any] | None = None


Script = Iterable["Turn | str | ToolCall | BaseException | Sequence[ToolCall]"]
Player = Callable[[Request], "Turn | str | ToolCall | Sequence[ToolCall]"]


def call(name: str, /, *, call_id: str = "", raw: str | None = None, **arguments: Any) -> ToolCall:
    """A call for a script; `raw` without JSON in it makes a call whose arguments never parse."""
    if raw is not None:
        return ToolCall(call_id, name, None, raw)
    return ToolCall(call_id, name, arguments, json.dumps(arguments, ensure_ascii=False))


def turn(text: str = "", *, calls: Sequence[ToolCall] = (), **more: Any) -> Turn:
    """A turn; `more` are other attributes of `Turn`."""
    return Turn(text=text, calls=tuple(calls), **more)


class ScriptedModel:
    """A `Model` with a script.

    Args:
        script: turns in order, or a function that answers a request. A string is a turn with that
            text, a call or a list of calls one with those calls, an exception one that raises it.
        profile: what it claims to be.
        validate: called with every request before it is answered; what it raises fails the turn.
        profile_changes: attributes of the profile to set, as `images=True`.

    Attributes:
        requests: every request, in order.
        open_streams: streams that began and neither ended nor were closed.
    """

    def __init__(
        self,
        script: Script | Player = (),
        *,
        profile: Profile | None = None,
        validate: Callable[[Request], object] | None = None,
        **profile_changes: Any,
    ) -> None:
        self._player: Player | None = script if callable(script) else None
        self._turns = [] if callable(script) else [as_turn(t) for t in script]
        self._profile = profile or Profile(provider="scripted", name="scripted", family="scripted", **profile_changes)
        self._validate = validate
        self._calls = 0
        self.requests: list[Request] = []
        self.open_streams = 0

    @property
    def profile(self) -> Profile:
        return self._profile

    @property
    def left(self) -> int:
        """Turns that have not been asked for."""
        return len(self._turns)

    async def stream(self, request: Request) -> AsyncGenerator[ModelEvent]:
        """Play the next turn.

        Raises:
            ModelError: the script is over.
        """
        self.requests.append(request)
        if self._validate is not None:
            self._validate(request)
        played = self._next(request)
        self.open_streams += 1
        try:
            async for event in _play(played):
                yield event
        finally:
            self.open_streams -= 1

    def _next(self, request: Request) -> Turn:
        if self._player is not None:
            found = as_turn(self._player(request))
        elif self._turns:
            found = self._turns.pop(0)
        else:
            raise ModelError("the script of the model is over", fix="add a turn to the script")
        return replace(found, calls=tuple(self._with_id(c) for c in found.calls))

    def _with_id(self, wish: ToolCall) -> ToolCall:
        self._calls += 1
        return wish if wish.id else ToolCall(f"call_{self._calls}", wish.name, wish.arguments, wish.raw)


async def _play(played: Turn) -> AsyncGenerator[ModelEvent]:
    if played.delay:
        await asyncio.sleep(played.delay)
    if played.error is not None and not played.error_at_end:
        raise played.error
    if played.reasoning:
        yield ReasoningDelta(played.reasoning)
    if not played.calls_first:
        for piece in pieces(played.text):
            yield TextDelta(piece)
    for wish in played.calls:
        yield CallReady(wish)
        if played.call_delay:
            await asyncio.sleep(played.call_delay)
    if played.calls_first:
        for piece in pieces(played.text):
            yield TextDelta(piece)
    if played.stall:
        await asyncio.Event().wait()
    if played.error is not None:
        raise played.error
    blocks = (Text(played.text),) if played.text else ()
    message = Message(Role.ASSISTANT, blocks, calls=played.calls, opaque=played.opaque)
    stop = played.stop or (StopReason.CALLS if played.calls else StopReason.END)
    yield TurnEnded(message=message, stop=stop, usage=played.usage)


def pieces(text: str) -> list[str]:
    """Words with the space before them, as a stream would bring them."""
    first, *others = text.split(" ")
    return [p for p in (first, *(f" {word}" for word in others)) if p]


def as_turn(given: Turn | str | ToolCall | BaseException | Sequence[ToolCall]) -> Turn:
    """A turn out of the short forms of a script."""
    match given:
        case Turn():
            return given
        case str():
            return Turn(text=given)
        case ToolCall():
            return Turn(calls=(given,))
        case BaseException():
            return Turn(error=given)
        case _:
            return Turn(calls=tuple(given))
