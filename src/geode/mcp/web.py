"""Transport to a Streamable HTTP server: the SDK's, watched, with the entry's headers."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextvars import Context
from typing import TYPE_CHECKING, Any

from .stdio import LIST_CHANGED
from .stream import MessageStream

if TYPE_CHECKING:
    from mcp.shared._stream_protocols import ReadStream, WriteStream
    from mcp.shared.message import SessionMessage

__all__ = ["WebLink", "open_web"]

# The SDK logs what it cannot parse, with a traceback; the call it belongs to fails with the reason anyway.
# Without a handler anywhere Python would print that on stderr.
logging.getLogger("mcp").addHandler(logging.NullHandler())


class WebLink(MessageStream):
    """The read stream of an HTTP connection; knows when the connection or its session is over.

    Attributes:
        write: the write stream that belongs to it.
        closed: set when nothing more can be read.
        session_lost: the server answered 404 to our session id (it was restarted).
    """

    def __init__(self, read: ReadStream[SessionMessage | Exception], write: WriteStream[SessionMessage]) -> None:
        self._read = read
        self.write = write
        self.closed = asyncio.Event()
        self.session_lost = False
        self.last_status = 0
        self.on_list_changed: Callable[[], None] = lambda: None

    @property
    def last_context(self) -> Context | None:
        return getattr(self._read, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        """The next message; see the SDK's stream."""
        try:
            item = await self._read.receive()
        except BaseException:
            self.closed.set()
            raise
        if getattr(getattr(item, "message", None), "method", "") == LIST_CHANGED:
            self.on_list_changed()
        return item

    async def aclose(self) -> None:
        await self._read.aclose()


@contextlib.asynccontextmanager
async def open_web(url: str, headers: Mapping[str, str], call_timeout: float) -> AsyncIterator[WebLink]:
    """Open a connection; leaving the block ends the server's session with DELETE.

    Args:
        url: endpoint.
        headers: sent with every request, never to another origin.
        call_timeout: seconds a response may be silent.
    """
    import httpx2
    from mcp.client.streamable_http import MCP_SESSION_ID, streamable_http_client

    link: WebLink | None = None

    async def watch(response: Any) -> None:
        if link is not None:
            link.last_status = response.status_code
            if response.status_code == 404 and response.request.headers.get(MCP_SESSION_ID):
                link.session_lost = True

    timeout = httpx2.Timeout(30.0, read=max(300.0, call_timeout))
    async with (
        httpx2.AsyncClient(headers=dict(headers), timeout=timeout, event_hooks={"response": [watch]}) as client,
        streamable_http_client(url, http_client=client) as (read, write),
    ):
        link = WebLink(read, write)
        yield link
