"""Parent of one server process, run on its own: `python -I -S guard.py LIFELINE REPORT -- COMMAND ARGS…`.

It hands its stdin, stdout and stderr to the server and touches none of them, so it costs no
time per message. It ends everything the server started when the server ends, when Geode
asks, and when Geode is gone, even by SIGKILL (the lifeline pipe closes then). As a
"subreaper" it also keeps descendants that leave the process group (case R03).

LIFELINE: we read. "t" = terminate the tree, "k" = kill it, end of file = Geode is gone.
REPORT: we write one JSON object a line: {"pid"}, then {"exit"} or {"signal"} or {"error"}.

Only the standard library, no import of Geode: it starts in about 20 ms.
"""

import contextlib
import ctypes
import json
import os
import select
import signal
import sys
import time

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_AFTER_EXIT = 0.2  # seconds that descendants of an ended server have to end by themselves
_AFTER_LOSS = 1.0  # seconds for the server to notice that its stdin is closed
_AFTER_TERM = 1.5  # seconds between SIGTERM and SIGKILL


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def _spawn(argv: list[str]) -> tuple[int, str]:
    """Fork and exec; returns (pid, text of the failure or "")."""
    failed_r, failed_w = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setsid()
            _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE, signal.SIGCHLD):
                signal.signal(number, signal.SIG_DFL)
            signal.set_wakeup_fd(-1)
            os.execvp(argv[0], argv)  # noqa: S606 - there is no shell to start it with
        except BaseException as error:
            os.write(failed_w, str(error).encode("utf-8", "replace")[:500])
        finally:
            os._exit(127)
    os.close(failed_w)
    why = os.read(failed_r, 500).decode("utf-8", "replace")
    os.close(failed_r)
    return pid, why


def _descendants(root: int) -> list[int]:
    """Pids below `root`, deepest last; empty where /proc is missing."""
    children: dict[int, list[int]] = {}
    try:
        names = os.listdir("/proc")
    except OSError:
        return []
    for name in names:
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
            children.setdefault(int(fields[1]), []).append(int(name))
        except (OSError, IndexError, ValueError):
            continue
    found: list[int] = []
    queue = [root]
    while queue:
        below = children.get(queue.pop(), [])
        found += below
        queue += below
    return found


class Guard:
    """Watches one server until nothing of it is left."""

    def __init__(self, lifeline: int, report: int, argv: list[str]) -> None:
        self.lifeline, self.report, self.argv = lifeline, report, argv
        self.child = 0
        self.ended = False
        self.alone = False

    def say(self, **fact: object) -> None:
        try:
            os.write(self.report, (json.dumps(fact) + "\n").encode())
        except OSError:
            self.alone = True

    def signal_tree(self, number: int) -> None:
        for pid in _descendants(os.getpid()):
            with contextlib.suppress(OSError):
                os.kill(pid, number)
        with contextlib.suppress(OSError):
            os.killpg(self.child, number)

    def reap(self) -> bool:
        """Collect ended children; True while any is left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self.child and not self.ended:
                self.ended = True
                code = os.waitstatus_to_exitcode(status)
                self.say(**({"exit": code} if code >= 0 else {"signal": -code}))

    def wait(self, wake: int, seconds: float | None) -> str:
        """Sleep until a child ends, Geode speaks, or the time is over; returns what Geode said."""
        watched = [wake] if self.alone else [wake, self.lifeline]
        ready, _, _ = select.select(watched, [], [], seconds)
        if wake in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(wake, 512)
        if self.lifeline in ready:
            said = os.read(self.lifeline, 64)
            if not said:
                self.alone = True
                return "gone"
            return "kill" if b"k" in said else "term"
        return ""

    def run(self) -> int:
        _prctl(_PR_SET_CHILD_SUBREAPER, 1)
        wake, wake_w = os.pipe()
        os.set_blocking(wake, False)
        os.set_blocking(wake_w, False)
        signal.set_wakeup_fd(wake_w, warn_on_full_buffer=False)
        stop: list[int] = []
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        signal.signal(signal.SIGTERM, lambda number, _frame: stop.append(number))
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        self.child, why = _spawn(self.argv)
        null = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(null, number)  # the pipes belong to the server alone: their ends must be seen
        if why:
            self.say(error=why)
            return 127
        self.say(pid=self.child)
        term_at: float | None = None
        kill_at: float | None = None
        while self.reap():
            now = time.monotonic()
            if self.ended and kill_at is None:
                kill_at = now + _AFTER_EXIT
            if stop and term_at is None:
                term_at = now
            if kill_at is not None and now >= kill_at:
                self.signal_tree(signal.SIGKILL)
                kill_at = now + 0.5
            elif term_at is not None and now >= term_at and kill_at is None:
                self.signal_tree(signal.SIGTERM)
                kill_at = now + _AFTER_TERM
            due = [t for t in (term_at if kill_at is None else None, kill_at) if t is not None]
            said = self.wait(wake, max(0.0, min(due) - now) if due else None)
            now = time.monotonic()
            if said == "gone" and term_at is None:
                term_at = now + _AFTER_LOSS
            elif said == "term":
                term_at = now
            elif said == "kill":
                kill_at = now
        return 0


if __name__ == "__main__":
    _lifeline, _report = int(sys.argv[1]), int(sys.argv[2])
    os.set_inheritable(_lifeline, False)
    os.set_inheritable(_report, False)
    sys.exit(Guard(_lifeline, _report, sys.argv[4:]).run())
