from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

from geode.core.errors import NotStored, StoreError, UsageError
from geode.store.audit import AuditLog, AuditRecord
from geode.store.database import Database
from geode.store.times import to_us
from store.place import Place, record_calls


async def test_a_call_is_one_entry_in_the_list_and_two_in_show(log: AuditLog) -> None:
    await record_calls(log, 3, principal="kim", session="s1", origin="cli", mode="dry_run", node="analyst")
    page = await log.list()
    assert [(e.call_id, e.kind, e.status) for e in page.entries] == [
        ("c2", "outcome", "ok"),
        ("c1", "outcome", "ok"),
        ("c0", "outcome", "ok"),
    ]
    assert page.cursor is None
    shown = await log.show("c1")
    assert [e.kind for e in shown] == ["intent", "outcome"]
    last = shown[-1].to_json()
    assert last["principal"] == "kim"
    assert last["mode"] == "dry_run"
    assert last["node"] == "analyst"
    assert last["duration_ms"] == 1.5
    assert last["body"] == {"n": 1}
    assert datetime.fromisoformat(last["at"]).tzinfo is not None
    assert (await log.show(shown[0].id)) == (shown[0],)


async def test_show_says_when_there_is_nothing(log: AuditLog) -> None:
    for name in ("nothing", "", "w#1", "#", "w1#99999999999999999999999"):
        with pytest.raises(NotStored):
            await log.show(name)


