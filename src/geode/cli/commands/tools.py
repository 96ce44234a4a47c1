"""`geode tools`: list, search, show, call and export tools."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ...core.effects import Origin
from ...core.errors import UnknownTool, UsageError
from ...core.events import CallProgress, Event
from ...core.messages import Status, ToolResult
from .. import render
from ..errors import exit_code_of
from ..inputs import arguments_from
from ..invocation import Invocation
from ..parser import ALLOW_HELP, CommandParser, add_command, add_group, add_paging, words_of

if TYPE_CHECKING:
    from ...tools.entries import ToolProblem
    from ...tools.registry import ToolEntry

__all__ = ["configure"]


def configure(parser: CommandParser) -> None:
    """Fill in `geode tools`."""
    group = add_group(parser)
    listing = add_command(group, "list", "every tool, and where it comes from", _list)
    listing.add_argument("--source", metavar="S", help="only of this source: builtin, definitions, mcp:NAME, …")
    add_paging(listing)
    search = add_command(group, "search", "find a tool in plain words", _search)
    search.add_argument("query", nargs="+", help="what you want to do")
    search.add_argument("--limit", type=_up_to_50, default=5, metavar="N", help="at most N (1 to 50, default 5)")
    show = add_command(group, "show", "description, arguments and effects of a tool", _show)
    show.add_argument("name")
    call = add_command(group, "call", "run a tool: checked, contained, recorded", _call)
    call.add_argument("name")
    call.add_argument("--args", dest="arguments", default="{}", metavar="JSON", help="JSON, @FILE or - for stdin")
    call.add_argument("--node", metavar="N", help="pipeline node that makes the call")
    call.add_argument("--idempotency-key", metavar="K", help="a second call with this key returns the first result")
    call.add_argument("--allow", action="append", default=[], metavar="TOOL", help=ALLOW_HELP)
    export = add_command(group, "export", "all tools in a provider's form", _export)
    export.add_argument("--format", choices=("anthropic", "openai", "mcp"), required=True)
    export.add_argument("--defer", action="store_true", help="mark tools to be loaded when found (anthropic)")


def _up_to_50(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:4]) <= 50):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to 50")
    return int(text)


# ---------------------------------------------------------------- list, search, show


def _list(run: Invocation) -> int:
    async def collect() -> tuple[list[ToolEntry], list[ToolProblem]]:
        async with run.runtime(ask=False) as runtime:
            return list(runtime.registry.entries()), list(runtime.registry.problems())

    wanted = run.args.source
    found, problems = run.run(collect)
    if wanted is not None:
        _check_source(run, wanted, {e.source for e in found})
    entries = [e for e in found if wanted is None or e.source == wanted]
    page = render.page(entries, run.args.limit, run.args.cursor)
    rows = [_row(entry) for entry in page.items]
    document = {"tools": rows, "count": page.total, "next_cursor": page.next_cursor}

    def people() -> None:
        lines = [[r["name"], r["source"], _words(r["effects"]), r["reason"] or r["description"]] for r in rows]
        render.table(["name", "source", "effects", "description"], lines, empty="no tools")
        if page.next_cursor:
            render.note(f"{len(rows)} of {page.total}; go on with --cursor {page.next_cursor}")

    run.show(document, people)
    shown = {e.name for e in found}
    for problem in problems:
        if problem.tool not in shown:  # what has an entry is listed with its reason
            render.note(f"problem: {problem.reason}")
    if hint := run.untrusted_hint():
        render.note(f"note: {hint}")
    return 0


def _check_source(run: Invocation, wanted: str, known: set[str]) -> None:
    """Refuse a source there is none of; one that has no tools yet is fine."""
    from ...mcp.config import load_servers

    servers = {f"mcp:{name}" for name in load_servers(run.project, run.home).servers}
    known = known | servers | {"builtin", "definitions"}
    if wanted not in known:
        raise UsageError(f"there is no source {wanted!r}", fix=f"use one of: {', '.join(sorted(known))}")


def _row(entry: ToolEntry) -> dict[str, Any]:
    return {**entry.to_json(), "deferred": False, "description": _first_line(entry.spec.description)}


def _words(value: Any) -> str:
    if value is None:
        return "undeclared"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return str(value)


def _first_line(text: str) -> str:
    return text.strip().split("\n", 1)[0]


def _search(run: Invocation) -> int:
    query = words_of(run.args.query)
    if not query:
        raise UsageError("the query is empty", fix='geode tools search "read a PDF"')

    async def look() -> dict[str, Any]:
        async with run.runtime(ask=False) as runtime:
            answer = runtime.search.search(query, limit=run.args.limit)
            return {"query": query, **answer.to_json()}

    document = run.run(look)

    def people() -> None:
        if document["not_found"]:
            print(f"nothing found: {render.plain(str(document['reason']))}")
        rows = [[h["name"], h["server"], h["band"], _first_line(h["description"])] for h in document["results"]]
        if rows:
            render.table(["name", "server", "match", "description"], rows)
        render.note(f"{document['searched']} tools searched in {document['duration_ms']:.1f} ms")

    run.show(document, people)
    return 0


def _show(run: Invocation) -> int:
    async def find() -> ToolEntry:
        async with run.runtime(ask=False) as runtime:
            return runtime.registry.entry(run.args.name)

    try:
        entry = run.run(find)
    except UnknownTool as unknown:
        if hint := run.untrusted_hint():
            unknown.fix = f"{unknown.fix} ({hint})"
        raise
    spec = entry.spec
    document = {
        **_row(entry),
        "description": spec.description,
        "title": spec.title,
        "original_name": spec.original_name,
        "idempotent": spec.idempotent,
        "timeout_seconds": spec.timeout,
        "parameters": dict(spec.parameters),
        "output_schema": spec.output_schema,
        "examples": [dict(e) for e in spec.examples],
        "digest": entry.digest,
    }
    run.show(document, lambda: _describe(document))
    return 0


def _describe(tool: Mapping[str, Any]) -> None:
    print(render.paint(render.plain(tool["name"]), "bold"))
    print(render.plain(tool["description"]))
    print(f"\nsource {tool['source']} · effects: {_words(tool['effects'])} · timeout {tool['timeout_seconds']:g} s")
    properties: Mapping[str, Any] = tool["parameters"].get("properties", {})
    required = set(tool["parameters"].get("required", []))
    print()
    rows = [
        [name, _kind(schema), "required" if name in required else "", schema.get("description", "")]
        for name, schema in properties.items()
        if isinstance(schema, dict)
    ]
    render.table(["argument", "type", "", "description"], rows, empty="it takes no arguments")
    for example in tool["examples"]:
        words = shlex.quote(json.dumps(example, ensure_ascii=False))
        print(f"\nexample: geode tools call {shlex.quote(tool['name'])} --args {words}")


def _kind(schema: Mapping[str, Any]) -> str:
    if "type" in schema:
        kind = schema["type"]
        return "/".join(kind) if isinstance(kind, list) else str(kind)
    return "one of" if "enum" in schema else "any"


# ---------------------------------------------------------------- call


def _call(run: Invocation) -> int:
    args = run.args
    arguments = arguments_from(args.arguments)

    async def call() -> ToolResult:
        async with run.runtime(_progress) as runtime:
            run.note_unknown(args.allow, runtime.registry.names())
            return await runtime.call(
                args.name,
                arguments,
                origin=Origin.CLI,
                session=run.session,
                node=args.node,
                idempotency_key=args.idempotency_key,
                principal=run.principal,
                requested=frozenset(args.allow) | runtime.settings.allow,
            )

    result = run.run(call)
    hint = _hint(run, result)
    run.show(_document(result, hint), lambda: _print_result(result, hint))
    return _exit_code(result)


def _hint(run: Invocation, result: ToolResult) -> str:
    """What helps at the command line, beside what the result itself says to a model."""
    match result.error_code:
        case "invalid_arguments":
            return f"its arguments: geode tools show {shlex.quote(result.tool)}"
        case "unknown_tool":
            return run.untrusted_hint()
        case _:
            return ""


def _document(result: ToolResult, hint: str) -> dict[str, Any]:
    """The contract's document. `content` holds the blocks; `text` is all that is readable in one string."""
    document: dict[str, Any] = {
        "status": result.status.value,
        "tool": result.tool,
        "content": [block.to_json() for block in result.content],
        "text": result.text,
        "structured": result.structured,
        "call_id": result.call_id,
        "duration_ms": round(result.duration_ms, 3),
        "side_effects": result.side_effects.value,
        "verdict": result.verdict,
        "details": dict(result.details),
    }
    if result.status is not Status.OK:
        document["error"] = _error(result, hint)
    return document


