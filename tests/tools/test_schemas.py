"""Foreign schemas: brought to 2020-12, fitted to each provider, or refused alone (R22 R23 R29 R41 R42)."""

from __future__ import annotations

import contextlib
import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from geode.core.errors import InvalidArguments
from geode.tools.schema import SchemaError, Validator, check_schema, modernise, normalise, strict_form
from tools.helpers import obj

STRING = {"type": "string"}
DIALECTS: tuple[Any, ...] = ("anthropic", "openai", "gemini", "mcp")
WIRE: tuple[Any, ...] = ("anthropic", "openai", "gemini")


def accepts(schema: Any, arguments: Any) -> bool:
    return Validator(schema).problems(arguments) == ()


def field(schema: Any, dialect: Any = "anthropic") -> Any:
    """The normalised form of one property `f`."""
    return normalise(obj(f=schema), dialect)["properties"]["f"]


# ---------------------------------------------------------------- R22: dialects


def test_R22_draft_07_with_nullable_and_boolean_exclusive_minimum_is_normalised():
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        **obj(n={"type": "integer", "nullable": True, "minimum": 0, "exclusiveMinimum": True}),
    }
    validator = Validator(schema)
    assert validator.check({"n": None}).arguments == {"n": None}
    assert validator.check({"n": 1}).notes == ()
    with pytest.raises(InvalidArguments):
        validator.check({"n": 0})
    for dialect in DIALECTS:
        form = normalise(schema, dialect)
        assert "$schema" not in form
        assert form["properties"]["n"] == {"type": ["integer", "null"], "exclusiveMinimum": 0}


@pytest.mark.parametrize(
    ("source", "modern"),
    [
        (
            {"type": "string", "nullable": True, "enum": ["a", "b"]},
            {"type": ["string", "null"], "enum": ["a", "b", None]},
        ),
        ({"type": "string", "nullable": True, "enum": ["a", None]}, {"type": ["string", "null"], "enum": ["a", None]}),
        ({"type": "string", "nullable": False}, STRING),
        ({"nullable": True}, {}),
        ({"type": "string", "nullable": True, "const": "a"}, {"type": ["string", "null"], "enum": ["a", None]}),
        ({"anyOf": [STRING], "nullable": True}, {"anyOf": [STRING, {"type": "null"}]}),
        ({"type": ["string", "null"], "nullable": True}, {"type": ["string", "null"]}),
        ({"exclusiveMinimum": True}, {}),
        ({"minimum": 2, "exclusiveMinimum": False}, {"minimum": 2}),
        ({"maximum": 2, "exclusiveMaximum": True}, {"exclusiveMaximum": 2}),
        ({"exclusiveMinimum": 3}, {"exclusiveMinimum": 3}),
        ({"items": [STRING, {"type": "integer"}]}, {"prefixItems": [STRING, {"type": "integer"}]}),
        ({"items": [STRING], "additionalItems": False}, {"prefixItems": [STRING], "items": False}),
        ({"items": STRING, "additionalItems": False}, {"items": STRING}),
        ({"items": []}, {}),
        (
            {"dependencies": {"a": ["b"], "c": obj(d=STRING)}},
            {"dependentRequired": {"a": ["b"]}, "dependentSchemas": {"c": obj(d=STRING)}},
        ),
        ({"id": "http://x.example/y", "type": "object"}, {"type": "object", "$id": "http://x.example/y"}),
        ({"id": "#here"}, {"$anchor": "here"}),
        ({"$id": "#here"}, {"$anchor": "here"}),
        ({"$id": "not a uri", "type": "object"}, {"type": "object"}),
        ({"type": "STRING"}, STRING),
        ({"type": "any"}, {}),
        ({"type": ["string", "any"]}, {}),
        ({"type": ["string", "string"]}, {"type": ["string"]}),
        ({"properties": []}, {"properties": {}}),
        (
            {"description": None, "items": None, "enum": None, "default": None, "const": None},
            {"enum": None, "default": None, "const": None},
        ),
        (
            {"properties": {"a": {"type": "string", "required": True}, "b": {"required": False}}},
            {"properties": {"a": STRING, "b": {}}, "required": ["a"]},
        ),
        ({"required": ["a", "a"]}, {"required": ["a"]}),
        ({"$recursiveRef": "#"}, {"$ref": "#"}),
    ],
)
def test_R22_every_old_form_becomes_its_2020_12_form(source: Any, modern: Any):
    before = copy.deepcopy(source)
    assert modernise(source, root=False) == modern
    assert source == before


