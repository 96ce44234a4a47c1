"""`geode skills`: the command contract."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .conftest import Place

GOOD = '---\nname: demo\ndescription: Makes demos. "데모", "demo" 키워드로 트리거\n---\nDo $1.\n'


def skill(geode: Place, place: str = "src/demo", text: str = GOOD) -> Path:
    return geode.write(f"{place}/SKILL.md", text).parent


# ---------------------------------------------------------------- validate


def test_validate_a_good_skill(geode: Place) -> None:
    done = geode("skills", "validate", str(skill(geode)), "--json")
    assert done.code == 0
    assert (done.json["valid"], done.json["name"], done.json["errors"], done.json["conforms"]) == (
        True,
        "demo",
        [],
        True,
    )


def test_validate_names_file_line_problem_and_fix(geode: Place) -> None:
    folder = skill(geode, text="---\nname: demo\nlicense: x\n---\n")
    done = geode("skills", "validate", str(folder), "--json")
    assert done.code == 1
    assert done.json["valid"] is False
    (error,) = done.json["errors"]
    assert error["file"].endswith("demo/SKILL.md")
    assert error["line"] > 0
    assert "description" in error["problem"]
    assert error["fix"]
    people = geode("skills", "validate", str(folder))
    assert people.code == 1
    assert "not valid" in people.out
    assert "SKILL.md:" in people.out


def test_R62_strict_is_opt_in(geode: Place) -> None:
    folder = skill(geode, text=GOOD.replace("---\nDo", "version: 1\n---\nDo"))
    usual = geode("skills", "validate", str(folder), "--json")
    assert (usual.code, usual.json["valid"], usual.json["conforms"]) == (0, True, False)
    strict = geode("skills", "validate", str(folder / "SKILL.md"), "--strict", "--json")
    assert strict.code == 1
    assert strict.json["errors"][0]["line"] == 4
    assert "metadata" in strict.json["errors"][0]["fix"]


@pytest.mark.parametrize("path", ["nowhere", "", "a\udcff", "README.md"])
def test_validate_what_is_no_skill_is_a_usage_error(geode: Place, path: str) -> None:
    geode.write("README.md", "x")
    done = geode("skills", "validate", path, "--json")
    assert done.code == 2
    assert done.error["fix"]


# ---------------------------------------------------------------- add, list, show, search, remove


def test_E17_add_copies_shows_triggers_and_the_skill_can_be_used(geode: Place) -> None:
    source = geode.root / "elsewhere" / "demo"
    source.mkdir(parents=True)
    (source / "SKILL.md").write_text(GOOD)
    people = geode("skills", "add", str(source / "SKILL.md"))
    assert people.code == 0
    assert "데모, demo" in people.out
    assert (geode.project / ".claude/skills/demo/SKILL.md").read_text() == GOOD
    listed = geode("skills", "list", "--json").json
    assert [(s["name"], s["status"]) for s in listed["skills"]] == [("demo", "active")]
    assert listed["count"] == 1
    assert listed["summary"] == "1 loaded, 0 failed"
    again = geode("skills", "add", str(source), "--json")
    assert again.code == 2
    assert "--force" in again.error["fix"]
    forced = geode("skills", "add", str(source), "--force", "--json").json
    assert (forced["name"], forced["triggers"], forced["replaced"], forced["usable"]) == (
        "demo",
        ["데모", "demo"],
        True,
        True,
    )


def test_add_does_not_trust_what_the_project_brought(geode: Place) -> None:
    geode.write(".geode/tools.json", json.dumps({"tools": []}))
    added = geode("skills", "add", str(skill(geode)), "--json").json
    assert added["usable"] is False
    assert "geode trust" in added["reason"]
    assert geode("skills", "list", "--json").json["skills"][0]["status"] == "untrusted"
    assert geode("trust").code == 0
    assert geode("skills", "list", "--json").json["skills"][0]["status"] == "active"


def test_add_and_remove_keep_the_trust_in_a_trusted_project(geode: Place) -> None:
    geode.write(".geode/tools.json", json.dumps({"tools": []}))
    geode("trust")
    assert geode("skills", "add", str(skill(geode)), "--json").json["usable"] is True
    assert geode("trust", "--show", "--json").json["state"] == "trusted"
    assert geode("skills", "remove", "demo").code == 0
    assert geode("trust", "--show", "--json").json["state"] == "trusted"
    assert not (geode.project / ".claude/skills/demo").exists()


def test_add_an_invalid_skill_is_refused_with_code_1(geode: Place) -> None:
    done = geode("skills", "add", str(skill(geode, text="nothing")), "--json")
    assert done.code == 1
    assert done.error["code"] == "invalid_skill"
    assert "SKILL.md:1" in done.error["message"]
    assert not (geode.project / ".claude").exists()


def test_add_for_the_person(geode: Place) -> None:
    assert geode("skills", "add", str(skill(geode)), "--user").code == 0
    assert (geode.home / "skills/demo/SKILL.md").exists()
    assert geode("skills", "remove", "demo", "--user").code == 0
    assert geode("skills", "remove", "demo", "--user", "--json").code == 2


def test_list_shows_invalid_and_untrusted_ones_too(geode: Place) -> None:
    skill(geode, ".claude/skills/theirs", GOOD.replace("demo\n", "theirs\n", 1))
    bad = geode.home / "skills" / "bad" / "SKILL.md"
    bad.parent.mkdir(parents=True)
    bad.write_text("---\nname: [\n")
    rows = {s["name"]: s for s in geode("skills", "list", "--json").json["skills"]}
    assert rows["theirs"]["status"] == "untrusted"
    assert rows["bad"]["status"] == "invalid"
    assert rows["bad"]["errors"][0]["fix"]
    people = geode("skills", "list")
    assert people.code == 0
    assert "0 loaded, 1 failed, 1 untrusted" in people.err
    assert "bad/SKILL.md" in people.out
    only = geode("skills", "list", "--status", "invalid", "--limit", "1", "--json").json
    assert [s["name"] for s in only["skills"]] == ["bad"]


def test_show_tells_everything_and_unknown_names_get_the_closest(geode: Place) -> None:
    geode("skills", "add", str(skill(geode)))
    shown = geode("skills", "show", "demo", "--json").json
    assert shown["body"] == "Do $1."
    assert shown["files"][0]["name"] == "SKILL.md"
    assert len(shown["files"][0]["sha256"]) == 64
    assert "Do $1." in geode("skills", "show", "demo").out
    unknown = geode("skills", "show", "demmo", "--json")
    assert unknown.code == 2
    assert "demo" in unknown.error["fix"]


def test_search_finds_by_trigger_and_by_words(geode: Place) -> None:
    geode("skills", "add", str(skill(geode)))
    hit = geode("skills", "search", "데모를", "보여줘", "--json").json
    assert hit["results"][0]["triggers"] == ["데모"]
    assert geode("skills", "search", "making demos", "--json").json["results"][0]["name"] == "demo"
    none = geode("skills", "search", "weather", "--json").json
    assert (none["results"], none["not_found"]) == ([], True)


def test_a_skill_cannot_repaint_the_terminal(geode: Place) -> None:
    folder = skill(
        geode,
        text=GOOD.replace("Makes demos.", "x\\e[31m\u202ered")
        .replace("description: ", "description: ")
        .replace("Do $1.", "\x1b]0;t\x07body"),
    )
    geode("skills", "add", str(folder))
    for words in (["list"], ["show", "demo"], ["search", "demo"]):
        assert "\x1b" not in geode("skills", *words).out
        assert "\u202e" not in geode("skills", *words).out


def test_a_command_is_needed(geode: Place) -> None:
    done = geode("skills")
    assert done.code == 2
    assert "validate" in done.err
