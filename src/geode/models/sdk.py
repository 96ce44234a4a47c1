"""`SdkModel`: what the three adapters share. Each gives it a body and a parser; it sends, retries and explains.

Bodies are made by us and sent as they are, so that equal requests are equal bytes; the SDK
brings authentication, connections and the decoding of server-sent events.
"""

from __future__ import annotations

import ipaddress
import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Protocol, cast
from urllib.parse import urlsplit

from ..core.clock import SystemClock
from ..core.messages import clean_json
from ..core.ports import Clock
from .failures import AnswerBroken, Explainer
from .model import ModelEvent, ModelUnavailable, Profile, Request, TurnEnded
from .retry import Backoff, Failure, retried

__all__ = ["Parser", "SdkModel", "Timeouts", "http_client", "is_local", "missing_extra"]

_MOST_BODY = 20_000_000
"""Bytes of an answer that is not a stream; more is refused."""
_MOST_STREAM = 100_000_000
"""Bytes of a stream; one that goes on for ever is ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """Limits in seconds.

    Attributes:
        connect: until the connection stands.
        stall: the longest silence, before the first byte and between two.
        write: the longest wait while a request is sent.
    """

    connect: float = 10.0
    stall: float = 180.0
    write: float = 60.0


class Parser(Protocol):
    """Turns a provider's events into ours. One parser reads one answer."""

    def feed(self, event: Mapping[str, Any]) -> list[ModelEvent]:
        """The events that one of the provider's makes.

        Raises:
            AnswerRefused: the event is an error of the provider's.
        """
        ...

    def end(self) -> list[ModelEvent]:
        """What is left, ending with `TurnEnded`.

        Raises:
            AnswerBroken: the answer is not whole.
        """
        ...

    def whole(self, body: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        """An answer that was not streamed, as the events it would have had; [] when the protocol has no such form."""
        ...


class SdkModel:
    """Base of the adapters.

    Args:
        profile: the model's.
        client: the SDK's client.
        stream_class: the SDK's `AsyncStream`.
        explainer: explains its exceptions.
        backoff: see `Backoff`.
        clock: waits between attempts.
    """

    path = ""
    options: Mapping[str, Any] = {}

    def __init__(
        self, profile: Profile, client: Any, stream_class: Any, explainer: Explainer, *, backoff: Backoff, clock: Clock
    ) -> None:
        self._profile = profile
        self._client = client
        self._stream_class = stream_class
        self._explainer = explainer
        self._backoff = backoff
        self._clock = clock

    @property
    def profile(self) -> Profile:
        return self._profile

    def body(self, request: Request) -> dict[str, Any]:
        """The request as it is sent; a pure function of `request` and the profile."""
        raise NotImplementedError

    def parser(self) -> Parser:
        """A new parser for one answer."""
        raise NotImplementedError

    async def stream(self, request: Request) -> AsyncGenerator[ModelEvent]:
        """See `Model.stream`."""
        body = cast("dict[str, Any]", clean_json(self.body(request)))
        events = retried(lambda: self._attempt(body), self._explain, backoff=self._backoff, clock=self._clock)
        async with aclosing(events):
            async for event in events:
                yield event

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.close()

    def _explain(self, exc: Exception) -> Failure:
        return self._explainer(exc, self._clock.now())

    async def _attempt(self, body: Mapping[str, Any]) -> AsyncGenerator[ModelEvent]:
        parser = self.parser()
        stream = await self._client.post(
            self.path,
            cast_to=object,
            body=body,
            options=dict(self.options),
            stream=True,
            stream_cls=self._stream_class[object],
        )
        ended = False
        try:
            async for raw in self._raw_events(stream, parser):
                for event in parser.feed(raw):
                    yield event
            for event in parser.end():
                ended = ended or isinstance(event, TurnEnded)
                yield event
        finally:
            await stream.close()
        if not ended:
            raise AnswerBroken("ended without an end")

    async def _raw_events(self, stream: Any, parser: Parser) -> AsyncIterator[Mapping[str, Any]]:
        kind = str(stream.response.headers.get("content-type", "")).partition(";")[0].strip().lower()
        if kind == "application/json":
            for event in parser.whole(await _read_json(stream.response)):
                yield event
            return
        if kind in ("text/html", "application/xhtml+xml"):
            raise AnswerBroken("is a web page: this is not the address of a model", retry=False)
        seen = False
        async with aclosing(aiter(stream)) as events:
            async for event in events:
                seen = True
                if stream.response.num_bytes_downloaded > _MOST_STREAM:
                    raise AnswerBroken("is too large", retry=False)
                if isinstance(event, Mapping):
                    yield cast("Mapping[str, Any]", event)
        if not seen:
            raise AnswerBroken(f"is empty{f' (content type {kind})' if kind != 'text/event-stream' else ''}")


async def _read_json(response: Any) -> dict[str, Any]:
    size, parts = 0, list[bytes]()
    async for part in response.aiter_bytes():
        size += len(part)
        if size > _MOST_BODY:
            raise AnswerBroken("is too large", retry=False)
        parts.append(part)
    found = json.loads(b"".join(parts))
    if not isinstance(found, dict):
        raise AnswerBroken("cannot be read: it is not what the protocol says")
    return cast("dict[str, Any]", found)


def is_local(url: str) -> bool:
    """True for an address on this machine."""
    host = urlsplit(url).hostname or ""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def http_client(timeouts: Timeouts, url: str) -> Any:
    """An HTTP client with explicit limits. It follows no redirect (a key must not travel) and asks itself directly."""
    import httpx2

    return httpx2.AsyncClient(
        timeout=httpx2.Timeout(timeouts.stall, connect=timeouts.connect, write=timeouts.write, pool=timeouts.connect),
        follow_redirects=False,
        trust_env=not is_local(url),
    )


def missing_extra(package: str) -> ModelUnavailable:
    """What to say when a provider's SDK is not installed."""
    return ModelUnavailable(
        f"the package {package!r} is not installed", fix="install it with: pip install 'geode-runtime[models]'"
    )


DEFAULT_BACKOFF = Backoff()
DEFAULT_TIMEOUTS = Timeouts()
DEFAULT_CLOCK = SystemClock()
