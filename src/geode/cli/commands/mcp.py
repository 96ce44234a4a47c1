"""`geode mcp`: the MCP servers Geode stands in front of."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...core.errors import ConfigError, GeodeError, UsageError
from .. import render
from ..invocation import Invocation
from ..parser import CommandParser, add_command, add_group, add_paging

if TYPE_CHECKING:
    from ...mcp.config import Problem, ServerConfig, ServerSet
    from ...mcp.hub import Hub
    from ...tools.registry import ToolRegistry

__all__ = ["configure"]


def configure(parser: CommandParser) -> None:
    """Fill in `geode mcp`."""
    group = add_group(parser)
    add_paging(add_command(group, "list", "declared servers; starts nothing", _list))
    status = add_command(group, "status", "connect the servers and say how they are", _status)
    status.add_argument("name", nargs="?", help="only this server")
    add = add_command(
        group,
        "add",
        "declare a server and learn its tools",
        _add,
        tail="command",
        usage="geode mcp add NAME [options] -- COMMAND ARGS…\n       geode mcp add NAME --url URL [options]",
    )
    add.add_argument("name", help="becomes the prefix of its tools: NAME__tool")
    add.add_argument("--url", metavar="U", help="address of a Streamable HTTP server")
    add.add_argument("--env", "-e", action="append", default=[], metavar="K=V", help="variable of its process; repeat")
    add.add_argument("--header", action="append", default=[], metavar="K=V", help="HTTP header; repeat")
    add.add_argument("--cwd", metavar="DIR", help="its working directory (default: the project)")
    add.add_argument("--scope", choices=("project", "user"), default="project", help="which file (default: project)")
    add.add_argument("--replace", action="store_true", help="take the place of a server of this name")
    add.add_argument("--no-connect", action="store_true", help="only write it down")
    remove = add_command(group, "remove", "forget a server", _remove)
    remove.add_argument("name")
    remove.add_argument("--scope", choices=("project", "user"), help="which file (default: where it is declared)")
    tools = add_command(group, "tools", "what a server offers", _tools)
    tools.add_argument("name")
    add_paging(tools)


# ---------------------------------------------------------------- shared


def _declared(run: Invocation) -> ServerSet:
    from ...mcp.config import load_servers

    return load_servers(run.project, run.home)


@asynccontextmanager
async def _hub(run: Invocation) -> AsyncIterator[tuple[Hub, ToolRegistry]]:
    """A hub with a registry of its own: no database is needed to look at servers."""
    from ...analysis.secrets import environment_redactor
    from ...config.trust import TrustStore
    from ...mcp.hub import Hub
    from ...tools.registry import ToolRegistry

    registry = ToolRegistry()
    hub = Hub(run.settings, TrustStore(run.home), registry, redact=environment_redactor().text)
    async with hub:
        yield hub, registry


def _problems(problems: Sequence[Problem]) -> list[dict[str, str]]:
    return [{"file": p.file, "server": p.server, "message": p.message} for p in problems]


def _tell_problems(problems: Sequence[Mapping[str, str]]) -> None:
    for problem in problems:
        render.note(f"problem: {problem['message']}")


def _unknown(name: str, declared: ServerSet) -> UsageError:
    known = ", ".join(sorted(declared.servers)) or "none"
    return UsageError(f"no MCP server is named {name!r}", fix=f"declared: {known}; see: geode mcp list")


# ---------------------------------------------------------------- list, status


def _list(run: Invocation) -> int:
    declared = _declared(run)
    rows = [_row(run, config) for config in declared.servers.values()]
    page = render.page(rows, run.args.limit, run.args.cursor)
    problems = _problems(declared.problems)

    def people() -> None:
        columns = ["name", "state", "tools", "scope", "target"]
        render.table(columns, [[r[c] for c in columns] for r in page.items], empty="no MCP server is declared")
        if any(r["state"] == "untrusted" for r in page.items):
            render.note("servers of this project are used only after: geode trust")
        _tell_problems(problems)

    document = {"servers": page.items, "count": page.total, "next_cursor": page.next_cursor, "problems": problems}
    run.show(document, people)
    return 0


def _row(run: Invocation, config: ServerConfig) -> dict[str, Any]:
    """A server as it is declared. `tools` is None when it was never connected."""
    from ...mcp import snapshot

    usable = config.scope == "user" or run.trusted
    known = snapshot.load(run.home, config)
    return {
        "name": config.name,
        "state": "off" if not config.enabled else "idle" if usable else "untrusted",
        "scope": config.scope,
        "file": config.file,
        "target": _redacted(config.target),
        "era": known.era if known else None,
        "tools": len(known.tools) if known else None,
    }


def _redacted(text: str) -> str:
    from ...analysis.secrets import environment_redactor

    return environment_redactor().text(text)


def _status(run: Invocation) -> int:
    declared = _declared(run)
    wanted = run.args.name
    if wanted is not None and wanted not in declared.servers:
        raise _unknown(wanted, declared)

    async def look() -> tuple[list[dict[str, Any]], list[dict[str, str]]]:
        async with _hub(run) as (hub, _):
            names = [n for n in declared.servers if wanted in (None, n)]
            await asyncio.gather(*(_try(hub, name) for name in names))
            rows = [row for row in hub.status() if wanted in (None, row["name"])]
            return rows, _problems(hub.problems)

    rows, problems = run.run(look)

    def people() -> None:
        columns = ["name", "state", "era", "tools", "pid", "last_error"]
        render.table(columns, [[r.get(c) for c in columns] for r in rows], empty="no MCP server is declared")
        for row in rows:
            if row["state"] == "failed" and row["stderr_tail"]:
                render.note(f"{row['name']} wrote: {row['stderr_tail']}")
        _tell_problems(problems)

    run.show({"servers": rows, "count": len(rows), "problems": problems}, people)
    return 0


async def _try(hub: Hub, name: str) -> None:
    """Connect; a failure shows in the server's status."""
    with contextlib.suppress(GeodeError):
        await hub.ensure(name)


