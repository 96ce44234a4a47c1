"""Asks the person in the chat about a call: the same question as everywhere, with the picture held still."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager

from ...core.ports import ApprovalAnswer, ApprovalRequest
from ..approver import TerminalApprover

__all__ = ["ChatApprover"]


class ChatApprover:
    """An `Approver` that takes the terminal while it asks.

    Args:
        seconds: how long the gate waits for an answer.
        terminal: gives the terminal to a question and takes it back; set by the chat.
    """

    def __init__(self, seconds: float) -> None:
        self._ask = TerminalApprover(seconds)
        self._turn = asyncio.Lock()
        self.terminal: Callable[[], AbstractContextManager[object]] | None = None

    async def ask(self, request: ApprovalRequest) -> ApprovalAnswer:
        """The person's answer; nobody is there while no conversation is open."""
        if self.terminal is None:
            return ApprovalAnswer(False, by="", reason="no conversation is open", answered=False)
        async with self._turn:
            with self.terminal():
                return await self._ask.ask(request)
