"""Output of a process: bounded memory, everything on disk, readable text.

The raw bytes are counted and, once they are many, kept in a spool file of mode 0600. The
text is what a person would have seen on a dumb terminal: escapes gone, a line that was
redrawn with carriage returns shown as it ended, invalid bytes as U+FFFD.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
from pathlib import Path

from ..config.home import private_folder
from ..core.ports import Captured

__all__ = ["Collector", "readable", "sweep_spool"]

KEEP = 256 * 1024
"""Output up to this many bytes is returned whole."""
HEAD = TAIL = 64 * 1024

_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]?"  # CSI: colours, cursor
    r"|\x9b[0-?]*[ -/]*[@-~]?"
    r"|\x1b[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)?"  # OSC (titles, links), DCS, SOS, PM, APC
    r"|\x1b[ -/]*[0-~]?"  # two-character escapes
)
_CONTROLS = re.compile(r"[\x00-\x07\x0b\x0c\x0e-\x1f\x7f\x80-\x9f]")


def _looks_binary(text: str) -> bool:
    sample = text[:65536]
    odd = len(_CONTROLS.findall(sample)) + sample.count("\ufffd")
    return odd > 8 and odd * 10 > len(sample) * 3


def _redrawn(line: str) -> str:
    """What a line shows after its carriage returns: the last part that has any content."""
    parts = line.split("\r")
    return next((part for part in reversed(parts) if part.strip()), parts[-1])


def _backspaced(text: str) -> str:
    shown: list[str] = []
    for character in text:
        if character != "\x08":
            shown.append(character)
        elif shown and shown[-1] != "\n":
            shown.pop()
    return "".join(shown)


def readable(raw: bytes) -> str:
    """Bytes of a terminal program as plain text.

    Never fails; linear in the size. Mostly binary bytes become `<n bytes binary>`.
    """
    text = _ESCAPES.sub("", raw.decode("utf-8", "replace"))
    if _looks_binary(text):
        return f"<{len(raw)} bytes binary>"
    if "\r" in text:
        text = "\n".join(_redrawn(line) for line in text.replace("\r\n", "\n").split("\n"))
    if "\x08" in text:
        text = _backspaced(text)
    return _CONTROLS.sub("", text)


def _cut_end(raw: bytes) -> bytes:
    """Drop a character that was cut at the end; prefer the end of a line when one is near."""
    newline = raw.rfind(b"\n", len(raw) - 4096)
    if newline >= 0:
        return raw[: newline + 1]
    for back in range(1, min(4, len(raw)) + 1):
        byte = raw[-back]
        if byte & 0xC0 == 0x80:
            continue
        needed = 1 if byte < 0x80 else 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
        return raw if needed <= back else raw[:-back]
    return raw


def _cut_start(raw: bytes) -> bytes:
    newline = raw.find(b"\n", 0, 4096)
    if newline >= 0:
        return raw[newline + 1 :]
    start = 0
    while start < min(4, len(raw)) and raw[start] & 0xC0 == 0x80:
        start += 1
    return raw[start:]


class Collector:
    """Takes the bytes of one stream.

    Args:
        spool_dir: private directory for output that is too large for memory.
    """

    def __init__(self, spool_dir: Path) -> None:
        self._dir = spool_dir
        self._kept = bytearray()
        self._tail = bytearray()
        self._file = -1
        self._path: Path | None = None
        self.total = 0
        self.lines = 0
        self.problem = ""

    def feed(self, data: bytes) -> None:
        """Take more bytes. A spool that cannot be written is given up and named in `problem`."""
        self.total += len(data)
        self.lines += data.count(b"\n")
        if self._path is None and not self.problem:
            self._kept += data
            if len(self._kept) > KEEP:
                self._spill()
            return
        self._spool(data)
        self._remember(data)

    def _remember(self, data: bytes) -> None:
        self._tail += data
        if len(self._tail) > 4 * TAIL:
            del self._tail[:-TAIL]

    def _spill(self) -> None:
        path = self._dir / f"{os.getpid()}-{secrets.token_hex(8)}.out"
        try:
            private_folder(self._dir)
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o600)
            self._path = path
        except OSError as error:
            self.problem = f"the full output could not be kept: {error.strerror}"
        everything = bytes(self._kept)
        self._spool(everything)
        del self._kept[HEAD:]
        self._remember(everything[HEAD:])

    def _spool(self, data: bytes) -> None:
        view = memoryview(data)
        try:
            while view and self._file >= 0:
                view = view[os.write(self._file, view) :]
        except OSError as error:
            self.problem = f"the full output could not be kept: {error.strerror}"
            self.discard()

    def discard(self) -> None:
        """Remove the spool file, if any."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
        if self._path is not None:
            with contextlib.suppress(OSError):
                self._path.unlink()
            self._path = None

    def finish(self) -> Captured:
        """What was captured; the spool file now belongs to the caller."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
        if self._path is None and not self.problem:
            return Captured(text=readable(bytes(self._kept)), total_bytes=self.total, total_lines=self.lines)
        head = _cut_end(bytes(self._kept))
        tail = _cut_start(bytes(self._tail[-TAIL:]))
        omitted = self.total - len(head) - len(tail)
        lines = self.lines - head.count(b"\n") - tail.count(b"\n")
        note = f"[... {omitted} bytes ({lines} line ends) left out ...]"
        if self.problem:
            note += f"\n[{self.problem}]"
        first, last = readable(head), readable(tail)
        return Captured(
            text=f"{first}{'' if first.endswith(chr(10)) else chr(10)}{note}\n{last}",
            total_bytes=self.total, total_lines=self.lines, omitted_bytes=omitted, spool=self._path,
        )  # fmt: skip


def sweep_spool(folder: Path) -> int:
    """Remove spool files of processes that are gone; how many."""
    removed = 0
    for path in folder.glob("*.out") if folder.is_dir() else ():
        owner = path.name.split("-", 1)[0]
        if not owner.isdigit() or Path(f"/proc/{owner}").exists() or not Path("/proc/self").exists():
            continue
        with contextlib.suppress(OSError):
            path.unlink()
            removed += 1
    return removed
