"""Brings a database to the schema of this version, once, whoever comes first.

The usual case, a database that is up to date, is one SELECT and does not import Alembic
(1 s). An empty database gets today's tables directly; a test proves that the migrations
lead to the same ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Connection, Engine, insert, inspect, select

from ..core.errors import StoreBusy, StoreError
from .engine import WRITES, server_migration_lock, use_wal
from .locks import file_lock
from .schema import HEAD, REVISIONS, metadata, revision_table

__all__ = ["bring_up_to_date", "stored_revision", "upgrade"]

_WAIT = 120.0
"""Seconds to wait for another process that migrates."""


def bring_up_to_date(engine: Engine, where: str, path: Path | None, *, busy_seconds: float) -> None:
    """Make sure that the schema is this version's.

    Args:
        engine: of the database.
        where: the database in words, for errors.
        path: the SQLite file, None for a server.
        busy_seconds: how long other statements wait; a migration is waited for at least as long.

    Raises:
        StoreBusy: another process migrates and does not come to an end.
        StoreError: the database was made by a newer Geode, or holds somebody else's tables.
    """
    with engine.connect() as connection:
        if stored_revision(connection, where) == HEAD:
            return
    with _alone(path, where, max(_WAIT, busy_seconds)):
        if path is not None:
            use_wal(engine)
        with engine.connect().execution_options(**WRITES) as connection, connection.begin():
            if path is None:
                server_migration_lock(connection)
            revision = stored_revision(connection, where)
            if revision == HEAD:
                return
            if revision is None:
                _create(connection, where)
            else:
                upgrade(connection, HEAD)


def stored_revision(connection: Connection, where: str) -> str | None:
    """The revision the database says it has, None when it is empty.

    Raises:
        StoreError: a revision this version does not know.
    """
    if not inspect(connection).has_table(revision_table.name):
        return None
    found = connection.execute(select(revision_table.c.version_num)).scalars().all()
    if not found:
        return None
    if len(found) > 1 or found[0] not in REVISIONS:
        raise StoreError(
            f"the database {where} was made by a newer version of Geode (schema {', '.join(found)[:80]})",
            fix="update Geode, or choose another place with --home or GEODE_DATABASE_URL",
        )
    return found[0]


def upgrade(connection: Connection, target: str) -> None:
    """Run the shipped migrations up to `target` inside the given transaction."""
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.attributes["connection"] = connection
    command.upgrade(config, target)


def _create(connection: Connection, where: str) -> None:
    """Make all tables of today in an empty database and note the revision."""
    ours = set(metadata.tables) & set(inspect(connection).get_table_names())
    if ours:
        raise StoreError(
            f"the database {where} holds tables named {', '.join(sorted(ours))} that Geode did not make",
            fix="choose another database with GEODE_DATABASE_URL",
        )
    metadata.create_all(connection, checkfirst=False)
    revision_table.create(connection, checkfirst=True)
    connection.execute(insert(revision_table).values(version_num=HEAD))


@contextmanager
def _alone(path: Path | None, where: str, seconds: float) -> Iterator[None]:
    """Let one process at a time in. A server is locked inside the transaction instead."""
    if path is None:
        yield
        return
    with file_lock(path.with_name(path.name + ".migrate"), seconds=seconds) as held:
        if not held:
            raise StoreBusy(
                f"another process has been changing the schema of {where} for more than {seconds:.0f} s",
                fix="wait for it, or end it, then try again",
            )
        yield
