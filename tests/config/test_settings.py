import os
import sys
from pathlib import Path
from typing import Any

import pytest

from geode.config.settings import Settings, load_settings
from geode.core.errors import ConfigError


class Place:
    """A project and a home on disk."""

    def __init__(self, root: Path) -> None:
        self.project = root / "project"
        self.home = root / "home"
        (self.project / ".geode").mkdir(parents=True)
        self.home.mkdir()

    def user(self, text: str) -> "Place":
        (self.home / "config.toml").write_text(text, encoding="utf-8")
        return self

    def own(self, text: str) -> "Place":
        (self.project / ".geode" / "config.toml").write_text(text, encoding="utf-8")
        return self

    def load(self, env: dict[str, str] | None = None, **overrides: Any) -> Settings:
        return load_settings(self.project, self.home, overrides=overrides, env=env or {})


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_without_files_the_defaults_hold(place: Place) -> None:
    settings = place.load()
    assert (settings.mode, settings.results_days, settings.audit_days) == ("default", 30, None)
    assert (settings.output.lines, settings.output.chars) == (200, 10_000)
    assert settings.database_url == f"sqlite:///{place.home / 'geode.db'}"
    assert set(settings.origins.values()) == {"default"}
    assert settings.notices == ()


def test_later_layers_win_and_origins_say_which(place: Place) -> None:
    place.user("mode = 'dry_run'\nresults_days = 7\n[output]\nlines = 100\n").own("[output]\nlines = 50\n")
    settings = place.load({"GEODE_DATABASE_URL": "postgresql://h/db"}, mode="auto", **{"output.head": 3})
    assert (settings.mode, settings.output.lines, settings.output.head) == ("auto", 50, 3)
    assert settings.database_url == "postgresql://h/db"
    assert settings.origins["mode"] == "command line"
    assert settings.origins["results_days"] == "user"
    assert settings.origins["output.lines"] == "project"
    assert settings.origins["database_url"] == "environment"


def test_the_command_line_may_loosen_what_the_project_tightened(place: Place) -> None:
    place.own("mode = 'read_only'")
    assert place.load().mode == "read_only"
    assert place.load(mode="default").mode == "default"
    assert place.load(mode=None).mode == "read_only"


def test_a_project_can_only_tighten_and_what_is_ignored_is_reported(place: Place) -> None:
    place.user("mode = 'dry_run'\n[sandbox]\nmemory_mb = 512\n")
    place.own(
        "mode = 'auto'\ndatabase_url = 'sqlite:////tmp/x'\nallow = ['send_notification']\naudit_days = 1\n"
        "approval_timeout = 900\n[output]\nlines = 5000\nchars = 500\n"
        "[sandbox]\nmemory_mb = 4096\nbackend = 'seatbelt'\n"
        "processes = 10\n"
    )
    settings = place.load()
    assert (settings.mode, settings.allow, settings.audit_days, settings.approval_timeout) == (
        "dry_run",
        frozenset(),
        None,
        300.0,
    )
    assert (settings.output.lines, settings.output.chars) == (200, 500)
    assert (settings.sandbox.memory_mb, settings.sandbox.backend, settings.sandbox.processes) == (512, "auto", 10)
    ignored = "\n".join(settings.notices)
    for key in ("mode", "database_url", "allow", "audit_days", "approval_timeout", "output.lines", "sandbox.memory_mb"):
        assert key in ignored
    assert "/tmp/x" not in ignored
    assert f"{place.project / '.geode' / 'config.toml'}:1: mode" in ignored


def test_a_project_cannot_undo_a_stricter_mode_of_another_kind(place: Place) -> None:
    place.user("mode = 'read_only'").own("mode = 'dry_run'")
    assert place.load().mode == "read_only"


def test_a_projects_allow_rules_and_modes_are_reported(place: Place) -> None:
    place.own("[modes]\nmine = 'x'\n[[rules]]\nname = 'r'\ntool = 'shell_exec'\nverdict = 'allow'\n")
    notices = "\n".join(place.load().notices)
    assert "rule 'r' ignored" in notices
    assert "config.toml:3" in notices
    assert "mode 'mine' ignored" in notices


