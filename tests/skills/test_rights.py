"""What an active skill may pre-approve and what it restricts (R63, R88, ruling 6)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from geode.core.call import Call, Decision, TraceStep, Verdict
from geode.core.effects import Effect, Impact, Origin, Scope
from geode.skills import SkillDefinition, SkillRegistry, SkillRights
from geode.skills.grants import resolve_grants

ASK = Verdict(
    Decision.ASK,
    (TraceStep("run-program", Decision.ASK, "asks"),),
    (Impact(Effect.EXECUTE, "git push", Scope.UNKNOWN),),
)


def call(
    tool: str = "shell_exec", /, *, session: str = "s", origin: Origin = Origin.MODEL, taint: str = "", **arguments: Any
) -> Call:
    return Call(
        tool=tool, arguments=arguments, origin=origin, cwd=Path("/p"), session=session,
        taint=frozenset({taint} if taint else ()),
    )  # fmt: skip


def rights_of(*skills: SkillDefinition, **more: Any) -> SkillRights:
    rights = SkillRights(SkillRegistry(skills), **more)
    for skill in skills:
        rights.activate("s", skill)
    return rights


def skill(name: str = "demo", **fields: Any) -> SkillDefinition:
    return SkillDefinition(name=name, **fields)


async def decision(rights: SkillRights, made: Call, verdict: Verdict = ASK) -> Decision:
    return (await rights.judge(made, verdict)).decision


# ---------------------------------------------------------------- pre-approval


async def test_R63_allowed_tools_answers_a_question_and_says_so() -> None:
    rights = rights_of(skill(allowed_tools=["Bash(git:*)"]))
    verdict = await rights.judge(call(command="git push origin main"), ASK)
    assert verdict.decision is Decision.ALLOW
    assert verdict.trace[-1].policy == "skill:demo"
    assert "Bash(git:*)" in verdict.trace[-1].reason


async def test_R63_allowed_tools_does_not_restrict() -> None:
    rights = rights_of(skill(allowed_tools=["Read", "Grep"]))
    assert rights.restriction(call("write_file", path="a")) is None
    assert await decision(rights, call("write_file", path="a")) is Decision.ASK


async def test_a_denial_is_never_lifted() -> None:
    rights = rights_of(skill(allowed_tools=["Bash"]))
    denied = Verdict(Decision.DENY, (TraceStep("x", Decision.DENY, "no"),))
    assert await decision(rights, call(command="rm -rf ~"), denied) is Decision.DENY


@pytest.mark.parametrize(
    "command",
    [
        "git push; rm -rf x", "git push && x", "git log | sh", "git $(x)", "git `x`", "gitx push", "x=1 git push",
        "git push\nrm x", "sh -c 'git push'", "", "git > f", "git 'unclosed", "env git push", "\\git push",
    ],
)  # fmt: skip
async def test_a_pattern_covers_only_the_plain_command(command: str) -> None:
    assert await decision(rights_of(skill(allowed_tools=["Bash(git:*)"])), call(command=command)) is Decision.ASK


@pytest.mark.parametrize(
    ("pattern", "command", "covered"),
    [
        ("Bash(git status)", "git status", True),
        ("Bash(git status)", "git status -s", False),
        ("Bash(npm run test:*)", "npm run test --x 'a b'", True),
        ("Bash(npm run test:*)", "npm run other", False),
        ("Bash(git *)", "git log", True),
        ("Bash(g*t)", "git", False),
        ("Bash(*)", "anything at all", True),
        ("Bash", "anything; at all", True),
    ],
)
async def test_command_patterns(pattern: str, command: str, covered: bool) -> None:
    found = await decision(rights_of(skill(allowed_tools=[pattern])), call(command=command))
    assert (found is Decision.ALLOW) is covered


@pytest.mark.parametrize(
    ("pattern", "path", "covered"),
    [
        ("Write(docs/**)", "docs/a/b.md", True),
        ("Write(docs/*.md)", "docs/a.md", True),
        ("Write(docs/*.md)", "docs/a/b.md", False),
        ("Write(docs/**)", "docs/../secret", False),
        ("Write(docs/**)", "/etc/passwd", False),
        ("Write(docs/**)", "src/a", False),
    ],
)
async def test_path_patterns(pattern: str, path: str, covered: bool) -> None:
    asked = Verdict(Decision.ASK, ASK.trace, (Impact(Effect.WRITE, path, Scope.WORKSPACE),))
    found = await decision(rights_of(skill(allowed_tools=[pattern])), call("write_file", path=path), asked)
    assert (found is Decision.ALLOW) is covered


@pytest.mark.parametrize(
    "changed",
    [
        {"risk": "caution"}, {"risk": "dangerous"}, {"recovered": True}, {"origin": "mcp:server"},
        {"allowed_tools": ["*"]}, {"allowed_tools": ["Unheard"]},
    ],
    ids=str,
)  # fmt: skip
async def test_skills_that_pre_approve_nothing(changed: dict[str, Any]) -> None:
    fields = {"allowed_tools": ["Bash"], **changed}
    assert await decision(rights_of(skill(**fields)), call(command="git push")) is Decision.ASK


@pytest.mark.parametrize(
    "impact",
    [
        Impact(Effect.PRIVILEGE, "sudo", Scope.UNKNOWN),
        Impact(Effect.CONFIGURE, "x", Scope.GEODE),
        Impact(Effect.SPEND, "x", Scope.SERVICE),
        Impact(Effect.READ, "~/.ssh", Scope.SECRET),
        Impact(Effect.READ, "~/x", Scope.HOME),
        Impact(Effect.WRITE, ".git/hooks/x", Scope.PROTECTED),
        Impact(Effect.NETWORK, "10.0.0.1", Scope.PRIVATE_NET),
    ],
    ids=str,
)
async def test_effects_that_always_ask(impact: Impact) -> None:
    asked = Verdict(Decision.ASK, ASK.trace, (*ASK.impacts, impact))
    assert await decision(rights_of(skill(allowed_tools=["Bash"])), call(command="git push"), asked) is Decision.ASK


async def test_only_the_active_skill_of_this_session_counts_and_only_for_the_model() -> None:
    rights = rights_of(skill(allowed_tools=["Bash"]))
    assert await decision(rights, call(command="x", session="other")) is Decision.ASK
    assert await decision(rights, call(command="x", origin=Origin.GATEWAY)) is Decision.ASK
    assert await decision(rights, call(command="x", taint="web")) is Decision.ASK
    assert await decision(rights, call(command="x")) is Decision.ALLOW
    rights.release("s")
    assert await decision(rights, call(command="x")) is Decision.ASK


async def test_the_persons_own_questions_stay() -> None:
    rights = rights_of(skill(allowed_tools=["Bash"]), liftable=lambda policy: policy != "run-program")
    assert await decision(rights, call(command="x")) is Decision.ASK


async def test_a_skill_that_changed_or_was_withdrawn_pre_approves_nothing_more() -> None:
    one = skill(allowed_tools=["Bash"])
    registry = SkillRegistry([one])
    rights = SkillRights(registry)
    rights.activate("s", one)
    registry.replace([skill(allowed_tools=["Bash"], body="other")])
    assert await decision(rights, call(command="x")) is Decision.ASK
    registry.replace([])
    assert await decision(rights, call(command="x")) is Decision.ASK


# ---------------------------------------------------------------- restriction


def test_R63_tools_restricts_while_active() -> None:
    rights = rights_of(skill(tools=["Read", "Bash(git:*)"]))
    assert rights.restriction(call("read_file", path="a")) is None
    assert rights.restriction(call(command="git log")) is None
    step = rights.restriction(call(command="rm x"))
    assert step is not None
    assert step.verdict is Decision.DENY
    assert "Read" in step.reason
    assert rights.restriction(call("write_file", path="a")) is not None
    assert rights.restriction(call("skill_read", name="demo")) is None
    assert rights.restriction(call("skill_run", name="demo", script="x")) is not None
    assert rights.restriction(call("write_file", path="a", origin=Origin.USER)) is None
    assert rights.restriction(call("write_file", path="a", session="other")) is None
    rights.release("s", "demo")
    assert rights.restriction(call("write_file", path="a")) is None


def test_another_skill_does_not_lift_a_restriction() -> None:
    rights = rights_of(skill("a", tools=["read_file"]), skill("b", tools=["write_file"]), skill("c"))
    assert rights.restriction(call("write_file", path="a")) is not None
    assert rights.restriction(call("read_file", path="a")) is not None


def test_an_empty_restriction_leaves_nothing_and_a_forbidden_tool_is_forbidden() -> None:
    assert rights_of(skill(restricts=True)).restriction(call("read_file", path="a")) is not None
    rights = rights_of(skill(denied_tools=["Write"]))
    assert rights.restriction(call("write_file", path="a")) is not None
    assert rights.restriction(call("read_file", path="a")) is None


def test_a_skill_that_may_run_anything_may_run_its_own_scripts() -> None:
    rights = rights_of(skill(tools=["Bash"]))
    assert rights.restriction(call("skill_run", name="demo", script="x")) is None
    assert rights.restriction(call("skill_run", name="other", script="x")) is not None


# ---------------------------------------------------------------- R88: names of other agents


def test_R88_foreign_names_are_mapped_or_reported() -> None:
    installed = {"read_file", "shell_exec", "linear__create"}
    grants, unknown = resolve_grants(
        ["Bash(git:*)", "WebFetch", "Read", "mcp__linear__create", "shell_exec", "Unheard", "*", "mcp__*__x", "a b"],
        installed.__contains__,
    )
    assert {g.written: g.tools for g in grants} == {
        "Bash(git:*)": ("shell_exec",),
        "Read": ("read_file",),
        "mcp__linear__create": ("linear__create",),
        "shell_exec": ("shell_exec",),
    }
    assert unknown == ("WebFetch", "Unheard", "*", "mcp__*__x", "a b")


def test_a_whole_server_may_be_named_but_not_every_server() -> None:
    grants, unknown = resolve_grants(["mcp__linear", "mcp__", "mcp__*"])
    assert [g.tools for g in grants] == [("linear__*",)]
    assert unknown == ("mcp__", "mcp__*")
    assert grants[0].covers("linear__create", {})
    assert not grants[0].covers("github__create", {})


# ---------------------------------------------------------------- skills of servers


RUNS = (Impact(Effect.EXECUTE, "print(1)", Scope.SANDBOX),)


def test_after_a_servers_skill_was_read_programs_ask_until_the_session_ends() -> None:
    rights = rights_of(skill("srv:demo", origin="mcp:srv", digest="1"))
    rights.release("s")  # the person speaks again; the text is still in the context
    step = rights.restriction(call("code_interpreter"), RUNS)
    assert step is not None and step.verdict is Decision.ASK
    assert rights.restriction(call("code_interpreter", session="other"), RUNS) is None
    assert rights.restriction(call("code_interpreter", origin=Origin.USER), RUNS) is None
    assert rights.restriction(call("read_file"), (Impact(Effect.READ, "a", Scope.WORKSPACE),)) is None
    assert rights.was_read("s", skill("srv:demo", origin="mcp:srv", digest="1"))
    assert not rights.was_read("s", skill("srv:demo", origin="mcp:srv", digest="2"))
    rights.end("s")
    assert rights.restriction(call("code_interpreter"), RUNS) is None


async def test_no_other_skill_answers_that_question() -> None:
    foreign = skill("srv:demo", origin="mcp:srv", allowed_tools=["Bash"])
    rights = rights_of(skill(allowed_tools=["Bash", "skill_run"]), foreign, liftable={"run-program"}.__contains__)
    step = rights.restriction(call(command="git push"), ASK.impacts)
    assert step is not None
    asked = Verdict(Decision.ASK, (*ASK.trace, step), ASK.impacts)
    assert await decision(rights, call(command="git push"), asked) is Decision.ASK


def test_a_person_may_let_a_model_read_what_only_they_may_call() -> None:
    mine = skill("srv:demo", origin="mcp:srv", model_may_activate=False)
    rights = SkillRights(SkillRegistry([mine]))
    assert not rights.may_activate("s", mine)
    rights.invite("s", mine.name)
    assert rights.may_activate("s", mine)
    rights.release("s")
    assert not rights.may_activate("s", mine)
