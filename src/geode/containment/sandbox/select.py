"""Picks the containment backend that works on this machine, or says why none does."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Any

from ...core.errors import ConfigError, SandboxUnavailable
from ...core.ports import Limits
from . import placeholders
from .base import Backend
from .runner import DEFAULT_LIMITS

__all__ = ["limits_of", "select_backend"]

_lock = threading.Lock()
_chosen: dict[tuple[str, str], Backend] = {}


def select_backend(settings: Any) -> Backend:
    """The backend to use; tried once per process and Geode home, blocking for some milliseconds.

    Args:
        settings: `config.settings.Settings`: `home`, `sandbox.backend` (`auto` or a name).

    Raises:
        SandboxUnavailable: none works here; nothing is run without one.
        ConfigError: the settings name a backend that does not exist.
    """
    wanted = str(getattr(settings.sandbox, "backend", "auto"))
    key = (wanted, str(settings.home))
    with _lock:
        if key not in _chosen:
            _chosen[key] = _try(wanted, Path(settings.home))
        return _chosen[key]


def _try(wanted: str, home: Path) -> Backend:
    if wanted not in ("auto", "bubblewrap"):
        raise ConfigError(f"no sandbox backend is named {wanted!r}", fix='Use sandbox.backend = "auto" or "bubblewrap".')
    if not sys.platform.startswith("linux"):
        raise SandboxUnavailable(
            f"there is no proven sandbox for {sys.platform} yet, and nothing is run without one",
            fix="Run commands on Linux (a virtual machine or container will do); everything else works here.",
        )
    from .bubblewrap import Bubblewrap  # noqa: PLC0415  Linux only

    placeholders.sweep()
    backend = Bubblewrap(geode_home=home)
    backend.check()
    return backend


def limits_of(settings: Any) -> Limits:
    """The quotas of `settings.sandbox`, in the units of `Limits`; what it leaves open has our default."""
    sandbox = settings.sandbox

    def value(name: str, factor: int, default: int | None) -> int | None:
        given = getattr(sandbox, name, None)
        return default if given is None else int(given) * factor

    mega = 1024 * 1024
    return Limits(
        seconds=DEFAULT_LIMITS.seconds,
        cpu_seconds=value("cpu_seconds", 1, DEFAULT_LIMITS.cpu_seconds),
        memory_bytes=value("memory_mb", mega, DEFAULT_LIMITS.memory_bytes),
        processes=value("processes", 1, DEFAULT_LIMITS.processes),
        file_bytes=value("file_mb", mega, DEFAULT_LIMITS.file_bytes),
        open_files=value("open_files", 1, DEFAULT_LIMITS.open_files),
        output_bytes=value("output_mb", mega, DEFAULT_LIMITS.output_bytes) or DEFAULT_LIMITS.output_bytes,
    )
