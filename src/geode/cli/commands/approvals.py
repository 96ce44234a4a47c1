"""`geode approvals`: calls that wait for a person's yes or no."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from .. import render
from ..invocation import Invocation, principal
from ..parser import CommandParser, add_command, add_group, add_paging

if TYPE_CHECKING:
    from ...store.approvals import StoredApproval

__all__ = ["configure"]


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
            return list(await Approvals(database).list(state))

    page = render.page(run.run(look), run.args.limit, run.args.cursor)
    rows = [_row(item) for item in page.items]

    def people() -> None:
        columns = ["id", "state", "tool", "view", "reason", "expires_at"]
        render.table(columns, [[r.get(c) for c in columns] for r in rows], empty="no request is waiting")
        if rows:
            render.note("answer with: geode approvals approve ID, or deny ID --reason TEXT")

    run.show({"approvals": rows, "count": page.total, "next_cursor": page.next_cursor}, people)
    return 0


def _row(item: StoredApproval) -> dict[str, Any]:
    """One request as JSON."""
    return item.to_json()


def _approve(run: Invocation) -> int:
    return _answer(run, approved=True)


def _deny(run: Invocation) -> int:
    return _answer(run, approved=False)


def _answer(run: Invocation, *, approved: bool) -> int:
    async def answer() -> dict[str, Any]:
        from ...store.approvals import Approvals

        with run.database() as database:
            approvals = Approvals(database)
            await approvals.answer(run.args.id, approved, principal(), run.args.reason)
            return _row(await approvals.get(run.args.id))

    row = run.run(answer)

    def people() -> None:
        print(f"{row['state']}: {render.plain(str(row.get('tool', '')))} ({row['id']})")
        if approved:
            print("the same call, made again, runs once")

    run.show({"approval": row}, people)
    return 0


def _words(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
