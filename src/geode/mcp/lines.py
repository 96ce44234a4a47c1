"""Bytes of a pipe -> JSON-RPC messages. What is no message is handed aside, never an error.

The SDK's parser refuses a whole message for one lone surrogate or one invalid byte, and the
request it belongs to would then wait for ever. Such a message is read again leniently; an
answer that still is none becomes an error answer to its request.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from ..core.messages import clean_json

if TYPE_CHECKING:
    from mcp.shared.message import SessionMessage

__all__ = ["MessageLines", "json_object"]


class MessageLines:
    """Cuts chunks into lines and lines into messages.

    Args:
        aside: gets every non-empty line (or the part of one before a message) that is no JSON-RPC.
    """

    def __init__(self, aside: Callable[[bytes], None]) -> None:
        self._aside = aside
        self._buffer = bytearray()
        self._scanned = 0

    @property
    def pending(self) -> int:
        """Bytes of a line whose end has not come yet."""
        return len(self._buffer)

    def feed(self, chunk: bytes) -> list[SessionMessage]:
        """Messages that are complete with this chunk."""
        self._buffer += chunk
        end = self._buffer.rfind(b"\n", self._scanned)
        if end < 0:
            self._scanned = len(self._buffer)
            return []
        lines = bytes(self._buffer[:end]).split(b"\n")
        del self._buffer[: end + 1]
        self._scanned = len(self._buffer)
        return [message for line in lines if (message := self._parse(line)) is not None]

    def end(self) -> list[SessionMessage]:
        """The last line, when its end is missing."""
        line, self._buffer, self._scanned = bytes(self._buffer), bytearray(), 0
        message = self._parse(line)
        return [] if message is None else [message]

    def _parse(self, line: bytes) -> SessionMessage | None:
        from mcp.shared.message import SessionMessage
        from mcp_types import jsonrpc_message_adapter

        start = 0 if line.startswith(b"{") else line.find(b'{"jsonrpc"')
        if start > 0:  # a banner without a line end in front of a message
            self._aside(line[:start])
            line = line[start:]
        text = line.strip()
        if not text:
            return None
        try:
            return SessionMessage(jsonrpc_message_adapter.validate_json(text, by_name=False))
        except ValueError:
            message = _read_again(text)
            if message is None:
                self._aside(text)
            return message


def json_object(text: bytes) -> dict[str, Any] | None:
    """The object a line holds, with U+FFFD for what is no character; None when it holds none."""
    try:
        value: Any = json.loads(text.decode("utf-8", "replace"))
        return cast("dict[str, Any]", clean_json(value)) if isinstance(value, dict) else None
    except (ValueError, RecursionError):
        return None


def _read_again(text: bytes) -> SessionMessage | None:
    from mcp.shared.message import SessionMessage
    from mcp_types import INTERNAL_ERROR, jsonrpc_message_adapter

    value = json_object(text)
    if value is None or value.get("jsonrpc") != "2.0":
        return None
    id = value.get("id")
    wrong = {"code": INTERNAL_ERROR, "message": "the answer is not valid JSON-RPC"}
    forms = [value]
    if "method" not in value and isinstance(id, str | int) and not isinstance(id, bool):
        forms.append({"jsonrpc": "2.0", "id": id, "error": wrong})
    for form in forms:
        try:
            return SessionMessage(jsonrpc_message_adapter.validate_python(form, by_name=False))
        except ValueError:
            continue
    return None
