"""The attempts to get out: all held inside, and worth something because they work outside."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from geode.containment.sandbox import probe
from geode.containment.sandbox.probe import run_probes
from geode.containment.sandbox.runner import SandboxRunner


async def test_every_known_way_out_is_held(runner: SandboxRunner) -> None:
    probes = await run_probes(await runner.backend())
    assert len(probes) >= 130
    assert len({p.name for p in probes}) == len(probes)
    assert [p.name for p in probes if p.open] == []


def test_harmless_attempts_succeed_without_a_sandbox(tmp_path: Path) -> None:
    """Otherwise "held" would say nothing."""
    chosen = {
        "read a world-readable file outside",
        "read it through a symlink in the workspace",
        "make a hard link to it",
        "list Geode's home",
        "read a secret file of the workspace",
        "read shared memory of the host",
        "write outside",
        "write a git hook",
        "write git's configuration",
        "write .mcp.json",
        "replace .git as a whole",
        "write through a symlink to outside",
        "make a set-user-ID file",
        "see a process of the host",
        "signal a process of the host",
        "inherit an environment variable of Geode",
        "run without a system call filter",
        "gain privileges by running a program",
        "connect to the host's loopback (TCP)",
        "send a UDP datagram to the host",
        "connect to an abstract Unix socket",
        "connect to a Unix socket outside",
    }
    program = (
        "import json, runpy, sys\n"
        f"inside = runpy.run_path({str(probe._INSIDE)!r}, run_name='inside')\n"  # pyright: ignore[reportPrivateUsage]
        "settings, chosen = json.loads(sys.stdin.read())\n"
        "for name, function in inside['ATTEMPTS']:\n"
        "    if name in chosen: print(json.dumps(inside['run'](name, function, settings)), flush=True)\n"
    )
    with probe._prepared(tmp_path / "ground", tmp_path) as settings:  # pyright: ignore[reportPrivateUsage]
        sent = json.dumps([{k: v for k, v in settings.items() if k != "bystander"}, sorted(chosen)])
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", program], input=sent, capture_output=True, text=True, check=True
        )
    answers = {answer["name"]: answer["open"] for answer in map(json.loads, done.stdout.splitlines())}
    assert set(answers) == chosen
    assert [name for name, is_open in answers.items() if not is_open] == []
