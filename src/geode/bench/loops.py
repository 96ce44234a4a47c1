# pyright: reportMissingImports=false, reportUntypedBaseClass=false, reportUntypedFunctionDecorator=false
# The peers are installed only where they are measured.
"""One agent loop, run alone in a process: `python -m geode.bench.loops NAME TURNS` prints one JSON line.

Every loop does the same: a scripted model calls one trivial tool in each of TURNS turns, then says
"done". No network, no tracing, nothing printed. Only ours writes anything down: two audit records and
the transcript of every call. Measured is the CPU time of the process from the start of the run to its
end, imports left out, and the source files of the package that are entered from inside one execution of
the tool to inside the next: one whole round of the loop.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

__all__ = ["LOOPS", "MODULES"]

MODULES = {"geode": "geode", "pydantic-ai": "pydantic_ai", "openai-agents": "agents", "inspect-ai": "inspect_ai"}


class _Round:
    """Notes the files of a package that are entered between the second and the third execution of the tool."""

    def __init__(self) -> None:
        self.package = ""
        self.files: set[str] = set()
        self._executed = 0

    def executed(self) -> None:
        """The tool says that it runs."""
        if self.package:
            self._executed += 1
            if self._executed in (2, 3):
                sys.setprofile(self._watch if self._executed == 2 else None)

    def _watch(self, frame: Any, event: str, _argument: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(self.package):
            self.files.add(frame.f_code.co_filename)


_ROUND = _Round()


async def _geode(turns: int) -> tuple[float, str]:
    from geode.core.effects import Effect
    from geode.models.scripted import ScriptedModel, call
    from geode.runtime import GeodeRuntime
    from geode.tools.tool import tool

    @tool(effects=[Effect.READ])
    async def echo(text: str, number: int) -> str:
        """Return the text."""
        _ROUND.executed()
        return text

    def wish(number: int) -> Any:
        return call("call_tool", name="echo", arguments={"text": "hello", "number": number})

    with tempfile.TemporaryDirectory() as project, tempfile.TemporaryDirectory() as home:
        async with GeodeRuntime.create(project, home, servers=False, tools=[echo]) as runtime:
            model = ScriptedModel([*([wish(n)] for n in range(turns)), "done"], context_tokens=10_000_000)
            loop = await runtime.agent(model, limits=_unlimited())
            started = time.process_time()
            outcome = await loop.run("go")
            cpu = time.process_time() - started
            return cpu, outcome.answer


def _unlimited() -> Any:
    from geode.agent.loop import Limits

    return Limits(turns=None)


async def _pydantic_ai(turns: int) -> tuple[float, str]:
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import FunctionModel
    from pydantic_ai.usage import UsageLimits

    number = 0

    def say(_messages: Any, _info: Any) -> Any:
        nonlocal number
        number += 1
        if number > turns:
            return ModelResponse(parts=[TextPart("done")])
        arguments = {"text": "hello", "number": number}
        return ModelResponse(parts=[ToolCallPart("echo", arguments, tool_call_id=f"c{number}")])

    agent: Any = Agent(FunctionModel(say))

    @agent.tool_plain
    async def echo(text: str, number: int) -> str:  # pyright: ignore[reportUnusedFunction]
        """Return the text."""
        _ROUND.executed()
        return text

    started = time.process_time()
    result = await agent.run("go", usage_limits=UsageLimits(request_limit=None))
    return time.process_time() - started, str(result.output)


async def _openai_agents(turns: int) -> tuple[float, str]:
    import agents
    from agents.models.interface import Model
    from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

    agents.set_tracing_disabled(True)

    class Scripted(Model):
        number = 0

        async def get_response(self, *_args: Any, **_kwargs: Any) -> Any:
            self.number += 1
            if self.number > turns:
                text = ResponseOutputText(text="done", type="output_text", annotations=[])
                said = ResponseOutputMessage(
                    id="m", type="message", role="assistant", status="completed", content=[text]
                )
                return agents.ModelResponse(output=[said], usage=agents.Usage(), response_id=None)
            arguments = json.dumps({"text": "hello", "number": self.number})
            wish = ResponseFunctionToolCall(
                id=f"f{self.number}", call_id=f"c{self.number}", type="function_call", name="echo", arguments=arguments
            )
            return agents.ModelResponse(output=[wish], usage=agents.Usage(), response_id=None)

        def stream_response(self, *_args: Any, **_kwargs: Any) -> Any:
            raise RuntimeError("the loop is run without streaming")

    @agents.function_tool
    async def echo(text: str, number: int) -> str:
        """Return the text."""
        _ROUND.executed()
        return text

    agent: Any = agents.Agent(name="bench", model=Scripted(), tools=[echo])
    started = time.process_time()
    result = await agents.Runner.run(agent, "go", max_turns=turns + 5)
    return time.process_time() - started, str(result.final_output)


async def _inspect_ai(turns: int) -> tuple[float, str]:
    from inspect_ai.model import ChatMessageUser, ModelOutput, ModelUsage, execute_tools, get_model
    from inspect_ai.tool import tool

    @tool
    def echo() -> Any:
        async def execute(text: str, number: int) -> str:
            """Return the text.

            Args:
                text: what to return.
                number: which call this is.
            """
            _ROUND.executed()
            return text

        return execute

    def output(number: int) -> Any:
        said = ModelOutput.for_tool_call("mockllm/model", "echo", {"text": "hello", "number": number})
        said.usage = ModelUsage()  # without it the model counts tokens with a table it would have to fetch
        return said

    last = ModelOutput.from_content("mockllm/model", "done")
    last.usage = ModelUsage()
    model = get_model("mockllm/model", custom_outputs=[*(output(n) for n in range(turns)), last])
    messages: list[Any] = [ChatMessageUser(content="go")]
    tools = [echo()]
    started = time.process_time()
    while True:
        answer = await model.generate(messages, tools=tools)
        messages.append(answer.message)
        if not answer.message.tool_calls:
            return time.process_time() - started, str(answer.completion)
        messages += (await execute_tools(messages, tools)).messages


LOOPS: dict[str, Callable[[int], Awaitable[tuple[float, str]]]] = {
    "geode": _geode,
    "pydantic-ai": _pydantic_ai,
    "openai-agents": _openai_agents,
    "inspect-ai": _inspect_ai,
}


def _files_entered(name: str) -> int:
    spec = importlib.util.find_spec(MODULES[name])
    assert spec is not None and spec.origin is not None
    _ROUND.package = str(Path(spec.origin).parent)
    asyncio.run(_run(name, 5))
    return len(_ROUND.files - {__file__})


async def _run(name: str, turns: int) -> tuple[float, str]:
    return await LOOPS[name](turns)


def _main(name: str, turns: int) -> None:
    asyncio.run(_run(name, 5))  # imports and caches
    cpu, answer = asyncio.run(_run(name, turns))
    if answer != "done":
        raise SystemExit(f"{name} ended with {answer!r} instead of 'done'")
    print(json.dumps({"name": name, "cpu_ms": cpu * 1000 / turns, "files": _files_entered(name)}))


if __name__ == "__main__":
    _main(sys.argv[1], int(sys.argv[2]))
