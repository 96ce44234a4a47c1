"""Arguments are checked strictly, with every problem named, and are not changed silently."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from geode.core.errors import InvalidArguments
from geode.tools.schema import SchemaError, Validator, check_schema
from tools.helpers import obj

STRING = {"type": "string"}


def problems(schema: Any, arguments: Any) -> tuple[str, ...]:
    with pytest.raises(InvalidArguments) as caught:
        Validator(schema).check(arguments)
    return caught.value.problems


def test_valid_arguments_come_back_equal_and_without_notes():
    arguments = {"a": "“curly” ‘quotes’ — and\tblanks ", "n": 3.0, "none": None, "empty": []}
    checked = Validator({"type": "object"}).check(arguments)
    assert checked.arguments == arguments
    assert checked.notes == ()


def test_all_problems_are_reported_each_with_its_path():
    schema = {
        **obj(
            a={"type": "string", "minLength": 4},
            n={"type": "integer", "maximum": 3},
            when={"type": "string", "format": "date-time"},
            list={"type": "array", "items": obj(x={"type": "integer"})},
        ),
        "required": ["b"],
        "additionalProperties": False,
    }
    found = problems(schema, {"a": "x", "n": 9, "when": "tomorrow", "list": [{"x": 1}, {"x": "y"}], "list2": 1})
    assert len(found) == 6
    text = "\n".join(found)
    for expected in ("$.a:", "$.n:", "$.when:", "$.list[1].x: expected integer", "'b' is required", "mean 'list'"):
        assert expected in text


def test_an_odd_key_is_quoted_in_its_path():
    assert problems(obj(**{"a b": STRING}), {"a b": 1}) == ('$["a b"]: expected string, got number 1',)


@pytest.mark.parametrize("arguments", [None, [], "x", 3, '{"a": 1}'])
def test_arguments_that_are_no_object_are_refused(arguments: Any):
    assert "must be a JSON object" in problems({}, arguments)[0]


@pytest.mark.parametrize(
    "value",
    [float("nan"), float("inf"), {1: 2}, {"a": {2: 3}}, object(), b"bytes", {"deep": "\ud800"}, 1 + 2j],
)
def test_what_is_not_json_is_refused_and_does_not_crash(value: Any):
    assert problems({}, {"v": value})


def test_arguments_nested_too_deep_are_refused():
    deep: Any = 1
    for _ in range(5000):
        deep = [deep]
    assert "nested deeper" in problems({}, {"v": deep})[0]


def test_a_boolean_is_no_number_and_a_number_no_text():
    assert problems(obj(n={"type": "integer"}), {"n": True})
    assert problems(obj(n={"type": "number"}), {"n": "3"})
    assert problems(obj(s=STRING), {"s": 3})


def test_the_preview_of_a_huge_value_is_short():
    found = problems(obj(n={"type": "integer"}), {"n": "x" * 100_000})
    assert len(found[0]) < 300


def test_many_problems_are_cut():
    found = problems(
        {"type": "object", "additionalProperties": {"type": "integer"}}, {f"k{i}": "x" for i in range(500)}
    )
    assert len(found) <= 21


# ---------------------------------------------------------------- ruling 3: JSON text for an array or object


@pytest.mark.parametrize(
    ("field", "text", "value"),
    [
        ({"type": "array"}, "[1, 2]", [1, 2]),
        ({"type": "object"}, '{"x": 1}', {"x": 1}),
        ({"type": ["array", "null"]}, " [ ] ", []),
        ({"anyOf": [{"type": "array", "items": STRING}, {"type": "null"}]}, '["a"]', ["a"]),
        ({"$ref": "#/$defs/T"}, '{"x": 1}', {"x": 1}),
    ],
)
def test_ruling_3_a_json_text_is_read_only_after_the_check_failed_and_it_is_reported(field: Any, text: str, value: Any):
    schema = {**obj(f=field), "$defs": {"T": {"type": "object", "required": ["x"]}}}
    checked = Validator(schema).check({"f": text})
    assert checked.arguments == {"f": value}
    assert len(checked.notes) == 1
    assert "$.f" in checked.notes[0]


@pytest.mark.parametrize(
    "field",
    [
        STRING,
        {},
        True,
        {"type": ["string", "array"]},
        {"anyOf": [{"type": "array"}, STRING]},
        {"oneOf": [{"type": "object"}, {"type": "string", "minLength": 2}]},
    ],
)
def test_ruling_3_a_text_stays_a_text_where_a_text_is_allowed(field: Any):
    checked = Validator(obj(f=field)).check({"f": "[1]"})
    assert checked.arguments == {"f": "[1]"}
    assert checked.notes == ()


@pytest.mark.parametrize(
    "field",
    [
        {"type": "string", "maxLength": 2},
        {"type": ["string", "array"], "maxLength": 2},
        {"anyOf": [{"type": "array"}, {"type": "string", "maxLength": 2}]},
        {"type": "integer"},
        {"type": "array", "items": STRING},
    ],
)
def test_ruling_3_a_text_that_fails_for_another_reason_is_not_read(field: Any):
    assert problems(obj(f=field), {"f": "[1, 2]"})


@pytest.mark.parametrize("text", ["[1,", "nonsense", "3", '"[1]"', "[NaN]", '{"a":1,"a":2}', "[" * 5000 + "]" * 5000])
def test_ruling_3_a_text_that_is_no_json_array_or_object_is_refused(text: str):
    assert problems(obj(f={"type": ["array", "object"]}), {"f": text})


def test_ruling_3_inside_arrays_and_several_at_once():
    schema = obj(list={"type": "array", "items": {"type": "object"}}, other={"type": "array"})
    checked = Validator(schema).check({"list": ['{"a": 1}', {"b": 2}], "other": "[]"})
    assert checked.arguments == {"list": [{"a": 1}, {"b": 2}], "other": []}
    assert len(checked.notes) == 2


def test_the_callers_own_objects_are_never_changed():
    inner = {"list": "[1]"}
    arguments = {"o": inner}
    schema = obj(o=obj(list={"type": "array"}))
    assert Validator(schema).check(arguments).arguments == {"o": {"list": [1]}}
    assert arguments == {"o": {"list": "[1]"}}


# ---------------------------------------------------------------- R72: unset optionals


def test_R72_null_for_an_optional_that_takes_no_null_is_left_out_and_reported():
    checked = Validator(obj(q=STRING, n={"type": "integer"})).check({"q": None, "n": 1})
    assert checked.arguments == {"n": 1}
    assert "$.q" in checked.notes[0]


def test_R72_an_explicit_null_is_kept_where_null_is_allowed():
    schema = obj(q={"type": ["string", "null"], "default": None}, r={"anyOf": [STRING, {"type": "null"}]}, s={})
    checked = Validator(schema).check({"q": None, "r": None, "s": None})
    assert checked.arguments == {"q": None, "r": None, "s": None}
    assert checked.notes == ()


def test_R72_null_for_a_required_argument_is_refused():
    assert problems({**obj(q=STRING), "required": ["q"]}, {"q": None})


def test_R72_an_empty_required_array_is_kept():
    checked = Validator({**obj(list={"type": "array"}), "required": ["list"]}).check({"list": []})
    assert checked.arguments == {"list": []}


def test_R72_defaults_are_never_put_in():
    checked = Validator(obj(q={"type": "string", "default": "x"}, n={"type": "integer", "default": None})).check({})
    assert checked.arguments == {}


def test_R72_nested_and_repeated():
    schema = obj(o={**obj(q=STRING, list={"type": "array", "items": obj(z=STRING)})})
    checked = Validator(schema).check({"o": {"q": None, "list": [{"z": None}, {"z": "a"}]}})
    assert checked.arguments == {"o": {"list": [{}, {"z": "a"}]}}


# ---------------------------------------------------------------- hostile schemas


def test_a_reference_to_another_document_is_never_fetched():
    for ref in ("http://127.0.0.1:9/x", "https://example.com/s.json", "file:///etc/passwd", "other.json#/x"):
        with pytest.raises(SchemaError):
            check_schema(obj(a={"$ref": ref}))


@pytest.mark.timeout(20)
def test_a_catastrophic_pattern_ends():
    for pattern in (r"^(a+)+$", r"^(?=a)(a|a)*\1b$", r"^(?!x)((a+)+)+\1$", r"^(\w+\s?)*$"):
        Validator(obj(f={"type": "string", "pattern": pattern})).problems({"f": "a" * 3000 + "!"})


def test_a_pattern_in_another_dialect_does_not_cost_the_tool():
    validator = Validator(obj(f={"type": "string", "pattern": "([", "description": "Text."}))
    assert validator.check({"f": "anything"}).notes == ()
    assert validator.schema["properties"]["f"]["description"] == "Text. (Pattern: ([)"


def test_a_deep_schema_is_refused_and_a_recursive_one_is_not():
    deep: Any = STRING
    for _ in range(3000):
        deep = obj(a=deep)
    with pytest.raises(SchemaError, match="deeper"):
        check_schema(deep)
    Validator({"type": "object", "properties": {"a": {"$ref": "#"}}}).check({"a": {"a": {}}})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.text(max_size=5), JSON, max_size=5))
@settings(max_examples=200, deadline=None)
def test_an_open_schema_gives_back_exactly_what_it_was_given(arguments: dict[str, Any]):
    checked = Validator({"type": "object"}).check(arguments)
    assert json.dumps(checked.arguments) == json.dumps(arguments)
    assert checked.notes == ()


FIELD = st.sampled_from(
    [
        STRING,
        {"type": "integer"},
        {"type": "array"},
        {"type": "array", "items": STRING},
        {"type": ["array", "null"]},
        {"type": "object"},
        {"type": ["string", "null"]},
        {"anyOf": [STRING, {"type": "array"}]},
        {"enum": ["a", 1, None]},
        {"type": "boolean"},
    ]
)


@given(
    st.dictionaries(st.sampled_from("abc"), FIELD, min_size=1),
    st.dictionaries(st.sampled_from("abcd"), JSON | st.sampled_from(["[1]", '["x"]', "{}", "null"]), max_size=4),
)
@settings(max_examples=150, deadline=None)
def test_arguments_change_only_when_a_note_says_so_and_then_they_satisfy_the_schema(
    fields: dict[str, Any], arguments: dict[str, Any]
):
    validator = Validator(obj(**fields))
    try:
        checked = validator.check(arguments)
    except InvalidArguments as error:
        assert error.problems
        return
    assert validator.problems(checked.arguments) == ()
    assert (json.dumps(checked.arguments) == json.dumps(arguments)) is (checked.notes == ())
