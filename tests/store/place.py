"""A home with a real database file, and real processes on it."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

from geode.store.audit import AuditLog, AuditRecord
from geode.store.database import Database

CHILD = Path(__file__).with_name("child.py")


class Place:
    """A home with a database, and the processes that a test starts on it."""

    def __init__(self, home: Path, url: str = "") -> None:
        self.home = home
        self.file = home / "geode.db"
        self.url = url or f"sqlite:///{self.file}"
        self.processes: list[subprocess.Popen[str]] = []

    def open(self, **options: Any) -> Database:
        return Database.open(self.url, home=self.home, **options)

    def start(self, *arguments: object) -> subprocess.Popen[str]:
        """Run child.py on this home; its stdout is read line by line."""
        command = [sys.executable, str(CHILD), self.url, str(self.home), *map(str, arguments)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.processes.append(process)
        return process

    def run(self, *arguments: object) -> Any:
        """Run child.py to its end and return its last line as JSON."""
        return finished(self.start(*arguments))

    def copy(self, to: Path) -> Place:
        """The same home somewhere else, as a thief or a backup would have it."""
        shutil.copytree(self.home, to)
        return Place(to)

    def raw(self) -> sqlite3.Connection:
        """The file as somebody sees it who does not use Geode."""
        return sqlite3.connect(self.file, isolation_level=None)

    def end(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.communicate()


def finished(process: subprocess.Popen[str], *, seconds: float = 50) -> Any:
    """Wait for a child and return its last line as JSON."""
    out, err = process.communicate(timeout=seconds)
    assert process.returncode == 0, f"child failed ({process.returncode}): {err}"
    return json.loads(out.splitlines()[-1])


async def record_calls(log: AuditLog, count: int, *, prefix: str = "c", **fields: Any) -> None:
    """`count` calls with intent and outcome."""
    for number in range(count):
        name = f"{prefix}{number}"
        await log.record(AuditRecord(kind="intent", call_id=name, tool="read_file", status="started", **fields))
        await log.record(
            AuditRecord(
                kind="outcome",
                call_id=name,
                tool="read_file",
                status="ok",
                duration_ms=1.5,
                body={"n": number},
                **fields,
            )
        )
