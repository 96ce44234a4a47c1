"""`geode run`: one task, from the first turn of the model to its last."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ...core.errors import GeodeError, UsageError
from ...core.events import (
    CallFinished,
    CallProgress,
    Event,
    HistoryCompacted,
    Notice,
    RunFinished,
    TextPiece,
    TurnFinished,
)
from ...core.messages import Status
from .. import render
from ..errors import INTERRUPTED, error_document
from ..invocation import Invocation
from ..model import close, open_chosen
from ..parser import CommandParser

if TYPE_CHECKING:
    from ...agent.loop import AgenticLoop, Outcome
    from ...models.model import Model
    from ...runtime import GeodeRuntime

__all__ = ["configure"]

_GO_ON = "Go on with the task from where it stopped. What needed approval may have been approved by now."


class Interrupted(GeodeError):
    """The person stopped the run; what was done is stored."""

    code = "interrupted"
    exit_code = INTERRUPTED


def configure(parser: CommandParser) -> None:
    """Fill in `geode run`."""
    parser.add_argument("task", nargs="?", metavar="TASK", help="what to do, in plain words; - reads it from stdin")
    parser.add_argument("--model", metavar="P:NAME", help="which model (default: the one that is found; geode doctor)")
    parser.add_argument("--max-turns", type=_turns, metavar="N", help="stop after N turns of the model (default 100)")
    parser.add_argument(
        "--resume", nargs="?", const="last", metavar="SESSION", help="go on with a session, or with the last one here"
    )
    parser.add_argument("--allow", action="append", default=[], metavar="TOOL", help="you ask for this tool; repeat")
    parser.add_argument("--events", action="store_true", help="one JSON line for everything that happens")
    parser.set_defaults(run=_run)


def _turns(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:9]) <= 100_000):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to 100000")
    return int(text)


def _run(run: Invocation) -> int:
    if not run.args.events:
        return _one_task(run)
    try:
        return _one_task(run)
    except GeodeError as error:  # a stream of lines stays one to its end
        render.emit_line({k: v for k, v in error_document(error).items() if k != "schema"})
        return error.exit_code


def _one_task(run: Invocation) -> int:
    task = _task(run)
    run.check_mode()
    view = _view(run)
    session = ""

    async def work() -> Outcome:
        nonlocal session
        model = await open_chosen(run.args.model)
        async with run.runtime() as runtime:
            view.redact = runtime.redactor.json
            loop = await _agent(run, runtime, model)
            session = loop.session.id
            view.began(session)
            watch = _Watch(view)
            stop = runtime.subscribe(watch)
            try:
                return await loop.run(task)
            except asyncio.CancelledError:
                if watch.lost is not None:
                    raise watch.lost from None
                raise
            finally:
                stop()
                await close(model)

    try:
        outcome = run.run(work)
    except KeyboardInterrupt:
        view.end()
        if not session:
            raise
        raise Interrupted("interrupted; what was done is saved", fix=f"go on: geode run --resume {session}") from None
    document = _document(outcome, view.waiting)
    view.finish(document)
    return {"ok": 0, "needs_approval": 4}.get(document["status"], 1)


class _Watch:
    """Shows events; ends the run when they cannot be written any more: nobody would see what it goes on to do.

    Attributes:
        lost: why they cannot.
    """

    def __init__(self, view: _View) -> None:
        self._view = view
        self._task = asyncio.current_task()
        self.lost: OSError | None = None

    def __call__(self, event: Event) -> None:
        if self.lost is not None:
            return
        try:
            self._view(event)
        except OSError as error:
            self.lost = error
            if self._task is not None:
                self._task.cancel()


def _task(run: Invocation) -> str:
    """The person's words.

    Raises:
        UsageError: there are none, or they stand in the place of a session's name.
    """
    if any(c.isspace() for c in (run.args.resume or "").strip()):  # a session's name has none
        raise UsageError(
            f"--resume takes the name of a session, and {run.args.resume!r} is none",
            fix=f'geode run "{run.args.resume.strip()}" --resume',
        )
    text: str | None = run.args.task
    if text == "-":
        text = sys.stdin.read()
    if text is None and run.args.resume is not None:
        return _GO_ON
    if text is None or not text.strip():
        raise UsageError("there is no task", fix='geode run "what to do", or geode run --resume')
    return text


async def _agent(run: Invocation, runtime: GeodeRuntime, model: Model) -> AgenticLoop:
    from ...agent.loop import Limits
    from ..sessions import find_session

    args = run.args
    run.note_unknown(args.allow, runtime.registry.names())
    session = "" if args.resume is None else await find_session(runtime, args.resume)
    limits = Limits() if args.max_turns is None else Limits(turns=args.max_turns)
    return await runtime.agent(model, session=session, limits=limits, allow=args.allow)


def _document(outcome: Outcome, waiting: Mapping[str, str]) -> dict[str, Any]:
    """The contract's document; a run that ended in front of a closed door says which approval opens it."""
    document = outcome.to_json()
    if waiting and outcome.status in {"ok", "stopped"}:
        document["status"] = "needs_approval"
        document["reason"] = f"{', '.join(dict.fromkeys(waiting.values()))}: a person must approve it"
        document["approvals"] = [{"id": id, "tool": tool} for id, tool in waiting.items()]
    return document


