"""The one thread that writes: callers hand it functions, it runs them in transactions.

Functions that wait at the same moment share one transaction (each inside a savepoint), so many
concurrent callers pay for one commit. A function's result is handed over only after the commit.

A brief one need not go to the thread: on SQLite it is done where it was asked for when nobody else
writes, which saves two switches of threads. It never waits there: not for this process, not for
another one (the connection has no patience), not for the disk (only the thread moves the
write-ahead log into the database, which syncs).
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Protocol

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError

from ..core.errors import StoreBusy, StoreError
from .engine import WRITES, never_wait
from .failures import translate

__all__ = ["Settled", "Work", "WriterThread"]

Work = Callable[[Connection], Any]
"""What to do inside the transaction. It may run again after a rollback: change nothing outside."""

Settled = Callable[[bool], None]
"""Called in the writer thread once the fate of the whole transaction is known: True after the commit."""

_BATCH = 128
"""Functions in one transaction at most."""

_BRIEF_IN_A_ROW = 200
"""So many brief writes fill about the 1,000 pages after which SQLite cleans up; the thread does it."""


class _Reply(Protocol):
    def deliver(self, value: Any, error: BaseException | None) -> None: ...


class _Job:
    __slots__ = ("error", "reply", "settled", "value", "work")

    def __init__(self, work: Work, settled: Settled | None, reply: _Reply) -> None:
        self.work = work
        self.settled = settled
        self.reply = reply
        self.value: Any = None
        self.error: BaseException | None = None


class _AsyncReply:
    """Answers a coroutine of another thread's event loop."""

    __slots__ = ("_future", "_loop")

    def __init__(self, loop: asyncio.AbstractEventLoop, future: asyncio.Future[Any]) -> None:
        self._loop = loop
        self._future = future

    def deliver(self, value: Any, error: BaseException | None) -> None:
        try:
            self._loop.call_soon_threadsafe(self._set, value, error)
        except RuntimeError:
            # The loop was closed while we worked: the work is done, nobody is left to hear of it.
            return

    def _set(self, value: Any, error: BaseException | None) -> None:
        if self._future.done():
            return
        if error is None:
            self._future.set_result(value)
        else:
            self._future.set_exception(error)


class _SyncReply:
    """Answers a thread that blocks."""

    __slots__ = ("future",)

    def __init__(self) -> None:
        self.future: Future[Any] = Future()

    def deliver(self, value: Any, error: BaseException | None) -> None:
        if error is None:
            self.future.set_result(value)
        else:
            self.future.set_exception(error)


