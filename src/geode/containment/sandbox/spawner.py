"""One thread that starts processes.

`PR_SET_PDEATHSIG`, which ends the sandbox when Geode dies, is bound to the *thread* that
started the process: when that thread ends, the process is killed. Event loops may run in
short-lived threads, so a thread that lives as long as Geode does the starting. It also
keeps fork and exec out of the event loop.
"""

from __future__ import annotations

import os
import queue
import subprocess
import threading
from collections.abc import Sequence
from concurrent.futures import Future

__all__ = ["spawn"]

_Order = tuple["Future[subprocess.Popen[bytes]]", Sequence[str], tuple[int, int, int], tuple[int, ...]]

_orders: queue.SimpleQueue[_Order] = queue.SimpleQueue()
_lock = threading.Lock()
_owner = 0  # process id the thread belongs to: after a fork there is no thread


def _serve() -> None:
    while True:
        future, argv, streams, keep = _orders.get()
        if not future.set_running_or_notify_cancel():
            continue
        try:
            process = subprocess.Popen(
                argv, stdin=streams[0], stdout=streams[1], stderr=streams[2], pass_fds=keep, close_fds=True,
                start_new_session=True, cwd="/", env={"PATH": os.defpath, "LANG": "C.UTF-8"},
            )  # fmt: skip
        except BaseException as error:
            future.set_exception(error)
        else:
            future.set_result(process)
        del future


def spawn(argv: Sequence[str], streams: tuple[int, int, int], keep: tuple[int, ...]) -> Future[subprocess.Popen[bytes]]:
    """Start a process from the spawning thread.

    Args:
        argv: program (absolute path) and arguments.
        streams: descriptors for 0, 1, 2.
        keep: further descriptors it inherits, with the same numbers.

    Returns:
        A future of the process; OSError when it cannot be started.
    """
    global _owner
    with _lock:
        if _owner != os.getpid():
            _owner = os.getpid()
            threading.Thread(target=_serve, name="geode-spawner", daemon=True).start()
    future: Future[subprocess.Popen[bytes]] = Future()
    _orders.put((future, tuple(argv), streams, keep))
    return future
