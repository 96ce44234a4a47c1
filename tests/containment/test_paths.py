"""The workspace: what is beneath the root and what is not, whoever moves things meanwhile."""

from __future__ import annotations

import os
import resource
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from geode.containment import openat
from geode.containment.paths import BeneathWorkspace
from geode.core.effects import Scope
from geode.core.errors import GeodeError, PathEscape, ToolFailed

from .conftest import Ground, needs_root


@pytest.fixture(params=["openat2", "walk"], autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Every test runs over the system call and over the portable walk."""
    if request.param == "openat2" and not openat.has_openat2():
        pytest.skip("this kernel has no openat2")
    monkeypatch.setattr(openat, "has_openat2", lambda: request.param == "openat2")
    return request.param


@pytest.fixture
def tree(ground: Ground) -> Ground:
    """R with a file, links of every kind, and things outside."""
    root = ground.root
    (root / "sub" / "deep").mkdir(parents=True)
    (root / "sub" / "f").write_text("inside")
    (ground.top / "secret").write_text("outside")
    (ground.top / "R2").mkdir()
    (ground.top / "R2" / "f").write_text("sibling")
    (ground.geode_home / "key").write_text("key")
    links = {
        "to_file": "sub/f",
        "to_folder": "sub",
        "absolute_inside": str(root / "sub"),
        "up_and_in": "../R/sub",
        "out": "../secret",
        "out_absolute": str(ground.top / "secret"),
        "out_folder": "..",
        "out_passwd": "/etc/passwd",
        "out_slash": "/",
        "chain": "out",
        "chain_folder": "out_folder",
        "dangling_in": "sub/new",
        "dangling_out": "../new",
        "loop": "loop",
        "proc": "/proc/self/root",
        "sibling": "../R2",
        "to_home": str(ground.home),
    }
    for name, target in links.items():
        (root / name).symlink_to(target)
    return ground


INSIDE = [
    "sub/f",
    "./sub/f",
    "sub//f",
    "sub/../sub/f",
    "sub/deep/../f",
    "to_file",
    "to_folder/f",
    "absolute_inside/f",
    "up_and_in/f",
    "to_folder/../sub/f",
    "{root}/sub/f",
    "{root}/./to_folder/f",
    "{top}/R2/../R/sub/f",
]

OUTSIDE = [
    "..",
    "../secret",
    "../R2/f",
    "../../etc/passwd",
    "sub/../../secret",
    "sub/../../R2/f",
    "/etc/passwd",
    "/",
    "//etc/passwd",
    "{root}/../secret",
    "{root}2/f",
    "{top}",
    "out",
    "out_absolute",
    "out_folder/secret",
    "out_folder/R2/f",
    "out_passwd",
    "out_slash/etc/passwd",
    "chain",
    "chain_folder/secret",
    "proc/etc/passwd",
    "sibling/f",
    "dangling_out",
    "~",
    "~/x",
    "~root/.bashrc",
    "to_home/.geode/key",
    "{geode}/key",
    "sub/deep/../../../secret",
    "to_folder/../../secret",
    "/proc/self/root/etc/passwd",
    "/proc/self/cwd/../../etc/passwd",
    "/dev/null",
    "",
    "   ",
    "a\0b",
    "bad\udcff\ud83d",
    "up_and_in/../../secret",
    "./../secret",
    "absolute_inside/../../secret",
]


def filled(path: str, ground: Ground) -> str:
    return path.format(root=ground.root, top=ground.top, geode=ground.geode_home)


@pytest.mark.parametrize("path", INSIDE)
def test_R73_paths_that_stay_beneath_the_root_are_read(tree: Ground, path: str) -> None:
    with tree.workspace().open_read(filled(path, tree)) as file:
        assert file.read() == b"inside"
    assert tree.workspace().resolve(filled(path, tree)) == tree.root / "sub" / "f"


@pytest.mark.parametrize("path", OUTSIDE)
def test_R73_paths_that_leave_the_root_are_refused_by_every_operation(tree: Ground, path: str) -> None:
    workspace, name = tree.workspace(), filled(path, tree)
    before = (tree.top / "secret").read_text()
    with pytest.raises(PathEscape):
        workspace.open_read(name)
    with pytest.raises(PathEscape):
        workspace.resolve(name)
    with pytest.raises((PathEscape, ToolFailed)):
        workspace.write(name, b"x")
    if name not in ("out", "out_absolute", "out_passwd", "chain", "dangling_out"):  # deleting a link removes the link
        with pytest.raises((PathEscape, ToolFailed)):
            workspace.delete(name)
    assert (tree.top / "secret").read_text() == before
    assert not (tree.top / "new").exists()
    assert isinstance(workspace.scope(name), Scope)


def test_R73_a_root_given_through_a_symlink_and_the_file_system_root_work(tree: Ground) -> None:
    link = tree.top / "L"
    link.symlink_to(tree.root)
    workspace = BeneathWorkspace(link, home=tree.home, geode_home=tree.geode_home)
    assert workspace.root == tree.root
    for name in ("sub/f", str(link / "sub" / "f"), str(tree.root / "sub" / "f")):
        with workspace.open_read(name) as file:
            assert file.read() == b"inside"
    everything = BeneathWorkspace(Path("/"), home=tree.home, geode_home=tree.geode_home)
    with everything.open_read(str(tree.root / "sub" / "f")) as file:
        assert file.read() == b"inside"
    with everything.open_read("etc/hostname" if Path("/etc/hostname").exists() else "etc/passwd"):
        pass
    with pytest.raises(PathEscape):  # Geode's own data stays out even of this root
        everything.open_read(str(tree.geode_home / "key"))


def test_R73_a_new_file_under_a_symlinked_folder_is_checked_after_resolving_its_parent(tree: Ground) -> None:
    workspace = tree.workspace()
    assert workspace.write("to_folder/made/new.txt", b"1") is True
    assert (tree.root / "sub" / "made" / "new.txt").read_bytes() == b"1"
    assert workspace.write("dangling_in", b"2") is True
    assert (tree.root / "sub" / "new").read_bytes() == b"2"
    assert (tree.root / "dangling_in").is_symlink()
    with pytest.raises(PathEscape):
        workspace.write("sibling/new.txt", b"x")
    with pytest.raises(PathEscape):
        workspace.write("out_folder/fresh/new.txt", b"x")
    assert not (tree.top / "fresh").exists()


def test_writing_keeps_mode_and_link_and_says_whether_it_created(tree: Ground) -> None:
    workspace = tree.workspace()
    script = tree.root / "run.sh"
    script.write_text("old")
    script.chmod(0o751)
    assert workspace.write("run.sh", b"new") is False
    assert stat.S_IMODE(script.stat().st_mode) == 0o751
    assert workspace.write("to_file", b"through") is False
    assert (tree.root / "to_file").is_symlink()
    assert (tree.root / "sub" / "f").read_bytes() == b"through"
    assert sorted(p.name for p in tree.root.iterdir() if p.name.endswith(".tmp")) == []


@needs_root
def test_writing_as_root_keeps_the_owner(tree: Ground) -> None:
    os.chown(tree.root / "sub" / "f", 1234, 1234)
    tree.workspace().write("sub/f", b"new")
    assert (tree.root / "sub" / "f").stat().st_uid == 1234


def test_writing_a_hard_link_does_not_change_the_other_name(tree: Ground) -> None:
    os.link(tree.top / "secret", tree.root / "hard")
    tree.workspace().write("hard", b"changed")
    assert (tree.top / "secret").read_text() == "outside"


def test_things_that_are_not_regular_files_are_refused_without_blocking(tree: Ground) -> None:
    os.mkfifo(tree.root / "fifo")
    workspace = tree.workspace()
    for operation in (lambda p: workspace.open_read(p), lambda p: workspace.write(p, b"x")):
        with pytest.raises(ToolFailed, match="not a regular file"):
            operation("fifo")
        with pytest.raises(ToolFailed, match="directory|itself"):
            operation("sub")
        with pytest.raises(ToolFailed):
            operation(".")
    with pytest.raises(ToolFailed, match="directory"):
        workspace.delete("sub")
    with pytest.raises(GeodeError):
        workspace.open_read("loop")


def test_a_missing_file_is_named_with_names_that_are_close(tree: Ground) -> None:
    (tree.root / "report_final.md").write_text("x")
    with pytest.raises(ToolFailed, match="no such file: report_fnal.md") as caught:
        tree.workspace().open_read("report_fnal.md")
    assert "report_final.md" in caught.value.fix
    with pytest.raises(ToolFailed, match="a part of"):
        tree.workspace().open_read("sub/f/g")
    with pytest.raises(ToolFailed, match="too long"):
        tree.workspace().write("n" * 300, b"x")


def test_deleting_removes_the_link_and_not_what_it_points_to(tree: Ground) -> None:
    tree.workspace().delete("to_file")
    tree.workspace().delete("out")
    assert (tree.root / "sub" / "f").exists()
    assert (tree.top / "secret").exists()
    assert not (tree.root / "out").is_symlink()


def test_a_write_that_fails_leaves_the_old_file_and_no_new_folders(tree: Ground) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    import signal

    previous = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, hard))
    try:
        for name in ("sub/f", "fresh/folder/file"):
            with pytest.raises(ToolFailed):
                tree.workspace().write(name, b"x" * 100)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, previous)
    assert (tree.root / "sub" / "f").read_text() == "inside"
    assert not (tree.root / "fresh").exists()
    assert [p.name for p in (tree.root / "sub").iterdir() if p.name.endswith(".tmp")] == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write read-only files")
def test_a_read_only_file_or_folder_is_not_replaced(tree: Ground) -> None:
    (tree.root / "sub" / "f").chmod(0o444)
    with pytest.raises(ToolFailed, match="read-only"):
        tree.workspace().write("sub/f", b"x")
    (tree.root / "sub").chmod(0o555)
    try:
        with pytest.raises(ToolFailed, match="no permission"):
            tree.workspace().write("sub/g", b"x")
    finally:
        (tree.root / "sub").chmod(0o755)


def test_extra_directories_are_read_by_absolute_path_and_never_written(tree: Ground) -> None:
    extra = tree.top / "R2"
    workspace = BeneathWorkspace(tree.root, home=tree.home, geode_home=tree.geode_home, extra_read=(extra,))
    with workspace.open_read(str(extra / "f")) as file:
        assert file.read() == b"sibling"
    for refused in (lambda: workspace.write(str(extra / "f"), b"x"), lambda: workspace.delete(str(extra / "f"))):
        with pytest.raises(PathEscape):
            refused()


def test_a_root_that_is_renamed_away_stays_the_root(tree: Ground) -> None:
    workspace = tree.workspace()
    tree.root.rename(tree.top / "moved")
    tree.root.mkdir()
    (tree.root / "sub").mkdir()
    (tree.root / "sub" / "f").write_text("another tree")
    with workspace.open_read("sub/f") as file:
        assert file.read() == b"inside"


def test_an_unusable_root_is_one_clear_line(ground: Ground) -> None:
    with pytest.raises(ToolFailed, match="cannot be used") as caught:
        BeneathWorkspace(ground.top / "nowhere", home=ground.home, geode_home=ground.geode_home)
    assert caught.value.fix


# ---------------------------------------------------------------- races


@pytest.fixture
def swapping(tree: Ground) -> Iterator[None]:
    """`turn` is by turns a folder inside with `f`, and a symlink out; `leaf` a file and a link out."""
    stop = threading.Event()
    outside = tree.top / "R2"
    (tree.root / "real").mkdir()
    (tree.root / "real" / "f").write_text("inside")
    (tree.root / "turn").symlink_to("real")
    (tree.root / "leaf").write_text("inside")

    def replace(name: str, target: Path | str) -> None:
        spare = tree.root / f".{name}.spare"
        spare.symlink_to(target)
        spare.rename(tree.root / name)

    def work() -> None:
        while not stop.is_set():
            replace("turn", outside)
            replace("leaf", tree.top / "secret")
            replace("turn", "real")
            spare = tree.root / ".leaf.file"
            spare.write_text("inside")
            spare.rename(tree.root / "leaf")

    thread = threading.Thread(target=work)
    thread.start()
    yield
    stop.set()
    thread.join()


def test_R73_swapping_symlinks_never_shows_or_changes_anything_outside(tree: Ground, swapping: None) -> None:
    workspace = tree.workspace()
    seen: set[bytes] = set()
    for turn in range(400):
        for name in ("turn/f", "leaf"):
            try:
                with workspace.open_read(name) as file:
                    seen.add(file.read())
            except (PathEscape, ToolFailed):
                pass
            try:
                workspace.write(name, b"inside")
                workspace.write(f"turn/new{turn % 5}", b"inside")
                workspace.delete(f"turn/new{turn % 5}")
            except (PathEscape, ToolFailed):
                pass
    assert seen <= {b"inside", b""}
    assert (tree.top / "secret").read_text() == "outside"
    assert (tree.top / "R2" / "f").read_text() == "sibling"
    assert sorted(p.name for p in (tree.top / "R2").iterdir()) == ["f"]
