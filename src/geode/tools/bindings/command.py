"""A declared tool bound to a program with arguments."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from ...core.effects import Effect
from ...core.errors import ConfigError, InvalidArguments, ToolFailed
from ...core.ports import Captured, ProcessOutcome
from ..templates import Template, as_text
from ..tool import ToolContext, ToolOutput, ToolSpec, Touch
from .common import (
    Arguments,
    NamedVariables,
    Run,
    all_used,
    check_time,
    declared_touches,
    only_keys,
    process,
    properties_of,
    runner_of,
    texts_of,
    whole,
)

__all__ = ["CommandBinding"]


@dataclass(frozen=True, slots=True)
class _Element:
    """One element of a command line, or a group that is left out as a whole."""

    templates: tuple[Template, ...]


@dataclass(frozen=True, slots=True)
class CommandBinding:
    """A fixed program with a list of arguments. No shell, so no quoting and no injection.

    An element whose argument is not given is left out; so is a whole `["--limit", "{limit}"]`
    group. An array fills a lone `{name}` with one element each. A value that begins with `-`
    where it would be read as an option is refused, unless a literal `--` stands before it.
    """

    effects: frozenset[Effect] | None
    elements: tuple[_Element, ...]
    env: tuple[tuple[str, Template], ...]
    stdin: Template | None
    json_output: bool

    @classmethod
    def parse(cls, value: Any, parameters: Mapping[str, Any], effects: frozenset[Effect] | None) -> CommandBinding:
        """Read `["prog", …]` or `{"argv": […], "env": {…}, "stdin": "…", "output": "text" | "json"}`.

        Raises:
            ConfigError
        """
        given: dict[str, Any] = cast("dict[str, Any]", value) if isinstance(value, dict) else {"argv": value}
        only_keys(given, ("argv", "env", "stdin", "output"), "command")
        argv = given.get("argv")
        if not isinstance(argv, list) or not argv:
            raise ConfigError(
                "'command' must be a list: the program and its arguments", fix='like ["wc", "-l", "{file}"]'
            )
        names = properties_of(parameters)
        elements = tuple(_element(item, names) for item in cast("list[Any]", argv))
        program = elements[0].templates
        if len(program) != 1 or program[0].arguments or not program[0].parts:
            raise ConfigError("the program of 'command' must be fixed", fix="an argument may not choose the program")
        env = tuple((k, Template.parse(v, names)) for k, v in texts_of(given.get("env", {}), "env").items())
        stdin = given.get("stdin")
        if stdin is not None and not isinstance(stdin, str):
            raise ConfigError("'stdin' must be a text")
        if given.get("output", "text") not in ("text", "json"):
            raise ConfigError('\'output\' must be "text" or "json"')
        fed = Template.parse(stdin, names) if stdin is not None else None
        used = frozenset[str]().union(
            *(t.arguments for e in elements for t in e.templates),
            *(t.arguments for _, t in env),
            fed.arguments if fed else (),
        )
        all_used(parameters, used, "'command'")
        return cls(effects, elements, env, fed, given.get("output") == "json")

    def argv(self, arguments: Arguments, environ: Mapping[str, str] | None = None) -> list[str]:
        """The command line of one call.

        Raises:
            InvalidArguments: a value would be read as an option, or holds a NUL.
            Missing: a variable is not set.
        """
        values = os.environ if environ is None else environ
        out: list[str] = []
        for element in self.elements:
            texts: list[str] = []
            for template in element.templates:
                rendered = _arguments(template, arguments, values, guard="--" not in out)
                if rendered is None:
                    texts = []
                    break
                texts += rendered
            out += texts
        return out

    def touches(self, arguments: Arguments) -> list[Touch]:
        program = "".join(p.value for p in self.elements[0].templates[0].parts)
        run = Touch(Effect.EXECUTE, program, kind="sandbox")
        return [run, *declared_touches(self.effects, but=frozenset({Effect.EXECUTE}))]

    def view(self, arguments: Arguments) -> str:
        return f"$ {shlex.join(self.argv(arguments, NamedVariables()))}"

    def runner(self, spec: ToolSpec) -> Run:
        async def run(context: ToolContext, arguments: Arguments) -> ToolOutput:
            runner = runner_of(context, spec)
            argv = self.argv(arguments)
            env = {k: text for k, t in self.env if (text := t.render(arguments, os.environ)) is not None}
            fed = self.stdin.render(arguments, os.environ) if self.stdin else None
            stdin = fed.encode("utf-8", "replace") if fed is not None else None
            outcome = await runner.run(process(context, spec, argv, stdin=stdin, env=env))
            check_time(outcome, spec)
            return self._output(outcome)

        return run

    def _output(self, outcome: ProcessOutcome) -> ToolOutput:
        failed = outcome.exit_code != 0
        parts: list[str] = []
        if failed:
            how = f"exit code {outcome.exit_code}" if outcome.exit_code is not None else f"ended by {outcome.signal}"
            parts.append(f"[{how}{f': {outcome.hint}' if outcome.hint else ''}]")
        parts.append(outcome.stdout.text)
        if outcome.stderr.text.strip():
            parts.append(f"[stderr]\n{outcome.stderr.text}")
        structured: Any = None
        if self.json_output and not failed:
            structured = _json_of(outcome.stdout)
        return ToolOutput(
            content="\n".join(p for p in parts if p) or "(no output)",
            structured=structured,
            failed=failed,
            details={"exit_code": outcome.exit_code, "signal": outcome.signal, "backend": outcome.backend},
            spools=tuple(s for s in (outcome.stdout.spool, outcome.stderr.spool) if s is not None),
        )


def _element(item: Any, names: set[str]) -> _Element:
    group = cast("list[Any]", item) if isinstance(item, list) else [item]
    if not group or not all(isinstance(t, str) for t in group):
        raise ConfigError("elements of 'command' must be texts or lists of texts")
    return _Element(tuple(Template.parse(t, names) for t in group))


def _arguments(
    template: Template, arguments: Arguments, environ: Mapping[str, str], *, guard: bool
) -> list[str] | None:
    lone = template.only_argument
    value = arguments.get(lone) if lone else None
    if isinstance(value, list):
        texts = [as_text(v) for v in cast("list[Any]", value)]
        values: list[Any] = cast("list[Any]", value)
    else:
        text = template.render(arguments, environ)
        if text is None:
            return None
        first = template.parts[0] if template.parts else None
        values = [arguments[first.value] if first is not None and first.kind == "argument" else None]
        texts = [text]
    for source, text in zip(values, texts, strict=True):
        if "\0" in text:
            raise InvalidArguments("a value holds a NUL character", problems=("$: a value holds a NUL character",))
        if guard and isinstance(source, str) and text.startswith("-"):
            problem = f"$: {text[:40]!r} begins with '-' and would be read as an option"
            raise InvalidArguments(problem, problems=(problem,), fix="for a file, write ./ before its name")
    return texts


def _json_of(captured: Captured) -> Any:
    text = whole(captured)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ToolFailed(
            f"the output is not JSON: {error}", fix="correct the tool, or declare its output as text"
        ) from error
