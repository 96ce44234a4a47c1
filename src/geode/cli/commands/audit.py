"""`geode audit`: the record of every call, and proof that nobody changed it."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

from .. import render
from ..inputs import moment
from ..invocation import Invocation
from ..parser import CommandParser, add_command, add_group, add_paging

if TYPE_CHECKING:
    from ...store.audit import AuditEntry, AuditLog, AuditReport

__all__ = ["configure"]

_STATUSES = ("ok", "error", "denied", "needs_approval", "running", "unknown", "approved", "expired", "used")
"""How a call ended or stands; the last three are of approvals (`--kind approval`)."""
_KINDS = ("intent", "outcome", "approval", "retention", "config")


def configure(parser: CommandParser) -> None:
    """Fill in `geode audit`."""
    group = add_group(parser)
    listing = add_command(group, "list", "calls, newest first", _list)
    listing.add_argument("--since", metavar="T", help="2h, 7d, 2026-11-30 or an ISO time")
    listing.add_argument("--tool", metavar="NAME", help="only this tool")
    listing.add_argument("--status", metavar="S", choices=_STATUSES, help=f"only {', '.join(_STATUSES[:6])}")
    listing.add_argument("--session", metavar="ID", help="only this session")
    listing.add_argument(
        "--kind", action="append", choices=_KINDS, help="single records of this kind, not one line a call; repeatable"
    )
    add_paging(listing, 50)
    show = add_command(group, "show", "everything recorded about one call", _show)
    show.add_argument("id", help="the call_id, or the id of one record")
    add_command(group, "verify", "is the record complete and unchanged? exit 1 when not", _verify)
    stats = add_command(group, "stats", "calls, success rate and times per tool", _stats)
    stats.add_argument("--since", metavar="T", help="2h, 7d, 2026-11-30 or an ISO time")


@asynccontextmanager
async def _log(run: Invocation) -> AsyncIterator[AuditLog]:
    from ...store.audit import AuditLog

    with run.database() as database:
        yield AuditLog(database, run.home)


def _ask(run: Invocation, question: Callable[[AuditLog], Coroutine[Any, Any, Any]]) -> Any:
    """Open the record, ask one question, close it."""

    async def ask() -> Any:
        async with _log(run) as log:
            return await question(log)

    return run.run(ask)


# ---------------------------------------------------------------- list, show


def _list(run: Invocation) -> int:
    args = run.args
    since = None if args.since is None else moment(args.since)

    def question(log: AuditLog) -> Coroutine[Any, Any, Any]:
        return log.list(
            since=since,
            tool=args.tool,
            status=args.status,
            session=args.session,
            kinds=args.kind,
            limit=min(args.limit, 10_000),
            cursor=args.cursor,
        )

    page = _ask(run, question)
    rows = [entry.to_json() for entry in page.entries]

    def people() -> None:
        render.table(
            ["call", f"time ({render.zone()})", "tool", "status", "effects", "ms", "who", "from"],
            [_line(entry) for entry in page.entries],
            empty="nothing recorded",
        )
        if page.cursor:
            render.note(f"go on with --cursor {page.cursor}")

    run.show({"calls": rows, "count": len(rows), "next_cursor": page.cursor}, people)
    return 0


def _line(entry: AuditEntry) -> list[object]:
    when = entry.at.astimezone().strftime("%Y-%m-%d %H:%M:%S")
    took = f"{entry.duration_ms:.0f}" if entry.duration_ms else None
    what = [entry.tool or entry.kind, entry.status, entry.side_effects]
    return [entry.call_id or entry.id, when, *what, took, entry.principal, entry.origin]


def _show(run: Invocation) -> int:
    entries = _ask(run, lambda log: log.show(run.args.id))
    records = [entry.to_json() for entry in entries]

    def people() -> None:
        for record in records:
            print(render.paint(f"{record['kind']} {record['id']}", "bold"))
            for key, value in record.items():
                if key not in {"kind", "id", "body"} and value not in (None, ""):
                    print(f"  {key:16} {_readable(key, value)}")
            for key, value in record["body"].items():
                _print_fact(key, value, "  ")

    last = records[-1]
    run.show({"call_id": last["call_id"], "status": last["status"], "records": records}, people)
    return 0


def _readable(key: str, value: Any) -> str:
    if key == "at":
        return render.local_time(datetime.fromisoformat(value))
    if key == "duration_ms":
        return f"{value:.1f}"
    return render.plain(str(value))


def _print_fact(key: str, value: Any, indent: str) -> None:
    """One fact of a record: an object's keys and a list's entries on lines of their own."""
    if isinstance(value, dict) and value:
        print(f"{indent}{render.plain(key)}")
        for inner, item in cast("dict[str, Any]", value).items():
            _print_fact(inner, item, f"{indent}  ")
    elif isinstance(value, list) and any(isinstance(item, dict) for item in cast("list[Any]", value)):
        print(f"{indent}{render.plain(key)}")
        for item in cast("list[Any]", value):
            facts = cast("dict[str, Any]", item).items() if isinstance(item, dict) else [("", item)]
            print(f"{indent}  - {render.plain(', '.join(f'{k} {_short(v)}'.strip() for k, v in facts))}")
    elif value not in (None, "", [], {}):
        print(f"{indent}{render.plain(key):16} {render.plain(_short(value))}")


def _short(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


# ---------------------------------------------------------------- verify, stats


def _verify(run: Invocation) -> int:
    report: AuditReport = _ask(run, lambda log: log.verify(_Progress()))
    document = report.to_json()

    def people() -> None:
        if report.ok:
            print(
                render.paint(
                    f"intact: {render.counted(report.records, 'record')}, every chain whole, every head signed", "green"
                )
            )
        else:
            print(render.paint(f"NOT intact ({render.counted(report.records, 'record')})", "red"))
            if report.first_bad:
                print(f"  first bad record: {render.plain(report.first_bad)}")
        for problem in report.problems:
            print(f"  problem: {render.plain(problem)}")
        for text in document.get("notes", []):
            print(f"  note: {render.plain(text)}")

    run.show(document, people)
    return 0 if report.ok else 1


class _Progress:
    """Tells how far a long check is, on a terminal, at most twice a second."""

    def __init__(self) -> None:
        self._next = time.monotonic() + 0.5
        self._shown = False

    def __call__(self, done: int, total: int) -> None:
        if not sys.stderr.isatty():
            return
        now = time.monotonic()
        if now >= self._next:
            self._next, self._shown = now + 0.5, True
            print(f"\r{done:,} of {total:,} records", end="", file=sys.stderr, flush=True)
        elif self._shown and done >= total:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def _stats(run: Invocation) -> int:
    since = None if run.args.since is None else moment(run.args.since)
    document = _ask(run, lambda log: log.stats(since=since)).to_json()

    def people() -> None:
        rows = [_figures(tool["tool"], tool) for tool in document["tools"]]
        rows.append(_figures("all", document))
        columns = ["tool", "calls", "ok", "errors", "denied", "need approval", "unknown", "success", "p50 ms", "p95 ms"]
        render.table(columns, rows)
        render.note("success: ok of the calls that ran to an end (ok and errors); times: of the same calls")
        if document["unknown"]:
            calls = render.counted(document["unknown"], "call")
            render.note(f"{calls} with unknown outcome: geode audit list --status unknown")

    run.show(document, people)
    return 0


def _figures(name: str, figures: dict[str, Any]) -> list[object]:
    rate = figures["success_rate"]
    times = ["-" if figures[key] is None else f"{figures[key]:.1f}" for key in ("p50_ms", "p95_ms")]
    shown = "-" if rate is None else f"{rate:.1%}"
    counts = [figures[key] for key in ("calls", "ok", "errors", "denied", "needs_approval", "unknown")]
    return [name, *counts, shown, *times]
