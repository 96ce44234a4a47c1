"""What lies outside the database: the key, the list of writers and one signed head for each.

    HOME/audit/key                  the secret (0600)
    HOME/audit/<database>/writers   every writer this home ever had, and what was found wrong; signed
    HOME/audit/<database>/lock      held while the list changes
    HOME/audit/<database>/W.head    the newest row of writer W, signed; locked by the process that is W

A writer is a slot: a process takes a free one and leaves it to the next, so there are as many as
there were processes at the same time. A head lags behind the database by one transaction when
the process was killed between commit and head; it is never ahead.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
import secrets
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ..core.errors import StoreBusy, StoreError
from .audit_chain import Keys
from .engine import private_folder
from .failures import from_os
from .locks import file_lock, is_locked, try_lock

__all__ = ["AuditHome", "Head", "Manifest", "Slot"]

_LOCK_SECONDS = 30.0
_LINE = 256
"""Bytes of one of the two places in a head file; they are written in turn, so one is always whole."""


@dataclass(frozen=True, slots=True)
class Head:
    """The newest row of a writer as signed in its file; `seq` 0 means no row yet."""

    writer: str
    seq: int
    mac: bytes


@dataclass(slots=True)
class Manifest:
    """The signed list of writers.

    Attributes:
        home: random id of this home, so that rows of other homes are told apart.
        writers: all slots ever made here, oldest first.
        retired: slots that are not used again because something was found wrong with them.
        incidents: what was found wrong when; `verify` reports each of them for ever.
    """

    home: str
    writers: list[str] = field(default_factory=list[str])
    retired: list[str] = field(default_factory=list[str])
    incidents: list[str] = field(default_factory=list[str])

    def note(self, what: str) -> None:
        """Add an incident with the time."""
        self.incidents.append(f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S}Z: {what}")


class Slot:
    """A writer's place, held by this process until `release`."""

    def __init__(self, writer: str, fd: int, key: bytes) -> None:
        self.writer = writer
        self._fd = fd
        self._key = key
        self._turn = 0

    def write_head(self, seq: int, mac: bytes) -> None:
        """Sign the newest row. Not synced: the database is not synced either."""
        self._turn ^= 1
        line = _sign_head(self._key, Head(self.writer, seq, mac))
        if hasattr(os, "pwrite"):
            os.pwrite(self._fd, line, self._turn * _LINE)
        else:  # pragma: no cover - Windows
            os.lseek(self._fd, self._turn * _LINE, os.SEEK_SET)
            os.write(self._fd, line)

    def release(self) -> None:
        """Leave the place to the next process."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class AuditHome:
    """The folder of one home for one database.

    Args:
        home: Geode's home.
        database: `Database.identity`; each database has its own writers.
    """

    def __init__(self, home: Path, database: str) -> None:
        root = home / "audit"
        for place in (Path(os.path.abspath(home)), Path(os.path.realpath(home))):
            if Path(database).is_relative_to(place):
                # A home can be moved with what is in it; all else is known by its full name.
                database = Path(database).relative_to(place).as_posix()
                break
        slug = re.sub(r"[^A-Za-z0-9]+", "-", database).strip("-")[-40:]
        self.folder = root / f"{slug}-{hashlib.sha256(database.encode('utf-8', 'replace')).hexdigest()[:8]}"
        self.key_file = root / "key"
        self.manifest_file = self.folder / "writers"

    # ------------------------------------------------------------ reading (never changes anything)

    def keys(self) -> Keys | None:
        """The keys, or None when there is no usable key file."""
        try:
            secret = bytes.fromhex(self.key_file.read_text("ascii").strip())
        except FileNotFoundError:
            return None
        except ValueError:
            return None
        except OSError as error:
            raise from_os(error, f"the audit key {self.key_file}") from error
        return Keys(secret) if len(secret) == 32 else None

    def manifest(self, keys: Keys) -> Manifest | None:
        """The list of writers, or None when it is missing or not signed with our key."""
        try:
            document = json.loads(self.manifest_file.read_text("utf-8"))
            signed = str(document.pop("mac"))
            if not hmac.compare_digest(signed, _sign_manifest(keys, document)):
                return None
            return Manifest(**document)
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError, AttributeError):
            return None
        except OSError as error:
            raise from_os(error, f"the audit list {self.manifest_file}") from error

    def head_writers(self) -> list[str]:
        """Writers that have a head file, listed or not."""
        return sorted(p.stem for p in self.folder.glob("*.head"))

    def head(self, keys: Keys, writer: str) -> Head | None:
        """The signed head of a writer, or None when it is missing or not signed with our key."""
        try:
            content = self._head_file(writer).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise from_os(error, f"the audit head {self._head_file(writer)}") from error
        return _read_head(keys.head, writer, content)

    def is_alive(self, writer: str) -> bool:
        """Whether a process holds this writer's slot now."""
        return is_locked(self._head_file(writer))

    # ------------------------------------------------------------ changing

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Be the only process that changes the list of writers."""
        try:
            private_folder(self.folder)
            with file_lock(self.folder / "lock", seconds=_LOCK_SECONDS) as held:
                if not held:
                    raise StoreBusy(
                        f"another process has held {self.folder / 'lock'} for {_LOCK_SECONDS:.0f} s",
                        fix="end that process, then try again",
                    )
                yield
        except OSError as error:
            raise from_os(error, f"the audit folder {self.folder}") from error

    def ensure(self, *, has_rows: Callable[[], bool]) -> tuple[Keys, Manifest]:
        """The key and the list of writers, made when missing; call it inside `alone`.

        A loss is never repaired in silence: it is written into the new list as an incident.

        Args:
            has_rows: whether the database holds audit records that this home must have written.
        """
        with file_lock(self.key_file.with_name("key.lock"), seconds=_LOCK_SECONDS) as held:
            if not held:
                raise StoreBusy("another process is making the audit key and does not finish", fix="try again")
            keys = self.keys()
            made = keys is None
            if keys is None:
                if self.key_file.exists():
                    self.key_file.replace(self.key_file.with_name(f"key.unusable-{secrets.token_hex(4)}"))
                secret = secrets.token_bytes(32)
                _write_private(self.key_file, secret.hex().encode() + b"\n")
                keys = Keys(secret)
        manifest = self.manifest(keys)
        if manifest is None:
            manifest = Manifest(secrets.token_hex(8))
            rows = has_rows()
            if made and (rows or self.manifest_file.exists() or self.head_writers()):
                manifest.note("the key file was missing or unusable; a new key was made")
            elif self.manifest_file.exists():
                manifest.note("the list of writers was not signed with our key; a new list was made")
            elif rows or self.head_writers():
                manifest.note("the list of writers was missing; a new list was made")
            if self.manifest_file.exists():
                self.manifest_file.replace(self.manifest_file.with_name(f"writers.bad-{secrets.token_hex(4)}"))
            self.save(keys, manifest)
        return keys, manifest

    def save(self, keys: Keys, manifest: Manifest) -> None:
        """Write the signed list of writers in place of the old one; call it inside `alone`."""
        document: dict[str, Any] = {
            "home": manifest.home,
            "writers": manifest.writers,
            "retired": manifest.retired,
            "incidents": manifest.incidents,
        }
        document["mac"] = _sign_manifest(keys, document)
        _write_private(self.manifest_file, (json.dumps(document, indent=1) + "\n").encode())

    def try_slot(self, keys: Keys, writer: str) -> Slot | None:
        """Take a writer's slot, or None when a living process has it or its file is gone."""
        try:
            fd = os.open(self._head_file(writer), os.O_RDWR | getattr(os, "O_CLOEXEC", 0))
        except FileNotFoundError:
            return None
        if try_lock(fd):
            return Slot(writer, fd, keys.head)
        os.close(fd)
        return None

    def new_slot(self, keys: Keys, manifest: Manifest) -> Slot:
        """Make a fresh writer, held by us; call it inside `alone`."""
        writer = f"w{secrets.token_hex(6)}"
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0)
        fd = os.open(self._head_file(writer), flags, 0o600)
        if not try_lock(fd):
            os.close(fd)
            raise StoreError(f"the file system of {self.folder} does not support locks", fix="use a local disk")
        slot = Slot(writer, fd, keys.head)
        slot.write_head(0, b"")
        manifest.writers.append(writer)
        self.save(keys, manifest)
        return slot

    def _head_file(self, writer: str) -> Path:
        return self.folder / f"{writer}.head"


