"""The arithmetic of the audit record: how a row is sealed, and how a head is signed.

Each writer (one process at a time) has a chain of its own:

    mac(0) = HMAC(chain key, "geode audit 1" + writer)
    mac(n) = HMAC(chain key, mac(n-1) + JSON of all columns of row n)

A changed, removed, inserted or moved row breaks the chain from there on; without the key nobody
can make it whole again. The newest `mac` of each chain is signed in a file outside the database.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Sequence
from typing import Any

__all__ = ["COLUMNS", "Keys", "seal", "start"]

COLUMNS = (
    "writer",
    "seq",
    "kind",
    "call_id",
    "tool",
    "principal",
    "origin",
    "session",
    "parent",
    "mode",
    "node",
    "status",
    "side_effects",
    "duration_us",
    "cost_micros",
    "at_us",
    "body",
)
"""What `mac` covers, in this order; changing it needs a new version in `start`."""


def _foreign(value: Any) -> str:
    """A value no writer of ours stores (bytes in a text column): make it differ, do not fail."""
    return f"\x00{type(value).__name__}:{value!r}"


_encode = json.JSONEncoder(ensure_ascii=True, separators=(",", ":"), default=_foreign).encode


class Keys:
    """The keys for different uses, derived from the one secret in the key file."""

    __slots__ = ("chain", "head", "manifest")

    def __init__(self, secret: bytes) -> None:
        self.chain = hmac.digest(secret, b"geode audit chain", "sha256")
        self.head = hmac.digest(secret, b"geode audit head", "sha256")
        self.manifest = hmac.digest(secret, b"geode audit manifest", "sha256")


def start(chain_key: bytes, writer: str) -> bytes:
    """What stands before the first row of a writer."""
    return hmac.digest(chain_key, b"geode audit 1 " + writer.encode("utf-8", "replace"), "sha256")


def seal(chain_key: bytes, previous: bytes, values: Sequence[Any]) -> bytes:
    """The mac of a row.

    Args:
        chain_key: `Keys.chain`.
        previous: mac of the row before, or `start`.
        values: the row in the order of `COLUMNS`.
    """
    return hmac.digest(chain_key, previous + _encode(values).encode("ascii"), "sha256")
