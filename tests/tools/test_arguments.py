"""The text of a call's arguments: whole, or refused (R45, R05)."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from geode.core.errors import InvalidArguments
from geode.tools.schema import read_arguments

WHOLE = {
    "path": "a.txt",
    "content": 'abc \n\t"x" 날씨 \U0001f600',
    "n": -1.5e3,
    "ok": True,
    "no": None,
    "list": [1, {"a": []}],
}


def refused(text: str) -> InvalidArguments:
    with pytest.raises(InvalidArguments) as caught:
        read_arguments(text)
    return caught.value


def test_R45_arguments_cut_by_the_token_limit_are_refused_as_incomplete():
    error = refused('{"path":"a.txt","content":"abc')
    assert "incomplete" in error.message
    assert "smaller" in error.fix


@pytest.mark.parametrize("escaped", [True, False])
def test_R45_a_cut_at_any_place_is_recognised(escaped: bool):
    text = json.dumps(WHOLE, ensure_ascii=escaped)
    for end in range(1, len(text)):
        assert "incomplete" in refused(text[:end]).message, text[:end]
    assert read_arguments(text) == WHOLE


@pytest.mark.parametrize("text", ["", "  \n"])
def test_no_text_means_no_arguments(text: str):
    assert read_arguments(text) == {}


@pytest.mark.parametrize(
    "text",
    [
        "{'a': 1}",
        "{a: 1}",
        "nonsense",
        '{"a": 1} trailing',
        '{"a" 1}',
        '{"a": 1,}',
        "[1",
        "[1]",
        "3",
        '"x"',
        "null",
        '{"a": NaN}',
        '{"a": 1, "a": 2}',
        "[" * 100_000,
    ],
)
def test_what_is_no_object_is_refused_and_never_repaired(text: str):
    assert refused(text).problems


def test_R05_half_a_character_becomes_a_replacement_and_a_pair_stays():
    assert read_arguments('{"a": "x \\ud99c y", "b": "\\ud83d\\ude00", "\\ud800": 1}') == {
        "a": "x \ufffd y",
        "b": "\U0001f600",
        "\ufffd": 1,
    }


@given(st.text(max_size=30))
@settings(max_examples=100, deadline=None)
def test_no_text_crashes(text: str):
    try:
        read_arguments(text)
    except InvalidArguments as error:
        assert error.problems