def _error(result: ToolResult, hint: str) -> dict[str, Any]:
    """The error object out of the text a model reads: first line, `- problem` lines, `To fix:` line."""
    lines = [line.strip() for line in result.text.splitlines() if line.strip()]
    fixes = [line.removeprefix("To fix: ") for line in lines if line.startswith("To fix: ")]
    problems = [line.removeprefix("- ") for line in lines if line.startswith("- ")]
    verdict = result.verdict or {}
    fix = "; ".join(filter(None, (" ".join(fixes) or str(verdict.get("advice") or ""), hint)))
    if result.status is Status.NEEDS_APPROVAL:
        fix = f"geode approvals approve {result.details.get('approval_id', 'ID')}, then make the same call again"
    return {
        "code": result.error_code or result.status.value,
        "message": lines[0].removeprefix("Error: ") if lines else "the tool failed without a message",
        "fix": fix,
        **({"problems": problems} if problems and result.error_code == "invalid_arguments" else {}),
    }


def _print_result(result: ToolResult, hint: str) -> None:
    out = sys.stdout if result.status in {Status.OK, Status.ERROR} else sys.stderr
    text = render.plain(result.text)
    if text:
        print(text, file=out)
    if hint:
        render.note(hint)
    parts = [result.tool, result.status.value.replace("_", " "), f"{result.duration_ms:.0f} ms"]
    if result.side_effects.value != "none":
        parts.append(f"side effects: {result.side_effects.value}")
    parts.append(result.call_id)
    colour = {"ok": "green", "needs_approval": "yellow"}.get(result.status.value, "red")
    print(render.paint(render.plain(" · ".join(parts)), colour, sys.stderr), file=sys.stderr)


