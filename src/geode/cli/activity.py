"""What an agent does, in short lines for people: one a tool call, one for the end of a run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ..core.call import Call
from ..core.messages import Status, ToolResult
from .render import plain, shortened

__all__ = ["call_line", "duration", "target", "usage_line"]

_TELLING = ("command", "path", "file", "query", "pattern", "url", "name", "code", "glob", "text", "message")
"""Arguments that say best what a call is about, the best first."""
_MARKS = {Status.OK: "✓", Status.ERROR: "✗", Status.DENIED: "✗", Status.NEEDS_APPROVAL: "?"}


def target(call: Call, arguments: Mapping[str, Any] | None = None) -> str:
    """What a call is about, on one line: its command, its path, its query.

    Args:
        arguments: the arguments without secrets; None takes those of the call.
    """
    given = call.arguments if arguments is None else arguments
    for key in _TELLING:
        value = given.get(key)
        if isinstance(value, str) and value.strip():
            return " ".join(plain(value).split())
    return plain(json.dumps(given, ensure_ascii=False, default=str)) if given else ""


def duration(milliseconds: float) -> str:
    """A time for people: `12 ms`, `3.4 s`, `2 min 5 s`."""
    if milliseconds < 1000:
        return f"{milliseconds:.0f} ms"
    seconds = milliseconds / 1000
    return f"{seconds:.1f} s" if seconds < 60 else f"{int(seconds // 60)} min {int(seconds % 60)} s"


def call_line(call: Call, result: ToolResult, arguments: Mapping[str, Any], *, width: int) -> str:
    """A finished call on one line: mark, tool, what about, how it ended.

    Args:
        arguments: without secrets.
        width: columns of the terminal.
    """
    head = f"{_MARKS[result.status]} {plain(call.tool)}"
    end = _ending(result)
    room = width - len(head) - len(end) - 4
    about = shortened(target(call, arguments), room) if room >= 8 else ""
    return f"{head} {about}  {end}" if about else f"{head}  {end}"


def _ending(result: ToolResult) -> str:
    took = duration(result.duration_ms)
    match result.status:
        case Status.OK:
            return took
        case Status.NEEDS_APPROVAL:
            return "needs approval, not run"
        case Status.DENIED:
            reason = str((result.verdict or {}).get("reason") or "") or _first_line(result.text)
            return f"denied: {shortened(plain(reason), 70)}"
        case Status.ERROR if result.error_code == "cancelled":
            return "stopped"
        case Status.ERROR:
            return f"{shortened(_first_line(result.text), 70)} ({took})"


def _first_line(text: str) -> str:
    for line in text.splitlines():
        line = plain(line).strip().removeprefix("Error: ")
        if line and not line.startswith("[TOOL_RESULT"):
            return line
    return "failed"


def usage_line(usage: Mapping[str, Any]) -> str:
    """Tokens and cost of `Usage.to_json`; "" when the provider reported nothing."""
    cached = int(usage["cache_read_tokens"])
    read = int(usage["input_tokens"]) + cached + int(usage["cache_write_tokens"])
    written = int(usage["output_tokens"])
    if not read and not written:
        return ""
    share = f" ({cached / read:.0%} from cache)" if cached and read else ""
    cost = float(usage["cost_usd"])
    money = f" · ${cost:.4f}" if cost else ""
    return f"{read:,} tokens read{share}, {written:,} written{money}"
