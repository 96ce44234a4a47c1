"""`registry.get(name).execute(…)`: a plain function call that goes through the gate.

The insides are async. A plain call therefore needs a loop to run on: the caller's own loop
when it lives in another thread, else a private one in a background thread.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

from ..core.call import Call
from ..core.effects import Origin
from ..core.errors import GeodeError
from ..core.messages import ToolResult
from ..core.ports import Caller
from .entries import ToolEntry
from .schema import copy_json

__all__ = ["BoundTool", "Bridge"]

T = TypeVar("T")


class _LoopThread:
    """One event loop in one daemon thread, started when first needed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._ensure()).result()

    def _ensure(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="geode-facade", daemon=True).start()
            return self._loop


_BACKGROUND = _LoopThread()


def _running() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


class Bridge:
    """Holds the gate for all bound tools of a registry, and the loop it lives on."""

    def __init__(self) -> None:
        self._caller: Caller | None = None
        self._options: dict[str, Any] = {}
        self._home: asyncio.AbstractEventLoop | None = None

    def bind(self, caller: Caller, options: dict[str, Any]) -> None:
        """Use `caller` from now on; the loop running now, if any, is its home."""
        self._caller = caller
        self._options = options
        self._home = _running()

    async def call(self, entry: ToolEntry, arguments: dict[str, Any]) -> ToolResult:
        """Make the call.

        Raises:
            GeodeError: no gate is bound.
        """
        if self._caller is None:
            raise GeodeError(
                f"{entry.name} runs only through a gate and this registry has none",
                fix="use the registry of a GeodeRuntime, or registry.bind(gate)",
            )
        fields: dict[str, Any] = {"origin": Origin.LIBRARY, "cwd": Path.cwd(), **self._options}
        return await self._caller.call(Call(tool=entry.name, arguments=arguments, **fields))

    def call_blocking(self, entry: ToolEntry, arguments: dict[str, Any]) -> ToolResult:
        """Make the call and wait for it, whether or not a loop runs in this thread.

        Raises:
            GeodeError: no gate is bound; or the tool lives on the very loop that would be blocked.
        """
        here = _running()
        home = self._home if self._home is not None and self._home.is_running() else None
        work = self.call(entry, arguments)
        if home is not None and here is not home:
            return asyncio.run_coroutine_threadsafe(work, home).result()
        if home is not None and entry.spec.server:
            work.close()
            raise GeodeError(
                f"{entry.name} is served over this event loop, which a plain call would block",
                fix=f"await registry.get({entry.name!r}).aexecute(…)",
            )
        return _BACKGROUND.run(work)


class BoundTool:
    """A tool with its gate. Satisfies `Tool`."""

    __slots__ = ("_bridge", "_entry")

    def __init__(self, entry: ToolEntry, bridge: Bridge) -> None:
        self._entry = entry
        self._bridge = bridge

    @property
    def name(self) -> str:
        return self._entry.name

    @property
    def description(self) -> str:
        return self._entry.spec.description

    @property
    def parameters(self) -> dict[str, Any]:
        return copy_json(dict(self._entry.spec.parameters))

    def execute(self, **kwargs: Any) -> dict[str, Any]:
        """Call the tool through the gate and wait.

        Returns:
            `{"status", "content", "structured", "call_id", "duration_ms", "side_effects", "verdict", …}`;
            a denial or a failure is a status, not an exception.
        """
        return _document(self._bridge.call_blocking(self._entry, kwargs))

    async def aexecute(self, **kwargs: Any) -> dict[str, Any]:
        """`execute` for async code."""
        return _document(await self._bridge.call(self._entry, kwargs))

    def __repr__(self) -> str:
        return f"<tool {self.name} of {self._entry.source}>"


def _document(result: ToolResult) -> dict[str, Any]:
    return {
        "status": result.status.value,
        "content": result.text,
        "structured": result.structured,
        "call_id": result.call_id,
        "duration_ms": result.duration_ms,
        "side_effects": result.side_effects.value,
        "verdict": dict(result.verdict) if result.verdict is not None else None,
        "error_code": result.error_code,
        "details": dict(result.details),
    }
