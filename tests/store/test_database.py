from __future__ import annotations

import asyncio
import os
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from sqlalchemy import Connection, insert, text

from geode.core.errors import ConfigError, StoreError
from geode.store.database import Database
from geode.store.schema import transcript_messages
from store.place import Place


def add(number: int, session: str = "s") -> object:
    def work(connection: Connection) -> int:
        connection.execute(insert(transcript_messages).values(session=session, seq=number, at_us=0, message="{}"))
        return number

    return work


def count(connection: Connection) -> int:
    return connection.execute(text("SELECT count(*) FROM transcript_messages")).scalar_one()


def test_all_files_are_for_their_owner_only_whatever_the_umask(place: Place) -> None:
    before = os.umask(0)
    try:
        with place.open() as db:
            db.write_sync(add(1))
            modes = {p.name: stat.S_IMODE(p.stat().st_mode) for p in place.home.iterdir()}
    finally:
        os.umask(before)
    assert "geode.db-wal" in modes
    assert set(modes.values()) == {0o600}


def test_an_older_file_that_others_could_read_is_closed_to_them(place: Place) -> None:
    place.open().close()
    place.file.chmod(0o644)
    place.open().close()
    assert stat.S_IMODE(place.file.stat().st_mode) == 0o600


def test_opening_an_up_to_date_database_does_not_import_alembic(place: Place) -> None:
    assert place.run("ready") == {"opened": True, "alembic": False}
    assert place.run("ready") == {"opened": True, "alembic": False}


