"""Whoever can write the database, but not read the key, cannot change the record unseen."""

from __future__ import annotations

import asyncio
import json
import secrets
import shutil
import sqlite3
import stat
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from geode.store.audit import AuditLog, AuditRecord, AuditReport
from geode.store.audit_chain import COLUMNS, Keys, seal, start
from geode.store.audit_home import AuditHome, Manifest
from store.place import Place, finished, record_calls

ALL = (*COLUMNS, "mac")


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """Three writers, 24 calls."""
    home = tmp_path_factory.mktemp("original") / "home"
    home.mkdir()
    place = Place(home)

    async def fill() -> None:
        with place.open() as db:
            for name in ("a", "b", "c"):
                log = AuditLog(db, home)
                await record_calls(log, 8, prefix=name, session="s", parent="p", node="n")

    asyncio.run(fill())
    place.raw().execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return place


@pytest.fixture
def copy(original: Place, tmp_path: Path) -> Place:
    return original.copy(tmp_path / "copy")


def verified(place: Place) -> AuditReport:
    """As `geode audit verify` does it: a process of its own that records nothing."""
    with place.open() as db, ThreadPoolExecutor(1) as pool:
        # A loop of its own in a thread of its own: asynchronous tests call this too.
        return pool.submit(lambda: asyncio.run(AuditLog(db, place.home).verify())).result()


def writers(place: Place) -> list[str]:
    return [w for (w,) in place.raw().execute("SELECT DISTINCT writer FROM audit ORDER BY writer")]


def folder(place: Place) -> Path:
    (found,) = (p for p in (place.home / "audit").iterdir() if p.is_dir())
    return found


def reseal(place: Place, keys: Keys) -> None:
    """Compute all chains anew, as somebody with a copy of our code would."""
    with place.raw() as connection:
        for writer in writers(place):
            mac = start(keys.chain, writer)
            rows = connection.execute(
                f"SELECT {', '.join(COLUMNS)} FROM audit WHERE writer = ? ORDER BY seq", (writer,)
            ).fetchall()
            for number, row in enumerate(rows, 1):
                values = [writer, number, *row[2:]]
                mac = seal(keys.chain, mac, values)
                connection.execute(
                    "UPDATE audit SET seq = ?, mac = ? WHERE writer = ? AND seq = ?", (number, mac, writer, row[1])
                )


def test_an_untouched_record_is_intact(original: Place) -> None:
    report = verified(original)
    assert report.to_json() == {"ok": True, "records": 51, "first_bad": None, "problems": [], "notes": []}


def test_key_heads_and_lists_are_for_their_owner_only(original: Place) -> None:
    for path in (original.home / "audit").rglob("*"):
        expected = 0o700 if path.is_dir() else 0o600
        assert stat.S_IMODE(path.stat().st_mode) == expected, path


def test_an_empty_record_is_intact(place: Place) -> None:
    assert verified(place).ok


def other_value(old: Any, draw: st.DrawFn) -> Any:
    kinds: list[st.SearchStrategy[Any]] = [
        st.none(),
        st.binary(max_size=40),
        st.text(max_size=40),
        st.integers(0, 10**15),
    ]
    if isinstance(old, int):
        kinds.append(st.sampled_from([old + 1, old - 1, -old, old * 10]))
    if isinstance(old, str):
        kinds.append(st.sampled_from([old + " ", old.upper(), old[:-1], old + "\x00", old.encode()]))
    if isinstance(old, bytes):
        kinds.append(st.sampled_from([old[:-1], old + b"\0", bytes([old[0] ^ 1]) + old[1:], old.hex()]))
    return draw(st.one_of(kinds))


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_change_of_any_column_of_any_row_is_found(original: Place, tmp_path_factory: Any, data: Any) -> None:
    copy = original.copy(tmp_path_factory.mktemp("t") / "copy")
    connection = copy.raw()
    rows = connection.execute("SELECT writer, seq FROM audit ORDER BY writer, seq").fetchall()
    writer, seq = data.draw(st.sampled_from(rows))
    column = data.draw(st.sampled_from(ALL))
    look = f"SELECT typeof({column}), {column} FROM audit"
    old = connection.execute(f"{look} WHERE writer = ? AND seq = ?", (writer, seq)).fetchone()
    everything = connection.execute(f"{look} ORDER BY writer, seq").fetchall()
    new = data.draw(st.composite(lambda draw: other_value(old[1], draw))())
    try:
        connection.execute(f"UPDATE audit SET {column} = ? WHERE writer = ? AND seq = ?", (new, writer, seq))
    except (sqlite3.IntegrityError, UnicodeEncodeError):
        assume(False)
    assume(connection.execute(f"{look} ORDER BY writer, seq").fetchall() != everything)
    connection.close()
    report = verified(copy)
    assert not report.ok
    shutil.rmtree(copy.home)


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_removal_of_rows_is_found(original: Place, tmp_path_factory: Any, data: Any) -> None:
    copy = original.copy(tmp_path_factory.mktemp("t") / "copy")
    connection = copy.raw()
    rows = connection.execute("SELECT writer, seq FROM audit").fetchall()
    for writer, seq in data.draw(st.sets(st.sampled_from(rows), min_size=1, max_size=len(rows))):
        connection.execute("DELETE FROM audit WHERE writer = ? AND seq = ?", (writer, seq))
    connection.close()
    report = verified(copy)
    assert not report.ok
    assert report.first_bad is not None
    shutil.rmtree(copy.home)


