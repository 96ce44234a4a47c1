"""What a tool is: the structural `Tool` protocol, its `ToolSpec`, and the `@tool` decorator.

One tool is one function with everything about it declared where it stands. The function
itself is kept out of reach: a decorated tool has no public callable, and `raw_callable`
is for the gate alone (a test reads the source tree to prove that nobody else calls it).
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, TypeVar, overload, runtime_checkable
from weakref import WeakKeyDictionary

from ..core.call import Call
from ..core.effects import Effect
from ..core.errors import GeodeError
from ..core.messages import Block, SideEffects
from ..core.ports import Caller, Elicitor, Http, ProcessRunner, ResultStore, Sampler, Scheduler, Spawner, Workspace
from .schema import parameters_of, split_docstring

__all__ = [
    "FunctionTool",
    "Problem",
    "Tool",
    "ToolContext",
    "ToolOutput",
    "ToolSpec",
    "Touch",
    "Verification",
    "raw_callable",
    "tool",
]


@runtime_checkable
class Tool(Protocol):
    """Anything with these four members is a tool; no base class is needed."""

    @property
    def name(self) -> str: ...

    @property
    def description(self) -> str: ...

    @property
    def parameters(self) -> dict[str, Any]:
        """JSON Schema 2020-12 of the arguments object."""
        ...

    def execute(self, **kwargs: Any) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True)
class Problem:
    """One finding of a check, with the place it was found (1-based; 0 when unknown)."""

    message: str
    line: int = 0
    column: int = 0
    rule: str = ""
    file: str = ""


@dataclass(frozen=True, slots=True)
class Verification:
    """Result of a tool's own check of its work. `ok` is True when `problems` is empty."""

    checked_with: str
    problems: tuple[Problem, ...] = ()

    @property
    def ok(self) -> bool:
        return not self.problems


@dataclass(frozen=True, slots=True)
class Touch:
    """What one call touches, before scopes are resolved: an effect and a path, URL, host or command."""

    effect: Effect
    target: str
    kind: str = "path"
    """"path" | "url" | "command" | "sandbox" | "service"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOutput:
    """What a tool returns when plain text or JSON is not enough.

    Attributes:
        content: blocks for the model.
        structured: JSON value for programs.
        failed: True when the tool worked but the result is a failure to report (exit code 1).
        side_effects: set it when the tool knows better than its declared effects.
        details: facts for people; never shown to the model.
        spools: files that hold full outputs of which `content` shows a part; the gate stores
            and deletes them.
        notes: normalisations the tool made; shown with the result.
    """

    content: str | Sequence[Block] = ""
    structured: Any = None
    failed: bool = False
    side_effects: SideEffects | None = None
    details: Mapping[str, Any] = field(default_factory=dict[str, Any])
    spools: tuple[Path, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolContext:
    """What a tool may use while it runs. A port that is None is not available here.

    Attributes:
        call: the call being executed; `call.cwd` is the workspace root.
        workspace: guarded file access.
        runner: the sandbox.
        results: full outputs of earlier calls of this session.
        caller: calls another tool, through the gate.
        progress: reports `(message, fraction or None)` to the person watching.
    """

    call: Call
    workspace: Workspace
    progress: Callable[[str, float | None], None]
    runner: ProcessRunner | None = None
    results: ResultStore | None = None
    caller: Caller | None = None
    http: Http | None = None
    elicitor: Elicitor | None = None
    sampler: Sampler | None = None
    spawner: Spawner | None = None
    scheduler: Scheduler | None = None


Touches = Callable[[Mapping[str, Any]], Iterable[Touch]]
Verify = Callable[[ToolContext, Mapping[str, Any], Any], Awaitable[Verification | None]]
View = Callable[[Mapping[str, Any]], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """Everything that is declared about a tool, from whichever source it comes.

    Attributes:
        name: unique in the registry.
        description: what it does, when to use it, its limits, the shape of its result.
        parameters: JSON Schema 2020-12 of the arguments object.
        effects: kinds of effect it can have; None means undeclared, and undeclared asks.
            An empty set is a declaration: no effect at all.
        category: group it is shown under.
        idempotent: True when running it twice equals running it once.
        timeout: seconds for one execution.
        examples: example argument objects.
        output_schema: JSON Schema of `structured`, or None.
        touches: arguments -> what this call touches; None: only the declared kinds are known.
        verify: checks the work after it is done.
        view: arguments -> lines that show a person what will run.
        max_chars: own limit on what the model sees of one result, in characters; None: the gate's.
        server: MCP server it comes from, or "".
        original_name: its name at its source, when different.
        title: a name for people, or "".
        fingerprint: digest of what it is bound to (a command line, a request), where its source
            can tell; part of the entry's digest, so that a changed binding asks again.
        binds: arguments -> digest of what they name, where that can change under the same name (a skill's
            files); an approval is bound to it too. Must not fail.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    effects: frozenset[Effect] | None = None
    category: str = "other"
    idempotent: bool = False
    timeout: float = 120.0
    examples: tuple[Mapping[str, Any], ...] = ()
    output_schema: Mapping[str, Any] | None = None
    touches: Touches | None = None
    verify: Verify | None = None
    view: View | None = None
    max_chars: int | None = None
    server: str = ""
    original_name: str = ""
    title: str = ""
    fingerprint: str = ""
    binds: Callable[[Mapping[str, Any]], str] | None = None

    @property
    def read_only(self) -> bool:
        """True when it is declared to have no effect beyond reading."""
        return self.effects is not None and self.effects <= {Effect.READ}


