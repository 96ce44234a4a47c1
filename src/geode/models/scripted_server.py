"""`ScriptedServer`: an HTTP server on loopback that speaks Anthropic Messages, OpenAI Responses and Chat Completions
from one script of turns; shipped for tests and benches.

    with ScriptedServer([turn(calls=[call("read_file", path="a.txt")]), "Done."]) as server:
        model = await open_model(f"openai-compatible:{server.url}/v1#scripted", {})

A turn can be sent whole or byte by byte, cut off, stalled, or replaced by any answer a server might give.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from ..core.messages import ToolCall
from .scripted import Turn, as_turn
from .scripted_wire import Protocol, events_of

__all__ = ["Received", "Reply", "ScriptedServer"]

_PATHS: dict[str, Protocol] = {
    "/v1/messages": "messages",
    "/v1/responses": "responses",
    "/v1/chat/completions": "chat",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One answer of the server.

    Attributes:
        turn: what the model says.
        how: "whole", "bytes" (one byte at a time), "cut" (the connection closes after `at`), "stall" (nothing
            comes after `at`).
        at: where it is cut or stalls, as a part of the bytes (0 to 1).
        status: HTTP status; anything but 200 sends `body`.
        headers: further headers.
        content_type: of the answer.
        body: sent instead of the turn.
        events: data of server-sent events, sent instead of the turn's ("[DONE]" is added).
        pause: seconds between two events.
    """

    turn: Turn = Turn()
    how: Literal["whole", "bytes", "cut", "stall"] = "whole"
    at: float = 0.5
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    content_type: str = "text/event-stream"
    body: str | bytes | None = None
    events: Sequence[Any] | None = None
    pause: float = 0.0


@dataclass(frozen=True, slots=True)
class Received:
    """One request as it arrived."""

    method: str
    path: str
    headers: Mapping[str, str]
    raw: bytes

    @property
    def json(self) -> dict[str, Any]:
        return json.loads(self.raw)


Answers = Iterable["Reply | Turn | str | ToolCall | Sequence[ToolCall]"]


