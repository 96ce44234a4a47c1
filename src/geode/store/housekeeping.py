"""Deletes what is older than the settings keep, at most once a day.

Audit records are kept for ever unless `audit_days` is set; their deletion is itself an
audit record (see `AuditLog.prune`).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from .approvals import Approvals
from .audit import AuditLog
from .idempotency import Idempotency
from .results import Results

__all__ = ["Housekeeping"]

_EVERY = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Housekeeping:
    """What is cleaned up, and for how long it is kept.

    Attributes:
        marker: file whose modification time says when it was last done.
        results_days: days that full results, settled approvals and idempotency keys are kept.
        audit_days: days that audit records are kept, or None for ever.
    """

    marker: Path
    audit: AuditLog
    results: Results
    approvals: Approvals
    idempotency: Idempotency
    results_days: int
    audit_days: int | None

    def due(self) -> bool:
        """True when the last time was more than a day ago."""
        try:
            last = datetime.fromtimestamp(self.marker.stat().st_mtime, UTC)
        except OSError:
            return True
        return datetime.now(UTC) - last >= _EVERY

    async def run(self) -> None:
        """Delete what is too old.

        Raises:
            StoreError: the database cannot be written; what was deleted so far stays deleted.
        """
        self.marker.touch(mode=0o600)
        now = datetime.now(UTC)
        old = now - timedelta(days=self.results_days)
        await self.results.purge(old)
        await self.approvals.purge(old)
        await self.idempotency.purge(old)
        if self.audit_days is not None:
            await self.audit.prune(now - timedelta(days=self.audit_days))
