"""One definition in every provider's form, and calls mapped back exactly (R08 R14 R42 R58, E11, E12)."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from geode.core.effects import Effect
from geode.core.errors import InvalidArguments
from geode.tools.formats import (
    Aliases,
    Toolset,
    to_anthropic,
    to_gemini,
    to_mcp,
    to_openai,
    to_openai_responses,
    wire_tool,
)
from geode.tools.registry import ToolRegistry
from geode.tools.schema import PROVIDERS, SchemaError, Validator
from tools.helpers import make_tool, obj

STRING = {"type": "string"}
CLOSED = {"additionalProperties": False}
NAME_RULES = {
    "anthropic": r"[a-zA-Z0-9_-]{1,128}",
    "openai": r"[a-zA-Z0-9_-]{1,64}",
    "gemini": r"[a-zA-Z_][a-zA-Z0-9_-]{0,63}",
}
KEY_RULES = {"anthropic": r"[a-zA-Z0-9_.-]{1,64}", "openai": r".*", "gemini": r"[a-zA-Z_][a-zA-Z0-9_]{0,63}"}
WIRE: tuple[Any, ...] = ("anthropic", "openai", "gemini")


def legal(name: str, dialect: str) -> bool:
    return re.fullmatch(NAME_RULES[dialect], name) is not None


# ---------------------------------------------------------------- R08: names


LONG = "enterprise-database-management__calendar.respondToEvent/v2"


@pytest.mark.parametrize("dialect", WIRE)
@pytest.mark.parametrize(
    "name",
    [
        LONG,
        "a.b",
        "a:b",
        "a/b",
        "a b",
        "1st",
        "날씨_조회",
        "x" * 200,
        "-",
        ".",
        "é",
        "a" * 64,
        "a" * 65,
        "\U0001f600",
        "_",
    ],
)
def test_R08_every_name_gets_a_legal_alias_and_comes_back_exactly(dialect: Any, name: str):
    aliases = Aliases(PROVIDERS[dialect], [name])
    alias = aliases.alias(name)
    assert legal(alias, dialect)
    assert aliases.original(alias) == name
    assert (alias == name) == legal(name, dialect)


def test_R08_the_limits_are_data_per_provider():
    name = "n" * 100
    assert Aliases(PROVIDERS["anthropic"], [name]).alias(name) == name
    assert len(Aliases(PROVIDERS["openai"], [name]).alias(name)) <= 64
    assert Aliases(PROVIDERS["openai"], ["1st"]).alias("1st") == "1st"
    assert Aliases(PROVIDERS["gemini"], ["1st"]).alias("1st").startswith("_1st_")


def test_R08_two_long_names_with_equal_beginnings_stay_two():
    start = "s" * 60
    names = [f"{start}__first_tool", f"{start}__second_tool"]
    aliases = Aliases(PROVIDERS["openai"], names)
    one, two = (aliases.alias(n) for n in names)
    assert one != two
    assert [aliases.original(one), aliases.original(two)] == names


def test_R08_an_alias_is_the_same_in_every_run_and_for_every_set():
    alone = Aliases(PROVIDERS["openai"], [LONG]).alias(LONG)
    assert alone == "enterprise-database-management__calendar_respondToEvent_b124f30d"
    many = Aliases(PROVIDERS["openai"], [f"t{i}" for i in range(100)] + [LONG, "other.name"])
    assert many.alias(LONG) == alone


def test_R08_a_legal_name_that_equals_an_alias_keeps_itself_and_both_come_back():
    alias = Aliases(PROVIDERS["openai"], ["a.b"]).alias("a.b")
    for names in (["a.b", alias], [alias, "a.b"]):
        aliases = Aliases(PROVIDERS["openai"], names)
        assert aliases.alias(alias) == alias
        assert aliases.alias("a.b") != alias
        assert {aliases.original(aliases.alias(n)) for n in names} == set(names)


@given(st.lists(st.text(min_size=1, max_size=90), unique=True, max_size=12), st.sampled_from(WIRE))
@settings(max_examples=150, deadline=None)
def test_R08_alias_mapping_is_a_bijection(names: list[str], dialect: Any):
    aliases = Aliases(PROVIDERS[dialect], names)
    wire = [aliases.alias(n) for n in names]
    assert len(set(wire)) == len(names)
    assert all(legal(w, dialect) for w in wire)
    assert [aliases.original(w) for w in wire] == names
    assert Aliases(PROVIDERS[dialect], reversed(names)).renamed == aliases.renamed


def test_R08_the_request_carries_aliases_and_a_call_comes_back_with_the_original():
    registry = ToolRegistry()
    registry.replace_source("mcp:enterprise-database-management", [make_tool("calendar.respondToEvent/v2")])
    for dialect in WIRE:
        toolset = registry.toolset(dialect)
        (wire,) = toolset.sent
        assert legal(wire.alias, dialect)
        assert wire.name == LONG
        assert toolset.decode(wire.alias, {}) == (LONG, {})
        assert toolset.encode(LONG, {}) == (wire.alias, {})
        assert toolset.decode("unknown", {"a": 1}) == ("unknown", {"a": 1})


# ---------------------------------------------------------------- property names

ODD = {
    **obj(
        **{
            "user name": {**obj(날씨=STRING, ok=STRING), "required": ["날씨"]},
            "$filter": {"type": "array", "items": obj(**{"a/b": {"type": "integer"}})},
            "x" * 70: STRING,
            "plain": STRING,
            "map": {"type": "object", "additionalProperties": obj(**{"in side": STRING})},
            "either": {"anyOf": [obj(**{"one two": STRING}), {"type": "array", "items": obj(**{"3 4": STRING})}]},
            "": STRING,
        }
    ),
    "required": ["user name"],
}
ODD_ARGUMENTS = {
    "user name": {"날씨": "맑음", "ok": "y"},
    "$filter": [{"a/b": 1}, {"a/b": 2, "free key": 3}],
    "x" * 70: "long",
    "plain": "p",
    "map": {"any key at all": {"in side": "v"}},
    "either": [{"3 4": "z"}],
    "": "empty",
}


def keys_of(form: Any) -> set[str]:
    found: set[str] = set()
    if isinstance(form, dict):
        found |= set(form.get("properties", {}))
        for key, value in form.items():
            for sub in value.values() if key == "properties" else [value]:
                found |= keys_of(sub)
    elif isinstance(form, list):
        for sub in form:
            found |= keys_of(sub)
    return found


@pytest.mark.parametrize("dialect", WIRE)
def test_odd_property_names_are_legal_on_the_wire_and_come_back_exactly(dialect: Any):
    wire = wire_tool(make_tool("t", ODD).spec, dialect)
    assert all(re.fullmatch(KEY_RULES[dialect], key) for key in keys_of(wire.parameters))
    sent = wire.codec.encode(ODD_ARGUMENTS)
    assert Validator(wire.parameters).problems(sent) == ()
    assert wire.codec.decode(sent) == ODD_ARGUMENTS
    Validator(ODD).check(wire.codec.decode(sent))


def test_legal_property_names_are_never_changed():
    wire = wire_tool(make_tool("t", obj(a=STRING, **{"b-c.d_e": STRING})).spec, "anthropic")
    assert set(wire.parameters["properties"]) == {"a", "b-c.d_e"}
    assert wire.codec.trivial


def test_a_property_given_under_both_names_is_refused():
    wire = wire_tool(make_tool("t", obj(**{"a b": STRING})).spec, "anthropic")
    (alias,) = wire.parameters["properties"]
    with pytest.raises(InvalidArguments, match="twice"):
        wire.codec.decode({alias: "1", "a b": "2"})
    assert wire.codec.decode({"a b": "2"}) == {"a b": "2"}


@given(
    st.lists(st.text(max_size=70), unique=True, max_size=6),
    st.lists(st.text(max_size=70), unique=True, max_size=4),
    st.sampled_from(WIRE),
)
@settings(max_examples=100, deadline=None)
def test_any_property_names_map_one_to_one(outer: list[str], inner: list[str], dialect: Any):
    nested = obj(**dict.fromkeys(inner, STRING))
    schema = obj(**dict.fromkeys(outer, nested))
    wire = wire_tool(make_tool("t", schema).spec, dialect)
    arguments = {k: dict.fromkeys(inner, "v") for k in outer}
    sent = wire.codec.encode(arguments)
    assert len(wire.parameters["properties"]) == len(outer)
    assert Validator(wire.parameters).problems(sent) == ()
    assert wire.codec.decode(sent) == arguments


# ---------------------------------------------------------------- R42: strict, null and absent


STRICT = {
    **obj(
        q=STRING,
        limit={"type": "integer", "default": 10},
        note={"type": ["string", "null"], "default": None},
        where={**obj(x={"type": "integer"}, y={"type": "integer"}), "required": ["x"], **CLOSED},
        list={"type": "array", "items": {**obj(z=STRING), **CLOSED}},
        must={"type": ["string", "null"]},
    ),
    "required": ["q", "must"],
    **CLOSED,
}


def test_R42_nulls_for_optional_arguments_come_back_as_absent():
    wire = wire_tool(make_tool("t", STRICT).spec, "openai", strict="auto")
    assert wire.strict
    sent = {
        "q": "a",
        "limit": None,
        "note": None,
        "where": {"x": 1, "y": None},
        "list": [{"z": None}, {"z": "b"}],
        "must": None,
    }
    assert Validator(wire.parameters).problems(sent) == ()
    decoded = wire.codec.decode(sent)
    assert decoded == {"q": "a", "where": {"x": 1}, "list": [{}, {"z": "b"}], "must": None}
    assert Validator(STRICT).check(decoded).notes == ()


def test_R42_without_strict_an_explicit_null_stays():
    wire = wire_tool(make_tool("t", STRICT).spec, "openai", strict=False)
    assert not wire.strict
    assert wire.codec.decode({"note": None}) == {"note": None}


def test_R42_strict_off_for_one_tool_does_not_touch_the_others():
    registry = ToolRegistry()
    registry.register(make_tool("good", {**obj(a=STRING), **CLOSED}))
    registry.register(make_tool("url", {**obj(a={"type": "string", "format": "uri"}), **CLOSED}))
    forms = {t["function"]["name"]: t["function"] for t in registry.to_openai_tools()}
    assert forms["good"]["strict"] is True
    assert not forms["url"].get("strict")
    assert forms["url"]["parameters"]["properties"]["a"]["format"] == "uri"
    wires = {w.name: w for w in registry.toolset("openai").sent}
    assert "uri" in wires["url"].why_not_strict


def test_R42_strict_on_demand_says_why_it_cannot_be():
    with pytest.raises(SchemaError, match="other properties"):
        to_openai(make_tool("t", obj(a=STRING)).spec, strict=True)


def test_R42_the_responses_form_always_says_whether_it_is_strict():
    assert to_openai_responses(make_tool("t", obj(a=STRING)).spec)["strict"] is False
    assert to_openai_responses(make_tool("t", {**obj(a=STRING), **CLOSED}).spec)["strict"] is True


# ---------------------------------------------------------------- E11: equal in meaning


def test_E11_the_forms_have_the_same_name_text_and_arguments():
    tool = make_tool(
        "find",
        {**obj(q={"type": "string", "description": "Words."}), "anyOf": [{"required": ["q"]}]},
        description="Finds.\n\nNot for numbers.",
        examples=({"q": "x"},),
    )
    anthropic, openai = to_anthropic(tool.spec), to_openai(tool.spec)["function"]
    responses, gemini = to_openai_responses(tool.spec), to_gemini(tool.spec)
    assert {f["name"] for f in (anthropic, openai, responses, gemini)} == {"find"}
    assert {f["description"] for f in (anthropic, openai, responses, gemini)} == {
        'Finds.\n\nNot for numbers.\n\nGive at least one of: `q`.\nExample: {"q": "x"}'
    }
    assert anthropic["input_schema"] == openai["parameters"] == responses["parameters"]


def test_a_tool_without_description_still_has_a_text():
    assert to_anthropic(make_tool("t", description="").spec)["description"] == "t"


def test_mcp_annotations_claim_only_what_is_declared():
    assert "annotations" not in to_mcp(make_tool("t").spec)
    read = to_mcp(make_tool("t", effects=frozenset({Effect.READ})).spec)["annotations"]
    assert read == {"readOnlyHint": True, "openWorldHint": False}
    write = to_mcp(make_tool("t", effects=frozenset({Effect.DELETE, Effect.NETWORK})).spec)["annotations"]
    assert write == {"readOnlyHint": False, "openWorldHint": True, "destructiveHint": True, "idempotentHint": False}


# ---------------------------------------------------------------- E12 and R14: deferral and caps


def test_E12_above_the_threshold_the_search_comes_first_and_the_rest_is_deferred():
    registry = ToolRegistry()
    for at in range(5):
        registry.register(make_tool(f"t{at}", category="files"))
    assert [t["name"] for t in registry.to_anthropic_tools_with_defer()] == [f"t{i}" for i in range(5)]
    registry.replace_source("mcp:crm", [make_tool("a")])
    first, *rest = registry.to_anthropic_tools_with_defer()
    assert first["name"] == "tool_search"
    assert "defer_loading" not in first
    assert "crm (1), files (5)" in first["description"]
    assert len(rest) == 6
    assert all(t["defer_loading"] is True for t in rest)
    assert len(registry.to_anthropic_tools_with_defer(defer_threshold=6)) == 6


def test_E12_the_registrys_own_search_tool_is_used():
    registry = ToolRegistry()
    own = make_tool("tool_search", obj(query=STRING), description="Our search.")
    registry.replace_source("builtin", [make_tool("a"), own])
    for at in range(6):
        registry.register(make_tool(f"t{at}"))
    tools = registry.to_anthropic_tools_with_defer()
    assert [t["name"] for t in tools].count("tool_search") == 1
    assert tools[0]["description"].startswith("Our search.")
    assert tools[0]["input_schema"]["properties"] == {"query": STRING}


@pytest.mark.parametrize("count", [127, 128, 129, 130, 500])
def test_R14_never_more_than_the_provider_takes_and_the_count_shown_is_the_count_sent(count: int):
    registry = ToolRegistry()
    registry.replace_source("mcp:big", [make_tool(f"t{i:03}") for i in range(count)])
    toolset = registry.toolset("openai")
    assert len(toolset.tools) == len(toolset.sent) == len(registry.to_openai_tools()) == min(count, 128)
    assert len(toolset.deferred) == (0 if count <= 128 else count - 127)
    if count > 128:
        assert toolset.sent[0].name == "tool_search"
    names = {w.name for w in toolset.sent} | set(toolset.deferred)
    assert names - {"tool_search"} == set(registry.names())
    assert len(registry.to_anthropic_tools()) == count


def test_a_deferred_openai_request_carries_the_search_only():
    registry = ToolRegistry()
    for at in range(10):
        registry.register(make_tool(f"t{at}"))
    toolset = registry.toolset("openai", defer_threshold=5)
    assert [w.name for w in toolset.sent] == ["tool_search"]
    assert len(toolset.deferred) == 10
    assert toolset.decode("t3", {"a": 1}) == ("t3", {"a": 1})


def test_a_tool_that_cannot_be_fitted_is_left_out_and_named():
    good, bad = make_tool("good"), make_tool("bad", {"type": "string"})
    toolset = Toolset("anthropic", [good.spec, bad.spec])
    assert [w.name for w in toolset.sent] == ["good"]
    assert "string" in toolset.problems["bad"]


# ---------------------------------------------------------------- the official types


HARD: dict[str, Any] = {
    "plain": obj(a=STRING),
    "odd keys": ODD,
    "root any": {"anyOf": [{**obj(a=STRING), "required": ["a"]}, obj(b={"type": "array"})]},
    "recursive": {
        **obj(n={"$ref": "#/$defs/N"}),
        "$defs": {"N": obj(c={"type": "array", "items": {"$ref": "#/$defs/N"}})},
    },
    "old": {
        "$schema": "http://json-schema.org/draft-04/schema#",
        **obj(a={"type": "number", "minimum": 0, "exclusiveMinimum": True}),
    },
    "strict": STRICT,
    "empty": {},
}


@pytest.mark.parametrize("case", HARD)
def test_every_mcp_form_is_a_tool_of_the_official_sdk(case: str):
    import mcp_types

    spec = make_tool(LONG, HARD[case], title="T", output_schema=HARD[case], effects=frozenset({Effect.READ})).spec
    form = to_mcp(spec)
    tool = mcp_types.Tool.model_validate(form)
    assert tool.input_schema == form["inputSchema"]
    assert tool.model_dump(by_alias=True, exclude_none=True, mode="json") == json.loads(json.dumps(form))


@pytest.mark.slow
def test_every_form_satisfies_the_types_of_the_official_sdks():
    anthropic = pytest.importorskip("anthropic.types")
    chat = pytest.importorskip("openai.types.chat")
    responses = pytest.importorskip("openai.types.responses")
    adapters = {
        to_anthropic: TypeAdapter(anthropic.ToolParam),
        to_openai: TypeAdapter(chat.ChatCompletionFunctionToolParam),
        to_openai_responses: TypeAdapter(responses.FunctionToolParam),
    }
    for schema in HARD.values():
        spec = make_tool(LONG, schema).spec
        for form, adapter in adapters.items():
            made = form(spec)
            checked: Any = adapter.validate_python(made, extra="forbid")
            assert json.loads(json.dumps(checked, default=dict)) == made


def test_a_caller_that_changes_a_form_does_not_change_the_next_one():
    registry = ToolRegistry()
    registry.register(make_tool("x", obj(a=STRING)))
    before = json.dumps(registry.to_anthropic_tools())
    for form in (
        registry.to_anthropic_tools()[0]["input_schema"],
        registry.to_openai_tools()[0]["function"]["parameters"],
    ):
        form["properties"]["a"]["type"] = "integer"
        form["properties"]["b"] = {}
    assert json.dumps(registry.to_anthropic_tools()) == before
