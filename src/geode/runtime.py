"""`GeodeRuntime`: the composition root. Wiring and nothing else.

async with GeodeRuntime.create() as runtime:
    result = await runtime.call("read_file", {"path": "README.md"})
"""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import Any

from .agent.loop import AgenticLoop, Limits, LoopParts
from .agent.media import MediaFitter
from .agent.session import Session
from .analysis.secrets import Redactor, known_secrets
from .config.home import default_home, ensure_home
from .config.person import local_user
from .config.settings import Settings, load_settings
from .config.trust import TrustStore
from .containment.egress import GuardedClient
from .containment.paths import BeneathWorkspace
from .containment.sandbox.runner import SandboxRunner
from .core.call import Budget, Call, Decision, new_id
from .core.clock import SystemClock
from .core.effects import Origin
from .core.events import EventBus, EventSink
from .core.messages import ToolResult
from .core.ports import Approver, Judge, Workspace
from .discovery import ToolSearch, tool_search_tool
from .gate.decide import Desk
from .gate.gate import Gate, GateParts
from .gate.record import Recorder
from .mcp.hub import Hub
from .models.model import Model
from .packs import builtin_tools
from .packs.skills import skill_tools
from .policy.engine import PolicyEngine, Question
from .skills.conversation import ConversationSkills
from .skills.library import SkillLibrary, open_library
from .skills.rights import SkillRights
from .store.approvals import Approvals
from .store.audit import AuditLog
from .store.database import Database
from .store.housekeeping import Housekeeping
from .store.idempotency import Idempotency
from .store.results import Results
from .store.transcripts import Transcripts
from .tools.definitions import load_definitions
from .tools.registry import ToolRegistry
from .tools.tool import Tool

