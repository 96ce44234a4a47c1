"""Sources, precedence, status, stable snapshots, names that are nearly right, and the way to the gate."""

from __future__ import annotations

import asyncio
import itertools
import json
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from geode.core.call import Call
from geode.core.effects import Effect, Origin
from geode.core.errors import ConfigError, GeodeError, UnknownTool
from geode.core.events import ToolsChanged
from geode.core.messages import Status, Text, ToolResult
from geode.tools.registry import ToolRegistry
from geode.tools.tool import Tool
from tools.helpers import make_tool, obj, run_raw

BAD = {"type": "object", "properties": {"a": {"$ref": "#/$defs/No"}}}


class Door:
    """A `Caller` that answers at once and remembers the calls."""

    def __init__(self) -> None:
        self.calls: list[Call] = []

    async def call(self, call: Call) -> ToolResult:
        self.calls.append(call)
        await asyncio.sleep(0)
        return ToolResult(call_id=call.id, tool=call.tool, status=Status.OK, content=(Text("done"),))


class Foreign:
    """Somebody else's tool; no base class."""

    name = "foreign"
    description = "Adds."
    parameters: dict[str, Any] = obj(a={"type": "integer"})

    def execute(self, **kwargs: Any) -> dict[str, Any]:
        return {"sum": kwargs["a"] + 1}


# ---------------------------------------------------------------- sources and precedence


def test_precedence_is_builtin_definitions_code_mcp_for_bare_names():
    registry = ToolRegistry()
    registry.register(make_tool("x", description="code"))
    registry.replace_source("definitions", [make_tool("x", description="declared")])
    assert registry.entry("x").source == "definitions"
    registry.replace_source("builtin", [make_tool("x", description="built in")])
    assert registry.entry("x").source == "builtin"
    assert registry.names() == ("x",)
    assert sorted((e.source, e.status) for e in registry.entries()) == [
        ("builtin", "active"),
        ("code", "shadowed"),
        ("definitions", "shadowed"),
    ]
    assert len(registry.problems()) == 2
    registry.remove_source("builtin")
    assert registry.entry("x").source == "definitions"
    registry.remove_source("definitions")
    assert registry.entry("x").source == "code"
    assert registry.problems() == ()


def test_a_built_in_is_never_shadowed_by_anything_else():
    registry = ToolRegistry()
    registry.replace_source("builtin", [make_tool("read_file")])
    for source in ("code", "plugin:p"):
        with pytest.raises(ConfigError, match="built-in"):
            registry.register(make_tool("read_file"), source=source)
    for source in ("definitions", "plugin:p", "mcp:s"):
        registry.replace_source(source, [make_tool("read_file")])
        assert registry.entry("read_file").source == "builtin"
    with pytest.raises(ConfigError):
        registry.register(make_tool("read_file"), source="plugin:p2", replace=True)
    assert registry.register(make_tool("read_file", description="mine"), replace=True).status == "active"
    registry.replace_source("definitions", [make_tool("read_file")])
    assert registry.entry("read_file").spec.description == "mine"


def test_the_same_name_twice_in_one_source_is_refused_not_merged():
    registry = ToolRegistry()
    first = registry.register(make_tool("x", description="first"))
    with pytest.raises(ConfigError, match="already"):
        registry.register(make_tool("x", description="second"))
    assert registry.entry("x").digest == first.digest
    registry.register(make_tool("x", description="second"), replace=True)
    assert registry.entry("x").spec.description == "second"


def test_mcp_tools_are_exposed_under_their_servers_name_whatever_they_are_called():
    registry = ToolRegistry()
    registry.replace_source("mcp:files", [make_tool("read"), make_tool("files__read"), make_tool("other__read")])
    names = {e.name: e.spec.original_name for e in registry.entries()}
    assert names == {
        "files__read": "read",
        "files__files__read": "files__read",
        "files__other__read": "other__read",
    }
    assert all(e.spec.server == "files" for e in registry.entries())


def test_a_tool_that_a_hub_has_named_already_is_not_named_twice():
    registry = ToolRegistry()
    registry.replace_source("mcp:a", [make_tool("a__x", original_name="x", server="a")])
    assert registry.names() == ("a__x",)


