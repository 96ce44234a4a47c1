"""Picks the containment backend that works on this machine, or says why none does."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

from ...config.home import default_home
from ...config.settings import SandboxSettings
from ...core.errors import ConfigError, SandboxUnavailable
from ...core.ports import Limits
from . import placeholders
from .base import Backend

__all__ = ["DEFAULT_LIMITS", "limits_of", "select_backend"]

_MEGA = 1024 * 1024

DEFAULT_LIMITS = Limits(
    seconds=120.0, cpu_seconds=600, memory_bytes=8 * 1024 * _MEGA, processes=512, file_bytes=4 * 1024 * _MEGA,
    open_files=4096, output_bytes=64 * _MEGA,
)  # fmt: skip

_lock = threading.Lock()
_chosen: dict[tuple[str, Path], Backend] = {}


def select_backend(settings: SandboxSettings, *, home: Path | None = None) -> Backend:
    """The backend to use; tried once per process and Geode home, blocking for some milliseconds.

    Args:
        settings: `Settings.sandbox`.
        home: Geode's home, which stays invisible inside; None takes the default one.

    Raises:
        SandboxUnavailable: none works here; nothing is run without one.
        ConfigError: the settings name a backend that does not exist.
    """
    key = (settings.backend, home if home is not None else default_home())
    with _lock:
        if key not in _chosen:
            _chosen[key] = _try(*key)
        return _chosen[key]


def _try(wanted: str, home: Path) -> Backend:
    if wanted not in ("auto", "bubblewrap", "seatbelt"):
        raise ConfigError(
            f"no sandbox backend is named {wanted!r}", fix='Use sandbox.backend = "auto" or "bubblewrap".'
        )
    if wanted == "seatbelt" or not sys.platform.startswith("linux"):
        raise SandboxUnavailable(
            f"there is no proven sandbox for {sys.platform} yet, and nothing is run without one",
            fix="Run commands on Linux (a virtual machine or container will do); everything else works here.",
        )
    from .bubblewrap import Bubblewrap

    placeholders.sweep()
    backend = Bubblewrap(geode_home=home)
    backend.check()
    return backend


def limits_of(settings: SandboxSettings) -> Limits:
    """The quotas of the settings in the units of `Limits`; what they leave open has our default."""

    def value(given: int | None, factor: int, default: int | None) -> int | None:
        return default if given is None else given * factor

    return Limits(
        seconds=DEFAULT_LIMITS.seconds,
        cpu_seconds=value(settings.cpu_seconds, 1, DEFAULT_LIMITS.cpu_seconds),
        memory_bytes=value(settings.memory_mb, _MEGA, DEFAULT_LIMITS.memory_bytes),
        processes=value(settings.processes, 1, DEFAULT_LIMITS.processes),
        file_bytes=value(settings.file_mb, _MEGA, DEFAULT_LIMITS.file_bytes),
        open_files=value(settings.open_files, 1, DEFAULT_LIMITS.open_files),
        output_bytes=settings.output_mb * _MEGA,
    )