def test_R22_a_property_called_like_a_keyword_is_a_property():
    names = ["id", "$id", "nullable", "items", "type", "required", "properties", "$ref", "enum", "default", "const"]
    schema = obj(**{name: {"type": "string"} for name in names})
    assert modernise(schema) == schema
    assert Validator(schema).check(dict.fromkeys(names, "x")).notes == ()
    for dialect in DIALECTS:
        assert set(normalise(schema, dialect)["properties"]) == set(names)


@pytest.mark.parametrize(
    "bad",
    [
        {"type": "string"},
        {"type": ["string", "null"]},
        {"type": "object", "properties": {"a": "string"}},
        {"type": "object", "properties": {"a": None, "b": 3}},
        {"type": "object", "properties": {"a": {"type": "strange"}}},
        {"type": "object", "properties": {"a": {"minLength": "3"}}},
        {"type": "object", "properties": {"a": {"enum": "abc"}}},
        {"type": "object", "properties": ["a"]},
        {"type": "object", "required": "a"},
        {"type": "object", "properties": {1: STRING}},
        {1: 2},
        {"type": "object", "anyOf": [3]},
        False,
        None,
        [],
        "object",
    ],
)
def test_R22_what_has_no_meaning_is_refused_with_a_reason(bad: Any):
    with pytest.raises(SchemaError) as caught:
        check_schema(bad)
    assert caught.value.message


@pytest.mark.parametrize("schema", [True, {}, {"properties": {}}, {"type": ["object", "null"]}, {"description": "x"}])
def test_R22_a_root_without_type_is_an_object(schema: Any):
    for dialect in DIALECTS:
        form = normalise(schema, dialect)
        assert form["type"] == "object"
    assert accepts(schema, {"a": 1})


# ---------------------------------------------------------------- R23: alternatives at the root


