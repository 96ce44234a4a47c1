"""What all bindings of declared tools share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol, cast

from ...core.effects import Effect
from ...core.errors import ConfigError, Missing, ToolFailed, ToolTimeout
from ...core.ports import Captured, Limits, ProcessOutcome, ProcessRunner, ProcessSpec
from ..tool import ToolContext, ToolOutput, ToolSpec, Touch

__all__ = [
    "MAX_RESULT",
    "Arguments",
    "Binding",
    "NamedVariables",
    "Run",
    "all_used",
    "check_time",
    "declared_touches",
    "only_keys",
    "process",
    "properties_of",
    "runner_of",
    "texts_of",
    "whole",
]

Arguments = Mapping[str, Any]
Run = Callable[[ToolContext, Arguments], Awaitable[ToolOutput]]
MAX_RESULT = 16 * 1024 * 1024
"""Bytes of a result that are read back to be parsed."""


class Binding(Protocol):
    """One way to run a declared tool."""

    @property
    def effects(self) -> frozenset[Effect] | None: ...

    def touches(self, arguments: Arguments) -> list[Touch]: ...

    def view(self, arguments: Arguments) -> str: ...

    def runner(self, spec: ToolSpec) -> Run: ...


def properties_of(parameters: Mapping[str, Any]) -> set[str]:
    return set(cast("dict[str, Any]", parameters.get("properties", {})))


def all_used(parameters: Mapping[str, Any], used: frozenset[str], where: str) -> None:
    unused = sorted(properties_of(parameters) - used)
    if unused:
        raise ConfigError(f"parameter {unused[0]!r} is used nowhere in {where}", fix="use it, or remove it")


_PLACE = {Effect.READ: "path", Effect.WRITE: "path", Effect.DELETE: "path"}


def declared_touches(effects: frozenset[Effect] | None, *, but: frozenset[Effect] = frozenset()) -> list[Touch]:
    """Declared effects without a named target; an undeclared one is unknown, and unknown asks."""
    if effects is None:
        return [Touch(Effect.EXECUTE, "effects not declared", kind="unknown")]
    return [Touch(e, "." if e in _PLACE else e.value, kind=_PLACE.get(e, "unknown")) for e in sorted(effects - but)]


def process(
    context: ToolContext, spec: ToolSpec, argv: Sequence[str], *, stdin: bytes | None, env: Mapping[str, str]
) -> ProcessSpec:
    effects = spec.effects or frozenset[Effect]()
    root = context.workspace.root
    return ProcessSpec(
        argv=tuple(argv),
        cwd=root,
        env=env,
        stdin=stdin,
        writable=(root,) if effects & {Effect.WRITE, Effect.DELETE} else (),
        network=Effect.NETWORK in effects,
        limits=Limits(seconds=spec.timeout),
    )


def runner_of(context: ToolContext, spec: ToolSpec) -> ProcessRunner:
    if context.runner is None:
        raise Missing(
            f"{spec.name} runs in the sandbox, and there is none here", fix="geode doctor says how to get one"
        )
    return context.runner


def check_time(outcome: ProcessOutcome, spec: ToolSpec) -> None:
    if outcome.stopped == "timeout":
        raise ToolTimeout(
            f"{spec.name} was stopped after {spec.timeout:g} s", fix="ask for less, or raise its `timeout`"
        )


def whole(captured: Captured) -> str:
    """Everything that was written, from the spool when `text` shows only a part."""
    if captured.spool is None:
        return captured.text
    with captured.spool.open("rb") as file:
        data = file.read(MAX_RESULT + 1)
    if len(data) > MAX_RESULT:
        raise ToolFailed(f"the result is larger than {MAX_RESULT} bytes")
    return data.decode("utf-8", "replace")


def only_keys(given: Mapping[str, Any], keys: Sequence[str], where: str) -> None:
    unknown = [k for k in given if k not in keys]
    if unknown:
        raise ConfigError(f"unknown key {unknown[0]!r} in {where!r}", fix=f"known: {', '.join(keys)}")


def texts_of(value: Any, where: str) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(v, str) for v in cast("dict[str, Any]", value).values()):
        raise ConfigError(f"{where!r} must be an object of texts")
    return cast("dict[str, str]", value)


class NamedVariables(dict[str, str]):
    """Stands in for the environment where values must not be shown."""

    def get(self, key: str, default: Any = None) -> str:  # pyright: ignore[reportIncompatibleMethodOverride]
        return f"${{{key}}}"
