"""`Call`: the one form in which anybody asks for a tool; `Verdict`: what was decided about it."""

from __future__ import annotations

import hashlib
import json
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from .effects import Impact, Origin

__all__ = ["Budget", "Call", "Decision", "TraceStep", "Verdict", "canonical_json", "new_id"]

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"


def new_id(prefix: str) -> str:
    """A sortable identifier: prefix, 9 characters of milliseconds, 12 random ones (60 bits)."""
    stamp = int(time.time() * 1000)
    chars: list[str] = []
    for _ in range(9):
        stamp, digit = divmod(stamp, 32)
        chars.append(_ALPHABET[digit])
    tail = "".join(_ALPHABET[b & 31] for b in secrets.token_bytes(12))
    return f"{prefix}_{''.join(reversed(chars))}{tail}"


def canonical_json(value: Any) -> str:
    """JSON with sorted keys and no blanks: equal values give equal text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=str)


class Decision(StrEnum):
    """Allow, ask or deny; the order of strictness is `allow < ask < deny`."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"

    @property
    def rank(self) -> int:
        return _RANK[self]


_RANK = {Decision.ALLOW: 0, Decision.ASK: 1, Decision.DENY: 2}


@dataclass(frozen=True, slots=True)
class TraceStep:
    """What one policy said and why."""

    policy: str
    verdict: Decision
    reason: str

    def to_json(self) -> dict[str, str]:
        return {"policy": self.policy, "verdict": self.verdict.value, "reason": self.reason}


@dataclass(frozen=True, slots=True)
class Verdict:
    """The strictest of all policies that looked at a call, with the trace that explains it.

    Attributes:
        decision: allow, ask or deny.
        trace: every policy that had a say, in the order of evaluation.
        impacts: the resolved effects the decision rests on.
        advice: what would be allowed instead; shown to the model with a denial.
    """

    decision: Decision
    trace: tuple[TraceStep, ...] = ()
    impacts: tuple[Impact, ...] = ()
    advice: str = ""

    @property
    def blocking_policies(self) -> list[str]:
        """Names of the policies that deny, in order, each once."""
        return list(dict.fromkeys(s.policy for s in self.trace if s.verdict is Decision.DENY))

    @property
    def reason(self) -> str:
        """The reasons of the steps that made this decision."""
        return "; ".join(dict.fromkeys(s.reason for s in self.trace if s.verdict is self.decision and s.reason))

    def to_json(self) -> dict[str, Any]:
        """The `policy check` document: verdict, blocking_policies, trace, effects."""
        return {
            "verdict": self.decision.value,
            "blocking_policies": self.blocking_policies,
            "trace": [s.to_json() for s in self.trace],
            "effects": [i.to_json() for i in self.impacts],
            "reason": self.reason,
            "advice": self.advice,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What a call, with everything it starts, may use; None means no limit of its own.

    Attributes:
        tokens: model tokens.
        money: US dollars.
        seconds: wall time.
        calls: tool calls.
        depth: levels of sub-agents below.
    """

    tokens: int | None = None
    money: float | None = None
    seconds: float | None = None
    calls: int | None = None
    depth: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request to run one tool. Immutable: what was decided on is what runs.

    Attributes:
        tool: the registered name, as the caller gave it.
        arguments: JSON values by parameter name.
        origin: which kind of front makes the call.
        principal: on whose behalf (a user or client name).
        session: the conversation, gateway session or command run it belongs to.
        parent: id of the call that made this one, when a tool calls a tool.
        mode: policy mode; an unknown mode is denied.
        node: pipeline node the caller acts as, or None; an unknown node is denied.
        cwd: workspace root, absolute.
        deadline: `time.monotonic()` value after which it must not run on, or None.
        budget: limits on what it may use.
        intent: the user's goal in their words; judges see it, policies do not.
        taint: labels of untrusted content the caller has seen (for example a server's name).
        idempotency_key: a second call with the same key returns the first result.
        requested: tools the person asked for explicitly in this session (`--allow`).
        id: unique, sortable.
    """

    tool: str
    arguments: Mapping[str, Any]
    origin: Origin
    cwd: Path
    principal: str = "local"
    session: str = ""
    parent: str | None = None
    mode: str = "default"
    node: str | None = None
    deadline: float | None = None
    budget: Budget = Budget()
    intent: str = ""
    taint: frozenset[str] = frozenset()
    idempotency_key: str | None = None
    requested: frozenset[str] = frozenset()
    id: str = field(default_factory=lambda: new_id("call"))

    def digest(self, definition_digest: str = "") -> str:
        """SHA-256 of exactly what would run: an approval is bound to this and nothing else.

        Args:
            definition_digest: digest of the tool's definition, so that a changed tool asks again.
        """
        what = [self.tool, self.arguments, str(self.cwd), self.principal, self.mode, self.node, definition_digest]
        return hashlib.sha256(canonical_json(what).encode("utf-8", "surrogatepass")).hexdigest()
