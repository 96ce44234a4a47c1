"""Arguments filled into a skill's text."""

from __future__ import annotations

import pytest

from geode.skills import SkillDefinition, activation_text, render

AWK = "Run $1 on $2.\n\n```sh\nawk '{print $1}' $ARGUMENTS\n```\n\nAll: $ARGUMENTS\n"


def test_R70_fenced_code_stays_and_quoted_arguments_stay_one() -> None:
    text = render(AWK, 'ZULU "YANK EE"')
    assert text == "Run ZULU on YANK EE.\n\n```sh\nawk '{print $1}' $ARGUMENTS\n```\n\nAll: ZULU \"YANK EE\"\n"


def test_R70_one_pass_only() -> None:
    assert render("$1|$2|$ARGUMENTS", "'$2' '$ARGUMENTS'") == "$2|$ARGUMENTS|'$2' '$ARGUMENTS'"


def test_R70_without_arguments_no_placeholder_is_left() -> None:
    assert render("a $ARGUMENTS b $1 c $ARGUMENTS[0]") == "a  b  c "
    assert "$1" in render(AWK)


def test_R70_arguments_nobody_asked_for_are_not_lost() -> None:
    assert render("Do it.", "a b") == "Do it.\n\nARGUMENTS: a b"
    assert render("```\n$1\n```", "a").endswith("ARGUMENTS: a")


def test_R70_inline_commands_stay_text() -> None:
    assert render("Now !`rm -rf $1` and !`ls`", "x") == "Now !`rm -rf x` and !`ls`"


@pytest.mark.parametrize(
    ("body", "arguments", "expected"),
    [
        ("$1", "it's", "it's"),
        ("$10 $100 $1.50 $1x", "a", "$10 $100 $1.50 $1x\n\nARGUMENTS: a"),
        (r"\$1 \$ARGUMENTS $1", "a", "$1 $ARGUMENTS a"),
        ("$ARGUMENTS[0]-$ARGUMENTS[1]-$ARGUMENTS[9]", "a b", "a-b-"),
        ("$ARGUMENTSX", "a", "$ARGUMENTSX\n\nARGUMENTS: a"),
        ("~~~\n$1\n~~~\n$1", "a", "~~~\n$1\n~~~\na"),
        ("````\n```\n$1\n````\n$1", "a", "````\n```\n$1\n````\na"),
        ("```\n$1\nnever closed $ARGUMENTS", "", "```\n$1\nnever closed $ARGUMENTS"),
        ("1. step\n   ```\n   $1\n   ```\n   $1", "a", "1. step\n   ```\n   $1\n   ```\n   a"),
        ("```a`b``` $1", "x", "```a`b``` x"),
        ("한글 $1", '"두 단어"', "한글 두 단어"),
    ],
)
def test_R70_near_variants(body: str, arguments: str, expected: str) -> None:
    assert render(body, arguments) == expected


def test_R38_the_text_states_the_absolute_folder_and_how_to_reach_its_files() -> None:
    skill = SkillDefinition(name="demo", body="run scripts/hello.sh in ${SKILL_DIR}", folder="/skills/demo")
    text = activation_text(skill, files=["SKILL.md", "scripts/hello.sh"])
    assert "Folder: /skills/demo" in text
    assert "skill_run(name='demo'" in text
    assert "Files: scripts/hello.sh" in text
    assert "in /skills/demo" in text


def test_R70_a_fork_reads_the_same_text() -> None:
    plain = SkillDefinition(name="demo", body=AWK)
    forked = SkillDefinition(name="demo", body=AWK, extra={"context": "fork"})
    assert activation_text(plain, "a b") == activation_text(forked, "a b")


def test_restrictions_are_told() -> None:
    text = activation_text(SkillDefinition(name="demo", tools=["read_file"], denied_tools=["shell_exec"]))
    assert "only these tools may be used: read_file" in text
    assert "may not be used: shell_exec" in text
