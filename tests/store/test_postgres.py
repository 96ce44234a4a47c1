"""The same store on a real Postgres; skipped where there is no server to start."""

from __future__ import annotations

import asyncio
import os
import platform
import pwd
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, inspect

from geode.core.errors import StoreError
from geode.store.approvals import ApprovalAnswered, Approvals
from geode.store.audit import AuditLog, AuditRecord
from geode.store.engine import WRITES, make_engine, parse_url
from geode.store.idempotency import Idempotency
from geode.store.migrate import upgrade
from geode.store.results import Results
from geode.store.schema import HEAD
from geode.store.transcripts import Transcripts
from store.place import Place, finished, record_calls
from store.test_approvals import request

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


def programs() -> Path:
    """The folder with initdb and postgres."""
    found = shutil.which("initdb")
    if found:
        return Path(found).resolve().parent
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not folders:
        pytest.skip("no Postgres server is installed (Debian: apt-get install postgresql)")
    return folders[-1].parent


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """A server of our own on a free port of the loopback interface; its URL without a database."""
    pytest.importorskip("psycopg", reason="the Postgres driver is not installed (extra postgres)")
    bin_ = programs()
    options: dict[str, Any] = {}
    if os.geteuid() == 0:
        try:
            user = pwd.getpwnam("postgres")
        except KeyError:
            pytest.skip("root may not run Postgres, and there is no user postgres")
        options = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    folder = Path(tempfile.mkdtemp(prefix="geode-postgres-"))
    if options:
        os.chown(folder, options["user"], options["group"])
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    data = folder / "data"
    done = subprocess.run(
        [bin_ / "initdb", "-D", data, "-U", "geode", "--auth=trust", "-E", "UTF8", "--no-sync"],
        capture_output=True,
        text=True,
        **options,
    )
    assert done.returncode == 0, done.stderr
    process = subprocess.Popen(
        [bin_ / "postgres", "-D", data, "-p", str(port), "-h", "127.0.0.1", "-k", folder, "-c", "fsync=off"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        **options,
    )
    try:
        url = f"postgresql://geode@127.0.0.1:{port}"
        engine = create_engine(parse_url(f"{url}/postgres"))
        for _ in range(150):
            try:
                engine.connect().close()
                break
            except Exception:
                time.sleep(0.2)
        engine.dispose()
        yield url
    finally:
        process.terminate()
        process.wait(30)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def shared(server: str, tmp_path: Path) -> Iterator[Place]:
    """A home whose database is a fresh one on the server."""
    name = f"t{secrets.token_hex(6)}"
    engine = create_engine(parse_url(f"{server}/postgres"), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.exec_driver_sql(f'CREATE DATABASE "{name}"')
    engine.dispose()
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    place = Place(home, f"{server}/{name}")
    yield place
    place.end()


def sql(place: Place, statement: str) -> None:
    engine = create_engine(parse_url(place.url))
    with engine.begin() as connection:
        connection.exec_driver_sql(statement)
    engine.dispose()


async def test_every_part_of_the_store(shared: Place) -> None:
    with shared.open() as db:
        log = AuditLog(db, shared.home)
        await record_calls(log, 20, session="s")
        await asyncio.gather(*(log.record(AuditRecord(kind="intent", call_id=f"k{n}", tool="도구")) for n in range(50)))
        await log.record(AuditRecord(kind="outcome", call_id="odd\x00\ud83d", tool="t", body={"x": "\ud83d\x00"}))
        report = await log.verify()
        assert report.ok, report.problems
        assert report.records == 92
        assert len((await log.list(limit=5)).entries) == 5
        assert [e.kind for e in await log.show("c3")] == ["intent", "outcome"]
        assert (await log.stats()).total.calls == 21
        assert await log.in_doubt() == ()

        results = Results(db)
        text = "줄 \x00\n" * 100_000
        name = await results.put(text, session="s", principal="p", call_id="c", tool="t")
        assert (await results.get(name, session="s", principal="p", limit=10**9)).text == text
        assert await results.purge(datetime.now(UTC) + timedelta(seconds=1)) == 1

        approvals, asked = Approvals(db), request(to="A")
        await approvals.create(asked)
        await approvals.answer(asked.id, True, "kim")
        with pytest.raises(ApprovalAnswered):
            await approvals.answer(asked.id, True, "kim")
        assert await approvals.consume(asked.digest, "local") is not None
        assert await approvals.consume(asked.digest, "local") is None
        assert [a.state for a in await approvals.list("used")] == ["used"]

        keys = Idempotency(db)
        assert (await keys.begin("k", "p", "d")).state == "new"
        assert (await keys.begin("k", "p", "d")).state == "unknown"
        await keys.finish("k", "p", {"a": 1})
        assert (await keys.begin("k", "p", "d")).result == {"a": 1}

        transcripts = Transcripts(db)
        await transcripts.append("s", 0, {"text": "a\x00\ud800"})
        await transcripts.append("s", 0, {"text": "a\x00\ud800"})
        assert await transcripts.load("s") == [{"text": "a\x00\ufffd"}]
        assert len(await transcripts.sessions()) == 1


async def test_another_machine_with_the_same_key_is_no_incident(shared: Place, tmp_path: Path) -> None:
    with shared.open() as db:
        await record_calls(AuditLog(db, shared.home), 2)
    # Its rows say that they come from elsewhere: as if the first home were another machine's.
    sql(shared, f'UPDATE audit SET body = replace(body, \'"host":"{platform.node()}\', \'"host":"elsewhere\')')
    second = Place(tmp_path / "second", shared.url)
    second.home.mkdir()
    with second.open() as db:
        log = AuditLog(db, second.home)
        await record_calls(log, 2, prefix="second")
        assert not [p for p in (await log.verify()).problems if p.startswith("noted before")]


async def test_retention(shared: Place) -> None:
    with shared.open() as db:
        old = 1_700_000_000_000_000
        await record_calls(AuditLog(db, shared.home, now=lambda: old), 5)
        log = AuditLog(db, shared.home)
        await record_calls(log, 5, prefix="new")
        assert await log.prune(datetime.now(UTC) - timedelta(days=30)) > 0
        report = await log.verify()
        assert report.ok, report.problems


@pytest.mark.parametrize("old", [False, True])
def test_processes_that_migrate_at_once_all_succeed(shared: Place, old: bool) -> None:
    if old:
        engine = make_engine(parse_url(shared.url), busy_seconds=5)
        with engine.connect().execution_options(**WRITES) as connection, connection.begin():
            upgrade(connection, "0001")
        engine.dispose()
    children = [shared.start("at", time.time() + 2.5, "ready") for _ in range(4)]
    assert [finished(c)["opened"] for c in children] == [True] * 4
    engine = create_engine(parse_url(shared.url))
    assert "transcript_messages" in inspect(engine).get_table_names()
    with engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalars().all() == [HEAD]
    engine.dispose()


async def test_processes_hammering_one_record_stay_verifiable(shared: Place) -> None:
    children = [shared.start("at", time.time() + 2.5, "audit", 100, f"p{n}") for n in range(4)]
    assert [finished(c)["recorded"] for c in children] == [100] * 4
    with shared.open() as db:
        report = await AuditLog(db, shared.home).verify()
        assert report.ok, report.problems
        assert report.records == 804


async def test_one_process_gets_the_yes_and_one_the_key(shared: Place) -> None:
    asked = request(to="A")
    with shared.open() as db:
        await Approvals(db).create(asked)
        await Approvals(db).answer(asked.id, True, "kim")
    children = [shared.start("at", time.time() + 2.5, "consume", asked.digest) for _ in range(4)]
    assert sorted(finished(c)["got"] for c in children) == [False] * 3 + [True]
    children = [shared.start("at", time.time() + 2.5, "begin", "k") for _ in range(4)]
    assert sorted(finished(c)["state"] for c in children) == ["new"] + ["unknown"] * 3


@pytest.mark.parametrize(
    "harm",
    [
        "DELETE FROM audit WHERE seq = (SELECT max(seq) FROM audit)",
        "DELETE FROM audit WHERE seq = 5",
        "UPDATE audit SET body = body || ' ' WHERE seq = 6",
        "UPDATE audit SET mac = 'x' WHERE seq = 6",
        "DELETE FROM audit",
    ],
)
async def test_harm_done_to_the_table_is_found(shared: Place, harm: str) -> None:
    with shared.open() as db:
        log = AuditLog(db, shared.home)
        await record_calls(log, 5)
        sql(shared, harm)
        assert not (await log.verify()).ok


async def test_a_lost_connection_is_told_and_the_chain_goes_on_afterwards(shared: Place) -> None:
    with shared.open() as db:
        log = AuditLog(db, shared.home)
        await record_calls(log, 2)
        others = "datname = current_database() AND pid <> pg_backend_pid()"
        sql(shared, f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {others}")
        with pytest.raises(StoreError):
            await log.record(AuditRecord(kind="intent", call_id="lost"))
        await record_calls(log, 2, prefix="after")
        report = await log.verify()
        assert report.ok, report.problems
        assert report.records == 9


def test_a_server_that_is_not_there_is_named_without_the_password(tmp_path: Path) -> None:
    pytest.importorskip("psycopg")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    place = Place(tmp_path, f"postgresql://kim:sesame@127.0.0.1:{port}/geode")
    with pytest.raises(StoreError) as caught:
        place.open()
    assert "cannot be reached" in caught.value.message
    assert "sesame" not in caught.value.message + caught.value.fix


async def test_a_table_that_another_transaction_locks_is_busy(shared: Place) -> None:
    with shared.open(busy_seconds=0.5) as db:
        log = AuditLog(db, shared.home)
        await record_calls(log, 1)
        engine = create_engine(parse_url(shared.url))
        with engine.connect() as connection, connection.begin():
            connection.exec_driver_sql("LOCK TABLE audit IN ACCESS EXCLUSIVE MODE")
            with pytest.raises(StoreError, match="busy"):
                await log.record(AuditRecord(kind="intent", call_id="x"))
        engine.dispose()
        await record_calls(log, 1, prefix="after")
        assert (await log.verify()).ok
