"""The table of commands and the argparse parser that fills in a command only when it is chosen."""

from __future__ import annotations

import argparse
import difflib
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn

from ..core.errors import UsageError

if TYPE_CHECKING:
    from .invocation import Invocation

__all__ = [
    "ALLOW_HELP",
    "COMMANDS",
    "CommandParser",
    "Globals",
    "add_command",
    "add_group",
    "add_paging",
    "build_parser",
    "global_options",
]

COMMANDS: dict[str, str] = {
    "run": "give an agent a task",
    "tools": "list, search, show, call and export tools",
    "skills": "list, show, add, remove, check and search skills",
    "mcp": "the MCP servers Geode stands in front of",
    "policy": "what is allowed, and why",
    "audit": "the record of every call",
    "approvals": "calls that wait for a person",
    "serve": "Geode as one MCP server for Claude Code, Cursor, Codex, …",
    "trust": "use this project's servers, tools and rules",
    "config": "the settings in force, and where each comes from",
    "doctor": "what works on this machine, and how to fix what does not",
    "sandbox": "prove that the sandbox holds",
    "bench": "measure Geode on this machine",
    "help": "explain a topic",
}
"""Command -> one line for `geode --help`; the module `geode.cli.commands.NAME` has `configure(parser)`."""

ALLOW_HELP = (
    "you ask for this tool (or srv__*): it may act, talk to its service, send, spend; "
    "what deletes, reaches the network or leaves the workspace still asks"
)

_EPILOG = """\
Start with:
  geode                                     talk with an agent
  geode run "what to do"                    let it do one task
  geode doctor                              what works here
  geode tools search "read a PDF"           find a tool in plain words
  geode tools call list_directory           run it: checked, contained, recorded
  geode audit list                          who did what
  geode serve --stdio                       put Geode in front of your MCP client

exit codes: 0 ok, 1 failed, 2 usage, 3 denied by policy, 4 needs approval, 5 something is missing
"""


@dataclass(frozen=True, slots=True)
class Globals:
    """Options every command has, before or after its name; None: not given."""

    project: str | None
    home: str | None
    mode: str | None
    json: bool


class CommandParser(argparse.ArgumentParser):
    """A parser that is filled in when first used and reports mistakes as `UsageError`.

    Args:
        module: fills this parser in when it is first used (`geode.cli.commands.MODULE`).
        tail: attribute that takes a foreign command line at the end (`mcp add NAME -- COMMAND …`).
    """

    def __init__(self, *args: Any, module: str = "", tail: str = "", **kwargs: Any) -> None:
        kwargs.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        kwargs.setdefault("allow_abbrev", False)
        super().__init__(*args, **kwargs)
        self._module = module
        self._tail = tail
        _add_globals(self)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """As argparse, after loading the command's module when it was not loaded yet."""
        if self._module:
            module, self._module = self._module, ""
            import_module(f"geode.cli.commands.{module}").configure(self)
        if not self._tail:
            return super().parse_known_args(args, namespace)
        own, command = self._split(list(args or ()))
        parsed, unknown = super().parse_known_args(own, namespace)
        setattr(parsed, self._tail, command)
        return parsed, unknown

    def _split(self, words: list[str]) -> tuple[list[str], list[str]]:
        """Own words, and a foreign command line: what follows `--` or begins with the second bare word.

        argparse's REMAINDER would swallow our own options that stand after the first bare word.
        """
        bare, at = 0, 0
        while at < len(words):
            word = words[at]
            if word == "--":
                return words[:at], words[at + 1 :]
            if not word.startswith("-") or word == "-":
                bare += 1
                if bare == 2:
                    return words[:at], words[at:]
            elif "=" not in word:
                action = self._option_string_actions.get(word)
                at += 1 if action is not None and action.nargs is None else 0
            at += 1
        return words, []

    def print_help(self, file: Any = None) -> None:
        """Print, and fail when that fails (argparse would swallow a full disk or a closed pipe)."""
        print(self.format_help(), end="", file=file or sys.stdout)

    def error(self, message: str) -> NoReturn:
        """Raise instead of printing usage and leaving: one line, and how to see the usage."""
        where = self.prog.removeprefix("geode").strip()
        help_line = f"see: {self.prog} --help"
        wrong = re.fullmatch(r"argument COMMAND: invalid choice: '(.*)' \(choose from (.*)\)", message, re.DOTALL)
        if wrong:
            known = re.findall(r"'([^']*)'", wrong[2])
            near = difflib.get_close_matches(wrong[1], known, 2)
            message = f"there is no command {wrong[1]!r}"
            help_line = f"did you mean: {' or '.join(near)}? {help_line}" if near else help_line
        raise UsageError(f"{where}: {message}" if where else message, fix=help_line)


