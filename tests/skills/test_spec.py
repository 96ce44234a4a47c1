"""The rules of the Agent Skills specification, as its reference validator applies them: strict mode."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest

from geode.core.errors import UsageError
from geode.skills.findings import errors_of
from geode.skills.install import check_skill, skill_folder
from geode.skills.loader import skill_file


def check(root: Path, folder: str, front: str, file: str = "SKILL.md") -> list[str]:
    place = root / folder
    place.mkdir(parents=True)
    (place / file).write_text(f"---\n{front}\n---\nBody\n", encoding="utf-8")
    return [f.problem for f in errors_of(check_skill(place).findings, strict=True)]


GOOD = "description: What it does and when"


@pytest.mark.parametrize(
    ("folder", "front"),
    [
        ("my-skill", f"name: my-skill\n{GOOD}"),
        ("my-skill", f"name: my-skill\n{GOOD}\nlicense: MIT\nmetadata:\n  author: Somebody\n  version: 1.0"),
        ("my-skill", f"name: my-skill\n{GOOD}\nallowed-tools: Bash(jq:*) Bash(git:*)"),
        ("my-skill", f"name: my-skill\n{GOOD}\nallowed-tools: [Read, Write, Edit, Bash]"),
        ("my-skill", f"name: my-skill\n{GOOD}\nallowed-tools:\n  - Read\n  - Bash\n  - Grep"),
        ("my-skill", f"name: my-skill\n{GOOD}\ncompatibility: Requires Python 3.11+"),
        ("a1", f"name: a1\n{GOOD}"),
        ("기술", f"name: 기술\n{GOOD}"),
        ("技能", f"name: 技能\n{GOOD}"),
        ("мой-навык", f"name: мой-навык\n{GOOD}"),
        ("café", f"name: cafe\u0301\n{GOOD}"),
        ("x" * 64, f"name: {'x' * 64}\n{GOOD}"),
        ("my-skill", f"name: my-skill\ndescription: {'x' * 1024}\ncompatibility: {'y' * 500}"),
    ],
)
def test_what_conforms(tmp_path: Path, folder: str, front: str) -> None:
    assert check(tmp_path, folder, front) == []


@pytest.mark.parametrize(
    ("folder", "front", "word"),
    [
        ("MySkill", f"name: MySkill\n{GOOD}", "lowercase"),
        ("НАВЫК", f"name: НАВЫК\n{GOOD}", "lowercase"),
        ("a" * 70, f"name: {'a' * 70}\n{GOOD}", "exceeds the limit of 64"),
        ("-my-skill", f"name: -my-skill\n{GOOD}", "start or end with a hyphen"),
        ("my-skill-", f"name: my-skill-\n{GOOD}", "start or end with a hyphen"),
        ("my--skill", f"name: my--skill\n{GOOD}", "consecutive hyphens"),
        ("my_skill", f"name: my_skill\n{GOOD}", "invalid characters"),
        ("my skill", f"name: my skill\n{GOOD}", "invalid characters"),
        ("wrong-name", f"name: correct-name\n{GOOD}", "must match"),
        ("my-skill", f"name: my-skill\n{GOOD}\nunknown_field: x", "not in the specification"),
        ("my-skill", f"name: my-skill\ndescription: {'x' * 1100}", "exceeds 1024"),
        ("my-skill", f"name: my-skill\n{GOOD}\ncompatibility: {'x' * 550}", "exceeds 500"),
        ("my-skill", f"name: my-skill\n{GOOD}\nallowed-tools: 123", "must be a string or a list of strings"),
        ("my-skill", f"name: my-skill\n{GOOD}\nallowed-tools:\n  - Read\n  - 123", "must be a string or a list"),
        ("my-skill", f"name: my-skill\n{GOOD}\nallowed-tools: {{a: b}}", "must be a string or a list"),
        ("my-skill", f"name: my-skill\n{GOOD}\nmetadata: text", "'metadata' must be a map"),
        ("my-skill", GOOD, "'name' is missing"),
        ("my-skill", "name: my-skill", "description is missing"),
        ("my-skill", "name: my-skill\ndescription: '  '", "description is missing"),
        ("my-skill", "name: ''\n" + GOOD, "'name' is missing"),
        ("my-skill", "name: [invalid\ndescription: broken", "name"),
        ("my-skill", "- just\n- a\n- list", "not keys with values"),
    ],
)
def test_what_does_not_conform(tmp_path: Path, folder: str, front: str, word: str) -> None:
    assert word in "\n".join(check(tmp_path, folder, front))


def test_names_are_compared_in_normal_form(tmp_path: Path) -> None:
    decomposed = unicodedata.normalize("NFD", "café-größe")
    assert check(tmp_path, "café-größe", f"name: {decomposed}\n{GOOD}") == []


def test_a_file_without_front_matter_or_with_an_open_one_is_refused(tmp_path: Path) -> None:
    for number, text in enumerate(("# No front matter", "---\nname: a\ndescription: b\n")):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "SKILL.md").write_text(text)
        parsed = check_skill(folder)
        assert parsed.skill is None
        assert ("front matter" in parsed.errors()[0].problem) or ("not closed" in parsed.errors()[0].problem)


def test_paths_that_are_no_skill(tmp_path: Path) -> None:
    (tmp_path / "file.txt").write_text("x")
    (tmp_path / "empty").mkdir()
    for path, word in (("nowhere", "does not exist"), ("file.txt", "not a SKILL.md"), ("empty", "no SKILL.md")):
        with pytest.raises(UsageError, match=word):
            skill_folder(tmp_path / path)


def test_upper_case_counts_before_lower_case(tmp_path: Path) -> None:
    assert skill_file(tmp_path) is None
    (tmp_path / "skill.md").write_text("lower")
    assert skill_file(tmp_path) == tmp_path / "skill.md"
    (tmp_path / "SKILL.md").write_text("upper")
    assert skill_file(tmp_path) == tmp_path / "SKILL.md"


def test_skill_md_in_lower_case_is_read(tmp_path: Path) -> None:
    assert check(tmp_path, "my-skill", f"name: my-skill\n{GOOD}", "skill.md") == []