class WriterThread:
    """Owns the writing connection of one engine in this process.

    Args:
        engine: where to write.
        where: the database in words, for errors.
    """

    def __init__(self, engine: Engine, where: str) -> None:
        self._engine = engine
        self._where = where
        self._queue: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._link = _Link(engine, patient=True)
        self._impatient = _Link(engine, patient=False)
        self._here_allowed = engine.dialect.name == "sqlite"
        self._brief_jobs = 0
        self._turn = threading.Lock()
        """Held by whoever is in a transaction."""
        self._writing: int | None = None
        self._closed = False
        self._gate = threading.Lock()
        self._thread = threading.Thread(target=self._loop, name="geode-store-writer", daemon=True)
        self._thread.start()

    async def run(self, work: Work, settled: Settled | None = None, *, brief: bool = False) -> Any:
        """Run `work` in a transaction and return its value after the commit.

        Cancelling the caller does not stop the work: it is done, or not, as a whole.

        Args:
            work: runs in the writer thread; with `brief` perhaps in this one.
            settled: called where `work` ran.
            brief: `work` takes well under a millisecond.

        Raises:
            StoreError: the transaction failed; nothing of `work` was kept.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        job = _Job(work, settled, _AsyncReply(loop, future))
        if brief and self._done_here(job):
            if job.error is not None:
                raise job.error
            return job.value
        self._put(job)
        return await future

    def run_sync(self, work: Work, settled: Settled | None = None) -> Any:
        """`run` for a caller without an event loop."""
        if threading.get_ident() == self._writing:
            raise RuntimeError("a write inside a write would wait for itself")
        reply = _SyncReply()
        self._put(_Job(work, settled, reply))
        return reply.future.result()

    def close(self) -> None:
        """Finish what is queued and end the thread. Again: no effect."""
        with self._gate:
            if self._closed:
                return
            self._closed = True
            self._queue.put(None)
        self._thread.join()
        with self._turn:
            self._link.drop()
            self._impatient.drop()

    def _put(self, job: _Job) -> None:
        with self._gate:
            if self._closed:
                raise StoreError(f"the database {self._where} is already closed")
            self._queue.put(job)

    def _loop(self) -> None:
        stop = False
        while not stop:
            job = self._queue.get()
            if job is None:
                break
            batch = [job]
            while len(batch) < _BATCH:
                try:
                    following = self._queue.get_nowait()
                except queue.Empty:
                    break
                if following is None:
                    stop = True
                    break
                batch.append(following)
            with self._turn:
                self._settle(batch, self._transaction(batch, self._link))
            for done in batch:
                done.reply.deliver(None if done.error else done.value, done.error)

    def _done_here(self, job: _Job) -> bool:
        """Do a brief job in the calling thread, unless that would mean to wait."""
        self._brief_jobs += 1
        if not self._here_allowed or self._brief_jobs % _BRIEF_IN_A_ROW == 0 or not self._queue.empty():
            return False
        if not self._turn.acquire(blocking=False):
            return False
        try:
            if self._closed:
                return False
            failure = self._transaction([job], self._impatient)
            self._settle([job], failure)
        except BaseException as interrupted:  # ctrl-c between two instructions: the fate is unknown
            self._settle([job], interrupted)
            raise
        finally:
            self._turn.release()
        if isinstance(failure, StoreBusy):
            job.error = None
            return False
        return True

    def _settle(self, batch: list[_Job], failure: BaseException | None) -> None:
        for job in batch:
            job.error = job.error or failure
            if job.settled is not None:
                try:
                    job.settled(failure is None)
                except Exception as settling:
                    job.error = job.error or translate(settling, self._where)

    def _transaction(self, batch: list[_Job], link: _Link) -> BaseException | None:
        """Run all of `batch` in one transaction; an error here means that none of it was kept."""
        self._writing = threading.get_ident()
        try:
            connection = link.connection()
            with connection.begin():
                if len(batch) == 1:
                    batch[0].value = batch[0].work(connection)
                else:
                    for job in batch:
                        self._guarded(connection, job)
        except Exception as error:
            if isinstance(error, DBAPIError) and error.connection_invalidated:
                link.drop()
            return self._known(error)
        finally:
            self._writing = None
        return None

    def _guarded(self, connection: Connection, job: _Job) -> None:
        """Run one of several jobs so that its failure undoes only its own changes."""
        try:
            with connection.begin_nested():
                job.value = job.work(connection)
        except DBAPIError as error:
            if error.connection_invalidated or not connection.in_transaction():
                raise
            job.error = self._known(error)
        except Exception as error:
            job.error = self._known(error)

    def _known(self, error: Exception) -> BaseException:
        """Driver and file errors as `StoreError`; a `GeodeError` or a bug of ours as it is."""
        if isinstance(error, (DBAPIError, OSError)):
            known = translate(error, self._where)
            known.__cause__ = error
            return known
        return error


class _Link:
    """A connection that writes: made when it is first needed, and again after it broke.

    Args:
        engine: where to.
        patient: wait for other processes; without, the lock is there at once or `StoreBusy` is raised.
    """

    def __init__(self, engine: Engine, *, patient: bool) -> None:
        self._engine = engine
        self._patient = patient
        self._connection: Connection | None = None

    def connection(self) -> Connection:
        if self._connection is None:
            connection = self._engine.connect().execution_options(**WRITES)
            if not self._patient:
                connection.detach()  # its settings are not for others
                never_wait(connection)
            self._connection = connection
        return self._connection

    def drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is None:
            return
        try:
            connection.close()
        except DBAPIError:
            connection.invalidate()
