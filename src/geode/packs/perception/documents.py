"""read_document: PDF, Word, Excel, HTML and text by pages; the parsers run in a sandboxed child."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import PurePath
from typing import Annotated, Any, Literal

from pydantic import Field

from ...core.effects import Effect
from ...core.errors import Missing, ToolFailed
from ...core.ports import Captured, Limits, ProcessOutcome, ProcessSpec
from ...tools.tool import ToolContext, ToolOutput, tool
from ..process import PACKAGE, needed_runner, python_argv, python_env, whole_output
from .files import next_call, touch_path

__all__ = ["read_document"]

_MAX_BYTES = 128 * 1024 * 1024
_LIMITS = Limits(
    seconds=60, cpu_seconds=60, memory_bytes=3 * 1024**3, file_bytes=1024 * 1024, output_bytes=8 * 1024 * 1024
)
_CHARS = 9_000
_MORE_CHARS = 50_000

Kind = Literal["auto", "pdf", "docx", "xlsx", "pptx", "html", "odt", "ods", "epub", "eml", "rtf", "text"]


@tool(
    effects=[Effect.READ],
    category="documents",
    touches=touch_path,
    timeout=90,
    max_chars=60_000,
    examples=[
        {"path": "docs/report.pdf", "pages": "2"},
        {"path": "data/sales.xlsx", "pages": "Sales!1-100"},
        {"path": "notes/minutes.docx"},
    ],
)
async def read_document(
    context: ToolContext,
    path: Annotated[str, Field(min_length=1, max_length=4096)],
    pages: Annotated[str, Field(max_length=1000)] = "",
    file_type: Kind = "auto",
    offset: Annotated[int, Field(ge=1)] = 1,
    limit: Annotated[int, Field(ge=1, le=2000)] = 200,
) -> ToolOutput:
    """Read a document as text: PDF, Word, Excel, PowerPoint, HTML, EPUB, ODT, e-mail, RTF, CSV, Markdown, text.

    Use it for documents; for source code and logs use read_file, which is faster and shows line
    numbers. Tables come as Markdown tables, workbook cells with row numbers and column letters
    (stored values; a formula without one is shown as a formula). It does not recognise text in
    images or scans, does not open encrypted files, and changes nothing. Read only the pages you need:
    a page costs 300 to 1,000 tokens, and a search with grep_file is cheaper for text files.

    Result: a header with the number of pages in all and which are shown, then each page after a line
    `--- page 2 of 12 ---`. At most 200 lines or 9,000 characters at once unless `limit` asks for more;
    what does not fit is named in the last line with the call that reads on.

    Args:
        path: File relative to the workspace, for example `docs/report.pdf`.
        pages: Which pages: `2`, `1-3,7`, `5-` (to the end), `last`; empty starts at the first. In a workbook
            these are sheets by number or name, with rows or cells after `!`: `Sales`, `2!101-200`,
            `'Q1, north'!A5:F20`. Word and slides have pages where the file says so; text and other
            documents without pages are cut into sections, counted like pages.
        file_type: Only to overrule what content and name say.
        offset: First line to show of the first page selected, counted from 1; for a page too long at once.
        limit: How many lines to show at most; above 200 up to 50,000 characters are shown.
    """
    runner = needed_runner(context, "read_document")
    data = await asyncio.to_thread(_load, context, path)
    request = {
        "name": PurePath(path).name,
        "kind": file_type,
        "pages": pages,
        "offset": offset,
        "limit": limit,
        "chars": _CHARS if limit <= 200 else _MORE_CHARS,
    }
    outcome = await runner.run(
        ProcessSpec(
            argv=python_argv("geode.packs.perception.reader"),
            cwd=context.workspace.root,
            env=python_env(),
            stdin=json.dumps(request).encode() + b"\n" + data,
            readable=(PACKAGE,),
            limits=_LIMITS,
        )
    )
    answer = await asyncio.to_thread(_answer, outcome, path)
    if not answer["ok"]:
        kind = Missing if answer["code"] == "missing" else ToolFailed
        raise kind(f"{path}: {answer['message']}", fix=answer["fix"])
    return _shown(path, answer, {"file_type": file_type} if file_type != "auto" else {}, outcome)


def _load(context: ToolContext, path: str) -> bytes:
    with context.workspace.open_read(path) as stream:
        data = stream.read(_MAX_BYTES + 1)
    if len(data) > _MAX_BYTES:
        raise ToolFailed(
            f"{path} is larger than {_MAX_BYTES // 1024**2} MB",
            fix="split it, or work on it with code_interpreter, which can read it piece by piece",
        )
    if not data:
        raise ToolFailed(f"{path} is empty (0 bytes)", fix="check that it was written or downloaded completely")
    return data


def _answer(outcome: ProcessOutcome, path: str) -> dict[str, Any]:
    """What the reader said, or why it said nothing."""
    data = whole_output(outcome.stdout)
    whole_output(outcome.stderr)
    if outcome.stopped == "timeout":
        raise ToolFailed(
            f"{path}: reading took longer than {_LIMITS.seconds:.0f} s and was stopped",
            fix="read fewer pages; if one page alone is too slow, the file is damaged or built to be",
        )
    try:
        answer: dict[str, Any] = json.loads(data)
    except ValueError as error:
        why = f"signal {outcome.signal}" if outcome.signal else f"exit code {outcome.exit_code}"
        tail = _last_line(outcome.stderr)
        raise ToolFailed(
            f"{path}: the reader broke down ({why}{tail}); the file is damaged or needs more memory than allowed",
            fix="read fewer pages, or save the file again in its program",
        ) from error
    return answer


def _last_line(stderr: Captured) -> str:
    lines = [line for line in stderr.text.splitlines() if line.strip()]
    return f": {lines[-1][:200]}" if lines else ""


def _shown(path: str, answer: Mapping[str, Any], again: dict[str, Any], outcome: ProcessOutcome) -> ToolOutput:
    total, unit, shown = int(answer["total"]), str(answer["unit"]), str(answer["shown"])
    header = f"{path}: {unit} {shown} of {total} {unit}{'' if total == 1 else 's'} ({answer['kind']})"
    lines = [header, *(f"Note: {note}" for note in answer["notes"]), *answer["lines"]]
    following = answer["next"]
    last = shown.rpartition(",")[2].rpartition("-")[2]
    if following:
        lines.append(f"[There is more. Read on: {next_call('read_document', path=path, **again, **following)}]")
    elif unit == "sheet":
        lines.append("[End of the selection.]")
    elif last == str(total):
        lines.append("[End of the document.]")
    else:
        onward = next_call("read_document", path=path, **again, pages=f"{int(last) + 1}-")
        lines.append(f"[End of the selection; the document has {total} {unit}s. Read on: {onward}]")
    facts = {
        "path": path,
        "kind": answer["kind"],
        "unit": unit,
        "total": total,
        "shown": answer["shown"],
        "next": following,
        "notes": answer["notes"],
    }
    details = {"reader_ms": outcome.duration_ms, "backend": outcome.backend}
    return ToolOutput(content="\n".join(lines), structured=facts, details=details)