@pytest.mark.parametrize("order", list(itertools.permutations(["mcp:a", "mcp:a__b"])))
def test_a_name_two_servers_share_belongs_to_the_server_with_the_longer_name_in_any_order(order: tuple[str, ...]):
    registry = ToolRegistry()
    tools = {"mcp:a": make_tool("b__c"), "mcp:a__b": make_tool("c")}
    for source in order:
        registry.replace_source(source, [tools[source]])
    assert registry.entry("a__b__c").source == "mcp:a__b"
    (problem,) = registry.problems()
    assert (problem.source, problem.status) == ("mcp:a", "shadowed")
    assert "mcp:a__b" in problem.reason


def test_a_server_that_lists_a_tool_twice_gets_the_first_and_a_report():
    registry = ToolRegistry()
    registry.replace_source("mcp:s", [make_tool("x", description="1"), make_tool("x", description="2")])
    assert registry.entry("s__x").spec.description == "1"
    assert "two tools of this name" in registry.problems()[0].reason


# ---------------------------------------------------------------- R22: one bad tool


def test_R22_one_bad_schema_quarantines_that_tool_and_names_it_with_its_server():
    registry = ToolRegistry()
    good = [make_tool(f"t{i}", obj(a={"type": "string"})) for i in range(40)]
    registry.replace_source("mcp:crm", [*good[:20], make_tool("broken", BAD), *good[20:]])
    assert len(registry.names()) == 40
    (problem,) = registry.problems()
    assert problem.tool == "crm__broken"
    assert problem.server == "crm"
    assert "crm" in problem.reason and "broken" in problem.reason and "'/$defs/No'" in problem.reason
    assert len(registry.to_anthropic_tools()) == len(registry.to_openai_tools()) == len(registry.to_mcp_tools()) == 40
    assert registry.entry("crm__broken").status == "quarantined"
    with pytest.raises(UnknownTool, match="quarantined"):
        registry.get("crm__broken")


@pytest.mark.parametrize("schema", [None, "x", 3, [], False, {"type": "array"}, {1: 2}])
def test_R22_any_kind_of_nonsense_is_quarantined(schema: Any):
    registry = ToolRegistry()
    tool = make_tool("x").with_spec(parameters=schema)
    registry.replace_source("mcp:s", [tool, make_tool("y")])
    assert registry.names() == ("s__y",)
    assert registry.problems()[0].status == "quarantined"
    assert all(e.digest for e in registry.entries())


@pytest.mark.parametrize("name", ["", "  ", " x", "x\n", "a\x00b", "n" * 300])
def test_a_name_that_cannot_be_used_is_quarantined(name: str):
    registry = ToolRegistry()
    registry.replace_source("definitions", [make_tool(name)])
    assert registry.names() == ()
    assert registry.problems()


def test_R22_a_bad_output_schema_does_not_cost_the_tool():
    registry = ToolRegistry()
    for at, output in enumerate([{"$ref": "#/no"}, {"type": "strange"}, {"type": "string"}, {"properties": 3}]):
        registry.replace_source(f"mcp:s{at}", [make_tool("x", output_schema=output)])
    assert len(registry.names()) == 4
    for form in registry.to_mcp_tools():
        assert form.get("outputSchema", {"type": "object"})["type"] == "object"


def test_a_tool_held_back_from_outside_is_quarantined_until_it_is_released():
    registry = ToolRegistry()
    registry.replace_source("mcp:s", [make_tool("x")])
    registry.quarantine("s__x", "its description has changed")
    assert registry.names() == ()
    assert "changed" in registry.problems()[0].reason
    registry.replace_source("mcp:s", [make_tool("x")])
    assert registry.names() == ()
    registry.release("s__x")
    assert registry.names() == ("s__x",)


# ---------------------------------------------------------------- R36: order


TOOLS = [
    ("mcp:a", "z"),
    ("mcp:a", "b"),
    ("mcp:b", "m"),
    ("code", "q"),
    ("code", "c"),
    ("plugin:p", "k"),
    ("builtin", "r"),
]


@given(st.permutations(TOOLS))
@settings(max_examples=60, deadline=None)
def test_R36_the_same_set_gives_the_same_bytes_in_whatever_order_it_came(order: list[tuple[str, str]]):
    def build(pairs: list[tuple[str, str]]) -> ToolRegistry:
        registry = ToolRegistry()
        grouped: dict[str, list[str]] = {}
        for source, name in pairs:
            grouped.setdefault(source, []).append(name)
            registry.replace_source(source, [make_tool(n) for n in grouped[source]])
        return registry

    one, other = build(TOOLS), build(order)
    for form in (ToolRegistry.to_anthropic_tools, ToolRegistry.to_openai_tools, ToolRegistry.to_mcp_tools):
        assert json.dumps(form(one)) == json.dumps(form(other))
    assert one.snapshot().digest == other.snapshot().digest


