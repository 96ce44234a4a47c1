"""Skills while people and a model talk."""

from __future__ import annotations

from geode.skills import SkillRights
from geode.skills.conversation import ConversationSkills

from .conftest import Shelf, text_of


def talk(shelf: Shelf) -> tuple[ConversationSkills, SkillRights]:
    library = shelf.open()
    rights = SkillRights(library.registry)
    return ConversationSkills(library, rights, "s"), rights


def test_E17_a_skill_added_during_a_conversation_is_told_in_the_next_turn_and_the_prompt_stays(shelf: Shelf) -> None:
    shelf.mine("old")
    skills, _ = talk(shelf)
    prompt = skills.context_block()
    assert skills.news() == ""
    shelf.theirs("new", text_of("new", 'Makes charts. Triggers: "chart"'))
    (activation,) = skills.activate("draw a chart")
    assert activation.name == "new"
    assert "Do it." in activation.text
    assert "**new**: Makes charts." in skills.news()
    assert "new" not in prompt
    assert skills.news() == ""


def test_E3_the_persons_words_activate_and_their_next_words_end_it(shelf: Shelf) -> None:
    shelf.mine("a", text_of("a", "d", triggers="[report]"))
    skills, rights = talk(shelf)
    assert [a.name for a in skills.activate("make the report")] == ["a"]
    assert rights.active("s") == ["a"]
    assert skills.activate("thanks") == []
    assert rights.active("s") == []


def test_a_person_calls_a_skill_by_name_with_arguments(shelf: Shelf) -> None:
    shelf.mine("deploy", text_of("deploy", "d", body="To $1, all: $ARGUMENTS", risk="dangerous",
                                 disable_model_invocation="true"))  # fmt: skip
    skills, rights = talk(shelf)
    (activation,) = skills.activate('/deploy staging "now please"')
    assert 'To staging, all: staging "now please"' in activation.text
    assert rights.active("s") == ["deploy"]
    assert skills.activate("/unknown x") == []
    assert "deploy" not in skills.context_block()


def test_a_dangerous_skill_is_not_activated_by_a_trigger(shelf: Shelf) -> None:
    shelf.mine("a", text_of("a", "d", triggers="[report]", risk="dangerous"))
    skills, rights = talk(shelf)
    (offer,) = skills.activate("report")
    assert "not active" in offer.text
    assert "Do it." not in offer.text
    assert rights.active("s") == []


def test_not_more_than_three_are_activated_at_once(shelf: Shelf) -> None:
    for number in range(5):
        shelf.mine(f"s{number}", text_of(f"s{number}", "d", triggers="[report]"))
    skills, rights = talk(shelf)
    assert len(skills.activate("report")) == 5
    assert rights.active("s") == ["s0", "s1", "s2"]
    skills.close()
    assert rights.active("s") == []
