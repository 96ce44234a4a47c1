"""One run of one command: where, as whom, for whom, and the parts of Geode it opens.

A command opens only what it needs: `policy check` needs no database, `audit list` no tools.
"""

from __future__ import annotations

import argparse
import asyncio
import difflib
import hashlib
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ..config.person import local_user
from ..core.errors import UsageError
from ..core.events import EventSink
from . import render
from .errors import Terminated
from .parser import Globals

if TYPE_CHECKING:
    from ..config.settings import Settings
    from ..policy.engine import PolicyEngine
    from ..runtime import GeodeRuntime
    from ..store.database import Database

__all__ = ["Invocation", "session_of"]

T = TypeVar("T")

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_GRACE = 10.0
"""Seconds that everything has to end after a signal."""


def session_of(project: Path) -> str:
    """The session all command line calls of one project share, so that one command reads `result:ID` of another."""
    return "cli-" + hashlib.sha256(os.fsencode(project)).hexdigest()[:16]


class Invocation:
    """What a command gets.

    Attributes:
        args: the parsed options of the command itself.
        json: True when one JSON document is wanted.
    """

    def __init__(self, args: argparse.Namespace, options: Globals) -> None:
        self.args = args
        self.json = options.json
        self._options = options

    # ------------------------------------------------------------ where

    @cached_property
    def project(self) -> Path:
        """The project directory, absolute and existing.

        Raises:
            UsageError: it does not exist, is no directory or cannot be entered.
        """
        given = self._options.project
        if given is not None and not given.strip():
            raise UsageError("--project is empty", fix="give a directory, or leave it out for the current one")
        try:
            path = Path(given).expanduser() if given is not None else Path.cwd()
            real = path.resolve(strict=True)
        except FileNotFoundError:
            where = repr(given) if given is not None else "the current directory"
            raise UsageError(f"project directory {where} does not exist", fix="give one: --project DIR") from None
        except (OSError, RuntimeError, ValueError) as error:
            raise UsageError(f"project directory {given!r} cannot be used: {error}", fix="--project DIR") from None
        if not real.is_dir():
            raise UsageError(f"project {str(real)!r} is not a directory", fix="give a directory: --project DIR")
        if not os.access(real, os.R_OK | os.X_OK):
            raise UsageError(f"project directory {str(real)!r} cannot be read by this user", fix="chmod u+rx it")
        return real

    @cached_property
    def home(self) -> Path:
        """Geode's data directory, absolute; not created here."""
        given = self._options.home
        if given is not None and not given.strip():
            raise UsageError("--home is empty", fix="give a directory, or leave it out for ~/.geode")
        if given is None:
            from ..config.home import default_home

            return default_home()
        try:
            return Path(os.path.abspath(Path(given).expanduser()))
        except (RuntimeError, ValueError) as error:
            raise UsageError(f"--home {given!r} cannot be used: {error}", fix="give a directory") from None

    @property
    def mode(self) -> str | None:
        """The policy mode that was given, or None."""
        return self._options.mode

    @property
    def session(self) -> str:
        return session_of(self.project)

    @property
    def principal(self) -> str:
        return local_user()

    # ------------------------------------------------------------ parts of Geode

    @cached_property
    def overrides(self) -> Mapping[str, Any]:
        """Settings given on the command line."""
        return {"mode": self.mode} if self.mode is not None else {}

    @cached_property
    def trusted(self) -> bool:
        """True when this user has trusted what the project brings, as it is now."""
        from ..config.trust import TrustStore

        return TrustStore(self.home).state(self.project).trusted

    def untrusted_hint(self) -> str:
        """One line about tools and servers of this project that are left out for want of trust, or ""."""
        from ..config.trust import TOOL_FILES, TrustStore

        found = TrustStore(self.home).state(self.project)
        files = [name for name in found.files if name in TOOL_FILES]
        if found.state not in ("untrusted", "changed") or not files:
            return ""
        why = "not trusted" if found.state == "untrusted" else "changed since it was trusted"
        return f"this project is {why}, so {', '.join(files)} is not used; look at it: geode trust --show"

    @cached_property
    def settings(self) -> Settings:
        """Settings of all layers.

        Raises:
            ConfigError: a settings file cannot be used; names file and line.
        """
        from ..config.settings import load_settings

        settings = load_settings(self.project, self.home, trusted=self.trusted, overrides=self.overrides)
        for text in settings.notices:
            render.note(f"note: {text}")
        return settings

    @cached_property
    def policy(self) -> PolicyEngine:
        from ..policy.engine import PolicyEngine

        return PolicyEngine.from_settings(self.settings)

    def check_mode(self) -> None:
        """Refuse to begin a conversation in a mode that nobody knows: every call in it would be denied.

        Raises:
            UsageError: names the closest modes.
            ConfigError: a settings file cannot be used.
        """
        mode = self.settings.mode
        if mode not in self.policy.modes():
            raise UsageError(f"mode {mode!r} is unknown", fix=self.policy.closest_modes(mode))

    @contextmanager
    def database(self) -> Iterator[Database]:
        """The database alone, opened and closed."""
        from ..config.home import ensure_home
        from ..store.database import Database

        settings = self.settings  # a bad project or settings file is told before anything is made
        database = Database.open(settings.database_url, home=ensure_home(self.home))
        try:
            yield database
        finally:
            database.close()

    @asynccontextmanager
    async def runtime(self, events: EventSink | None = None, *, ask: bool = True) -> AsyncIterator[GeodeRuntime]:
        """Everything, wired; closed at the end.

        Args:
            events: sees every event.
            ask: ask at the terminal when a call needs approval.
        """
        from ..runtime import GeodeRuntime
        from .approver import TerminalApprover

        settings = self.settings  # also tells its notices
        approver = TerminalApprover(settings.approval_timeout) if ask else None
        runtime = GeodeRuntime.create(self.project, self.home, mode=self.mode, approver=approver)
        async with runtime:
            if lost := await runtime.audit.key_lost():
                render.note(render.paint(f"WARNING: {lost}", "red", sys.stderr))
            stop = runtime.subscribe(events) if events is not None else None
            try:
                yield runtime
            finally:
                if stop is not None:
                    stop()

    def note_unknown(self, allowed: Iterable[str], known: Iterable[str]) -> None:
        """Tell about an `--allow` that names no tool, which is mostly a typo; a server may bring it later.

        Args:
            allowed: names and patterns that were given.
            known: names of all tools there are now.
        """
        names = list(known)
        for wanted in allowed:
            if any(fnmatchcase(name, wanted) for name in names):
                continue
            near = difflib.get_close_matches(wanted, names, 1)
            hint = f"did you mean {near[0]}?" if near else "it counts when a server brings it"
            render.note(f"note: --allow {render.plain(wanted)}: no tool has this name now; {hint}")

    # ------------------------------------------------------------ running and showing

    def run(self, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine to its end; Ctrl-C and SIGTERM cancel it, and everything below cleans up."""
        with asyncio.Runner() as runner:
            return runner.run(_interruptible(make))

    def show(self, document: Mapping[str, Any], people: Callable[[], None]) -> None:
        """Print the JSON document, or call `people` to print for a reader."""
        if self.json:
            render.emit_json(document)
        else:
            people()


async def _interruptible(make: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Await, cancelled by the first signal; a second one, or ten seconds, end the process at once.

    What runs in the sandbox and behind MCP ends with this process in either case.
    """
    task = asyncio.current_task()
    assert task is not None
    loop = asyncio.get_running_loop()
    got: list[int] = []
    watchdogs: list[threading.Timer] = []

    def end(number: int) -> None:
        if got:
            os._exit(128 + number)
        got.append(number)
        watchdog = threading.Timer(_GRACE, os._exit, [128 + number])
        watchdog.daemon = True
        watchdog.start()
        watchdogs.append(watchdog)
        task.cancel()

    try:
        for number in _SIGNALS:
            loop.add_signal_handler(number, end, number)
    except (NotImplementedError, RuntimeError, ValueError):  # Windows, or not in the main thread
        return await make()
    try:
        return await make()
    except asyncio.CancelledError:
        if got:
            raise (KeyboardInterrupt if got[0] == signal.SIGINT else Terminated) from None
        raise
    finally:
        for watchdog in watchdogs:
            watchdog.cancel()
        for number in _SIGNALS:
            loop.remove_signal_handler(number)
