"""Messages, tool calls, tool results and the blocks they are made of.

Text that comes from outside may hold lone surrogates, which no provider accepts: every
text block replaces them with U+FFFD when it is made, so that no later step can forget to.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

__all__ = [
    "Audio",
    "Block",
    "Image",
    "Message",
    "ResourceLink",
    "Role",
    "SideEffects",
    "Status",
    "Structured",
    "Text",
    "ToolCall",
    "ToolResult",
    "block_from_json",
    "clean_json",
    "clean_text",
]


def clean_text(text: str) -> str:
    """Replace lone surrogates with U+FFFD; valid text comes back as the same object.

    A pair of escaped surrogates that forms one character is joined first, so an emoji
    that arrived as two halves survives.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def clean_json(value: Any) -> Any:
    """`clean_text` over every string (keys too) of a JSON value."""
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, Mapping):
        return {clean_text(str(k)): clean_json(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [clean_json(v) for v in value]
    return value


@dataclass(frozen=True, slots=True)
class Text:
    """Plain or Markdown text."""

    text: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", clean_text(self.text))

    def to_json(self) -> dict[str, Any]:
        return {"type": "text", "text": self.text}


@dataclass(frozen=True, slots=True)
class Image:
    """One image; `data` is base64, never repeated as text anywhere else."""

    data: str
    mime_type: str

    def to_json(self) -> dict[str, Any]:
        return {"type": "image", "data": self.data, "mime_type": self.mime_type}


@dataclass(frozen=True, slots=True)
class Audio:
    """One sound; `data` is base64."""

    data: str
    mime_type: str

    def to_json(self) -> dict[str, Any]:
        return {"type": "audio", "data": self.data, "mime_type": self.mime_type}


@dataclass(frozen=True, slots=True)
class ResourceLink:
    """A pointer to something readable elsewhere: a file, an MCP resource, `result:ID`."""

    uri: str
    name: str = ""
    mime_type: str = ""
    description: str = ""

    def to_json(self) -> dict[str, Any]:
        return {
            "type": "resource_link",
            "uri": self.uri,
            "name": self.name,
            "mime_type": self.mime_type,
            "description": self.description,
        }


@dataclass(frozen=True, slots=True)
class Structured:
    """A JSON value that is the content itself."""

    data: Any

    def __post_init__(self) -> None:
        object.__setattr__(self, "data", clean_json(self.data))

    def to_json(self) -> dict[str, Any]:
        return {"type": "structured", "data": self.data}


Block = Text | Image | Audio | ResourceLink | Structured


class Role(StrEnum):
    """Who speaks. Instructions are no message: they are the request's `system` text."""

    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class Status(StrEnum):
    """How a call ended, as the command contract spells it."""

    OK = "ok"
    ERROR = "error"
    DENIED = "denied"
    NEEDS_APPROVAL = "needs_approval"


class SideEffects(StrEnum):
    """Whether the world was changed: known not, known yes, or not known."""

    NONE = "none"
    DONE = "done"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A model's wish to call a tool. `arguments` is None when they never arrived whole."""

    id: str
    name: str
    arguments: Mapping[str, Any] | None
    raw: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """What every front end gets back from the gate.

    Attributes:
        call_id: the call this answers.
        tool: the tool's registered name.
        status: ok, error, denied or needs_approval.
        content: blocks for the model, already redacted and shortened.
        structured: the tool's JSON value, or None.
        details: facts for people and programs (notes, verification, sizes); never for the model.
        side_effects: none, done or unknown.
        duration_ms: wall time of execution alone, in milliseconds; waiting for a person does not count.
        error_code: the `code` of the error that ended the call, empty when it went well.
        verdict: the policy verdict as JSON (`verdict`, `blocking_policies`, `trace`).
    """

    call_id: str
    tool: str
    status: Status
    content: tuple[Block, ...] = ()
    structured: Any = None
    details: Mapping[str, Any] = field(default_factory=dict[str, Any])
    side_effects: SideEffects = SideEffects.NONE
    duration_ms: float = 0.0
    error_code: str = ""
    verdict: Mapping[str, Any] | None = None

    @property
    def is_error(self) -> bool:
        return self.status is not Status.OK

    @property
    def text(self) -> str:
        """All readable content in one string: text as it is, structured blocks as JSON."""
        parts: list[str] = []
        for block in self.content:
            if isinstance(block, Text):
                parts.append(block.text)
            elif isinstance(block, Structured):
                parts.append(json.dumps(block.data, ensure_ascii=False))
            elif isinstance(block, ResourceLink):
                parts.append(f"[{block.name or 'resource'}: {block.uri}]")
            else:
                parts.append(f"[{block.mime_type}]")
        return "\n".join(parts)

    def to_json(self) -> dict[str, Any]:
        """A JSON object from which `from_json` makes an equal result."""
        return {
            "call_id": self.call_id,
            "tool": self.tool,
            "status": self.status.value,
            "content": [b.to_json() for b in self.content],
            "structured": self.structured,
            "details": dict(self.details),
            "side_effects": self.side_effects.value,
            "duration_ms": self.duration_ms,
            "error_code": self.error_code,
            "verdict": None if self.verdict is None else dict(self.verdict),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ToolResult:
        """The inverse of `to_json`."""
        fields = dict(data)
        fields["status"] = Status(data["status"])
        fields["side_effects"] = SideEffects(data["side_effects"])
        fields["content"] = tuple(block_from_json(b) for b in data["content"])
        return cls(**fields)


@dataclass(frozen=True, slots=True)
class Message:
    """One entry of a conversation.

    Attributes:
        role: who speaks.
        blocks: what is said.
        calls: tool calls of an assistant turn, in call order.
        results: results of a tool turn, in the order of the calls they answer; `call_id` of each
            is the id the model gave its call.
        opaque: what a provider wants back unchanged in an assistant turn (signed reasoning),
            as {"provider": name, "items": [...]}; other providers ignore it.
    """

    role: Role
    blocks: tuple[Block, ...] = ()
    calls: tuple[ToolCall, ...] = ()
    results: tuple[ToolResult, ...] = ()
    opaque: Mapping[str, Any] | None = None

    @property
    def text(self) -> str:
        """The text blocks in one string."""
        return "".join(b.text for b in self.blocks if isinstance(b, Text))

    @classmethod
    def user(cls, text: str) -> Message:
        """What a person says."""
        return cls(Role.USER, (Text(text),))

    def to_json(self) -> dict[str, Any]:
        """A JSON object from which `from_json` makes an equal message."""
        return {
            "role": self.role.value,
            "blocks": [b.to_json() for b in self.blocks],
            "calls": [
                {
                    "id": c.id,
                    "name": c.name,
                    "arguments": None if c.arguments is None else dict(c.arguments),
                    "raw": c.raw,
                }
                for c in self.calls
            ],
            "results": [r.to_json() for r in self.results],
            "opaque": None if self.opaque is None else dict(self.opaque),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Message:
        """The inverse of `to_json`.

        Raises:
            KeyError, ValueError: the data does not come from `to_json`.
        """
        return cls(
            role=Role(data["role"]),
            blocks=tuple(block_from_json(b) for b in data["blocks"]),
            calls=tuple(ToolCall(c["id"], c["name"], c["arguments"], c["raw"]) for c in data["calls"]),
            results=tuple(ToolResult.from_json(r) for r in data["results"]),
            opaque=data.get("opaque"),
        )


def block_from_json(data: Mapping[str, Any]) -> Block:
    """The block whose `to_json` gave `data`.

    Raises:
        ValueError: an unknown type of block.
    """
    match data["type"]:
        case "text":
            return Text(data["text"])
        case "image":
            return Image(data["data"], data["mime_type"])
        case "audio":
            return Audio(data["data"], data["mime_type"])
        case "resource_link":
            return ResourceLink(data["uri"], data["name"], data["mime_type"], data["description"])
        case "structured":
            return Structured(data["data"])
        case other:
            raise ValueError(f"unknown type of block: {other!r}")
