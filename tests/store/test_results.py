from __future__ import annotations

import re
import time
import tracemalloc
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from geode.core.errors import NotStored, StoreError, UsageError
from geode.core.ports import ResultStore
from geode.store.database import Database
from geode.store.results import Results
from store.place import Place

ME: dict[str, Any] = {"session": "s", "principal": "p"}
FROM: dict[str, Any] = {"call_id": "c", "tool": "t"}


@pytest.fixture
def results(db: Database) -> Results:
    return Results(db)


def is_the_port(results: Results) -> ResultStore:
    """Checked by the type checker."""
    return results


async def test_lines_are_read_from_an_offset(results: Results) -> None:
    name = await results.put("one\ntwo\nthree\nfour", **ME, **FROM)
    whole = await results.get(name, **ME)
    assert (whole.text, whole.first_line, whole.total_lines, whole.total_chars) == ("one\ntwo\nthree\nfour", 1, 4, 18)
    part = await results.get(f"result:{name}", **ME, offset=2, limit=2)
    assert (part.text, part.first_line) == ("two\nthree\n", 2)
    assert (await results.get(name, **ME, offset=4, limit=9)).text == "four"
    assert (await results.get(name, **ME, offset=5)).text == ""
    assert (await results.get(name, **ME, offset=10**30, limit=10**30)).text == ""


async def test_another_session_or_principal_is_told_the_same_as_for_an_unknown_id(results: Results) -> None:
    name = await results.put("x", **ME, **FROM)
    said = set()
    for where in ({"session": "other", "principal": "p"}, {"session": "s", "principal": "other"}):
        with pytest.raises(NotStored) as caught:
            await results.get(name, **where)
        said.add(caught.value.message)
    with pytest.raises(NotStored) as caught:
        await results.get("r_unknown", **ME)
    assert {m.replace(name, "ID") for m in said} == {caught.value.message.replace("r_unknown", "ID")}
    with pytest.raises(NotStored):
        await results.info(name, session="other", principal="p")


@pytest.mark.parametrize("bad", [{"offset": 0}, {"limit": 0}, {"offset": -5}, {"start_char": -1}, {"max_chars": 0}])
async def test_nonsense_places_are_refused(results: Results, bad: dict[str, int]) -> None:
    name = await results.put("x", **ME, **FROM)
    with pytest.raises(UsageError):
        await results.get(name, **ME, **bad)


async def test_R13_a_huge_text_is_kept_whole_and_read_back_by_reference(results: Results) -> None:
    text = "".join(f"row {n}: 값 {n * n}\n" for n in range(20_000))
    name = await results.put(text, **ME, **FROM)
    info = await results.info(name, **ME)
    assert (info.total_lines, info.total_chars, info.total_bytes) == (20_000, len(text), len(text.encode()))
    assert (await results.get(name, **ME, offset=19_999, limit=5)).text == "".join(text.splitlines(True)[-2:])
    assert (await results.get(name, **ME, limit=10**9)).text == text


async def test_one_huge_line_is_read_on_by_characters_and_never_splits_one(results: Results) -> None:
    text = "가😀b" * 200_000
    name = await results.put(text, **ME, **FROM)
    assert (await results.info(name, **ME)).total_lines == 1
    read, at = [], 0
    while part := (await results.get(name, **ME, start_char=at, max_chars=99_991)).text:
        read.append(part)
        at += len(part)
    assert "".join(read) == text


async def test_R05_lone_surrogates_become_replacement_characters(results: Results) -> None:
    name = await results.put("ok \ud83d end", **ME, **FROM)
    assert (await results.get(name, **ME)).text == "ok \ufffd end"


