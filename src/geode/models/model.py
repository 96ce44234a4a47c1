"""`Model`: what the loop needs of a language model, and `Profile`: what a model can do, as data.

A model turns a `Request` into a stream of `ModelEvent`s that ends with exactly one
`TurnEnded`. A call is complete as early as the wire allows: `CallReady` comes while the
stream goes on, so that the gate can begin with it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, Protocol, runtime_checkable

from ..core.errors import GeodeError, Missing
from ..core.messages import Message, ToolCall

__all__ = [
    "CallReady",
    "Model",
    "ModelError",
    "ModelEvent",
    "ModelUnavailable",
    "Price",
    "Profile",
    "ReasoningDelta",
    "Request",
    "StopReason",
    "TextDelta",
    "TurnEnded",
    "Usage",
    "Wire",
]


Wire = Literal["messages", "responses", "chat"]


class ModelError(GeodeError):
    """The provider refused or broke the request; `retryable` says whether the same request may be sent again."""

    code = "model"

    def __init__(self, message: str, *, fix: str = "", status: int | None = None, retryable: bool = False) -> None:
        super().__init__(message, fix=fix)
        self.status = status
        self.retryable = retryable


class ModelUnavailable(Missing):
    """No model is configured or it cannot be reached."""

    code = "model_unavailable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """US dollars per million tokens."""

    input: float = 0.0
    output: float = 0.0
    cache_read: float = 0.0
    cache_write: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens as the provider reported them.

    Attributes:
        input: tokens read at the full price (without those from a cache).
        output: tokens written, reasoning included.
        cache_read: tokens read from the provider's cache.
        cache_write: tokens written to it.
        cost_usd: US dollars by the profile's price; 0 when the price is not known.
    """

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cost_usd: float = 0.0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            input=self.input + other.input,
            output=self.output + other.output,
            cache_read=self.cache_read + other.cache_read,
            cache_write=self.cache_write + other.cache_write,
            cost_usd=self.cost_usd + other.cost_usd,
        )

    @property
    def total(self) -> int:
        """All tokens."""
        return self.input + self.output + self.cache_read + self.cache_write

    def to_json(self) -> dict[str, Any]:
        return {
            "input_tokens": self.input,
            "output_tokens": self.output,
            "cache_read_tokens": self.cache_read,
            "cache_write_tokens": self.cache_write,
            "cost_usd": round(self.cost_usd, 6),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """What a model can do and what its provider accepts; data, not code.

    Attributes:
        provider: "anthropic", "openai", "chat" (OpenAI-compatible), "scripted".
        wire: the form of a request's tools: Anthropic Messages, OpenAI Responses or OpenAI Chat Completions.
        name: the provider's name of the model.
        family: who made the model ("claude", "gpt", "qwen" …); a reviewer must be of another one.
        context_tokens: size of the context window.
        output_tokens: the most it writes in one turn.
        max_tools: tools one request may carry.
        images: whether it takes images.
        parallel_calls: whether one turn may hold several calls.
        deferral: True when the provider loads deferred tools itself.
        prompt_cache: True when the request marks what to cache.
        reasoning: True when it thinks before it answers and takes its own sealed thoughts back.
        price: per million tokens, or None when not known.
    """

    provider: str
    name: str
    wire: Wire = "chat"
    family: str = ""
    context_tokens: int = 128_000
    output_tokens: int = 8_192
    max_tools: int = 128
    images: bool = False
    parallel_calls: bool = True
    deferral: bool = False
    prompt_cache: bool = False
    reasoning: bool = False
    price: Price | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One turn to ask for. Adapters send it as it is: equal requests give equal bytes.

    Attributes:
        system: the instructions.
        messages: a valid history: results stand directly after the turn that called, in call order;
            names and arguments of calls are those of the wire.
        tools: definitions in the form of the profile's wire, legal for the provider, in a stable order.
        max_output_tokens: None takes the profile's.
        session: a key for provider-side caching, or "".
    """

    system: str
    messages: Sequence[Message]
    tools: Sequence[Mapping[str, Any]] = ()
    max_output_tokens: int | None = None
    session: str = ""


class StopReason(StrEnum):
    """Why a turn ended."""

    END = "end"
    CALLS = "calls"
    LENGTH = "length"
    REFUSAL = "refusal"


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    """A piece of the model's reasoning, where the provider shows it."""

    text: str


@dataclass(frozen=True, slots=True)
class CallReady:
    """One call has arrived whole. `arguments` is None when they can never be parsed (`raw` holds the text)."""

    call: ToolCall


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnEnded:
    """The turn is over.

    Attributes:
        message: the assistant's turn, with all calls in call order.
        stop: why it ended; LENGTH means that the last call may be cut and must not run.
        usage: as reported; zeros when the provider says nothing.
    """

    message: Message
    stop: StopReason
    usage: Usage = field(default_factory=Usage)


ModelEvent = TextDelta | ReasoningDelta | CallReady | TurnEnded


@runtime_checkable
class Model(Protocol):
    """A language model."""

    @property
    def profile(self) -> Profile: ...

    def stream(self, request: Request) -> AsyncGenerator[ModelEvent, None]:
        """Ask for one turn.

        Retries (rate limits, overload, a connection that broke before the first event) happen inside and
        never after an event was given out. Closing the generator (`aclose`) ends the request.

        Raises:
            ModelError: refused, broken, or given up after the retries.
            ModelUnavailable: nothing there to ask.
        """
        ...
