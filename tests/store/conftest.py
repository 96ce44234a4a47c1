"""Real SQLite files, real processes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from geode.store.audit import AuditLog
from geode.store.database import Database
from store.place import Place


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    here = Place(home)
    yield here
    here.end()


@pytest.fixture
def db(place: Place) -> Iterator[Database]:
    database = place.open()
    yield database
    database.close()


@pytest.fixture
def log(db: Database, place: Place) -> AuditLog:
    return AuditLog(db, place.home)
