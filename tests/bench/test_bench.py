"""The measurements measure what they say; their targets are judged on a quiet machine, not here."""

from __future__ import annotations

import pytest

from geode.bench.figures import Figure, document
from geode.bench.gateway import measure_gateway
from geode.bench.loop import measure_loop
from geode.bench.sandbox import measure_sandbox
from geode.bench.startup import measure_startup
from geode.core.errors import SandboxUnavailable


def test_a_figure_knows_whether_it_meets_its_target():
    assert Figure("a", 1.0, "ms", 2.0).ok
    assert not Figure("a", 3.0, "ms", 2.0).ok
    assert Figure("a", 3.0, "", 2.0, ">=").ok
    assert document("x", [Figure("a", 3.0, "ms", 2.0)], {})["ok"] is False


def test_help_loads_nothing_heavy():
    found = measure_startup(2)
    assert found["facts"]["heavy"] == []
    assert found["figures"][0]["value"] > 10


async def test_the_loop_records_two_records_a_call():
    found = await measure_loop(40)
    assert found["facts"]["records"] >= 2 * (50 + 40)
    assert found["figures"][0]["value"] < 50
    assert found["figures"][1]["ok"]


async def test_the_gateway_is_measured_beside_a_bare_relay():
    found = await measure_gateway(3)
    facts = found["facts"]
    assert 0 < facts["direct_best_ms"] < facts["relay_best_ms"]
    assert facts["geode_best_ms"] > facts["direct_best_ms"]
    assert found["figures"][1]["value"] > 100


async def test_the_sandbox_is_measured_beside_the_bare_program():
    try:
        found = await measure_sandbox(2)
    except SandboxUnavailable as error:
        pytest.skip(f"no sandbox here: {error}")
    assert found["facts"]["sandbox_best_ms"] > found["facts"]["bare_best_ms"] > 0