def _sign_manifest(keys: Keys, document: dict[str, Any]) -> str:
    return hmac.digest(keys.manifest, json.dumps(document, sort_keys=True).encode(), "sha256").hex()


def _sign_head(key: bytes, head: Head) -> bytes:
    text = f"{head.writer} {head.seq} {head.mac.hex() or '-'}"
    return f"{text} {hmac.digest(key, text.encode(), 'sha256').hex()}".ljust(_LINE - 1).encode() + b"\n"


def _read_head(key: bytes, writer: str, content: bytes) -> Head | None:
    """The newest of the two places whose signature holds."""
    best: Head | None = None
    for at in (0, _LINE):
        parts = content[at : at + _LINE].decode("ascii", "replace").split()
        if len(parts) != 4 or parts[0] != writer or not re.fullmatch(r"[0-9]{1,18}", parts[1]):
            continue
        signed = hmac.digest(key, " ".join(parts[:3]).encode(), "sha256").hex()
        if not hmac.compare_digest(signed, parts[3].encode("ascii", "replace").decode()):
            continue
        head = Head(writer, int(parts[1]), b"" if parts[2] == "-" else bytes.fromhex(parts[2]))
        if best is None or head.seq > best.seq:
            best = head
    return best


def _write_private(path: Path, data: bytes) -> None:
    """Put a file of mode 0600 in place as a whole, on disk before it gets its name."""
    fd, name = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
