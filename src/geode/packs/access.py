"""What lies at a path, with errors for people."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from ..core.errors import ToolFailed
from ..core.messages import SideEffects

__all__ = ["kind_of_path"]


def kind_of_path(real: Path) -> str:
    """ "dir", "file", "other" or "missing" for a resolved path.

    Raises:
        ToolFailed: it may not be looked at.
    """
    try:
        mode = os.stat(real).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return "missing"
    except OSError as error:
        raise ToolFailed(
            f"{real} cannot be looked at: {error.strerror or error}",
            fix="check the permissions of its directory",
            side_effects=SideEffects.NONE,
        ) from error
    if stat.S_ISDIR(mode):
        return "dir"
    return "file" if stat.S_ISREG(mode) else "other"
