"""From an exception to one clear line (or one JSON object) and the contract's exit code."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from ..core.errors import GeodeError, InvalidArguments, UnknownTool

__all__ = [
    "BROKEN_PIPE",
    "INTERRUPTED",
    "Terminated",
    "error_document",
    "exit_code_of",
    "finish",
    "guarded",
    "prepare_streams",
]

INTERRUPTED = 130
BROKEN_PIPE = 141
"""128 + SIGPIPE, as every Unix program ends when its reader has gone."""


_SPACE = "free some space, then try again"
_ENVIRONMENT = {
    errno.ENOSPC: _SPACE,
    errno.EDQUOT: _SPACE,
    errno.EROFS: "the file system is read-only: choose another place with --home or --project",
    errno.EIO: "the disk reports an error",
}
"""Faults of the machine, not of Geode, that can come from any write, the output's too."""


class Terminated(BaseException):
    """SIGTERM arrived; everything below has been cancelled and has cleaned up."""


def guarded(run: Callable[[], int], *, json: bool, words: Sequence[str]) -> int:
    """Run a command and turn whatever it raises into output and an exit code.

    Args:
        run: the command.
        json: print errors as the JSON error object on stdout.
        words: the command line, for the log of an unexpected error.
    """
    try:
        return run()
    except SystemExit as stop:  # argparse after --help
        return stop.code if isinstance(stop.code, int) else 0
    except KeyboardInterrupt:
        _say(GeodeError("interrupted"), json=json, code="interrupted")
        return INTERRUPTED
    except Terminated:
        _say(GeodeError("ended by SIGTERM"), json=json, code="interrupted")
        return 143
    except BrokenPipeError:
        return _reader_gone()
    except GeodeError as error:
        _say(error, json=json)
        return error.exit_code
    except BaseExceptionGroup as group:
        return guarded(partial(_raise_first, group), json=json, words=words)
    except OSError as error:
        if error.errno not in _ENVIRONMENT:
            _say(_unexpected(error, words), json=json, code="unexpected")
            return 1
        _silence_stdout()
        place = f" {error.filename}" if error.filename else " the output"
        _say(GeodeError(f"cannot write{place}: {error.strerror}", fix=_ENVIRONMENT[error.errno]), json=False)
        return 1
    except Exception as error:  # the last line of defence: a log file, never a traceback
        _say(_unexpected(error, words), json=json, code="unexpected")
        return 1


def prepare_streams() -> None:
    """Let a character that the terminal's encoding lacks become "?", and a closed stream be a null one."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - it lives as long as we do
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def finish(code: int) -> int:
    """Flush stdout, quietly when its reader has gone, and return the exit code."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        return _reader_gone()
    except OSError as error:
        _silence_stdout()
        print(f"geode: cannot write the output: {error.strerror}", file=sys.stderr)
        return code or 1
    except ValueError:  # already closed
        return code
    return code


def error_document(error: GeodeError, *, code: str = "") -> dict[str, object]:
    """`{"schema":1,"error":{"code","message","fix",…}}` of the command contract."""
    body = error.to_json()
    if code:
        body["code"] = code
    if isinstance(error, InvalidArguments) and error.problems:
        body["problems"] = list(error.problems)
    if isinstance(error, UnknownTool) and error.closest:
        body["closest"] = list(error.closest)
    return {"schema": 1, "error": body}


def exit_code_of(code: str) -> int:
    """The exit code that belongs to an error's `code`; 1 when it is not one of ours."""
    known: dict[str, int] = {}
    waiting: list[type[GeodeError]] = [GeodeError]
    while waiting:
        kind = waiting.pop()
        known[kind.code] = kind.exit_code
        waiting += kind.__subclasses__()
    return known.get(code, 1)


def _raise_first(group: BaseExceptionGroup[BaseException]) -> int:
    """Raise the most telling leaf of a group: an interruption before errors for people before the rest."""
    leaves: list[BaseException] = []
    waiting: list[BaseException] = [group]
    while waiting:
        item = waiting.pop()
        if isinstance(item, BaseExceptionGroup):
            waiting += item.exceptions
        else:
            leaves.append(item)
    order = (KeyboardInterrupt, Terminated, GeodeError, BrokenPipeError)
    for kind in order:
        leaves.sort(key=lambda leaf, kind=kind: not isinstance(leaf, kind))
        if isinstance(leaves[0], kind):
            break
    raise leaves[0]


def _say(error: GeodeError, *, json: bool, code: str = "") -> None:
    from .render import emit_json, plain

    try:
        if json:
            emit_json(error_document(error, code=code))
        if not json or code == "unexpected":
            print(f"geode: {plain(error.message)}", file=sys.stderr)
            if isinstance(error, InvalidArguments):
                for problem in error.readable:
                    if problem not in error.message:
                        print(f"  - {plain(problem)}", file=sys.stderr)
            if error.fix:
                print(f"  fix: {plain(error.fix)}", file=sys.stderr)
    except BrokenPipeError:
        _reader_gone()


def _unexpected(error: Exception, words: Sequence[str]) -> GeodeError:
    """Write the details to a private log file and return what the person reads."""
    import traceback

    name = type(error).__name__
    details = "".join(traceback.format_exception(error))
    text = f"geode {' '.join(words)}\n\n{details}"
    try:
        from ..analysis.secrets import environment_redactor
        from ..core.call import new_id

        folder = _log_folder(words)
        path = folder / f"{new_id('error')}.log"
        data = environment_redactor().text(text).encode("utf-8", "replace")
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.write(handle, data)
        finally:
            os.close(handle)
    except (OSError, ImportError) as problem:
        fix = f"the details could not be written to a log file ({problem}); try: geode doctor"
    else:
        fix = f"please report it with {path} (secrets are removed)"
    return GeodeError(f"something unexpected went wrong inside Geode ({name})", fix=fix)


def _log_folder(words: Sequence[str]) -> Path:
    from ..config.home import private_folder

    home = os.environ.get("GEODE_HOME") or "~/.geode"
    for at, word in enumerate(words):
        if word == "--home" and at + 1 < len(words):
            home = words[at + 1]
        elif word.startswith("--home="):
            home = word.removeprefix("--home=")
    folder = Path(home).expanduser() / "logs"
    return private_folder(folder)


def _reader_gone() -> int:
    _silence_stdout()
    return BROKEN_PIPE


def _silence_stdout() -> None:
    """Point stdout at nothing, so that the interpreter's own flush at exit cannot complain."""
    try:
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, sys.stdout.fileno())
        os.close(nothing)
    except (OSError, ValueError):
        return