RawCallable = Callable[[ToolContext, Mapping[str, Any]], Awaitable[Any]]
"""Runs the tool unguarded: context and validated arguments in; str, JSON value or ToolOutput out."""

_RAW: WeakKeyDictionary[FunctionTool, RawCallable] = WeakKeyDictionary()


class FunctionTool:
    """A tool made of one function. Satisfies `Tool`; its function is reachable by the gate only."""

    __slots__ = ("__weakref__", "spec")

    def __init__(self, spec: ToolSpec, run: RawCallable) -> None:
        self.spec = spec
        _RAW[self] = run

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def description(self) -> str:
        return self.spec.description

    @property
    def parameters(self) -> dict[str, Any]:
        return dict(self.spec.parameters)

    def execute(self, **kwargs: Any) -> dict[str, Any]:
        """Always refuses: a tool that is not in a registry has no gate to run it.

        Raises:
            GeodeError: says how to run it.
        """
        raise GeodeError(
            f"{self.name} runs only through a gate",
            fix=f"register it, then: await runtime.call({self.name!r}, …) or registry.get({self.name!r}).execute(…)",
        )

    def with_spec(self, **changes: Any) -> FunctionTool:
        """The same function under a changed declaration (for example another name)."""
        return FunctionTool(replace(self.spec, **changes), _RAW[self])

    def __repr__(self) -> str:
        return f"<tool {self.name}>"


def raw_callable(item: FunctionTool) -> RawCallable:
    """The unguarded function of a tool. For `gate/execute.py` only."""
    return _RAW[item]


F = TypeVar("F", bound=Callable[..., Any])


@overload
def tool(function: Callable[..., Any], /) -> FunctionTool: ...


@overload
def tool(
    function: None = None,
    /,
    *,
    effects: Iterable[Effect | str] | None = None,
    name: str = "",
    category: str = "other",
    idempotent: bool | None = None,
    timeout: float = 120.0,
    examples: Sequence[Mapping[str, Any]] = (),
    touches: Touches | None = None,
    verify: Verify | None = None,
    view: View | None = None,
    max_chars: int | None = None,
) -> Callable[[Callable[..., Any]], FunctionTool]: ...


def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    effects: Iterable[Effect | str] | None = None,
    name: str = "",
    category: str = "other",
    idempotent: bool | None = None,
    timeout: float = 120.0,
    examples: Sequence[Mapping[str, Any]] = (),
    touches: Touches | None = None,
    verify: Verify | None = None,
    view: View | None = None,
    max_chars: int | None = None,
) -> FunctionTool | Callable[[Callable[..., Any]], FunctionTool]:
    """Make a tool of a function: its signature becomes the schema, its docstring the description.

    A first parameter annotated `ToolContext` receives the context and is not part of the
    schema. Google-style `Args:` lines describe the parameters. A sync function runs in a
    worker thread. See `ToolSpec` for the options; `effects=None` leaves them undeclared.

    Raises:
        TypeError: the function cannot be described (no docstring, `*args`, an unsupported annotation).
    """

    declared = None if effects is None else frozenset(_effect(e) for e in effects)

    def decorate(function: Callable[..., Any]) -> FunctionTool:
        schema, run = parameters_of(function, context_type=ToolContext)
        only_reads = declared is not None and declared <= {Effect.READ}
        spec = ToolSpec(
            name=name or function.__name__,
            description=split_docstring(inspect.getdoc(function) or "")[0],
            parameters=schema,
            effects=declared,
            category=category,
            idempotent=only_reads if idempotent is None else idempotent,
            timeout=timeout,
            examples=tuple(examples),
            touches=touches,
            verify=verify,
            view=view,
            max_chars=max_chars,
        )
        return FunctionTool(spec, run)

    return decorate if function is None else decorate(function)


def _effect(value: Effect | str) -> Effect:
    try:
        return Effect(value)
    except ValueError:
        raise TypeError(f"{value!r} is no effect; there are: {', '.join(Effect)}") from None
