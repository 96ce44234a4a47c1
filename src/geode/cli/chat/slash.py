"""The one table of slash commands: what `/help` lists, what Tab completes, what runs."""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...core.errors import UsageError
from . import commands

if TYPE_CHECKING:
    from .app import Chat

__all__ = ["SLASH", "Quit", "Slash", "run_slash"]


class Quit(Exception):
    """The person wants to leave."""


@dataclass(frozen=True, slots=True)
class Slash:
    """One slash command: what it takes, what it does, in one line, and the function that does it."""

    usage: str
    line: str
    run: Callable[[Chat, list[str]], Awaitable[None]]


async def _help(talk: Chat, words: list[str]) -> None:
    if words:
        await commands.cli(talk, "help", words)
        return
    rows = [(f"/{name} {command.usage}".rstrip(), command.line) for name, command in SLASH.items()]
    commands.rows(talk, rows)
    talk.tell("/NAME WORDS calls the skill of that name")
    talk.tell("Alt-Enter begins a new line · Ctrl-C stops what runs · /help TOPIC explains: /help policy")


async def _quit(_talk: Chat, _words: list[str]) -> None:
    raise Quit


SLASH: Mapping[str, Slash] = {
    "help": Slash("[TOPIC]", "this list, or a topic", _help),
    "skills": Slash("[add PATH|show NAME|…]", "skills: list, add, show, remove, validate, search", commands.skills),
    "mcp": Slash("[add NAME COMMAND…|…]", "MCP servers: how they are, add, remove, list, tools", commands.mcp),
    "tools": Slash("[WORDS]", "the tools of this conversation, or a search for some", commands.tools),
    "policy": Slash("[check TOOL|command CMD]", "what is allowed, and why", commands.policy),
    "audit": Slash("[show ID|verify|…]", "the calls of this conversation, as recorded", commands.audit),
    "model": Slash("[P:NAME]", "which model answers; another one from now on", commands.model),
    "context": Slash("", "what fills the model's context", commands.context),
    "cost": Slash("", "tokens and money of this chat so far", commands.cost),
    "clear": Slash("", "a new conversation; this one can be resumed", commands.clear),
    "resume": Slash("[SESSION]", "go on with an earlier conversation", commands.resume),
    "quit": Slash("", "leave (Ctrl-D)", _quit),
}
"""Name -> command, in the order of `/help`."""


def _whole_command(line: str) -> list[str]:
    """`policy command REST`: the rest is the command, whatever quotes it has; [] when the line is none of these."""
    found = re.match(r"\s*policy\s+command\s+(?!--)(\S.*)", line, re.S)
    if found is None:
        return []
    rest = found[1].strip()
    try:
        words = shlex.split(rest)
    except ValueError:
        words = []
    quoted = len(words) == 1 and rest[0] in "'\""
    return ["policy", "command", "--", words[0] if quoted else rest]


async def run_slash(talk: Chat, text: str) -> None:
    """Run one line that begins with a slash.

    Raises:
        GeodeError: it is none of the commands, or the command failed.
        Quit: the person leaves.
    """
    try:
        name, *words = _whole_command(text[1:]) or shlex.split(text[1:]) or [""]
    except ValueError as error:
        raise UsageError(f"the line cannot be read: {error}", fix="close the quotes") from None
    command = SLASH.get({"exit": "quit", "?": "help"}.get(name, name))
    if command is None:
        near = difflib.get_close_matches(name, SLASH, 1)
        raise UsageError(f"there is no /{name}", fix=f"did you mean /{near[0]}?" if near else "see: /help")
    await command.run(talk, words)
