"""How much memory a process tree uses, for quotas no resource limit can set.

Resource limits count per process. A tree is watched: cheaply by resident private memory,
and only when that is too much by the exact share of each process (pages that a fork shares
are counted once).

Source: proc(5): task/TID/children, status, smaps_rollup.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

__all__ = ["tree_memory", "tree_of"]

_MOST = 4096  # processes looked at


def tree_of(pid: int) -> list[int]:
    """A process and its descendants, as far as they can be seen; never raises."""
    found = [pid]
    for parent in found:
        if len(found) > _MOST:
            break
        with contextlib.suppress(OSError, ValueError):
            for thread in Path(f"/proc/{parent}/task").iterdir():
                found += [int(child) for child in (thread / "children").read_text(encoding="ascii").split()]
    return found


def _field(text: str, name: str) -> int:
    """Bytes of a `Name:  123 kB` line; 0 when there is none."""
    for line in text.splitlines():
        if line.startswith(name):
            return int(line.split()[1]) * 1024
    return 0


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""


def tree_memory(pid: int, limit: int) -> int:
    """Bytes of memory the tree of `pid` uses, exact enough to compare with `limit`.

    Args:
        pid: its first process.
        limit: bytes; below it the cheap estimate, which is never too low, is returned.
    """
    pids = tree_of(pid)
    rough = 0
    for one in pids:
        status = _read(f"/proc/{one}/status")
        rough += _field(status, "RssAnon:") + _field(status, "RssShmem:")
    if rough <= limit:
        return rough
    rollups = [_read(f"/proc/{one}/smaps_rollup") for one in pids]
    return sum(_field(text, "Pss_Anon:") + _field(text, "Pss_Shmem:") + _field(text, "SwapPss:") for text in rollups)
