"""Server files: where MCP servers are declared, read, added and removed.

Files, in order: `HOME/mcp.json` (the user's), then of the project `.geode/mcp.json`,
`.claude/mcp_servers.json` and `.mcp.json`. A name declared twice is used once, the first
wins and the other is reported: nothing from a project takes the place of a user's server.
Edits are atomic, keep keys we do not know and never write an expanded value.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from ..core.call import canonical_json
from ..core.effects import Effect
from ..core.errors import ConfigError
from . import files
from .expand import Missing, expand

__all__ = [
    "PROJECT_FILES",
    "Problem",
    "Resolved",
    "ServerConfig",
    "ServerSet",
    "add_server",
    "load_servers",
    "remove_server",
    "server_file",
]

PROJECT_FILES = (".geode/mcp.json", ".claude/mcp_servers.json", ".mcp.json")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}\Z")
_FIELDS = {
    "command", "args", "env", "url", "headers", "cwd", "enabled", "disabled", "type", "transport",
    "start_timeout", "call_timeout", "max_connections", "effects",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Problem:
    """Something in a server file that is not used, and why."""

    file: str
    server: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """An entry with every reference replaced. Never stored, never shown."""

    command: str
    args: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str
    url: str
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig:
    """One declared server, references not yet replaced.

    Attributes:
        name: unique; becomes the prefix of its tools (`name__tool`).
        command: program of a stdio server, or "".
        url: address of a Streamable HTTP server, or "".
        cwd: working directory of the process; "" means the project.
        scope: "user" or "project".
        file: where it is declared.
        enabled: False keeps it in the list and never starts it.
        start_timeout: seconds until the server must have answered the handshake.
        call_timeout: seconds for one call.
        max_connections: clients of the gateway that may hold a connection of their own.
        effects: tool name (or "*") -> effects, as the user declared them; empty for a project.
    """

    name: str
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    cwd: str = ""
    scope: str = "user"
    file: str = ""
    enabled: bool = True
    start_timeout: float = 60.0
    call_timeout: float = 120.0
    max_connections: int = 8
    effects: Mapping[str, frozenset[Effect]] = field(default_factory=dict[str, "frozenset[Effect]"])

    @property
    def identity(self) -> str:
        """What makes it this server and no other: a snapshot of tools belongs to exactly this."""
        return canonical_json(
            [self.name, self.scope, self.command, self.args, dict(self.env), self.cwd, self.url, dict(self.headers)]
        )

    @property
    def target(self) -> str:
        """Short form for people; holds references, never their values."""
        return self.url or " ".join((self.command, *self.args))

    def barred(self, *, trusted: bool) -> str:
        """Why it may not be used: "off", "untrusted", or "" when it may. `trusted` is the project's trust."""
        return "off" if not self.enabled else "untrusted" if self.scope == "project" and not trusted else ""

    def effects_of(self, tool: str) -> frozenset[Effect] | None:
        """Declared effects of one of its tools; None when nobody trusted has declared any."""
        return self.effects.get(tool, self.effects.get("*"))

    def resolve(self, environ: Mapping[str, str]) -> Resolved:
        """Replace every reference, in every field by the same rule.

        Raises:
            ConfigError: variables are not set; names all of them and where they stand.
        """
        missing: Missing = {}

        def put(text: str, where: str) -> str:
            return expand(text, environ, field=where, missing=missing)

        resolved = Resolved(
            command=put(self.command, "command"),
            args=tuple(put(a, f"args[{i}]") for i, a in enumerate(self.args)),
            env={k: put(v, f"env.{k}") for k, v in self.env.items()},
            cwd=put(self.cwd, "cwd"),
            url=put(self.url, "url"),
            headers={k: put(v, f"headers.{k}") for k, v in self.headers.items()},
        )
        if missing:
            names = ", ".join(f"{n} (in {', '.join(dict.fromkeys(w))})" for n, w in sorted(missing.items()))
            raise ConfigError(
                f"MCP server {self.name!r} needs environment variables that are not set: {names}",
                fix=f"set them before starting geode, or give a default in {self.file or 'its entry'}: "
                "${NAME:-default}",
            )
        return resolved


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSet:
    """All declared servers by name, what could not be used, and the files that were looked at."""

    servers: Mapping[str, ServerConfig] = field(default_factory=dict[str, ServerConfig])
    problems: tuple[Problem, ...] = ()
    broken_files: frozenset[str] = frozenset()
    """Files that exist and cannot be read: whoever holds an earlier state keeps it."""


