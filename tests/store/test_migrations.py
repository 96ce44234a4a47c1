from __future__ import annotations

import sqlite3
import time
from pathlib import Path

import pytest
from sqlalchemy import create_engine, inspect

from geode.core.errors import StoreError
from geode.store.engine import WRITES, make_engine, parse_url
from geode.store.migrate import upgrade
from geode.store.schema import HEAD, REVISIONS, metadata
from store.place import Place, finished


def migrated(place: Place, revision: str) -> None:
    """A database as the version with this revision left it."""
    engine = make_engine(parse_url(place.url), busy_seconds=5)
    with engine.connect().execution_options(**WRITES) as connection, connection.begin():
        upgrade(connection, revision)
    engine.dispose()


def described(path: Path) -> dict[str, object]:
    """Tables, columns, keys and indexes, in words that do not depend on how they were made."""
    engine = create_engine(f"sqlite:///{path}")
    look = inspect(engine)
    found: dict[str, object] = {}
    for table in sorted(set(look.get_table_names()) - {"alembic_version"}):
        columns = [(c["name"], str(c["type"]), c["nullable"], c["primary_key"]) for c in look.get_columns(table)]
        indexes = sorted((i["name"] or "", tuple(i["column_names"]), i["unique"]) for i in look.get_indexes(table))
        with engine.connect() as connection:
            made = connection.exec_driver_sql("SELECT sql FROM sqlite_master WHERE name = ?", (table,)).scalar_one()
        found[table] = (columns, indexes, "WITHOUT ROWID" in made)
    engine.dispose()
    return found


def test_the_migrations_lead_to_the_same_tables_as_a_new_database(tmp_path: Path) -> None:
    for name in ("new", "old"):
        (tmp_path / name).mkdir()
    new, old = Place(tmp_path / "new"), Place(tmp_path / "old")
    new.open().close()
    migrated(old, HEAD)
    assert described(new.file) == described(old.file)
    assert set(described(new.file)) == set(metadata.tables)
    assert new.raw().execute("SELECT version_num FROM alembic_version").fetchall() == [(HEAD,)]


def test_every_migration_file_is_a_known_revision() -> None:
    import geode.store.migrations.versions as versions

    names = sorted(p.name[:4] for p in Path(next(iter(versions.__path__))).glob("[0-9]*.py"))
    assert tuple(names) == REVISIONS


def test_an_older_database_is_brought_up_to_date_and_keeps_its_rows(place: Place) -> None:
    migrated(place, "0001")
    with place.raw() as connection:
        connection.execute("INSERT INTO idempotency VALUES ('p', 'k', 'd', '{}', 1, 2)")
    place.open().close()
    rows = place.raw()
    assert rows.execute("SELECT version_num FROM alembic_version").fetchall() == [(HEAD,)]
    assert rows.execute("SELECT * FROM idempotency").fetchall() == [("p", "k", "d", "{}", 1, 2)]
    assert rows.execute("SELECT count(*) FROM transcript_messages").fetchone() == (0,)


@pytest.mark.parametrize("old", [False, True])
def test_processes_that_migrate_at_once_all_succeed(place: Place, old: bool) -> None:
    if old:
        migrated(place, "0001")
    when = time.time() + 2.5
    children = [place.start("at", when, "ready") for _ in range(3)]
    assert [finished(c)["opened"] for c in children] == [True] * 3
    assert place.raw().execute("SELECT version_num FROM alembic_version").fetchall() == [(HEAD,)]
    assert place.raw().execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_database_of_a_newer_version_is_left_alone(place: Place) -> None:
    place.open().close()
    with place.raw() as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(StoreError, match="newer version") as caught:
        place.open()
    assert "update Geode" in caught.value.fix.replace("Update", "update")
    assert place.raw().execute("SELECT version_num FROM alembic_version").fetchall() == [("9999",)]


def test_tables_that_somebody_else_made_are_not_taken_over(place: Place) -> None:
    with place.raw() as connection:
        connection.execute("CREATE TABLE results (x)")
    with pytest.raises(StoreError, match="results"):
        place.open()
    tables = place.raw().execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    assert tables == [("results",)]


def test_a_migration_that_is_killed_leaves_the_old_schema_and_the_next_one_succeeds(place: Place) -> None:
    migrated(place, "0001")
    place.raw().execute("PRAGMA journal_mode=WAL")
    engine = make_engine(parse_url(place.url), busy_seconds=5)
    connection = engine.connect().execution_options(**WRITES)
    transaction = connection.begin()
    upgrade(connection, HEAD)
    # Not committed: what another process sees is what a kill would leave behind.
    assert place.raw().execute("SELECT version_num FROM alembic_version").fetchall() == [("0001",)]
    transaction.rollback()
    connection.close()
    engine.dispose()
    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        place.raw().execute("SELECT * FROM transcript_messages")
    place.open().close()
    assert place.raw().execute("SELECT version_num FROM alembic_version").fetchall() == [(HEAD,)]
