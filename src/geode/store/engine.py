"""Opens the engine; everything that differs between SQLite and Postgres is here."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, Table, create_engine, event, make_url
from sqlalchemy.dialects import sqlite
from sqlalchemy.engine import URL
from sqlalchemy.exc import ArgumentError, NoSuchModuleError

from ..core.errors import ConfigError, Missing
from .failures import from_os

__all__ = [
    "SNAPSHOT",
    "WRITES",
    "describe",
    "identify",
    "insert_if_new",
    "make_engine",
    "never_wait",
    "parse_url",
    "prepare_file",
    "private_folder",
    "server_migration_lock",
    "sqlite_path",
    "use_wal",
]

WRITES: dict[str, Any] = {"geode_writes": True}
"""Execution options of the connection that writes: its transactions take the write lock at once."""

SNAPSHOT: dict[str, Any] = {"geode_snapshot": True}
"""Execution options of a connection whose reads all see one moment."""

_MIGRATION_LOCK = 0x67656F6465
"""Number of the Postgres advisory lock held while migrating."""


def parse_url(text: str) -> URL:
    """The database URL, with our Postgres driver filled in.

    Raises:
        ConfigError: not a URL, or of a database that Geode does not support.
    """
    fix = "use sqlite:///PATH or postgresql://USER:PASSWORD@HOST/DATABASE in GEODE_DATABASE_URL"
    try:
        url = make_url(text)
        backend = url.get_backend_name()
    except (ArgumentError, NoSuchModuleError, ValueError):
        raise ConfigError("the database URL cannot be understood", fix=fix) from None
    if backend in ("postgres", "postgresql"):
        return url.set(drivername="postgresql+psycopg")
    if backend != "sqlite":
        raise ConfigError(f"the database kind {backend!r} is not supported", fix=fix)
    if not url.database or url.database == ":memory:":
        raise ConfigError("a database in memory cannot be shared by several processes", fix="use sqlite:///PATH")
    return url


def sqlite_path(url: URL) -> Path | None:
    """The absolute path of a SQLite database, None for a server."""
    if url.get_backend_name() != "sqlite" or url.database is None:
        return None
    return Path(os.path.abspath(os.path.expanduser(url.database)))


def describe(url: URL) -> str:
    """The database in words, without its password."""
    path = sqlite_path(url)
    return str(path) if path else url.render_as_string(hide_password=True)


def identify(url: URL) -> str:
    """What names the database itself: neither user nor password nor options belong to it."""
    path = sqlite_path(url)
    return str(path) if path else f"{url.get_backend_name()}://{url.host}:{url.port or 5432}/{url.database}"


def private_folder(path: Path) -> None:
    """Make a folder and all that are missing above it, for this user alone.

    Raises:
        OSError: it cannot be made, or something else is in its place.
    """
    if path.is_dir():
        return
    private_folder(path.parent)
    path.mkdir(mode=0o700, exist_ok=True)


def prepare_file(path: Path) -> None:
    """Make sure that the database file exists and is for this user alone.

    SQLite gives its -wal and -shm files the mode of the database file.

    Raises:
        StoreError: the folder or the file cannot be made or belongs to somebody else.
    """
    try:
        private_folder(path.parent)
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0)
        fd = os.open(path, flags, 0o600)
        try:
            mode = os.fstat(fd).st_mode
            if not stat.S_ISREG(mode):
                raise OSError(errno.EINVAL, "it is not a regular file (a pipe or a device)")
            if os.name == "posix" and mode & 0o077:
                os.fchmod(fd, 0o600)
        finally:
            os.close(fd)
    except OSError as error:
        raise from_os(error, f"the database {path}") from error


def make_engine(url: URL, *, busy_seconds: float) -> Engine:
    """An engine whose transactions begin when we say so.

    Args:
        url: from `parse_url`.
        busy_seconds: how long a statement waits for another process.

    Raises:
        Missing: the Postgres driver is not installed.
    """
    path = sqlite_path(url)
    if path is None:
        return _postgres(url, busy_seconds)
    engine = create_engine(
        url.set(database=str(path)),
        connect_args={"check_same_thread": False, "isolation_level": None, "timeout": busy_seconds},
        pool_size=4,
        max_overflow=16,
    )

    def on_connect(driver: Any, _record: Any) -> None:
        cursor = driver.cursor()
        cursor.execute("PRAGMA synchronous=NORMAL")
        cursor.execute("PRAGMA foreign_keys=ON")
        cursor.execute("PRAGMA temp_store=MEMORY")
        cursor.close()

    def on_begin(connection: Connection) -> None:
        writes = connection.get_execution_options().get("geode_writes")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    event.listen(engine, "connect", on_connect)
    event.listen(engine, "begin", on_begin)
    return engine


def _postgres(url: URL, busy_seconds: float) -> Engine:
    milliseconds = int(busy_seconds * 1000)
    try:
        engine = create_engine(
            url,
            connect_args={"connect_timeout": 10, "options": f"-c lock_timeout={milliseconds}"},
            pool_pre_ping=True,
        )
    except ModuleNotFoundError:
        raise Missing("the driver for Postgres is not installed", fix="pip install 'geode-runtime[postgres]'") from None

    def on_begin(connection: Connection) -> None:
        if connection.get_execution_options().get("geode_snapshot"):
            connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")

    event.listen(engine, "begin", on_begin)
    return engine


def never_wait(connection: Connection) -> None:
    """Make a SQLite connection fail at once where it would wait for another process or for the disk.

    It leaves moving the write-ahead log into the database, which syncs, to other connections.
    """
    driver = connection.connection.cursor()
    driver.execute("PRAGMA busy_timeout=0")
    driver.execute("PRAGMA wal_autocheckpoint=0")
    driver.close()


def use_wal(engine: Engine) -> None:
    """Switch a SQLite file to write-ahead logging, once; readers then never wait for the writer."""
    driver = engine.raw_connection()
    try:
        cursor = driver.cursor()
        cursor.execute("PRAGMA journal_mode")
        mode = cursor.fetchone()
        if mode is None or mode[0] != "wal":
            cursor.execute("PRAGMA journal_mode=WAL")
            cursor.fetchone()
        cursor.close()
    finally:
        driver.close()


def server_migration_lock(connection: Connection) -> None:
    """Hold the Postgres lock of a migration until this transaction ends."""
    connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_MIGRATION_LOCK})")


def insert_if_new(connection: Connection, table: Table, values: Mapping[str, Any]) -> bool:
    """Insert a row unless its primary key exists; of several that try at once, one gets True."""
    if connection.dialect.name == "sqlite":
        statement = sqlite.insert(table).on_conflict_do_nothing()
    else:
        from sqlalchemy.dialects import postgresql  # 30 ms that users of SQLite need not wait

        statement = postgresql.insert(table).on_conflict_do_nothing()
    # Without the option the row count of an INSERT is not kept and reads as -1.
    done = connection.execute(statement.values(values), execution_options={"preserve_rowcount": True})
    return done.rowcount == 1
