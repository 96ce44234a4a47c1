"""`geode trust`: use the servers, declared tools and rules that a project brings."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...core.errors import UsageError
from .. import render
from ..brought import Brought, brought_along
from ..invocation import Invocation
from ..parser import CommandParser
from ..terminal import on_terminal

if TYPE_CHECKING:
    from ...config.trust import TrustState

__all__ = ["configure"]

_MEANING = {
    "nothing": "the project brings nothing that needs trust",
    "untrusted": "its servers and tools are not used until you trust it",
    "trusted": "its servers, tools and rules are used as they are now; a change asks again",
    "changed": "it is not what was trusted: its servers and tools are not used",
}


def configure(parser: CommandParser) -> None:
    """Fill in `geode trust`."""
    parser.add_argument("dir", nargs="?", metavar="DIR", help="the project (default: --project or here)")
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--show", action="store_true", help="only show what it brings and whether it is trusted")
    choice.add_argument("--revoke", action="store_true", help="trust it no longer")
    choice.add_argument(
        "--yes", "-y", action="store_true", help="do not ask at the terminal (without one, nobody is asked)"
    )
    parser.set_defaults(run=_trust)


def _trust(run: Invocation) -> int:
    from ...config.home import ensure_home
    from ...config.trust import TrustStore

    project = _project(run)
    store = TrustStore(run.home if run.args.show else ensure_home(run.home))
    state = store.state(project)
    brought = brought_along(project, run.home, state.files)
    if run.args.revoke:
        store.revoke(project)
    elif not run.args.show and state.state in {"untrusted", "changed"}:
        if on_terminal() and not run.args.yes and not _said_yes(state, brought):
            render.note("not trusted: nothing was changed")
            return 1
        store.trust(project, digest=state.digest)  # exactly what was shown
    state = store.state(project)
    document: dict[str, Any] = {
        "project": str(project),
        "state": state.state,
        "files": [str(name) for name in state.files],
        "digest": state.digest,
        "brings": [item.to_json() for item in brought],
    }

    def people() -> None:
        print(f"{state.state}: {_MEANING.get(state.state, '')}")
        print(f"  project {project}")
        for item in brought:
            print(_line(item))
        for name in document["files"]:
            print(f"  file    {render.plain(name)}{' (changed)' if name in state.changed else ''}")

    run.show(document, people)
    return 0


def _line(item: Brought) -> str:
    return f"  {item.kind:8}{render.visible(item.name)}: {render.visible(item.detail)}"


def _said_yes(state: TrustState, brought: Sequence[Brought]) -> bool:
    """Show what it brings on stderr and take an answer; anything but yes is no."""
    print(f"{state.state}: {_MEANING[state.state]}. It brings:", file=sys.stderr)
    for item in brought:
        print(_line(item), file=sys.stderr)
    for name in state.files:
        print(f"  file    {render.visible(name)}{' (changed)' if name in state.changed else ''}", file=sys.stderr)
    print("Trust it? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


def _project(run: Invocation) -> Path:
    given = run.args.dir
    if given is None:
        return run.project
    try:
        path = Path(given).expanduser().resolve(strict=True)
    except (OSError, RuntimeError, ValueError):
        raise UsageError(f"{given!r} does not exist or cannot be read", fix="geode trust DIR") from None
    if not path.is_dir():
        raise UsageError(f"{given!r} is not a directory", fix="geode trust DIR")
    return path
