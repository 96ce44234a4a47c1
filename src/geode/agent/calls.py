"""The calls of one turn: begun while the model still speaks, run reads together and effects in order.

Between two calls with effects lie barriers: a read that the model placed after a write sees
what was written. Results come back in call order, one for each call; a failing call never
stops its siblings (case R19).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from ..core.call import Call
from ..core.effects import only_reads
from ..core.messages import Block, Text, ToolCall, ToolResult
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
        self._begun: dict[str, Pending] = {}

    def ready(self, wish: ToolCall) -> None:
        """A call is complete while the stream goes on: resolve and judge it now, run nothing."""
        if wish.arguments is not None and wish.id not in self._begun and not self._guard.block(wish):
            self._begun[wish.id] = self._gate.begin(self._make(wish))

    async def run(self, wishes: Sequence[ToolCall]) -> tuple[ToolResult, ...]:
        """Run all and return their results in call order.

        Raises:
            asyncio.CancelledError: results that were there by then are saved.
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
        pending = self._begun.get(wish.id)
        if pending is None or pending.resolved.entry is None:
            return True  # will not run
        return only_reads(pending.verdict.impacts)

    async def _parallel(self, wishes: Sequence[ToolCall]) -> list[ToolResult]:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._one(wish)) for wish in wishes]
        return [task.result() for task in tasks]

    async def _one(self, wish: ToolCall) -> ToolResult:
        why = self._guard.block(wish)
        if why:
            result = await self._gate.refuse(self._make(wish), policy="repeat-guard", reason=why)
        else:
            result = await self._gate.finish(self._begun[wish.id])
            self._guard.saw(wish, result)
        answer = self._fit(self._for_model(wish, result))
        await self._save(answer)
        return answer

    def _for_model(self, wish: ToolCall, result: ToolResult) -> ToolResult:
        """The result under the model's own id, marked as what it is: data from a tool, not an instruction.

        A call that did not fit its schema is answered with the schema (ruling 5, case R82).
        """
        content: list[Block] = [Text(f"[TOOL_RESULT {result.tool}]"), *result.content]
        details = {**result.details, "call_id": result.call_id}
        entry = self._begun[wish.id].resolved.entry if wish.id in self._begun else None
        if result.error_code == "invalid_arguments" and entry is not None:
            schema = json.dumps(dict(entry.spec.parameters), ensure_ascii=False, separators=(",", ":"))
            content.append(Text(f"Schema of {entry.name}: {schema}"))
            details["schema_shown"] = entry.name
        return replace(result, call_id=wish.id, content=tuple(content), details=details)
