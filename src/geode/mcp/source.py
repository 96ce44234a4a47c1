"""MCP tool -> `FunctionTool`, MCP result -> `ToolOutput`.

What a server says about itself is untrusted text: its annotations grant nothing, effects are
declared by the user or are unknown (and unknown asks).
"""

from __future__ import annotations

import base64
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

from ..core.effects import Effect
from ..core.messages import Audio, Block, Image, ResourceLink, SideEffects, Text, clean_json
from ..tools.schema import SchemaError, Validator
from ..tools.tool import FunctionTool, ToolContext, ToolOutput, ToolSpec, Touch
from .config import ServerConfig

__all__ = ["Built", "build_tools", "mismatch", "to_output"]

CallServer = Callable[[str, str, Mapping[str, Any], ToolContext], Awaitable[ToolOutput]]


@dataclass(frozen=True, slots=True)
class Built:
    """Tools of one server, and what could not become one."""

    tools: tuple[FunctionTool, ...]
    problems: tuple[str, ...]


def build_tools(config: ServerConfig, raw: Iterable[Mapping[str, Any]], call: CallServer) -> Built:
    """Tools for the registry.

    Args:
        config: the server they come from.
        raw: objects of `tools/list`.
        call: runs one: (server, original tool name, arguments, context).
    """
    tools: dict[str, FunctionTool] = {}
    problems: list[str] = []
    for item in raw:
        original = item.get("name")
        if not isinstance(original, str) or not original:
            problems.append(f"{config.name}: a tool without a name was left out")
            continue
        name = f"{config.name}__{original}"
        if name in tools:
            problems.append(f"{config.name}: tool {original!r} is listed twice; the first is used")
            continue
        tools[name] = FunctionTool(_spec(config, name, original, item), _runner(config.name, original, call))
    return Built(tuple(tools.values()), tuple(problems))


def _spec(config: ServerConfig, name: str, original: str, item: Mapping[str, Any]) -> ToolSpec:
    schema = clean_json(item.get("inputSchema", {"type": "object"}))
    output = item.get("outputSchema")
    effects = config.effects_of(original)
    title = item.get("title")
    description = item.get("description")
    return ToolSpec(
        name=name,
        # A schema that is not even an object is passed on as it is: the registry quarantines and names the tool.
        parameters=cast(Mapping[str, Any], schema),
        description=cast(str, clean_json(description)) if isinstance(description, str) else "",
        effects=effects,
        category="mcp",
        timeout=config.call_timeout + config.start_timeout,
        output_schema=clean_json(output) if isinstance(output, dict) else None,
        touches=_touches(effects, f"{config.name}/{original}") if effects is not None else None,
        server=config.name,
        original_name=original,
        title=cast(str, clean_json(title)) if isinstance(title, str) else "",
    )


def _touches(effects: frozenset[Effect], target: str) -> Callable[[Mapping[str, Any]], list[Touch]]:
    touches = [Touch(e, target, kind="service") for e in sorted(effects)]
    return lambda _arguments: touches


def _runner(
    server: str, tool: str, call: CallServer
) -> Callable[[ToolContext, Mapping[str, Any]], Awaitable[ToolOutput]]:
    async def run(context: ToolContext, arguments: Mapping[str, Any]) -> ToolOutput:
        return await call(server, tool, arguments, context)

    return run


# ---------------------------------------------------------------- results


