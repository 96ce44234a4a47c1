"""Servers that are slow, noisy, old, broken, or do not want to end."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from geode.core.errors import GeodeError, ServerUnavailable, ToolTimeout

from .conftest import SERVERS, Bench, text_of
from .test_hub import until


def running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def test_R21_noise_on_stdout_is_set_aside(bench: Bench, started) -> None:
    bench.declare("raw", "raw.py", "noise")
    hub = await started()
    await hub.discover("raw")
    for _ in range(3):
        assert text_of(await bench.call("raw__ping")) == "pong"


async def test_R21_only_noise_is_an_error_that_quotes_it(bench: Bench, started) -> None:
    bench.declare("raw", "raw.py", "pure_noise", start_timeout=2)
    hub = await started()
    with pytest.raises(ServerUnavailable, match=r"within 2 s.*Downloading 1 of 900"):
        await hub.discover("raw")
    await until(lambda: hub.status()[0]["state"] == "failed")


async def test_R65_a_secret_of_the_servers_own_entry_is_not_shown_when_it_tells_it(
    bench: Bench, started: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "zq8-Sentinel-7YtR4wXk2"
    monkeypatch.setenv("PLAIN_VARIABLE", secret)
    names = ("KEY_OF_THE_TEST", "API_KEY")
    bench.declare("raw", "raw.py", "tells", env=dict.fromkeys(names, "${PLAIN_VARIABLE}"))
    hub = await started()
    with pytest.raises(ServerUnavailable) as caught:
        await hub.discover("raw")
    assert "is no good" in caught.value.message and secret not in caught.value.message
    row = hub.status()[0]
    assert "is no good" in row["stderr_tail"] and secret not in str(row)


async def test_R05_a_lone_surrogate_in_an_answer_is_replaced_and_nobody_waits(bench: Bench, started) -> None:
    bench.declare("raw", "raw.py", "surrogate", r"ok \ud83d end \ud83d\ude00")
    hub = await started()
    await hub.discover("raw")
    assert text_of(await asyncio.wait_for(bench.call("raw__ping"), 10)) == "ok \ufffd end \U0001f600"


async def test_an_answer_that_is_no_json_rpc_is_an_error_at_once(bench: Bench, started) -> None:
    bench.declare("raw", "raw.py", "nonsense")
    hub = await started()
    await hub.discover("raw")
    output = await asyncio.wait_for(bench.call("raw__ping"), 10)
    assert output.failed and "not valid JSON-RPC" in text_of(output)


async def test_R46_a_servers_own_error_code_is_not_taken_for_its_end(bench: Bench, started) -> None:
    bench.declare("raw", "raw.py", "own_codes")
    hub = await started()
    await hub.discover("raw")
    output = await bench.call("raw__ping")
    assert output.failed and "no such project" in text_of(output)
    assert hub.status()[0]["state"] == "ready"


async def test_R09_a_slow_server_joins_when_it_is_ready(bench: Bench, started) -> None:
    bench.declare("slow", "raw.py", "slow", "7")
    bench.declare("quick", "raw.py", "plain")
    begin = time.monotonic()
    hub = await started()
    assert time.monotonic() - begin < 1
    await until(lambda: "quick__ping" in bench.registry, 5)
    assert {r["name"]: r["state"] for r in hub.status()}["slow"] == "starting"
    assert hub.unavailable() == {"slow": "starting"}
    await until(lambda: "slow__ping" in bench.registry, 20)
    assert text_of(await bench.call("slow__ping")) == "pong"


async def test_R09_the_limit_is_the_servers_own_and_the_message_says_what_it_did(bench: Bench, started) -> None:
    bench.declare("slow", "raw.py", "slow", "60", start_timeout=1)
    hub = await started()
    with pytest.raises(ServerUnavailable, match=r"did not answer within 1 s.*raw.py slow 60") as caught:
        await hub.discover("slow")
    assert "start_timeout" in caught.value.fix


async def test_a_server_that_ignores_requests_before_the_handshake(bench: Bench, started) -> None:
    bench.declare("raw", "raw.py", "deaf_before_handshake")
    hub = await started()
    await hub.discover("raw")
    assert hub.status()[0]["era"] == "legacy"
    assert text_of(await bench.call("raw__ping")) == "pong"


@pytest.mark.parametrize(
    ("how", "version"), [("old", "2024-11-05"), ("refuses", "2025-03-26"), ("plain", "2025-06-18")]
)
async def test_R77_an_older_version_is_agreed_on(bench: Bench, started, how: str, version: str) -> None:
    bench.declare("raw", "raw.py", how)
    hub = await started()
    await hub.discover("raw")
    assert hub.status()[0]["version"] == version
    assert text_of(await bench.call("raw__ping")) == "pong"


async def test_R77_an_unknown_version_is_refused_in_clear_words(bench: Bench, started) -> None:
    bench.declare("raw", "raw.py", "ancient")
    hub = await started()
    with pytest.raises(ServerUnavailable, match="1999-01-01"):
        await hub.discover("raw")


async def test_a_server_that_fails_to_start_says_why_and_is_not_hammered(bench: Bench, started) -> None:
    bench.declare("raw", "raw.py", "crash")
    hub = await started()
    with pytest.raises(ServerUnavailable, match=r"code 3 before it was ready.*boom: no database"):
        await hub.discover("raw")
    with pytest.raises(ServerUnavailable, match="next try in"):
        await hub.ensure("raw")
    assert hub.unavailable() == {"raw": "failed"}


async def test_a_command_that_does_not_exist_is_named(bench: Bench, started) -> None:
    bench.declare("raw")
    path = bench.home / "mcp.json"
    path.write_text('{"mcpServers": {"raw": {"command": "no-such-program-here"}}}')
    hub = await started()
    with pytest.raises(ServerUnavailable, match="no-such-program-here"):
        await hub.discover("raw")


async def test_R55_all_pages_are_read(bench: Bench, started) -> None:
    bench.declare("raw", "raw.py", "pages")
    hub = await started()
    assert len((await hub.discover("raw")).tools) == 101
    assert text_of(await bench.call("raw__t100")) == "pong"


async def test_pages_that_repeat_for_ever_are_an_error(bench: Bench, started) -> None:
    bench.declare("raw", "raw.py", "endless")
    hub = await started()
    with pytest.raises(ServerUnavailable, match="never ends"):
        await hub.discover("raw")


async def test_one_bad_tool_costs_only_itself(bench: Bench, started) -> None:
    bench.declare("raw", "raw.py", "bad_tools")
    hub = await started()
    await hub.discover("raw")
    assert "raw__good" in bench.registry and "raw__odd name/with:signs" in bench.registry
    wrong = next(p for p in bench.registry.problems() if p.tool == "raw__wrong")
    assert wrong.server == "raw" and wrong.status == "quarantined"
    assert [p.message for p in hub.problems if "without a name" in p.message or "twice" in p.message]


async def test_R24_a_change_is_followed_also_when_it_was_not_announced_as_possible(bench: Bench, started) -> None:
    bench.declare("raw", "raw.py", "undeclared")
    hub = await started()
    await hub.discover("raw")
    assert "raw__secret" not in bench.registry
    await bench.call("raw__ping")
    assert "raw__secret" in bench.registry


async def test_a_call_that_gets_no_answer_times_out(bench: Bench, started) -> None:
    bench.declare("raw", "raw.py", "silent", call_timeout=0.5)
    hub = await started()
    await hub.discover("raw")
    with pytest.raises(ToolTimeout, match=r"within 0\.5 s"):
        await bench.call("raw__ping")


async def test_R48_servers_close_in_any_order_from_any_task(bench: Bench, started) -> None:
    bench.declare("a", "raw.py", "plain")
    bench.declare("b", "demo.py")
    hub = await started()
    await asyncio.gather(hub.discover("a"), hub.discover("b"))
    pids = [r["pid"] for r in hub.status()]
    path = bench.home / "mcp.json"
    bench.declare("a", "raw.py", "slow", "0")  # another declaration: the first process ends

    async def edit() -> None:
        await hub.refresh()

    await asyncio.create_task(edit())
    assert not running(pids[0]) and running(pids[1])
    task = asyncio.create_task(hub.ensure("b"))
    task.cancel()
    path.write_text("{}")
    await asyncio.create_task(hub.refresh())
    assert not running(pids[1])


async def test_R03_nothing_survives_a_normal_end(bench: Bench, started, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    bench.declare("raw", "raw.py", "wrapper", str(pids))
    hub = await started()
    await hub.discover("raw")
    assert text_of(await bench.call("raw__ping")) == "pong"
    family = [int(p) for p in pids.read_text().split()]
    assert all(running(p) for p in family)
    await hub.stop()
    assert [p for p in family if running(p)] == []


HOST = """
import asyncio, sys
from pathlib import Path
from tests.mcp.conftest import Bench
async def main():
    bench = Bench(Path(sys.argv[1]), Path(sys.argv[2]))
    hub = bench.hub()
    try:
        await hub.start()
        await hub.discover("raw")
        print("ready", flush=True)
        await asyncio.sleep(600)
    finally:
        await hub.stop()
