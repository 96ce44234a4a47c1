"""A history that every provider accepts, whatever interrupted it.

The rules (those of Anthropic Messages are the strictest, and hold everywhere):

- it begins with a user message and never has two assistant messages in a row;
- a turn with calls is followed directly by one tool message with exactly one result for each
  call, in call order;
- a call whose arguments never arrived whole is removed together with its result (case R01);
- an assistant turn says something: text or calls;
- no text holds lone surrogates (blocks see to that themselves).

`mend` is a pure function of the messages; a history that is valid comes back unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from ..core.messages import Message, Role, SideEffects, Status, Text, ToolCall, ToolResult

__all__ = ["INTERRUPTED", "interrupted", "mend", "problems"]

INTERRUPTED = (
    "Interrupted before a result arrived. It may or may not have taken effect: "
    "look at what it would have changed before you try again."
)
_NOTHING = "(no answer)"


def interrupted(call: ToolCall) -> ToolResult:
    """The result of a call that nobody will ever answer."""
    return ToolResult(
        call_id=call.id,
        tool=call.name,
        status=Status.ERROR,
        content=(Text(INTERRUPTED),),
        side_effects=SideEffects.UNKNOWN,
        error_code="interrupted",
    )


def mend(messages: Iterable[Message]) -> list[Message]:
    """The same conversation, made valid. Results are matched to calls by id, within the turn that made the call."""
    out: list[Message] = []
    queue = list(messages)
    at = 0
    while at < len(queue):
        message = queue[at]
        at += 1
        if message.role is Role.TOOL:
            continue  # belongs to no turn with calls: nobody asked
        if message.role is Role.USER:
            _add(out, message)
            continue
        found: dict[str, ToolResult] = {}
        while at < len(queue) and queue[at].role is Role.TOOL:
            found |= {r.call_id: r for r in queue[at].results if r.call_id not in found}
            at += 1
        _add_turn(out, message, found)
    return out


def _add(out: list[Message], message: Message) -> None:
    """Append a user message; two in a row become one."""
    if not message.blocks:
        return
    if out and out[-1].role is Role.USER:
        out[-1] = replace(out[-1], blocks=(*out[-1].blocks, *message.blocks))
    else:
        out.append(message)


def _add_turn(out: list[Message], turn: Message, found: Mapping[str, ToolResult]) -> None:
    calls = _whole(turn.calls)
    if len(calls) != len(turn.calls):
        # Signed reasoning belongs to exactly the calls it came with.
        turn = replace(turn, calls=calls, opaque=None)
    if not calls and not turn.text.strip():
        if not turn.blocks and not turn.calls:
            return
        turn = replace(turn, blocks=(Text(_NOTHING),), opaque=None)
    if not out:
        return  # a history begins with a person
    if out[-1].role is Role.ASSISTANT:
        out[-1] = _joined(out[-1], turn)
    else:
        out.append(turn)
    if calls:
        out.append(Message(Role.TOOL, results=tuple(found.get(c.id) or interrupted(c) for c in calls)))


def _whole(calls: Sequence[ToolCall]) -> tuple[ToolCall, ...]:
    """Calls whose arguments arrived, each id once."""
    seen: set[str] = set()
    kept: list[ToolCall] = []
    for call in calls:
        if call.arguments is not None and call.id not in seen:
            seen.add(call.id)
            kept.append(call)
    return tuple(kept)


def _joined(first: Message, second: Message) -> Message:
    return replace(first, blocks=(*first.blocks, *second.blocks), calls=second.calls, opaque=second.opaque)


def problems(messages: Sequence[Message]) -> list[str]:
    """What is wrong with a history, as sentences; empty when every provider accepts it."""
    found: list[str] = []
    if messages and messages[0].role is not Role.USER:
        found.append("it does not begin with a user message")
    for number, message in enumerate(messages):
        before = messages[number - 1] if number else None
        after = messages[number + 1] if number + 1 < len(messages) else None
        match message.role:
            case Role.USER:
                if before is not None and before.role is Role.USER:
                    found.append(f"message {number}: two user messages in a row")
                if not message.blocks:
                    found.append(f"message {number}: empty user message")
            case Role.ASSISTANT:
                if before is not None and before.role is Role.ASSISTANT:
                    found.append(f"message {number}: two assistant messages in a row")
                if not message.calls and not message.text.strip():
                    found.append(f"message {number}: the assistant says nothing")
                if any(c.arguments is None for c in message.calls):
                    found.append(f"message {number}: a call without arguments")
                if message.calls and (after is None or after.role is not Role.TOOL):
                    found.append(f"message {number}: calls without results")
            case Role.TOOL:
                asked = [c.id for c in before.calls] if before is not None else []
                if [r.call_id for r in message.results] != asked or not asked:
                    found.append(f"message {number}: results do not answer the calls before them in order")
    return found