def test_R23_a_root_any_of_required_groups_is_flattened_and_the_rule_is_kept_as_text():
    schema = {**obj(a=STRING, b=STRING), "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}
    for dialect in WIRE:
        form = normalise(schema, dialect)
        assert not {"anyOf", "oneOf", "allOf"} & set(form)
        assert set(form["properties"]) == {"a", "b"}
        assert "required" not in form
        assert form["description"] == "Give at least one of: `a`; `b`."
    assert not accepts(schema, {})
    assert accepts(schema, {"b": "x"})


def test_R23_three_object_branches_without_properties_of_their_own():
    schema = {
        "anyOf": [
            {**obj(kind={"const": "file"}, path=STRING), "required": ["kind", "path"]},
            {**obj(kind={"const": "url"}, url=STRING), "required": ["kind", "url"]},
            {**obj(kind={"const": "text"}, text=STRING, list={"type": "array"}), "required": ["kind"]},
        ]
    }
    for dialect in WIRE:
        form = normalise(schema, dialect)
        assert form["type"] == "object"
        assert set(form["properties"]) == {"kind", "path", "url", "text", "list"}
        assert form["properties"]["kind"] == {"enum": ["file", "url", "text"]}
        assert form["properties"]["list"]["items"] == {}
        assert form["required"] == ["kind"]
        assert '`kind` = "url", `url`' in form["description"]
    assert accepts(schema, {"kind": "url", "url": "x"})
    assert not accepts(schema, {"kind": "url"})


@pytest.mark.parametrize(
    ("schema", "properties", "required", "text"),
    [
        (
            {"oneOf": [{"required": ["a"]}, {"required": ["b", "c"]}], **obj(a={}, b={}, c={})},
            "abc",
            None,
            "Give exactly one of: `a`; `b` + `c`.",
        ),
        (
            {"allOf": [{**obj(a=STRING), "required": ["a"]}, {**obj(b=STRING), "required": ["b"]}]},
            "ab",
            ["a", "b"],
            None,
        ),
        ({"allOf": [{"anyOf": [obj(a=STRING), obj(b=STRING)]}, obj(c=STRING)]}, "abc", None, "one of these forms"),
        ({"anyOf": [{"anyOf": [obj(a=STRING), obj(b=STRING)]}, obj(c=STRING)]}, "abc", None, "one of these forms"),
        ({**obj(a=STRING), "not": {"required": ["a", "b"]}}, "a", None, "Not allowed"),
        (
            {**obj(a=STRING), "if": {"required": ["a"]}, "then": {**obj(b=STRING), "required": ["b"]}},
            "ab",
            None,
            "If the arguments satisfy",
        ),
        (
            {
                "anyOf": [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/B"}],
                "$defs": {"A": obj(a=STRING), "B": obj(b=STRING)},
            },
            "ab",
            None,
            "one of these forms",
        ),
        ({"$ref": "#/definitions/A", "definitions": {"A": {**obj(a=STRING), "required": ["a"]}}}, "a", ["a"], None),
        ({"anyOf": [{"type": "string"}, obj(a=STRING)]}, "a", None, "one of these forms"),
        ({"anyOf": [True, obj(a=STRING)]}, "a", None, "one of these forms"),
        ({"anyOf": []}, "", None, None),
    ],
)
def test_R23_every_combination_at_the_root(schema: Any, properties: str, required: Any, text: Any):
    for dialect in WIRE:
        form = normalise(schema, dialect)
        assert not {"anyOf", "oneOf", "allOf", "not", "if", "enum", "$ref"} & set(form)
        assert set(form["properties"]) == set(properties)
        assert form.get("required") == required
        assert (text is None) == ("description" not in form)
        assert text is None or text in form["description"]


def test_R23_one_property_with_different_schemas_in_two_branches_accepts_both():
    schema = {"oneOf": [obj(v=STRING), obj(v={"type": "integer"})]}
    assert normalise(schema)["properties"]["v"] == {"anyOf": [STRING, {"type": "integer"}]}


def test_R23_branches_that_are_closed_stay_closed():
    closed = {"additionalProperties": False}
    assert (
        normalise({"anyOf": [{**obj(a=STRING), **closed}, {**obj(b=STRING), **closed}]})["additionalProperties"]
        is False
    )
    assert "additionalProperties" not in normalise({"anyOf": [{**obj(a=STRING), **closed}, obj(b=STRING)]})


def test_R23_alternatives_below_the_root_stay():
    assert field({"anyOf": [STRING, {"type": "integer"}]}) == {"anyOf": [STRING, {"type": "integer"}]}


# ---------------------------------------------------------------- R29: arrays without items


@pytest.mark.parametrize("dialect", WIRE)
def test_R29_items_are_added_at_every_depth_and_the_source_is_unchanged(dialect: Any):
    schema = obj(
        tags={"type": "array"},
        maybe={"type": ["array", "null"]},
        deep=obj(inner={"type": "array", "items": {"type": "array"}}),
        either={"anyOf": [{"type": "array"}, {"type": "null"}]},
        true={"type": "array", "items": True},
        map={"type": "object", "additionalProperties": {"type": "array"}},
        ref={"$ref": "#/$defs/L"},
    ) | {"$defs": {"L": {"type": "array"}}}
    before = copy.deepcopy(schema)
    named = normalise(schema, dialect)["properties"]
    assert schema == before
    assert named["tags"]["items"] == {}
    assert named["maybe"] == {"type": ["array", "null"], "items": {}}
    assert named["deep"]["properties"]["inner"]["items"] == {"type": "array", "items": {}}
    assert named["either"]["anyOf"][0] == {"type": "array", "items": {}}
    assert named["true"]["items"] == {}
    assert named["map"]["additionalProperties"]["items"] == {}
    assert named["ref"]["items"] == {}


def test_R29_tuples_become_what_the_provider_understands():
    closed = {"type": "array", "items": [STRING, {"type": "integer"}], "additionalItems": False}
    assert field(closed, "anthropic") == {"type": "array", "prefixItems": [STRING, {"type": "integer"}], "items": False}
    assert field(closed, "openai") == {
        "type": "array",
        "maxItems": 2,
        "items": {"anyOf": [STRING, {"type": "integer"}]},
        "description": "In this order: string, integer.",
    }
    assert field({"type": "array", "items": [STRING]}, "openai")["items"] == {}


# ---------------------------------------------------------------- R41: references


def test_R41a_a_recursive_definition_is_cut_with_its_type_kept():
    node = {**obj(v=STRING, children={"type": "array", "items": {"$ref": "#/$defs/Node"}}), "required": ["v"]}
    schema = {**obj(root={"$ref": "#/$defs/Node"}), "$defs": {"Node": node}}
    for dialect in WIRE:
        form = normalise(schema, dialect)
        assert "$ref" not in json.dumps(form)
        first = form["properties"]["root"]["properties"]["children"]["items"]
        second = first["properties"]["children"]["items"]
        assert first["properties"]["v"] == STRING
        assert second["type"] == "object"
        assert "properties" not in second
    tree = {"v": "a", "children": [{"v": "b", "children": [{"v": "c", "children": [{"v": "d"}]}]}]}
    assert accepts(schema, {"root": tree})
    tree["children"][0]["children"][0]["children"][0] = {"x": 1}  # type: ignore[index]
    assert Validator(schema).problems({"root": tree}) == (
        "$.root.children[0].children[0].children[0]: 'v' is required",
    )


def test_R41b_one_definition_used_twice_is_expanded_twice():
    schema = {**obj(a={"$ref": "#/$defs/Addr"}, b={"$ref": "#/$defs/Addr"}), "$defs": {"Addr": obj(street=STRING)}}
    named = normalise(schema)["properties"]
    assert named["a"] == named["b"] == obj(street=STRING)


def test_R41c_a_reference_into_the_properties_is_followed():
    schema = obj(data={"type": "array", "items": {"type": "integer"}}, one={"$ref": "#/properties/data/items"})
    assert normalise(schema)["properties"]["one"] == {"type": "integer"}
    assert not accepts(schema, {"one": "x"})


def test_R41d_a_description_beside_a_reference_is_kept():
    schema = {
        **obj(a={"$ref": "#/$defs/A", "description": "mine"}),
        "$defs": {"A": {"type": "string", "description": "its"}},
    }
    assert normalise(schema)["properties"]["a"] == {"type": "string", "description": "mine"}


def test_R41d_a_rule_beside_a_reference_is_kept():
    schema = {**obj(a={"$ref": "#/$defs/A", "maxLength": 3}), "$defs": {"A": {"type": "string", "maxLength": 5}}}
    assert normalise(schema)["properties"]["a"] == {"type": "string", "maxLength": 3}
    assert not accepts(schema, {"a": "abcd"})


def test_R41e_a_dangling_reference_names_itself():
    for ref in ("#/$defs/No", "#/definitions/No", "#/properties/no/items", "#nowhere"):
        with pytest.raises(SchemaError):
            check_schema(obj(a={"$ref": ref}))


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({**obj(f={"$ref": "#/definitions/A"}), "definitions": {"A": STRING}}, STRING),
        ({**obj(f={"$ref": "#/$defs/a~1b"}), "$defs": {"a/b": STRING}}, STRING),
        ({**obj(f={"$ref": "#/$defs/a%20b"}), "$defs": {"a b": STRING}}, STRING),
        ({**obj(f={"$ref": "#here"}), "$defs": {"x": {"$anchor": "here", "type": "string"}}}, STRING),
        ({"$id": "http://x.example/root.json", **obj(f={"$ref": "#/$defs/A"}), "$defs": {"A": STRING}}, STRING),
        (
            {"$id": "http://x.example/root.json", **obj(f={"$ref": "root.json#/$defs/A"}), "$defs": {"A": STRING}},
            STRING,
        ),
        (
            {
                "$id": "http://x.example/root.json",
                **obj(f={"$ref": "a.json"}),
                "$defs": {"A": {"$id": "a.json", "type": "string"}},
            },
            STRING,
        ),
        ({**obj(f={"$ref": "#/$defs/A"}), "$defs": {"A": {"$ref": "#/$defs/B"}, "B": STRING}}, STRING),
        ({**obj(f={"$ref": "#/$defs/A"}), "$defs": {"A": True}}, {}),
        ({**obj(f={"$ref": "#/$defs/A"}), "$defs": {"A": {"$ref": "#/$defs/A"}}}, None),
        ({**obj(f={"$ref": "#/$defs/A"}), "$defs": {"A": {"$ref": "#/$defs/B"}, "B": {"$ref": "#/$defs/A"}}}, None),
        ({**obj(f={"anyOf": [{"$ref": "#"}, {"type": "null"}]})}, None),
        (
            {**obj(f={"allOf": [{"$ref": "#/$defs/A"}], "description": "d"}), "$defs": {"A": STRING}},
            {"type": "string", "description": "d"},
        ),
        ({**obj(f={"items": {"$ref": "#/properties/f"}, "type": "array"})}, None),
    ],
)
def test_R41_every_kind_of_reference(schema: Any, expected: Any):
    check_schema(schema)
    for dialect in WIRE:
        form = normalise(schema, dialect)
        assert "$ref" not in json.dumps(form)
        if expected is not None:
            assert form["properties"]["f"] == expected