# ---------------------------------------------------------------- add, remove


def _add(run: Invocation) -> int:
    from ...config.home import ensure_home
    from ...mcp.config import add_server, server_file

    args = run.args
    entry = _entry(args.command, args)
    path = server_file(run.project, run.home, args.scope)
    ensure_home(run.home)
    with _keeping_trust(run, args.scope):
        config = add_server(path, args.name, entry, replace=args.replace)
    document: dict[str, Any] = {"server": args.name, "file": str(path), "scope": args.scope, "tools": None}
    code = 0
    if not args.no_connect:
        try:
            document["tools"] = run.run(lambda: _discover(run, args.name))
        except GeodeError as error:
            document["error"], code = error.to_json(), error.exit_code

    def people() -> None:
        print(f"saved in {path}: {render.plain(_redacted(config.target))}")
        if document["tools"] is not None:
            print(f"{args.name}: {document['tools']} tools, named {args.name}__…; see: geode mcp tools {args.name}")
        if "error" in document:
            render.note(f"geode: {args.name} is saved but cannot be used yet: {document['error']['message']}")
            render.note(f"  fix: {document['error']['fix']}")
            render.note(f"  or take it out again: geode mcp remove {args.name}")

    run.show(document, people)
    return code


async def _discover(run: Invocation, name: str) -> int:
    async with _hub(run) as (hub, _):
        return len((await hub.discover(name)).tools)


def _entry(command: Sequence[str], args: Any) -> dict[str, Any]:
    """The entry to write.

    Raises:
        UsageError: neither or both of command and url, or a malformed or secret value.
    """
    if bool(command) == bool(args.url):
        raise UsageError("give a command or --url, one of them", fix="geode mcp add NAME -- COMMAND ARGS…")
    entry: dict[str, Any] = {"url": args.url} if args.url else {"command": command[0], "args": list(command[1:])}
    env, headers = _pairs(args.env, "--env"), _pairs(args.header, "--header")
    if env and args.url:
        raise UsageError("--env is for a server that is a process", fix="use --header for a url")
    if headers and not args.url:
        raise UsageError("--header is for a server with --url", fix="use --env for a process")
    entry |= {key: value for key, value in (("env", env), ("headers", headers), ("cwd", args.cwd)) if value}
    _refuse_secrets(entry)
    return entry


def _pairs(items: Sequence[str], option: str) -> dict[str, str]:
    """`K=V` pairs; `K` alone means the variable of that name, by reference."""
    found: dict[str, str] = {}
    for item in items:
        key, mark, value = item.partition("=")
        if not key.strip() or (not mark and option == "--header"):
            raise UsageError(f"{option} {item!r} is not K=V", fix=f"for example: {option} NAME=VALUE")
        found[key.strip()] = value if mark else f"${{{key.strip()}}}"
    return found