def _exit_code(result: ToolResult) -> int:
    match result.status:
        case Status.OK:
            return 0
        case Status.DENIED:
            return 3
        case Status.NEEDS_APPROVAL:
            return 4
        case Status.ERROR:
            return exit_code_of(result.error_code)


def _progress(event: Event) -> None:
    """Progress of a running tool, on a terminal only."""
    if isinstance(event, CallProgress) and sys.stderr.isatty():
        share = "" if event.fraction is None else f" {event.fraction:.0%}"
        render.note(f"{event.call.tool}:{share} {event.message}")


# ---------------------------------------------------------------- export


def _export(run: Invocation) -> int:
    args = run.args
    if args.defer and args.format != "anthropic":
        raise UsageError("--defer is for --format anthropic", fix="leave --defer out")

    async def export() -> list[dict[str, Any]]:
        async with run.runtime(ask=False) as runtime:
            registry = runtime.registry
            if args.format == "openai":
                return registry.to_openai_tools()
            if args.format == "anthropic":
                return registry.to_anthropic_tools_with_defer() if args.defer else registry.to_anthropic_tools()
            from ...tools.formats import to_mcp

            return [to_mcp(e.spec) for e in registry.snapshot().entries if e.status == "active"]

    tools = run.run(export)
    render.emit_json({"format": args.format, "tools": tools, "count": len(tools)})
    return 0