@pytest.mark.timeout(20)
def test_R41_definitions_that_double_stay_small():
    defs: dict[str, Any] = {
        f"d{i}": obj(a={"$ref": f"#/$defs/d{i + 1}"}, b={"$ref": f"#/$defs/d{i + 1}"}) for i in range(40)
    }
    schema = {**obj(f={"$ref": "#/$defs/d0"}), "$defs": {**defs, "d40": STRING}}
    check_schema(schema)
    assert len(json.dumps(normalise(schema))) < 1_000_000


def test_R41_alternatives_that_double_are_refused():
    for key in ("anyOf", "oneOf", "allOf"):
        defs: dict[str, Any] = {f"d{i}": {key: [{"$ref": f"#/$defs/d{i + 1}"}] * 2} for i in range(40)}
        with pytest.raises(SchemaError, match="multiply"):
            check_schema({**obj(f={"$ref": "#/$defs/d0"}), "$defs": {**defs, "d40": STRING}})


def test_R41_a_long_chain_of_references_does_not_overflow():
    defs: dict[str, Any] = {f"d{i}": {"$ref": f"#/$defs/d{i + 1}"} for i in range(5000)}
    with pytest.raises(SchemaError, match="levels"):
        check_schema({**obj(f={"$ref": "#/$defs/d0"}), "$defs": {**defs, "d5000": STRING}})


