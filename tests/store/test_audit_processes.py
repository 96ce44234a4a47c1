"""Many processes write one record at once; some of them are killed."""

from __future__ import annotations

import random
import signal
import sys
import time
from pathlib import Path

import pytest

from geode.store.audit import AuditLog
from store.place import Place, finished, record_calls


def heads(place: Place) -> list[Path]:
    return list(place.home.glob("audit/*/*.head"))


async def test_processes_hammering_one_record_lose_nothing_and_stay_verifiable(place: Place) -> None:
    each = 150
    when = time.time() + 2.5
    children = [place.start("at", when, "audit", each, f"p{n}") for n in range(4)]
    assert [finished(c) for c in children] == [{"recorded": each}] * 4
    with place.open() as db:
        log = AuditLog(db, place.home)
        report = await log.verify()
        assert report.ok, report.problems
        stats = await log.stats()
        assert stats.total.calls == 4 * each
        assert stats.unknown == 0
        # The first process made key and list, the others waited for them: one of each.
        assert report.records == 4 * each * 2 + 4
    assert 1 <= len(heads(place)) <= 4


async def test_later_processes_use_the_slots_of_earlier_ones(place: Place) -> None:
    for n in range(3):
        place.run("audit", 2, f"p{n}")
    assert len(heads(place)) == 1
    with place.open() as db:
        report = await AuditLog(db, place.home).verify()
        assert report.ok, report.problems


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
async def test_kill_9_at_random_moments_loses_nothing_that_was_durable(place: Place) -> None:
    chance = random.Random(20261130)
    durable = 0
    for _ in range(3):
        children = [place.start("forever") for _ in range(2)]
        for child in children:
            assert child.stdout is not None
            assert child.stdout.readline()
        time.sleep(chance.uniform(0.02, 0.25))
        for child in children:
            child.send_signal(signal.SIGKILL)
            out, _ = child.communicate(timeout=10)
            durable += 1 + len([line for line in out.splitlines() if line.isdigit()])
    with place.open() as db:
        log = AuditLog(db, place.home)
        report = await log.verify()
        assert report.ok, report.problems
        stored = db.read_sync(
            lambda c: c.exec_driver_sql("SELECT count(*) FROM audit WHERE kind='intent'").scalar_one()
        )
        assert stored >= durable
        # What was in the air when a process died is in doubt, every one of it.
        assert len(await log.in_doubt()) == stored
        await record_calls(log, 1, prefix="after")
        assert (await log.verify()).ok
    # Two at a time: as many slots as there were processes at once.
    assert len(heads(place)) == 2
