"""Skills over MCP: the extension `io.modelcontextprotocol/skills`, and plain resources for older clients.

`skills/list`, `skills/get` and `resources/directory/read` exist on connections of the 2026-07-28
era; `resources/list` and `resources/read` serve `skill://NAME/…` on both, and there
`skill://index.json` holds the same entries. Reading a skill is transport: it activates nothing here.
"""

from __future__ import annotations

import base64
import hashlib
import json
import mimetypes
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from ..containment.places import is_secret
from ..skills.files import SkillFile, read_beneath
from ..skills.findings import SkillInvalid
from ..skills.library import SkillLibrary
from ..skills.manifest import EXTENSION, INDEX, entry_of, not_served, uri_of
from .sessions import is_modern

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext
    from mcp.server.lowlevel import Server

__all__ = ["INDEX", "SkillsOverMcp"]

_SCHEME = "skill://"
_PAGE = 200
_INVALID_PARAMS, _NO_METHOD = -32602, -32601
_FRESH: dict[str, Any] = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}


class SkillsOverMcp:
    """Serves the skills in use that can be served; `attach` adds it to a server.

    Args:
        library: looked at again with each request.
    """

    def __init__(self, library: SkillLibrary) -> None:
        self._library = library

    def attach(self, server: Server[Any]) -> None:
        """Add the methods and declare the extension. The server must not serve resources otherwise."""
        import mcp_types as types

        class UriParams(types.RequestParams):
            uri: str

        class DirectoryParams(types.PaginatedRequestParams):
            uri: str

        server.add_request_handler("resources/list", types.PaginatedRequestParams, self._resources)
        server.add_request_handler("resources/templates/list", types.PaginatedRequestParams, self._templates)
        server.add_request_handler("resources/read", types.ReadResourceRequestParams, self._read)
        server.add_request_handler("skills/list", types.PaginatedRequestParams, self._list)
        server.add_request_handler("skills/get", UriParams, self._get)
        server.add_request_handler("resources/directory/read", DirectoryParams, self._directory)
        server.extensions[EXTENSION] = {"directoryRead": True}

    # ------------------------------------------------------------ what there is

    def served(self) -> dict[str, tuple[SkillFile, ...]]:
        """Name -> files of every skill that is offered, sorted by name."""
        self._library.refresh()
        found: dict[str, tuple[SkillFile, ...]] = {}
        for skill in self._library.registry.skills():
            files = self._library.files(skill.name)
            secret = any(is_secret(Path(file.name)) for file in files)
            if files and not secret and not not_served(skill, files):
                found[skill.name] = files
        return found

    def _entry(self, name: str, files: tuple[SkillFile, ...]) -> dict[str, Any]:
        skill = self._library.get(name)
        assert skill is not None
        return entry_of(skill, files)

    def _where(self, uri: str) -> tuple[str, str] | None:
        """Name and file that a `skill://` URI means; None for anything else."""
        if not uri.startswith(_SCHEME) or uri.endswith("/") or "?" in uri or "#" in uri:
            return None
        name, _, file = uri.removeprefix(_SCHEME).partition("/")
        return unquote(name), unquote(file)

    # ------------------------------------------------------------ requests of the extension

    async def _list(self, ctx: ServerRequestContext[Any, Any], params: Any) -> dict[str, Any]:
        _of_the_extension(ctx)
        served = list(self.served().items())
        start = _cursor(params.cursor)
        page = served[start : start + _PAGE]
        more = {"nextCursor": str(start + _PAGE)} if start + _PAGE < len(served) else {}
        return {"skills": [self._entry(name, files) for name, files in page], **more, **_FRESH}

    async def _get(self, ctx: ServerRequestContext[Any, Any], params: Any) -> dict[str, Any]:
        _of_the_extension(ctx)
        place = self._where(params.uri)
        served = self.served()
        if place is None or place[0] not in served or place[1] != "SKILL.md":
            raise _error(f"No skill is served at {params.uri}")
        return {"skill": self._entry(place[0], served[place[0]]), **_FRESH}

    async def _directory(self, ctx: ServerRequestContext[Any, Any], params: Any) -> dict[str, Any]:
        _of_the_extension(ctx)
        place = self._where(params.uri)
        files = self.served().get(place[0]) if place is not None else None
        prefix = f"{place[1]}/" if place is not None and place[1] else ""
        children: dict[str, dict[str, Any]] = {}
        for file in files or ():
            if place is None or not file.name.startswith(prefix):
                continue
            child, _, deeper = file.name[len(prefix) :].partition("/")
            uri = uri_of(place[0], prefix + child)
            children[child] = {"uri": uri, "name": child, "mimeType": "inode/directory" if deeper else _kind(child)}
        if not children:
            raise _error(f"{params.uri} is not a directory resource")
        start = _cursor(params.cursor)
        rows = [children[name] for name in sorted(children)]
        more = {"nextCursor": str(start + _PAGE)} if start + _PAGE < len(rows) else {}
        return {"resultType": "complete", "resources": rows[start : start + _PAGE], **more}

    # ------------------------------------------------------------ resources

    async def _resources(self, _ctx: ServerRequestContext[Any, Any], _params: Any) -> dict[str, Any]:
        rows: list[dict[str, Any]] = [
            {
                "uri": INDEX,
                "name": "skills",
                "mimeType": "application/json",
                "description": "All skills: description, files, sizes and SHA-256 digests",
            }
        ]
        for name, files in self.served().items():
            skill = self._library.get(name)
            size = next((file.size for file in files if file.name == "SKILL.md"), 0)
            rows.append(
                {
                    "uri": uri_of(name, "SKILL.md"),
                    "name": name,
                    "description": skill.description if skill else "",
                    "mimeType": "text/markdown",
                    "size": size,
                }
            )
        return {"resources": rows, **_FRESH}

    async def _templates(self, _ctx: ServerRequestContext[Any, Any], _params: Any) -> dict[str, Any]:
        row = {"uriTemplate": "skill://{name}/{+file}", "name": "skill file", "description": "A file of a skill"}
        return {"resourceTemplates": [row], **_FRESH}

    async def _read(self, _ctx: ServerRequestContext[Any, Any], params: Any) -> dict[str, Any]:
        uri: str = params.uri
        served = self.served()
        if uri == INDEX:
            entries = [self._entry(name, files) for name, files in served.items()]
            text = json.dumps({"skills": entries}, ensure_ascii=False)
            return {"contents": [{"uri": uri, "mimeType": "application/json", "text": text}], **_FRESH}
        place = self._where(uri)
        files = served.get(place[0], ()) if place is not None else ()
        file = next((f for f in files if place is not None and f.name == place[1]), None)
        if place is None or file is None:
            raise _error(f"No resource is served at {uri}")
        return {"contents": [self._content(uri, place[0], file)], **_FRESH}

    def _content(self, uri: str, name: str, file: SkillFile) -> dict[str, Any]:
        """One file, exactly as its digest says."""
        skill = self._library.get(name)
        assert skill is not None
        try:
            data = read_beneath(Path(skill.folder), file.name)
        except SkillInvalid as error:
            raise _error(error.message) from error
        if hashlib.sha256(data).hexdigest() != file.sha256:
            raise _error(f"{uri} is being changed; ask again", -32603)
        kind = _kind(file.name)
        try:
            return {"uri": uri, "mimeType": kind, "text": data.decode("utf-8")}
        except UnicodeDecodeError:
            return {"uri": uri, "mimeType": kind, "blob": base64.b64encode(data).decode("ascii")}


def _kind(name: str) -> str:
    if name.endswith(".md"):
        return "text/markdown"
    return mimetypes.guess_type(name, strict=True)[0] or "application/octet-stream"


def _cursor(text: str | None) -> int:
    if text is None:
        return 0
    if not (text.isascii() and text.isdigit()) or len(text) > 9:
        raise _error("the cursor is not one of this list")
    return int(text)


def _of_the_extension(ctx: ServerRequestContext[Any, Any]) -> None:
    """The extension's methods exist from the 2026-07-28 revision on."""
    if not is_modern(ctx):
        raise _error("Method not found", _NO_METHOD)


def _error(message: str, code: int = _INVALID_PARAMS) -> Exception:
    from mcp.shared.exceptions import MCPError

    return MCPError(code=code, message=message)
