"""The conversation: prompt, turn, Ctrl-C, end.

Ctrl-C stops the turn that runs, or empties the prompt; twice at the prompt it quits. Whatever
is stopped ends with everything it started, and what was done by then is stored.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Protocol

from rich.console import Console
from rich.text import Text

from ...agent.compaction import estimate_tokens
from ...agent.loop import AgenticLoop, Outcome
from ...agent.marks import spoken
from ...core.errors import GeodeError
from ...core.messages import Role
from ...models.model import Model, Usage
from ...runtime import GeodeRuntime
from ..activity import duration, usage_line
from ..errors import Terminated, guarded
from ..invocation import Invocation
from ..model import close, open_chosen
from ..render import colours_on, plain, shortened
from ..sessions import find_session
from ..terminal import Echo
from ..version import VERSION
from .approve import ChatApprover
from .markdown import CalmMarkdown
from .slash import SLASH, Quit, run_slash
from .view import TurnView

__all__ = ["Chat", "chat"]

_AGAIN = 2.0
"""Seconds within which a second Ctrl-C at the prompt quits."""


class Reader(Protocol):
    """Where the person's words come from; `keyboard.Keyboard` is one."""

    async def read(self) -> str: ...

    def interrupt(self) -> None: ...


class Chat:
    """One conversation at a terminal.

    Attributes:
        run: where, in which mode.
        runtime: the tools.
        model, loop: who answers, and in which session.
        console, view: where it is shown.
        used: tokens and cost of everything said so far in this chat.
    """

    def __init__(self, run: Invocation, runtime: GeodeRuntime, model: Model, loop: AgenticLoop) -> None:
        self.run, self.runtime, self.model, self.loop = run, runtime, model, loop
        self.console = Console(highlight=False, no_color=not colours_on(sys.stdout))
        self.view = TurnView(self.console, runtime.redactor.json)
        self.used = Usage()
        self.echo = Echo()
        self._work: asyncio.Task[Any] | None = None
        self._stops = 0

    # ------------------------------------------------------------ life

    async def live(self, reader: Reader) -> None:
        """Read and answer until the person leaves."""
        with self._signals(reader):
            left_at = 0.0
            while True:
                try:
                    text = (await reader.read()).strip()
                except EOFError:
                    return
                except KeyboardInterrupt:
                    if time.monotonic() - left_at < _AGAIN:
                        return
                    left_at = time.monotonic()
                    self.tell("Ctrl-C again quits; Ctrl-D too")
                    continue
                left_at = 0.0
                try:
                    await self._answer(text)
                except Quit:
                    return
                except GeodeError as error:
                    self.fail(error)
                except Exception as error:  # one broken command does not end a conversation
                    self._report(error)

    async def _answer(self, text: str) -> None:
        if not text:
            return
        if text.startswith("/") and not self._names_a_skill(text):
            await self._stoppable(run_slash(self, text))
        else:
            await self.turn(text)
        self.console.print()

    def commands(self) -> dict[str, str]:
        """What may follow a slash, with a few words on each: the commands and the skills."""
        skills = {
            skill.name: f"skill: {shortened(skill.description, 60)}" for skill in self.runtime.skills.registry.skills()
        }
        return skills | {name: command.line for name, command in SLASH.items()}

    def _names_a_skill(self, text: str) -> bool:
        """`/NAME …` calls a skill of that name, unless it is a slash command."""
        name = text[1:].split(maxsplit=1)[0] if text[1:].strip() else ""
        self.runtime.skills.refresh()
        return name not in SLASH and self.runtime.skills.get(name) is not None

    async def turn(self, text: str) -> None:
        """Let the agent work on what the person said."""
        began = time.monotonic()
        self.view.begin()
        outcome: Outcome | None = None
        with self.echo.off():
            stop = self.runtime.subscribe(self.view)
            try:
                outcome = await self._stoppable(self.loop.run(text))
            finally:
                stop()
                self.view.end()
        if outcome is None:
            self.view.say("stopped; what was done is kept, say how to go on", "yellow")
            return
        self.used += outcome.usage
        if outcome.status != "ok":
            self.view.say(f"{outcome.status}: {outcome.reason}", "yellow" if outcome.status == "stopped" else "red")
        took = duration((time.monotonic() - began) * 1000)
        self.view.say(" · ".join(filter(None, (took, usage_line(outcome.usage.to_json())))))

    async def open(self, session: str) -> None:
        """Continue session `session`, or begin a new one when it is empty."""
        self.loop = await self.runtime.agent(self.model, session=session)

    # ------------------------------------------------------------ saying things

    def tell(self, text: str, style: str = "dim") -> None:
        """One line of Geode's own."""
        self.console.print(Text(plain(text), style=style), soft_wrap=True)

    def show_last(self) -> None:
        """The end of a conversation that goes on: what was said last."""
        messages = self.loop.session.messages
        asked = [words for m in messages for words in spoken(m)]
        if not asked:
            return
        self.console.print()
        self.tell(f"going on with {self.loop.session.id}, {len(messages)} messages")
        self.console.print(Text(f"> {plain(asked[-1])}", style="cyan"))
        if messages[-1].role is Role.ASSISTANT and messages[-1].text:
            self.console.print()
            self.console.print(CalmMarkdown(plain(messages[-1].text)), width=min(100, self.console.width))

    def fail(self, error: GeodeError) -> None:
        """An error and what to do about it."""
        self.tell(error.message, "red")
        if error.fix:
            self.tell(f"  fix: {error.fix}")

    def _report(self, error: Exception) -> None:
        """An error that nobody expected: one line, the details in a log file."""

        def again() -> int:
            raise error

        guarded(again, json=False, words=["--home", str(self.run.home), "(chat)"])

    def status(self) -> str:
        """Stands at the right of the prompt: what is not as usual, and how full the context is."""
        profile = self.model.profile
        share = estimate_tokens(self.loop.session.messages) / profile.context_tokens
        mode = self.runtime.settings.mode
        parts = ["" if mode == "default" else mode, f"context {share:.0%}" if share >= 0.01 else ""]
        return " · ".join(filter(None, parts))

    # ------------------------------------------------------------ stopping

    async def _stoppable(self, work: Any) -> Any:
        """Await what Ctrl-C may stop. Returns None when it was stopped."""
        self._stops = 0
        task = self._work = asyncio.ensure_future(work)
        try:
            await asyncio.wait({task})
        finally:
            self._work = None
            if not task.done():  # the chat itself is being ended
                task.cancel()
                await asyncio.wait({task})
        return None if task.cancelled() else task.result()

    @contextmanager
    def _signals(self, reader: Reader) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):  # Windows, or another thread
            loop.add_signal_handler(signal.SIGINT, self._interrupted, reader)
        try:
            yield
        finally:
            with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
                loop.remove_signal_handler(signal.SIGINT)

    def _interrupted(self, reader: Reader) -> None:
        if self._work is None:
            reader.interrupt()
            return
        self._stops += 1
        if self._stops >= 3:
            self.echo.restore()
            os._exit(130)  # what runs in the sandbox and behind MCP ends with this process
        self.view.stopping()
        self._work.cancel()