@pytest.mark.timeout(20)  # listing every branch of every level takes minutes
def test_a_wrong_value_for_a_recursive_schema_with_alternatives_is_answered():
    branches = [
        {
            **obj(op={"const": f"o{i}"}, args={"type": "array", "items": {"$ref": "#/$defs/n"}}),
            "required": ["op", "args"],
        }
        for i in range(6)
    ]
    schema = {**obj(filter={"$ref": "#/$defs/n"}), "$defs": {"n": {"anyOf": [*branches, STRING]}}}
    value: Any = 1
    for _ in range(9):
        value = {"op": "o5", "args": [value]}
    assert Validator(schema).problems({"filter": value})
    assert Validator(schema).problems({"filter": {"op": "o9", "args": []}})[0].startswith("$.filter")


# ---------------------------------------------------------------- R42: strict mode


def strict(schema: Any) -> Any:
    return strict_form(normalise(schema, "openai"))


CLOSED = {"additionalProperties": False}


def test_R42_an_optional_argument_with_default_qualifies_and_becomes_nullable():
    form, reason = strict({**obj(q=STRING, limit={"type": "integer", "default": 10}), "required": ["q"], **CLOSED})
    assert reason == ""
    assert form["required"] == ["q", "limit"]
    assert form["properties"]["limit"] == {"type": ["integer", "null"], "description": "Default: 10."}
    assert form["properties"]["q"] == STRING


@pytest.mark.parametrize(
    "part",
    [
        {"type": "string", "format": "uri"},
        {"oneOf": [STRING, {"type": "integer"}]},
        {"type": "object"},
        obj(a=STRING),
        {"type": "object", "additionalProperties": STRING},
        {"type": "array"},
        {},
        {"type": "string", "minLength": 3},
        {"type": "string", "pattern": "^(?!a)"},
        {"not": STRING},
        {"type": "array", "items": STRING, "uniqueItems": True},
        {"type": ["string", "null"], "default": "x"},
        {"enum": [{"a": 1}]},
        {"type": "object", "patternProperties": {"a": STRING}, **CLOSED},
    ],
)
@pytest.mark.parametrize("place", ["direct", "defs", "items", "any_of", "deep"])
def test_R42_one_part_that_cannot_be_strict_turns_strict_off(part: Any, place: str):
    where: Any = {
        "direct": part,
        "defs": {"$ref": "#/$defs/P"},
        "items": {"type": "array", "items": part},
        "any_of": {"anyOf": [part, {"type": "boolean"}]},
        "deep": {**obj(x=part), **CLOSED},
    }[place]
    if place in ("items", "any_of") and "default" in part:
        return  # a default means nothing there
    form, reason = strict({**obj(f=where), **CLOSED, "$defs": {"P": part}})
    assert form is None
    assert reason


