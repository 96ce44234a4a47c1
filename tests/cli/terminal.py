"""A terminal of our own: a program on a pseudo-terminal, what it writes, and keys for it."""

from __future__ import annotations

import os
import re
import select
import struct
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[()][A-Z0-9]|[=>78])")


class Terminal:
    """Runs one program; use as a context manager.

    Args:
        words: the command line.
        cwd: its directory.
        env: its environment.
        size: rows and columns.
    """

    def __init__(
        self, words: Sequence[str], *, cwd: Path, env: Mapping[str, str], size: tuple[int, int] = (50, 110)
    ) -> None:
        import fcntl
        import termios

        kept = {k: v for k, v in env.items() if k not in {"COLUMNS", "LINES"}}  # they would hide the size
        self._master, slave = os.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
        self.process = subprocess.Popen(
            words,
            cwd=cwd,
            env={**kept, "TERM": "xterm-256color", "PROMPT_TOOLKIT_NO_CPR": "1", "LANG": "C.UTF-8"},
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(slave)
        self.raw = b""
        self._mark = 0
        self._over = False
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_error: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._over = True
        self._thread.join()
        os.close(self._master)

    def _read(self) -> None:
        while not self._over:
            if not select.select([self._master], [], [], 0.05)[0]:
                continue
            try:
                data = os.read(self._master, 65536)
            except OSError:  # the program has closed its side
                return
            if not data:
                return
            self.raw += data

    @property
    def text(self) -> str:
        """Everything written so far, without escape sequences; repainted lines stand there several times."""
        return _ESCAPE.sub("", self.raw.decode("utf-8", "replace")).replace("\r", "")

    @property
    def news(self) -> str:
        """What was written since the last `type`."""
        return self.text[self._mark :]

    def type(self, keys: str) -> None:
        """Press keys; "\\r" is Enter, "\\x03" Ctrl-C, "\\x04" Ctrl-D."""
        self._mark = len(self.text)
        os.write(self._master, keys.encode())

    def see(self, wanted: str, seconds: float = 50.0) -> str:
        """Wait until `wanted` is written after the last keys; returns the news."""
        end = time.monotonic() + seconds
        while wanted not in self.news:
            assert time.monotonic() < end, f"{wanted!r} was not written; this was:\n{self.news[-2000:]}"
            assert self.process.poll() is None or wanted in self.news, (
                f"it ended; this was written:\n{self.news[-2000:]}"
            )
            time.sleep(0.02)
        return self.news

    def ended(self, seconds: float = 50.0) -> int:
        """Wait for the end; the exit code."""
        return self.process.wait(seconds)