def _refuse_secrets(entry: Mapping[str, Any]) -> None:
    """A secret must not get into a file; a reference to a variable may (requirement E8)."""
    from ...analysis.secrets import environment_redactor

    redactor = environment_redactor()
    named = {**entry.get("env", {}), **entry.get("headers", {})}
    for key, value in named.items():
        if "${" not in value and redactor.json({key: value}) != {key: value}:
            variable = key.upper().replace("-", "_")
            raise UsageError(
                f"the value of {key} looks like a secret, and secrets are not written to the file",
                fix=f"put it into the environment and refer to it: '{key}=${{{variable}}}'",
            )
    for text in (entry.get("url", ""), *entry.get("args", [])):
        if "${" not in text and redactor.text(text) != text:
            raise UsageError(
                "an argument or the url holds a secret, and secrets are not written to the file",
                fix="put it into the environment and refer to it: '${NAME}'",
            )


@contextlib.contextmanager
def _keeping_trust(run: Invocation, scope: str) -> Any:
    """What the person adds or removes by a command of their own is trusted; the rest stays as it was.

    A project that was not trusted before does not become so: it may hold more than this change.
    """
    from ...config.trust import TrustStore

    store = TrustStore(run.home)
    before = store.state(run.project).state
    yield
    if scope != "project":
        return
    if before in {"nothing", "trusted"}:
        if store.state(run.project).state != "nothing":
            store.trust(run.project)
    else:
        render.note("this project is not trusted, so its servers are not used yet; look at them, then: geode trust")


def _remove(run: Invocation) -> int:
    from ...mcp import snapshot
    from ...mcp.config import remove_server, server_file

    name = run.args.name
    declared = _declared(run)
    config = declared.servers.get(name)
    if run.args.scope is not None:
        path = server_file(run.project, run.home, run.args.scope)
        scope = run.args.scope
    elif config is not None:
        path, scope = Path(config.file), config.scope
    else:
        raise _unknown(name, declared)
    with _keeping_trust(run, scope):
        if not remove_server(path, name):
            raise ConfigError(f"{path} declares no server {name!r}", fix="see: geode mcp list")
    if config is not None:
        with contextlib.suppress(OSError):  # only a cache
            snapshot.forget(run.home, config)
    run.show({"server": name, "removed": True, "file": str(path)}, lambda: print(f"removed from {path}"))
    return 0


# ---------------------------------------------------------------- tools


def _tools(run: Invocation) -> int:
    declared = _declared(run)
    name = run.args.name
    if name not in declared.servers:
        raise _unknown(name, declared)

    async def look() -> tuple[list[dict[str, Any]], list[dict[str, str]]]:
        async with _hub(run) as (hub, registry):
            if hub.snapshot(name) is None:
                await hub.discover(name)
            else:
                await _refuse_unusable(hub, name)
            rows = [
                {
                    "name": e.name,
                    "original_name": e.spec.original_name,
                    "status": e.status,
                    "reason": e.reason,
                    "description": e.spec.description,
                }
                for e in registry.entries()
            ]
            return rows, _problems([p for p in hub.problems if p.server == name])

    rows, problems = run.run(look)
    rows = [r for r in rows if r["name"].startswith(f"{name}__")]
    page = render.page(rows, run.args.limit, run.args.cursor)

    def people() -> None:
        shown = [[r["name"], r["status"], r["reason"] or _first_line(r["description"])] for r in page.items]
        render.table(["tool", "status", "description"], shown, empty=f"{name} offers no tools")
        _tell_problems(problems)

    document = {"server": name, "tools": page.items, "count": page.total, "next_cursor": page.next_cursor}
    run.show({**document, "problems": problems}, people)
    return 0


async def _refuse_unusable(hub: Hub, name: str) -> None:
    """Say why a server that is off or not trusted offers nothing."""
    state = next((row["state"] for row in hub.status() if row["name"] == name), "")
    if state in {"off", "untrusted"}:
        await hub.ensure(name)


def _first_line(text: str) -> str:
    return text.strip().split("\n", 1)[0][:160]
