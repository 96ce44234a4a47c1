"""`Database`: one engine, one writer thread, reads beside it; made and migrated when opened."""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from sqlalchemy import Connection, Engine

from ..core.errors import StoreError
from .engine import SNAPSHOT, describe, identify, make_engine, parse_url, prepare_file, sqlite_path
from .failures import translated
from .migrate import bring_up_to_date
from .writer import Settled, WriterThread

__all__ = ["Database"]

T = TypeVar("T")

_BUSY_SECONDS = 15.0
_READERS = 4


class Database:
    """Where Geode keeps what it must not forget. Make one with `Database.open`.

    Durability: a write that was awaited survives the end of the process, however it ends
    (WAL, synchronous=NORMAL). A power failure may take the last transactions, never the
    consistency of the file.
    """

    def __init__(self, engine: Engine, where: str, identity: str) -> None:
        self._engine = engine
        self._identity = identity
        self._where = where
        self._writer = WriterThread(engine, where)
        self._readers: ThreadPoolExecutor | None = None
        self._gate = threading.Lock()
        self._closed = False
        self._closers: list[weakref.WeakMethod[Callable[[], None]]] = []

    @classmethod
    def open(cls, url: str, *, home: Path, busy_seconds: float = _BUSY_SECONDS) -> Database:
        """Open the database, making it or bringing its schema up to date first.

        Several processes may do this at once.

        Args:
            url: `sqlite:///PATH` or `postgresql://…`.
            home: Geode's home; relative SQLite paths are not resolved against it.
            busy_seconds: how long to wait for another process before `StoreBusy`.

        Raises:
            ConfigError: the URL makes no sense.
            Missing: the database's driver is not installed.
            StoreBusy: another process holds the database.
            StoreError: it cannot be read or written, is damaged, or was made by a newer Geode.
        """
        parsed = parse_url(url)
        where = describe(parsed)
        path = sqlite_path(parsed)
        if path is not None:
            prepare_file(path)
        engine = make_engine(parsed, busy_seconds=busy_seconds)
        try:
            with translated(where):
                bring_up_to_date(engine, where, path, busy_seconds=busy_seconds)
        except BaseException:
            engine.dispose()
            raise
        return cls(engine, where, identify(parsed))

    @property
    def where(self) -> str:
        """The database in words, without its password."""
        return self._where

    @property
    def identity(self) -> str:
        """The same for everybody who uses this database, whatever user and password they use."""
        return self._identity

    @property
    def engine(self) -> Engine:
        """The engine, for compiling statements; transactions go through `read` and `write`."""
        return self._engine

    async def write(self, work: Callable[[Connection], T], *, settled: Settled | None = None, brief: bool = False) -> T:
        """Run `work` in a transaction in the writer thread; its value comes after the commit.

        Args:
            work: runs in another thread and may share its transaction with other callers' work.
            settled: told where `work` ran whether the transaction was committed.
            brief: `work` adds a row or two and waits for nothing; it may run in this thread, alone.

        Raises:
            StoreError: nothing of `work` was kept.
        """
        return await self._writer.run(work, settled, brief=brief)

    def write_sync(self, work: Callable[[Connection], T], *, settled: Settled | None = None) -> T:
        """`write` for callers without an event loop."""
        return self._writer.run_sync(work, settled)

    async def read(self, work: Callable[[Connection], T]) -> T:
        """Run `work` in a reading transaction in another thread; all it reads is of one moment."""
        return await asyncio.get_running_loop().run_in_executor(self._pool(), self.read_sync, work)

    def read_sync(self, work: Callable[[Connection], T]) -> T:
        """`read` in the calling thread."""
        if self._closed:
            raise StoreError(f"the database {self._where} is already closed")
        with (
            translated(self._where),
            self._engine.connect().execution_options(**SNAPSHOT) as connection,
            connection.begin(),
        ):
            return work(connection)

    def on_close(self, closer: Callable[[], None]) -> None:
        """Have a bound method called after the last write and before the engine goes away."""
        self._closers.append(weakref.WeakMethod(closer))

    def close(self) -> None:
        """Finish queued writes and let go of the file. Again: no effect."""
        with self._gate:
            if self._closed:
                return
            self._closed = True
        self._writer.close()
        if self._readers is not None:
            self._readers.shutdown(wait=True)
        for reference in self._closers:
            closer = reference()
            if closer is not None:
                closer()
        self._engine.dispose()

    def __enter__(self) -> Database:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _pool(self) -> ThreadPoolExecutor:
        with self._gate:
            if self._closed:
                raise StoreError(f"the database {self._where} is already closed")
            if self._readers is None:
                self._readers = ThreadPoolExecutor(_READERS, thread_name_prefix="geode-store-reader")
            return self._readers