def test_R36_a_server_that_reconnects_with_the_same_tools_changes_nothing():
    registry = ToolRegistry()
    registry.replace_source("mcp:a", [make_tool("z"), make_tool("m")])
    before = registry.snapshot()
    change = registry.replace_source("mcp:a", [make_tool("m"), make_tool("z")])
    assert change == ToolsChanged()
    assert registry.snapshot() is before


def test_a_snapshot_stays_as_it_was():
    registry = ToolRegistry()
    registry.register(make_tool("a"))
    snapshot = registry.snapshot()
    registry.register(make_tool("b"))
    assert snapshot.names == ("a",)
    assert registry.snapshot().names == ("a", "b")
    assert registry.snapshot().version > snapshot.version
    with pytest.raises(TypeError):
        snapshot.by_name["c"] = registry.entry("b")  # type: ignore[index]


def test_changes_are_told_to_subscribers_exactly():
    registry = ToolRegistry()
    seen: list[Any] = []
    stop = registry.subscribe(seen.append)
    registry.replace_source("mcp:s", [make_tool("a"), make_tool("b")])
    registry.replace_source("mcp:s", [make_tool("a", description="new"), make_tool("c")])
    registry.replace_source("mcp:s", [make_tool("a", description="new"), make_tool("c")])
    stop()
    registry.remove_source("mcp:s")
    assert seen == [
        ToolsChanged(added=("s__a", "s__b")),
        ToolsChanged(added=("s__c",), removed=("s__b",), changed=("s__a",)),
    ]


def test_R24_a_tool_that_was_withdrawn_is_refused_as_no_longer_offered():
    registry = ToolRegistry()
    registry.replace_source("mcp:s", [make_tool("a")])
    registry.replace_source("mcp:s", [])
    with pytest.raises(UnknownTool, match="no longer offered by mcp:s"):
        registry.entry("s__a")
    registry.replace_source("mcp:s", [make_tool("a")])
    assert registry.entry("s__a").status == "active"


def test_the_digest_covers_what_a_model_is_told_and_the_effects():
    base = make_tool("x", obj(a={"type": "string"}), effects=frozenset({Effect.READ}))
    registry = ToolRegistry()
    digests: set[str] = set()
    for tool in (
        base,
        base.with_spec(description="other"),
        base.with_spec(parameters=obj(a={"type": "integer"})),
        base.with_spec(effects=frozenset({Effect.WRITE})),
        base.with_spec(effects=None),
        base.with_spec(title="other"),
        base.with_spec(output_schema={"type": "object"}),
    ):
        digests.add(registry.register(tool, replace=True).digest)
    assert len(digests) == 7


# ---------------------------------------------------------------- R44: names


@pytest.fixture
def named() -> ToolRegistry:
    registry = ToolRegistry()
    registry.replace_source(
        "builtin", [make_tool(n) for n in ("read_file", "view", "bash", "tool_search", "Delete", "delete")]
    )
    registry.replace_source("mcp:git-hub", [make_tool("create_issue"), make_tool("functions.odd")])
    return registry


@pytest.mark.parametrize(
    ("raw", "meant"),
    [
        ("read_file", "read_file"),
        (" read_file", "read_file"),
        ("read_file \n", "read_file"),
        ("`read_file`", "read_file"),
        ('"read_file"', "read_file"),
        ("default_api:view", "view"),
        ("functions.bash", "bash"),
        ("functions:bash", "bash"),
        ("tools/bash", "bash"),
        ("Read_File", "read_file"),
        ("read-file", "read_file"),
        ("read_file()", "read_file"),
        ("git_hub__create_issue", "git-hub__create_issue"),
        ("git-hub__functions.odd", "git-hub__functions.odd"),
        ("creating:view", None),
        ("evil.view", None),
        ("DELETE", None),
        ("execute_python", None),
        ("create_issue", None),
        ("read_files", None),
        ("", None),
        ("functions.", None),
        ("\x00", None),
    ],
)
def test_R44_only_a_unique_spelling_of_one_name_is_taken(named: ToolRegistry, raw: str, meant: str | None):
    assert named.resolve_name(raw) == meant


