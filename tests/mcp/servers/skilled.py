"""A server that offers skills, made with the official SDK: `skilled.py [PORT] FOLDER [legacy]`.

FOLDER holds one folder a skill. `.lies.json` in it says which wrongs to do, by URI: {"digest"|"text"|"front": …};
it is read again with each request. `legacy` hides the extension and offers the index as a resource.
"""

import asyncio
import hashlib
import json
import sys
from pathlib import Path

import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError

from geode.skills.document import parse_skill

ROOT = Path(sys.argv[2] if sys.argv[1].isdigit() else sys.argv[1])
LEGACY = "legacy" in sys.argv
PAGE = 2
LOG = ROOT / ".log"


def lies():
    path = ROOT / ".lies.json"
    return json.loads(path.read_text()) if path.exists() else {}


def log(what):
    with LOG.open("a") as file:
        file.write(what + "\n")


def entries():
    found = []
    for markdown in sorted(ROOT.rglob("SKILL.md")):
        folder = markdown.parent
        path = folder.relative_to(ROOT).as_posix()
        skill = parse_skill(markdown.read_bytes(), file=str(markdown), folder=folder.name).skill
        rows = []
        for file in sorted(p for p in folder.rglob("*") if p.is_file()):
            data = file.read_bytes()
            uri = f"skill://{path}/{file.relative_to(folder).as_posix()}"
            digest = lies().get(uri, {}).get("digest", hashlib.sha256(data).hexdigest())
            rows.append({"uri": uri, "digest": f"sha256:{digest}", "size": len(data)})
        uri = f"skill://{path}/SKILL.md"
        front = {**(skill.frontmatter if skill else {"name": folder.name}), **lies().get(uri, {}).get("front", {})}
        found.append({"uri": uri, "frontmatter": front, "resources": lies().get(uri, {}).get("resources", rows)})
    return found + lies().get("more", [])


async def on_list(ctx, params):
    log("skills/list")
    start = int(params.cursor or 0)
    listed = entries()
    more = {"nextCursor": str(start + PAGE)} if start + PAGE < len(listed) else {}
    if lies().get("endless"):
        more = {"nextCursor": "0"}
    fresh = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
    return {"skills": listed[start : start + PAGE], **more, **fresh}


async def on_read(ctx, params):
    return read(str(params.uri))


def read(uri):
    log(uri)
    if uri == "skill://index.json" and LEGACY:
        return {"contents": [{"uri": uri, "text": json.dumps({"skills": entries()})}]}
    file = ROOT / uri.removeprefix("skill://")
    if not file.is_file():
        raise MCPError(code=-32602, message=f"no resource {uri}")
    text = lies().get(uri, {}).get("text", file.read_text())
    fresh = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
    return {"contents": [{"uri": uri, "text": text}], **fresh}


async def on_tools(ctx, params):
    return types.ListToolsResult(tools=[])


server = Server("skilled", on_list_tools=on_tools)
server.add_request_handler("resources/read", types.ReadResourceRequestParams, on_read)
server.add_request_handler(
    "resources/list", types.PaginatedRequestParams, lambda ctx, params: asyncio.sleep(0, {"resources": []})
)
server.add_request_handler("skills/list", types.PaginatedRequestParams, on_list)
server.extensions["io.modelcontextprotocol/skills"] = {}


def older_era():
    """The handshake era, without the extension: only resources."""
    for line in sys.stdin:
        request = json.loads(line)
        method, number = request.get("method"), request.get("id")
        if number is None:
            continue
        answer = {"error": {"code": -32601, "message": "Method not found"}}
        if method == "initialize":
            about = {"serverInfo": {"name": "old", "version": "1"}, "capabilities": {"tools": {}, "resources": {}}}
            answer = {"result": {"protocolVersion": "2025-06-18", **about}}
        elif method == "tools/list":
            answer = {"result": {"tools": []}}
        elif method == "resources/read":
            answer = {"result": read(request["params"]["uri"])}
        print(json.dumps({"jsonrpc": "2.0", "id": number, **answer}), flush=True)


async def main():
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


if LEGACY:
    older_era()
elif sys.argv[1] != str(ROOT):
    import uvicorn

    uvicorn.run(server.streamable_http_app(), host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
else:
    asyncio.run(main())
