from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest

from geode.core.errors import NotStored
from geode.store.database import Database
from geode.store.idempotency import Idempotency
from store.place import Place, finished


@pytest.fixture
def keys(db: Database) -> Idempotency:
    return Idempotency(db)


async def test_T84_the_second_call_with_a_key_gets_the_first_result(keys: Idempotency) -> None:
    assert (await keys.begin("k", "p", "d")).state == "new"
    await keys.finish("k", "p", {"status": "ok", "text": "값 \ud83d"})
    again = await keys.begin("k", "p", "d")
    assert again.state == "done"
    assert again.result == {"status": "ok", "text": "값 \ufffd"}
    assert again.begun_at is not None


async def test_the_first_result_stays(keys: Idempotency) -> None:
    await keys.begin("k", "p", "d")
    await keys.finish("k", "p", {"n": 1})
    await keys.finish("k", "p", {"n": 2})
    assert (await keys.begin("k", "p", "d")).result == {"n": 1}


async def test_R65_the_key_itself_is_not_stored_and_may_be_long(keys: Idempotency, place: Place) -> None:
    key = "sentinel " * 20_000
    assert (await keys.begin(key, "p", "d")).state == "new"
    assert (await keys.begin(key, "p", "d")).state == "unknown"
    assert all(b"sentinel" not in f.read_bytes() for f in place.home.rglob("*") if f.is_file())


async def test_a_key_used_for_another_call_is_a_mismatch(keys: Idempotency) -> None:
    await keys.begin("k", "p", "d")
    assert (await keys.begin("k", "p", "other")).state == "mismatch"
    await keys.finish("k", "p", {})
    assert (await keys.begin("k", "p", "other")).state == "mismatch"


async def test_keys_of_two_principals_do_not_meet(keys: Idempotency) -> None:
    assert (await keys.begin("k", "p", "d")).state == "new"
    assert (await keys.begin("k", "q", "d")).state == "new"


async def test_a_key_whose_call_did_not_run_can_be_used_again(keys: Idempotency) -> None:
    await keys.begin("k", "p", "d")
    assert await keys.forget("k", "p")
    assert (await keys.begin("k", "p", "d2")).state == "new"
    await keys.finish("k", "p", {})
    assert not await keys.forget("k", "p")
    assert (await keys.begin("k", "p", "d2")).state == "done"


async def test_a_key_that_was_never_begun_cannot_be_finished(keys: Idempotency) -> None:
    with pytest.raises(NotStored):
        await keys.finish("k", "p", {})


async def test_T83_a_key_begun_by_a_killed_process_is_unknown_and_stays_so(place: Place) -> None:
    child = place.start("begin_and_hang", "k")
    assert child.stdout is not None
    assert child.stdout.readline()
    child.kill()
    child.wait()
    for _ in range(2):
        assert place.run("begin", "k")["state"] == "unknown"


def test_of_many_processes_that_begin_at_once_one_runs_the_call(place: Place) -> None:
    place.open().close()
    when = time.time() + 2.5
    children = [place.start("at", when, "begin", "k") for _ in range(3)]
    assert sorted(finished(c)["state"] for c in children) == ["new"] + ["unknown"] * 2


async def test_old_keys_are_purged(keys: Idempotency) -> None:
    await keys.begin("k", "p", "d")
    assert await keys.purge(datetime.now(UTC) - timedelta(days=1)) == 0
    assert await keys.purge(datetime.now(UTC) + timedelta(seconds=1)) == 1
    assert (await keys.begin("k", "p", "d")).state == "new"
