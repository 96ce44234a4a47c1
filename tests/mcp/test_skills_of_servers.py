"""Skills that MCP servers offer: listed at connect, fetched when read, verified, asked for where they must be."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from geode.config.settings import SandboxSettings
from geode.config.trust import TrustStore
from geode.containment.sandbox.select import select_backend
from geode.core.effects import Origin
from geode.core.errors import SandboxUnavailable
from geode.core.messages import Status, ToolResult
from geode.mcp.skills import known_skills
from geode.runtime import GeodeRuntime
from geode.skills.conversation import ConversationSkills
from geode.testing import ScriptedApprover

from .test_web import answering, free_port, serving

SERVER = Path(__file__).with_name("servers") / "skilled.py"


def text_of(name: str, body: str = "Do it.", **keys: str) -> str:
    more = "".join(f"{key.replace('_', '-')}: {value}\n" for key, value in keys.items())
    return f"---\nname: {name}\ndescription: What {name} does.\n{more}---\n{body}\n"


class Desk:
    """A server with skills in a folder, and runtimes in front of it."""

    def __init__(self, root: Path) -> None:
        self.offered, self.project, self.home = root / "offered", root / "project", root / "home"
        for folder in (self.offered, self.project, self.home):
            folder.mkdir()
        self.approver = ScriptedApprover()
        self.declare()

    def declare(self, *more: str, scope: str = "user", **entry: Any) -> None:
        path = self.home / "mcp.json" if scope == "user" else self.project / ".mcp.json"
        command = {"command": sys.executable, "args": [str(SERVER), str(self.offered), *more], **entry}
        path.write_text(json.dumps({"mcpServers": {"srv": command}}))

    def offer(self, name: str, text: str | None = None, **files: str) -> None:
        folder = self.offered / name
        for place, content in {"SKILL.md": text or text_of(folder.name), **files}.items():
            path = folder / place.replace("__", "/").replace("_DOT_", ".")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)

    def lie(self, **lies: Any) -> None:
        (self.offered / ".lies.json").write_text(json.dumps(lies))

    def requests(self) -> list[str]:
        log = self.offered / ".log"
        return log.read_text().split() if log.exists() else []

    @asynccontextmanager
    async def runtime(self, *, connect: bool = True) -> AsyncIterator[GeodeRuntime]:
        runtime = GeodeRuntime.create(self.project, self.home, approver=self.approver)
        async with runtime:
            if connect:
                assert runtime.hub is not None
                await runtime.hub.ensure("srv")
                runtime.skills.refresh()
            yield runtime

    def answer(self, *answers: bool) -> None:
        self.approver._answers.extend(answers)  # pyright: ignore[reportPrivateUsage]

    def listed(self, *, trusted: bool = True) -> dict[str, str]:
        from geode.skills.library import open_library

        servers = known_skills(self.project, self.home, trusted=trusted)
        return {e.name: e.status for e in open_library(self.project, self.home, servers=servers).entries()}


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


async def call(runtime: GeodeRuntime, tool: str, /, *, session: str = "s", **arguments: Any) -> ToolResult:
    return await runtime.call(tool, arguments, origin=Origin.MODEL, session=session)


# ---------------------------------------------------------------- listing and reading


async def test_skills_are_listed_without_fetching_and_read_on_demand(desk: Desk) -> None:
    for name in ("alpha", "beta", "gamma"):
        desk.offer(name, text_of(name, f"The text of {name}"), notes__a_DOT_md="the detail")
    async with desk.runtime() as runtime:
        assert runtime.skills.registry.names() == ["srv:alpha", "srv:beta", "srv:gamma"]  # two pages
        assert not [line for line in desk.requests() if line.startswith("skill://")]
        read = await call(runtime, "skill_read", name="srv:alpha")
        assert read.status is Status.OK, read.text
        assert "The text of alpha" in read.text
        assert "MCP server 'srv'" in read.text
        assert "Files: notes/a.md" in read.text
        assert [r for r in desk.requests() if r.startswith("skill://")] == ["skill://alpha/SKILL.md"]
        file = await call(runtime, "skill_read", name="srv:alpha", file="notes/a.md")
        assert file.text == "the detail"
        await call(runtime, "skill_read", name="srv:alpha")
        assert len([r for r in desk.requests() if r.startswith("skill://")]) == 2  # from the cache
    assert set(desk.listed().values()) == {"active"}


async def test_what_was_read_needs_no_server_any_more_and_the_list_starts_nothing(desk: Desk) -> None:
    desk.offer("alpha", text_of("alpha", "The text"))
    async with desk.runtime() as runtime:
        await call(runtime, "skill_read", name="srv:alpha")
    before = desk.requests()
    async with desk.runtime(connect=False) as runtime:
        assert runtime.skills.registry.names() == ["srv:alpha"]
        assert "The text" in (await call(runtime, "skill_read", name="srv:alpha")).text
    assert desk.requests() == before


async def test_a_changed_cache_is_fetched_again_never_used(desk: Desk) -> None:
    desk.offer("alpha", text_of("alpha", "The text"))
    async with desk.runtime() as runtime:
        await call(runtime, "skill_read", name="srv:alpha")
        (cached,) = (desk.home / "cache" / "mcp").glob("*.skills/alpha-*/SKILL.md")
        assert cached.stat().st_mode & 0o077 == 0
        cached.write_text(text_of("alpha", "Something else"))
        assert "The text" in (await call(runtime, "skill_read", name="srv:alpha")).text


async def test_servers_of_the_older_era_offer_an_index(desk: Desk) -> None:
    desk.declare("legacy")
    desk.offer("alpha", text_of("alpha", "The text"))
    async with desk.runtime() as runtime:
        assert runtime.hub is not None
        assert runtime.hub.status()[0]["era"] == "legacy"
        assert "The text" in (await call(runtime, "skill_read", name="srv:alpha")).text


async def test_skills_of_a_server_over_http(desk: Desk) -> None:
    port = free_port()
    (desk.home / "mcp.json").write_text(json.dumps({"mcpServers": {"srv": {"url": f"http://127.0.0.1:{port}/mcp"}}}))
    desk.offer("alpha", text_of("alpha", "The text"), 기술_DOT_md="the detail")
    with serving("skilled.py", port, str(desk.offered)):
        await answering(port)
        async with desk.runtime() as runtime:
            assert "The text" in (await call(runtime, "skill_read", name="srv:alpha")).text
            assert (await call(runtime, "skill_read", name="srv:alpha", file="기술.md")).text == "the detail"


async def test_geode_behind_geode(desk: Desk, tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    for name in ("home", "project"):
        (inner / name).mkdir(parents=True)
    folder = inner / "home" / "skills" / "git-workflow"
    (folder / "refs").mkdir(parents=True)
    (folder / "SKILL.md").write_text(text_of("git-workflow", "How we use git", license="MIT"))
    (folder / "refs" / "a.md").write_text("the detail")
    args = ["-m", "geode", "serve", "--stdio", "--home", str(inner / "home"), "--project", str(inner / "project")]
    desk.declare(args=args)
    async with desk.runtime() as runtime:
        assert runtime.skills.registry.names() == ["srv:git-workflow"]
        assert "How we use git" in (await call(runtime, "skill_read", name="srv:git-workflow")).text
        assert (await call(runtime, "skill_read", name="srv:git-workflow", file="refs/a.md")).text == "the detail"


# ---------------------------------------------------------------- what does not match


async def test_another_text_than_the_digest_says_quarantines_the_skill_and_says_why(desk: Desk) -> None:
    desk.offer(
        "alpha",
        text_of(
            "alpha",
            "good",
        ),
        notes_DOT_md="x",
    )
    desk.offer("beta")
    desk.lie(**{"skill://alpha/SKILL.md": {"text": text_of("alpha", "evil")}})
    async with desk.runtime() as runtime:
        read = await call(runtime, "skill_read", name="srv:alpha")
        assert read.status is Status.ERROR
        assert "evil" not in read.text
        assert "not what its digest says" in read.text
        runtime.skills.refresh()
        entry = runtime.skills.entry("srv:alpha")
        assert entry is not None
        assert (entry.status, "'srv'" in entry.reason) == ("invalid", True)
        assert (await call(runtime, "skill_read", name="srv:beta")).status is Status.OK
    assert desk.listed() == {"srv:alpha": "invalid", "srv:beta": "active"}
    desk.lie()
    desk.offer("alpha", text_of("alpha", "corrected"))
    async with desk.runtime() as runtime:
        assert "corrected" in (await call(runtime, "skill_read", name="srv:alpha")).text


async def test_front_matter_that_differs_from_the_entry_is_refused(desk: Desk) -> None:
    desk.offer("alpha")
    desk.lie(**{"skill://alpha/SKILL.md": {"front": {"description": "Harmless."}}})
    async with desk.runtime() as runtime:
        assert "front matter differs" in (await call(runtime, "skill_read", name="srv:alpha")).text
    assert desk.listed() == {"srv:alpha": "invalid"}


async def test_a_false_file_is_not_shown_and_not_run(desk: Desk) -> None:
    desk.offer("alpha", None, notes_DOT_md="good", run_DOT_sh="echo hi")
    desk.lie(**{"skill://alpha/notes.md": {"text": "evil"}})
    async with desk.runtime() as runtime:
        assert (await call(runtime, "skill_read", name="srv:alpha")).status is Status.OK
        assert "evil" not in (await call(runtime, "skill_read", name="srv:alpha", file="notes.md")).text
    assert desk.listed() == {"srv:alpha": "invalid"}


async def test_a_change_between_list_and_read_is_no_fault(desk: Desk) -> None:
    desk.offer("alpha", text_of("alpha", "old"))
    async with desk.runtime() as runtime:
        desk.offer("alpha", text_of("alpha", "new"))
        read = await call(runtime, "skill_read", name="srv:alpha")
        assert "has changed on its server" in read.text
        assert "new" in (await call(runtime, "skill_read", name="srv:alpha")).text


async def test_bad_entries_are_shown_and_harm_nobody_else(desk: Desk) -> None:
    desk.offer("alpha")
    desk.offer("dynamic")
    desk.offer("one/same", text_of("same", "of one"))
    desk.offer("two/same", text_of("same", "of two"))
    desk.lie(
        **{"skill://dynamic/SKILL.md": {"resources": "dynamic"}},
        more=[{}, {"uri": "skill://../x/SKILL.md"}, {"uri": "skill://n/SKILL.md", "frontmatter": {"name": "n"}}],
    )
    async with desk.runtime() as runtime:
        assert runtime.skills.registry.names() == ["srv:alpha", "srv:one/same", "srv:two/same"]
        assert "of two" in (await call(runtime, "skill_read", name="srv:two/same")).text
    listed = desk.listed()
    assert listed["srv:dynamic"] == "invalid"
    assert list(listed.values()).count("invalid") == 4


async def test_an_endless_list_ends_and_is_told(desk: Desk) -> None:
    desk.offer("alpha")
    desk.lie(endless=True)
    async with desk.runtime() as runtime:
        assert runtime.hub is not None
        assert any("never ends" in p.message for p in runtime.hub.problems)


# ---------------------------------------------------------------- rights


async def test_a_skill_of_a_server_never_takes_a_name_and_no_trigger_activates_it(desk: Desk) -> None:
    desk.offer("alpha", text_of("alpha", triggers="[please]", allowed_tools="Bash", tools="Read"))
    local = desk.home / "skills" / "mine"
    local.mkdir(parents=True)
    (local / "SKILL.md").write_text(text_of("srv:alpha", "the person's own"))
    async with desk.runtime() as runtime:
        statuses = [(e.name, e.root.origin, e.status) for e in runtime.skills.entries()]
        assert statuses == [("srv:alpha", "user", "active"), ("srv:alpha", "mcp:srv", "shadowed")]
        (local / "SKILL.md").unlink()
        runtime.skills.refresh()
        skill = runtime.skills.get("srv:alpha")
        assert skill is not None
        assert (skill.risk, skill.allowed_tools, skill.triggers, skill.tools) == ("caution", [], [], ["Read"])
        talk = ConversationSkills(runtime.skills, runtime.rights, "s")
        assert talk.activate("please") == []
        assert "skill_read(name='srv:alpha', arguments='now')" in talk.activate("/srv:alpha now")[0].text
        assert runtime.rights.active("s") == []


async def test_after_reading_it_programs_ask_for_the_rest_of_the_conversation(desk: Desk) -> None:
    desk.offer("alpha")
    async with desk.runtime() as runtime:
        code = {"code": "print(1)"}
        talk = ConversationSkills(runtime.skills, runtime.rights, "s")
        await call(runtime, "skill_read", name="srv:alpha")
        talk.activate("and now something else")
        asked = len(desk.approver.asked)
        desk.answer(False)
        assert (await call(runtime, "code_interpreter", **code)).status is Status.DENIED
        assert len(desk.approver.asked) == asked + 1
        assert "srv:alpha" in desk.approver.asked[-1].verdict.reason
        assert (await call(runtime, "read_file", session="s", path="nothing.txt")).status is Status.ERROR
        talk.close()
        assert runtime.rights.restriction(desk.approver.asked[-1].call, desk.approver.asked[-1].verdict.impacts) is None


async def test_scripts_ask_each_time_and_need_the_skill_to_be_read(desk: Desk) -> None:
    try:
        select_backend(SandboxSettings(), home=Path("/nonexistent"))
    except SandboxUnavailable as error:
        pytest.skip(error.message)
    desk.offer("alpha", None, scripts__run_DOT_sh='cat "$(dirname "$0")/../data.txt"', data_DOT_txt="from afar\n")
    async with desk.runtime() as runtime:
        desk.answer(True, True, False)
        early = await call(runtime, "skill_run", name="srv:alpha", script="scripts/run.sh")
        assert "read it first" in early.text
        await call(runtime, "skill_read", name="srv:alpha")
        assert "from afar" in (await call(runtime, "skill_run", name="srv:alpha", script="scripts/run.sh")).text
        refused = await call(runtime, "skill_run", name="srv:alpha", script="scripts/run.sh")
        assert refused.status is Status.DENIED


async def test_a_server_of_the_project_asks_before_its_skills_are_read(desk: Desk) -> None:
    (desk.home / "mcp.json").unlink()
    desk.declare(scope="project")
    desk.offer("alpha", text_of("alpha", "The text"), notes_DOT_md="x")
    TrustStore(desk.home).trust(desk.project)
    async with desk.runtime() as runtime:
        desk.answer(False, True)
        refused = await call(runtime, "skill_read", name="srv:alpha")
        assert refused.status is Status.DENIED
        assert not [r for r in desk.requests() if r.startswith("skill://")]
        assert "this project declares the server" in desk.approver.asked[0].view
        assert "not read" in (await call(runtime, "skill_read", name="srv:alpha", file="notes.md")).text
        assert "The text" in (await call(runtime, "skill_read", name="srv:alpha")).text
        assert (await call(runtime, "skill_read", name="srv:alpha", file="notes.md")).text == "x"
    assert desk.listed(trusted=False) == {"srv:alpha": "untrusted"}


async def test_another_version_than_was_read_is_announced_and_asks(desk: Desk) -> None:
    desk.offer("alpha", text_of("alpha", "first"), notes_DOT_md="x")
    async with desk.runtime() as runtime:
        news: list[str] = []
        runtime.skills.subscribe(lambda changes: news.append(changes.announcement))
        await call(runtime, "skill_read", name="srv:alpha")
        runtime.skills.refresh()
        assert news == []  # reading changes nothing
        desk.offer("alpha", text_of("alpha", "second"))
        assert runtime.hub is not None
        task = await runtime.hub._for_reading("srv")  # pyright: ignore[reportPrivateUsage]
        await task.list_again()
        runtime.skills.refresh()
        assert news == ["Skills changed, read them again before use: srv:alpha"]
        assert "not read" in (await call(runtime, "skill_read", name="srv:alpha", file="notes.md")).text
        desk.answer(False, True)
        assert (await call(runtime, "skill_read", name="srv:alpha")).status is Status.DENIED
        assert "changed on the server since" in desk.approver.asked[0].view
        assert "second" in (await call(runtime, "skill_read", name="srv:alpha")).text
        assert "second" in (await call(runtime, "skill_read", name="srv:alpha")).text  # known now
        assert len(desk.approver.asked) == 2


async def test_an_approval_is_for_the_version_that_was_shown(desk: Desk) -> None:
    (desk.home / "mcp.json").unlink()
    desk.declare(scope="project")
    desk.offer("alpha", text_of("alpha", "first"))
    TrustStore(desk.home).trust(desk.project)
    runtime = GeodeRuntime.create(desk.project, desk.home)
    async with runtime:
        assert runtime.hub is not None
        await runtime.hub.ensure("srv")
        waiting = await call(runtime, "skill_read", name="srv:alpha")
        assert waiting.status is Status.NEEDS_APPROVAL
        (open_request,) = await runtime.approvals.list("pending")
        desk.offer("alpha", text_of("alpha", "second"))
        await (await runtime.hub._for_reading("srv")).list_again()  # pyright: ignore[reportPrivateUsage]
        await runtime.approvals.answer(open_request.id, True, "tester", "")
        assert (await call(runtime, "skill_read", name="srv:alpha")).status is Status.NEEDS_APPROVAL


async def test_removing_a_server_removes_its_skills_and_their_files(desk: Desk) -> None:
    from geode.mcp import snapshot
    from geode.mcp.config import load_servers

    desk.offer("alpha")
    async with desk.runtime() as runtime:
        await call(runtime, "skill_read", name="srv:alpha")
        config = load_servers(desk.project, desk.home).servers["srv"]
        (desk.home / "mcp.json").write_text("{}")
        assert runtime.hub is not None
        await runtime.hub.refresh()
        runtime.skills.refresh()
        assert runtime.skills.registry.names() == []
    snapshot.forget(desk.home, config)
    assert not list((desk.home / "cache" / "mcp").glob("*.skills"))
    assert desk.listed() == {}
    await asyncio.sleep(0)
