"""The /etc of the sandbox: a few public files, copied once and shown by a single mount.

Each mount costs a third of a millisecond and more the more there are, so thirty small ones
are not affordable; showing all of /etc would tell more than a program needs. The copy lies
in Geode's home, named after the state of its sources, so a changed source makes a new one.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from ...config.home import private_folder

__all__ = ["IGNORED", "prepare_etc"]

IGNORED = "geode-ignored"
"""Name of git's exclude file inside; lists names that only placeholders hold."""

_SHOWN = (
    "alternatives", "ca-certificates", "ca-certificates.conf", "crypto-policies", "debian_version", "default/locale",
    "fonts", "gai.conf", "host.conf", "ImageMagick-6", "ImageMagick-7", "java", "java-11-openjdk", "java-17-openjdk",
    "java-21-openjdk", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "locale.alias", "locale.conf", "localtime",
    "lsb-release", "magic", "mime.types", "networks", "nsswitch.conf", "os-release", "papersize", "paperspecs", "perl",
    "pki/ca-trust", "pki/tls/certs", "pki/tls/openssl.cnf", "protocols", "python3", "rpc", "services", "shells",
    "ssl/certs", "ssl/cert.pem", "ssl/openssl.cnf", "terminfo", "timezone",
)  # fmt: skip


def _state() -> str:
    """A digest of what the copy is made from; the top level of each source is enough, installers replace files."""
    digest = hashlib.sha256(b"1\0")
    for name in _SHOWN:
        with contextlib.suppress(OSError):
            status = os.stat(f"/etc/{name}")
            digest.update(f"{name} {status.st_mtime_ns} {status.st_size} {status.st_ino}\0".encode())
    return digest.hexdigest()[:24]


def _copy(target: Path, extra: Mapping[str, bytes]) -> None:
    for name in _SHOWN:
        source, copy = Path("/etc", name), target / name
        if not os.path.lexists(source):
            continue
        copy.parent.mkdir(parents=True, exist_ok=True)
        # What cannot be read here is not for the sandbox either; copytree goes on and complains at the end.
        with contextlib.suppress(OSError, shutil.Error):
            if source.is_dir() and not source.is_symlink():
                shutil.copytree(source, copy, symlinks=True, copy_function=shutil.copyfile)
            else:
                shutil.copyfile(source, copy, follow_symlinks=False)
    for name, content in extra.items():
        (target / name).write_bytes(content)


def prepare_etc(home: Path, extra: Mapping[str, bytes]) -> Path:
    """The directory to show as /etc.

    Args:
        home: Geode's home; where it cannot be written, the copy is made in the system's temporary directory.
        extra: files by name that belong to every sandbox.

    Raises:
        OSError: there is no place for it.
    """
    wanted = hashlib.sha256(repr((_state(), sorted(extra.items()))).encode()).hexdigest()[:24]
    folder = home / "cache" / "sandbox"
    place = folder / f"etc-{wanted}"
    if place.is_dir():
        return place
    try:
        building = Path(tempfile.mkdtemp(prefix=".etc-", dir=private_folder(folder)))
    except OSError:
        place = building = Path(tempfile.mkdtemp(prefix="geode-etc-"))
    _copy(building, extra)
    building.chmod(0o755)
    if building != place:
        try:
            building.rename(place)
        except OSError:  # another process was faster
            shutil.rmtree(building, ignore_errors=True)
        for old in folder.glob("etc-*"):
            if old != place and old.stat().st_mtime < place.stat().st_mtime - 86_400:
                shutil.rmtree(old, ignore_errors=True)
    return place
