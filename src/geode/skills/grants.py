"""Tool names as skills write them, and which calls they cover.

Skills come from many agents and name those agents' tools (`Bash(git:*)`, `Read`, `WebFetch`).
A table maps them to tools of Geode; what is not in it is reported and covers nothing (R88).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import filter as fnfilter
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import urlsplit

from .yamltree import Node

__all__ = ["FOREIGN_TOOLS", "ToolGrant", "resolve_denials", "resolve_grants", "resolve_only", "tool_names"]

FOREIGN_TOOLS: Mapping[str, tuple[str, ...]] = {
    "read": ("read_file", "read_document"),
    "view": ("read_file", "read_document"),
    "notebookread": ("read_file",),
    "readfile": ("read_file", "read_document"),
    "write": ("write_file",),
    "create": ("write_file",),
    "writefile": ("write_file",),
    "edit": ("edit_file",),
    "multiedit": ("edit_file",),
    "strreplace": ("edit_file",),
    "str_replace_editor": ("edit_file",),
    "replace": ("edit_file",),
    "apply_patch": ("edit_file",),
    "grep": ("grep_file",),
    "search": ("grep_file",),
    "search_file_content": ("grep_file",),
    "codebase_search": ("grep_file",),
    "glob": ("find_file",),
    "find": ("find_file",),
    "ls": ("list_directory",),
    "list": ("list_directory",),
    "list_dir": ("list_directory",),
    "bash": ("shell_exec",),
    "shell": ("shell_exec",),
    "terminal": ("shell_exec",),
    "run_shell_command": ("shell_exec",),
    "run_terminal_cmd": ("shell_exec",),
    "execute": ("shell_exec",),
    "powershell": ("shell_exec",),
    "python": ("code_interpreter",),
    "code_execution": ("code_interpreter",),
    "codeinterpreter": ("code_interpreter",),
    "webfetch": ("web_fetch",),
    "web_fetch": ("web_fetch",),
    "fetch": ("web_fetch",),
    "websearch": ("web_search",),
    "google_web_search": ("web_search",),
    "task": ("spawn_agent",),
    "agent": ("spawn_agent",),
    "skill": ("skill_read",),
    "toolsearch": ("tool_search",),
}
"""Name in other agents, lower case -> tools of Geode. Names that do not exist in an installation cover nothing."""

_OWN = frozenset(name for names in FOREIGN_TOOLS.values() for name in names) | {"skill_run"}
_FORM = re.compile(r"([^()\s,]+)(?:\((.*)\))?", re.DOTALL)
_SHELL_SIGNS = frozenset(";&|<>$`\\\n\r(){}!#\0")
_HIDES = frozenset("$`\\'\"\0*?[")
"""Signs with which a shell makes a word that does not stand there as it is."""
_GLOB = frozenset("*?[")
_PATH_ARGUMENTS = ("path", "file_path", "file", "directory")


@dataclass(frozen=True, slots=True)
class ToolGrant:
    """One name of a skill's list.

    Attributes:
        written: as the author wrote it.
        tools: tools of Geode it stands for; may hold `*` for the tools of one server.
        pattern: what stands in parentheses, or None for every call.
    """

    written: str
    tools: tuple[str, ...]
    pattern: str | None = None

    def covers(self, tool: str, arguments: Mapping[str, Any]) -> bool:
        """Whether it names exactly this call. A pattern that is not understood covers nothing."""
        if not any(fnmatchcase(tool, name) for name in self.tools):
            return False
        pattern = self.pattern
        if pattern is None or pattern.strip() in ("", "*", ":*"):
            return True
        if tool == "shell_exec":
            return _command_covered(pattern.strip(), arguments.get("command"))
        if tool.startswith("web_"):
            return _host_covered(pattern.strip(), arguments.get("url"))
        return _path_covered(pattern.strip(), arguments)

    def forbids(self, tool: str, arguments: Mapping[str, Any]) -> bool:
        """Whether it may mean this call, for a list of what is forbidden: what cannot be told for certain is."""
        if not any(fnmatchcase(tool, name) for name in self.tools):
            return False
        pattern = (self.pattern or "*").strip()
        if pattern in ("", "*", ":*") or self.covers(tool, arguments):
            return True
        if tool == "shell_exec":
            return _command_maybe(pattern, arguments.get("command"))
        if tool.startswith("web_"):
            return not (pattern.startswith("domain:") and isinstance(arguments.get("url"), str))
        given = [arguments[name] for name in _PATH_ARGUMENTS if name in arguments]
        return not given or not all(isinstance(path, str) and _plain_path(path) for path in given)


def _command_maybe(pattern: str, command: Any) -> bool:
    """Whether a command may run what a pattern names: somewhere in it, or hidden in what a shell expands."""
    if not isinstance(command, str) or _HIDES & set(command):
        return True
    wanted = re.split(r"[\s:*]+", pattern)[0]
    words = [word.rpartition("/")[2] for word in re.split(r"[\s;&|<>(){}!#]+", command)]
    return not wanted or wanted.rpartition("/")[2] in words


def _plain_path(text: str) -> bool:
    path = PurePosixPath(text.replace("\\", "/"))
    return ".." not in path.parts and not path.is_absolute() and not text.startswith("~")


def _command_covered(pattern: str, command: Any) -> bool:
    """`git:*`, `git *`: commands that begin with these words; `git status`: exactly this one.

    Only a plain command counts: one that a shell would treat as more than words asks as usual.
    """
    if not isinstance(command, str) or _SHELL_SIGNS & set(command):
        return False
    open_end = pattern.endswith((":*", " *"))
    wanted_text = pattern[:-2] if open_end else pattern
    if "*" in wanted_text:
        return False
    try:
        words, wanted = shlex.split(command), shlex.split(wanted_text)
    except ValueError:
        return False
    if not words or not wanted or "=" in words[0]:
        return False
    return words[: len(wanted)] == wanted if open_end else words == wanted


def _host_covered(pattern: str, url: Any) -> bool:
    if not isinstance(url, str) or not pattern.startswith("domain:"):
        return False
    try:
        host = (urlsplit(url).hostname or "").rstrip(".").lower()
    except ValueError:
        return False
    domain = pattern.removeprefix("domain:").strip().lower()
    return bool(domain) and (host == domain or host.endswith("." + domain))


def _path_covered(pattern: str, arguments: Mapping[str, Any]) -> bool:
    given = [arguments[name] for name in _PATH_ARGUMENTS if name in arguments]
    if not given or not all(isinstance(path, str) for path in given):
        return False
    glob = pattern.removeprefix("./")
    for text in given:
        path = PurePosixPath(text.replace("\\", "/"))
        if not _plain_path(text):
            return False
        shown = str(path)
        inside = glob.endswith("/**") and shown.startswith(glob[:-2])
        if not inside and not (fnmatchcase(shown, glob) and ("**" in glob or shown.count("/") == glob.count("/"))):
            return False
    return True


# ---------------------------------------------------------------- reading


def tool_names(node: Node) -> list[str] | None:
    """The names of "a b", "a, b" or a list, equal for all three forms (R63); None when it is none of them.

    Blanks and commas inside parentheses belong to the name: `Bash(git log *)`.
    """
    if node.kind == "text":
        return _split(node.texts())
    if node.kind != "list":
        return None
    names: list[str] = []
    for item in node.value:
        part = _split(item.texts()) if item.kind == "text" else None
        if part is None:
            return None
        names += part
    return list(dict.fromkeys(names))


def _split(text: str) -> list[str] | None:
    names: list[str] = []
    depth, current = 0, ""
    for char in text:
        depth += (char == "(") - (char == ")")
        if depth < 0:
            return None
        if depth == 0 and (char.isspace() or char == ","):
            names.append(current)
            current = ""
        else:
            current += char
    return None if depth else list(dict.fromkeys(name for name in (*names, current) if name))


def resolve_grants(
    names: Iterable[str], exists: Callable[[str], bool] | None = None
) -> tuple[tuple[ToolGrant, ...], tuple[str, ...]]:
    """What each name stands for here, and the names that stand for nothing.

    Args:
        names: as written.
        exists: whether a tool of Geode is installed; None: cannot be told, plain names are kept.
    """
    grants: list[ToolGrant] = []
    unknown: list[str] = []
    for written in names:
        form = _FORM.fullmatch(written)
        tools = _own_names(form[1], exists) if form else ()
        if form is None or not tools:
            unknown.append(written)
        else:
            grants.append(ToolGrant(written, tools, form[2]))
    return tuple(grants), tuple(unknown)


def resolve_only(names: Iterable[str]) -> tuple[ToolGrant, ...]:
    """What each name of a list of the only tools stands for: also the tool that is called exactly so."""
    grants: list[ToolGrant] = []
    for written in names:
        form = _FORM.fullmatch(written)
        if form is not None:
            literal = () if _GLOB & set(form[1]) else (form[1],)
            grants.append(ToolGrant(written, tuple(dict.fromkeys((*_own_names(form[1], None), *literal))), form[2]))
    return tuple(grants)


def resolve_denials(names: Iterable[str]) -> tuple[ToolGrant, ...]:
    """What each name of a list of forbidden tools may stand for: every meaning counts, also `*` in a name."""
    denials: list[ToolGrant] = []
    for written in names:
        form = _FORM.fullmatch(written)
        name = form[1] if form else written.partition("(")[0]
        patterns = {name, *_own_names(name, None)}
        patterns |= {own for known in fnfilter(FOREIGN_TOOLS, name.casefold()) for own in FOREIGN_TOOLS[known]}
        denials.append(ToolGrant(written, tuple(sorted(patterns)), form[2] if form else None))
    return tuple(denials)


def _own_names(name: str, exists: Callable[[str], bool] | None) -> tuple[str, ...]:
    if name.startswith("mcp__"):
        server, _, tool = name.removeprefix("mcp__").partition("__")
        plain = bool(server) and not _GLOB & set(server)
        return (f"{server}__{tool or '*'}",) if plain else ()
    if _GLOB & set(name):
        return ()
    if exists is not None and exists(name):
        return (name,)
    foreign = FOREIGN_TOOLS.get(name.casefold(), ())
    if name in _OWN and not foreign:
        foreign = (name,)
    if exists is not None:
        return tuple(tool for tool in foreign if exists(tool))
    return foreign or ((name,) if re.fullmatch(r"[a-z][a-z0-9]*(?:_+[a-z0-9]+)+", name) else ())
