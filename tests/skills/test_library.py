"""Roots, precedence, trust, links, and keeping up with changes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from geode.config.trust import TrustStore
from geode.skills import SkillDefinition, SkillInvalid, SkillLoader, SkillRegistry, open_library
from geode.skills.library import SkillChanges

from .conftest import Shelf, text_of


def states(shelf: Shelf, **more: object) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for entry in shelf.open(**more).entries():  # type: ignore[arg-type]
        found.setdefault(entry.status, []).append(entry.name)
    return found


# ---------------------------------------------------------------- E2: roots and precedence


def test_E2_roots_in_order_the_first_wins_and_the_loser_is_reported(shelf: Shelf) -> None:
    for place in ("project/.claude/skills/x", "project/skills/x", "home/skills/x", "project/.agents/skills/x"):
        shelf.add(place, text_of("x", f"from {place}"))
    shelf.add("elsewhere/x", text_of("x", "from elsewhere"))
    library = shelf.open(extra_roots=(".agents/skills", str(shelf.root / "elsewhere")))
    skill = library.get("x")
    assert skill is not None
    assert skill.description == "from project/.claude/skills/x"
    rows = [(e.status, e.root.origin, e.reason) for e in library.entries()]
    assert [row[0] for row in rows] == ["active", "shadowed", "shadowed", "shadowed", "shadowed"]
    assert [row[1] for row in rows] == ["project", "project", "user", "project", "extra"]
    assert all(".claude/skills/x has the same name" in row[2] for row in rows[1:])
    assert library.summary() == "1 loaded, 0 failed, 4 shadowed"


def test_R12_one_bad_file_does_not_keep_the_others_from_loading(shelf: Shelf) -> None:
    shelf.mine("good")
    shelf.mine("bad", "---\nname: bad\n---\n")
    library = shelf.open()
    assert library.registry.names() == ["good"]
    assert library.summary() == "1 loaded, 1 failed"
    bad = library.entry("bad")
    assert bad is not None
    assert bad.status == "invalid"
    assert bad.findings[0].file.endswith("bad/SKILL.md")


def test_the_loader_of_the_description_of_the_system(shelf: Shelf) -> None:
    shelf.mine("b")
    shelf.mine("a", "---\ndescription: no name\n---\nbody")
    shelf.mine("broken", "nothing")
    loader = SkillLoader(shelf.home / "skills")
    assert [p.parent.name for p in loader.discover()] == ["a", "b", "broken"]
    assert loader.load_file(shelf.home / "skills" / "a" / "SKILL.md").name == "a"
    registry = SkillRegistry()
    assert [s.name for s in loader.load_all(registry)] == ["a", "b"]
    assert registry.names() == ["a", "b"]
    assert len(loader.problems) == 1
    with pytest.raises(SkillInvalid, match="front matter"):
        loader.load_file(shelf.home / "skills" / "broken" / "SKILL.md")


def test_registering_twice_keeps_the_first_and_reports() -> None:
    registry = SkillRegistry()
    assert registry.register(SkillDefinition(name="a", source="one", description="1"))
    assert not registry.register(SkillDefinition(name="a", source="two", description="2"))
    assert registry.register(SkillDefinition(name="a", source="one", description="3"))
    (conflict,) = registry.conflicts
    assert (conflict.name, conflict.kept, conflict.lost) == ("a", "one", "two")
    skill = registry.get("a")
    assert skill is not None
    assert skill.description == "3"


# ---------------------------------------------------------------- trust


def test_project_skills_need_trust_and_take_no_name_before(shelf: Shelf) -> None:
    shelf.theirs("x", text_of("x", "theirs"))
    shelf.add("project/.agents/skills/y")
    shelf.mine("x", text_of("x", "mine"))
    library = shelf.open(trusted=False)
    skill = library.get("x")
    assert skill is not None
    assert skill.description == "mine"
    assert states(shelf, trusted=False) == {"untrusted": ["x", "y"], "active": ["x"]}
    assert "theirs" not in library.registry.get_context_block()


def test_trust_covers_every_file_of_every_project_skill_and_ends_with_a_change(shelf: Shelf) -> None:
    shelf.theirs("x", scripts__run_DOT_sh="echo")
    shelf.add("project/skills/y")
    shelf.add("project/skills/not-a-skill-without-file").joinpath("SKILL.md").unlink()
    store = TrustStore(shelf.home)
    assert store.state(shelf.project).files == (
        ".claude/skills/x/SKILL.md", ".claude/skills/x/scripts/run.sh", "skills/y/SKILL.md",
    )  # fmt: skip
    library = open_library(shelf.project, shelf.home, trusted=lambda: store.state(shelf.project).trusted)
    assert library.registry.names() == []
    store.trust(shelf.project)
    changes = library.refresh()
    assert changes.added == ("x", "y")
    (shelf.project / ".claude/skills/x/scripts/run.sh").write_text("rm -rf /")
    assert library.refresh().removed == ("x", "y")
    assert {e.status for e in library.entries()} == {"untrusted"}


def test_a_new_file_in_a_trusted_skill_is_a_change_too(shelf: Shelf) -> None:
    folder = shelf.theirs("x")
    store = TrustStore(shelf.home)
    store.trust(shelf.project)
    (folder / "more").mkdir()
    (folder / "more" / "evil.sh").write_text("x")
    assert store.state(shelf.project).changed == (".claude/skills/x/more/evil.sh",)


def test_a_link_in_the_project_to_my_own_skills_is_mine(shelf: Shelf) -> None:
    shelf.mine("x")
    (shelf.project / ".claude").mkdir()
    (shelf.project / ".claude" / "skills").symlink_to(shelf.home / "skills")
    library = shelf.open(trusted=False)
    assert [(e.name, e.status, e.root.origin) for e in library.entries()] == [("x", "active", "user")]


def test_a_link_in_the_project_to_elsewhere_is_the_projects(shelf: Shelf) -> None:
    shelf.add("elsewhere/x")
    (shelf.project / "skills").mkdir()
    (shelf.project / "skills" / "x").symlink_to(shelf.root / "elsewhere" / "x")
    assert states(shelf, trusted=False) == {"untrusted": ["x"]}
    store = TrustStore(shelf.home)
    store.trust(shelf.project)
    (shelf.root / "elsewhere" / "x" / "SKILL.md").write_text(text_of("x", "other"))
    assert store.state(shelf.project).state == "changed"


# ---------------------------------------------------------------- R75: links and nesting


def test_R75_a_loop_is_one_skill(shelf: Shelf) -> None:
    folder = shelf.mine("a")
    (folder / "a").symlink_to(folder)
    (shelf.home / "skills" / "self").symlink_to(shelf.home / "skills")
    assert states(shelf) == {"active": ["a"]}


def test_R75_the_same_folder_under_two_roots_is_no_conflict(shelf: Shelf) -> None:
    shelf.mine("a")
    os.symlink(shelf.home / "skills", shelf.root / "linked")
    os.symlink(shelf.home / "skills" / "a", shelf.home / "skills" / "Another")
    library = shelf.open(extra_roots=(str(shelf.root / "linked"), str(shelf.home / "skills")))
    assert [(e.name, e.status) for e in library.entries()] == [("a", "active")]
    assert library.registry.conflicts == ()


def test_R75_nothing_below_a_skill_is_a_skill(shelf: Shelf) -> None:
    folder = shelf.mine("a")
    shelf.add("home/skills/a/vendor/x")
    shelf.add("home/skills/a/examples")
    library = shelf.open()
    assert library.registry.names() == ["a"]
    assert [f.name for f in library.files("a")] == ["SKILL.md", "examples/SKILL.md", "vendor/x/SKILL.md"]
    assert folder.exists()


def test_what_cannot_be_read_is_listed_not_lost(shelf: Shelf) -> None:
    skills = shelf.home / "skills"
    skills.mkdir()
    (skills / "dead").symlink_to("nowhere")
    (skills / "round").symlink_to("round")
    os.mkfifo(shelf.add("home/skills/pipe").joinpath("x"))
    fifo = shelf.add("home/skills/fifo") / "SKILL.md"
    fifo.unlink()
    os.mkfifo(fifo)
    (shelf.add("home/skills/folder") / "SKILL.md").unlink()
    (skills / "folder" / "SKILL.md").mkdir()
    (shelf.add("home/skills/linked") / "SKILL.md").unlink()
    (skills / "linked" / "SKILL.md").symlink_to("/etc/passwd")
    (shelf.add("home/skills/leads-out") / "data").symlink_to("/etc")
    shelf.add("home/skills/group/inner")
    (shelf.add("home/skills/case") / "SKILL.md").rename(skills / "case" / "Skill.MD")
    (skills / "readme.txt").write_text("no skill")
    (skills / "plain-folder").mkdir()
    assert states(shelf) == {
        "invalid": ["case", "fifo", "folder", "group", "leads-out", "linked", "pipe", "dead", "round"]
    }
    for entry in shelf.open().entries():
        assert entry.reason
        assert entry.findings[0].fix


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_a_folder_without_permission_is_listed(shelf: Shelf) -> None:
    folder = shelf.mine("a")
    folder.chmod(0)
    try:
        assert states(shelf) == {"invalid": ["a"]}
    finally:
        folder.chmod(0o755)


# ---------------------------------------------------------------- live


def test_refresh_sees_added_changed_and_removed_skills_and_tells_listeners(shelf: Shelf) -> None:
    shelf.mine("a", text_of("a"), notes_DOT_md="1")
    library = shelf.open()
    heard: list[SkillChanges] = []
    stop = library.subscribe(heard.append)
    assert not library.refresh()
    folder = shelf.mine("b", text_of("b", "new one"))
    assert library.refresh().added == ("b",)
    assert "**b**: new one" in heard[-1].announcement
    (shelf.home / "skills/a/notes.md").write_text("2")
    assert library.refresh().changed == ("a",)
    (folder / "SKILL.md").write_text("broken")
    assert library.refresh().removed == ("b",)
    assert "no longer available: b" in heard[-1].announcement
    (folder / "SKILL.md").write_text(text_of("b", "new one"))
    stop()
    assert library.refresh().added == ("b",)
    assert len(heard) == 3


def test_a_change_that_keeps_size_and_time_is_seen(shelf: Shelf) -> None:
    file = shelf.mine("a", text_of("a", "one")) / "SKILL.md"
    before = file.stat()
    library = shelf.open()
    file.write_text(text_of("a", "two"))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert library.refresh().changed == ("a",)


def test_skills_made_in_code_stay(shelf: Shelf) -> None:
    library = shelf.open()
    assert library.register(SkillDefinition(name="coded", description="c"))
    shelf.mine("a")
    library.refresh()
    assert library.registry.names() == ["a", "coded"]


def test_a_skill_with_too_many_files_is_invalid(shelf: Shelf) -> None:
    folder = shelf.mine("a")
    for number in range(2001):
        (folder / f"{number}").touch()
    assert states(shelf) == {"invalid": ["a"]}


def test_refresh_without_changes_is_cheap(shelf: Shelf) -> None:
    for number in range(100):
        shelf.mine(f"s{number}")
    library = shelf.open()
    asked: list[Path] = []
    library.subscribe(lambda _changes: asked.append(Path()))
    for _ in range(5):
        library.refresh()
    assert asked == []
