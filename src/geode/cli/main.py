"""Entry point of `geode`: reads the command line and runs one command.

Nothing heavy is imported here: `geode --help` must answer within 0.15 s, so a command's
module is loaded only when that command was chosen.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from ..core.errors import UsageError
from .errors import finish, guarded, prepare_streams
from .parser import COMMANDS, CommandParser, build_parser, global_options
from .version import VERSION

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line.

    Args:
        argv: the words after `geode`; None takes them from the process.

    Returns:
        The exit code of the command contract: 0 ok, 1 failed, 2 usage, 3 denied, 4 needs
        approval, 5 something is missing, 130 interrupted.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    prepare_streams()
    wants_json = "--json" in (words[: words.index("--")] if "--" in words else words)
    return finish(guarded(lambda: _run(words), json=wants_json, words=words))


def _run(words: list[str]) -> int:
    parser = build_parser()
    if not words:
        parser.print_help()
        return 0
    args = parser.parse_args(words)
    if getattr(args, "version", False):
        return _version(json="json" in args)
    run = getattr(args, "run", None)
    if run is None:
        chosen: CommandParser = getattr(args, "group", parser)
        wanted = ", ".join(getattr(args, "choices", COMMANDS))
        raise UsageError(f"{chosen.prog}: a command is missing: {wanted}", fix=f"see: {chosen.prog} --help")
    from .invocation import Invocation  # the first import that costs time

    return run(Invocation(args, global_options(args)))


def _version(*, json: bool) -> int:
    print(f'{{"schema":1,"version":"{VERSION}"}}' if json else f"geode {VERSION}")
    return 0