def last_row(c: sqlite3.Connection, w: str) -> None:
    c.execute("DELETE FROM audit WHERE writer = ? AND seq = (SELECT max(seq) FROM audit WHERE writer = ?)", (w, w))


def middle_row(c: sqlite3.Connection, w: str) -> None:
    c.execute("DELETE FROM audit WHERE writer = ? AND seq = 7", (w,))


def middle_row_closing_the_gap(c: sqlite3.Connection, w: str) -> None:
    middle_row(c, w)
    for seq in range(8, 18):
        c.execute("UPDATE audit SET seq = ? WHERE writer = ? AND seq = ?", (seq - 1, w, seq))


def first_row(c: sqlite3.Connection, w: str) -> None:
    c.execute("DELETE FROM audit WHERE writer = ? AND seq = 1", (w,))


def whole_writer(c: sqlite3.Connection, w: str) -> None:
    c.execute("DELETE FROM audit WHERE writer = ?", (w,))


def every_row(c: sqlite3.Connection, w: str) -> None:
    c.execute("DELETE FROM audit")


def two_rows_swapped(c: sqlite3.Connection, w: str) -> None:
    for before, after in ((5, 1000), (6, 5), (1000, 6)):
        c.execute("UPDATE audit SET seq = ? WHERE writer = ? AND seq = ?", (after, w, before))


def contents_swapped(c: sqlite3.Connection, w: str) -> None:
    names = [n for n in ALL if n not in ("writer", "seq")]
    rows = {
        s: c.execute(f"SELECT {', '.join(names)} FROM audit WHERE writer = ? AND seq = ?", (w, s)).fetchone()
        for s in (5, 6)
    }
    for seq, other in ((5, 6), (6, 5)):
        c.execute(
            f"UPDATE audit SET {', '.join(f'{n} = ?' for n in names)} WHERE writer = ? AND seq = ?",
            (*rows[other], w, seq),
        )


def row_moved_to_another_writer(c: sqlite3.Connection, w: str) -> None:
    c.execute("UPDATE audit SET writer = (SELECT max(writer) FROM audit), seq = 18 WHERE writer = ? AND seq = 17", (w,))


def row_repeated_at_the_end(c: sqlite3.Connection, w: str) -> None:
    names = ", ".join(n for n in ALL if n != "seq")
    c.execute(f"INSERT INTO audit (seq, {names}) SELECT 18, {names} FROM audit WHERE writer = ? AND seq = 17", (w,))


def row_added_without_the_key(c: sqlite3.Connection, w: str) -> None:
    row_repeated_at_the_end(c, w)
    c.execute("UPDATE audit SET mac = ? WHERE writer = ? AND seq = 18", (secrets.token_bytes(32), w))


def writer_added_without_the_key(c: sqlite3.Connection, w: str) -> None:
    names = ", ".join(n for n in ALL if n != "writer")
    c.execute(f"INSERT INTO audit (writer, {names}) SELECT 'wffffffffffff', {names} FROM audit WHERE writer = ?", (w,))


def writer_renamed(c: sqlite3.Connection, w: str) -> None:
    c.execute("UPDATE audit SET writer = 'wffffffffffff' WHERE writer = ?", (w,))


def writer_as_blob(c: sqlite3.Connection, w: str) -> None:
    c.execute("UPDATE audit SET writer = CAST(writer AS BLOB) WHERE writer = ?", (w,))