def server_file(project: Path, home: Path, scope: str) -> Path:
    """The file that `mcp add` and `mcp remove` edit for a scope.

    Raises:
        ConfigError: unknown scope.
    """
    if scope == "user":
        return home / "mcp.json"
    if scope != "project":
        raise ConfigError(f"unknown scope {scope!r}", fix="use --scope user or --scope project")
    claude = project / ".claude" / "mcp_servers.json"
    return claude if claude.is_file() else project / ".geode" / "mcp.json"


def load_servers(project: Path, home: Path) -> ServerSet:
    """Read every server file. A bad entry or file is reported and costs only itself."""
    servers: dict[str, ServerConfig] = {}
    problems: list[Problem] = []
    broken: set[str] = set()
    for scope, path in ((("user", home / "mcp.json")), *(("project", project / f) for f in PROJECT_FILES)):
        try:
            document = files.read_document(path)
            entries = files.entries_of(document, path)
        except ConfigError as error:
            broken.add(str(path))
            problems.append(Problem(str(path), "", f"{error.message}; {error.fix}"))
            continue
        for name, entry in entries.items():
            if name in servers:
                problems.append(Problem(str(path), name, f"not used: {servers[name].file} declares this name already"))
                continue
            try:
                servers[name] = parse_entry(name, entry, scope=scope, file=str(path))
            except ConfigError as error:
                problems.append(Problem(str(path), name, f"{error.message}; {error.fix}"))
    return ServerSet(servers=servers, problems=tuple(problems), broken_files=frozenset(broken))


def parse_entry(name: str, entry: Any, *, scope: str, file: str) -> ServerConfig:
    """One entry of a server file.

    Raises:
        ConfigError: names the file, the server, the field and what it must be.
    """
    where = f"{file}: server {name!r}"
    if not _NAME.match(name) or "__" in name:
        raise ConfigError(
            f"{where}: not a usable name", fix="use letters, digits, '.', '-' and single '_', at most 64 characters"
        )
    if not isinstance(entry, dict):
        raise ConfigError(f"{where} is not an object", fix='write {"command": "…", "args": [ … ]} or {"url": "…"}')
    data = cast(dict[str, Any], entry)
    command, url = _text(data, "command", where), _text(data, "url", where)
    kind = data.get("type", data.get("transport", ""))
    if kind == "sse":
        raise ConfigError(
            f"{where} uses the old SSE transport, which is not supported", fix="use its Streamable HTTP url"
        )
    if bool(command) == bool(url):
        raise ConfigError(f"{where} needs either a command or a url", fix="give exactly one of them")
    if url and not re.match(r"https?://|\$", url):
        raise ConfigError(f"{where}: url must start with http:// or https://", fix=f"found {url!r}")
    return ServerConfig(
        name=name,
        command=command,
        args=_texts(data, "args", where),
        env=_mapping(data, "env", where),
        url=url,
        headers=_mapping(data, "headers", where),
        cwd=_text(data, "cwd", where),
        scope=scope,
        file=file,
        enabled=_flag(data, "enabled", where, default=True) and not _flag(data, "disabled", where, default=False),
        start_timeout=_seconds(data, "start_timeout", where, 60.0),
        call_timeout=_seconds(data, "call_timeout", where, 120.0),
        max_connections=max(1, int(_seconds(data, "max_connections", where, 8.0))),
        effects=_effects(data, where) if scope == "user" else {},
    )


