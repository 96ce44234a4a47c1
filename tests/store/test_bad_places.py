"""Where the database cannot be used: one clear line, what to do, nothing half-written."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from geode.core.errors import StoreBusy, StoreError
from geode.store.audit import AuditLog
from geode.store.database import Database
from store.place import Place

ROOT = hasattr(os, "geteuid") and os.geteuid() == 0


def clear(document: dict[str, str]) -> str:
    """The message of a child's error, after checking that it has the form for people."""
    assert document["code"].startswith("store"), document
    assert "\n" not in document["message"]
    assert "Traceback" not in document["message"] and "sqlite3." not in document["message"]
    assert document["fix"]
    return document["message"]


def test_a_read_only_folder_is_named_with_what_to_do(place: Place) -> None:
    place.home.chmod(0o555)
    for parent in (place.home.parent, place.home.parent.parent):
        parent.chmod(0o755)
    try:
        answer = place.run(*(["nobody"] if ROOT else []), "ready")
    finally:
        place.home.chmod(0o700)
    assert "read-only or belongs to another user" in clear(answer)
    assert str(place.file) in answer["message"]
    assert list(place.home.iterdir()) == []


def test_a_file_that_belongs_to_another_user_is_named(place: Place) -> None:
    place.open().close()
    before = place.file.read_bytes()
    for parent in (place.home, place.home.parent, place.home.parent.parent):
        parent.chmod(0o755)
    place.file.chmod(0o444)
    if ROOT:
        answer = place.run("nobody", "ready")
        assert str(place.file) in clear(answer)
    assert place.file.read_bytes() == before


@pytest.fixture
def tiny(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MiB."""
    folder = tmp_path / "tiny"
    folder.mkdir()
    mount = shutil.which("mount")
    if not ROOT or mount is None:
        pytest.skip("mounting a small file system needs root; the size limit test covers other users")
    done = subprocess.run([mount, "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)], capture_output=True)
    if done.returncode:
        pytest.skip(f"mounting is not allowed here: {done.stderr.decode().strip()}")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


async def test_a_full_disk_loses_nothing_that_was_durable(tiny: Path, tmp_path: Path) -> None:
    home = tiny / "home"
    home.mkdir()
    place = Place(home)
    answer = place.run("fill")
    assert "no space is left" in clear(answer)
    assert "no space is left" in clear(answer["second"])
    assert answer["recorded"] > 10
    safe = place.copy(tmp_path / "safe")
    with safe.open() as db:
        log = AuditLog(db, safe.home)
        report = await log.verify()
        assert report.ok, report.problems
        found = await db.read(lambda c: c.exec_driver_sql("SELECT count(*) FROM audit WHERE kind='intent'").scalar())
        assert found == answer["recorded"]
        left = await db.read(lambda c: c.exec_driver_sql("SELECT count(*) FROM results").scalar())
        assert left == 0


@pytest.mark.parametrize("free", [1, 2, 5])
def test_a_disk_without_room_for_a_database_is_named(tiny: Path, free: int) -> None:
    home = tiny / "home"
    home.mkdir()
    (tiny / "ballast").write_bytes(b"x" * (1024 * 1024 - free * 4096))
    answer = Place(home).run("ready")
    assert "no space is left" in clear(answer)


async def test_a_file_size_limit_is_a_full_disk(place: Place) -> None:
    answer = place.run("limited", 600_000, "fill")
    assert "no space is left" in clear(answer) or "disk reports an error" in answer["message"]
    with place.open() as db:
        report = await AuditLog(db, place.home).verify()
        assert report.ok, report.problems
        assert report.records >= answer["recorded"]


def test_a_database_that_another_process_holds_is_busy_after_the_wait(place: Place) -> None:
    place.open().close()
    holder = place.start("hold", place.file)
    assert holder.stdout is not None
    assert holder.stdout.readline()
    answer = place.run("impatient", "audit", 1, "x")
    assert answer["error"] == "StoreBusy"
    assert "in use by another process" in clear(answer)


def test_a_new_database_that_another_process_holds_is_busy(place: Place) -> None:
    place.raw().execute("CREATE TABLE other (x)")
    holder = place.start("hold", place.file)
    assert holder.stdout is not None
    assert holder.stdout.readline()
    with pytest.raises(StoreBusy) as caught:
        place.open(busy_seconds=0.3)
    assert caught.value.fix


@pytest.mark.parametrize("content", [b"this is no database" * 300, b"SQLite format 3\x00" + b"\xff" * 9000, b"{}"])
def test_a_file_that_is_no_database_is_left_as_it_is(place: Place, content: bytes) -> None:
    place.file.write_bytes(content)
    with pytest.raises(StoreError) as caught:
        place.open()
    assert "damaged" in caught.value.message
    assert "backup" in caught.value.fix
    assert place.file.read_bytes() == content


async def test_a_page_full_of_rubbish_is_reported_and_not_repaired(place: Place) -> None:
    with place.open() as db:
        log = AuditLog(db, place.home)
        from store.place import record_calls

        await record_calls(log, 200)
    place.raw().execute("PRAGMA wal_checkpoint(TRUNCATE)")
    data = bytearray(place.file.read_bytes())
    for page in range(2, len(data) // 4096):
        data[page * 4096 : page * 4096 + 200] = b"\xa5" * 200
    place.file.write_bytes(data)
    try:
        with place.open() as db:
            report = await AuditLog(db, place.home).verify()
        assert not report.ok
    except StoreError as error:
        assert "damaged" in error.message


def test_a_truncated_database_is_reported(place: Place) -> None:
    with place.open() as db:
        db.write_sync(lambda c: c.exec_driver_sql("CREATE TABLE t AS SELECT randomblob(100000) AS x"))
    place.raw().execute("PRAGMA wal_checkpoint(TRUNCATE)")
    place.file.write_bytes(place.file.read_bytes()[: 4096 * 3 + 100])
    with pytest.raises(StoreError) as caught, place.open() as db:
        db.read_sync(lambda c: c.exec_driver_sql("SELECT count(*) FROM audit").scalar())
        db.write_sync(lambda c: c.exec_driver_sql("SELECT sum(length(x)) FROM t").scalar())
    assert caught.value.fix


def test_a_folder_in_the_place_of_the_file_is_named(place: Place) -> None:
    place.file.mkdir()
    with pytest.raises(StoreError, match=r"geode\.db"):
        place.open()


def test_a_pipe_or_device_in_the_place_of_the_file_is_named_and_keeps_its_mode(place: Place) -> None:
    os.mkfifo(place.file)
    place.file.chmod(0o666)
    assert "not a regular file" in clear(place.run("ready"))
    assert place.file.stat().st_mode & 0o777 == 0o666


def test_a_file_in_the_place_of_the_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreError, match=r"geode\.db"):
        Database.open(f"sqlite:///{tmp_path}/file/geode.db", home=tmp_path)


def test_an_audit_folder_that_cannot_be_written_stops_recording(place: Place) -> None:
    place.open().close()
    (place.home / "audit").write_text("in the way")
    answer = place.run("audit", 1, "x")
    assert "audit" in clear(answer)
    assert place.raw().execute("SELECT count(*) FROM audit").fetchone() == (0,)