def negative_number(c: sqlite3.Connection, w: str) -> None:
    names = ", ".join(n for n in ALL if n != "seq")
    c.execute(f"INSERT INTO audit (seq, {names}) SELECT -5, {names} FROM audit WHERE writer = ? AND seq = 5", (w,))


def text_that_is_not_utf8(c: sqlite3.Connection, w: str) -> None:
    c.execute("UPDATE audit SET body = CAST(x'ff00fe' AS TEXT) WHERE writer = ? AND seq = 4", (w,))


Harm = Callable[[sqlite3.Connection, str], None]
HARMS: list[Harm] = [
    last_row,
    middle_row,
    middle_row_closing_the_gap,
    first_row,
    whole_writer,
    every_row,
    two_rows_swapped,
    contents_swapped,
    row_moved_to_another_writer,
    row_repeated_at_the_end,
    row_added_without_the_key,
    writer_added_without_the_key,
    writer_renamed,
    writer_as_blob,
    negative_number,
    text_that_is_not_utf8,
]


@pytest.mark.parametrize("harm", HARMS, ids=lambda h: h.__name__)
@pytest.mark.parametrize("which", [0, 1, 2])
def test_harm_done_to_the_table_is_found(copy: Place, harm: Harm, which: int) -> None:
    with copy.raw() as connection:
        harm(connection, writers(copy)[which])
    report = verified(copy)
    assert not report.ok
    assert report.first_bad is not None
    assert report.problems


@pytest.mark.parametrize("harm", HARMS, ids=lambda h: h.__name__)
async def test_harm_is_still_found_after_geode_has_gone_on_recording(copy: Place, harm: Harm) -> None:
    with copy.raw() as connection:
        harm(connection, writers(copy)[0])
    with copy.open() as db:
        logs = [AuditLog(db, copy.home) for _ in range(4)]
        for number, log in enumerate(logs):
            await record_calls(log, 2, prefix=f"after{number}-")
        assert not (await logs[0].verify()).ok


def test_a_chain_computed_anew_with_our_code_and_another_key_is_found(copy: Place) -> None:
    copy.raw().execute("UPDATE audit SET status = 'denied' WHERE call_id = 'a3' AND kind = 'outcome'")
    reseal(copy, Keys(secrets.token_bytes(32)))
    report = verified(copy)
    assert not report.ok
    assert report.first_bad is not None
    assert report.first_bad.endswith("#1")


def test_a_chain_computed_anew_together_with_its_heads_and_list_is_found(copy: Place) -> None:
    keys = Keys(secrets.token_bytes(32))
    copy.raw().execute("DELETE FROM audit WHERE call_id = 'a3'")
    reseal(copy, keys)
    home = AuditHome(copy.home, str(copy.file))
    home.save(keys, Manifest("0" * 16, writers(copy)))
    for writer in writers(copy):
        slot = home.try_slot(keys, writer)
        assert slot is not None
        seq, mac = (
            copy.raw()
            .execute("SELECT seq, mac FROM audit WHERE writer = ? ORDER BY seq DESC LIMIT 1", (writer,))
            .fetchone()
        )
        slot.write_head(seq, mac)
        slot.write_head(seq, mac)
        slot.release()
    assert not verified(copy).ok


def test_a_chain_computed_anew_with_an_empty_key_is_found(copy: Place) -> None:
    reseal(copy, Keys(b""))
    assert not verified(copy).ok


@pytest.mark.parametrize("content", [None, b"", b"rubbish\n", b"00" * 32, b"\xff\xfe"])
def test_a_missing_or_changed_key_is_found(copy: Place, content: bytes | None) -> None:
    key = copy.home / "audit" / "key"
    if content is None:
        key.unlink()
    else:
        key.write_bytes(content)
    assert not verified(copy).ok
    assert not verified(copy).ok


async def test_a_missing_key_is_found_even_after_geode_made_a_new_one(copy: Place) -> None:
    (copy.home / "audit" / "key").unlink()
    with copy.open() as db:
        log = AuditLog(db, copy.home)
        await record_calls(log, 3, prefix="after")
        report = await log.verify()
        assert not report.ok
        assert any("key" in p for p in report.problems)


@pytest.mark.parametrize("harm", ["removed", "emptied", "rubbish", "one bit"])
def test_a_missing_or_changed_head_is_found(copy: Place, harm: str) -> None:
    head = folder(copy) / f"{writers(copy)[1]}.head"
    if harm == "removed":
        head.unlink()
    elif harm == "emptied":
        head.write_bytes(b"")
    elif harm == "rubbish":
        head.write_bytes(b"\xff" * 512)
    else:
        data = bytearray(head.read_bytes())
        data[20] ^= 1
        data[256 + 20] ^= 1
        head.write_bytes(data)
    report = verified(copy)
    assert not report.ok
    assert "head" in report.problems[0]


