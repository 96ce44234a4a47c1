"""What the gateway needs from the runtime."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from ..core.events import EventSink
from ..core.ports import Caller
from ..skills.library import SkillLibrary
from ..tools.registry import ToolRegistry
from .consent import ApprovalDesk

__all__ = ["GatewayParts", "Servers"]


class Servers(Protocol):
    """The part of `mcp.hub.Hub` the gateway uses."""

    async def refresh(self) -> bool: ...
    async def release(self, session: str) -> None: ...


def _unchanged(value: Any) -> Any:
    return value


def _everything(_name: str) -> bool:
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayParts:
    """Everything the gateway works with; made by the runtime.

    Attributes:
        registry: what is listed.
        caller: the gate; every request becomes a `Call` to it.
        cwd: workspace root of the calls.
        mode: policy mode of the calls.
        requested: tools the person asked for explicitly (`--allow`).
        hub: told to look at its files before a list, and when a client has gone; or None.
        approvals: where a person's answer is recorded; None: the client's person is never asked.
        subscribe: adds an event sink (progress); returns the way to end it; or None.
        visible: tool name -> may this mode use it at all; others are not listed.
        ask_seconds: how long a client's person has for an answer.
        redact: applied to what a person is shown of the arguments.
        skills: skills to offer over MCP, or None.
    """

    registry: ToolRegistry
    caller: Caller
    cwd: Path
    mode: str = "default"
    requested: frozenset[str] = frozenset()
    hub: Servers | None = None
    approvals: ApprovalDesk | None = None
    subscribe: Callable[[EventSink], Callable[[], None]] | None = None
    visible: Callable[[str], bool] = _everything
    ask_seconds: float = 300.0
    redact: Callable[[Any], Any] = _unchanged
    skills: SkillLibrary | None = None
