"""A long history made short, without losing what was revealed and decided.

The model writes a hand-over of the older part; what must not be left to its memory is
copied: the schemas of revealed tools (ruling 5), denials and approvals, and stored results
that can still be read. The last turns stay as they are.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import aclosing

from ..core.messages import Message, Role, Status, Text
from ..discovery.deferral import revealed
from ..models.model import Model, ModelError, Request, TurnEnded, Usage
from ..tools.registry import ToolRegistry
from .history import mend

__all__ = ["compact", "estimate_tokens"]

KEEP_TURNS = 4
"""Assistant turns at the end that stay as they are."""

_ASK = """Write a hand-over of the conversation so far for somebody who continues it without having read it.
State, under these headings and nothing else: Goal (in the person's words) · Done (with exact paths, names, numbers) ·
Found out (facts that were checked) · Decided (by whom) · Open (next steps, obstacles). Leave out how you got there."""


def estimate_tokens(messages: Sequence[Message]) -> int:
    """A rough count, high rather than low: bytes / 3.5 for text, 1,600 for an image."""
    total = 0
    for message in messages:
        size = sum(len(c.raw) + len(json.dumps(c.arguments or {}, ensure_ascii=False).encode()) for c in message.calls)
        for block in (*message.blocks, *(b for r in message.results for b in r.content)):
            if isinstance(block, Text):
                size += len(block.text.encode("utf-8", "replace"))
            else:
                total += 1_600
        total += int(size / 3.5) + 8
    return total


def _split(messages: Sequence[Message]) -> tuple[list[Message], list[Message]]:
    """Older part and the last turns; a turn is never separated from its results."""
    turns = [i for i, m in enumerate(messages) if m.role is Role.ASSISTANT]
    if len(turns) <= KEEP_TURNS:
        return [], list(messages)
    at = turns[-KEEP_TURNS]
    return list(messages[:at]), list(messages[at:])


async def compact(
    messages: Sequence[Message], model: Model, system: str, registry: ToolRegistry
) -> tuple[list[Message], Usage] | None:
    """A shorter history that means the same, or None when there is nothing to gain.

    A model that cannot be reached does not stop it: the hand-over is then made of the facts alone.
    """
    old, recent = _split(messages)
    if not old:
        return None
    try:
        summary, usage = await _hand_over(old, model, system)
    except ModelError as error:
        summary, usage = f"(No summary could be written: {error.message})", Usage()
    parts = [f"[GEODE] The older part of this conversation was replaced by this hand-over.\n\n{summary}"]
    parts += [f"[FROM_USER] (earlier, unchanged) {t}" for t in _asked(old)]
    parts += _decisions(old) + _schemas(messages, registry)
    first = Message.user("\n\n".join(parts))
    return mend([first, *recent]), usage


async def _hand_over(old: Sequence[Message], model: Model, system: str) -> tuple[str, Usage]:
    request = Request(system=system, messages=mend([*old, Message.user(f"[GEODE] {_ASK}")]))
    async with aclosing(model.stream(request)) as events:
        async for event in events:
            if isinstance(event, TurnEnded):
                return event.message.text.strip() or "(empty)", event.usage
    return "(empty)", Usage()


def _asked(old: Sequence[Message]) -> list[str]:
    """The person's own words, which no summary may replace; the first and the last few."""
    said = [m.text.strip() for m in old if m.role is Role.USER and m.text.strip()]
    kept = said if len(said) <= 6 else [said[0], *said[-5:]]
    return [t.removeprefix("[FROM_USER]").strip()[:2_000] for t in kept if not t.startswith("[GEODE]")]


def _decisions(old: Sequence[Message]) -> list[str]:
    lines: list[str] = []
    for message in old:
        for result in message.results:
            if result.status in (Status.DENIED, Status.NEEDS_APPROVAL):
                lines.append(f"- {result.tool}: {result.text[:300]}")
            elif isinstance(result.details.get("result"), str):
                lines.append(f"- the full output of {result.tool} is still readable as {result.details['result']}")
    return ["Decided and kept:\n" + "\n".join(dict.fromkeys(lines))] if lines else []


def _schemas(messages: Sequence[Message], registry: ToolRegistry) -> list[str]:
    """Schemas of revealed tools that still exist; removed tools do not come back (case R82)."""
    parts: list[str] = []
    for name in revealed(messages):
        entry = registry.find(name)
        if entry is not None and entry.status == "active":
            schema = json.dumps(dict(entry.spec.parameters), ensure_ascii=False, separators=(",", ":"))
            parts.append(f"- {name}: {entry.spec.description.splitlines()[0]}\n  Arguments: {schema}")
    return ["Tools found earlier (call with call_tool):\n" + "\n".join(parts)] if parts else []