async def test_filters_and_pages(log: AuditLog) -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    for n in range(25):
        await log.record(
            AuditRecord(
                kind="outcome",
                call_id=f"c{n}",
                tool="a" if n % 2 else "b",
                session="s" if n < 10 else "t",
                status="denied" if n % 5 == 0 else "ok",
                # Several at one time: pages must neither repeat nor lose one.
                at=start + timedelta(hours=n // 4),
            )
        )
    names: list[str] = []
    cursor = None
    while True:
        page = await log.list(limit=4, cursor=cursor)
        names += [e.call_id for e in page.entries]
        cursor = page.cursor
        if cursor is None:
            break
    assert len(names) == 25
    assert set(names) == {f"c{n}" for n in range(25)}
    assert len((await log.list(tool="a")).entries) == 12
    assert len((await log.list(session="s")).entries) == 10
    assert len((await log.list(status="denied")).entries) == 5
    assert len((await log.list(status="denied", limit=2)).entries) == 2
    assert len((await log.list(since=start + timedelta(hours=5))).entries) == 5
    assert len((await log.list(kinds=["config"])).entries) == 1


@pytest.mark.parametrize("cursor", ["x", "1.2", "a.b.c", "9" * 30 + ".w.1", "'; DROP TABLE audit; --"])
async def test_a_cursor_that_no_list_gave_is_refused(log: AuditLog, cursor: str) -> None:
    with pytest.raises(UsageError, match="cursor"):
        await log.list(cursor=cursor)


@pytest.mark.parametrize("limit", [0, -1, 100_000])
async def test_a_limit_out_of_range_is_refused(log: AuditLog, limit: int) -> None:
    with pytest.raises(UsageError, match="limit"):
        await log.list(limit=limit)


async def test_stats_by_tool(log: AuditLog) -> None:
    for n in range(1, 101):
        await log.record(
            AuditRecord(kind="outcome", call_id=f"a{n}", tool="a", status="ok", duration_ms=n, cost_usd=0.001)
        )
    await log.record(AuditRecord(kind="outcome", call_id="b1", tool="b", status="error", duration_ms=5))
    await log.record(AuditRecord(kind="outcome", call_id="b2", tool="b", status="denied"))
    stats = (await log.stats()).to_json()
    a, b = stats["tools"]
    assert (a["tool"], a["calls"], a["success_rate"], a["p50_ms"], a["p95_ms"]) == ("a", 100, 1.0, 50.0, 95.0)
    assert a["cost_usd"] == pytest.approx(0.1)
    assert (b["ok"], b["errors"], b["denied"], b["success_rate"], b["p50_ms"]) == (0, 1, 1, 0.0, 5.0)
    assert stats["calls"] == 102
    assert (await log.stats(since=datetime.now(UTC) + timedelta(hours=1))).to_json()["calls"] == 0


async def test_a_running_call_is_running_and_not_in_doubt(log: AuditLog) -> None:
    await log.record(AuditRecord(kind="intent", call_id="c", tool="t", status="started"))
    assert [(e.status, e.side_effects) for e in (await log.list()).entries] == [("running", "unknown")]
    assert await log.in_doubt() == ()
    await log.record(AuditRecord(kind="outcome", call_id="c", tool="t", status="ok", side_effects="done"))
    assert [(e.status, e.side_effects) for e in (await log.list()).entries] == [("ok", "done")]


async def test_a_call_whose_process_was_killed_is_unknown(place: Place) -> None:
    child = place.start("intent", "call_x")
    assert child.stdout is not None
    assert child.stdout.readline()
    with place.open() as db:
        log = AuditLog(db, place.home)
        assert [e.status for e in (await log.list()).entries] == ["running"]
        child.kill()
        child.wait()
        assert [(e.status, e.side_effects) for e in (await log.list()).entries] == [("unknown", "unknown")]
        assert [e.status for e in await log.show("call_x")] == ["unknown"]
        assert [e.call_id for e in await log.in_doubt()] == ["call_x"]
        assert (await log.stats()).unknown == 1
        assert [e.call_id for e in (await log.list(status="unknown")).entries] == ["call_x"]
        assert (await log.list(status="running")).entries == ()
        # We take over the slot of the dead process: its call stays in doubt although the slot is held again.
        await log.record(AuditRecord(kind="intent", call_id="call_y", tool="t", status="started"))
        assert {e.call_id: e.status for e in (await log.list()).entries} == {"call_x": "unknown", "call_y": "running"}
        assert (await log.verify()).ok


async def test_text_that_no_database_takes_is_made_storable(log: AuditLog) -> None:
    await log.record(
        AuditRecord(
            kind="outcome",
            call_id="c\ud83d\x00",
            tool="도구",
            status="ok",
            body={"half": "\ud83d", "nul": "a\x00b", "한글": ["값"]},
        )
    )
    entry = (await log.list()).entries[0]
    assert entry.tool == "도구"
    assert entry.call_id == "c\ufffd\ufffd"
    assert entry.body == {"half": "\ufffd", "nul": "a\x00b", "한글": ["값"]}
    assert (await log.verify()).ok


async def test_records_are_all_or_none(log: AuditLog) -> None:
    good = AuditRecord(kind="intent", call_id="a")
    await log.records([good, good])
    with pytest.raises(StoreError):
        await log.records([good, AuditRecord(kind="intent", call_id="b", mode=None)])  # type: ignore[arg-type]
    await log.record(AuditRecord(kind="outcome", call_id="c"))
    assert len(await log.show("a")) == 2
    report = await log.verify()
    assert report.ok, report.problems
    assert report.records == 4


async def test_a_failed_record_does_not_break_those_that_shared_its_transaction(log: AuditLog) -> None:
    bad = AuditRecord(kind="intent", call_id="bad", mode=None)  # type: ignore[arg-type]
    work = [log.record(bad if n % 7 == 3 else AuditRecord(kind="intent", call_id=f"c{n}")) for n in range(60)]
    answers = await asyncio.gather(*work, return_exceptions=True)
    failed = sum(isinstance(a, StoreError) for a in answers)
    assert failed == len([n for n in range(60) if n % 7 == 3])
    report = await log.verify()
    assert report.ok, report.problems
    assert report.records == 60 - failed + 1


async def test_retention_keeps_the_rest_verifiable_and_is_itself_recorded(place: Place) -> None:
    old = datetime.now(UTC) - timedelta(days=40)
    times = iter([old, old, datetime.now(UTC) - timedelta(days=35), datetime.now(UTC) - timedelta(days=34)])
    for prefix in ("x", "y"):
        with place.open() as db:
            log = AuditLog(db, place.home, now=partial(to_us, next(times)))
            second = AuditLog(db, place.home, now=partial(to_us, next(times)))
            await record_calls(log, 10, prefix=f"{prefix}old", at=old)
            await record_calls(second, 10, prefix=f"{prefix}2old", at=old)
            await record_calls(log, 5, prefix=f"{prefix}new", at=datetime.now(UTC))
    with place.open() as db:
        log = AuditLog(db, place.home)
        before = await log.verify()
        assert before.ok, before.problems
        assert await log.prune(datetime.now(UTC) - timedelta(days=30)) > 0
        after = await log.verify()
        assert after.ok, after.problems
        assert after.records < before.records
        kept = await log.list(kinds=["retention"])
        assert kept.entries[0].body["event"] == "pruned"
        assert [e.call_id for e in (await log.list(limit=100)).entries if "new" in e.call_id] != []
        # Once more, nothing to do: nothing is recorded either.
        assert await log.prune(datetime.now(UTC) - timedelta(days=30)) == 0
        await record_calls(log, 3, prefix="later")
        # Everything: the older retention record goes too, the newest carries all anchors.
        assert await log.prune(datetime.now(UTC) + timedelta(days=1)) > 0
        report = await log.verify()
        assert report.ok, report.problems
    with place.open() as db:
        log = AuditLog(db, place.home)
        await record_calls(log, 2, prefix="end")
        report = await log.verify()
        assert report.ok, report.problems


async def test_deleting_more_than_retention_did_is_found(place: Place) -> None:
    with place.open() as db:
        old = datetime.now(UTC) - timedelta(days=40)
        log = AuditLog(db, place.home, now=lambda: to_us(old))
        await record_calls(log, 10)
        await record_calls(log, 10, prefix="new", at=datetime.now(UTC))
        await log.prune(datetime.now(UTC) - timedelta(days=30))
        first = db.read_sync(lambda c: c.exec_driver_sql("SELECT min(seq) FROM audit").scalar())
        place.raw().execute("DELETE FROM audit WHERE seq = ?", (first,))
        report = await log.verify()
        assert not report.ok
        assert report.first_bad is not None
        assert report.first_bad.endswith(f"#{first}")


async def test_without_a_closing_the_slot_is_free_again(place: Place) -> None:
    def one() -> None:
        db: Database = place.open()
        log = AuditLog(db, place.home)
        log.record_sync(AuditRecord(kind="config"))
        db.close()

    for _ in range(5):
        one()
    assert len(list(place.home.glob("audit/*/*.head"))) == 1
