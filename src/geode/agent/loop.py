"""`AgenticLoop`: ask the model, run what it calls through the gate, feed the results back.

The contract:

- Every request is a valid history, whatever happened before (`history.mend`).
- A call whose arguments did not arrive whole is not run; the model is told to send less.
- Reads of a turn run together, effects one after another; results in call order directly after
  their turn. A failing call never ends the run and never stops its siblings.
- Everything is stored the moment it exists; a run killed anywhere resumes.
- Cancelling the task stops the run at once; what ran by then is in the history.
- A front end reads events and the `Outcome`, nothing else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any

from ..core.call import Call
from ..core.errors import GeodeError, InvalidArguments
from ..core.events import (
    Event,
    HistoryCompacted,
    Notice,
    ReasoningPiece,
    RunFinished,
    TextPiece,
    TurnFinished,
    TurnStarted,
)
from ..core.messages import Message, Role, ToolCall, ToolResult
from ..discovery.deferral import unwrap
from ..gate.gate import Gate
from ..models.model import CallReady, Model, ReasoningDelta, StopReason, TextDelta, TurnEnded, Usage
from ..models.wire import unique_id
from ..tools.registry import ToolRegistry
from .calls import TurnCalls
from .compaction import compact, estimate_tokens, shortened
from .context import Context, Skills, base_prompt, fill_prompt
from .guards import CircleGuard
from .marks import inert, notice, person
from .session import Session

__all__ = ["AgenticLoop", "Limits", "LoopParts", "Outcome"]

_CUT = (
    "Your call of {names} was not run: its arguments are incomplete or no JSON object (cut off at the output limit, "
    "perhaps). Send it again whole; write large texts in smaller pieces."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one run may use; None means no limit.

    Attributes:
        turns: turns of the model.
        tokens: tokens of all turns, as reported.
        cost_usd: US dollars of all turns.
        seconds: wall time.
    """

    turns: int | None = 100
    tokens: int | None = None
    cost_usd: float | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopParts:
    """What a loop is made of; `runtime.py` fills it.

    Attributes:
        model: is asked.
        gate, registry: run and describe tools.
        make_call: name and arguments -> `Call` with principal, session, mode, node and workspace.
        visible: True for tool names this session may use.
        fit: fits images and sounds in results to the model (`media.MediaFitter.fit`).
        skills: the skill library, or None.
        prompt: instructions with `{skill_context}`; None takes those of the package.
        suffix: appended to the instructions (facts about the place, wishes of the person).
        residents: profile of resident tools.
    """

    model: Model
    gate: Gate
    registry: ToolRegistry
    make_call: Callable[[str, Mapping[str, Any]], Call]
    visible: Callable[[str], bool]
    fit: Callable[[ToolResult], ToolResult] = lambda result: result
    skills: Skills | None = None
    prompt: str | None = None
    suffix: str = ""
    residents: str = "coding"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a run ended.

    Attributes:
        status: "ok", "stopped" (a limit or a guard) or "error" (the model failed).
        answer: the model's last words.
        reason: why it was stopped or failed.
        turns: turns of the model.
        calls: name, status and id of every call, in order.
        usage: tokens and cost of all turns.
        session: id under which it can be resumed.
    """

    status: str
    answer: str
    session: str
    reason: str = ""
    turns: int = 0
    calls: tuple[Mapping[str, Any], ...] = ()
    usage: Usage = Usage()

    def to_json(self) -> dict[str, Any]:
        """The `geode run` document of the command contract."""
        return {
            "status": self.status,
            "answer": self.answer,
            "reason": self.reason,
            "turns": self.turns,
            "tool_calls": [dict(c) for c in self.calls],
            "usage": self.usage.to_json(),
            "session": self.session,
        }


@dataclass(slots=True)
class _Run:
    """What one run has used so far."""

    guard: CircleGuard = field(default_factory=CircleGuard)
    turns: int = 0
    usage: Usage = Usage()
    calls: list[Mapping[str, Any]] = field(default_factory=list[Mapping[str, Any]])
    answer: str = ""


class AgenticLoop:
    """A conversation of a person, a model and tools. One run at a time."""

    def __init__(self, parts: LoopParts, session: Session, *, limits: Limits = Limits()) -> None:
        self._parts, self.session, self._limits = parts, session, limits
        block = parts.skills.context_block() if parts.skills else ""
        self.system = fill_prompt(parts.prompt or base_prompt(), block, parts.suffix)
        self._context = Context(
            parts.registry,
            parts.model.profile,
            self.system,
            residents=parts.residents,
            visible=parts.visible,
            session=session.id,
        )
        self._known = frozenset(parts.registry.names())
        self._announcements: list[str] = []

    # ------------------------------------------------------------ the loop

    async def run(self, text: str) -> Outcome:
        """Work on what the person says until the model has nothing more to call.

        Raises:
            asyncio.CancelledError: stopped from outside; the session is valid and can go on.
            Exception: what a model's code raised beside `GeodeError`; the session is valid and can go on.
        """
        run = _Run()
        limit = asyncio.timeout(self._limits.seconds)
        try:
            async with limit:
                await self._hear(text)
                while True:
                    await self._make_room(run)
                    turn, calls, cut = await self._ask(run)
                    run.answer = turn.message.text or run.answer
                    results = await calls.run(turn.message.calls)
                    self.session.settle(results)
                    self._count(run, results)
                    await self._record_cut(run, cut)
                    if not results and not cut:
                        return self._finish(run, *_end_of(turn.stop))
                    if why := run.guard.turn(len(results), len(cut)) or self._spent(run):
                        return self._finish(run, "stopped", why)
                    await self._tell(cut)
        except GeodeError as error:
            self.session.repair()
            return self._finish(run, "error", f"{error.message}{f' ({error.fix})' if error.fix else ''}")
        except asyncio.CancelledError:
            self.session.repair()
            self._finish(run, "cancelled", "stopped by the user")
            raise
        except Exception as error:  # a fault of a model's or a tool's code
            self.session.repair()
            if isinstance(error, TimeoutError) and limit.expired():
                return self._finish(run, "stopped", f"the limit of {self._limits.seconds:g} s is reached")
            self._finish(run, "error", f"{type(error).__name__}: {error}")
            raise

    async def _ask(self, run: _Run) -> tuple[TurnEnded, TurnCalls, list[ToolCall]]:
        """One turn of the model, streamed; its calls begin as soon as each is complete.

        Returns:
            The turn without cut calls, its calls, and the cut ones.
        """
        run.turns += 1
        self._emit(TurnStarted(self.session.id, run.turns))
        calls = TurnCalls(self._parts.gate, self._call, run.guard, self._parts.fit, self.session.save_result)
        ended: TurnEnded | None = None
        async with aclosing(self._parts.model.stream(self._context.request(self.session.messages))) as events:
            async for event in events:
                match event:
                    case TextDelta(text):
                        self._emit(TextPiece(self.session.id, text))
                    case ReasoningDelta(text):
                        self._emit(ReasoningPiece(self.session.id, text))
                    case CallReady(call):
                        calls.ready(self._context.original(call))
                    case TurnEnded():
                        ended = event
        if ended is None:
            raise GeodeError("the model's answer ended without an end", fix="try again")
        turn = self._settled(ended)
        cut = [c for c in ended.message.calls if c.arguments is None]
        run.usage += turn.usage
        if turn.message.blocks or turn.message.calls:
            await self.session.add(turn.message)
        self._emit(TurnFinished(self.session.id, run.turns, turn.message, turn.usage.to_json()))
        return turn, calls, cut

    def _settled(self, turn: TurnEnded) -> TurnEnded:
        """The turn under the tools' own names, every id once. A call that was cut never becomes history."""
        whole: list[ToolCall] = []
        for call in map(self._context.original, turn.message.calls):
            if call.arguments is not None:
                whole.append(replace(call, id=unique_id(call.id, (c.id for c in whole), len(whole) + 1)))
        message = replace(turn.message, calls=tuple(whole))
        same = [c.id for c in whole] == [c.id for c in turn.message.calls]
        return replace(turn, message=message if same else replace(message, opaque=None))

    # ------------------------------------------------------------ what goes in

    async def _hear(self, text: str) -> None:
        """The person's words, marked, with the skills they call up."""
        skills = self._parts.skills
        activated = skills.activate(text) if skills else ()
        self._notice_skills()
        parts = [*map(notice, self._announcements), person(text)]
        self._announcements.clear()
        for skill in activated:
            parts.append(notice(f"Skill {skill.name} fits these words.\n{skill.text}"))
            self._emit(Notice(self.session.id, f"skill {skill.name} activated"))
        await self.session.add(Message(Role.USER, tuple(parts)))

    def refresh_tools(self) -> int:
        """Notice tools that came or went; the next message announces them. Returns how many can be used now.

        The tools of the request stay as they are, so that what the provider cached stays valid.
        """
        now = frozenset(self._parts.registry.names())
        came, went = sorted(now - self._known), sorted(self._known - now)
        if came:
            self._announcements.append(f"New tools, to be found with tool_search: {_listed(came)}")
        if went:
            self._announcements.append(f"No longer offered: {_listed(went)}")
        self._known = now
        return sum(1 for name in now if self._parts.visible(name))

    async def _record_cut(self, run: _Run, cut: Sequence[ToolCall]) -> None:
        """A call whose arguments never arrived whole is in the record and in the outcome, not in the history."""
        for call in cut:
            error = InvalidArguments(f"the arguments of {call.name} did not arrive whole; it was not run")
            name = self._context.original(call).name
            self._count(run, [await self._parts.gate.fail(self._parts.make_call(name, {}), error)])

    async def _tell(self, cut: Sequence[ToolCall]) -> None:
        """Tell the model, after the results, what it should know: calls that were cut, tools that came or went."""
        if cut:
            self._announcements.append(_CUT.format(names=_listed([c.name for c in cut])))
        self.refresh_tools()
        self._notice_skills()
        if self._announcements:
            told = tuple(map(notice, self._announcements))
            self._announcements.clear()
            await self.session.add(Message(Role.USER, told))

    def _notice_skills(self) -> None:
        if self._parts.skills and (news := self._parts.skills.news()):
            self._announcements.append(news)

    async def _make_room(self, run: _Run) -> None:
        """Compact a history that fills most of the context window; what then still is too long is shortened."""
        profile = self._parts.model.profile
        whole, before = profile.context_tokens, self._context.tokens(self.session.messages)
        room = int(max(0.8 * (whole - profile.output_tokens) - len(self.system) / 3.5, 0.3 * whole))
        if before < room:
            return
        messages: Sequence[Message] = self.session.messages
        made = await compact(messages, self._parts.model, self._context.aside, self._parts.registry)
        if made is not None:
            messages, usage = made
            run.usage += usage
        messages = shortened(messages, room)
        after = estimate_tokens(messages)
        if after < before:
            await self.session.replace(messages)
            self._emit(HistoryCompacted(self.session.id, before, after))

    # ------------------------------------------------------------ small parts

    def _call(self, wish: ToolCall) -> Call:
        name, arguments = unwrap(wish.name, wish.arguments or {})
        return self._parts.make_call(name, arguments)

    def _count(self, run: _Run, results: Sequence[ToolResult]) -> None:
        for result in results:
            call_id = result.details.get("call_id", result.call_id)
            run.calls.append({"tool": result.tool, "status": result.status.value, "call_id": call_id})

    def _spent(self, run: _Run) -> str:
        """Which limit is reached, or ""."""
        limits = self._limits
        if limits.turns is not None and run.turns >= limits.turns:
            return f"the limit of {limits.turns} turns is reached"
        if limits.tokens is not None and run.usage.total >= limits.tokens:
            return f"the limit of {limits.tokens:,} tokens is reached"
        if limits.cost_usd is not None and run.usage.cost_usd >= limits.cost_usd:
            return f"the limit of {limits.cost_usd:g} US dollars is reached"
        return ""

    def _finish(self, run: _Run, status: str, reason: str = "") -> Outcome:
        self._emit(RunFinished(self.session.id, status, run.answer, reason))
        return Outcome(
            status=status,
            answer=run.answer,
            reason=reason,
            turns=run.turns,
            calls=tuple(run.calls),
            usage=run.usage,
            session=self.session.id,
        )

    def _emit(self, event: Event) -> None:
        self._parts.gate.emit(event)


def _end_of(stop: StopReason) -> tuple[str, str]:
    """Status and reason of a run whose last turn calls nothing."""
    match stop:
        case StopReason.LENGTH:
            return "stopped", "the answer reached the model's output limit"
        case StopReason.REFUSAL:
            return "stopped", "the model declined to answer"
        case _:
            return "ok", ""


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(inert(" ".join(n.split()))[:100] for n in names[:20])
    return shown if len(names) <= 20 else f"{shown} and {len(names) - 20} more"
