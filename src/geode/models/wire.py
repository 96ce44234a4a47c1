"""What all adapters do alike: arguments parsed, ids made legal, blocks as text, halves of a character joined."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn, cast

from ..core.messages import (
    Audio,
    Block,
    Image,
    Message,
    ResourceLink,
    Role,
    Status,
    Structured,
    Text,
    ToolCall,
    ToolResult,
    clean_json,
    clean_text,
)
from .model import Price, StopReason, Usage

__all__ = [
    "IMAGE_TYPES",
    "Halves",
    "arguments_text",
    "as_dict",
    "as_list",
    "as_text",
    "blank",
    "block_text",
    "count",
    "joined_text",
    "make_call",
    "parse_arguments",
    "priced",
    "replayed",
    "result_text",
    "sees",
    "stop_of",
    "unique_id",
    "wire_ids",
]

IMAGE_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""What both Anthropic and OpenAI take; another type is described in words."""

NOTHING = "(no output)"
_MOST_TOKENS = 10**12
"""More than this is no count, whatever a server reports."""
_LEGAL_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


# ---------------------------------------------------------------- what comes in


def as_dict(value: Any) -> dict[str, Any]:
    """The object, or an empty one: servers send null and worse where an object belongs."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    """The array, or an empty one."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def as_text(value: Any) -> str:
    """The string, or an empty one."""
    return value if isinstance(value, str) else ""


def count(*values: Any) -> int:
    """The first value that is a number of tokens, or 0."""
    for value in values:
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < _MOST_TOKENS:
            return int(value)
    return 0


