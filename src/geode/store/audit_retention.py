"""Deletes old audit records so that the rest can still be verified.

Only the oldest rows of a chain go, never one in the middle, and the newest always stays. For each
writer the last deleted row's number and mac become its anchor, stated in a record of kind
"retention": the chain is then verified from there. Each such record repeats the anchors of all
writers, so the newest one is enough, and older ones may be deleted too.
"""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import Connection, delete, func, select

from .schema import audit

__all__ = ["anchors_of", "prune_rows"]


def anchors_of(connection: Connection) -> dict[str, tuple[int, str]]:
    """For each writer the last row that was deleted on purpose: number and mac (hex)."""
    anchors: dict[str, tuple[int, str]] = {}
    for (body,) in connection.execute(select(audit.c.body).where(audit.c.kind == "retention")):
        try:
            stated: dict[str, list[Any]] = json.loads(body)["anchors"]
            for writer, (seq, mac) in stated.items():
                if int(seq) > anchors.get(writer, (0, ""))[0]:
                    anchors[writer] = (int(seq), str(mac))
        except (ValueError, KeyError, TypeError, AttributeError):
            continue  # a damaged row: verifying the chain reports it
    return anchors


def prune_rows(connection: Connection, before_us: int) -> tuple[int, dict[str, Any]]:
    """Delete what is older than `before_us`.

    Returns:
        How many rows, and the facts for the record about it.
    """
    anchors = anchors_of(connection)
    deleted = 0
    tails = connection.execute(select(audit.c.writer, func.max(audit.c.seq)).group_by(audit.c.writer)).all()
    for writer, tail in tails:
        mine = audit.c.writer == writer
        # The first row that stays: younger rows may stand before older ones when a clock was set back.
        keep = connection.execute(select(func.min(audit.c.seq)).where(mine, audit.c.at_us >= before_us)).scalar()
        last = min(tail, keep if keep is not None else tail) - 1
        mac = connection.execute(select(audit.c.mac).where(mine, audit.c.seq == last)).scalar()
        if mac is None:
            continue
        deleted += connection.execute(delete(audit).where(mine, audit.c.seq <= last)).rowcount
        anchors[writer] = (last, mac.hex())
    facts: dict[str, Any] = {
        "event": "pruned",
        "before_us": before_us,
        "deleted": deleted,
        "anchors": {writer: list(anchor) for writer, anchor in anchors.items()},
    }
    return deleted, facts
