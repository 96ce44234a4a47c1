"""All tables in one place, and the revisions of the schema in their order.

Times are integers: microseconds since 1970 in UTC. JSON is text. Every column has a plain
type, so that statements compiled once can be sent to the driver without type conversion.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Index, Integer, LargeBinary, MetaData, Table, Text

__all__ = [
    "HEAD",
    "REVISIONS",
    "approvals",
    "audit",
    "idempotency",
    "metadata",
    "result_chunks",
    "results",
    "revision_table",
    "transcript_messages",
]

REVISIONS = ("0001", "0002", "0003")
"""Every revision this version knows, oldest first; a stored one that is not listed is newer."""

HEAD = REVISIONS[-1]

metadata = MetaData()

revision_table = Table("alembic_version", MetaData(), Column("version_num", Text, primary_key=True))
"""Alembic's own table; not part of `metadata`, Alembic makes it."""

audit = Table(
    "audit",
    metadata,
    Column("writer", Text, primary_key=True),
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("kind", Text, nullable=False),
    Column("call_id", Text, nullable=False),
    Column("tool", Text, nullable=False),
    Column("principal", Text, nullable=False),
    Column("origin", Text, nullable=False),
    Column("session", Text, nullable=False),
    Column("parent", Text),
    Column("mode", Text, nullable=False),
    Column("node", Text),
    Column("status", Text, nullable=False),
    Column("side_effects", Text, nullable=False),
    Column("duration_us", BigInteger, nullable=False),
    Column("cost_micros", BigInteger, nullable=False),
    Column("at_us", BigInteger, nullable=False),
    Column("body", Text, nullable=False),
    Column("mac", LargeBinary, nullable=False),
    Index("audit_call", "call_id"),
    Index("audit_at", "at_us"),
    Index("audit_session", "session", "at_us"),
    sqlite_with_rowid=False,
)
"""One row a record; `mac` covers every other column and the `mac` of the row before it."""

results = Table(
    "results",
    metadata,
    Column("id", Text, primary_key=True),
    Column("session", Text, nullable=False),
    Column("principal", Text, nullable=False),
    Column("call_id", Text, nullable=False),
    Column("tool", Text, nullable=False),
    Column("at_us", BigInteger, nullable=False),
    Column("total_lines", BigInteger, nullable=False),
    Column("total_chars", BigInteger, nullable=False),
    Column("total_bytes", BigInteger, nullable=False),
    Index("results_at", "at_us"),
)
"""Written last: a result without this row does not exist, whatever chunks there are."""

result_chunks = Table(
    "result_chunks",
    metadata,
    Column("result_id", Text, primary_key=True),
    Column("n", Integer, primary_key=True, autoincrement=False),
    Column("at_us", BigInteger, nullable=False),
    Column("first_line", BigInteger, nullable=False),
    Column("last_line", BigInteger, nullable=False),
    Column("text", LargeBinary, nullable=False),
    Index("result_chunks_at", "at_us"),
)
"""UTF-8 text of a result in order; a line may run over several chunks."""

approvals = Table(
    "approvals",
    metadata,
    Column("id", Text, primary_key=True),
    Column("digest", Text, nullable=False),
    Column("principal", Text, nullable=False),
    Column("session", Text, nullable=False),
    Column("call_id", Text, nullable=False),
    Column("tool", Text, nullable=False),
    Column("origin", Text, nullable=False),
    Column("mode", Text, nullable=False),
    Column("view", Text, nullable=False),
    Column("verdict", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("created_us", BigInteger, nullable=False),
    Column("expires_us", BigInteger, nullable=False),
    Column("answered_us", BigInteger),
    Column("answered_by", Text),
    Column("reason", Text, nullable=False),
    Column("used_us", BigInteger),
    Column("project", Text),
    Index("approvals_digest", "digest", "principal"),
    Index("approvals_created", "created_us"),
)
"""Arguments are not kept, only their digest and the redacted view a person saw."""

idempotency = Table(
    "idempotency",
    metadata,
    Column("principal", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("digest", Text, nullable=False),
    Column("result", Text),
    Column("begun_us", BigInteger, nullable=False),
    Column("finished_us", BigInteger),
    Index("idempotency_begun", "begun_us"),
)

transcript_messages = Table(
    "transcript_messages",
    metadata,
    Column("session", Text, primary_key=True),
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("at_us", BigInteger, nullable=False),
    Column("message", Text, nullable=False),
)