pieces = st.text(alphabet=st.sampled_from("a\n\r\x00é😀\u2028"), max_size=60)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(text=pieces, repeat=st.sampled_from([1, 3, 9000]), offset=st.integers(1, 50), limit=st.integers(1, 50))
async def test_any_window_of_any_text_is_what_lines_say(
    results: Results, text: str, repeat: int, offset: int, limit: int
) -> None:
    whole = text * repeat
    name = await results.put(whole, **ME, **FROM)
    lines = re.findall(r"[^\n]*\n|[^\n]+\Z", whole)
    stored = await results.get(name, **ME, offset=offset, limit=limit)
    assert stored.text == "".join(lines[offset - 1 : offset - 1 + limit])
    assert stored.total_lines == len(lines)
    assert stored.total_chars == len(whole)


async def test_a_file_is_stored_without_holding_it_in_memory(results: Results, tmp_path: Path) -> None:
    path = tmp_path / "spool"
    line = ("x" * 99 + "\n").encode()
    with path.open("wb") as file:
        for _ in range(300):
            file.write(line * 1000)
    tracemalloc.start()
    name = await results.put_file(path, **ME, **FROM)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (await results.info(name, **ME)).total_lines == 300_000
    assert peak < 16 * 1024 * 1024
    assert (await results.get(name, **ME, offset=300_000)).text == line.decode()


async def test_a_file_is_redacted_before_it_is_stored_also_across_reading_blocks(
    results: Results, place: Place, tmp_path: Path
) -> None:
    path = tmp_path / "spool"
    path.write_text("".join(f"line {n} sentinel-{n:06d}-secret end\n" for n in range(20_000)))

    def redact(text: str) -> str:
        return re.sub(r"sentinel-\d{6}-secret", "[redacted]", text)

    name = await results.put_file(path, **ME, **FROM, redact=redact)
    assert "sentinel" not in (await results.get(name, **ME, limit=10**9)).text
    assert all(b"sentinel" not in p.read_bytes() for p in place.home.glob("geode.db*"))


async def test_a_binary_file_is_stored_with_replacement_characters(results: Results, tmp_path: Path) -> None:
    path = tmp_path / "spool"
    path.write_bytes(b"a\xff\xfe\n" + "é".encode() * 100_000 + b"\xc3")
    name = await results.put_file(path, **ME, **FROM)
    text = (await results.get(name, **ME)).text
    assert text == "a\ufffd\ufffd\n" + "é" * 100_000 + "\ufffd"


async def test_a_missing_file_is_named(results: Results, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="spool"):
        await results.put_file(tmp_path / "spool", **ME, **FROM)


async def test_old_results_are_purged(results: Results) -> None:
    name = await results.put("x\n" * 100, **ME, **FROM)
    assert await results.purge(datetime.now(UTC) - timedelta(days=30)) == 0
    assert (await results.get(name, **ME)).text
    assert await results.purge(datetime.now(UTC) + timedelta(seconds=1)) == 1
    with pytest.raises(NotStored):
        await results.get(name, **ME)


async def test_a_killed_process_leaves_no_half_result(place: Place) -> None:
    child = place.start("huge")
    assert child.stdout is not None
    first = child.stdout.readline()
    assert first
    time.sleep(0.15)
    child.kill()
    child.wait()
    with place.open() as db:
        results = Results(db)
        rows = db.read_sync(lambda c: c.exec_driver_sql("SELECT id, total_bytes FROM results").all())
        assert rows
        for name, size in rows:
            assert len((await results.get(name, **ME, limit=10**9)).text) == size
        # Pieces without a result go once they are certainly nobody's.
        db.write_sync(lambda c: c.exec_driver_sql("UPDATE result_chunks SET at_us = 1") and None)
        await results.purge(datetime(2000, 1, 1, tzinfo=UTC))
        orphans = "SELECT count(*) FROM result_chunks WHERE result_id NOT IN (SELECT id FROM results)"
        assert db.read_sync(lambda c: c.exec_driver_sql(orphans).scalar()) == 0
        assert db.read_sync(lambda c: c.exec_driver_sql("SELECT count(*) FROM result_chunks").scalar()) > 0
