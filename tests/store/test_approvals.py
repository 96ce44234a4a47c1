from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from geode.core.call import Call, Decision, TraceStep, Verdict
from geode.core.effects import Origin
from geode.core.errors import NotStored, StoreError, UsageError
from geode.core.ports import ApprovalRequest
from geode.store.approvals import ApprovalAnswered, ApprovalExpired, Approvals
from geode.store.database import Database
from store.place import Place, finished


@pytest.fixture
def approvals(db: Database) -> Approvals:
    return Approvals(db)


def request(number: int = 1, *, seconds: float = 60, **arguments: object) -> ApprovalRequest:
    call = Call(tool="send", arguments=arguments, origin=Origin.MODEL, cwd=Path("/w"), session="s")
    return ApprovalRequest(
        id=f"appr_{number}",
        call=call,
        verdict=Verdict(Decision.ASK, (TraceStep("effects", Decision.ASK, "it communicates"),)),
        digest=call.digest("def"),
        view=f"send {number}",
        expires_at=datetime.now(UTC) + timedelta(seconds=seconds),
    )


async def test_a_yes_is_used_once(approvals: Approvals) -> None:
    asked = request(to="A")
    stored = await approvals.create(asked)
    assert (stored.state, stored.view, stored.tool) == ("pending", "send 1", "send")
    assert await approvals.consume(asked.digest, "local") is None
    answered = await approvals.answer(asked.id, True, "kim", "fine")
    assert (answered.state, answered.answered_by, answered.reason) == ("approved", "kim", "fine")
    used = await approvals.consume(asked.digest, "local")
    assert used is not None
    assert (used.id, used.state) == (asked.id, "used")
    assert await approvals.consume(asked.digest, "local") is None
    assert (await approvals.get(asked.id)).state == "used"


async def test_R78_a_yes_for_one_call_is_none_for_another(approvals: Approvals) -> None:
    for_a, for_b = request(to="A"), request(to="B")
    await approvals.create(for_a)
    await approvals.answer(for_a.id, True, "kim")
    assert await approvals.consume(for_b.digest, "local") is None
    assert await approvals.consume(for_a.digest, "somebody else") is None
    assert await approvals.consume(for_a.digest, "local") is not None


def test_R78_of_many_processes_that_resume_at_once_one_gets_the_yes(place: Place) -> None:
    asked = request(to="A")

    async def prepare() -> None:
        with place.open() as db:
            approvals = Approvals(db)
            await approvals.create(asked)
            await approvals.answer(asked.id, True, "kim")

    asyncio.run(prepare())
    when = time.time() + 2.5
    children = [place.start("at", when, "consume", asked.digest) for _ in range(3)]
    assert sorted(finished(c)["got"] for c in children) == [False] * 2 + [True]


async def test_R53_a_late_answer_is_told_that_it_expired_and_changes_nothing(approvals: Approvals) -> None:
    asked = request(seconds=-1)
    await approvals.create(asked)
    assert (await approvals.get(asked.id)).state == "expired"
    with pytest.raises(ApprovalExpired, match="was not run") as caught:
        await approvals.answer(asked.id, True, "kim")
    assert caught.value.code == "approval_expired"
    assert await approvals.consume(asked.digest, "local") is None


async def test_R53_a_question_nobody_waits_for_any_more_is_expired(approvals: Approvals) -> None:
    asked = request()
    await approvals.create(asked)
    assert await approvals.expire(asked.id)
    assert not await approvals.expire(asked.id)
    with pytest.raises(ApprovalExpired):
        await approvals.answer(asked.id, True, "kim")


async def test_a_second_answer_is_refused_and_the_first_stays(approvals: Approvals) -> None:
    asked = request()
    await approvals.create(asked)
    await approvals.answer(asked.id, False, "kim", "no")
    with pytest.raises(ApprovalAnswered, match="kim"):
        await approvals.answer(asked.id, True, "lee")
    assert (await approvals.get(asked.id)).state == "denied"
    assert await approvals.consume(asked.digest, "local") is None


async def test_a_yes_ends_when_it_is_not_used(approvals: Approvals) -> None:
    asked = request()
    await approvals.create(asked)
    await approvals.answer(asked.id, True, "kim", valid_for=0)
    assert await approvals.consume(asked.digest, "local") is None
    assert (await approvals.get(asked.id)).state == "expired"
    with pytest.raises(ApprovalAnswered):
        await approvals.answer(asked.id, True, "kim")


async def test_R78_an_unknown_id_is_told_apart(approvals: Approvals) -> None:
    with pytest.raises(NotStored, match="nothing"):
        await approvals.answer("nothing", True, "kim")
    with pytest.raises(NotStored):
        await approvals.get("nothing")


async def test_the_same_id_twice_is_refused(approvals: Approvals) -> None:
    await approvals.create(request())
    with pytest.raises(StoreError):
        await approvals.create(request())


async def test_lists_by_state(approvals: Approvals) -> None:
    for number in range(4):
        await approvals.create(request(number, seconds=-1 if number == 3 else 60, n=number))
    await approvals.answer("appr_1", True, "kim")
    await approvals.answer("appr_2", False, "kim")
    assert [a.id for a in await approvals.list()] == ["appr_3", "appr_2", "appr_1", "appr_0"]
    by_state = {
        s: [a.id for a in await approvals.list(s)] for s in ("pending", "approved", "denied", "expired", "used")
    }
    assert by_state == {
        "pending": ["appr_0"],
        "approved": ["appr_1"],
        "denied": ["appr_2"],
        "expired": ["appr_3"],
        "used": [],
    }
    with pytest.raises(UsageError, match="nonsense"):
        await approvals.list("nonsense")
    document = (await approvals.list("approved"))[0].to_json()
    assert document["state"] == "approved"
    assert document["verdict"]["verdict"] == "ask"


async def test_the_arguments_themselves_are_not_stored(approvals: Approvals, place: Place) -> None:
    await approvals.create(request(token="sentinel-4711"))
    assert all(b"sentinel-4711" not in p.read_bytes() for p in place.home.glob("geode.db*"))


async def test_waiting_ends_with_the_answer_of_another_process(approvals: Approvals, place: Place) -> None:
    asked = request()
    await approvals.create(asked)

    async def elsewhere() -> None:
        with place.open() as db:
            await asyncio.sleep(0.1)
            await Approvals(db).answer(asked.id, True, "kim")

    waiting = asyncio.create_task(approvals.wait(asked.id, seconds=5, poll=0.02))
    await elsewhere()
    assert (await waiting).state == "approved"


async def test_waiting_ends_with_the_time(approvals: Approvals) -> None:
    await approvals.create(request())
    assert (await approvals.wait("appr_1", seconds=0.05, poll=0.02)).state == "pending"


async def test_an_approval_survives_the_process(place: Place) -> None:
    asked = request()
    with place.open() as db:
        await Approvals(db).create(asked)
    with place.open() as db:
        await Approvals(db).answer(asked.id, True, "kim")
    with place.open() as db:
        assert await Approvals(db).consume(asked.digest, "local") is not None


async def test_old_approvals_are_purged(approvals: Approvals) -> None:
    await approvals.create(request())
    assert await approvals.purge(datetime.now(UTC) + timedelta(seconds=1)) == 1
    assert await approvals.list() == ()
