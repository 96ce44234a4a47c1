"""Checks the whole audit record: every chain, every head, every loss that was noted.

Found are: a changed byte in any column, a removed, added or moved row, a tail that was cut off, a
whole writer that is gone, a chain computed anew without the key, a missing head, list or key.
Not found is what somebody does who can read the key file: keep it as you keep a password.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, func, inspect, literal_column, select
from sqlalchemy.exc import DBAPIError

from .audit_chain import COLUMNS, Keys, seal, start
from .audit_home import AuditHome, Head, Manifest
from .audit_retention import anchors_of
from .schema import audit

__all__ = ["AuditReport", "verify"]

_STEP = 5_000
"""Rows between two calls of `progress`."""

_MOST_PROBLEMS = 100
"""Problems told in full; the rest is counted."""


@dataclass(frozen=True, slots=True)
class AuditReport:
    """What `verify` found.

    Attributes:
        ok: nothing is wrong.
        records: rows in the database.
        first_bad: `WRITER#NUMBER` of the first row that is wrong or missing, None when `ok` or
            when what is wrong is not a row.
        problems: one line each.
        notes: facts that are no problem, for example which heads belong to another machine.
    """

    ok: bool
    records: int
    first_bad: str | None
    problems: list[str]
    notes: list[str] = field(default_factory=list[str])

    def to_json(self) -> dict[str, Any]:
        return {
            "ok": self.ok,
            "records": self.records,
            "first_bad": self.first_bad,
            "problems": self.problems,
            "notes": self.notes,
        }


class _Findings:
    def __init__(self) -> None:
        self.problems: list[str] = []
        self.notes: list[str] = []
        self.first_bad: str | None = None
        self.count = 0

    def add(self, text: str, *, writer: str = "", seq: int | None = None) -> None:
        self.count += 1
        if seq is not None and self.first_bad is None:
            self.first_bad = f"{writer}#{seq}"
        if len(self.problems) < _MOST_PROBLEMS:
            self.problems.append(text)

    def report(self, records: int) -> AuditReport:
        if self.count > len(self.problems):
            self.problems.append(f"and {self.count - len(self.problems)} more")
        return AuditReport(self.count == 0, records, self.first_bad, self.problems, self.notes)


def verify(connection: Connection, home: AuditHome, progress: Callable[[int, int], None] | None = None) -> AuditReport:
    """Check everything, in one reading transaction of `connection`; memory does not grow with the record.

    Args:
        connection: must not have read anything in this transaction yet.
        home: where the key and the heads are.
        progress: called with (records checked, records in all).
    """
    findings = _Findings()
    # Heads first, rows after: a row written in between is then beyond its head, which is fine.
    keys = home.keys()
    manifest = home.manifest(keys) if keys else None
    files = home.head_writers()
    heads = {w: home.head(keys, w) for w in files} if keys else {}
    if not inspect(connection).has_table(audit.name):
        findings.add("the table of records is not in the database: every record is gone; put a backup in its place")
        return findings.report(0)
    total = connection.execute(select(func.count()).select_from(audit)).scalar_one()
    if keys is None:
        if total or files or home.manifest_file.exists():
            findings.add(f"the key file {home.key_file} is missing or unusable: nothing can be verified")
        return findings.report(total)
    if manifest is None:
        if total or files or home.manifest_file.exists():
            findings.add(f"the list of writers {home.manifest_file} is missing or not signed with our key")
        manifest = Manifest("")
    for incident in manifest.incidents:
        findings.add(f"noted before: {incident}")
    _Check(connection, home, keys, manifest, heads, findings, total, progress).run()
    return findings.report(total)


class _Check:
    def __init__(
        self,
        connection: Connection,
        home: AuditHome,
        keys: Keys,
        manifest: Manifest,
        heads: dict[str, Head | None],
        findings: _Findings,
        total: int,
        progress: Callable[[int, int], None] | None,
    ) -> None:
        self.connection = connection
        self.home = home
        self.keys = keys
        self.manifest = manifest
        self.heads = heads
        self.findings = findings
        self.total = total
        self.progress = progress
        self.done = 0

    def run(self) -> None:
        anchors = anchors_of(self.connection)
        stated = self._stated_heads()
        present = list(self.connection.execute(select(audit.c.writer).distinct().order_by(audit.c.writer)).scalars())
        for writer in present:
            self._chain(str(writer), anchors.get(str(writer)), stated.pop(str(writer), None))
        gone = {w for w, head in self.heads.items() if head is not None and head.seq} | set(stated)
        for writer in sorted((gone | set(self.manifest.writers)) - {str(w) for w in present}):
            head = self.heads.get(writer)
            if head is not None and head.seq:
                self.findings.add(f"writer {writer}: all its {head.seq} records are gone", writer=writer, seq=1)
            elif writer in stated:
                self.findings.add(f"writer {writer}: its records and its head are gone", writer=writer, seq=1)
            elif head is None:
                self.findings.add(f"writer {writer}: its signed head is missing or not signed with our key")
        if self.done != self.total and not self.findings.count:
            self.findings.add(f"{self.total} records are counted, but {self.done} can be found by their writer")
        if self.progress:
            self.progress(self.total, self.total)

    def _stated_heads(self) -> dict[str, tuple[int, str]]:
        """The newest head of each writer that any other writer's chain bears witness of."""
        stated: dict[str, tuple[int, str]] = {}
        for (body,) in self.connection.execute(select(audit.c.body).where(audit.c.kind == "config")):
            try:
                heads: dict[str, list[Any]] = json.loads(body).get("heads") or {}
                for writer, (seq, mac) in heads.items():
                    if int(seq) > stated.get(writer, (0, ""))[0]:
                        stated[writer] = (int(seq), str(mac))
            except (ValueError, TypeError, AttributeError):
                continue  # not one of ours, or damaged: the chain tells
        return stated

    def _rows(self, writer: str) -> Iterator[Any]:
        # Without types: a value of the wrong kind must come as it is stored.
        columns = [literal_column(name) for name in (*COLUMNS, "mac")]
        query = select(*columns).select_from(audit).where(audit.c.writer == writer).order_by(audit.c.seq)
        yield from self.connection.execution_options(yield_per=_STEP).execute(query)

    def _chain(self, writer: str, anchor: tuple[int, str] | None, stated: tuple[int, str] | None) -> None:
        """One writer: from its start or anchor over every row to its head."""
        add = self.findings.add
        head = self.heads.get(writer)
        expected = dict[int, str]()
        if head is not None and head.seq:
            expected[head.seq] = head.mac.hex()
        if stated is not None:
            expected.setdefault(*stated)
            if expected[stated[0]] != stated[1]:
                add(f"writer {writer}: its head differs from what another writer saw", writer=writer, seq=stated[0])
        seq, mac = 0, start(self.keys.chain, writer)
        if anchor is not None:
            try:
                seq, mac = anchor[0], bytes.fromhex(anchor[1])
            except ValueError:
                add(f"writer {writer}: the anchor of its deleted records is damaged")
        foreign_home, broken = self._walk(writer, seq, mac, expected)
        if broken:
            return
        self._ends(writer, head, foreign_home)

    def _walk(self, writer: str, seq: int, mac: bytes, expected: dict[int, str]) -> tuple[str | None, bool]:
        add = self.findings.add
        chain_key = self.keys.chain
        home: str | None = None
        try:
            for row in self._rows(writer):
                self.done += 1
                if self.progress and self.done % _STEP == 0:
                    self.progress(self.done, self.total)
                found = row[1]
                if not isinstance(found, int):
                    add(f"writer {writer}: a record has a damaged number", writer=writer, seq=seq + 1)
                    return home, True
                if found != seq + 1:
                    add(_gap(writer, seq + 1, found), writer=writer, seq=seq + 1 if found > seq else found)
                    return home, True
                mac = seal(chain_key, mac, list(row[:-1]))
                if mac != row[-1]:
                    add(f"writer {writer}: record {found} is not as it was written", writer=writer, seq=found)
                    return home, True
                seq = found
                if row[2] == "config" and seq and home is None:
                    home = _home_of(row[16])
                if seq in expected and expected.pop(seq) != mac.hex():
                    add(f"writer {writer}: record {seq} is not what its signed head says", writer=writer, seq=seq)
        except (DBAPIError, UnicodeError) as error:
            what = f"record {seq + 1} cannot be read ({type(error).__name__})"
            add(f"writer {writer}: {what}", writer=writer, seq=seq + 1)
            return home, True
        for missing in sorted(expected):
            if missing > seq:
                add(
                    f"writer {writer}: records {seq + 1} to {missing} are missing at the end:"
                    " removed, or lost in a power failure",
                    writer=writer,
                    seq=seq + 1,
                )
                break
        return home, False

    def _ends(self, writer: str, head: Head | None, home: str | None) -> None:
        """An intact chain must also have its head here, unless it is another machine's."""
        if head is None and (head := self.home.head(self.keys, writer)) is not None:
            # Its process began after we had read the heads.
            self.manifest = self.home.manifest(self.keys) or self.manifest
        if head is not None and head.seq:
            if writer not in self.manifest.writers:
                self.findings.add(f"writer {writer}: it is not in the list of writers")
            return
        if head is None and home and self.manifest.home and home != self.manifest.home:
            self.findings.notes.append(f"writer {writer} belongs to another home: the end of its chain is signed there")
            return
        if head is None:
            self.findings.add(f"writer {writer}: its signed head is missing or not signed with our key")


def _gap(writer: str, wanted: int, found: int) -> str:
    if found < wanted:
        return f"writer {writer}: record {found} should not be there"
    if found == wanted + 1:
        return f"writer {writer}: record {wanted} is missing"
    return f"writer {writer}: records {wanted} to {found - 1} are missing"


def _home_of(body: str) -> str | None:
    try:
        return json.loads(body).get("home")
    except (ValueError, AttributeError):
        return None
