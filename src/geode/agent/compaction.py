"""A long history made short, without losing what was revealed and decided.

The model writes a hand-over of the older part; what must not be left to its memory is
copied: the schemas of revealed tools (ruling 5), denials and approvals, and stored results
that can still be read. The last turns stay as they are.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import replace

from ..core.messages import Audio, Block, Image, Message, Role, Status, Structured, Text
from ..discovery.deferral import revealed
from ..models.model import Model, ModelError, ModelUnavailable, Request, TurnEnded, Usage
from ..tools.registry import ToolRegistry
from .history import mend
from .marks import inert, notice, person, spoken

__all__ = ["compact", "estimate_tokens", "shortened"]

KEEP_TURNS = 4
"""Assistant turns at the end that stay as they are."""
_MOST_SAID = 6
_LONG_WORDS = 2_000
_MOST_DECISIONS = 40
_MOST_SCHEMAS = 20_000
_LIMITS = (20_000, 10_000, 5_000, 2_500, 1_200, 600, 300)
"""Characters of one result, tried in turn."""
_WHY_CUT = "that do not fit into the model's context; read again in smaller pieces what you need;"
_OWN = "geode"
_NO_SUMMARY = "(No summary was written.)"

_ASK = """Write a hand-over of the conversation so far for somebody who continues it without having read it.
State, under these headings and nothing else: Goal (in the person's words) · Done (with exact paths, names, numbers) ·
Found out (facts that were checked) · Decided (by whom) · Open (next steps, obstacles). Leave out how you got there.
Call no tool."""


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
    messages: Sequence[Message],
    model: Model,
    request: Callable[[Sequence[Message]], Request],
    registry: ToolRegistry,
) -> tuple[list[Message], Usage] | None:
    """A shorter history that means the same, or None when there is nothing to gain.

    A model that cannot be reached does not stop it: the hand-over is then made of the facts alone.

    Args:
        messages: the history.
        model: writes the hand-over.
        request: what asks it, with these messages (`Context.aside`).
        registry: tells which revealed tools still exist.
    """
    old, recent = _split(messages)
    if not old:
        return None
    try:
        summary, usage = await _hand_over(old, model, request)
    except (ModelError, ModelUnavailable) as error:
        summary, usage = f"(No summary could be written: {error.message})", Usage()
    kept = _kept(old)
    facts = {
        "type": "kept",
        "decided": list(dict.fromkeys([*kept["decided"], *_decisions(old)]))[-_MOST_DECISIONS:],
        "revealed": list(dict.fromkeys([*kept["revealed"], *revealed(messages)])),
    }
    blocks = [notice(f"The older part of this conversation was replaced by this hand-over.\n\n{inert(summary)}")]
    if said := _asked(old):
        blocks += [notice("What the person said in that part, in their own words:"), *map(person, said)]
    if facts["decided"]:
        blocks.append(notice("Decided and kept:\n" + "\n".join(facts["decided"])))
    if schemas := _schemas(facts["revealed"], registry):
        blocks.append(notice(schemas))
    first = Message(Role.USER, tuple(blocks), opaque={"provider": _OWN, "items": [facts]})
    return mend([first, *recent]), usage


async def _hand_over(
    old: Sequence[Message], model: Model, request: Callable[[Sequence[Message]], Request]
) -> tuple[str, Usage]:
    asked = request([*old, Message(Role.USER, (notice(_ASK),))])
    async with aclosing(model.stream(asked)) as events:
        async for event in events:
            if isinstance(event, TurnEnded):
                return event.message.text.strip() or _NO_SUMMARY, event.usage
    return _NO_SUMMARY, Usage()


def _kept(old: Sequence[Message]) -> dict[str, list[str]]:
    """What an earlier compaction copied, so that a second one does not lose it."""
    found: dict[str, list[str]] = {"decided": [], "revealed": []}
    for message in old:
        opaque = message.opaque or {}
        if message.role is not Role.USER or opaque.get("provider") != _OWN:
            continue
        for item in opaque.get("items", ()):
            for key, values in found.items():
                values += [str(v) for v in item.get(key, ())]
    return found


def _asked(old: Sequence[Message]) -> list[str]:
    """The person's own words, which no summary may replace; the first and the last few."""
    said = [words for message in old for words in spoken(message) if words.strip()]
    kept = said if len(said) <= _MOST_SAID else [said[0], *said[1 - _MOST_SAID :]]
    return [_cut(words, _LONG_WORDS, "of this message") for words in kept]


def _decisions(old: Sequence[Message]) -> list[str]:
    lines: list[str] = []
    for message in old:
        for result in message.results:
            if result.status in (Status.DENIED, Status.NEEDS_APPROVAL):
                said = " ".join(result.text.partition("\n")[2].split())  # without its mark
                lines.append(f"- {_plain(result.tool)}: {inert(said)[:300]}")
            elif isinstance(result.details.get("result"), str):
                lines.append(
                    f"- the full output of {_plain(result.tool)} is still readable as {result.details['result']}"
                )
    return list(dict.fromkeys(lines))


def _plain(name: str) -> str:
    return inert(" ".join(name.split()))[:200]


def _schemas(names: Sequence[str], registry: ToolRegistry) -> str:
    """Schemas of revealed tools that still exist; removed tools do not come back (case R82)."""
    parts: list[str] = []
    room = _MOST_SCHEMAS
    for name in reversed(names):
        entry = registry.find(name)
        if entry is None or entry.status != "active":
            continue
        schema = json.dumps(dict(entry.spec.parameters), ensure_ascii=False, separators=(",", ":"))
        about = inert(" ".join(entry.spec.description.split("\n", 1)[0].split()))[:300]
        part = f"- {_plain(name)}: {about}\n  Arguments: {inert(schema)}"
        room -= len(part)
        parts.append(part if room >= 0 else f"- {_plain(name)}: {about}")
    return "Tools found earlier (call with call_tool):\n" + "\n".join(reversed(parts)) if parts else ""


# ---------------------------------------------------------------- what is too long all the same


def shortened(messages: Sequence[Message], room: int) -> list[Message]:
    """The same history with long results cut, visibly, until it takes at most `room` tokens, as far as that goes.

    The last turns are never summarised, and one turn alone can hold more than a model can read.
    """
    found = list(messages)
    for limit in _LIMITS:
        if estimate_tokens(found) <= room:
            break
        found = [_with_short_results(message, limit) for message in messages]
    return found


def _with_short_results(message: Message, limit: int) -> Message:
    if message.role is not Role.TOOL:
        return message
    results = tuple(replace(r, content=tuple(_short(b, limit) for b in r.content)) for r in message.results)
    return message if results == message.results else replace(message, results=results)


def _short(block: Block, limit: int) -> Block:
    match block:
        case Text(text) if len(text) > limit:
            return Text(_cut(text, limit, _WHY_CUT))
        case Structured(data) if len(text := json.dumps(data, ensure_ascii=False)) > limit:
            return Text(_cut(text, limit, _WHY_CUT))
        case Image(_, mime_type) | Audio(_, mime_type) if limit <= _LIMITS[-1]:
            return Text(f"[{mime_type} left out: the conversation does not fit into the model's context]")
        case _:
            return block


def _cut(text: str, limit: int, why: str) -> str:
    """Beginning and end of a text, with what was left out between them told."""
    if len(text) <= limit:
        return text
    head, tail = text[: limit * 2 // 3], text[len(text) - limit // 3 :]
    return f"{head}\n[… {len(text) - len(head) - len(tail):,} characters {why} left out …]\n{tail}"
