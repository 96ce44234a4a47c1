"""`Idempotency`: the same key gives the first result; a call in doubt is never repeated by itself."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import Connection, delete, select, update

from ..core.errors import NotStored
from ..core.messages import clean_json
from .database import Database
from .engine import insert_if_new
from .schema import idempotency
from .texts import storable
from .times import from_us, now_us, to_us

__all__ = ["Begun", "Idempotency"]


@dataclass(frozen=True, slots=True)
class Begun:
    """What a key stands for.

    Attributes:
        state: "new": the caller runs the call and must `finish` or `forget` the key;
            "done": it ran before, `result` is what it gave;
            "unknown": it was begun before and has no result (it runs now elsewhere, or its process ended
            in the middle): it must not be run again;
            "mismatch": the key was used for a different call.
        result: the first result when "done".
        begun_at: when the key was first used.
    """

    state: Literal["new", "done", "unknown", "mismatch"]
    result: dict[str, Any] | None = None
    begun_at: datetime | None = None


class Idempotency:
    """Keeps idempotency keys for all processes of one database; keys are per principal."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def begin(self, key: str, principal: str, digest: str) -> Begun:
        """Claim a key for a call, or learn what became of the call that had it first.

        Args:
            key: chosen by the caller.
            principal: whose key.
            digest: of exactly this call.

        Raises:
            StoreError: the key was not claimed; the call must not run.
        """
        key, principal = _kept(key), storable(principal)

        def work(connection: Connection) -> Begun:
            now = now_us()
            row = {"principal": principal, "key": key, "digest": digest, "begun_us": now}
            claimed = insert_if_new(connection, idempotency, row)
            if claimed:
                return Begun("new", None, from_us(now))
            row = connection.execute(
                select(idempotency).where(idempotency.c.principal == principal, idempotency.c.key == key)
            ).one()
            begun_at = from_us(row.begun_us)
            if row.digest != digest:
                return Begun("mismatch", None, begun_at)
            if row.result is None:
                return Begun("unknown", None, begun_at)
            return Begun("done", json.loads(row.result), begun_at)

        return await self._db.write(work)

    async def finish(self, key: str, principal: str, result: dict[str, Any]) -> None:
        """Store the result of a claimed key. The first one stays.

        Raises:
            NotStored: the key was never begun.
        """
        key, principal = _kept(key), storable(principal)
        text = json.dumps(clean_json(result), ensure_ascii=False, default=str)

        def work(connection: Connection) -> None:
            mine = (idempotency.c.principal == principal, idempotency.c.key == key)
            stored = connection.execute(
                update(idempotency)
                .where(*mine, idempotency.c.result.is_(None))
                .values(result=text, finished_us=now_us())
            ).rowcount
            if not stored and connection.execute(select(idempotency.c.key).where(*mine)).first() is None:
                raise NotStored("this idempotency key was never begun")

        await self._db.write(work)

    async def forget(self, key: str, principal: str) -> bool:
        """Give a key back because its call did not run at all (refused before it started)."""
        key, principal = _kept(key), storable(principal)
        return await self._db.write(
            lambda c: bool(
                c.execute(
                    delete(idempotency).where(
                        idempotency.c.principal == principal,
                        idempotency.c.key == key,
                        idempotency.c.result.is_(None),
                    )
                ).rowcount
            )
        )

    async def purge(self, before: datetime) -> int:
        """Forget keys begun before, those in doubt too; returns how many."""
        limit = to_us(before)
        return await self._db.write(
            lambda c: c.execute(delete(idempotency).where(idempotency.c.begun_us < limit)).rowcount
        )


def _kept(key: str) -> str:
    """What is stored of a key: callers put anything into it, secrets and whole texts too."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
