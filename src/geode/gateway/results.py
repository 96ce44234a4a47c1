"""`ToolResult` -> `CallToolResult`, as raw JSON objects of the protocol."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ..core.messages import Audio, Block, Image, ResourceLink, Structured, Text, ToolResult

__all__ = ["META", "error_result", "text_result", "to_call_result", "with_text"]

META = "geode"
"""Key of `_meta` under which call id and status travel."""


def to_call_result(result: ToolResult, *, modern: bool) -> dict[str, Any]:
    """The protocol's form of a result.

    A denial, an error and a call that waits for approval are error results with a readable
    text: the model can plan again. Structured content passes as it is; in the older era it
    must be an object, so any other value stays in the text alone.

    Args:
        modern: the connection speaks 2026-07-28.
    """
    content = [_block(b) for b in result.content]
    if not content:
        fallback = json.dumps(result.structured, ensure_ascii=False) if result.structured is not None else ""
        content = [
            _text(fallback or ("(done, no output)" if not result.is_error else "The call failed without a text."))
        ]
    meta: dict[str, Any] = {"call_id": result.call_id, "status": result.status.value}
    if result.is_error:
        meta["error_code"] = result.error_code
        meta["side_effects"] = result.side_effects.value
        meta |= {k: result.details[k] for k in ("approval_id",) if k in result.details}
    out = _complete(content, is_error=result.is_error, meta=meta)
    if result.structured is not None and (modern or isinstance(result.structured, Mapping)):
        out["structuredContent"] = result.structured
    return out


def error_result(text: str) -> dict[str, Any]:
    """An error that never became a call."""
    return _complete([_text(text)], is_error=True, meta={"status": "error"})


def text_result(text: str) -> dict[str, Any]:
    """An answer of the gateway itself."""
    return _complete([_text(text)], is_error=False, meta={"status": "ok"})


def with_text(result: dict[str, Any], text: str) -> dict[str, Any]:
    """The same result with one more text block."""
    return {**result, "content": [*result["content"], _text(text)]}


def _complete(content: list[dict[str, Any]], *, is_error: bool, meta: dict[str, Any]) -> dict[str, Any]:
    """`resultType` belongs to the newer era; the SDK leaves it out for the older one."""
    return {"resultType": "complete", "content": content, "isError": is_error, "_meta": {META: meta}}


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _block(block: Block) -> dict[str, Any]:
    if isinstance(block, Text):
        return _text(block.text)
    if isinstance(block, Image):
        return {"type": "image", "data": block.data, "mimeType": block.mime_type}
    if isinstance(block, Audio):
        return {"type": "audio", "data": block.data, "mimeType": block.mime_type}
    if isinstance(block, ResourceLink):
        link = {"type": "resource_link", "uri": block.uri, "name": block.name or block.uri}
        more = {"mimeType": block.mime_type, "description": block.description}
        return {**link, **{k: v for k, v in more.items() if v}}
    assert isinstance(block, Structured)
    return _text(json.dumps(block.data, ensure_ascii=False))
