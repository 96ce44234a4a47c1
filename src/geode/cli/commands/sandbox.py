"""`geode sandbox`: try to break out of it, and say what is open."""

from __future__ import annotations

from typing import Any

from .. import render
from ..invocation import Invocation
from ..parser import CommandParser, add_command, add_group

__all__ = ["configure"]


def configure(parser: CommandParser) -> None:
    """Fill in `geode sandbox`."""
    group = add_group(parser)
    add_command(group, "probe", "attempt every known way out; exit 1 when one is open", _probe)


def _probe(run: Invocation) -> int:
    async def probe() -> tuple[str, list[Any]]:
        from ...containment.sandbox.probe import run_probes
        from ...containment.sandbox.select import select_backend

        backend = select_backend(run.settings.sandbox, home=run.home)
        return backend.name, list(await run_probes(backend))

    name, probes = run.run(probe)
    rows = [{"name": p.name, "open": p.open} for p in probes]
    opened = sum(1 for row in rows if row["open"])

    def people() -> None:
        render.table(["probe", "result"], [[r["name"], "OPEN" if r["open"] else "held"] for r in rows])
        colour = "red" if opened else "green"
        print(render.paint(f"{name}: {len(rows)} probes, {opened} open", colour))

    run.show({"backend": name, "probes": rows, "open": opened}, people)
    return 1 if opened else 0