def test_a_project_that_is_the_home_shares_the_users_file(tmp_path: Path) -> None:
    home = tmp_path / ".geode"
    home.mkdir()
    (home / "config.toml").write_text("mode = 'auto'\n")
    settings = load_settings(tmp_path, home, env={})
    assert (settings.mode, settings.notices) == ("auto", ())
    assert len(settings.rules) == 1


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("mode = 'x'\nmod = 'y'\n", 2, "unknown key 'mod'"),
        ("[output]\nlines = 'many'\n", 2, "whole number"),
        ("[output]\n\nlinse = 3\n", 3, "unknown key 'output.linse'"),
        ("mode = \n", 1, "not valid TOML"),
        ("a = 1\na = 2\n", 2, "not valid TOML"),
        ("results_days = -1\n", 1, "whole number"),
        ("results_days = true\n", 1, "whole number"),
        ("approval_timeout = nan\n", 1, "seconds"),
        ("approval_timeout = 0\n", 1, "seconds"),
        ("allow = 'x'\n", 1, "list of tool names"),
        ("output = 3\n", 1, "must be a table"),
        ("rules = 3\n", 1, "[[rules]]"),
        ("rules = [1]\n", 1, "[[rules]]"),
        ("[sandbox]\nbackend = 'none'\n", 2, "one of auto"),
        ("mode = ''\n", 1, "not empty"),
        ("x.y = 1\n", 0, "unknown key 'x'"),
    ],
)
def test_bad_settings_name_file_line_and_fix(place: Place, text: str, line: int, what: str) -> None:
    for write, file in (
        (place.user, place.home / "config.toml"),
        (place.own, place.project / ".geode" / "config.toml"),
    ):
        write(text)
        with pytest.raises(ConfigError) as caught:
            place.load()
        assert what in caught.value.message
        assert (f"{file}:{line}:" if line else str(file)) in caught.value.message
        assert caught.value.fix
        assert "\n" not in caught.value.message
        file.unlink()


def test_files_that_are_no_text_are_clear_errors(place: Place) -> None:
    file = place.home / "config.toml"
    file.write_bytes(b"mode = 'x'\n\xff\xfe")
    with pytest.raises(ConfigError, match="config.toml:2: not UTF-8"):
        place.load()
    file.write_text("x = " + "[" * 5000)
    with pytest.raises(ConfigError, match="not valid TOML"):
        place.load()
    file.write_text("results_days = " + "9" * 5000)
    with pytest.raises(ConfigError):
        place.load()
    file.unlink()
    file.mkdir()
    with pytest.raises(ConfigError, match="not a regular file"):
        place.load()


def test_a_byte_order_mark_is_accepted(place: Place) -> None:
    (place.home / "config.toml").write_bytes(b"\xef\xbb\xbfmode = 'dry_run'\n")
    assert place.load().mode == "dry_run"


@pytest.mark.skipif(sys.platform == "win32", reason="named pipes")
def test_a_pipe_in_a_project_does_not_hang(place: Place) -> None:
    os.mkfifo(place.project / ".geode" / "config.toml")
    with pytest.raises(ConfigError, match="not a regular file"):
        place.load()


def test_bad_overrides_and_a_missing_project_are_errors(place: Place) -> None:
    with pytest.raises(ConfigError, match="unknown setting 'colour'"):
        place.load(colour="red")
    with pytest.raises(ConfigError, match=r"output\.lines"):
        place.load(output={"lines": "x"})
    with pytest.raises(ConfigError, match="not a directory"):
        load_settings(place.project / "nope", place.home, env={})


def test_the_shown_settings_carry_value_and_origin(place: Place) -> None:
    place.user("allow = ['b', 'a']")
    shown = place.load().to_json()
    assert shown["settings"]["allow"] == {"value": ["a", "b"], "origin": "user"}
    assert shown["settings"]["output.tail"] == {"value": 50, "origin": "default"}


@pytest.mark.parametrize("entry", ["*", "**", "srv__["])
def test_an_entry_of_allow_that_names_no_tool_is_refused(place: Place, entry: str) -> None:
    place.user(f"allow = ['{entry}']")
    with pytest.raises(ConfigError, match="names none"):
        place.load()
    place.user("allow = ['weather__*', 'send_report']")
    assert place.load().allow == {"weather__*", "send_report"}
