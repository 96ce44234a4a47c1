import os
import stat
import sys
import threading
from pathlib import Path

import pytest

from geode.config.home import (
    default_home,
    ensure_home,
    locked,
    private_file,
    private_folder,
    read_bounded,
    write_private,
)
from geode.core.errors import ConfigError, StoreBusy, StoreError

posix = pytest.mark.skipif(sys.platform == "win32", reason="permission bits are POSIX")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_home_comes_from_the_environment_else_from_the_persons_home(tmp_path: Path) -> None:
    assert default_home({"GEODE_HOME": str(tmp_path / "x")}) == tmp_path / "x"
    assert default_home({"GEODE_HOME": "  "}) == Path.home() / ".geode"


@posix
def test_home_is_created_private_and_an_open_one_is_closed(tmp_path: Path) -> None:
    home = ensure_home(tmp_path / "a" / "b")
    assert mode(home) == 0o700
    home.chmod(0o755)
    ensure_home(home)
    assert mode(home) == 0o700


def test_a_directory_with_other_things_in_it_is_never_closed_to_others(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    (shared / "work").mkdir(parents=True)
    shared.chmod(0o755)
    with pytest.raises(ConfigError, match="holds other things"):
        ensure_home(shared)
    assert stat.S_IMODE(shared.stat().st_mode) == 0o755
    sticky = tmp_path / "tmp"
    sticky.mkdir()
    sticky.chmod(0o1777)
    with pytest.raises(ConfigError):
        ensure_home(sticky)
    assert stat.S_IMODE(sticky.stat().st_mode) == 0o1777
    (shared / "config.toml").write_text("")
    assert stat.S_IMODE(ensure_home(shared).stat().st_mode) == 0o700


@posix
def test_a_folder_in_a_home_that_is_not_there_yet_makes_a_private_home(tmp_path: Path) -> None:
    folder = private_folder(tmp_path / "home" / "cache" / "sandbox")
    assert {mode(folder), mode(folder.parent), mode(tmp_path / "home")} == {0o700}
    (tmp_path / "home").chmod(0o755)  # as made by what did not ask for a private one
    assert mode(ensure_home(tmp_path / "home")) == 0o700
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError):
        private_folder(tmp_path / "file" / "below")


def test_a_file_in_the_place_of_the_home_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("x")
    for home in (tmp_path / "f", tmp_path / "f" / "deeper"):
        with pytest.raises(ConfigError, match="not a directory") as caught:
            ensure_home(home)
        assert "--home" in caught.value.fix


def test_a_home_that_cannot_be_created_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises((StoreError, ConfigError)) as caught:
        ensure_home(tmp_path / ("x" * 300))
    assert caught.value.fix
    with pytest.raises(StoreError):
        ensure_home(tmp_path / "a\0b")


@posix
def test_write_private_replaces_the_whole_file_and_leaves_nothing_else(tmp_path: Path) -> None:
    target = tmp_path / "x.json"
    write_private(target, b"one")
    write_private(target, b"two")
    assert target.read_bytes() == b"two"
    assert mode(target) == 0o600
    assert os.listdir(tmp_path) == ["x.json"]


@posix
def test_write_private_follows_a_link_and_keeps_it(tmp_path: Path) -> None:
    real = tmp_path / "dotfiles.toml"
    real.write_text("old")
    link = tmp_path / "config.toml"
    link.symlink_to(real)
    write_private(link, b"new")
    assert link.is_symlink()
    assert real.read_text() == "new"


def test_a_failed_write_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "inside").write_text("x")
    with pytest.raises(StoreError) as caught:
        write_private(tmp_path / "d", b"data")  # a directory that is not empty cannot be replaced
    assert "nothing was changed" in caught.value.fix
    assert os.listdir(tmp_path) == ["d"]
    with pytest.raises(StoreError):
        write_private(tmp_path / "missing" / "x", b"data")


@posix
def test_private_file_tightens_and_refuses_what_is_no_file(tmp_path: Path) -> None:
    path = tmp_path / "k"
    path.write_text("x")
    path.chmod(0o644)
    assert mode(private_file(path)) == 0o600
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(StoreError):
        private_file(tmp_path / "pipe")


@posix
def test_reading_never_waits_for_a_pipe_and_never_takes_a_huge_file(tmp_path: Path) -> None:
    assert read_bounded(tmp_path / "none") is None
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ConfigError, match="not a regular file"):
        read_bounded(tmp_path / "pipe")
    with pytest.raises(ConfigError):
        read_bounded(tmp_path)
    (tmp_path / "big").write_bytes(b"x" * 200)
    with pytest.raises(ConfigError, match="larger than 100"):
        read_bounded(tmp_path / "big", limit=100)


def test_the_lock_is_exclusive_and_gives_up_in_time(tmp_path: Path) -> None:
    inside, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with locked(tmp_path / "l"):
            inside.set()
            leave.wait(10)

    thread = threading.Thread(target=hold)
    thread.start()
    assert inside.wait(10)
    with pytest.raises(StoreBusy), locked(tmp_path / "l", seconds=0.1):
        pass
    leave.set()
    thread.join()
    with locked(tmp_path / "l", seconds=5):
        pass
