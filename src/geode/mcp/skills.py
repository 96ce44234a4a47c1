"""Skills that servers offer (extension `io.modelcontextprotocol/skills`): listed, fetched when read, verified.

    connect ──> skills/list ──> snapshot ──> offers (names, descriptions, digests; nothing is fetched)
    read    ──> cache, else resources/read ──> size, digest, front matter ──> cache ──> reader

What does not match its entry is never used: the entry is read again, and when it still says the
same the skill is quarantined until the server describes it anew. Which version was read is
remembered, so that another one under the same name asks first. Digests show that entry and
content agree, not that a server deserves trust.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import re
import shutil
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ..config.home import locked, private_folder, read_bounded, write_private
from ..core.errors import ConfigError, ServerUnavailable, StoreError
from ..core.messages import clean_json
from ..skills.document import SkillDefinition
from ..skills.files import read_beneath
from ..skills.findings import Finding, SkillInvalid
from ..skills.manifest import EXTENSION, INDEX, RemoteSkill, listed_skill, parse_entry, verified, verified_skill
from ..skills.offers import Offer
from . import snapshot as snapshots
from .config import ServerConfig, load_servers
from .snapshot import Snapshot

if TYPE_CHECKING:
    from .connection import Connection
    from .server_task import ServerTask

__all__ = ["ServerSkills", "known_skills", "list_skills"]

_MAX_SKILLS = 200
_MAX_PAGES = 50
_MAX_LISTED = 4 * 1024 * 1024
"""Skills, pages and bytes of one server's list; what is beyond is left out, visibly."""
_MARKDOWN = "SKILL.md"
_ALIAS = re.compile(r"[\w.~/-]{1,120}")


# ---------------------------------------------------------------- listing


async def list_skills(connection: Connection, *, seconds: float) -> tuple[tuple[dict[str, Any], ...], str]:
    """The entries a server publishes, as it wrote them, and what keeps the list from being whole, or "".

    A server of the older era has no methods of the extension; there the index is read as a resource.

    Args:
        seconds: for all of it. A server that fails here still has its tools.
    """
    from mcp.shared.exceptions import MCPError

    capabilities = connection.session.server_capabilities
    if capabilities is None:
        return (), ""
    found: list[dict[str, Any]] = []
    try:
        async with asyncio.timeout(seconds):
            if connection.modern:
                problem = await _pages(connection, found) if EXTENSION in (capabilities.extensions or {}) else ""
            else:
                problem = await _index(connection, found) if capabilities.resources is not None else ""
    except TimeoutError:
        problem = f"its skills were not listed within {seconds:g} s"
    except MCPError as error:
        problem = f"its skills could not be listed: {error.message}"
    return tuple(found), problem


async def _pages(connection: Connection, found: list[dict[str, Any]]) -> str:
    cursor: str | None = None
    seen: set[str] = set()
    for _ in range(_MAX_PAGES):
        page = await connection.request("skills/list", {} if cursor is None else {"cursor": cursor})
        if problem := _take(page.get("skills"), found):
            return problem
        cursor = page.get("nextCursor")
        if not isinstance(cursor, str):
            return ""
        if cursor in seen:
            return "its list of skills never ends (its pages repeat)"
        seen.add(cursor)
    return f"its list of skills has more than {_MAX_PAGES} pages; the rest is left out"


async def _index(connection: Connection, found: list[dict[str, Any]]) -> str:
    from mcp.shared.exceptions import MCPError

    try:
        data = await _resource(connection, INDEX)
    except (MCPError, ValueError):
        return ""  # it has resources, and no such one
    try:
        index: Any = json.loads(data)
    except (ValueError, RecursionError):
        return f"its {INDEX} is not JSON"
    return _take(cast("dict[str, Any]", index).get("skills") if isinstance(index, dict) else None, found)


def _take(items: Any, found: list[dict[str, Any]]) -> str:
    """Add the entries of one page; says why when the limit is reached."""
    if not isinstance(items, list):
        return "its list of skills holds no skills"
    for item in cast("list[Any]", items):
        if isinstance(item, dict):
            found.append(cast("dict[str, Any]", clean_json(item)))
    if len(found) > _MAX_SKILLS:
        more = len(found) - _MAX_SKILLS
        del found[_MAX_SKILLS:]
        return f"it offers more than {_MAX_SKILLS} skills; at least {more} are left out"
    size = 0
    for count, entry in enumerate(found):
        size += len(json.dumps(entry))
        if size > _MAX_LISTED:
            del found[count:]
            return f"its list of skills is larger than {_MAX_LISTED:,} bytes; the rest is left out"
    return ""