class ScriptedServer:
    """Serves in a thread of its own, so that tests without an event loop and other processes can use it.

    Args:
        script: answers in order; anything that `ScriptedModel` takes for a turn, or a `Reply`.
        models: names it offers.
        validate: called with protocol and body; sentences it returns are answered with status 400, as a provider does.
        pages: further answers to GET, path to JSON value.

    Attributes:
        url: "http://127.0.0.1:PORT", without a path.
        requests: POSTs in order.
    """

    def __init__(
        self,
        script: Answers = (),
        *,
        models: Sequence[str] = ("scripted",),
        validate: Callable[[Protocol, dict[str, Any]], Sequence[str]] | None = None,
        pages: Mapping[str, Any] | None = None,
    ) -> None:
        self._script = [r if isinstance(r, Reply) else Reply(turn=as_turn(r)) for r in script]
        self._models = models
        self._validate = validate
        self._pages = dict(pages or {})
        self._calls = 0
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._stop: asyncio.Event | None = None
        self._thread = threading.Thread(target=self._main, name="scripted-server", daemon=True)
        self.url = ""
        self.requests: list[Received] = []
        self.gets: list[Received] = []

    def __enter__(self) -> ScriptedServer:
        self._thread.start()
        self._ready.wait(10)
        return self

    def __exit__(self, *exc: object) -> None:
        if self._stop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)

    @property
    def bodies(self) -> list[dict[str, Any]]:
        """The JSON of every POST."""
        return [r.json for r in self.requests]

    @property
    def left(self) -> int:
        """Answers that were not asked for."""
        return len(self._script)

    def add(self, *answers: Any) -> None:
        """Lengthen the script."""
        self._script += [r if isinstance(r, Reply) else Reply(turn=as_turn(r)) for r in answers]

    # ------------------------------------------------------------ serving

    def _main(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        self._stop = asyncio.Event()
        server = await asyncio.start_server(self._connection, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        self._ready.set()
        await self._stop.wait()
        server.close()
        mine = asyncio.current_task()
        others = [t for t in asyncio.all_tasks() if t is not mine]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while (received := await _read(reader)) is not None and await self._answer(received, writer):
                pass
        writer.close()

    async def _answer(self, received: Received, writer: asyncio.StreamWriter) -> bool:
        """True when the connection can be used again."""
        protocol = _PATHS.get(received.path)
        if received.method == "GET":
            self.gets.append(received)
            return await _send_json(writer, *self._page(received.path))
        self.requests.append(received)
        if protocol is None:
            if received.path in self._pages:
                return await _send_json(writer, 200, self._pages[received.path])
            return await _send_json(writer, 404, _error(404, f"no such path: {received.path}"))
        wrong = self._validate(protocol, received.json) if self._validate else ()
        if wrong:
            return await _send_json(writer, 400, _error(400, "; ".join(wrong)))
        if not self._script:
            return await _send_json(writer, 400, _error(400, "the script of the server is over"))
        return await self._play(self._numbered(self._script.pop(0)), protocol, received, writer)

    def _page(self, path: str) -> tuple[int, Any]:
        if path in self._pages:
            return 200, self._pages[path]
        if path == "/v1/models":
            return 200, {"object": "list", "data": [{"id": m, "object": "model"} for m in self._models]}
        return 404, _error(404, "not here")

    def _numbered(self, reply: Reply) -> Reply:
        calls: list[ToolCall] = []
        for wish in reply.turn.calls:
            self._calls += 1
            calls.append(wish if wish.id else replace(wish, id=f"call_{self._calls}"))
        return replace(reply, turn=replace(reply.turn, calls=tuple(calls)))

    async def _play(self, reply: Reply, protocol: Protocol, received: Received, writer: asyncio.StreamWriter) -> bool:
        if reply.status != 200 or reply.body is not None:
            return await _send(writer, reply.status, reply.headers, reply.content_type, _bytes(reply.body))
        events = _sse(protocol, reply, received.json.get("model", "scripted"))
        await asyncio.sleep(reply.turn.delay)
        writer.write(_head(200, {**reply.headers, "content-type": reply.content_type, "transfer-encoding": "chunked"}))
        data = b"".join(events)
        if reply.how == "whole":
            for event in events:
                await _chunk(writer, event)
                await asyncio.sleep(reply.pause)
        elif reply.how == "bytes":
            for byte in data:
                await _chunk(writer, bytes([byte]))
        else:
            await _chunk(writer, data[: int(len(data) * reply.at)])
            if reply.how == "stall":
                await asyncio.Event().wait()
            return False
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True


def _sse(protocol: Protocol, reply: Reply, model: str) -> list[bytes]:
    if reply.events is not None:
        made = [e if isinstance(e, str) else json.dumps(e) for e in reply.events]
        return [f"data: {e}\n\n".encode() for e in [*made, "[DONE]"]]
    return events_of(protocol, reply.turn, model)


async def _read(reader: asyncio.StreamReader) -> Received | None:
    head = await reader.readuntil(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    method, path, _ = first.split(" ", 2)
    headers = {k.strip().lower(): v.strip() for k, _, v in (line.partition(":") for line in lines if line)}
    raw = await reader.readexactly(int(headers.get("content-length", "0")))
    return Received(method, path.partition("?")[0], headers, raw)


def _error(status: int, message: str) -> dict[str, Any]:
    kinds = {400: "invalid_request_error", 404: "not_found_error"}
    return {"type": "error", "error": {"type": kinds.get(status, "api_error"), "message": message}}


def _bytes(body: str | bytes | None) -> bytes:
    return body if isinstance(body, bytes) else (body or "").encode()


def _head(status: int, headers: Mapping[str, str]) -> bytes:
    lines = "".join(f"{k}: {v}\r\n" for k, v in headers.items())
    return f"HTTP/1.1 {status} Scripted\r\n{lines}\r\n".encode("latin-1")


async def _chunk(writer: asyncio.StreamWriter, data: bytes) -> None:
    if data:
        writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        await writer.drain()


async def _send_json(writer: asyncio.StreamWriter, status: int, value: Any) -> bool:
    return await _send(writer, status, {}, "application/json", json.dumps(value).encode())


async def _send(
    writer: asyncio.StreamWriter, status: int, headers: Mapping[str, str], content_type: str, body: bytes
) -> bool:
    writer.write(_head(status, {**headers, "content-type": content_type, "content-length": str(len(body))}) + body)
    await writer.drain()
    return True
