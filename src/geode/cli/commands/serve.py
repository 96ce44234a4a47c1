"""`geode serve`: Geode as one MCP server in front of all tools and servers."""

from __future__ import annotations

import ipaddress

from ...core.errors import UsageError
from .. import render
from ..invocation import Invocation
from ..parser import ALLOW_HELP, CommandParser

__all__ = ["configure"]


def configure(parser: CommandParser) -> None:
    """Fill in `geode serve`."""
    front = parser.add_mutually_exclusive_group()
    front.add_argument("--stdio", action="store_true", help="speak on stdin and stdout (the default)")
    front.add_argument("--http", metavar="HOST:PORT", help="Streamable HTTP, for example 127.0.0.1:8420")
    parser.add_argument(
        "--expose",
        choices=("direct", "search"),
        default="direct",
        help="direct: every tool is listed; search: only search, inspect and call",
    )
    parser.add_argument("--allow", action="append", default=[], metavar="TOOL", help=ALLOW_HELP)
    parser.set_defaults(run=_serve)


def _serve(run: Invocation) -> int:
    if run.json:
        raise UsageError("serve reports nothing, so it has no --json", fix="leave --json out")
    address = None if run.args.http is None else http_address(run.args.http)

    async def serve() -> None:
        from ..front import serve_forever

        await serve_forever(run, expose=run.args.expose, address=address, requested=frozenset(run.args.allow))

    if address is not None and not _is_loopback(address[0]):
        raise UsageError(
            f"{address[0]} is not a loopback address; the gateway has no login yet", fix="use 127.0.0.1:PORT"
        )
    run.check_mode()
    try:
        run.run(serve)
    except KeyboardInterrupt:
        render.note("geode serve: ended")
        return 130
    return 0


def http_address(text: str) -> tuple[str, int]:
    """Host and port out of `HOST:PORT`, `[V6]:PORT` or `PORT`.

    Raises:
        UsageError: it is none of these.
    """
    host, _, port = text.rpartition(":")
    host = host.strip("[]") or "127.0.0.1"
    if not (port.isascii() and port.isdigit()) or not 0 <= int(port) <= 65535:
        raise UsageError(f"{text!r} is not HOST:PORT", fix="for example: --http 127.0.0.1:8420")
    return host, int(port)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
