"""What a call does to the world, and where.

A tool declares the kinds of effect it can have; the gate resolves them, for one call,
to impacts: a kind, a target (path, host, command) and the scope the target lies in.
Undeclared effects are not "none": they are unknown, and unknown asks.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

__all__ = ["Effect", "Impact", "Origin", "Scope", "only_reads"]


class Effect(StrEnum):
    """Kinds of effect, closed."""

    READ = "read"
    WRITE = "write"
    DELETE = "delete"
    EXECUTE = "execute"
    PRIVILEGE = "privilege"
    NETWORK = "network"
    SPEND = "spend"
    COMMUNICATE = "communicate"
    SPAWN = "spawn"
    CONFIGURE = "configure"


class Scope(StrEnum):
    """Where a target lies. `UNKNOWN` is treated as the widest of all."""

    WORKSPACE = "workspace"
    """Inside the project directory the call runs in."""
    PROTECTED = "protected"
    """Inside the workspace, but steering it: `.git`, `.geode`, `.claude`, MCP files, hooks."""
    TEMP = "temp"
    SANDBOX = "sandbox"
    """Runs or stays inside the OS sandbox, without network."""
    HOME = "home"
    """The person's home outside the workspace."""
    SECRET = "secret"
    """Keys, tokens, credential files, wherever they lie."""
    SYSTEM = "system"
    """The machine outside home, workspace and temp; devices too."""
    GEODE = "geode"
    """Geode's own data and settings."""
    LOOPBACK = "loopback"
    PRIVATE_NET = "private_net"
    INTERNET = "internet"
    SERVICE = "service"
    """Behind an MCP server or another outside system."""
    UNKNOWN = "unknown"


class Origin(StrEnum):
    """Who makes a call."""

    USER = "user"
    MODEL = "model"
    SUB_AGENT = "sub_agent"
    GATEWAY = "gateway"
    CLI = "cli"
    LIBRARY = "library"
    SCRIPT = "script"
    TIMER = "timer"
    CHANNEL = "channel"
    HOOK = "hook"


@dataclass(frozen=True, slots=True)
class Impact:
    """One effect of one call on one target.

    Attributes:
        kind: the effect.
        target: a resolved path, a host, a program or a free description.
        scope: where the target lies.
    """

    kind: Effect
    target: str
    scope: Scope

    def to_json(self) -> dict[str, str]:
        """`{"kind", "target", "scope"}` of the command contract."""
        return {"kind": self.kind.value, "target": self.target, "scope": self.scope.value}


def only_reads(impacts: Iterable[Impact]) -> bool:
    """True when nothing in the world is changed by a call with these impacts: it reads, or runs what only reads."""
    return all(i.kind is Effect.READ or (i.kind is Effect.EXECUTE and i.scope is Scope.SANDBOX) for i in impacts)
