"""Transcripts of sessions."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "transcript_messages",
        sa.Column("session", sa.Text, primary_key=True),
        sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("at_us", sa.BigInteger, nullable=False),
        sa.Column("message", sa.Text, nullable=False),
    )