# ---------------------------------------------------------------- start


def chat(run: Invocation, *, resume: str | None, model: str | None) -> int:
    """Chat until the person leaves.

    Args:
        run: where, in which mode.
        resume: session to go on with ("last" for the last one here); None begins a new one.
        model: which model; None takes the one that is found.
    """
    from .keyboard import Keyboard

    def keyboard(talk: Chat) -> Reader:
        return Keyboard(
            Path(run.home) / "chat_history",
            redact=talk.runtime.redactor.text,
            commands=talk.commands,
            status=talk.status,
        )

    run.check_mode()
    _offer_trust(run)
    try:
        asyncio.run(_main(run, resume, model, keyboard))
    except asyncio.CancelledError:
        raise Terminated from None
    return 0


async def _main(run: Invocation, resume: str | None, spec: str | None, reader: Callable[[Chat], Reader]) -> None:
    task = asyncio.current_task()
    assert task is not None
    with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    async with opened(run, resume, spec) as talk:
        _greet(talk)
        await talk.live(reader(talk))
        if talk.loop.session.messages:
            talk.tell(f"go on later: geode --resume {talk.loop.session.id}")


@asynccontextmanager
async def opened(run: Invocation, resume: str | None, spec: str | None) -> AsyncIterator[Chat]:
    """A chat with everything it needs, closed at the end."""
    settings = run.settings
    model = await open_chosen(spec)
    approver = ChatApprover(settings.approval_timeout)
    async with GeodeRuntime.create(run.project, run.home, mode=run.mode, approver=approver) as runtime:
        session = "" if resume is None else await find_session(runtime, resume)
        talk = Chat(run, runtime, model, await runtime.agent(model, session=session))

        @contextmanager
        def terminal() -> Iterator[None]:
            with talk.view.held(), talk.echo.on():
                yield

        approver.terminal = terminal
        try:
            yield talk
        finally:
            await close(talk.model)


def _greet(talk: Chat) -> None:
    settings = talk.runtime.settings
    mode = "" if settings.mode == "default" else f" · mode {settings.mode}"
    talk.console.print(Text.assemble(("Geode", "bold"), f" {VERSION} · {talk.model.profile.name}{mode}"))
    talk.tell(f"{settings.project}")
    talk.tell("Say what to do. Alt-Enter begins a line, Ctrl-C stops, Ctrl-D quits, /help lists commands.")
    talk.show_last()
    talk.console.print()


def _offer_trust(run: Invocation) -> None:
    """Ask once whether what the project brings may be used; without a yes it is not."""
    from ...config.trust import TrustStore

    store = TrustStore(run.home)
    state = store.state(run.project)
    if state.state not in {"untrusted", "changed"}:
        return
    news = "" if state.state == "untrusted" else ", changed since you trusted them"
    print(f"This project brings servers, tools or rules of its own{news}:")
    for name in state.files:
        print(f"  {plain(str(name))}")
    try:
        answer = input("Use them? They can run programs on this machine. [y/N] ")
    except EOFError:
        answer = ""
    if answer.strip().lower() in {"y", "yes"}:
        from ...config.home import ensure_home

        TrustStore(ensure_home(run.home)).trust(run.project)
    else:
        print("They are not used. Later: geode trust")
