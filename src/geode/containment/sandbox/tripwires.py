"""Names that no mount can protect: compared after the run, and put back when they changed."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterable
from pathlib import Path

__all__ = ["Tripwires"]


def _state(path: Path) -> str | None:
    """None: nothing there; else the target of a symlink, or "/" for anything else."""
    try:
        return os.readlink(path)
    except FileNotFoundError:
        return None
    except OSError:
        return "/"


class Tripwires:
    """Remembers what the paths were when it was made."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self._before = {path: _state(path) for path in paths}

    def undo(self) -> list[str]:
        """Set aside what came to exist or took the place of a link; one line for people each."""
        lines: list[str] = []
        for path, before in self._before.items():
            now = _state(path)
            if now == before:
                continue
            lines.append(f"changed {path}, which steers other programs; it was set aside")
            if now is not None:
                with contextlib.suppress(OSError):
                    path.rename(path.with_name(f"{path.name}.refused-{secrets.token_hex(4)}"))
            if before not in (None, "/"):
                with contextlib.suppress(OSError):
                    path.symlink_to(before)
        return lines