def test_R42_an_open_root_is_not_strict():
    assert strict(obj(a=STRING))[0] is None


@pytest.mark.parametrize(
    ("part", "nullable"),
    [
        ({"enum": ["a"], "type": "string"}, {"enum": ["a", None], "type": ["string", "null"]}),
        ({"enum": ["a"]}, {"enum": ["a", None]}),
        ({"const": "a"}, {"anyOf": [{"const": "a"}, {"type": "null"}]}),
        ({"anyOf": [STRING, {"type": "integer"}]}, {"anyOf": [STRING, {"type": "integer"}, {"type": "null"}]}),
        ({"type": ["string", "null"]}, {"type": ["string", "null"]}),
        ({"type": ["string", "null"], "default": None}, {"type": ["string", "null"]}),
        ({"type": "string", "format": "date-time"}, {"type": ["string", "null"], "format": "date-time"}),
        (
            {"type": "array", "items": STRING, "maxItems": 3},
            {"type": ["array", "null"], "items": STRING, "maxItems": 3},
        ),
    ],
)
def test_R42_every_optional_part_accepts_null_in_strict_form(part: Any, nullable: Any):
    form, _ = strict({**obj(f=part), **CLOSED})
    assert form["properties"]["f"] == nullable


def test_R42_too_many_enum_values_or_levels_turn_strict_off():
    many = {"type": "string", "enum": [f"value {i}" for i in range(1001)]}
    assert strict_form({**obj(f=many), **CLOSED, "required": ["f"]})[0] is None
    deep: Any = STRING
    for _ in range(12):
        deep = {**obj(f=deep), **CLOSED}
    assert strict(deep)[0] is None


# ---------------------------------------------------------------- near variants


def test_a_huge_enum_is_described_and_still_checked():
    values = [f"v{i}" for i in range(5000)]
    schema = obj(f={"type": "string", "enum": values})
    for dialect in WIRE:
        form = normalise(schema, dialect)["properties"]["f"]
        assert "enum" not in form
        assert "5000 values" in form["description"]
    assert not accepts(schema, {"f": "other"})
    assert accepts(schema, {"f": "v4999"})


def test_two_hundred_properties_are_all_there():
    schema = obj(**{f"p{i}": {"type": "array"} for i in range(200)})
    for dialect in DIALECTS:
        assert len(normalise(schema, dialect)["properties"]) == 200


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ({"const": None}, {"const": None}),
        ({"enum": [None]}, {"enum": [None]}),
        ({"type": "string", "format": "made-up"}, {"type": "string", "format": "made-up"}),
        (True, {}),
        ({"type": "object", "properties": {"x": True, "y": False}}, {"type": "object", "properties": {"x": {}}}),
        ({"anyOf": [True, STRING]}, {"anyOf": [{}, STRING]}),
        ({"x-vendor": 1, "example": "e", "$comment": "c", "type": "string"}, STRING),
        (
            {"allOf": [{"type": "number", "minimum": 1}, {"type": "integer", "minimum": 3}]},
            {"type": "integer", "minimum": 3},
        ),
        ({"allOf": [{"enum": [1, 2]}, {"enum": [2, 3]}]}, {"enum": [2]}),
    ],
)
def test_odd_parts(part: Any, expected: Any):
    assert field(part) == expected


def test_a_property_that_is_never_allowed_is_not_shown_and_is_refused():
    schema = obj(a=False, b=STRING)
    assert set(normalise(schema)["properties"]) == {"b"}
    assert not accepts(schema, {"a": 1})


def test_an_all_of_that_contradicts_itself_does_not_crash():
    for dialect in DIALECTS:
        normalise(obj(f={"allOf": [STRING, {"type": "integer"}]}), dialect)
        normalise({"allOf": [obj(a=STRING), False]}, dialect)


def test_a_name_required_but_not_declared_is_shown():
    assert normalise({**obj(), "required": ["a"]})["properties"] == {"a": {}}


# ---------------------------------------------------------------- properties


