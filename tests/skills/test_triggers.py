"""Trigger phrases, Korean and English, and how they match."""

from __future__ import annotations

import pytest

from geode.skills import SkillDefinition, SkillRegistry
from geode.skills.triggers import matches, triggers_in

from .conftest import parse


@pytest.mark.parametrize(
    ("description", "found"),
    [
        ('그래프를 설명한다. "pipeline", "graph" 키워드로 트리거', ["pipeline", "graph"]),
        ('"a", "b", "c", "d" 키워드로 트리거.', ["a", "b", "c", "d"]),
        ('"하나" 키워드로 트리거', ["하나"]),
        ('"파이프라인","토폴로지"키워드로  트리거', ["파이프라인", "토폴로지"]),
        ("“a”, “b” 키워드로 트리거", ["a", "b"]),
        ('Makes reports. Triggers: "report", "monthly numbers"', ["report", "monthly numbers"]),
        ('Makes reports; triggered by "report", "numbers".', ["report", "numbers"]),
        ('Triggered by the word? no. Trigger keywords: "x" or "y"', ["x", "y"]),
        ('Triggers on "a", "b" and "c"', ["a", "b", "c"]),
        ('It says "hello" to people.', []),
        ("키워드로 트리거", []),
        ('Triggers: none. See "docs"', []),
    ],
)
def test_E3_triggers_are_found_in_the_description(description: str, found: list[str]) -> None:
    assert triggers_in(description) == found


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ("[a, b c]", ["a", "b c"]),
        ("a, b c", ["a", "b c"]),
        ('\'"a", "b, c"\'', ["a", "b, c"]),
        ("\n  - a\n  - on", ["a", "on"]),
        ("123", ["123"]),
    ],
)
def test_E3_triggers_by_key(written: str, found: list[str]) -> None:
    skill = parse(f"---\nname: demo\ndescription: d\ntriggers: {written}\n---\n").skill
    assert skill is not None
    assert skill.triggers == found


@pytest.mark.parametrize(
    ("trigger", "said", "hit"),
    [
        ("pipeline", "pipeline 토폴로지 보여줘", True),
        ("pipeline", "PIPELINE을 보여줘", True),
        ("파이프라인", "이 파이프라인을 그려줘", True),
        ("graph", "write a paragraph", False),
        ("graph", "graphs", False),
        ("the", "change the theme", True),
        ("the", "a theme", False),
        ("monthly  numbers", "show monthly\nnumbers now", True),
        ("c++", "in c++ please", True),
        ("ｒｅｐｏｒｔ", "a report", True),
        ("", "anything", False),
    ],
)
def test_a_trigger_matches_words_not_parts_of_words(trigger: str, said: str, hit: bool) -> None:
    assert bool(matches([trigger], said)) is hit


def test_find_by_trigger_orders_by_fit_and_leaves_out_what_a_person_must_call() -> None:
    registry = SkillRegistry(
        [
            SkillDefinition(name="b", triggers=["report"]),
            SkillDefinition(name="a", triggers=["report", "monthly report"]),
            SkillDefinition(name="c", triggers=["report"], model_may_activate=False),
            SkillDefinition(name="d", triggers=["report"], nodes=["analyst"]),
            SkillDefinition(name="e", triggers=["other"]),
        ]
    )
    assert [s.name for s in registry.find_by_trigger("the monthly report")] == ["a", "b"]
    assert registry.find_by_trigger("nothing") == []


def test_long_descriptions_are_searched_in_linear_time() -> None:
    triggers_in('"a", ' * 50_000 + "키워드로 트리거")
    triggers_in('Triggers: "' * 20_000)
