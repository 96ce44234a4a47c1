"""The gateway on stdin and stdout, both eras.

While it serves, descriptor 0 is the null device and descriptor 1 is stderr: a stray print
cannot break the protocol and a child process cannot wait on the protocol's input (case R90).
No thread and no queue stand between pipe and dispatcher.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections import deque
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from ..mcp.lines import MessageLines, json_object
from ..mcp.stream import MessageStream
from .parts import GatewayParts
from .server import Expose, Gateway

if TYPE_CHECKING:
    from mcp.shared.message import SessionMessage

__all__ = ["serve_stdio"]

_CHUNK = 256 * 1024
_MAX_MESSAGE = 64 * 1024 * 1024


class _Pipe(MessageStream):
    """Read and write stream of the dispatcher over two pipes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._lines = MessageLines(self._refuse)
        self._ready: deque[SessionMessage] = deque()
        self._drain = asyncio.Lock()

    async def receive(self) -> SessionMessage:
        from anyio import EndOfStream

        while not self._ready:
            chunk = await self._reader.read(_CHUNK)
            self._ready.extend(self._lines.feed(chunk) if chunk else self._lines.end())
            if not self._ready and (not chunk or self._lines.pending > _MAX_MESSAGE):
                raise EndOfStream
        return self._ready.popleft()

    def _refuse(self, line: bytes) -> None:
        """Answer what is no message: a client that waits for an answer would wait for ever."""
        value = json_object(line)
        if value is not None and "id" not in value:
            return
        id = value.get("id") if value is not None else None
        code, text = (-32700, "the line is not JSON") if value is None else (-32600, "not a valid request")
        answer = {"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": text}}
        with contextlib.suppress(ConnectionError, RuntimeError, OSError):  # the reader notices as well
            self._writer.write(json.dumps(answer).encode() + b"\n")

    async def send(self, item: SessionMessage, /) -> None:
        from anyio import BrokenResourceError

        data = item.message.model_dump_json(by_alias=True, exclude_unset=True).encode("utf-8", "replace") + b"\n"
        try:
            self._writer.write(data)
            async with self._drain:
                await self._writer.drain()
        except (ConnectionError, RuntimeError, OSError) as error:
            raise BrokenResourceError from error


@contextlib.asynccontextmanager
async def _pipes() -> AsyncIterator[_Pipe]:
    """Take descriptors 0 and 1 for the protocol and put harmless ones in their place.

    Raises:
        ValueError, OSError: they are not pipes, sockets or terminals.
    """
    loop = asyncio.get_running_loop()
    taken_in, taken_out = _above_standard(0), _above_standard(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    try:
        reader = asyncio.StreamReader(limit=_CHUNK)
        protocol = asyncio.StreamReaderProtocol(reader)
        into, _ = await loop.connect_read_pipe(lambda: protocol, os.fdopen(os.dup(taken_in), "rb", buffering=0))
        out, flow = await loop.connect_write_pipe(
            asyncio.streams.FlowControlMixin, os.fdopen(os.dup(taken_out), "wb", buffering=0)
        )
        writer = asyncio.StreamWriter(out, flow, None, loop)
        try:
            yield _Pipe(reader, writer)
        finally:
            into.close()
            out.close()
            await asyncio.sleep(0)
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()  # what was printed goes to stderr, not onto the wire that comes back
        for number, taken in ((0, taken_in), (1, taken_out)):
            os.set_blocking(taken, True)
            os.dup2(taken, number)
            os.close(taken)


def _above_standard(number: int) -> int:
    import fcntl

    return fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, 3)


@contextlib.asynccontextmanager
async def _streams() -> AsyncIterator[tuple[Any, Any]]:
    """Our own pipes where possible, else the SDK's transport (regular files, Windows)."""
    if sys.platform != "win32" and _pollable(0) and _pollable(1):
        async with _pipes() as pipe:
            yield pipe, pipe
        return
    from mcp.server.stdio import stdio_server

    async with stdio_server() as (read, write):
        yield read, write


def _pollable(number: int) -> bool:
    import stat

    try:
        mode = os.fstat(number).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or stat.S_ISCHR(mode)


async def serve_stdio(parts: GatewayParts, expose: Expose = "direct") -> None:
    """Serve one client on stdin and stdout until it closes its end.

    Args:
        parts: registry, gate and the rest.
        expose: "direct" or "search".
    """
    gateway = Gateway(parts, expose)
    async with gateway.running() as server, _streams() as (read, write):
        await server.run(read, write, server.create_initialization_options())