async def _resource(connection: Connection, uri: str, *, timeout: float | None = None) -> bytes:
    """The bytes of one resource.

    Raises:
        MCPError: the server refuses.
        ValueError: the answer holds no content.
    """
    from mcp.shared.inbound import MCP_NAME_HEADER, encode_header_value

    headers = {MCP_NAME_HEADER: encode_header_value(uri)} if connection.modern else {}
    result = await connection.request("resources/read", {"uri": uri}, timeout=timeout, headers=headers)
    contents = result.get("contents")
    items = [c for c in cast("list[Any]", contents) if isinstance(c, dict)] if isinstance(contents, list) else []
    item = next((c for c in items if c.get("uri") == uri), items[0] if len(items) == 1 else None)
    if item is not None and isinstance(item.get("text"), str):
        return item["text"].encode("utf-8", "replace")
    if item is not None and isinstance(item.get("blob"), str):
        return base64.b64decode(item["blob"], validate=True)
    raise ValueError(f"{uri} has no content")


# ---------------------------------------------------------------- what is offered


@dataclass(frozen=True, slots=True)
class _Server:
    """One server's skills as they are known now."""

    config: ServerConfig
    raw: tuple[dict[str, Any], ...]
    usable: str
    folder: Path
    remotes: Mapping[str, RemoteSkill] = field(default_factory=dict[str, RemoteSkill])
    """By label; those that can be read."""
    offers: tuple[Offer, ...] = ()


@dataclass(frozen=True, slots=True)
class _Memory:
    """What is remembered of a server's skills, by URI: the version that was read, and versions never to use."""

    used: Mapping[str, str]
    refused: Mapping[str, Mapping[str, str]]

    @classmethod
    def load(cls, folder: Path) -> _Memory:
        try:
            data = json.loads(read_bounded(folder / "state.json") or b"{}")
            used, refused = dict(data.get("used", {})), dict(data.get("refused", {}))
        except (ConfigError, ValueError, TypeError, AttributeError, RecursionError):
            return cls({}, {})  # a cache: lost, nothing was read before and every file is verified again
        return cls(used, {uri: dict(mark) for uri, mark in refused.items() if isinstance(mark, dict)})