asyncio.run(main())
"""


@pytest.mark.parametrize("how", ["SIGINT", "SIGKILL"])
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
async def test_R03_nothing_survives_the_host(bench: Bench, tmp_path: Path, how: str) -> None:
    import signal

    pids = tmp_path / "pids"
    bench.declare("raw", "raw.py", "wrapper", str(pids))
    root = SERVERS.parents[2]
    host = subprocess.Popen(
        [sys.executable, "-c", HOST, str(bench.project), str(bench.home)],
        stdout=subprocess.PIPE, cwd=root, env={**os.environ, "PYTHONPATH": str(root)},
    )  # fmt: skip
    assert host.stdout is not None
    assert await asyncio.to_thread(host.stdout.readline) == b"ready\n"
    family = [int(p) for p in pids.read_text().split()]
    assert all(running(p) for p in family)
    host.send_signal(getattr(signal, how))
    await asyncio.to_thread(host.wait)
    await until(lambda: not any(running(p) for p in family), 10)
    host.stdout.close()


async def test_R37_an_unset_variable_is_named_before_anything_starts(bench: Bench, started, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    bench.declare(env={"TOKEN": "${GEODE_TEST_UNSET}", "DEMO_MARKER": str(marker)})
    hub = await started()
    with pytest.raises(GeodeError, match=r"GEODE_TEST_UNSET \(in env.TOKEN\)"):
        await hub.ensure("demo")
    assert not marker.exists()


async def test_R37_a_variable_reaches_the_server_and_never_the_file(bench: Bench, started) -> None:
    bench.environ["GEODE_TEST_TOKEN"] = "s3cret-$HOME-${NOT_AGAIN}"
    bench.declare(env={"TOKEN": "${GEODE_TEST_TOKEN}"})
    hub = await started()
    await hub.discover("demo")
    assert text_of(await bench.call("demo__env", {"name": "TOKEN"})) == "s3cret-$HOME-${NOT_AGAIN}"
    everything = "".join(p.read_text() for p in bench.home.rglob("*.json"))
    assert "s3cret" not in everything
    assert text_of(await bench.call("demo__env", {"name": "GEODE_TEST_TOKEN"})) == "(unset)"  # least credentials
