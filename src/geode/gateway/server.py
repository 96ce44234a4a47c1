"""The gateway's requests: list, call, and what goes with a call.

    client ── tools/call ──> mode: which target? ──> Call ──> gate ──> ToolResult ──> CallToolResult
                                                       ↑ progress, cancellation, a question to the person

The SDK is imported inside functions: naming `GatewayParts` costs nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Literal, cast

from ..core.call import Call, new_id
from ..core.effects import Origin
from ..core.errors import GeodeError, InvalidArguments
from ..core.events import Event, ToolsChanged
from ..core.messages import Status, Text, ToolResult
from .consent import FORM, Answer, Consent, question
from .modes import Direct, Inspect, Mode, Search, Target
from .parts import GatewayParts
from .progress import ProgressBoard
from .results import error_result, text_result, to_call_result, with_text
from .sessions import ClientSession, Sessions, is_modern
from .skills import SkillsOverMcp

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext
    from mcp.server.lowlevel import Server

__all__ = ["Expose", "Gateway", "GatewayParts", "build_server"]

Expose = Literal["direct", "search"]
_GATHER = 0.05
"""Seconds in which several changes of the registry become one notice."""
_INSTRUCTIONS = {
    "search": (
        "Geode gives access to many tools through three. Say what you need to tool_search, then use tool_call. "
        "Every call is checked by policy and recorded; a refusal says why and what is allowed instead."
    ),
    "direct": "Every call is checked by policy and recorded; a refusal says why and what is allowed instead.",
}


class Gateway:
    """One front: its clients, and what they ask for. Use inside `async with gateway.running()`.

    Args:
        parts: registry, gate and the rest.
        expose: "direct" or "search".
    """

    def __init__(self, parts: GatewayParts, expose: Expose = "direct") -> None:
        from mcp.server.subscriptions import InMemorySubscriptionBus

        self.parts = parts
        self.mode: Mode = Search(parts.registry) if expose == "search" else Direct(parts.registry)
        self.sessions = Sessions(self._client_gone)
        self._consent = Consent()
        self._progress = ProgressBoard()
        self._bus = InMemorySubscriptionBus()
        self._changed = asyncio.Event()
        self.server = self._build(_INSTRUCTIONS[expose])

    def _build(self, instructions: str) -> Server[Any]:
        import mcp_types as types
        from mcp.server.lowlevel import NotificationOptions, Server
        from mcp.server.subscriptions import ListenHandler

        class FrontServer(Server[Any]):
            """Announces that its list of tools can change, on every transport."""

            def create_initialization_options(
                self, notification_options: NotificationOptions | None = None, *args: Any, **more: Any
            ) -> Any:
                options = notification_options or NotificationOptions(tools_changed=True)
                return super().create_initialization_options(options, *args, **more)

        server = FrontServer(
            "geode",
            version=version("geode-runtime"),
            title="Geode",
            instructions=instructions,
            on_list_tools=cast(Any, self._list_tools),  # raw objects are allowed
            on_call_tool=cast(Any, self._call_tool),
            on_subscriptions_listen=ListenHandler(self._bus),
        )
        server.add_notification_handler("notifications/initialized", types.NotificationParams, self._initialized)
        if self.parts.skills is not None:
            SkillsOverMcp(self.parts.skills).attach(server)
        return server

    # ------------------------------------------------------------ life

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Server[Any]]:
        """Follow the registry and the calls while the block runs."""
        loop = asyncio.get_running_loop()

        def changed(event: Event) -> None:
            if isinstance(event, ToolsChanged):
                loop.call_soon_threadsafe(self._changed.set)

        ends = [self.parts.registry.subscribe(changed)]
        if self.parts.subscribe is not None:
            ends.append(self.parts.subscribe(self._progress.take))
        notifier = asyncio.create_task(self._announce_changes(), name="gateway notices")
        try:
            yield self.server
        finally:
            for end in ends:
                end()
            notifier.cancel()
            await asyncio.gather(notifier, return_exceptions=True)
            await self.sessions.end_all()

    async def _announce_changes(self) -> None:
        """Tell clients that the list of tools has changed, in the way of their era (case R24)."""
        from mcp.server.subscriptions import ToolsListChanged
        from mcp_types import ToolListChangedNotification

        while True:
            await self._changed.wait()
            await asyncio.sleep(_GATHER)
            self._changed.clear()
            if not self.mode.follows_registry:
                continue
            await self._bus.publish(ToolsListChanged())
            for channel in self.sessions.channels():
                await channel.send_notification(ToolListChangedNotification())

    async def _client_gone(self, session: str) -> None:
        if self.parts.hub is not None:
            await self.parts.hub.release(session)

    # ------------------------------------------------------------ requests

    async def _initialized(self, ctx: ServerRequestContext[Any, Any], _params: Any) -> None:
        self.sessions.of(ctx)

    async def _list_tools(self, ctx: ServerRequestContext[Any, Any], _params: Any) -> dict[str, Any]:
        """All tools on one page: clients that read only the first page see them all (R55)."""
        self.sessions.of(ctx)
        await self._refresh()
        tools = self.mode.tools(self.parts.visible)
        return {"resultType": "complete", "tools": tools, "ttlMs": 0, "cacheScope": "private"}

    async def _refresh(self) -> None:
        if self.parts.hub is not None:
            await self.parts.hub.refresh()

    async def _call_tool(self, ctx: ServerRequestContext[Any, Any], params: Any) -> Any:
        session = self.sessions.of(ctx)
        try:
            target = self.mode.target(params.name, params.arguments or {})
            if params.name == "tool_search":
                await self._refresh()
            if isinstance(target, Inspect):
                return self._inspect(target.tool)
            return await self._run(ctx, params, session, target)
        except GeodeError as error:
            return error_result(_readable(error))

    def _inspect(self, name: str) -> dict[str, Any]:
        """A tool's definition in the client's own terms.

        Raises:
            UnknownTool: with the closest names.
        """
        entry = self.parts.registry.entry(name)
        if entry.status != "active" or not self.parts.visible(name):
            return error_result(f"{name} cannot be used: {entry.reason or 'it is denied by policy in this mode'}")
        spec = entry.spec
        shown = {
            "name": name,
            "server": spec.server or None,
            "description": spec.description,
            "inputSchema": dict(spec.parameters),
            "effects": sorted(spec.effects) if spec.effects is not None else "not declared: a person is asked",
            "examples": [dict(e) for e in spec.examples],
        }
        text = json.dumps({k: v for k, v in shown.items() if v}, ensure_ascii=False)
        return text_result(text)

    async def _run(
        self, ctx: ServerRequestContext[Any, Any], params: Any, session: ClientSession, target: Target
    ) -> Any:
        call = Call(
            tool=target.tool,
            arguments=target.arguments,
            origin=Origin.GATEWAY,
            cwd=self.parts.cwd,
            principal=session.principal,
            session=session.id,
            mode=self.parts.mode,
            requested=self.parts.requested,
        )
        if params.request_state is not None:
            result = await self._answered(params, call)
        else:
            result = await self._through_gate(ctx, call)
        if result.status is Status.NEEDS_APPROVAL and params.request_state is None:
            asked = await self._ask(ctx, call, result)
            if not isinstance(asked, ToolResult):
                return asked
            result = asked
        return self._shown(ctx, target, result)

    def _shown(self, ctx: ServerRequestContext[Any, Any], target: Target, result: ToolResult) -> dict[str, Any]:
        out = to_call_result(result, modern=is_modern(ctx))
        entry = self.parts.registry.find(target.tool)
        if target.explain and result.error_code == InvalidArguments.code and entry is not None:
            schema = json.dumps(dict(entry.spec.parameters), ensure_ascii=False)
            out = with_text(out, f"Arguments of {target.tool}: {schema}")
        return out

    async def _through_gate(self, ctx: ServerRequestContext[Any, Any], call: Call) -> ToolResult:
        if "progressToken" not in (ctx.params or {}).get("_meta", {}):
            return await self._undisturbed(call)
        async with self._progress.forward(call.id, ctx.session.report_progress):
            return await self._undisturbed(call)

    async def _undisturbed(self, call: Call) -> ToolResult:
        """Run the call in a task of its own.

        When the client cancels, the SDK's scope would interrupt every later await too; the gate
        must be cancelled once and then be left to end processes and to record the outcome.
        """
        from anyio import CancelScope

        task = asyncio.ensure_future(self.parts.caller.call(call))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.cancel()
            with CancelScope(shield=True):
                await asyncio.wait([task])
            raise

    # ------------------------------------------------------------ approval by the client's person

    async def _ask(self, ctx: ServerRequestContext[Any, Any], call: Call, waiting: ToolResult) -> Any:
        """Ask through the client when it can; else the result that says how to approve stays."""
        import mcp_types as types
        from mcp.shared.exceptions import MCPError

        approval_id = waiting.details.get("approval_id")
        capabilities = ctx.session.client_capabilities
        able = capabilities is not None and capabilities.elicitation is not None
        if self.parts.approvals is None or not isinstance(approval_id, str) or not approval_id or not able:
            return waiting
        arguments = json.dumps(self.parts.redact(dict(call.arguments)), ensure_ascii=False, indent=1)[:2000]
        reason = str((waiting.verdict or {}).get("reason") or "policy asks")
        message = question(call, f"Why: {reason}\nArguments: {arguments}")
        if is_modern(ctx):
            form = types.ElicitRequestFormParams(message=message, requested_schema=FORM)
            return types.InputRequiredResult(
                input_requests={"approval": types.ElicitRequest(params=form)},
                request_state=self._consent.ask(call, approval_id, waiting),
            )
        if not ctx.session.can_send_request:
            return waiting
        try:
            async with asyncio.timeout(self.parts.ask_seconds):
                asked = await ctx.session.elicit_form(message, FORM, related_request_id=ctx.request_id)
        except (TimeoutError, MCPError):  # no answer, or the client cannot show the question after all
            return waiting
        return await self._settle(call, approval_id, Answer.of(asked), waiting)

    async def _answered(self, params: Any, call: Call) -> ToolResult:
        """The same call again, with the person's answer (newer era)."""
        found = self._consent.take(params.request_state, call)
        response = (params.input_responses or {}).get("approval")
        if found is None or response is None:
            return await self._undisturbed(call)
        approval_id, waiting = found
        return await self._settle(call, approval_id, Answer.of(response), waiting)

    async def _settle(self, call: Call, approval_id: str, answer: Answer, waiting: ToolResult) -> ToolResult:
        assert self.parts.approvals is not None
        if answer.given:
            by = f"{call.principal} (asked through the client)"
            await self.parts.approvals.answer(approval_id, answer.approved, by, answer.reason)
            if not answer.approved:
                await self.parts.approvals.told(approval_id)
                text = f"Denied by the person: {answer.reason or 'no reason given'}. It was not run."
                return ToolResult(
                    call_id=call.id, tool=call.tool, status=Status.DENIED, content=(Text(text),), error_code="denied",
                    details={"approval_id": approval_id},
                )  # fmt: skip
        else:
            return waiting
        return await self._undisturbed(replace(call, id=new_id("call")))


def _readable(error: GeodeError) -> str:
    text = f"Error: {error.message}"
    if isinstance(error, InvalidArguments) and error.problems:
        text += "\n" + "\n".join(f"- {p}" for p in error.problems)
    return text + (f"\nTo fix: {error.fix}" if error.fix else "")


def build_server(parts: GatewayParts, expose: Expose = "direct") -> Gateway:
    """A gateway over `parts`; see `stdio.serve_stdio` and `http.serve_http` for the transports."""
    return Gateway(parts, expose)
