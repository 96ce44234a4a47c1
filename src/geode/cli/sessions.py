"""The stored conversations of a project, and which one `--resume` means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..core.errors import UsageError

if TYPE_CHECKING:
    from ..runtime import GeodeRuntime
    from ..store.transcripts import SessionInfo

__all__ = ["LAST", "find_session", "first_words", "sessions_here"]

LAST = "last"


async def sessions_here(runtime: GeodeRuntime, *, limit: int = 20) -> list[SessionInfo]:
    """The conversations of this project, the one used last first."""
    from ..runtime import session_prefix

    mark = session_prefix(runtime.settings.project)
    return [s for s in await runtime.transcripts.sessions(limit=1000) if s.session.startswith(mark)][:limit]


async def first_words(runtime: GeodeRuntime, sessions: Sequence[str]) -> dict[str, str]:
    """What each of these conversations began with, on one line."""
    found = await runtime.transcripts.beginnings(sessions)
    return {session: _said(entry) for session, entry in found.items()}


def _said(entry: Mapping[str, Any]) -> str:
    from ..agent.marks import spoken
    from ..core.messages import Message

    try:
        said = spoken(Message.from_json(entry["message"]))
    except (KeyError, TypeError, ValueError, AttributeError):
        return ""
    return " ".join(" ".join(said).split())


async def find_session(runtime: GeodeRuntime, wanted: str) -> str:
    """The id of the session that `wanted` names: "last", its id, or the end of its id.

    Raises:
        UsageError: there is none, or several.
    """
    here = await sessions_here(runtime, limit=1000)
    if wanted == LAST:
        if not here:
            raise UsageError("there is no session of this project yet", fix='begin one: geode run "what to do"')
        return here[0].session
    found = [s.session for s in here if s.session.endswith(wanted)] if len(wanted) >= 4 else []
    if len(found) == 1:
        return found[0]
    if await runtime.transcripts.load(wanted):
        return wanted  # of another project, or made by a program
    last = f"the last one here is {here[0].session}" if here else "there is none of this project yet"
    raise UsageError(f"there is no session {wanted!r}" if not found else f"{wanted!r} fits several sessions", fix=last)
