"""What the SDK expects of a stream of messages, besides `receive` and `send`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from mcp.shared.message import SessionMessage

__all__ = ["MessageStream"]


class MessageStream(ABC):
    """Iteration and context management over `receive`; closing does nothing unless a subclass says what."""

    @abstractmethod
    async def receive(self) -> Any:
        """The next message.

        Raises:
            anyio.EndOfStream: there will be none.
        """

    async def aclose(self) -> None:
        """Part of the protocol; whoever opened the pipes ends them."""
        return

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage:
        from anyio import EndOfStream

        try:
            return await self.receive()
        except EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()