@pytest.mark.parametrize("harm", ["removed", "emptied", "writer removed"])
def test_a_missing_or_changed_list_of_writers_is_found(copy: Place, harm: str) -> None:
    path = folder(copy) / "writers"
    document = json.loads(path.read_text())
    if harm == "removed":
        path.unlink()
    elif harm == "emptied":
        path.write_text("")
    else:
        document["writers"].pop()
        path.write_text(json.dumps(document))
    assert not verified(copy).ok


async def test_a_removed_list_is_found_even_after_geode_made_a_new_one(copy: Place) -> None:
    victim = writers(copy)[0]
    (folder(copy) / "writers").unlink()
    (folder(copy) / f"{victim}.head").unlink()
    copy.raw().execute("DELETE FROM audit WHERE writer = ?", (victim,))
    with copy.open() as db:
        log = AuditLog(db, copy.home)
        await record_calls(log, 3, prefix="after")
        report = await log.verify()
    assert not report.ok
    assert any("list of writers" in p for p in report.problems)


async def test_a_tail_cut_together_with_its_older_head_is_betrayed_by_another_writer(place: Place) -> None:
    with place.open() as db:
        log = AuditLog(db, place.home)
        await record_calls(log, 2)
        saved = {p: p.read_bytes() for p in folder(place).glob("*.head")}
        await record_calls(log, 5, prefix="hidden")
        witness = AuditLog(db, place.home)
        await record_calls(witness, 1, prefix="witness")
    (path,) = saved
    path.write_bytes(saved[path])
    place.raw().execute("DELETE FROM audit WHERE writer = ? AND seq > 5", (path.stem,))
    report = verified(place)
    assert not report.ok
    assert "missing at the end" in report.problems[0]


async def test_a_writer_removed_with_its_head_and_from_an_older_list_is_betrayed_by_another(place: Place) -> None:
    with place.open() as db:
        first = AuditLog(db, place.home)
        await record_calls(first, 2)
        older = (folder(place) / "writers").read_bytes()
        second = AuditLog(db, place.home)
        await record_calls(second, 2, prefix="hidden")
    with place.open() as db:
        await record_calls(AuditLog(db, place.home), 1, prefix="later")
    victim = place.raw().execute("SELECT writer FROM audit WHERE call_id = 'hidden0'").fetchone()[0]
    (folder(place) / "writers").write_bytes(older)
    (folder(place) / f"{victim}.head").unlink()
    place.raw().execute("DELETE FROM audit WHERE writer = ?", (victim,))
    report = verified(place)
    assert not report.ok
    assert "gone" in report.problems[0]


def test_a_database_removed_or_replaced_by_an_empty_one_is_found(copy: Place) -> None:
    for path in copy.home.glob("geode.db*"):
        path.unlink()
    report = verified(copy)
    assert not report.ok
    assert report.records == 0


async def test_a_process_killed_between_commit_and_head_is_no_harm(place: Place) -> None:
    with place.open() as db:
        log = AuditLog(db, place.home)
        await record_calls(log, 2)
        saved = {p: p.read_bytes() for p in folder(place).glob("*.head")}
        await log.record(AuditRecord(kind="intent", call_id="last", tool="t"))
    (path,) = saved
    path.write_bytes(saved[path])
    assert verified(place).ok
    with place.open() as db:
        log = AuditLog(db, place.home)
        await record_calls(log, 1, prefix="next")
        report = await log.verify()
        assert report.ok, report.problems
    assert len(writers(place)) == 1


async def test_a_torn_write_of_a_head_leaves_the_one_before(place: Place) -> None:
    with place.open() as db:
        log = AuditLog(db, place.home)
        await record_calls(log, 2)
    (path,) = folder(place).glob("*.head")
    data = path.read_bytes()
    newest = max(range(2), key=lambda n: int(data[n * 256 : n * 256 + 256].split()[1]))
    torn = bytearray(data)
    torn[newest * 256 + 60 : newest * 256 + 250] = b"\x00" * 190
    path.write_bytes(torn)
    assert verified(place).ok


