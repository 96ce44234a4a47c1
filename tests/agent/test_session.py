"""A session in memory and on disk says the same, whatever interrupted it."""

from __future__ import annotations

from typing import Any

from geode.agent.session import Session
from geode.core.messages import Message, Role, Status, Text, ToolCall, ToolResult


class Kept:
    """A transcript in memory."""

    def __init__(self) -> None:
        self.entries: list[dict[str, Any]] = []

    async def append(self, session: str, seq: int, message: Any) -> None:
        assert seq == len(self.entries)
        self.entries.append(dict(message))

    async def load(self, session: str, *, after: int = -1) -> list[dict[str, Any]]:
        return self.entries[after + 1 :]

    async def last(self, session: str) -> int:
        return len(self.entries) - 1


class NoSecrets:
    def json(self, value: Any) -> Any:
        return value


async def test_R01_a_result_that_was_there_before_the_stop_is_kept_in_memory_as_on_disk() -> None:
    transcript = Kept()
    session = await Session.open(transcript, NoSecrets(), id="s")
    await session.add(Message.user("go"))
    await session.add(Message(Role.ASSISTANT, calls=(ToolCall("1", "a", {}), ToolCall("2", "b", {}))))
    await session.save_result(ToolResult(call_id="2", tool="b", status=Status.OK, content=(Text("done"),)))
    session.repair()
    assert [r.text for r in session.messages[-1].results][1] == "done"
    assert session.messages[-1].results[0].error_code == "interrupted"
    await session.add(Message.user("go on"))
    assert (await Session.open(transcript, NoSecrets(), id="s")).messages == session.messages
