"""The one thread that writes: callers hand it functions, it runs them in transactions.

Functions that wait at the same moment share one transaction (each inside a savepoint), so many
concurrent callers pay for one commit. A function's result is handed over only after the commit.
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

from ..core.errors import StoreError
from .engine import WRITES
from .failures import translate

__all__ = ["Settled", "Work", "WriterThread"]

Work = Callable[[Connection], Any]
"""What to do inside the transaction. It may run again after a rollback: change nothing outside."""

Settled = Callable[[bool], None]
"""Called in the writer thread once the fate of the whole transaction is known: True after the commit."""

_BATCH = 128
"""Functions in one transaction at most."""


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
        self._connection: Connection | None = None
        self._closed = False
        self._gate = threading.Lock()
        self._thread = threading.Thread(target=self._loop, name="geode-store-writer", daemon=True)
        self._thread.start()

    async def run(self, work: Work, settled: Settled | None = None) -> Any:
        """Run `work` in a transaction and return its value after the commit.

        Cancelling the caller does not stop the work: it is done, or not, as a whole.

        Raises:
            StoreError: the transaction failed; nothing of `work` was kept.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        self._put(_Job(work, settled, _AsyncReply(loop, future)))
        return await future

    def run_sync(self, work: Work, settled: Settled | None = None) -> Any:
        """`run` for a caller without an event loop."""
        if threading.current_thread() is self._thread:
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
            self._run_batch(batch)
        self._drop_connection()

    def _run_batch(self, batch: list[_Job]) -> None:
        failure = self._transaction(batch)
        for job in batch:
            error = job.error or failure
            if job.settled is not None:
                try:
                    job.settled(failure is None)
                except Exception as settling:
                    error = error or translate(settling, self._where)
            job.reply.deliver(None if error else job.value, error)

    def _transaction(self, batch: list[_Job]) -> BaseException | None:
        """Run all of `batch` in one transaction; an error here means that none of it was kept."""
        try:
            connection = self._connect()
            with connection.begin():
                if len(batch) == 1:
                    batch[0].value = batch[0].work(connection)
                else:
                    for job in batch:
                        self._guarded(connection, job)
        except Exception as error:
            if isinstance(error, DBAPIError) and error.connection_invalidated:
                self._drop_connection()
            return self._known(error)
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

    def _connect(self) -> Connection:
        if self._connection is None:
            self._connection = self._engine.connect().execution_options(**WRITES)
        return self._connection

    def _drop_connection(self) -> None:
        if self._connection is None:
            return
        try:
            self._connection.close()
        except DBAPIError:
            self._connection.invalidate()
        finally:
            self._connection = None