def _bad(where: str, key: str, must: str) -> ConfigError:
    return ConfigError(f"{where}: {key} must be {must}", fix="correct the entry; see: geode help mcp")


def _text(data: dict[str, Any], key: str, where: str) -> str:
    value = data.get(key, "")
    if not isinstance(value, str) or "\x00" in value:
        raise _bad(where, key, "text")
    return value


def _texts(data: dict[str, Any], key: str, where: str) -> tuple[str, ...]:
    value = data.get(key, [])
    if not isinstance(value, list) or not all(isinstance(v, str) and "\x00" not in v for v in cast(list[Any], value)):
        raise _bad(where, key, "a list of texts")
    return tuple(cast(list[str], value))


def _mapping(data: dict[str, Any], key: str, where: str) -> dict[str, str]:
    value = data.get(key, {})
    if not isinstance(value, dict):
        raise _bad(where, key, "an object of texts")
    for name, text in cast(dict[str, Any], value).items():
        if not isinstance(text, str) or "\x00" in text or ("\n" in text and key == "headers"):
            raise _bad(where, f"{key}.{name}", "one line of text" if key == "headers" else "text")
    return dict(cast(dict[str, str], value))


def _flag(data: dict[str, Any], key: str, where: str, *, default: bool) -> bool:
    value = data.get(key, default)
    if not isinstance(value, bool):
        raise _bad(where, key, "true or false")
    return value


def _seconds(data: dict[str, Any], key: str, where: str, default: float) -> float:
    value = data.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 86_400:
        raise _bad(where, key, "a number above 0 and at most 86400")
    return float(value)


def _effects(data: dict[str, Any], where: str) -> dict[str, frozenset[Effect]]:
    value = data.get("effects", {})
    if not isinstance(value, dict):
        raise _bad(where, "effects", 'an object: tool name or "*" -> list of effects')
    parsed: dict[str, frozenset[Effect]] = {}
    for tool, kinds in cast(dict[str, Any], value).items():
        try:
            parsed[tool] = frozenset(Effect(k) for k in kinds)
        except (TypeError, ValueError) as error:
            raise _bad(where, f"effects.{tool}", f"a list out of {', '.join(Effect)}") from error
    return parsed


def add_server(path: Path, name: str, entry: Mapping[str, Any], *, replace: bool = False) -> ServerConfig:
    """Write one entry, atomically, keeping everything else in the file.

    Args:
        path: from `server_file`.
        entry: raw fields; references such as `${TOKEN}` are written as they are.
        replace: overwrite an entry of that name.

    Raises:
        ConfigError: the entry or the file is not valid, or the name exists; nothing is written.
    """
    scope = "project" if path.name in {"mcp_servers.json", ".mcp.json"} or path.parent.name == ".geode" else "user"
    config = parse_entry(name, dict(entry), scope=scope, file=str(path))

    def change(entries: dict[str, Any]) -> None:
        if name in entries and not replace:
            raise ConfigError(
                f"{path} declares a server {name!r} already", fix="add --replace to take its place, or use another name"
            )
        old = entries.get(name)
        kept = {k: v for k, v in cast(dict[str, Any], old).items() if k not in _FIELDS} if isinstance(old, dict) else {}
        entries[name] = {**kept, **entry}

    files.edit(path, change, private=scope == "user")
    return config


def remove_server(path: Path, name: str) -> bool:
    """Remove one entry, atomically; False when the file has no such server.

    Raises:
        ConfigError: the file cannot be read or written.
    """
    found = False

    def change(entries: dict[str, Any]) -> None:
        nonlocal found
        found = entries.pop(name, None) is not None

    if path.is_file():
        files.edit(path, change, private=os.access(path, os.R_OK) and path.stat().st_mode & 0o077 == 0)
    return found
