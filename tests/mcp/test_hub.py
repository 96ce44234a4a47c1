"""The hub against a real server process: discovery, calls, results, changes, ends."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from geode.core.errors import UnknownTool
from geode.core.messages import Image, ResourceLink

from .conftest import Bench, text_of


async def until(condition, seconds: float = 15.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        await asyncio.sleep(0.02)


async def test_tools_of_an_unknown_server_join_in_the_background(bench: Bench, started) -> None:
    bench.declare()
    hub = await started()
    await until(lambda: "demo__add" in bench.registry)
    output = await bench.call("demo__add", {"a": 2, "b": 3})
    assert text_of(output) == "5"
    assert output.structured == {"sum": 5}
    row = hub.status()[0]
    assert row["state"] == "ready" and row["era"] == "modern" and row["pid"] > 0 and row["tools"] >= 15
    assert bench.registry.entry("demo__add").spec.effects is None


async def test_known_tools_are_listed_without_starting_anything(bench: Bench, started, tmp_path: Path) -> None:
    marker = tmp_path / "starts"
    bench.declare(env={"DEMO_MARKER": str(marker)})
    hub = await started()
    await hub.discover("demo")
    await hub.stop()
    marker.unlink()
    bench.registry.remove_source("mcp:demo")
    again = await started()
    assert "demo__add" in bench.registry
    assert again.status()[0]["state"] == "idle"
    await asyncio.sleep(0.3)
    assert not marker.exists()
    assert text_of(await bench.call("demo__add", {"a": 1, "b": 1})) == "2"
    assert marker.exists()


async def test_R24_tools_that_appear_and_vanish_are_followed(bench: Bench, started) -> None:
    bench.declare()
    hub = await started()
    await hub.discover("demo")
    assert "demo__secret" not in bench.registry
    await bench.call("demo__unlock")
    assert "demo__secret" in bench.registry
    assert text_of(await bench.call("demo__secret")) == "swordfish"
    await bench.call("demo__lock")
    with pytest.raises(UnknownTool, match="no longer offered"):
        bench.registry.entry("demo__secret")


async def test_R26_a_server_that_dies_in_a_call_is_named_with_its_last_words(bench: Bench, started) -> None:
    bench.declare()
    hub = await started()
    await hub.discover("demo")
    begin = time.monotonic()
    output = await bench.call("demo__die")
    assert time.monotonic() - begin < 1.5
    assert output.failed and "code 7" in text_of(output) and "about to die" in text_of(output)
    assert "not repeated" in text_of(output)
    output = await bench.call("demo__die", {"how": "signal"})
    assert "signal 9" in text_of(output)
    assert text_of(await bench.call("demo__add", {"a": 1, "b": 2})) == "3"
    assert "demo__add" in bench.registry


@pytest.mark.parametrize("newlines", [True, False])
async def test_R66_a_flood_on_stderr_does_not_block_the_answer(bench: Bench, started, newlines: bool) -> None:
    bench.declare()
    hub = await started()
    await hub.discover("demo")
    async with asyncio.timeout(5):
        assert text_of(await bench.call("demo__flood", {"newlines": newlines})) == "answered"
    tail = hub.status()[0]["stderr_tail"]
    assert 4000 < len(tail) <= 8192


async def test_results_of_every_shape(bench: Bench, started) -> None:
    bench.declare()
    hub = await started()
    await hub.discover("demo")
    picture = await bench.call("demo__picture")
    assert isinstance(picture.content[1], Image)
    assert picture.content[1].data not in str(picture.structured) and picture.structured["n"] == 1  # R20
    resource = await bench.call("demo__resource")
    assert "inside" in text_of(resource) and isinstance(resource.content[1], ResourceLink)
    assert "(done, no output)" in text_of(await bench.call("demo__empty"))


async def test_R46_an_error_result_is_a_result(bench: Bench, started) -> None:
    bench.declare()
    hub = await started()
    await hub.discover("demo")
    with_text = await bench.call("demo__fail", {"text": "no such project"})
    assert with_text.failed and text_of(with_text) == "no such project"
    empty = await bench.call("demo__fail")
    assert empty.failed and text_of(empty)


async def test_R58_structured_content_and_output_schema(bench: Bench, started) -> None:
    bench.declare()
    hub = await started()
    await hub.discover("demo")
    both = await bench.call("demo__out_both")
    assert not both.failed and both.structured == {"n": 1}
    only_text = await bench.call("demo__out_text")
    assert only_text.failed and "missing" in text_of(only_text)
    wrong = await bench.call("demo__out_wrong")
    assert wrong.failed and "$.n" in text_of(wrong)
    error = await bench.call("demo__out_error")
    assert error.failed and text_of(error) == "no such project"
    untouched = await bench.call("demo__echo", {"value": {"a": [1, None, {"b": 2.5}]}})
    assert untouched.structured == {"value": {"a": [1, None, {"b": 2.5}]}}


async def test_progress_is_passed_on_and_cancelling_reaches_the_server(bench: Bench, started, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    bench.declare(env={"DEMO_MARKER": str(marker)})
    hub = await started()
    await hub.discover("demo")
    assert text_of(await bench.call("demo__slow", {"seconds": 0.3})) == "done"
    assert ("step 3", 0.3) in bench.events
    task = asyncio.create_task(bench.call("demo__slow", {"seconds": 30}))
    await asyncio.sleep(0.5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await until(lambda: "cancelled" in marker.read_text())


async def test_edited_files_take_effect_without_a_restart(bench: Bench, started) -> None:
    hub = await started()
    bench.declare()
    await until(lambda: "demo__add" in bench.registry)
    (bench.home / "mcp.json").write_text("{ half written")
    await asyncio.sleep(1.3)
    assert "demo__add" in bench.registry  # somebody is editing: what works stays
    assert any("not valid JSON" in p.message for p in hub.problems)
    (bench.home / "mcp.json").write_text('{"mcpServers": {}}')
    await until(lambda: "demo__add" not in bench.registry)


async def test_a_project_server_waits_for_trust(bench: Bench, started, tmp_path: Path) -> None:
    marker = tmp_path / "starts"
    bench.declare(scope="project", env={"DEMO_MARKER": str(marker)})
    bench.trust.answer = "untrusted"
    hub = await started()
    await asyncio.sleep(0.5)
    assert hub.status()[0]["state"] == "untrusted" and not marker.exists()
    bench.trust.answer = "trusted"
    await until(lambda: "demo__add" in bench.registry)
    bench.trust.answer = "changed"
    await until(lambda: "demo__add" not in bench.registry)
    await until(lambda: hub.status()[0]["pid"] is None)
