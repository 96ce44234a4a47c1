"""Adding and removing: the whole folder or nothing."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from geode.core.errors import GeodeError, UsageError
from geode.skills import SkillInvalid, install_skill, remove_skill

from .conftest import Shelf, text_of


def root_of(shelf: Shelf) -> Path:
    return shelf.project / ".claude" / "skills"


def test_E17_the_whole_folder_is_copied_under_the_skills_name(shelf: Shelf) -> None:
    source = shelf.add(
        "src/x", text_of("x", 'd. Triggers: "a", "b"'), scripts__run_DOT_sh="#!/bin/sh\n", data__t_DOT_txt="1"
    )
    (source / "scripts" / "run.sh").chmod(0o4777)
    (source / ".git").mkdir()
    (source / ".git" / "config").write_text("x")
    done = install_skill(source / "SKILL.md", root_of(shelf), within=shelf.project)
    assert done.folder == root_of(shelf) / "x"
    assert done.skill.triggers == ["a", "b"]
    assert [f.name for f in done.files] == ["SKILL.md", "data/t.txt", "scripts/run.sh"]
    assert stat.S_IMODE((done.folder / "scripts" / "run.sh").stat().st_mode) == 0o755
    assert sorted(p.name for p in root_of(shelf).iterdir()) == ["x"]


def test_the_declared_name_names_the_folder_when_it_can(shelf: Shelf) -> None:
    assert install_skill(shelf.add("src/v2-of-x", text_of("x")), root_of(shelf)).folder.name == "x"
    odd = install_skill(shelf.add("src/odd-folder", text_of("Odd Name")), root_of(shelf))
    assert odd.folder.name == "odd-folder"


def test_nothing_is_replaced_without_force(shelf: Shelf) -> None:
    install_skill(shelf.add("src/x", text_of("x", "first"), old_DOT_md="1"), root_of(shelf))
    newer = shelf.add("other/x", text_of("x", "second"))
    with pytest.raises(UsageError, match="already"):
        install_skill(newer, root_of(shelf))
    done = install_skill(newer, root_of(shelf), force=True)
    assert done.replaced
    assert done.skill.description == "second"
    assert [p.name for p in done.folder.iterdir()] == ["SKILL.md"]
    assert [p.name for p in root_of(shelf).iterdir()] == ["x"]


def test_links_that_lead_out_and_odd_files_are_refused(shelf: Shelf) -> None:
    for name, make in (
        ("link", lambda p: p.symlink_to("/etc/passwd")),
        ("up", lambda p: p.symlink_to("../../x/SKILL.md")),
        ("folder", lambda p: p.symlink_to("/etc")),
        ("pipe", os.mkfifo),
    ):
        folder = shelf.add(f"src/{name}")
        make(folder / "extra")
        with pytest.raises(SkillInvalid):
            install_skill(folder, root_of(shelf))
    assert not root_of(shelf).exists()


def test_links_inside_become_files(shelf: Shelf) -> None:
    folder = shelf.add("src/x", real_DOT_md="content")
    (folder / "alias.md").symlink_to("real.md")
    done = install_skill(folder, root_of(shelf))
    assert not (done.folder / "alias.md").is_symlink()
    assert (done.folder / "alias.md").read_text() == "content"


def test_invalid_skills_and_wrong_paths_are_refused(shelf: Shelf) -> None:
    with pytest.raises(SkillInvalid) as raised:
        install_skill(shelf.add("src/x", "nothing"), root_of(shelf))
    assert raised.value.exit_code == 1
    assert raised.value.findings
    (shelf.root / "src" / "notes.md").write_text("x")
    for path in ("src/notes.md", "src/nowhere", "src"):
        with pytest.raises(UsageError):
            install_skill(shelf.root / path, root_of(shelf))


def test_the_target_must_lie_in_the_project(shelf: Shelf) -> None:
    (shelf.project / ".claude").symlink_to(shelf.root)
    with pytest.raises(UsageError, match="leads out"):
        install_skill(shelf.add("src/x"), root_of(shelf), within=shelf.project)


def test_a_skill_is_not_copied_onto_itself(shelf: Shelf) -> None:
    folder = shelf.theirs("x")
    with pytest.raises(UsageError, match="already"):
        install_skill(folder, root_of(shelf), force=True)
    with pytest.raises(UsageError, match="holds"):
        install_skill(shelf.add("project", text_of("project")), root_of(shelf))
    assert (folder / "SKILL.md").exists()


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")
def test_nothing_is_left_when_it_cannot_be_written(shelf: Shelf) -> None:
    root = root_of(shelf)
    root.mkdir(parents=True)
    root.chmod(0o555)
    with pytest.raises(GeodeError, match="cannot be written"):
        install_skill(shelf.add("src/x"), root)
    root.chmod(0o755)
    assert list(root.iterdir()) == []


def test_remove_by_folder_or_name_and_only_here(shelf: Shelf) -> None:
    shelf.theirs("x-folder", text_of("x"))
    shelf.theirs("y")
    shelf.mine("mine")
    assert remove_skill("x", root_of(shelf), within=shelf.project).name == "x-folder"
    assert remove_skill("y", root_of(shelf)).name == "y"
    for name in ("mine", "../../home/skills/mine", "", ".", ".."):
        with pytest.raises(UsageError, match="no skill"):
            remove_skill(name, root_of(shelf))
    assert list(root_of(shelf).iterdir()) == []
    assert (shelf.home / "skills" / "mine").exists()


def test_removing_a_link_keeps_what_it_leads_to(shelf: Shelf) -> None:
    target = shelf.add("src/x")
    root_of(shelf).mkdir(parents=True)
    (root_of(shelf) / "x").symlink_to(target)
    remove_skill("x", root_of(shelf))
    assert (target / "SKILL.md").exists()
    assert list(root_of(shelf).iterdir()) == []