def to_output(result: Mapping[str, Any], output_schema: Mapping[str, Any] | None = None) -> ToolOutput:
    """A `tools/call` result as blocks and structured value; base64 never becomes text (R20).

    Args:
        result: the raw result object.
        output_schema: what `structuredContent` must satisfy unless the result is an error (R58).
    """
    failed = result.get("isError") is True
    media: set[str] = set()
    blocks: list[Block] = []
    content = result.get("content")
    for item in cast(list[Any], content) if isinstance(content, list) else []:
        if isinstance(item, dict):
            blocks.append(_block(cast(dict[str, Any], item), media))
    structured = clean_json(result["structuredContent"]) if "structuredContent" in result else None
    if structured is not None and media:
        structured = _without_media(structured, media)
    if not failed and output_schema is not None:
        problem = mismatch(structured, output_schema, given="structuredContent" in result)
        if problem:
            return ToolOutput(
                content=[
                    Text(f"The tool ran, but its result does not satisfy its own output schema: {problem}"),
                    *blocks,
                ],
                failed=True,
                side_effects=SideEffects.UNKNOWN,
            )
    if not blocks and structured is not None:
        blocks.append(Text(json.dumps(structured, ensure_ascii=False)))
    if not blocks:
        blocks.append(Text("The tool reported an error without a text." if failed else "(done, no output)"))
    return ToolOutput(content=blocks, structured=structured, failed=failed)


def _block(item: dict[str, Any], media: set[str]) -> Block:
    kind, data, mime = item.get("type"), item.get("data"), item.get("mimeType")
    mime = mime if isinstance(mime, str) else ""
    if kind == "text" and isinstance(item.get("text"), str):
        return Text(item["text"])
    if kind in ("image", "audio") and isinstance(data, str):
        if not _is_base64(data):
            return Text(f"[{kind} with damaged data, {len(data)} characters, left out]")
        media.add(data)
        return Image(data, mime or "image/png") if kind == "image" else Audio(data, mime or "audio/wav")
    if kind == "resource_link" and isinstance(item.get("uri"), str):
        texts = {k: item[k] for k in ("name", "description") if isinstance(item.get(k), str)}
        return ResourceLink(item["uri"], texts.get("name", ""), mime, texts.get("description", ""))
    if kind == "resource" and isinstance(item.get("resource"), dict):
        return _resource(item["resource"], media)
    return Text(f"[content of unknown type {str(kind)[:40]!r} left out]")


def _resource(item: dict[str, Any], media: set[str]) -> Block:
    """An embedded resource: text as text with its address, pictures and sound as such, other bytes as a pointer."""
    uri = str(item.get("uri", ""))
    mime = str(item.get("mimeType") or "")
    if isinstance(item.get("text"), str):
        return Text(f"[resource {uri}]\n{item['text']}" if uri else item["text"])
    blob = item.get("blob")
    if isinstance(blob, str) and _is_base64(blob):
        media.add(blob)
        if mime.startswith("image/"):
            return Image(blob, mime)
        if mime.startswith("audio/"):
            return Audio(blob, mime)
        return ResourceLink(uri, "", mime, f"{len(blob) * 3 // 4} bytes of {mime or 'binary data'}, not shown")
    return Text(f"[resource {uri} without content]")


def _is_base64(data: str) -> bool:
    try:
        base64.b64decode(data, validate=True)
    except ValueError:
        return False
    return True


def _without_media(value: Any, media: set[str]) -> Any:
    if isinstance(value, str):
        return f"[{len(value) * 3 // 4} bytes, see the image or sound of this result]" if value in media else value
    if isinstance(value, dict):
        return {k: _without_media(v, media) for k, v in cast(dict[str, Any], value).items()}
    if isinstance(value, list):
        return [_without_media(v, media) for v in cast(list[Any], value)]
    return value


def mismatch(structured: Any, schema: Mapping[str, Any], *, given: bool) -> str:
    """What is wrong with a structured result, with its path, or "". `given` is False when there is none."""
    if not given:
        return "structured content is missing"
    validator = _validator(json.dumps(schema, sort_keys=True))
    if validator is None:
        return ""  # the schema itself is broken: nothing can be said
    problems = validator.problems(structured)
    return problems[0][:300] if problems else ""


@lru_cache(maxsize=512)
def _validator(schema: str) -> Validator | None:
    """The project's own validator: it never fetches a remote `$ref` and knows older dialects."""
    try:
        return Validator(json.loads(schema), root=False)
    except SchemaError:
        return None
