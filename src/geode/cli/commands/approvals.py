"""`geode approvals`: calls that wait for a person's yes or no."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from ...config.person import local_user
from ...core.effects import Origin
from .. import render
from ..invocation import Invocation
from ..parser import CommandParser, add_command, add_group, add_paging

if TYPE_CHECKING:
    from ...store.approvals import StoredApproval
    from ...store.audit import AuditRecord

__all__ = ["configure"]

_MOST = 10_000
"""Requests that a list looks at, newest first."""


def configure(parser: CommandParser) -> None:
    """Fill in `geode approvals`."""
    group = add_group(parser)
    listing = add_command(group, "list", "requests, newest first", _list)
    listing.add_argument(
        "--state", choices=("pending", "approved", "denied", "expired", "used", "all"), default="pending"
    )
    add_paging(listing)
    approve = add_command(group, "approve", "let exactly this call run, once", _approve)
    deny = add_command(group, "deny", "refuse it", _deny)
    for each in (approve, deny):
        each.add_argument("id", help="id of the request")
        each.add_argument("--reason", default="", metavar="TEXT", help="told to whoever asked")


def _list(run: Invocation) -> int:
    state = None if run.args.state == "all" else run.args.state

    async def look() -> list[StoredApproval]:
        from ...store.approvals import Approvals

        with run.database() as database:
            return list(await Approvals(database).list(state, limit=_MOST))

    page = render.page(run.run(look), run.args.limit, run.args.cursor)
    rows = [item.to_json() for item in page.items]

    def people() -> None:
        lines = [_line(item) for item in page.items]
        render.table(
            ["id", "state", "tool", "what would run", "why it asks", "project", "until"], lines, empty="no request"
        )
        if rows:
            render.note("answer with: geode approvals approve ID, or deny ID --reason TEXT")

    run.show({"approvals": rows, "count": page.total, "next_cursor": page.next_cursor}, people)
    return 0


def _line(item: StoredApproval) -> list[object]:
    until = render.local_time(item.expires_at)
    return [item.id, item.state, item.tool, item.view, item.verdict.get("reason"), item.project, until]


def _approve(run: Invocation) -> int:
    return _answer(run, approved=True)


def _deny(run: Invocation) -> int:
    return _answer(run, approved=False)


def _answer(run: Invocation, *, approved: bool) -> int:
    async def answer() -> dict[str, Any]:
        from ...store.approvals import Approvals
        from ...store.audit import AuditLog

        with run.database() as database:
            approval = await Approvals(database).answer(run.args.id, approved, local_user(), run.args.reason)
            await AuditLog(database, run.home).record(_record(approval))
            return approval.to_json()

    row = run.run(answer)

    def people() -> None:
        print(f"{row['state']}: {render.visible(row['tool'])} ({row['id']})")
        for line in str(row["view"]).splitlines():
            print(f"  | {render.visible(line)}")
        if approved:
            until = render.local_time(datetime.fromisoformat(row["expires_at"]))
            print(f"exactly this call, made again, runs once until {until}")

    run.show({"approval": row}, people)
    return 0


def _record(approval: StoredApproval) -> AuditRecord:
    """The audit record of a person's answer."""
    from ...analysis.secrets import Redactor
    from ...store.audit import AuditRecord

    return AuditRecord(
        kind="approval",
        call_id=approval.call_id,
        tool=approval.tool,
        principal=local_user(),
        origin=Origin.CLI.value,
        session=approval.session,
        mode=approval.mode,
        status=approval.state,
        body={"approval": approval.id, "reason": Redactor().text(approval.reason), "asked_for": approval.principal},
    )
