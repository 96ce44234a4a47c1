"""Audit record, results, approvals, idempotency keys."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "audit",
        sa.Column("writer", sa.Text, primary_key=True),
        sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("call_id", sa.Text, nullable=False),
        sa.Column("tool", sa.Text, nullable=False),
        sa.Column("principal", sa.Text, nullable=False),
        sa.Column("origin", sa.Text, nullable=False),
        sa.Column("session", sa.Text, nullable=False),
        sa.Column("parent", sa.Text),
        sa.Column("mode", sa.Text, nullable=False),
        sa.Column("node", sa.Text),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("side_effects", sa.Text, nullable=False),
        sa.Column("duration_us", sa.BigInteger, nullable=False),
        sa.Column("cost_micros", sa.BigInteger, nullable=False),
        sa.Column("at_us", sa.BigInteger, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("mac", sa.LargeBinary, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_index("audit_call", "audit", ["call_id"])
    op.create_index("audit_at", "audit", ["at_us"])
    op.create_index("audit_session", "audit", ["session", "at_us"])
    op.create_table(
        "results",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("session", sa.Text, nullable=False),
        sa.Column("principal", sa.Text, nullable=False),
        sa.Column("call_id", sa.Text, nullable=False),
        sa.Column("tool", sa.Text, nullable=False),
        sa.Column("at_us", sa.BigInteger, nullable=False),
        sa.Column("total_lines", sa.BigInteger, nullable=False),
        sa.Column("total_chars", sa.BigInteger, nullable=False),
        sa.Column("total_bytes", sa.BigInteger, nullable=False),
    )
    op.create_index("results_at", "results", ["at_us"])
    op.create_table(
        "result_chunks",
        sa.Column("result_id", sa.Text, primary_key=True),
        sa.Column("n", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("at_us", sa.BigInteger, nullable=False),
        sa.Column("first_line", sa.BigInteger, nullable=False),
        sa.Column("last_line", sa.BigInteger, nullable=False),
        sa.Column("text", sa.LargeBinary, nullable=False),
    )
    op.create_index("result_chunks_at", "result_chunks", ["at_us"])
    op.create_table(
        "approvals",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("principal", sa.Text, nullable=False),
        sa.Column("session", sa.Text, nullable=False),
        sa.Column("call_id", sa.Text, nullable=False),
        sa.Column("tool", sa.Text, nullable=False),
        sa.Column("origin", sa.Text, nullable=False),
        sa.Column("mode", sa.Text, nullable=False),
        sa.Column("view", sa.Text, nullable=False),
        sa.Column("verdict", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("created_us", sa.BigInteger, nullable=False),
        sa.Column("expires_us", sa.BigInteger, nullable=False),
        sa.Column("answered_us", sa.BigInteger),
        sa.Column("answered_by", sa.Text),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("used_us", sa.BigInteger),
    )
    op.create_index("approvals_digest", "approvals", ["digest", "principal"])
    op.create_index("approvals_created", "approvals", ["created_us"])
    op.create_table(
        "idempotency",
        sa.Column("principal", sa.Text, primary_key=True),
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("result", sa.Text),
        sa.Column("begun_us", sa.BigInteger, nullable=False),
        sa.Column("finished_us", sa.BigInteger),
    )
    op.create_index("idempotency_begun", "idempotency", ["begun_us"])