class ServerSkills:
    """The skills of all servers. Satisfies `skills.offers.SkillSource`.

    Args:
        home: Geode's home; verified files are kept below its `cache/mcp`.
        connect: a ready connection to a server by name; None: nothing can be fetched here.
    """

    def __init__(self, home: Path, connect: Callable[[str], Awaitable[ServerTask]] | None = None) -> None:
        self._home, self._connect = home, connect
        self._servers: dict[str, _Server] = {}
        self._offers: tuple[Offer, ...] = ()
        self._lock = threading.Lock()

    def offers(self) -> tuple[Offer, ...]:
        return self._offers

    def show(self, config: ServerConfig, snapshot: Snapshot | None, usable: str) -> None:
        """Take what a server offers; `usable` says why it may not be used, or ""."""
        raw = snapshot.skills if snapshot is not None else ()
        folder = snapshots.skills_folder(self._home, config)
        self._put(_built(_Server(config, raw, usable, folder)))

    def drop(self, name: str) -> None:
        """A server is gone."""
        with self._lock:
            self._servers = {n: s for n, s in self._servers.items() if n != name}
            self._collect()

    def _put(self, server: _Server) -> None:
        with self._lock:
            self._servers = {**self._servers, server.config.name: server}
            self._collect()

    def _collect(self) -> None:
        offers = tuple(o for name in sorted(self._servers) for o in self._servers[name].offers)
        if offers != self._offers:
            self._offers = offers

    # ------------------------------------------------------------ reading

    async def obtain(self, skill: SkillDefinition, files: Iterable[str]) -> SkillDefinition:
        server, remote = self._find(skill)
        place = _place(server, remote)
        wanted = dict.fromkeys((_MARKDOWN, *files))
        uris = {name: remote.resolve(name) for name in wanted}
        missing = await asyncio.to_thread(_missing, remote, place, uris)
        if missing:
            await self._fetch(skill, server, remote, place, {name: uris[name] for name in missing})
        found = verified_skill(remote, await asyncio.to_thread(read_beneath, place, _MARKDOWN))
        await asyncio.to_thread(_remember, server, remote, place)
        self._rebuild(server.config.name)
        return found.model_copy(update={"folder": str(place)})

    def _find(self, skill: SkillDefinition) -> tuple[_Server, RemoteSkill]:
        """The skill exactly as it was offered.

        Raises:
            SkillInvalid: it is offered no more, or in another version.
        """
        server = self._servers.get(skill.server)
        remote = server.remotes.get(skill.name) if server is not None else None
        if server is None or remote is None:
            raise SkillInvalid(f"{skill.name} is not offered any more", fix="see: geode skills list")
        if remote.digest != skill.digest:
            what = f"{skill.name} has changed on its server"
            raise SkillInvalid(what, fix=f"read it again as it is now: skill_read(name={skill.name!r})")
        return server, remote

    async def _fetch(
        self, skill: SkillDefinition, server: _Server, remote: RemoteSkill, place: Path, uris: Mapping[str, str]
    ) -> None:
        if self._connect is None:
            raise ServerUnavailable(f"{skill.name} was not fetched yet", fix="let it be read in a conversation first")
        task = await self._connect(server.config.name)
        self._find(skill)  # connecting may have told that it changed
        task.calls += 1
        try:
            for name, uri in uris.items():
                data = await self._read(task, remote, uri)
                if name == _MARKDOWN:
                    verified_skill(remote, data)
                await asyncio.to_thread(_keep, place, name, verified(remote, uri, data))
        except SkillInvalid as wrong:
            await self._look_again(task, skill, server, remote, wrong)
            raise
        finally:
            task.calls -= 1
            task.last_used = time.monotonic()

    async def _read(self, task: ServerTask, remote: RemoteSkill, uri: str) -> bytes:
        from mcp.shared.exceptions import MCPError

        try:
            return await _resource(await task.ready(), uri, timeout=task.config.call_timeout)
        except MCPError as error:
            what = f"MCP server {remote.server!r} did not give {uri}: {task.redacted(error.message)}"
            raise ServerUnavailable(what, fix=f"see: geode mcp status {remote.server}") from error
        except ValueError as error:
            raise SkillInvalid(f"{remote.label}: {error}") from error

    async def _look_again(
        self, task: ServerTask, skill: SkillDefinition, server: _Server, remote: RemoteSkill, wrong: SkillInvalid
    ) -> None:
        """After a failed verification: a skill that changed meanwhile is new, one that did not is quarantined.

        Raises:
            SkillInvalid: it changed or is offered no more; says so.
        """
        from mcp.shared.exceptions import MCPError

        try:
            await task.list_again()
        except (MCPError, ServerUnavailable) as error:
            raise wrong from error  # nobody can say which of both it is: not used, and asked again next time
        self._find(skill)
        await asyncio.to_thread(_quarantine, server, remote, wrong.message)
        self._rebuild(server.config.name)

    def _rebuild(self, name: str) -> None:
        server = self._servers.get(name)
        if server is not None:
            self._put(_built(server))


def known_skills(project: Path, home: Path, *, trusted: bool) -> ServerSkills:
    """What the servers of a project offered when they were last connected; starts nothing, fetches nothing."""
    found = ServerSkills(home)
    for config in load_servers(project, home).servers.values():
        found.show(config, snapshots.load(home, config), config.barred(trusted=trusted))
    return found


# ---------------------------------------------------------------- entries -> offers


def _built(server: _Server) -> _Server:
    """The server with offers for its entries; one that is switched off offers nothing."""
    if server.usable == "off":
        return replace(server, remotes={}, offers=())
    name = server.config.name
    remotes: list[RemoteSkill] = []
    bad: list[Offer] = []
    for entry in server.raw:
        try:
            remote = parse_entry(name, entry)
            if any(other.uri == remote.uri for other in remotes):
                raise SkillInvalid(f"{name}: {remote.uri} is listed twice; the first is used")
            listed_skill(remote)
        except (SkillInvalid, RecursionError) as error:
            bad.append(_broken(server, entry, error))
        else:
            remotes.append(remote)
    memory = _Memory.load(server.folder)
    offers = [_offer(server, memory, remote) for remote in _told_apart(remotes)]
    ready = {o.name: r for o, r in zip(offers, _told_apart(remotes), strict=True) if o.status == "active"}
    return replace(server, remotes=ready, offers=(*offers, *bad))


def _told_apart(remotes: Sequence[RemoteSkill]) -> list[RemoteSkill]:
    """Several skills of one name get their paths as names: none is preferred, none is lost."""
    counts = Counter(remote.name for remote in remotes)
    return [replace(r, alias=_path(r.root)) if counts[r.name] > 1 else r for r in remotes]


