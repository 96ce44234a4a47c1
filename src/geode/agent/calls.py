"""The calls of one turn: begun while the model still speaks, run reads together and effects in order.

Between two calls with effects lie barriers: a read that the model placed after a write sees
what was written. Results come back in call order, one for each call; a failing call never
stops its siblings (case R19).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..core.call import Call
from ..core.effects import only_reads
from ..core.messages import Block, Text, ToolCall, ToolResult
from ..discovery.deferral import CALL_TOOL, CALL_TOOL_SPEC
from ..gate.gate import Gate, Pending
from .guards import CircleGuard

__all__ = ["TurnCalls"]

Save = Callable[[ToolResult], Awaitable[None]]


class TurnCalls:
    """One turn's calls on their way through the gate.

    Args:
        gate: the one door.
        make: turns a model's wish into a `Call` of the real target.
        guard: blocks circles.
        fit: fits images and sounds to the model.
        save: stores a result the moment it is there, so that a killed run does not lose it.
    """

    def __init__(
        self,
        gate: Gate,
        make: Callable[[ToolCall], Call],
        guard: CircleGuard,
        fit: Callable[[ToolResult], ToolResult],
        save: Save,
    ) -> None:
        self._gate, self._make, self._guard, self._fit, self._save = gate, make, guard, fit, save
        self._begun: dict[str, tuple[ToolCall, Pending]] = {}

    def ready(self, wish: ToolCall) -> None:
        """A call is complete while the stream goes on: resolve and judge it now, run nothing."""
        if wish.arguments is None or self._pending(wish) is not None or self._guard.block(wish):
            return
        self._begun[wish.id] = (wish, self._gate.begin(self._make(wish)))

    def _pending(self, wish: ToolCall) -> Pending | None:
        """What was begun for exactly this call; an id alone is no proof, since models use one twice."""
        begun = self._begun.get(wish.id)
        return begun[1] if begun is not None and begun[0] == wish else None

    async def run(self, wishes: Sequence[ToolCall]) -> tuple[ToolResult, ...]:
        """Run all and return their results in call order.

        Args:
            wishes: the turn's calls; no two have one id.

        Raises:
            asyncio.CancelledError: results that were there by then are saved.
            StoreError: a result could not be stored; the calls beside it have ended.
        """
        results: list[ToolResult] = []
        together: list[ToolCall] = []
        for wish in wishes:
            self.ready(wish)
            if self._only_reads(wish):
                together.append(wish)
                continue
            results += await self._parallel(together)
            together = []
            results.append(await self._one(wish))
        return (*results, *await self._parallel(together))

    def _only_reads(self, wish: ToolCall) -> bool:
        pending = self._pending(wish)
        if pending is None or pending.resolved.entry is None:
            return True  # will not run
        return only_reads(pending.verdict.impacts)

    async def _parallel(self, wishes: Sequence[ToolCall]) -> list[ToolResult]:
        ends = await asyncio.gather(*(self._one(wish) for wish in wishes), return_exceptions=True)
        for end in ends:
            if isinstance(end, BaseException):
                raise end
        return [end for end in ends if isinstance(end, ToolResult)]

    async def _one(self, wish: ToolCall) -> ToolResult:
        why = self._guard.block(wish)
        if why:
            self._guard.blocked(wish)
            result = await self._gate.refuse(self._make(wish), policy="repeat-guard", reason=why)
        else:
            result = await self._gate.finish(self._pending(wish) or self._gate.begin(self._make(wish)))
            self._guard.saw(wish, result)
        answer = replace(self._fit(self._for_model(wish, result)), call_id=wish.id)
        await self._save(answer)
        return answer

    def _for_model(self, wish: ToolCall, result: ToolResult) -> ToolResult:
        """The result marked as what it is: data from a tool, not an instruction.

        A call that did not fit its schema is answered with the schema (ruling 5, case R82).
        """
        mark = Text(f"[TOOL_RESULT {' '.join(result.tool.split())[:200]}]")
        details = {**result.details, "call_id": result.call_id}
        if result.error_code == "unknown_tool" and result.tool == CALL_TOOL:  # it named no tool: see `deferral.unwrap`
            return replace(result, content=(mark, Text(_MISUSED)), details=details, error_code="invalid_arguments")
        content: list[Block] = [mark, *result.content]
        if wish.name == CALL_TOOL and isinstance((wish.arguments or {}).get("arguments"), str):
            content.append(Text("[Note: the arguments came as text and were read as an object]"))
        pending = self._pending(wish)
        entry = pending.resolved.entry if pending is not None else None
        if result.error_code == "invalid_arguments" and entry is not None:
            content.append(Text(f"Schema of {entry.name}: {_compact(entry.spec.parameters)}"))
            details["schema_shown"] = entry.name
        return replace(result, content=tuple(content), details=details)


def _compact(schema: Mapping[str, Any]) -> str:
    return json.dumps(dict(schema), ensure_ascii=False, separators=(",", ":"))


_MISUSED = (
    "Error: invalid arguments: call_tool needs the name of a tool as text and its arguments as an object, for example "
    '{"name": "NAME", "arguments": {"path": "a.txt"}}\n'
    f"Schema of {CALL_TOOL}: {_compact(CALL_TOOL_SPEC.parameters)}"
)
