"""skill_read and skill_run through the real gate and sandbox."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from geode.config.settings import SandboxSettings
from geode.config.trust import TrustStore
from geode.containment.sandbox.select import select_backend
from geode.core.effects import Origin
from geode.core.errors import SandboxUnavailable
from geode.core.messages import Status, ToolResult
from geode.runtime import GeodeRuntime
from geode.skills import SkillLibrary, SkillRights
from geode.testing import ScriptedApprover

from .conftest import Shelf, text_of


class Desk:
    """A runtime with the skill tools, and calls as a model makes them."""

    def __init__(self, shelf: Shelf) -> None:
        self.shelf = shelf
        self.approver = ScriptedApprover()
        self.trust = TrustStore(shelf.home)
        self.runtime = GeodeRuntime.create(shelf.project, shelf.home, approver=self.approver, servers=False)
        self.library: SkillLibrary = self.runtime.skills
        self.rights: SkillRights = self.runtime.rights

    async def __call__(
        self, tool: str, /, *, session: str = "s", origin: Origin = Origin.MODEL, **arguments: Any
    ) -> ToolResult:
        return await self.runtime.call(tool, arguments, origin=origin, session=session)

    def answer(self, *answers: bool) -> None:
        self.approver._answers.extend(answers)  # pyright: ignore[reportPrivateUsage]


@pytest.fixture
async def desk(shelf: Shelf) -> AsyncIterator[Desk]:
    made = Desk(shelf)
    async with made.runtime:
        yield made


def needs_sandbox() -> None:
    try:
        select_backend(SandboxSettings(), home=Path("/nonexistent"))
    except SandboxUnavailable as error:
        pytest.skip(error.message)


# ---------------------------------------------------------------- staged reading


async def test_T121_list_then_body_then_file(desk: Desk) -> None:
    folder = desk.shelf.mine("demo", text_of("demo", "Does demos", body="See notes/a.md"), notes__a_DOT_md="the detail")
    listed = await desk("skill_read")
    assert "**demo**: Does demos" in listed.text
    assert "See notes" not in listed.text
    body = await desk("skill_read", name="demo")
    assert "See notes/a.md" in body.text
    assert f"Folder: {folder}" in body.text
    assert "Files: notes/a.md" in body.text
    assert "the detail" not in body.text
    for name in ("notes/a.md", "./notes/a.md", str(folder / "notes/a.md")):
        assert (await desk("skill_read", name="demo", file=name)).text == "the detail"
    assert desk.rights.active("s") == ["demo"]


async def test_a_long_body_is_not_cut(desk: Desk) -> None:
    desk.shelf.mine("demo", text_of(body="line\n" * 3000 + "the end"))
    assert (await desk("skill_read", name="demo")).text.endswith("the end")


@pytest.mark.parametrize("file", ["../x", "/etc/passwd", "nothing.md", "notes", "link", "a\0b", ".env", "bin.dat"])
async def test_only_text_files_of_the_skill_are_read(desk: Desk, file: str) -> None:
    folder = desk.shelf.mine("demo", notes__a_DOT_md="x", _DOT_env="KEY=1")
    (folder / "bin.dat").write_bytes(b"\0\1")
    result = await desk("skill_read", name="demo", file=file)
    assert result.status is Status.ERROR
    assert "KEY=1" not in result.text


async def test_what_cannot_be_used_says_why(desk: Desk) -> None:
    desk.shelf.mine("broken", "nothing")
    desk.shelf.mine("good")
    desk.shelf.mine("by-hand", text_of("by-hand", disable_model_invocation="true"))
    assert "front matter" in (await desk("skill_read", name="broken")).text
    unknown = await desk("skill_read", name="goood")
    assert "skills that can be used: by-hand, good" in unknown.text
    assert "only a person" in (await desk("skill_read", name="by-hand")).text
    assert (await desk("skill_read", name="by-hand", origin=Origin.USER)).status is Status.OK
    assert "Not usable: broken (invalid" in (await desk("skill_read")).text


async def test_arguments_are_rendered(desk: Desk) -> None:
    desk.shelf.mine("demo", text_of(body="Do $1 and $ARGUMENTS"))
    assert "Do a b and 'a b' c" in (await desk("skill_read", name="demo", arguments="'a b' c")).text


async def test_a_dangerous_skill_asks_before_it_is_activated_and_shows_what_it_wants(desk: Desk) -> None:
    desk.shelf.mine("demo", text_of(risk="dangerous", allowed_tools="Bash"), notes_DOT_md="x")
    desk.library.refresh()
    assert "not active" in (await desk("skill_read", name="demo", file="notes.md")).text
    desk.answer(False, True)
    refused = await desk("skill_read", name="demo")
    assert refused.status is Status.DENIED
    assert "Do it." not in refused.text
    assert "pre-approve: Bash" in desk.approver.asked[0].view
    assert "Do it." in (await desk("skill_read", name="demo")).text
    assert (await desk("skill_read", name="demo", file="notes.md")).text == "x"


# ---------------------------------------------------------------- scripts


HELLO = '#!/bin/sh\necho "skill:$1:$(basename "$PWD")"; cat "$(dirname "$0")/../data.txt"; echo made > made.txt\n'


@pytest.mark.parametrize("place", ["home/skills/demo", "project/.claude/skills/demo"])
async def test_R38_a_script_of_the_skill_runs_and_never_the_projects(desk: Desk, place: str) -> None:
    needs_sandbox()
    desk.shelf.add(place, None, scripts__hello_DOT_sh=HELLO, data_DOT_txt="from the skill\n")
    (desk.shelf.project / "scripts").mkdir()
    (desk.shelf.project / "scripts" / "hello.sh").write_text("echo WRONG")
    (desk.shelf.project / "scripts" / "other.sh").write_text("echo WRONG")
    desk.trust.trust(desk.shelf.project)
    result = await desk("skill_run", name="demo", script="scripts/hello.sh", args=["a b; echo x"])
    assert result.status is Status.OK, result.text
    assert "skill:a b; echo x:project" in result.text
    assert "from the skill" in result.text
    assert "WRONG" not in result.text
    assert (desk.shelf.project / "made.txt").read_text() == "made\n"
    missing = await desk("skill_run", name="demo", script="scripts/other.sh")
    assert "has no file" in missing.text
    assert desk.approver.asked == []


async def test_scripts_have_no_network_no_home_and_cannot_change_the_skill(desk: Desk) -> None:
    needs_sandbox()
    code = (
        "import os, socket\n"
        "here = os.environ['SKILL_DIR']\n"
        "try:\n    open(os.path.join(here, 'x'), 'w'); print('WROTE')\nexcept OSError: print('read-only')\n"
        "try:\n    socket.create_connection(('127.0.0.1', 9), 1); print('CONNECTED')\nexcept OSError: print('no net')\n"
        f"print(os.path.exists({str(desk.shelf.home)!r}))\n"
    )
    desk.shelf.mine("demo", None, scripts__x_DOT_py=code)
    result = await desk("skill_run", name="demo", script="scripts/x.py")
    assert result.text.startswith("read-only\nno net\nFalse"), result.text


async def test_a_failing_script_is_a_result(desk: Desk) -> None:
    needs_sandbox()
    desk.shelf.mine("demo", None, x_DOT_sh="echo said; exit 3")
    result = await desk("skill_run", name="demo", script="x.sh")
    assert result.status is Status.ERROR
    assert "said\n[exit code 3" in result.text


async def test_caution_asks_before_its_scripts_run(desk: Desk) -> None:
    needs_sandbox()
    desk.shelf.mine("demo", text_of(risk="caution"), x_DOT_sh="echo ran")
    desk.library.refresh()
    assert (await desk("skill_read", name="demo")).status is Status.OK
    desk.answer(False, True)
    assert (await desk("skill_run", name="demo", script="x.sh")).status is Status.DENIED
    assert "ran" in (await desk("skill_run", name="demo", script="x.sh")).text
    assert len(desk.approver.asked) == 2


async def test_a_project_skill_that_changed_after_trust_is_not_run(shelf: Shelf) -> None:
    shelf.theirs("demo", None, x_DOT_sh="echo ran")
    store = TrustStore(shelf.home)
    store.trust(shelf.project)
    runtime = GeodeRuntime.create(shelf.project, shelf.home, servers=False)
    async with runtime:
        (shelf.project / ".claude/skills/demo/x.sh").write_text("echo evil")
        result = await runtime.call("skill_run", {"name": "demo", "script": "x.sh"}, origin=Origin.MODEL)
    assert "untrusted" in result.text
    assert "evil" not in result.text


async def test_files_that_nothing_can_run_are_refused(desk: Desk) -> None:
    needs_sandbox()
    desk.shelf.mine("demo", None, notes_DOT_txt="x")
    assert "how to run" in (await desk("skill_run", name="demo", script="notes.txt")).text


# ---------------------------------------------------------------- rights at the gate


async def test_R63_pre_approval_works_within_the_policy_only(desk: Desk) -> None:
    needs_sandbox()
    desk.shelf.mine("demo", text_of(allowed_tools="Bash(python3:*)"))
    command = "python3 -c 'import this'"
    assert (await desk("shell_exec", command=command)).status is not Status.OK
    await desk("skill_read", name="demo")
    assert (await desk("shell_exec", command=command)).status is Status.OK
    assert (await desk("shell_exec", command=command, session="other")).status is not Status.OK
    assert (await desk("shell_exec", command=f"{command}; rm -rf ~")).status is Status.DENIED
    desk.rights.release("s")
    assert (await desk("shell_exec", command=command)).status is not Status.OK


async def test_R63_tools_restricts_at_the_gate_until_the_person_speaks(shelf: Shelf) -> None:
    shelf.mine("demo", text_of(tools="read_file, Grep"))
    (shelf.project / "a.txt").write_text("content")
    runtime = GeodeRuntime.create(shelf.project, shelf.home, servers=False)
    rights, gate = runtime.rights, runtime.gate

    async def call(tool: str, **arguments: Any) -> ToolResult:
        return await gate.call(runtime.make_call(tool, arguments, origin=Origin.MODEL, session="s"))

    async with runtime:
        assert (await call("write_file", path="b.txt", content="x")).status is Status.OK
        pending = gate.begin(
            runtime.make_call("write_file", {"path": "c.txt", "content": "x"}, origin=Origin.MODEL, session="s")
        )
        await call("skill_read", name="demo")
        late = await gate.finish(pending)
        assert late.status is Status.DENIED, "a call that was judged before the activation is judged again"
        denied = await call("write_file", path="b.txt", content="y")
        assert denied.status is Status.DENIED
        assert "the skill demo restricts tools" in denied.text
        assert (await call("read_file", path="a.txt")).status is Status.OK
        rights.release("s")
        assert (await call("write_file", path="d.txt", content="y")).status is Status.OK
    assert not (shelf.project / "c.txt").exists()


async def test_an_approval_of_a_script_is_for_the_files_that_were_there(desk: Desk) -> None:
    """A person approves later; by then the script is another one."""
    needs_sandbox()
    folder = desk.shelf.mine("demo", text_of(risk="caution"), run_DOT_sh="echo first")
    desk.library.refresh()
    assert (await desk("skill_run", name="demo", script="run.sh")).status is Status.NEEDS_APPROVAL
    (asked,) = await desk.runtime.approvals.list("pending")
    (folder / "run.sh").write_text("echo second")
    await desk.runtime.approvals.answer(asked.id, True, "tester", "")
    assert (await desk("skill_run", name="demo", script="run.sh")).status is Status.NEEDS_APPROVAL
    (folder / "run.sh").write_text("echo first")
    assert "first" in (await desk("skill_run", name="demo", script="run.sh")).text
