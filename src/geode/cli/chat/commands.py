"""What the slash commands do. Most are the commands of the command line, run on the same project."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from rich.table import Table
from rich.text import Text

from ...agent.compaction import estimate_tokens
from ...core.errors import GeodeError, UsageError
from ...core.messages import Role
from .. import render
from ..errors import guarded
from ..invocation import Invocation
from ..model import close, open_chosen
from ..parser import Globals, build_parser, global_options
from ..render import plain, shortened
from ..sessions import find_session, first_words, sessions_here

if TYPE_CHECKING:
    from .app import Chat

__all__ = ["audit", "clear", "cli", "context", "cost", "mcp", "model", "policy", "resume", "rows", "skills", "tools"]

T = TypeVar("T")


# ---------------------------------------------------------------- the command line, inside the chat


class _Inside(Invocation):
    """A command that runs in a thread of the chat; what it awaits can be stopped from the chat."""

    def __init__(self, args: argparse.Namespace, options: Globals) -> None:
        super().__init__(args, options)
        self._running: tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]] | None = None

    def run(self, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        async def work() -> T:
            task = asyncio.current_task()
            assert task is not None
            self._running = (asyncio.get_running_loop(), task)
            return await make()

        with asyncio.Runner() as runner:
            try:
                return runner.run(work())
            except asyncio.CancelledError:
                raise GeodeError("stopped") from None
            finally:
                self._running = None

    def stop(self) -> None:
        """End what it awaits."""
        if self._running is not None:
            loop, task = self._running
            loop.call_soon_threadsafe(task.cancel)


async def cli(talk: Chat, command: str, words: Iterable[str]) -> None:
    """Run `geode COMMAND WORDS…` for the project, home and mode of the chat."""
    run = talk.run
    place = ["--project", str(run.project), "--home", str(run.home)]
    line = [*place, *(["--mode", run.mode] if run.mode else []), command, *words]
    inside: list[_Inside] = []

    def work() -> int:
        args = build_parser().parse_args(line)
        action = getattr(args, "run", None)
        if action is None:
            raise UsageError(f"/{command} needs one of: {', '.join(getattr(args, 'choices', ()))}")
        inside.append(_Inside(args, global_options(args)))
        return action(inside[0])

    thread = asyncio.ensure_future(asyncio.to_thread(lambda: guarded(work, json=False, words=line)))
    try:
        await asyncio.shield(thread)
    except asyncio.CancelledError:
        for each in inside:
            each.stop()
        await thread
        raise


async def _change(talk: Chat, command: str, words: Iterable[str]) -> None:
    """Run a command that may add or remove tools or skills; the model is told with the next message."""
    runtime = talk.runtime
    before = set(runtime.registry.names())
    await cli(talk, command, words)
    if runtime.hub is not None:
        await runtime.hub.refresh()
        for name in [s["name"] for s in runtime.hub.status() if runtime.hub.snapshot(s["name"]) is None]:
            with contextlib.suppress(GeodeError):  # the command has said why it cannot be used
                await runtime.hub.discover(name)
    talk.loop.refresh_tools()
    now = set(runtime.registry.names())
    if now != before:
        talk.tell(f"{len(now - before)} tools came, {len(before - now)} went; the agent knows with your next message")


# ---------------------------------------------------------------- tools, servers, skills


async def skills(talk: Chat, words: list[str]) -> None:
    """`/skills …`, as `geode skills …`."""
    await _change(talk, "skills", words or ["list"])


async def mcp(talk: Chat, words: list[str]) -> None:
    """`/mcp` shows the servers of this chat; `/mcp add …` and the rest are `geode mcp …`."""
    if not words or words == ["status"]:
        states = talk.runtime.hub.status() if talk.runtime.hub is not None else []
        columns = ["name", "state", "tools", "last_error"]
        render.table(columns, [[s.get(c) for c in columns] for s in states], empty="no MCP server is declared")
        return
    await _change(talk, "mcp", words)


async def tools(talk: Chat, words: list[str]) -> None:
    """`/tools` counts what is there by source; with words it searches."""
    if words[:1] in (["show"], ["call"], ["export"], ["list"]):
        await cli(talk, "tools", words)
        return
    if words:
        answer = talk.runtime.search.search(" ".join(words[words[0] == "search" :]), limit=10).to_json()
        found = [[h["name"], h["server"], h["band"], h["description"].split("\n", 1)[0]] for h in answer["results"]]
        render.table(["name", "server", "match", "description"], found, empty=f"nothing: {answer['reason']}")
        return
    entries = [e for e in talk.runtime.registry.entries() if e.status == "active"]
    by_source: dict[str, list[str]] = {}
    for entry in entries:
        by_source.setdefault(entry.source, []).append(entry.name)
    for source, names in by_source.items():
        talk.console.print(Text.assemble((plain(source), "bold"), f"  {len(names)}"))
        talk.tell("  " + shortened(", ".join(names), 3 * talk.console.width))
    talk.tell("find one: /tools WORDS · all about one: /tools show NAME")


async def policy(talk: Chat, words: list[str]) -> None:
    """`/policy …`, as `geode policy …`."""
    await cli(talk, "policy", words or ["show"])


async def audit(talk: Chat, words: list[str]) -> None:
    """`/audit` lists the calls of this conversation; the rest is `geode audit …`."""
    await cli(talk, "audit", words or ["list", "--session", talk.loop.session.id, "--limit", "30"])


# ---------------------------------------------------------------- the conversation


async def model(talk: Chat, words: list[str]) -> None:
    """`/model` says which model answers, `/model P:NAME` takes another one."""
    if words:
        chosen = await open_chosen(words[0])
        before, talk.model = talk.model, chosen
        await talk.open(talk.loop.session.id)
        await close(before)
    profile = talk.model.profile
    price = profile.price
    money = f"${price.input:g} / ${price.output:g} per million tokens read / written" if price else "not known"
    rows(
        talk,
        [
            ("model", f"{profile.provider} · {profile.name}"),
            ("context", f"{profile.context_tokens:,} tokens, at most {profile.output_tokens:,} written in a turn"),
            ("price", money),
        ],
    )


async def context(talk: Chat, _words: list[str]) -> None:
    """`/context`: what the next request carries, in tokens, estimated."""
    messages, profile = talk.loop.session.messages, talk.model.profile
    told = estimate_tokens([m for m in messages if m.role is not Role.TOOL])
    results = estimate_tokens([m for m in messages if m.role is Role.TOOL])
    instructions = len(talk.loop.system.encode()) // 4
    total = told + results + instructions
    rows(
        talk,
        [
            ("instructions and skills", f"{instructions:,} tokens (estimated)"),
            ("what was said and called", f"{told:,}"),
            ("results of tools", f"{results:,}"),
            ("together", f"{total:,} of {profile.context_tokens:,} ({total / profile.context_tokens:.0%})"),
            ("messages", f"{len(messages)} in {talk.loop.session.id}"),
            ("tools that can be found", f"{len(talk.runtime.registry.names()):,}; they cost nothing until they are"),
        ],
    )


async def cost(talk: Chat, _words: list[str]) -> None:
    """`/cost`: what this chat has used, as the provider reported it."""
    used = talk.used
    money = f"${used.cost_usd:.4f}" if talk.model.profile.price else "not known for this model"
    rows(
        talk,
        [
            ("read", f"{used.input + used.cache_write:,} tokens, and {used.cache_read:,} from the cache"),
            ("written", f"{used.output:,} tokens"),
            ("cost", money),
        ],
    )


async def clear(talk: Chat, _words: list[str]) -> None:
    """`/clear`: a new conversation."""
    before = talk.loop.session
    await talk.open("")
    talk.tell("a new conversation" + (f"; back with /resume {before.id}" if before.messages else ""))


async def resume(talk: Chat, words: list[str]) -> None:
    """`/resume` lists what can be resumed, `/resume SESSION` goes on with it."""
    if words:
        await talk.open(await find_session(talk.runtime, words[0]))
        talk.show_last()
        return
    found = await sessions_here(talk.runtime, limit=15)
    words_of = await first_words(talk.runtime, [s.session for s in found])
    lines = [
        [s.session, s.last_at.astimezone().strftime("%m-%d %H:%M"), shortened(words_of.get(s.session, ""), 60)]
        for s in found
    ]
    render.table(["session", "last used", "began with"], lines, empty="no earlier conversation of this project")
    if found:
        talk.tell("go on with one: /resume SESSION (the end of its name is enough), or: /resume last")


def rows(talk: Chat, lines: Iterable[tuple[str, str]]) -> None:
    """Two aligned columns without lines."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True, style="cyan")
    grid.add_column(overflow="fold")
    for left, right in lines:
        grid.add_row(Text(left), Text(plain(right)))
    talk.console.print(grid)