def parse_arguments(raw: str) -> dict[str, Any] | None:
    """The arguments in a call's text, or None when it does not hold one whole JSON object (case R45).

    An object that was encoded twice is decoded twice. Nothing is repaired: `{"a": 1` is None. An
    empty text is None too; whether it means "no arguments" depends on how the turn ended.
    """
    try:
        value = json.loads(raw, parse_constant=_no_constant)
        if isinstance(value, str):
            value = json.loads(value, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    try:
        return cast("dict[str, Any]", clean_json(value))
    except RecursionError:
        return None


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def blank(raw: Any) -> bool:
    """True for arguments that hold nothing: a call without arguments, or one that was cut before them."""
    return isinstance(raw, str) and raw.strip() in ("", "null")


def make_call(call_id: str, name: str, raw: Any, *, whole: bool) -> ToolCall:
    """A call as it arrived.

    Args:
        raw: the arguments' text, or an object where a server sends one.
        whole: True when the provider has said that the call is complete, so that an empty text
            means "no arguments".
    """
    if isinstance(raw, Mapping):
        arguments = cast("dict[str, Any]", clean_json(raw))
        return ToolCall(call_id, clean_text(name), arguments, json.dumps(arguments, ensure_ascii=False))
    text = clean_text(raw if isinstance(raw, str) else "")
    if blank(text):
        return ToolCall(call_id, clean_text(name), {} if whole else None, text)
    return ToolCall(call_id, clean_text(name), parse_arguments(text), text)


def unique_id(wanted: str, taken: Iterable[str], number: int) -> str:
    """An id that no other call of the turn has; servers leave ids out or use one twice."""
    used = set(taken)
    base = clean_text(wanted).strip() or f"call_{number}"
    found, suffix = base, 2
    while found in used:
        found, suffix = f"{base}_{suffix}", suffix + 1
    return found


class Halves:
    """Joins a character whose two surrogates arrive in two pieces of a stream."""

    def __init__(self) -> None:
        self._held = ""

    def add(self, piece: str) -> str:
        """The text that is complete now; may be empty."""
        text = self._held + piece
        self._held = ""
        if text and "\ud800" <= text[-1] <= "\udbff":
            text, self._held = text[:-1], text[-1]
        return clean_text(text)

    def rest(self) -> str:
        """What is left when nothing more comes."""
        held, self._held = self._held, ""
        return clean_text(held)


def stop_of(told: StopReason, calls: Sequence[ToolCall]) -> StopReason:
    """CALLS when there are calls, whatever the provider called it; LENGTH and REFUSAL stay."""
    if told in (StopReason.LENGTH, StopReason.REFUSAL):
        return told
    return StopReason.CALLS if calls else StopReason.END


def priced(usage: Usage, price: Price | None) -> Usage:
    """The same tokens with their cost."""
    if price is None:
        return usage
    cost = (
        usage.input * price.input
        + usage.output * price.output
        + usage.cache_read * price.cache_read
        + usage.cache_write * price.cache_write
    ) / 1_000_000
    return Usage(
        input=usage.input,
        output=usage.output,
        cache_read=usage.cache_read,
        cache_write=usage.cache_write,
        cost_usd=cost,
    )


# ---------------------------------------------------------------- what goes out


def wire_ids(messages: Sequence[Message]) -> list[dict[str, str]]:
    """For every message, the ids of its calls (or of the calls it answers) as they are sent.

    Ids are legal everywhere and no two calls of the history share one: servers that call every
    call "call_0" give histories that others refuse. An id depends only on what came before it,
    so that it is the same in every request of a session.
    """
    used: set[str] = set()
    found: list[dict[str, str]] = []
    for message in messages:
        if message.role is Role.ASSISTANT:
            names: dict[str, str] = {}
            for call in message.calls:
                base = _legal(call.id)
                name, number = base, 2
                while name in used:
                    name, number = f"{base[:56]}_{number}", number + 1
                used.add(name)
                names[call.id] = name
            found.append(names)
        else:
            found.append(found[-1] if message.role is Role.TOOL and found else {})
    return found


def _legal(call_id: str) -> str:
    if _LEGAL_ID.fullmatch(call_id):
        return call_id
    digest = hashlib.sha256(call_id.encode("utf-8", "replace")).hexdigest()[:12]
    return f"{re.sub(r'[^A-Za-z0-9_-]', '_', call_id)[:40]}_{digest}"


def arguments_text(call: ToolCall) -> str:
    """The arguments as JSON text: the model's own bytes where they still say the same (they are in its cache)."""
    arguments = dict(call.arguments or {})
    if call.raw and parse_arguments(call.raw) == arguments:
        return clean_text(call.raw)
    return json.dumps(clean_json(arguments), ensure_ascii=False)


def replayed(message: Message, provider: str, model: str) -> list[dict[str, Any]]:
    """What this provider's same model wants back in an assistant turn; others' is ignored."""
    opaque = message.opaque
    if opaque is None or opaque.get("provider") != provider or opaque.get("model") != model:
        return []
    return [as_dict(item) for item in as_list(opaque.get("items"))]


def sees(block: Block, images: bool) -> bool:
    """True for an image that the model can be shown."""
    return images and isinstance(block, Image) and block.mime_type in IMAGE_TYPES


def block_text(block: Block) -> str:
    """A block in words; data that the model cannot take is named with its size and never repeated as text."""
    match block:
        case Text(text):
            return text
        case Structured(data):
            return json.dumps(data, ensure_ascii=False)
        case ResourceLink():
            about = f" ({block.description})" if block.description else ""
            return f"[{block.name or 'resource'}: {block.uri}]{about}"
        case Image() | Audio():
            return f"[{block.mime_type}, {_size(block.data)}: this model cannot be shown it]"


def _size(data: str) -> str:
    size = len(data) * 3 // 4
    return f"{size} bytes" if size < 1024 else f"{size // 1024} KB"


def joined_text(blocks: Iterable[Block], *, images: bool = False) -> str:
    """All blocks in words except images that are shown; blank ones are left out."""
    parts = [block_text(b) for b in blocks if not sees(b, images)]
    return "\n\n".join(p for p in parts if p.strip())


def result_text(result: ToolResult, *, images: bool = False, mark: bool = True) -> str:
    """A result in words, never empty.

    Args:
        images: leave out images that are shown in their own form.
        mark: say that it is an error where the protocol has no field for it.
    """
    text = "\n".join(t for b in result.content if not sees(b, images) and (t := block_text(b)).strip())
    failed = mark and result.status is Status.ERROR
    if not text:
        if failed:
            return "Error: the tool failed and said nothing."
        return "(see the image)" if any(sees(b, images) for b in result.content) else NOTHING
    return f"Error: {text}" if failed and not text.lstrip().lower().startswith(("error", "[error")) else text