def _add_globals(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("global options")
    group.add_argument("--project", metavar="DIR", default=argparse.SUPPRESS, help="project directory (default: here)")
    group.add_argument(
        "--home", metavar="DIR", default=argparse.SUPPRESS, help="Geode's data (default: $GEODE_HOME or ~/.geode)"
    )
    group.add_argument("--mode", metavar="M", default=argparse.SUPPRESS, help="policy mode: default, read_only, …")
    group.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="one JSON document on stdout")


def global_options(args: argparse.Namespace) -> Globals:
    """The global options of a parsed command line."""
    return Globals(
        project=getattr(args, "project", None),
        home=getattr(args, "home", None),
        mode=getattr(args, "mode", None),
        json=getattr(args, "json", False),
    )


def build_parser() -> CommandParser:
    """The root parser; the commands below it are still empty."""
    parser = CommandParser(
        prog="geode",
        description="One registry, one search, one gate and one record for the tools of an LLM agent.",
        epilog=_EPILOG,
    )
    parser.add_argument("--version", action="store_true", default=argparse.SUPPRESS, help="show the version")
    talk = parser.add_argument_group("chat (geode without a command, at a terminal)")
    talk.add_argument(
        "--resume",
        dest="chat_resume",
        nargs="?",
        const="last",
        metavar="SESSION",
        default=argparse.SUPPRESS,
        help="go on with a conversation, or with the last one here",
    )
    talk.add_argument("--model", dest="chat_model", metavar="P:NAME", default=argparse.SUPPRESS, help="who answers")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", prog="geode", parser_class=CommandParser)
    for name, line in COMMANDS.items():
        commands.add_parser(name, help=line, description=line[0].upper() + line[1:] + ".", module=name)
    return parser


def add_group(parser: CommandParser) -> Any:
    """Prepare `parser` for sub-commands; returns what `add_command` takes."""
    group = parser.add_subparsers(title="commands", metavar="COMMAND", prog=parser.prog, parser_class=CommandParser)
    parser.set_defaults(group=parser, choices=group.choices)
    return group


def add_command(group: Any, name: str, line: str, run: Callable[[Invocation], int], **kwargs: Any) -> CommandParser:
    """Add one sub-command that is executed by `run`.

    Args:
        group: what `add_group` returned.
        name: its word on the command line.
        line: one line of help.
        run: takes the invocation, returns the exit code.
    """
    parser: CommandParser = group.add_parser(name, help=line, description=line[0].upper() + line[1:] + ".", **kwargs)
    parser.set_defaults(run=run)
    return parser


def add_paging(parser: argparse.ArgumentParser, default: int = 100) -> None:
    """`--limit N` and `--cursor C`, which every list has."""
    parser.add_argument("--limit", type=_limit, default=default, metavar="N", help=f"at most N (default {default})")
    parser.add_argument("--cursor", default=None, metavar="C", help="go on from next_cursor of an earlier list")


def _limit(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = 0
    if not 1 <= value <= 100_000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to 100000")
    return value


def words_of(values: Sequence[str]) -> str:
    """Words of the command line as one text."""
    return " ".join(values).strip()
