"""`geode doctor`: what works on this machine, and how to fix what does not."""

from __future__ import annotations

from typing import Any

from .. import render
from ..checkup import Check, check_all
from ..invocation import Invocation
from ..parser import CommandParser

__all__ = ["configure"]


def configure(parser: CommandParser) -> None:
    """Fill in `geode doctor`."""
    parser.add_argument("--fix", action="store_true", help="repair what can be repaired without asking")
    parser.set_defaults(run=_doctor)


def _doctor(run: Invocation) -> int:
    checks: list[Check] = run.run(lambda: check_all(run, repair=run.args.fix))
    faults = [c for c in checks if c.state == "fault"]
    rows: list[dict[str, Any]] = [c.to_json() for c in checks]

    def people() -> None:
        render.table(["check", "state", "what was found"], [[c.name, c.state, c.detail] for c in checks])
        for check in checks:
            if check.fix and check.state != "ok":
                print(f"{check.name}: {render.plain(check.fix)}")
        print(render.paint("everything needed works", "green") if not faults else f"{len(faults)} fault(s)")

    run.show({"ok": not faults, "checks": rows}, people)
    return 1 if faults else 0
