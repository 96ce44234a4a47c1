"""What the processes do that the tests of the store start: `child.py URL HOME WHAT …`."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import sqlite3
import sys
import time
from pathlib import Path
from typing import Any

from sqlalchemy import insert

from geode.core.errors import GeodeError
from geode.store.approvals import Approvals
from geode.store.audit import AuditLog, AuditRecord
from geode.store.database import Database
from geode.store.idempotency import Idempotency
from geode.store.migrate import upgrade
from geode.store.results import Results
from geode.store.schema import transcript_messages
from geode.store.transcripts import Transcripts

NOBODY = 65534


def say(value: Any) -> None:
    print(json.dumps(value), flush=True)


async def audit(db: Database, home: Path, count: str, prefix: str) -> None:
    """Record calls, several coroutines at once."""
    log = AuditLog(db, home)

    async def one(name: str) -> None:
        await log.record(AuditRecord(kind="intent", call_id=name, tool="t", status="started"))
        await log.record(AuditRecord(kind="outcome", call_id=name, tool="t", status="ok", duration_ms=1))

    for start in range(0, int(count), 4):
        await asyncio.gather(*(one(f"{prefix}-{n}") for n in range(start, min(start + 4, int(count)))))
    say({"recorded": int(count)})


async def forever(db: Database, home: Path) -> None:
    """Record until killed; says the number of each record that is durable."""
    log = AuditLog(db, home)
    number = 0
    while True:
        await log.record(AuditRecord(kind="intent", call_id=f"k{number}", tool="t", status="started"))
        print(number, flush=True)
        number += 1


async def intent(db: Database, home: Path, call_id: str) -> None:
    """Record that a call begins, and hang in it."""
    await AuditLog(db, home).record(AuditRecord(kind="intent", call_id=call_id, tool="write_file", status="started"))
    say("begun")
    await asyncio.sleep(600)


async def fill(db: Database, home: Path) -> None:
    """Store until the disk is full; say how much was durable and what was said then."""
    log, results = AuditLog(db, home), Results(db)
    recorded = 0
    try:
        while recorded < 20_000:
            await log.record(AuditRecord(kind="intent", call_id=f"f{recorded}", tool="t", body={"x": "y" * 2000}))
            recorded += 1
    except GeodeError as error:
        first = error
        try:
            await results.put("z" * 3_000_000, session="s", principal="p", call_id="c", tool="t")
            second: dict[str, Any] = {}
        except GeodeError as again:
            second = again.to_json()
        say({"recorded": recorded, **first.to_json(), "second": second})
        return
    say({"recorded": recorded})


async def consume(db: Database, home: Path, digest: str) -> None:
    say({"got": await Approvals(db).consume(digest, "local") is not None})


async def begin(db: Database, home: Path, key: str) -> None:
    say({"state": (await Idempotency(db).begin(key, "local", "d")).state})


async def begin_and_hang(db: Database, home: Path, key: str) -> None:
    say({"state": (await Idempotency(db).begin(key, "local", "d")).state})
    await asyncio.sleep(600)


async def talk(db: Database, home: Path, session: str) -> None:
    """Append messages until killed; says each number that is durable."""
    transcripts = Transcripts(db)
    number = 0
    while True:
        await transcripts.append(session, number, {"role": "user", "text": f"message {number}"})
        print(number, flush=True)
        number += 1


async def huge(db: Database, home: Path) -> None:
    """Store a large result again and again until killed."""
    results = Results(db)
    text = "line of text\n" * 700_000
    while True:
        say(await results.put(text, session="s", principal="p", call_id="c", tool="t"))


async def ready(db: Database, home: Path) -> None:
    say({"opened": True, "alembic": "alembic" in sys.modules})


async def verify_measured(db: Database, home: Path) -> None:
    """Verify and say how long it took and how much memory it needed."""
    told: list[int] = []
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start, before_cpu = time.perf_counter(), time.process_time()
    report = await AuditLog(db, home).verify(lambda done, _total: told.append(done))
    seconds = time.perf_counter() - start
    cpu = time.process_time() - before_cpu
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    say({**report.to_json(), "seconds": seconds, "cpu_seconds": cpu, "grown_mib": grown / 1024, "progress": len(told)})


def hold(path: Path) -> None:
    """Hold the whole database."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("BEGIN EXCLUSIVE")
    say("held")
    time.sleep(600)


def half_migration(db: Database) -> None:
    """Stop in the middle of a migration, inside its transaction."""

    def work(connection: Any) -> None:
        upgrade(connection, "0002")
        connection.execute(insert(transcript_messages).values(session="s", seq=0, at_us=0, message="{}"))
        say("inside")
        time.sleep(600)

    db.write_sync(work)


def main() -> int:
    url, home, what, *rest = sys.argv[1:]
    options: dict[str, Any] = {}
    if what == "hold":
        hold(Path(rest[0]))
    if what == "nobody":
        # Everything is imported by now: the interpreter need not be readable for this user.
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        what, *rest = rest
    if what == "limited":
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(rest[0]), resource.RLIM_INFINITY))
        what, *rest = rest[1:]
    if what == "impatient":
        options["busy_seconds"] = 0.5
        what, *rest = rest
    if what == "at":
        time.sleep(max(0.0, float(rest[0]) - time.time()))
        what, *rest = rest[1:]
    try:
        with Database.open(url, home=Path(home), **options) as db:
            if what == "half_migration":
                half_migration(db)
            asyncio.run(globals()[what](db, Path(home), *rest))
    except GeodeError as error:
        say({"error": type(error).__name__, **error.to_json()})
    return 0


if __name__ == "__main__":
    sys.exit(main())
