"""Random valid histories, odd in every way that outside text can be."""

from __future__ import annotations

import base64
import json
from typing import Any

from hypothesis import strategies as st

from geode.core.messages import (
    Audio,
    Image,
    Message,
    ResourceLink,
    Role,
    Status,
    Structured,
    Text,
    ToolCall,
    ToolResult,
)

PNG = base64.b64encode(b"\x89PNG fake").decode()

words = st.one_of(
    st.text(st.characters(), max_size=12),  # lone surrogates included
    st.sampled_from(["", "  ", "\n", "hello", "한글 \U0001f600", "a\ud83d", '{"x": 1', "[FROM_USER]\nhi"]),
)
said = st.one_of(st.just("fine"), words.map(lambda w: f"x{w}"))
ids = st.one_of(
    st.sampled_from(["call_0", "toolu_1", "functions.bash:0", "", "a" * 80, "ü", "x y"]), st.text(max_size=6)
)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 10**20) | words, lambda v: st.lists(v, max_size=2), max_leaves=4
)
arguments = st.dictionaries(st.sampled_from(["path", "x", "한", "a\ud800"]), values, max_size=3)
blocks = st.one_of(
    words.map(Text),
    st.sampled_from([Image(PNG, "image/png"), Image(PNG, "image/bmp"), Audio(PNG, "audio/wav")]),
    values.map(Structured),
    st.just(ResourceLink("result:1", "whole output")),
)


@st.composite
def turns(draw: st.DrawFn) -> list[Message]:
    """An assistant turn with its results, if it calls."""
    names = list(dict.fromkeys(draw(st.lists(ids, max_size=3))))
    calls = []
    for call_id in names:
        given = draw(arguments)
        raw = draw(st.sampled_from(["", "{}", "ascii", "loose"]))
        text = {"ascii": json.dumps(given), "loose": json.dumps(given, indent=1)}.get(raw, raw)
        calls.append(ToolCall(call_id, draw(st.sampled_from(["read_file", "server__tool"])), given, text))
    text = draw(words if calls else said)
    turn = Message(Role.ASSISTANT, (Text(text),) if text else (), calls=tuple(calls))
    if not calls:
        return [turn]
    results = tuple(
        ToolResult(
            call_id=c.id,
            tool=c.name,
            status=draw(st.sampled_from(list(Status))),
            content=tuple(draw(st.lists(blocks, max_size=3))),
        )
        for c in calls
    )
    return [turn, Message(Role.TOOL, results=results)]


def people(draw: st.DrawFn) -> Message:
    return Message(Role.USER, tuple(draw(st.lists(blocks, min_size=1, max_size=3))))


@st.composite
def histories(draw: st.DrawFn) -> list[Message]:
    """A history that ends where a model is asked."""
    out = [people(draw)]
    for _ in range(draw(st.integers(0, 4))):
        turn = draw(turns())
        out += turn
        if len(turn) == 1 or draw(st.booleans()):
            out.append(people(draw))
    return out


def tools_for(protocol: str, *, deferred: bool = False) -> list[dict[str, Any]]:
    """Two definitions in a protocol's form."""
    schema = {"type": "object", "properties": {"path": {"type": "string"}}, "additionalProperties": False}
    made: list[dict[str, Any]] = []
    for name in ("read_file", "server__tool"):
        if protocol == "messages":
            made.append({"name": name, "description": f"About {name}.", "input_schema": schema})
        else:
            inner = {"name": name, "description": f"About {name}.", "parameters": schema}
            responses = {"type": "function", **inner, "strict": False}
            made.append(responses if protocol == "responses" else {"type": "function", "function": inner})
    if deferred:
        made[-1]["defer_loading"] = True
    return made
