"""Who uses this process."""

from __future__ import annotations

import getpass
import os
from functools import lru_cache

__all__ = ["local_user"]


@lru_cache(maxsize=1)
def local_user() -> str:
    """The operating system's name for the person this process runs as; the principal of local calls."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a user id without a name, as in many containers
        return f"uid-{os.getuid()}" if hasattr(os, "getuid") else "local"