__all__ = ["GeodeRuntime", "session_prefix"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeParts:
    """The parts that a runtime offers and a gate is made of."""

    policy: PolicyEngine
    search: ToolSearch
    audit: AuditLog
    results: Results
    approvals: Approvals
    workspace: BeneathWorkspace
    runner: SandboxRunner
    redactor: Redactor
    idempotency: Idempotency
    housekeeping: Housekeeping
    events: EventBus
    skills: SkillLibrary
    rights: SkillRights
    hub: Hub | None

    @classmethod
    def build(
        cls, settings: Settings, database: Database, registry: ToolRegistry, trust: TrustStore, *, servers: bool
    ) -> RuntimeParts:
        """Make the parts; without `servers` MCP servers are left alone."""
        redactor = Redactor(known_secrets(os.environ))
        events = EventBus()
        registry.subscribe(events.emit)
        hub = Hub(settings, trust, registry, events.emit, redact=redactor.text) if servers else None
        audit, results, approvals = AuditLog(database, settings.home), Results(database), Approvals(database)
        idempotency = Idempotency(database)
        policy = PolicyEngine.from_settings(settings)
        skills = open_library(
            settings.project,
            settings.home,
            trusted=lambda: trust.state(settings.project).trusted,
            servers=hub.skills if hub is not None else None,
        )
        return cls(
            policy=policy,
            skills=skills,
            rights=SkillRights(
                skills,
                exists=lambda name: registry.find(name) is not None,
                liftable=policy.default_rules.__contains__,
            ),
            search=ToolSearch(registry, unavailable=lambda: _not_searched(hub)),
            audit=audit,
            results=results,
            approvals=approvals,
            workspace=BeneathWorkspace(settings.project, home=Path.home(), geode_home=settings.home),
            runner=SandboxRunner(settings.sandbox, home=settings.home),
            redactor=redactor,
            idempotency=idempotency,
            housekeeping=Housekeeping(
                marker=settings.home / "housekeeping",
                audit=audit,
                results=results,
                approvals=approvals,
                idempotency=idempotency,
                results_days=settings.results_days,
                audit_days=settings.audit_days,
            ),
            events=events,
            hub=hub,
        )


def _not_searched(hub: Hub | None) -> dict[str, str]:
    """Servers of which no tool is known now, with their state."""
    rows = hub.status() if hub is not None else []
    return {row["name"]: row["state"] for row in rows if not row["tools"] and row["state"] != "ready"}


def _gate_parts(
    settings: Settings,
    registry: ToolRegistry,
    parts: RuntimeParts,
    approver: Approver | None,
    judges: tuple[Judge, ...],
) -> GateParts:
    clock = SystemClock()

    @lru_cache(maxsize=64)
    def workspace_for(cwd: Path) -> Workspace:
        if cwd == settings.project:
            return parts.workspace
        return BeneathWorkspace(cwd, home=Path.home(), geode_home=settings.home)

    return GateParts(
        registry=registry,
        policy=parts.policy,
        desk=Desk(
            approvals=parts.approvals,
            clock=clock,
            redactor=parts.redactor,
            approver=approver,
            judges=(parts.rights, *judges),
            timeout=settings.approval_timeout,
        ),
        recorder=Recorder(parts.audit, parts.redactor),
        results=parts.results,
        idempotency=parts.idempotency,
        redactor=parts.redactor,
        limits=settings.output,
        workspace_for=workspace_for,
        clock=clock,
        events=parts.events,
        runner=parts.runner,
        http=GuardedClient(),
        restrict=parts.rights.restriction,
    )


def _register(
    settings: Settings, registry: ToolRegistry, parts: RuntimeParts, gate: Gate, trusted: bool, tools: Iterable[Tool]
) -> None:
    """Fill the registry: built-in tools, the search, declared tools of a trusted project, tools given in code."""

    def visible(call: Call) -> Callable[[str], bool]:
        def may_see(name: str) -> bool:
            question = Question.of(replace(call, tool=name))
            return parts.policy.evaluate(question).decision is not Decision.DENY

        return may_see

    search = tool_search_tool(parts.search, registry, visible=visible)
    registry.replace_source("builtin", [search, *builtin_tools(), *skill_tools(parts.skills, parts.rights)])
    if trusted:
        registry.replace_source("definitions", load_definitions(settings.project))
    for tool in tools:
        registry.register(tool)
    registry.bind(gate, call_options={"cwd": settings.project, "mode": settings.mode, "principal": local_user()})


class GeodeRuntime:
    """Everything wired together. Made by `create`; used as an async context manager.

    Attributes:
        settings: the layers, resolved.
        registry, search, policy, gate: the one registry, search, policy and door.
        audit, results, approvals, transcripts: the record.
        workspace: guarded files of the project.
        hub: connections to MCP servers; None when created with `servers=False`.
        housekeeping: deletes what is older than the settings keep.
        skills, rights: the skill library, and what active skills change about permissions.
    """

    def __init__(
        self, settings: Settings, database: Database, registry: ToolRegistry, gate: Gate, parts: RuntimeParts
    ) -> None:
        self.settings = settings
        self.registry = registry
        self.gate = gate
        self.policy = parts.policy
        self.search = parts.search
        self.audit = parts.audit
        self.results = parts.results
        self.approvals = parts.approvals
        self.workspace = parts.workspace
        self.runner = parts.runner
        self.hub = parts.hub
        self.redactor = parts.redactor
        self.transcripts = Transcripts(database)
        self.skills = parts.skills
        self.rights = parts.rights
        self._database = database
        self.housekeeping = parts.housekeeping

    @classmethod
    def create(
        cls,
        project: Path | str | None = None,
        home: Path | str | None = None,
        *,
        mode: str | None = None,
        approver: Approver | None = None,
        judges: tuple[Judge, ...] = (),
        tools: Iterable[Tool] = (),
        servers: bool = True,
        overrides: Mapping[str, Any] | None = None,
    ) -> GeodeRuntime:
        """Wire a runtime for one project. Opens the database; starts nothing.

        Args:
            project: workspace root; the current directory by default.
            home: Geode's own data; `$GEODE_HOME` or `~/.geode` by default.
            mode: policy mode, over the settings.
            approver: asks a person; None refuses at once what would ask.
            judges: second opinions on what would ask.
            tools: further tools, registered as code.
            servers: False leaves MCP servers alone.
            overrides: settings of the command-line layer.

        Raises:
            ConfigError: a settings, rule or tool file cannot be used.
            StoreError: the database cannot be opened.
        """
        root = Path(project or Path.cwd()).resolve()
        home_dir = ensure_home(Path(home) if home else default_home())
        trust = TrustStore(home_dir)
        trusted = trust.state(root).trusted
        more = dict(overrides or {}) | ({"mode": mode} if mode else {})
        settings = load_settings(root, home_dir, trusted=trusted, overrides=more)
        database = Database.open(settings.database_url, home=home_dir)
        registry = ToolRegistry()
        parts = RuntimeParts.build(settings, database, registry, trust, servers=servers)
        gate = Gate(_gate_parts(settings, registry, parts, approver, judges))
        _register(settings, registry, parts, gate, trusted, tools)
        return cls(settings, database, registry, gate, parts)

    async def __aenter__(self) -> GeodeRuntime:
        if self.housekeeping.due():
            await self.housekeeping.run()
        if self.hub is not None:
            await self.hub.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """End the servers and close the database. Safe to call twice."""
        if self.hub is not None:
            await self.hub.stop()
        self._database.close()

    async def call(
        self,
        tool: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        origin: Origin = Origin.LIBRARY,
        **fields: Any,
    ) -> ToolResult:
        """Make one call through the gate.

        Args:
            tool: registered name.
            arguments: JSON values.
            origin: which kind of front asks.
            fields: further fields of `Call` (session, principal, mode, node, idempotency_key, …).
        """
        return await self.gate.call(self.make_call(tool, arguments, origin=origin, **fields))

    async def agent(
        self,
        model: Model,
        *,
        session: str = "",
        limits: Limits | None = None,
        residents: str = "coding",
        allow: Iterable[str] = (),
        node: str | None = None,
        prompt: str | None = None,
        suffix: str = "",
    ) -> AgenticLoop:
        """A conversation of this project's person, `model` and the tools of this runtime.

        Args:
            model: is asked.
            session: continues the conversation stored under this id; empty begins a new one.
            limits: what one run may use; None takes the defaults.
            residents: profile of resident tools: "coding" or "assistant".
            allow: tools the person asks for explicitly in this conversation.
            node: pipeline node the agent acts as: its tools and skills are those of the node.
            prompt: instructions with `{skill_context}`; None takes those of the package.
            suffix: appended to the instructions, after the facts about this place.

        Raises:
            StoreError: the stored conversation cannot be read.
        """
        id = session or new_id(session_prefix(self.settings.project))
        conversation = await Session.open(self.transcripts, self.redactor, id=id)
        requested = self.settings.allow | frozenset(allow)

        def make_call(name: str, arguments: Mapping[str, Any]) -> Call:
            return self.make_call(
                name, arguments, origin=Origin.MODEL, session=conversation.id, requested=requested, node=node
            )

        def visible(name: str) -> bool:
            return self.policy.evaluate(Question.of(make_call(name, {}))).decision is not Decision.DENY

        parts = LoopParts(
            model=model,
            gate=self.gate,
            registry=self.registry,
            make_call=make_call,
            visible=visible,
            fit=MediaFitter(model.profile, self.settings.home / "media" / conversation.id).fit,
            skills=ConversationSkills(self.skills, self.rights, conversation.id, node=node),
            prompt=prompt,
            suffix="\n\n".join(filter(None, (_place(self.settings), suffix))),
            residents=residents,
        )
        return AgenticLoop(parts, conversation, limits=limits or Limits())

    def make_call(
        self,
        tool: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        origin: Origin = Origin.LIBRARY,
        **fields: Any,
    ) -> Call:
        """A `Call` with this runtime's project, mode, user and explicitly requested tools."""
        base: dict[str, Any] = {
            "cwd": self.settings.project,
            "mode": self.settings.mode,
            "principal": local_user(),
            "session": f"{origin.value}:{self.settings.project}",
            "requested": self.settings.allow,
            "budget": Budget(),
        }
        base |= {k: v for k, v in fields.items() if v is not None}
        return Call(tool=tool, arguments=arguments or {}, origin=origin, **base)

    def subscribe(self, sink: EventSink) -> Callable[[], None]:
        """Send every event of gate, registry and servers to `sink`; the returned function ends it."""
        return self.gate.subscribe(sink)


def session_prefix(project: Path) -> str:
    """What the ids of a project's conversations begin with, so that they can be listed alone."""
    return "s" + hashlib.sha256(os.fsencode(project)).hexdigest()[:8]


def _place(settings: Settings) -> str:
    """The facts about the place that every agent is told; the same for a whole session."""
    return (
        f"# Where you are\nProject directory: {settings.project} (relative paths start here). "
        f"System: {platform.system()} {platform.machine()}. Policy mode: {settings.mode}."
    )