def _path(root: str) -> str:
    path = root.partition("://")[2]
    mark = hashlib.sha256(root.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return path if _ALIAS.fullmatch(path) else f"{path.rpartition('/')[2][:60]}-{mark}"


def _offer(server: _Server, memory: _Memory, remote: RemoteSkill) -> Offer:
    offer = Offer(
        server=server.config.name, name=remote.label, folder=_place(server, remote), files=remote.files,
        skill=listed_skill(remote),
    )  # fmt: skip
    mark = memory.refused.get(remote.uri, {})
    if mark.get("digest") == remote.digest:
        reason = f"it is not what MCP server {server.config.name!r} said it is: {mark.get('reason', '')}"
        fix = f"it is looked at again when the server describes it anew, or after: rm {server.folder / 'state.json'}"
        finding = Finding(level="error", problem=reason, fix=fix, file=remote.uri)
        return replace(offer, skill=None, status="invalid", reason=reason, findings=(finding,))
    if server.usable:
        reason = f"MCP server {server.config.name!r} comes from this project, which is not trusted: geode trust"
        return replace(offer, status="untrusted", reason=reason)
    used = memory.used.get(remote.uri, remote.digest)
    asks = f"this project declares the server {server.config.name}" if server.config.scope == "project" else ""
    notes: tuple[Finding, ...] = ()
    if used != remote.digest:
        asks = "it has changed on the server since it was last read"
        problem = f"{asks} (sha256 {used[:16]}, now {remote.digest[:16]})"
        notes = (Finding(level="warning", problem=problem, fix="reading it asks a person", file=remote.uri),)
    return replace(offer, asks=asks, findings=notes)


def _broken(server: _Server, entry: Mapping[str, Any], error: Exception) -> Offer:
    uri = str(entry.get("uri"))[:200]
    front = entry.get("frontmatter")
    named = cast("dict[str, Any]", front).get("name") if isinstance(front, dict) else None
    name = str(named or uri.removesuffix(f"/{_MARKDOWN}").rpartition("/")[2])[:64]
    reason = str(error) or "its entry is nested too deeply"
    found = error.findings if isinstance(error, SkillInvalid) else ()
    findings = found or (Finding(level="error", problem=reason, fix="ask the server's owner", file=uri),)
    return Offer(
        server=server.config.name, name=f"{server.config.name}:{name}", folder=server.folder / "invalid",
        status="invalid", reason=reason, findings=findings,
    )  # fmt: skip


# ---------------------------------------------------------------- the cache


def _place(server: _Server, remote: RemoteSkill) -> Path:
    """A folder for exactly this version of this skill of this server."""
    return server.folder / f"{_stem(remote)}-{remote.digest[:16]}"


def _stem(remote: RemoteSkill) -> str:
    mark = hashlib.sha256(remote.uri.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{re.sub(r'[^a-z0-9-]', '', remote.name)[:40] or 'skill'}-{mark}"


def _missing(remote: RemoteSkill, place: Path, uris: Mapping[str, str]) -> list[str]:
    """Files that are not in the cache exactly as their entry says."""
    missing: list[str] = []
    for name, uri in uris.items():
        try:
            verified(remote, uri, read_beneath(place, name))
        except SkillInvalid:
            missing.append(name)
    return missing


def _keep(place: Path, name: str, data: bytes) -> None:
    path = place.joinpath(*name.split("/"))
    try:
        private_folder(path.parent)
    except OSError as error:
        raise StoreError(f"cannot create {path.parent}: {error.strerror}", fix="check free space and rights") from error
    write_private(path, data)


def _remember(server: _Server, remote: RemoteSkill, place: Path) -> None:
    """This version was read; older ones of it are not kept."""
    if _Memory.load(server.folder).used.get(remote.uri) == remote.digest:
        return
    with locked(server.folder / "lock"):
        memory = _Memory.load(server.folder)
        _save(server.folder, {**memory.used, remote.uri: remote.digest}, memory.refused)
    for old in server.folder.glob(f"{_stem(remote)}-*"):
        if old != place:
            shutil.rmtree(old, ignore_errors=True)


def _quarantine(server: _Server, remote: RemoteSkill, reason: str) -> None:
    private_folder(server.folder)
    with locked(server.folder / "lock"):
        memory = _Memory.load(server.folder)
        _save(server.folder, memory.used, {**memory.refused, remote.uri: {"digest": remote.digest, "reason": reason}})


def _save(folder: Path, used: Mapping[str, str], refused: Mapping[str, Mapping[str, str]]) -> None:
    write_private(folder / "state.json", json.dumps({"used": used, "refused": refused}).encode())
