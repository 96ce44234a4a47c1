"""The record of calls: what may not be in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest


async def test_R65_a_secret_in_any_field_of_a_call_is_in_no_file_of_the_home(
    make: Any, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "zq8-Sentinel-7YtR4wXk2"
    monkeypatch.setenv("SOME_SERVICE_TOKEN", secret)
    runtime = make()
    fields = {"session": f"s {secret}", "idempotency_key": f"k {secret}"}
    await runtime.call(f"tool_{secret}", {}, **fields)
    await runtime.call("read_file", {"path": secret}, **fields)
    await runtime.call("list_directory", {"path": ".", secret: secret}, **fields)
    await runtime.call("list_directory", {"path": "."}, **fields)
    await runtime.call("list_directory", {}, mode=f"m {secret}")
    await runtime.call("list_directory", {}, node=f"n {secret}")
    await runtime.aclose()
    for file in (f for f in home.rglob("*") if f.is_file()):
        assert secret.encode() not in file.read_bytes(), file
        assert file.stat().st_mode & 0o077 == 0, file