KEYS = st.sampled_from(
    "type properties items required anyOf oneOf allOf not if then else $ref $defs definitions enum const nullable "
    "additionalProperties patternProperties prefixItems pattern format minimum exclusiveMinimum default description "
    "dependencies dependentSchemas dependentRequired $id id $anchor $schema title examples minLength propertyNames "
    "contains unevaluatedProperties additionalItems $dynamicRef $recursiveRef x-extra".split()
)
WORDS = st.sampled_from(
    [
        "object",
        "array",
        "string",
        "integer",
        "null",
        "any",
        "#",
        "#/$defs/a",
        "#/definitions/b",
        "#/properties/a",
        "#x",
        "http://x.example/y",
        "a",
        "b",
        "^a+$",
        "([",
        "date-time",
        "",
        "ключ",
        "a b",
    ]
)
LEAF = WORDS | st.none() | st.booleans() | st.integers(-3, 3) | st.floats(allow_nan=False, allow_infinity=False)
ANY = st.recursive(
    LEAF,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(KEYS | WORDS, inner, max_size=4)
        | st.fixed_dictionaries({"type": WORDS, "properties": st.dictionaries(WORDS, inner, max_size=3)})
    ),
    max_leaves=20,
)
ROOT = (
    ANY
    | st.fixed_dictionaries(
        {
            "type": st.just("object"),
            "properties": st.dictionaries(WORDS, ANY, max_size=3),
            "$defs": st.dictionaries(WORDS, ANY, max_size=2),
        }
    )
    | st.dictionaries(KEYS, ANY, max_size=6)
)


@given(ROOT)
@settings(max_examples=150, deadline=None)
def test_no_schema_crashes_anything_and_a_checked_one_has_every_form(schema: Any):
    before = copy.deepcopy(schema)
    try:
        check_schema(schema)
    except SchemaError:
        for dialect in DIALECTS:
            with contextlib.suppress(SchemaError):
                normalise(schema, dialect)
        return
    finally:
        assert schema == before
    for dialect in DIALECTS:
        form = normalise(schema, dialect)
        assert form["type"] == "object"
        json.dumps(form)
        if dialect != "mcp":
            assert not {"anyOf", "oneOf", "allOf", "$ref", "enum", "not"} & set(form)
            assert isinstance(form["properties"], dict)
            check_schema(form)
    strict_form(normalise(schema, "openai"))


VALUE = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["a", "b", ""]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=5,
)
SANE = st.recursive(
    st.sampled_from(
        [
            STRING,
            {"type": "integer", "minimum": 0},
            {"enum": ["a", 1, None]},
            {"type": "null"},
            True,
            {},
            {"const": "b"},
        ]
    ),
    lambda inner: (
        st.builds(lambda a, b: {**obj(a=a, b=b)}, inner, inner)
        | st.builds(lambda a: {**obj(a=a), "required": ["a"]}, inner)
        | st.builds(lambda a: {**obj(a=a), **CLOSED}, inner)
        | st.builds(lambda a: {"type": "array", "items": a}, inner)
        | st.builds(lambda k, a, b: {k: [a, b]}, st.sampled_from(["anyOf", "oneOf", "allOf"]), inner, inner)
        | st.builds(lambda a: {"type": "array", "items": [a, a], "additionalItems": False}, inner)
        | st.just({"$ref": "#/$defs/n"})
    ),
    max_leaves=6,
)


@given(
    st.dictionaries(st.sampled_from("ab"), SANE, max_size=2),
    SANE,
    st.dictionaries(st.sampled_from("ab"), VALUE, max_size=2),
)
@settings(max_examples=150, deadline=None)
def test_a_form_allows_everything_its_source_allows(named: Any, definition: Any, arguments: Any):
    schema = {**obj(**named), "$defs": {"n": definition}}
    try:
        validator = Validator(schema)
    except SchemaError:
        return
    if validator.problems(arguments):
        return
    for dialect in DIALECTS:
        assert Validator(normalise(schema, dialect)).problems(arguments) == (), dialect


@given(
    SANE, SANE, st.sampled_from(["anyOf", "oneOf", "allOf"]), st.dictionaries(st.sampled_from("ab"), VALUE, max_size=2)
)
@settings(max_examples=150, deadline=None)
def test_R23_a_flattened_root_allows_everything_its_source_allows(a: Any, b: Any, key: str, arguments: Any):
    closed = [{**obj(a=x, c=STRING), **CLOSED} for x in (a, b)]
    schema = {"type": "object", key: closed, "$defs": {"n": obj(a=STRING)}}
    try:
        validator = Validator(schema)
    except SchemaError:
        return
    if validator.problems(arguments):
        return
    for dialect in DIALECTS:
        assert Validator(normalise(schema, dialect)).problems(arguments) == (), dialect
