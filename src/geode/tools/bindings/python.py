"""A declared tool bound to a Python function of the project."""

from __future__ import annotations

import json
import re
import secrets
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...core.effects import Effect
from ...core.errors import ConfigError
from ...core.ports import ProcessOutcome
from ..tool import ToolContext, ToolOutput, ToolSpec, Touch
from .common import Arguments, Run, check_time, declared_touches, process, runner_of, whole

__all__ = ["PythonBinding"]

_BOOT = """
import asyncio, contextlib, importlib, inspect, json, os, sys
given = json.load(sys.stdin)
sys.path.insert(0, os.getcwd())
out = os.fdopen(os.dup(1), "w", encoding="utf-8")
os.dup2(2, 1)
try:
    with contextlib.redirect_stdout(sys.stderr):
        target = importlib.import_module(given["module"])
        for part in given["function"].split("."):
            target = getattr(target, part)
        value = target(**given["arguments"])
        if inspect.isawaitable(value):
            async def wait():
                return await value
            value = asyncio.run(wait())
    answer = json.dumps({"value": value}, allow_nan=False)
except BaseException as error:
    answer = json.dumps({"error": type(error).__name__ + ": " + str(error)})
    if not isinstance(error, Exception):
        print(answer, file=sys.stderr)
out.write(given["mark"] + answer + "\\n")
out.flush()
"""
_TARGET = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")


@dataclass(frozen=True, slots=True)
class PythonBinding:
    """A function of the project, run by a Python process in the sandbox; never imported into Geode.

    It takes the arguments by name and returns a JSON value. What it prints goes to stderr.
    """

    effects: frozenset[Effect] | None
    module: str
    function: str

    @classmethod
    def parse(cls, value: Any, parameters: Mapping[str, Any], effects: frozenset[Effect] | None) -> PythonBinding:
        """Read `"package.module:function"`.

        Raises:
            ConfigError
        """
        if not isinstance(value, str) or not _TARGET.fullmatch(value):
            raise ConfigError(f"'python' must be \"module:function\", not {value!r}", fix='like "tools.scoring:score"')
        module, _, function = value.partition(":")
        return cls(effects, module, function)

    def touches(self, arguments: Arguments) -> list[Touch]:
        run = Touch(Effect.EXECUTE, f"python {self.module}:{self.function}", kind="sandbox")
        return [run, *declared_touches(self.effects, but=frozenset({Effect.EXECUTE}))]

    def view(self, arguments: Arguments) -> str:
        return f"python {self.module}:{self.function}({json.dumps(dict(arguments), ensure_ascii=False)})"

    def runner(self, spec: ToolSpec) -> Run:
        async def run(context: ToolContext, arguments: Arguments) -> ToolOutput:
            runner = runner_of(context, spec)
            mark = secrets.token_hex(16)
            given = {"module": self.module, "function": self.function, "arguments": dict(arguments), "mark": mark}
            request = process(
                context,
                spec,
                (sys.executable, "-I", "-B", "-X", "utf8", "-c", _BOOT),
                stdin=json.dumps(given).encode(),
                env={},
            )
            outcome = await runner.run(request)
            check_time(outcome, spec)
            return _python_output(outcome, mark, spec)

        return run


def _python_output(outcome: ProcessOutcome, mark: str, spec: ToolSpec) -> ToolOutput:
    try:
        answers = [line for line in whole(outcome.stdout).splitlines() if line.startswith(mark)]
    finally:
        if outcome.stdout.spool is not None:
            outcome.stdout.spool.unlink(missing_ok=True)
    spools = (outcome.stderr.spool,) if outcome.stderr.spool is not None else ()
    logs = outcome.stderr.text.strip()
    if not answers:
        how = f"exit code {outcome.exit_code}" if outcome.exit_code is not None else f"ended by {outcome.signal}"
        text = f"[{spec.name} gave no result, {how}]" + (f"\n{logs}" if logs else "")
        return ToolOutput(content=text, failed=True, spools=spools)
    answer = json.loads(answers[-1][len(mark) :])
    details = {"printed": logs} if logs else {}
    if "error" in answer:
        text = answer["error"] + (f"\n{logs}" if logs else "")
        return ToolOutput(content=text, failed=True, details=details, spools=spools)
    value = answer["value"]
    if isinstance(value, str):
        return ToolOutput(content=value, details=details, spools=spools)
    content = json.dumps(value, ensure_ascii=False)
    return ToolOutput(content=content, structured=value, details=details, spools=spools)