# ---------------------------------------------------------------- what is shown


class _View:
    """Follows a run. This one shows nothing until the end: for `--json`.

    Attributes:
        waiting: calls of the last turn that wait for a person: id of the approval -> tool.
        redact: removes secrets from JSON values.
    """

    def __init__(self) -> None:
        self.waiting: dict[str, str] = {}
        self.redact: Callable[[Any], Any] = lambda value: value

    def __call__(self, event: Event) -> None:
        if isinstance(event, TurnFinished) and event.message.calls:
            self.waiting.clear()
        elif isinstance(event, CallFinished) and event.result.status is Status.NEEDS_APPROVAL:
            self.waiting[str(event.result.details.get("approval_id", ""))] = event.call.tool
        self.show(event)

    def began(self, session: str) -> None:
        """The session is open; told at once, so that a killed run can be resumed."""
        render.note(f"session {session}")

    def show(self, event: Event) -> None:
        """Show one event."""

    def end(self) -> None:
        """Nothing more will come."""

    def finish(self, document: Mapping[str, Any]) -> None:
        """Show how it ended."""
        render.emit_json(document)


class _Lines(_View):
    """Every event as one JSON line, the outcome as the last one."""

    def show(self, event: Event) -> None:
        from ..events import event_document

        render.emit_line(self.redact(event_document(event)))

    def finish(self, document: Mapping[str, Any]) -> None:
        render.emit_line({"event": "outcome", **document})


class _People(_View):
    """The answer on stdout, as it streams when that is a terminal; what is done, on stderr."""

    def __init__(self) -> None:
        super().__init__()
        self._streams = sys.stdout.isatty()
        self._open = False  # text stands on a line that has not ended

    def began(self, session: str) -> None:
        self._say(f"session {session}", "dim")

    def show(self, event: Event) -> None:
        match event:
            case TextPiece(_, text) if self._streams:
                shown = render.plain(text)
                self._open = not shown.endswith("\n") if shown else self._open
                print(shown, end="", flush=True)
            case CallFinished():
                self._call(event)
            case CallProgress(call, message) if sys.stderr.isatty():
                self._say(f"  {call.tool}: {message}", "dim")
            case Notice(_, text):
                self._say(f"· {text}", "dim")
            case HistoryCompacted(_, before, after):
                self._say(f"· the conversation was shortened: {before:,} -> {after:,} tokens", "dim")
            case RunFinished():
                self.end()
            case _:
                pass

    def _call(self, event: CallFinished) -> None:
        from ..activity import call_line
        from ..terminal import columns

        line = call_line(event.call, event.result, self.redact(dict(event.call.arguments)), width=columns())
        nested = "  " if event.call.parent else ""
        colour = {Status.OK: "dim", Status.NEEDS_APPROVAL: "yellow"}.get(event.result.status, "red")
        self._say(nested + line, colour)

    def _say(self, text: str, colour: str) -> None:
        self.end()
        print(render.paint(render.plain(text), colour, sys.stderr), file=sys.stderr, flush=True)

    def end(self) -> None:
        if self._open:
            print(flush=True)
            self._open = False

    def finish(self, document: Mapping[str, Any]) -> None:
        from ..activity import usage_line

        if not self._streams and document["answer"]:
            print(render.plain(document["answer"]))
        if document["status"] != "ok":
            self._say(f"{document['status'].replace('_', ' ')}: {document['reason']}", "yellow")
        for approval in document.get("approvals", ()):
            self._say(f"  allow {approval['tool']} once: geode approvals approve {approval['id']}", "yellow")
        if document["status"] != "ok":
            self._say(f"  then go on: geode run --resume {document['session']}", "yellow")
        calls = len(document["tool_calls"])
        parts = [_count(document["turns"], "turn"), _count(calls, "tool call"), usage_line(document["usage"])]
        self._say(" · ".join(filter(None, parts)), "dim")


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _view(run: Invocation) -> _View:
    if run.args.events:
        return _Lines()
    return _View() if run.json else _People()