@pytest.mark.parametrize(
    ("raw", "close"),
    [
        ("creating:view", "view"),
        ("create_issue", "git-hub__create_issue"),
        ("github__create_issue", "git-hub__create_issue"),
        ("readfile", "read_file"),
        ("read_fil", "read_file"),
        ("issue_create", "git-hub__create_issue"),
    ],
)
def test_R44_an_unknown_name_is_answered_with_the_closest(named: ToolRegistry, raw: str, close: str):
    with pytest.raises(UnknownTool) as caught:
        named.entry(raw)
    assert caught.value.closest[0] == close
    assert close in caught.value.fix


def test_R44_nothing_similar_gives_no_suggestion(named: ToolRegistry):
    assert named.closest("qqqqq") == ()
    assert named.closest("x" * 100_000) == ()


def test_R44_a_quarantined_tools_name_never_resolves_to_another_tool(named: ToolRegistry):
    named.replace_source("definitions", [make_tool("Read-File", BAD)])
    assert named.resolve_name("Read-File") is None
    assert named.entry("Read-File").status == "quarantined"


@given(st.text(max_size=20))
@settings(max_examples=100, deadline=None)
def test_R44_no_name_crashes_and_what_resolves_exists(raw: str):
    registry = ToolRegistry()
    registry.replace_source("builtin", [make_tool("read_file"), make_tool("view")])
    assert registry.resolve_name(raw) in (None, "read_file", "view")
    registry.closest(raw)


# ---------------------------------------------------------------- the way to the gate


def test_a_tool_from_the_registry_runs_through_the_bound_caller_only(tmp_path: Path):
    registry = ToolRegistry()
    registry.register(make_tool("x", obj(a={"type": "integer"})))
    bound = registry.get("x")
    assert isinstance(bound, Tool)
    with pytest.raises(GeodeError, match="gate"):
        bound.execute(a=1)
    door = Door()
    registry.bind(door, call_options={"cwd": tmp_path, "mode": "read_only"})
    result = bound.execute(a=1)
    assert (result["status"], result["content"]) == ("ok", "done")
    (call,) = door.calls
    assert (call.tool, dict(call.arguments), call.origin) == ("x", {"a": 1}, Origin.LIBRARY)
    assert (call.cwd, call.mode) == (tmp_path, "read_only")


async def test_a_plain_call_works_inside_a_running_loop_and_from_another_thread():
    registry = ToolRegistry()
    registry.register(make_tool("x"))
    door = Door()
    registry.bind(door)
    assert registry.get("x").execute()["status"] == "ok"
    assert (await asyncio.to_thread(registry.get("x").execute))["status"] == "ok"
    assert (await registry.get("x").aexecute())["status"] == "ok"
    assert len(door.calls) == 3


async def test_a_plain_call_that_would_block_its_own_loop_is_refused_with_the_way_out():
    registry = ToolRegistry()
    registry.replace_source("mcp:s", [make_tool("x")])
    registry.bind(Door())
    with pytest.raises(GeodeError) as caught:
        registry.get("s__x").execute()
    assert "aexecute" in caught.value.fix


async def test_a_foreign_tool_is_wrapped_and_undeclared_effects_stay_undeclared():
    registry = ToolRegistry()
    assert isinstance(Foreign(), Tool)
    entry = registry.register(Foreign())
    assert entry.spec.effects is None
    assert await run_raw(entry.tool, None, {"a": 2}) == {"sum": 3}


def test_many_threads_register_at_once_without_losing_a_tool():
    registry = ToolRegistry()

    def work(source: int) -> None:
        for at in range(20):
            registry.register(make_tool(f"t{source}_{at}"), source=f"plugin:{source}")

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(registry) == 160


def test_len_contains_and_unregister():
    registry = ToolRegistry()
    registry.register(make_tool("x", description="code"))
    registry.replace_source("definitions", [make_tool("x")])
    assert "x" in registry and len(registry) == 1
    assert registry.unregister("x")
    assert registry.entry("x").source == "code"
    assert registry.unregister("x")
    assert not registry.unregister("x")
    assert "x" not in registry


def test_R36_revealed_tools_are_appended_in_the_order_in_which_they_were_found():
    registry = ToolRegistry()
    registry.replace_source("mcp:s", [make_tool(n) for n in "zam"])
    first = registry.toolset("anthropic", names=["s__m"]).tools
    more = registry.toolset("anthropic", names=["s__m", "s__z", "s__a"]).tools
    assert json.dumps(more)[: len(json.dumps(first)) - 1] == json.dumps(first)[:-1]
    with pytest.raises(UnknownTool):
        registry.toolset("anthropic", names=["s__gone"])
