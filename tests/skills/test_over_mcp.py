"""Skills offered and read over MCP, every file verified (extension io.modelcontextprotocol/skills)."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

import mcp_types as types
import pytest
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from pydantic import ConfigDict

from geode.gateway.skills import INDEX, SkillsOverMcp
from geode.skills import SkillInvalid, SkillRights
from geode.skills.manifest import EXTENSION, RemoteSkill, listed_skill, parse_entry, verified, verified_skill
from geode.skills.registry import SkillRegistry
from mcp import Client

from .conftest import Shelf, text_of


class Raw(types.Result):
    """Any result, as it came."""

    model_config = ConfigDict(extra="allow")


async def ask(client: Client, method: str, **params: Any) -> dict[str, Any]:
    request: Any = types.Request[dict[str, Any], str](method=method, params=params)
    found = await client.session.send_request(request, Raw)
    return found.model_dump(by_alias=True)


def served(shelf: Shelf) -> Server[Any]:
    server: Server[Any] = Server("test")
    SkillsOverMcp(shelf.open()).attach(server)
    return server


@pytest.fixture
def filled(shelf: Shelf) -> Shelf:
    shelf.mine(
        "git-workflow", text_of("git-workflow", "How we use git", metadata="{version: 1.0, on: yes}", license="MIT")
    )
    shelf.mine(
        "기술",
        text_of("기술", "다국어"),
        templates__a_DOT_md="A",
        templates__eu__b_DOT_md="B",
        script_DOT_py="print(1)",
    )
    (shelf.home / "skills" / "기술" / "image.bin").write_bytes(b"\xff\x00\x01")
    return shelf


async def test_entries_carry_front_matter_and_digests_of_every_file(filled: Shelf) -> None:
    async with Client(served(filled)) as client:
        assert client.server_capabilities.extensions == {EXTENSION: {"directoryRead": True}}
        assert client.server_capabilities.resources is not None
        listed = await ask(client, "skills/list")
        assert listed["resultType"] == "complete"
        assert {"ttlMs", "cacheScope"} <= set(listed)
        first, second = listed["skills"]
        assert first["uri"] == "skill://git-workflow/SKILL.md"
        assert first["frontmatter"] == {
            "name": "git-workflow", "description": "How we use git", "license": "MIT",
            "metadata": {"version": 1.0, "on": "yes"},
        }  # fmt: skip
        assert len(second["resources"]) == 5
        got = await ask(client, "skills/get", uri=second["uri"])
        assert got["skill"] == second


async def test_a_host_reads_and_verifies_every_file(filled: Shelf) -> None:
    async with Client(served(filled)) as client:
        for entry in (await ask(client, "skills/list"))["skills"]:
            remote = parse_entry("other", entry)
            for uri in remote.resources:
                (content,) = (await client.read_resource(uri)).contents
                text = getattr(content, "text", None)
                data = text.encode() if text is not None else base64.b64decode(content.blob)
                assert verified(remote, uri, data) == data
                if uri == remote.uri:
                    skill = verified_skill(remote, data)
                    assert skill.name == f"other:{remote.name}"
                    assert skill.risk == "caution"


async def test_directories_are_listed_level_by_level(filled: Shelf) -> None:
    async with Client(served(filled)) as client:
        root = (await ask(client, "skills/list"))["skills"][1]["uri"].removesuffix("/SKILL.md")
        top = await ask(client, "resources/directory/read", uri=root)
        kinds = {row["name"]: row["mimeType"] for row in top["resources"]}
        assert kinds["templates"] == "inode/directory"
        assert kinds["SKILL.md"] == "text/markdown"
        below = await ask(client, "resources/directory/read", uri=f"{root}/templates")
        assert [row["name"] for row in below["resources"]] == ["a.md", "eu"]


@pytest.mark.parametrize(
    ("method", "uri"),
    [
        ("skills/get", "skill://nothing/SKILL.md"),
        ("skills/get", "skill://git-workflow"),
        ("skills/get", "skill://git-workflow/../git-workflow/SKILL.md"),
        ("resources/read", "skill://git-workflow/nothing.md"),
        ("resources/read", "skill://git-workflow/../../../etc/passwd"),
        ("resources/read", "skill://git-workflow/%2e%2e/%2e%2e/x"),
        ("resources/read", "file:///etc/passwd"),
        ("resources/directory/read", "skill://git-workflow/SKILL.md"),
        ("resources/directory/read", "skill://git-workflow/"),
        ("resources/directory/read", "skill://nothing"),
    ],
)
async def test_what_is_not_served_is_invalid_params(filled: Shelf, method: str, uri: str) -> None:
    async with Client(served(filled)) as client:
        with pytest.raises(MCPError) as raised:
            await ask(client, method, uri=uri)
        assert raised.value.code == -32602


async def test_skills_that_do_not_conform_or_must_ask_are_not_offered(shelf: Shelf) -> None:
    shelf.mine("good")
    shelf.mine("Upper", text_of("Upper"))
    shelf.mine("broken", text_of("broken", "a: b"))
    shelf.mine("danger", text_of("danger", risk="dangerous"))
    shelf.mine("nodes", text_of("nodes", nodes="[analyst]"))
    shelf.mine("noname", "---\ndescription: d\n---\n")
    shelf.mine("secret", None, _DOT_env="KEY=1")
    shelf.theirs("untrusted")
    server = Server[Any]("test")
    SkillsOverMcp(shelf.open(trusted=False)).attach(server)
    async with Client(server) as client:
        assert [s["frontmatter"]["name"] for s in (await ask(client, "skills/list"))["skills"]] == ["good"]


async def test_a_change_is_seen_at_once(filled: Shelf) -> None:
    async with Client(served(filled)) as client:
        uri = "skill://git-workflow/SKILL.md"
        before = (await ask(client, "skills/get", uri=uri))["skill"]
        filled.mine("git-workflow", text_of("git-workflow", "changed"))
        after = (await ask(client, "skills/get", uri=uri))["skill"]
        assert after["frontmatter"]["description"] == "changed"
        assert after["resources"] != before["resources"]
        (content,) = (await client.read_resource(uri)).contents
        with pytest.raises(SkillInvalid, match="digest"):
            verified(parse_entry("s", before), uri, content.text.encode())  # type: ignore[union-attr]


async def test_clients_of_the_older_era_find_the_index_among_the_resources(filled: Shelf) -> None:
    async with Client(served(filled), mode="legacy") as client:
        resources = (await client.list_resources()).resources
        assert [r.uri for r in resources][:2] == [INDEX, "skill://git-workflow/SKILL.md"]
        (content,) = (await client.read_resource(INDEX)).contents
        index = json.loads(content.text)  # type: ignore[union-attr]
        (file,) = index["skills"][0]["resources"]
        (body,) = (await client.read_resource(file["uri"])).contents
        assert f"sha256:{hashlib.sha256(body.text.encode()).hexdigest()}" == file["digest"]  # type: ignore[union-attr]
        with pytest.raises(MCPError):
            await ask(client, "skills/list")


# ---------------------------------------------------------------- what other servers say


def entry(**changes: Any) -> dict[str, Any]:
    good = {
        "uri": "skill://a/demo/SKILL.md",
        "frontmatter": {"name": "demo", "description": "d"},
        "resources": [{"uri": "skill://a/demo/SKILL.md", "digest": "sha256:" + "0" * 64, "size": 3}],
    }
    return {**good, **changes}


def resource(uri: str, digest: str = "sha256:" + "0" * 64, size: Any = 1) -> dict[str, Any]:
    return {"uri": uri, "digest": digest, "size": size}


OWN = resource("skill://a/demo/SKILL.md")


@pytest.mark.parametrize(
    "bad",
    [
        None,
        {},
        entry(uri="skill://a/other/SKILL.md"),
        entry(uri="skill://a/demo"),
        entry(frontmatter={"name": "demo"}),
        entry(frontmatter={"name": "Demo X", "description": "d"}),
        entry(resources="dynamic"),
        entry(resources=None),
        entry(resources=[]),
        entry(resources=[OWN, OWN]),
        entry(resources=[OWN, resource("skill://a/elsewhere")]),
        entry(resources=[OWN, resource("skill://a/demo/../x")]),
        entry(resources=[OWN, resource("skill://a/demo/%2e%2e/x")]),
        entry(resources=[OWN, resource("skill://a/demo/x//y")]),
        entry(resources=[OWN, resource("skill://a/demo/%2Fetc/passwd")]),
        entry(resources=[OWN, resource("skill://a/demo/a%5Cb")]),
        entry(resources=[OWN, resource("skill://a/demo/a%00b")]),
        entry(resources=[OWN, resource("skill://a/demo/" + "n" * 300)]),
        entry(resources=[OWN, resource("skill://a/demo/a"), resource("skill://a/demo/A")]),
        entry(resources=[OWN, resource("skill://a/demo/a"), resource("skill://a/demo/a/b")]),
        entry(resources=[resource("skill://a/demo/SKILL.md", digest="sha256:xyz")]),
        entry(resources=[resource("skill://a/demo/SKILL.md", digest="md5:" + "0" * 64)]),
        entry(resources=[resource("skill://a/demo/SKILL.md", size=-1)]),
        entry(resources=[resource("skill://a/demo/SKILL.md", size="3")]),
        entry(resources=[OWN, *(resource(f"skill://a/demo/{n}") for n in range(512))]),
        entry(resources=[resource("skill://a/demo/SKILL.md", size=17 * 1024 * 1024)]),
    ],
)
def test_entries_that_break_a_rule_are_refused(bad: Any) -> None:
    with pytest.raises(SkillInvalid):
        parse_entry("server", bad)


def remote(text: str, front: dict[str, Any] | None = None) -> tuple[RemoteSkill, bytes]:
    data = text.encode()
    listed = resource("skill://demo/SKILL.md", "sha256:" + hashlib.sha256(data).hexdigest(), len(data))
    shown = front or {"name": "demo", "description": "d"}
    return parse_entry("srv", {"uri": listed["uri"], "frontmatter": shown, "resources": [listed]}), data


def test_other_bytes_other_front_matter_and_unlisted_files_are_refused() -> None:
    skill, data = remote("---\nname: demo\ndescription: d\n---\nbody")
    assert verified_skill(skill, data).body == "body"
    for bad in (data + b" ", data.replace(b"body", b"ydob"), b""):
        with pytest.raises(SkillInvalid, match="digest"):
            verified_skill(skill, bad)
    with pytest.raises(SkillInvalid, match="lists no file"):
        skill.resolve("other.md")
    lying, bytes_ = remote("---\nname: demo\ndescription: d\nallowed-tools: Bash\n---\n")
    with pytest.raises(SkillInvalid, match="differs"):
        verified_skill(lying, bytes_)


def test_an_entry_is_shown_as_a_skill_before_anything_is_fetched() -> None:
    front = {"name": "demo", "description": 'It: "does" 기술 \n', "tools": "Read", "risk": "?", "triggers": ["go"]}
    skill, _ = remote("irrelevant", front)
    shown = listed_skill(skill)
    assert (shown.name, shown.server, shown.risk, shown.tools) == ("srv:demo", "srv", "dangerous", ["Read"])
    assert (shown.triggers, shown.allowed_tools, shown.body) == ([], [], "")
    assert "기술" in shown.description
    assert [file.name for file in skill.files] == ["SKILL.md"]


def test_a_skill_from_a_server_pre_approves_nothing_and_takes_no_name() -> None:
    front = {"name": "demo", "description": "d", "allowed-tools": "Bash", "tools": "Read"}
    skill, data = remote("---\nname: demo\ndescription: d\nallowed-tools: Bash\ntools: Read\n---\n", front)
    loaded = verified_skill(skill, data)
    assert (loaded.name, loaded.origin, loaded.allowed_tools, loaded.risk) == ("srv:demo", "mcp:srv", [], "caution")
    assert loaded.tools == ["Read"]
    assert SkillRights(SkillRegistry([loaded])).active("s") == []
