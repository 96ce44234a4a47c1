"""`geode trust`: use the servers, declared tools and rules that a project brings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ...core.errors import UsageError
from .. import render
from ..invocation import Invocation
from ..parser import CommandParser

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
    parser.set_defaults(run=_trust)


def _trust(run: Invocation) -> int:
    from ...config.home import ensure_home
    from ...config.trust import TrustStore

    project = _project(run)
    if run.args.show:
        store = TrustStore(run.home)
    else:
        store = TrustStore(ensure_home(run.home))
        if run.args.revoke:
            store.revoke(project)
        else:
            store.trust(project)
    state = store.state(project)
    document: dict[str, Any] = {
        "project": str(project),
        "state": state.state,
        "files": [str(name) for name in state.files],
        "digest": state.digest,
    }

    def people() -> None:
        print(f"{state.state}: {_MEANING.get(state.state, '')}")
        print(f"  project {project}")
        for name in document["files"]:
            print(f"  file    {render.plain(name)}")

    run.show(document, people)
    return 0


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
