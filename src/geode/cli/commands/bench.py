"""`geode bench`: measure Geode on this machine."""

from __future__ import annotations

import argparse
from typing import Any

from .. import render
from ..invocation import Invocation
from ..parser import CommandParser, add_command, add_group

__all__ = ["configure"]


def configure(parser: CommandParser) -> None:
    """Fill in `geode bench`."""
    group = add_group(parser)
    startup = add_command(group, "startup", "time of `geode --help` and what it imports", _startup)
    startup.add_argument("--runs", type=_count, default=20, metavar="N", help="processes to start (default 20)")
    loop = add_command(group, "loop", "what the gate and its two records cost a call", _loop)
    loop.add_argument("--calls", type=_count, default=2000, metavar="N", help="calls to make (default 2000)")
    gateway = add_command(group, "gateway", "what `geode serve --stdio` adds to a call over a bare relay", _gateway)
    gateway.add_argument("--calls", type=_count, default=1000, metavar="N", help="calls in each way (default 1000)")
    sandbox = add_command(group, "sandbox", "what the sandbox adds to the run of a small program", _sandbox)
    sandbox.add_argument("--runs", type=_count, default=50, metavar="N", help="runs in each way (default 50)")


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or not 1 <= int(text) <= 1_000_000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to 1000000")
    return int(text)


def _startup(run: Invocation) -> int:
    from ...bench.startup import measure_startup

    return _report(run, measure_startup(run.args.runs))


def _loop(run: Invocation) -> int:
    from ...bench.loop import measure_loop

    return _report(run, run.run(lambda: measure_loop(run.args.calls)))


def _gateway(run: Invocation) -> int:
    from ...bench.gateway import measure_gateway

    return _report(run, run.run(lambda: measure_gateway(run.args.calls)))


def _sandbox(run: Invocation) -> int:
    from ...bench.sandbox import measure_sandbox

    return _report(run, run.run(lambda: measure_sandbox(run.args.runs)))


def _report(run: Invocation, document: dict[str, Any]) -> int:
    """Print figures beside their targets; 1 when one is missed."""

    def people() -> None:
        render.table(["figure", "measured", "target", ""], [_line(figure) for figure in document["figures"]])
        for key, value in document["facts"].items():
            print(f"{key.replace('_', ' ')}: {value}")

    run.show(document, people)
    return 0 if document["ok"] else 1


def _line(figure: dict[str, Any]) -> list[str]:
    measured = f"{figure['value']:g} {figure['unit']}"
    return [figure["name"], measured, f"{figure['relation']} {figure['target']:g}", "ok" if figure["ok"] else "missed"]
