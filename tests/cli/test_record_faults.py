"""A record that is broken, and what the commands say about it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from .conftest import Place


def _change(home: Path, statement: str) -> None:
    with closing(sqlite3.connect(home / "geode.db")) as connection:
        connection.execute(statement)
        connection.commit()


def _audit_check(geode: Place) -> dict[str, str]:
    document = geode("doctor", "--json").json
    return next(c for c in document["checks"] if c["name"] == "audit record")


@pytest.fixture
def recorded(geode: Place) -> Place:
    """A home with three calls in its record."""
    for _ in range(3):
        assert geode("tools", "call", "list_directory").code == 0
    return geode


def test_doctor_verifies_a_record_of_ordinary_size(recorded: Place) -> None:
    found = _audit_check(recorded)
    assert found["state"] == "ok"
    assert "all verified" in found["detail"]


@pytest.mark.parametrize(
    "fault", ["UPDATE audit SET tool='x' WHERE seq=2", "DELETE FROM audit WHERE seq>2", "DELETE FROM audit"]
)
def test_doctor_says_that_the_record_is_not_intact(recorded: Place, fault: str) -> None:
    _change(recorded.home, fault)
    found = _audit_check(recorded)
    assert found["state"] == "fault"
    assert "NOT intact" in found["detail"]
    assert "geode audit verify" in found["fix"]
    assert recorded("audit", "verify").code == 1


def test_the_table_of_records_that_was_dropped_is_told_without_going_in_circles(recorded: Place) -> None:
    _change(recorded.home, "DROP TABLE audit")
    verified = recorded("audit", "verify")
    assert verified.code == 1
    assert "every record is gone" in verified.out
    doctor = recorded("doctor")
    assert "lacks a table" in doctor.out
    for said in (verified, doctor, recorded("tools", "call", "list_directory")):
        assert "geode doctor" not in said.out + said.err


def test_a_lost_key_is_told_by_doctor_and_by_the_next_command_that_writes(recorded: Place) -> None:
    (recorded.home / "audit" / "key").unlink()
    found = _audit_check(recorded)
    assert found["state"] == "fault"
    assert "is missing" in found["detail"]
    done = recorded("tools", "call", "list_directory", "--json")
    assert done.code == 0
    assert done.json["status"] == "ok"
    assert "WARNING: the audit key" in done.err
    assert "WARNING" not in recorded("tools", "call", "list_directory").err
    after = _audit_check(recorded)
    assert after["state"] == "fault"
    assert "NOT intact" in after["detail"]


def test_a_first_command_warns_of_nothing(geode: Place) -> None:
    assert "WARNING" not in geode("tools", "call", "list_directory").err


def test_two_spellings_of_a_home_are_one_home(recorded: Place) -> None:
    home = recorded.home
    crooked = f"{home.parent}/project/../{home.name}"
    (home.parent / "link").symlink_to(home)
    for spelling in (crooked, str(home.parent / "link")):
        assert recorded("tools", "call", "list_directory", "--home", spelling).code == 0
        assert recorded("audit", "verify", "--home", spelling).code == 0
    assert recorded("audit", "verify").code == 0
