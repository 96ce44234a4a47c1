from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from geode.core.errors import StoreError
from geode.store.database import Database
from geode.store.transcripts import Transcripts
from store.place import Place


@pytest.fixture
def transcripts(db: Database) -> Transcripts:
    return Transcripts(db)


async def test_messages_come_back_in_order_and_as_they_were(transcripts: Transcripts) -> None:
    messages = [{"role": "user", "text": f"글 {n}", "more": [None, {"x": 1.5}]} for n in range(12)]
    for number in reversed(range(12)):
        await transcripts.append("s", number, messages[number])
    await transcripts.append("other", 0, {"role": "user"})
    assert await transcripts.load("s") == messages
    assert await transcripts.load("s", after=9) == messages[10:]
    assert await transcripts.load("unknown") == []


async def test_the_same_message_again_changes_nothing_and_another_is_refused(transcripts: Transcripts) -> None:
    await transcripts.append("s", 0, {"text": "a"})
    await transcripts.append("s", 0, {"text": "a"})
    with pytest.raises(StoreError, match="different") as caught:
        await transcripts.append("s", 0, {"text": "b"})
    assert "resume" in caught.value.fix
    assert await transcripts.load("s") == [{"text": "a"}]


async def test_R05_half_a_character_does_not_brick_the_session(transcripts: Transcripts) -> None:
    await transcripts.append("s", 0, {"text": "half \ud99c", "\ud800": ["\udfff\x00"]})
    assert await transcripts.load("s") == [{"text": "half \ufffd", "\ufffd": ["\ufffd\x00"]}]


async def test_sessions_are_listed_the_last_used_first(transcripts: Transcripts) -> None:
    for name in ("a", "b"):
        for number in range(3):
            await transcripts.append(name, number, {"n": number})
    await transcripts.append("a", 3, {})
    listed = await transcripts.sessions()
    assert [(s.session, s.messages) for s in listed] == [("a", 4), ("b", 3)]
    assert listed[0].last_at >= listed[1].last_at
    assert len(await transcripts.sessions(limit=1)) == 1


async def test_what_was_appended_survives_kill_9(place: Place) -> None:
    child = place.start("talk", "s")
    assert child.stdout is not None
    for _ in range(40):
        child.stdout.readline()
    child.kill()
    out, _ = child.communicate()
    said = 40 + len([line for line in out.splitlines() if line.isdigit()])
    with place.open() as db:
        messages = await Transcripts(db).load("s")
    assert len(messages) >= said
    assert [m["text"] for m in messages] == [f"message {n}" for n in range(len(messages))]


async def test_old_sessions_are_purged_whole(transcripts: Transcripts) -> None:
    await transcripts.append("s", 0, {})
    await transcripts.append("s", 1, {})
    assert await transcripts.purge(datetime.now(UTC) - timedelta(days=1)) == 0
    assert await transcripts.purge(datetime.now(UTC) + timedelta(seconds=1)) == 2
    assert await transcripts.sessions() == ()