def test_the_store_can_be_imported_where_there_is_no_fcntl() -> None:
    code = (
        "import sys, types; sys.modules['fcntl'] = None; sys.platform = 'win32';"
        " m = types.ModuleType('msvcrt'); m.locking = None; m.LK_NBLCK = m.LK_UNLCK = 0; sys.modules['msvcrt'] = m;"
        " import geode.store.locks"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_wal_and_normal_durability(db: Database) -> None:
    def pragmas(connection: Connection) -> tuple[object, object]:
        return (
            connection.exec_driver_sql("PRAGMA journal_mode").scalar(),
            connection.exec_driver_sql("PRAGMA synchronous").scalar(),
        )

    assert db.read_sync(pragmas) == ("wal", 1)


@pytest.mark.parametrize(
    "url", ["", "nonsense", "mysql://u:secret@h/d", "sqlite://", "sqlite:///:memory:", "://", "oracle+x://a"]
)
def test_an_unusable_url_is_refused_with_advice_and_without_its_password(url: str, place: Place) -> None:
    with pytest.raises(ConfigError) as caught:
        Database.open(url, home=place.home)
    assert caught.value.fix
    assert "secret" not in caught.value.message


def test_folders_above_the_file_are_made_private(place: Place) -> None:
    path = place.home / "a" / "b" / "geode.db"
    Database.open(f"sqlite:///{path}", home=place.home).close()
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


async def test_a_read_sees_what_was_written_before(db: Database) -> None:
    assert await db.write(add(7)) == 7
    assert await db.read(count) == 1


async def test_one_failing_work_does_not_undo_what_shared_its_transaction(db: Database) -> None:
    def fails(connection: Connection) -> None:
        add(100)(connection)
        raise ValueError("mine")

    answers = await asyncio.gather(*(db.write(add(n)) for n in range(20)), db.write(fails), return_exceptions=True)
    assert answers[:20] == list(range(20))
    assert isinstance(answers[20], ValueError)
    assert await db.read(count) == 20


async def test_a_failing_statement_does_not_undo_what_shared_its_transaction(db: Database) -> None:
    answers = await asyncio.gather(*(db.write(add(n % 10)) for n in range(20)), return_exceptions=True)
    assert sum(isinstance(a, StoreError) for a in answers) == 10
    assert await db.read(count) == 10


async def test_concurrent_writers_share_transactions(db: Database) -> None:
    seen: list[bool] = []
    commits = 0

    def settled(committed: bool) -> None:
        nonlocal commits
        seen.append(committed)

    def inside(connection: Connection) -> bool:
        return connection.in_nested_transaction()

    nested = await asyncio.gather(*(db.write(inside, settled=settled) for _ in range(50)))
    assert seen == [True] * 50
    assert any(nested)


async def test_a_cancelled_caller_leaves_its_work_whole(db: Database) -> None:
    go = threading.Event()

    def slow(connection: Connection) -> None:
        add(1)(connection)
        go.wait(5)
        add(2)(connection)

    task = asyncio.create_task(db.write(slow))
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    go.set()
    assert await db.write(count) == 2


def test_work_that_outlives_its_event_loop_is_done(db: Database) -> None:
    go = threading.Event()

    def slow(connection: Connection) -> None:
        go.wait(5)
        add(1)(connection)

    async def leave() -> None:
        asyncio.get_running_loop().create_task(db.write(slow))
        await asyncio.sleep(0.05)

    asyncio.run(leave())
    go.set()
    assert db.write_sync(count) == 1


def test_close_finishes_what_is_queued_and_may_be_called_twice(place: Place) -> None:
    db = place.open()
    threads = [threading.Thread(target=db.write_sync, args=(add(n),)) for n in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    db.close()
    db.close()
    with place.open() as again:
        assert again.read_sync(count) == 10


def test_a_closed_database_says_so(place: Place) -> None:
    db = place.open()
    db.close()
    with pytest.raises(StoreError, match="closed"):
        db.write_sync(add(1))
    with pytest.raises(StoreError, match="closed"):
        db.read_sync(count)


def test_a_write_inside_a_write_is_refused_instead_of_waiting_for_ever(db: Database) -> None:
    with pytest.raises(RuntimeError):
        db.write_sync(lambda _c: db.write_sync(add(1)))


async def test_reads_go_on_while_a_write_takes_long(db: Database) -> None:
    go = threading.Event()
    task = asyncio.create_task(db.write(lambda _c: go.wait(5)))
    await asyncio.sleep(0.02)
    assert await asyncio.wait_for(db.read(count), 2) == 0
    go.set()
    await task


async def test_a_brief_write_is_done_in_the_calling_thread_unless_somebody_else_writes(db: Database) -> None:
    def where(_connection: Connection) -> int:
        return threading.get_ident()

    assert await db.write(where, brief=True) == threading.get_ident()
    go = threading.Event()
    task = asyncio.create_task(db.write(lambda _c: go.wait(5)))
    await asyncio.sleep(0.02)
    waiting = asyncio.create_task(db.write(where, brief=True))
    await asyncio.sleep(0.02)
    go.set()
    await task
    assert await waiting != threading.get_ident()


async def test_a_brief_write_waits_for_another_process_without_stopping_the_loop(place: Place) -> None:
    with place.open() as db, place.open() as other:
        go = threading.Event()
        blocker = asyncio.create_task(other.write(lambda _c: go.wait(5)))
        await asyncio.sleep(0.02)
        task = asyncio.create_task(db.write(add(1), brief=True))
        for _ in range(10):
            before = time.monotonic()
            await asyncio.sleep(0.01)
            assert time.monotonic() - before < 1
        assert not task.done()
        go.set()
        await blocker
        assert await task == 1
        assert await db.read(count) == 1


async def test_an_interrupted_brief_write_is_undone_and_settled(db: Database) -> None:
    def interrupted(connection: Connection) -> None:
        add(1)(connection)
        raise KeyboardInterrupt

    fates: list[bool] = []
    with pytest.raises(KeyboardInterrupt):
        await db.write(interrupted, settled=fates.append, brief=True)
    assert fates == [False]
    assert await db.write(add(2), brief=True) == 2
    assert await db.read(count) == 1


async def test_brief_writes_do_not_let_the_log_grow_without_end(place: Place) -> None:
    with place.open() as db:
        for number in range(3000):
            await db.write(add(number, "x" * 2000), brief=True)
        log = place.file.with_name(place.file.name + "-wal").stat().st_size
    assert log < 3000 * 4096


def test_a_database_file_given_relative_is_the_same_for_the_whole_life(place: Place, tmp_path: Path) -> None:
    before = Path.cwd()
    os.chdir(tmp_path)
    try:
        db = Database.open("sqlite:///relative.db", home=place.home)
        os.chdir("/")
        db.write_sync(add(1))
        db.close()
    finally:
        os.chdir(before)
    assert (tmp_path / "relative.db").exists()