async def test_a_home_that_was_moved_is_intact(copy: Place, tmp_path: Path) -> None:
    shutil.move(copy.home, tmp_path / "moved")
    moved = Place(tmp_path / "moved")
    assert verified(moved).ok
    with moved.open() as db:
        log = AuditLog(db, moved.home)
        await record_calls(log, 1, prefix="moved")
        assert (await log.verify()).ok


async def test_two_databases_of_one_home_have_records_of_their_own(place: Place) -> None:
    other = Place(place.home, f"sqlite:///{place.home}/other.db")
    for here in (place, other):
        with here.open() as db:
            await record_calls(AuditLog(db, here.home), 2)
    assert verified(place).ok
    assert verified(other).ok


async def test_a_writer_of_another_home_with_the_same_key_is_checked_without_its_head(
    place: Place, tmp_path: Path
) -> None:
    with place.open() as db:
        await record_calls(AuditLog(db, place.home), 2)
    second = Place(tmp_path / "second", place.url)
    (second.home / "audit").mkdir(parents=True)
    shutil.copy(place.home / "audit" / "key", second.home / "audit" / "key")
    with second.open() as db:
        await record_calls(AuditLog(db, second.home), 2, prefix="second")
    report = verified(place)
    assert report.ok, report.problems
    assert "another home" in report.notes[0]


async def test_a_writer_of_another_home_with_another_key_is_a_problem(place: Place, tmp_path: Path) -> None:
    with place.open() as db:
        await record_calls(AuditLog(db, place.home), 2)
    second = Place(tmp_path / "second", place.url)
    second.home.mkdir()
    with second.open() as db:
        await record_calls(AuditLog(db, second.home), 2, prefix="second")
    assert not verified(place).ok


async def test_progress_is_told(log: AuditLog) -> None:
    await log.records([AuditRecord(kind="config") for _ in range(12_000)])
    seen: list[tuple[int, int]] = []
    report = await log.verify(lambda done, total: seen.append((done, total)))
    assert report.ok
    assert seen[-1] == (report.records, report.records)
    assert len(seen) >= 3
    assert [d for d, _ in seen] == sorted(d for d, _ in seen)


async def test_verifying_while_others_write_and_begin_reports_no_harm(place: Place) -> None:
    children = [place.start("forever") for _ in range(2)]
    try:
        for child in children:
            assert child.stdout is not None
            assert child.stdout.readline()
        end = time.monotonic() + 3
        with place.open() as db:
            log = AuditLog(db, place.home)
            checks = 0
            while time.monotonic() < end or checks < 20:
                # Writers also come while we check: a slot is made after the heads were read.
                children.append(place.start("audit", 1, f"late{checks}")) if checks in (2, 8) else None
                report = await log.verify()
                assert report.ok, report.problems
                checks += 1
    finally:
        for child in children:
            child.kill()


def fill_fast(place: Place, total: int) -> None:
    """A record of `total` rows with the true key, written as fast as possible."""
    with place.open() as db:
        log = AuditLog(db, place.home)
        log.record_sync(AuditRecord(kind="config"))
    home = AuditHome(place.home, str(place.file))
    keys = home.keys()
    assert keys is not None
    (writer,) = writers(place)
    connection = place.raw()
    mac = connection.execute("SELECT mac FROM audit WHERE seq = 2").fetchone()[0]
    body = json.dumps({"arguments": {"path": "src/some/file.py"}, "sizes": list(range(20)), "sha": "0" * 64})
    connection.execute("BEGIN")
    for seq in range(3, total + 1):
        kind, status = ("intent", "started") if seq % 2 else ("outcome", "ok")
        row = [writer, seq, kind, f"call_{seq // 2}", f"tool{seq % 40}", "local", "model", f"s{seq // 1000}", None]
        row += ["default", None, status, "none", seq % 9000, 0, 1_790_000_000_000_000 + seq, body]
        mac = seal(keys.chain, mac, row)
        connection.execute(f"INSERT INTO audit VALUES ({', '.join('?' * 18)})", (*row, mac))
    connection.execute("COMMIT")
    slot = home.try_slot(keys, writer)
    assert slot is not None
    slot.write_head(total, mac)
    slot.release()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_million_records_verify_within_a_minute_and_little_memory(place: Place) -> None:
    total = 1_000_000
    fill_fast(place, total)
    answer = finished(place.start("verify_measured"), seconds=400)
    print(answer)
    assert answer["ok"]
    assert answer["records"] == total
    assert answer["progress"] > 100
    # The target is a minute on a quiet machine; CPU time does not depend on who else is busy.
    assert answer["cpu_seconds"] < 60
    assert answer["grown_mib"] < 100
