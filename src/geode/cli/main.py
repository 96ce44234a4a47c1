"""Entry point of `geode`: reads the command line and runs one command.

Nothing heavy is imported here: `geode --help` must answer within 0.15 s, so a command's
module is loaded only when that command was chosen.
"""

from __future__ import annotations

import sys
from argparse import Namespace
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
    if not words and not _person_there():
        parser.print_help()
        return 0
    args = parser.parse_args(words)
    if getattr(args, "version", False):
        return _version(json="json" in args)
    run = getattr(args, "run", None)
    if run is None and not hasattr(args, "group"):
        return _chat(args)
    if hasattr(args, "chat_resume") or hasattr(args, "chat_model"):
        raise UsageError("--resume and --model before a command are for the chat", fix="put them after: geode run")
    if run is None:
        chosen: CommandParser = getattr(args, "group", parser)
        wanted = ", ".join(getattr(args, "choices", COMMANDS))
        raise UsageError(f"{chosen.prog}: a command is missing: {wanted}", fix=f"see: {chosen.prog} --help")
    from .invocation import Invocation  # the first import that costs time

    return run(Invocation(args, global_options(args)))


def _person_there() -> bool:
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout))


def _chat(args: Namespace) -> int:
    """The chat, which is what `geode` without a command is."""
    options = global_options(args)
    if options.json:
        raise UsageError("the chat has no --json", fix='geode run "what to do" --json')
    if not _person_there():
        raise UsageError("a command is missing, and the chat needs a terminal", fix='geode --help, or: geode run "…"')
    from .chat.app import chat
    from .invocation import Invocation

    resume, model = getattr(args, "chat_resume", None), getattr(args, "chat_model", None)
    return chat(Invocation(args, options), resume=resume, model=model)


def _version(*, json: bool) -> int:
    print(f'{{"schema":1,"version":"{VERSION}"}}' if json else f"geode {VERSION}")
    return 0
