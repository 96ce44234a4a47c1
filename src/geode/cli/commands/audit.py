"""`geode audit`: the record of every call, and proof that nobody changed it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from .. import render
from ..inputs import moment
from ..invocation import Invocation
from ..parser import CommandParser, add_command, add_group, add_paging

__all__ = ["configure"]


def configure(parser: CommandParser) -> None:
    """Fill in `geode audit`."""
    group = add_group(parser)
    listing = add_command(group, "list", "calls, newest first", _list)
    listing.add_argument("--since", metavar="T", help="2h, 7d, 2026-11-30 or an ISO time")
    listing.add_argument("--tool", metavar="NAME", help="only this tool")
    listing.add_argument("--status", metavar="S", help="only ok, error, denied, needs_approval or unknown")
    listing.add_argument("--session", metavar="ID", help="only this session")
    add_paging(listing, 50)
    show = add_command(group, "show", "everything recorded about one call", _show)
    show.add_argument("id", help="the call_id")
    add_command(group, "verify", "is the record complete and unchanged? exit 1 when not", _verify)
    add_command(group, "stats", "calls, success rate and times per tool", _stats)


def _list(run: Invocation) -> int:
    args = run.args
    since = None if args.since is None else moment(args.since)
    raise NotImplementedError((args, since))


def _show(run: Invocation) -> int:
    raise NotImplementedError(run)


def _verify(run: Invocation) -> int:
    raise NotImplementedError(run)


def _stats(run: Invocation) -> int:
    raise NotImplementedError(run, sys, Mapping[str, Any], render)
