"""Puts the gateway in front of a runtime and serves until the client leaves or a signal comes."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from ..core.call import Decision
from ..core.effects import Origin
from ..gateway.parts import GatewayParts
from . import render

if TYPE_CHECKING:
    from ..runtime import GeodeRuntime
    from .invocation import Invocation

__all__ = ["parts_of", "serve_forever"]


async def serve_forever(
    run: Invocation, *, expose: Literal["direct", "search"], address: tuple[str, int] | None, requested: frozenset[str]
) -> None:
    """Serve on stdin and stdout, or on an HTTP address.

    Args:
        run: where and in which mode.
        expose: every tool, or search, inspect and call only.
        address: host and port; None for stdin and stdout.
        requested: tools the person asked for explicitly (`--allow`).
    """
    async with run.runtime(ask=False) as runtime:
        run.note_unknown(sorted(requested), runtime.registry.names())
        parts = parts_of(runtime, requested)
        if address is None:
            from ..gateway.stdio import serve_stdio

            await serve_stdio(parts, expose)
        else:
            from ..gateway.http import serve_http

            await serve_http(parts, *address, expose=expose, ready=_announce, stop=_stop_on_sigterm())


def _stop_on_sigterm() -> asyncio.Event:
    """An event that SIGTERM sets: the server then finishes what it is doing and ends by itself."""
    stop = asyncio.Event()
    with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):  # Windows, or another thread
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    return stop


def _announce(where: str) -> None:
    render.note(f"geode serves at {where} (Ctrl-C ends it)")


def parts_of(runtime: GeodeRuntime, requested: frozenset[str] = frozenset()) -> GatewayParts:
    """What the gateway needs of a runtime."""
    settings = runtime.settings
    wanted = settings.allow | requested
    return GatewayParts(
        registry=runtime.registry,
        caller=runtime.gate,
        cwd=settings.project,
        mode=settings.mode,
        requested=wanted,
        hub=runtime.hub,
        approvals=runtime.approvals,
        subscribe=runtime.subscribe,
        visible=_visible(runtime, wanted),
        redact=runtime.redactor.json,
        skills=runtime.skills,
    )


def _visible(runtime: GeodeRuntime, requested: frozenset[str]) -> Callable[[str], bool]:
    """A tool that policy denies by name is not listed; calling it is denied all the same."""
    from ..policy.engine import Question

    def may_use(name: str) -> bool:
        question = Question(tool=name, mode=runtime.settings.mode, origin=Origin.GATEWAY, requested=requested)
        return runtime.policy.evaluate(question).decision is not Decision.DENY

    return may_use
