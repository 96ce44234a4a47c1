"""Tools declared in `.geode/tools.json`: read strictly, bound to ports, shown before they run."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from geode.core.effects import Effect
from geode.core.errors import ConfigError, InvalidArguments, Missing, ToolFailed, ToolTimeout
from geode.core.ports import Captured, HttpResponse, ProcessOutcome, ProcessSpec
from geode.tools.definitions import load_definitions, parse_definitions
from geode.tools.registry import ToolRegistry
from geode.tools.templates import Template
from geode.tools.tool import FunctionTool, ToolOutput
from tools.helpers import RecordingHttp, RecordingRunner, context, obj, run_raw

STRING = {"type": "string"}
OK = ProcessOutcome(exit_code=0, stdout=Captured(text="out"), backend="test")


def entry(**changes: Any) -> dict[str, Any]:
    made: dict[str, Any] = {
        "name": "count",
        "description": "Counts words.",
        "effects": ["read"],
        "parameters": {**obj(file=STRING), "required": ["file"]},
        "command": ["wc", "-w", "--", "{file}"],
        **changes,
    }
    return {k: v for k, v in made.items() if v is not ...}


def loaded(*entries: Any) -> Any:
    return parse_definitions(json.dumps({"tools": list(entries)}).encode(), "tools.json")


def one(**changes: Any) -> FunctionTool:
    found = loaded(entry(**changes))
    assert found.problems == ()
    return found.tools[0]


def problem(**changes: Any) -> str:
    found = loaded(entry(**changes))
    assert found.tools == ()
    return found.problems[0].reason


async def argv_of(tool: FunctionTool, arguments: dict[str, Any], root: Path) -> tuple[str, ...]:
    runner = RecordingRunner(OK)
    await run_raw(tool, context(root, runner=runner), arguments)
    return runner.asked[0].argv


# ---------------------------------------------------------------- the file


def test_a_project_without_the_file_has_no_declared_tools(tmp_path: Path):
    found = load_definitions(tmp_path)
    assert list(found) == [] and found.problems == ()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"{", "line 1, column 2"),
        (b'{"tools": [}', "column"),
        (b"\xff\xfe", "not UTF-8"),
        (b"3", "expected"),
        (b'{"tools": {}}', "expected"),
        (b"{}", "expected"),
        (b'{"tools": [], "tools": []}', "twice"),
        (b"[" * 100_000, "tools.json"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_clear_error(tmp_path: Path, content: bytes, said: str):
    path = tmp_path / ".geode" / "tools.json"
    path.parent.mkdir()
    path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        load_definitions(tmp_path)
    assert str(path) in caught.value.message
    assert said in caught.value.message
    assert caught.value.fix


def test_a_directory_in_its_place_is_one_clear_error(tmp_path: Path):
    (tmp_path / ".geode" / "tools.json").mkdir(parents=True)
    with pytest.raises(ConfigError, match="not a regular file"):
        load_definitions(tmp_path)


def test_a_bom_and_a_bare_list_are_fine():
    assert len(parse_definitions(b"\xef\xbb\xbf" + json.dumps([entry()]).encode(), "f").tools) == 1


def test_a_faulty_entry_is_named_with_file_and_place_and_the_others_work():
    found = loaded(entry(), entry(name="bad", comand=["x"]), 3, entry(), entry(name="last"))
    assert [t.name for t in found] == ["count", "last"]
    reasons = [p.reason for p in found.problems]
    assert reasons[0].startswith("tools.json: tools[1] (bad): unknown key 'comand'")
    assert "did you mean 'command'" in reasons[0]
    assert reasons[1].startswith("tools.json: tools[2]: an entry must be an object")
    assert "above already" in reasons[2]
    registry = ToolRegistry()
    registry.replace_source("definitions", found)
    assert registry.names() == ("count", "last")
    assert [p.tool for p in registry.problems()] == ["bad", "#2", "count"]
    registry.replace_source("definitions", loaded(entry()))
    assert registry.problems() == ()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"name": ...}, "'name' is missing"),
        ({"name": 3}, "'name' must be a text"),
        ({"description": " "}, "'description' is missing"),
        ({"command": ...}, "exactly one of command, http, python"),
        ({"http": {"url": "https://x.example/{file}"}}, "exactly one of"),
        ({"parameters": {"type": "string"}}, "arguments are an object"),
        ({"parameters": obj(file={"$ref": "#/no"})}, "dangling"),
        ({"effects": ["raed"]}, "unknown effect 'raed'"),
        ({"effects": "read"}, "must be a list"),
        ({"timeout": 0}, "'timeout'"),
        ({"timeout": True}, "'timeout'"),
        ({"idempotent": "yes"}, "'idempotent'"),
        ({"examples": [{"fil": "x"}]}, "examples[0] does not satisfy"),
        ({"examples": {}}, "'examples' must be a list"),
        ({"output_schema": {"type": 3}}, "'output_schema'"),
        ({"max_chars": 1}, "'max_chars'"),
        ({"command": "wc {file}"}, "must be a list"),
        ({"command": []}, "must be a list"),
        ({"command": ["{file}"]}, "must be fixed"),
        ({"command": [["wc", "-l"], "{file}"]}, "must be fixed"),
        ({"command": ["wc", "{fil}"]}, "not a parameter"),
        ({"command": ["wc"]}, "parameter 'file' is used nowhere"),
        ({"command": ["wc", 3]}, "must be texts"),
        ({"command": ["wc", []]}, "must be texts"),
        ({"command": {"argv": ["wc", "{file}"], "shell": True}}, "unknown key 'shell'"),
        ({"command": {"argv": ["wc", "{file}"], "env": ["A"]}}, "'env' must be"),
        ({"command": {"argv": ["wc", "{file}"], "output": "xml"}}, "'output'"),
        ({"command": ..., "python": "os.system"}, "module:function"),
        ({"command": ..., "python": "a/b:c"}, "module:function"),
        ({"command": ..., "python": "m:f(1)"}, "module:function"),
        ({"command": ..., "http": {"url": "{file}"}}, "scheme and host must be fixed"),
        ({"command": ..., "http": {"url": "https://{file}/x"}}, "scheme and host must be fixed"),
        ({"command": ..., "http": {"url": "https://api.example{file}/x"}}, "scheme and host must be fixed"),
        ({"command": ..., "http": {"url": "file:///{file}"}}, "scheme and host must be fixed"),
        ({"command": ..., "http": {"url": "https://u:p@x.example/{file}"}}, "password"),
        ({"command": ..., "http": {"url": "https://x.example/", "method": "GET"}}, "used nowhere"),
        ({"command": ..., "http": {"url": "https://x.example/{file}", "method": "BREW"}}, "unknown HTTP method"),
        ({"command": ..., "http": {"url": "https://x.example/{file}", "headers": {"A": 1}}}, "'headers' must be"),
        ({"command": ..., "http": {"url": "${HOST}{file}"}}, "a path must follow"),
    ],
)
def test_every_mistake_is_reported_in_plain_words(changes: dict[str, Any], said: str):
    assert said in problem(**changes)


def test_arguments_nobody_declared_are_refused():
    assert one().parameters["additionalProperties"] is False


# ---------------------------------------------------------------- commands


async def test_a_command_runs_in_the_sandbox_without_a_shell(tmp_path: Path):
    runner = RecordingRunner(OK)
    hostile = "a; rm -rf ~ $(id) `id` '\" | cat"
    output = await run_raw(one(), context(tmp_path, runner=runner), {"file": hostile})
    (spec,) = runner.asked
    assert spec == ProcessSpec(argv=("wc", "-w", "--", hostile), cwd=tmp_path, limits=spec.limits)
    assert spec.limits.seconds == 60
    assert isinstance(output, ToolOutput)
    assert (output.content, output.failed) == ("out", False)


async def test_only_declared_effects_give_writing_and_network(tmp_path: Path):
    runner = RecordingRunner(OK)
    for effects in (["read"], ["write"], ["network"], [], None):
        await run_raw(
            one(effects=effects or (... if effects is None else [])), context(tmp_path, runner=runner), {"file": "x"}
        )
    assert [bool(s.writable) for s in runner.asked] == [False, True, False, False, False]
    assert [s.network for s in runner.asked] == [False, False, True, False, False]


@pytest.mark.parametrize(
    ("command", "properties", "arguments", "expected"),
    [
        (["p", "{a}"], obj(a=STRING), {"a": "x y"}, ["p", "x y"]),
        (["p", "--a={a}"], obj(a=STRING), {"a": "-x"}, ["p", "--a=-x"]),
        (["p", "{a}"], obj(a=STRING), {}, ["p"]),
        (["p", ["--limit", "{n}"], "z"], obj(n={"type": "integer"}), {"n": 3}, ["p", "--limit", "3", "z"]),
        (["p", ["--limit", "{n}"], "z"], obj(n={"type": "integer"}), {}, ["p", "z"]),
        (["p", "{a}"], obj(a={"type": "array"}), {"a": ["x", 2, True]}, ["p", "x", "2", "true"]),
        (["p", "{a}"], obj(a={"type": "array"}), {"a": []}, ["p"]),
        (["p", "--", "{a}"], obj(a={"type": "array"}), {"a": ["-x", "y"]}, ["p", "--", "-x", "y"]),
        (["p", "{n}"], obj(n={"type": "integer"}), {"n": -3}, ["p", "-3"]),
        (["p", "{a}{b}"], obj(a=STRING, b=STRING), {"a": "1", "b": "2"}, ["p", "12"]),
        (["p", "{{a}} {a}"], obj(a=STRING), {"a": "{b} ${HOME}"}, ["p", "{a} {b} ${HOME}"]),
        (
            ["awk", "{{print $1}}", "{print $2}", "{a}"],
            obj(a=STRING),
            {"a": "f"},
            ["awk", "{print $1}", "{print $2}", "f"],
        ),
        (
            ["p", "$${x}", "${GEODE_TEST_UNSET:-d f}", "$x", "{a}"],
            obj(a=STRING),
            {"a": "f"},
            ["p", "${x}", "d f", "$x", "f"],
        ),
        (["p", "{o}"], obj(o={"type": "object"}), {"o": {"a": [1]}}, ["p", '{"a":[1]}']),
    ],
)
async def test_the_command_line_of_one_call(
    tmp_path: Path, command: Any, properties: Any, arguments: dict[str, Any], expected: list[str]
):
    tool = one(command=command, parameters=properties)
    assert list(await argv_of(tool, arguments, tmp_path)) == expected


@pytest.mark.parametrize("value", ["-rf", "--output=/etc/passwd", "-"])
async def test_T48_a_value_that_would_be_read_as_an_option_is_refused(tmp_path: Path, value: str):
    for command, schema in ((["p", "{a}"], STRING), (["p", "{a}.txt"], STRING), (["p", ["-o", "{a}"]], STRING)):
        with pytest.raises(InvalidArguments, match="option"):
            await argv_of(one(command=command, parameters=obj(a=schema)), {"a": value}, tmp_path)
    with pytest.raises(InvalidArguments, match="option"):
        await argv_of(one(command=["p", "{a}"], parameters=obj(a={"type": "array"})), {"a": ["ok", value]}, tmp_path)


async def test_T48_a_nul_is_refused(tmp_path: Path):
    with pytest.raises(InvalidArguments, match="NUL"):
        await argv_of(one(), {"file": "a\0b"}, tmp_path)


async def test_a_variable_that_is_not_set_is_named_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    tool = one(command={"argv": ["p", "{file}"], "env": {"TOKEN": "${GEODE_TEST_TOKEN}"}})
    monkeypatch.delenv("GEODE_TEST_TOKEN", raising=False)
    runner = RecordingRunner(OK)
    with pytest.raises(Missing, match="GEODE_TEST_TOKEN"):
        await run_raw(tool, context(tmp_path, runner=runner), {"file": "x"})
    assert runner.asked == []
    monkeypatch.setenv("GEODE_TEST_TOKEN", "se${HOME}cret")
    await run_raw(tool, context(tmp_path, runner=runner), {"file": "x"})
    assert runner.asked[0].env == {"TOKEN": "se${HOME}cret"}


async def test_stdin_is_fed(tmp_path: Path):
    runner = RecordingRunner(OK)
    tool = one(command={"argv": ["cat"], "stdin": "<{file}>"})
    await run_raw(tool, context(tmp_path, runner=runner), {"file": "ä"})
    assert runner.asked[0].stdin == "<ä>".encode()


async def test_a_failing_command_is_a_failed_output_with_code_and_stderr(tmp_path: Path):
    answer = ProcessOutcome(exit_code=3, stdout=Captured(text="half"), stderr=Captured(text="why"))
    output = await run_raw(one(), context(tmp_path, runner=RecordingRunner(answer)), {"file": "x"})
    assert output.failed
    assert output.content == "[exit code 3]\nhalf\n[stderr]\nwhy"


async def test_a_command_that_was_stopped_is_a_timeout(tmp_path: Path):
    answer = ProcessOutcome(exit_code=None, signal="SIGKILL", stopped="timeout")
    with pytest.raises(ToolTimeout, match="60 s"):
        await run_raw(one(), context(tmp_path, runner=RecordingRunner(answer)), {"file": "x"})


async def test_json_output_becomes_structured_and_broken_json_an_error(tmp_path: Path):
    tool = one(command={"argv": ["p", "{file}"], "output": "json"})
    answer = ProcessOutcome(exit_code=0, stdout=Captured(text='{"a": 1}'))
    output = await run_raw(tool, context(tmp_path, runner=RecordingRunner(answer)), {"file": "x"})
    assert output.structured == {"a": 1}
    with pytest.raises(ToolFailed, match="not JSON"):
        await run_raw(tool, context(tmp_path, runner=RecordingRunner(OK)), {"file": "x"})


async def test_without_a_sandbox_nothing_runs(tmp_path: Path):
    with pytest.raises(Missing, match="sandbox"):
        await run_raw(one(), context(tmp_path), {"file": "x"})


def test_what_a_command_touches_is_told_before_it_runs():
    def kinds(tool: FunctionTool) -> list[tuple[str, str]]:
        assert tool.spec.touches is not None
        return [(t.effect.value, t.kind) for t in tool.spec.touches({"file": "x"})]

    assert kinds(one()) == [("execute", "sandbox"), ("read", "path")]
    assert kinds(one(effects=["write", "network", "communicate"])) == [
        ("execute", "sandbox"),
        ("communicate", "unknown"),
        ("network", "unknown"),
        ("write", "path"),
    ]
    assert kinds(one(effects=...)) == [("execute", "sandbox"), ("execute", "unknown")]
    assert one(effects=...).spec.effects is None


def test_a_person_sees_the_command_and_never_a_secret(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("GEODE_TEST_TOKEN", "s3cret")
    view = one(command=["curl", "-H", "A: ${GEODE_TEST_TOKEN}", "--", "{file}"]).spec.view
    assert view is not None
    shown = view({"file": "a b; rm"})
    assert shown == "$ curl -H 'A: ${GEODE_TEST_TOKEN}' -- 'a b; rm'"


# ---------------------------------------------------------------- Python


class LocalRunner:
    """Runs the process here, without a sandbox: what is tested is the protocol with the child."""

    def __init__(self) -> None:
        self.asked: list[ProcessSpec] = []

    async def run(self, spec: ProcessSpec) -> ProcessOutcome:
        self.asked.append(spec)
        done = subprocess.run(spec.argv, input=spec.stdin, capture_output=True, cwd=spec.cwd, timeout=30, check=False)
        return ProcessOutcome(
            exit_code=done.returncode,
            stdout=Captured(text=done.stdout.decode("utf-8", "replace")),
            stderr=Captured(text=done.stderr.decode("utf-8", "replace")),
        )


MODULE = """
import asyncio, os, sys
print("imported")
def add(a, b=2):
    print("noise")
    os.write(1, b"raw noise\\n")
    return {"sum": a + b, "text": "\\u00e4"}
async def later(a):
    await asyncio.sleep(0)
    return "later " + str(a)
def fail(a):
    raise ValueError("no " + str(a))
def leave(a):
    sys.exit(3)
def die(a):
    os._exit(7)
def odd(a):
    return object()
def nan(a):
    return float("nan")
def half(a):
    return "\\ud800"
class Group:
    @staticmethod
    def inner(a):
        return a
"""


def python_tool(function: str) -> FunctionTool:
    return one(command=..., python=f"my.tools:{function}", parameters=obj(a={}, b={}))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "my").mkdir()
    (tmp_path / "my" / "tools.py").write_text(MODULE, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("function", "arguments", "structured", "content"),
    [
        ("add", {"a": 1}, {"sum": 3, "text": "ä"}, '{"sum": 3, "text": "ä"}'),
        ("add", {"a": 1, "b": 5}, {"sum": 6, "text": "ä"}, '{"sum": 6, "text": "ä"}'),
        ("later", {"a": "x"}, None, "later x"),
        ("Group.inner", {"a": [1, None]}, [1, None], "[1, null]"),
        ("Group.inner", {"a": None}, None, "null"),
    ],
)
async def test_a_python_function_runs_in_its_own_process(
    project: Path, function: str, arguments: dict[str, Any], structured: Any, content: str
):
    output = await run_raw(python_tool(function), context(project, runner=LocalRunner()), arguments)
    assert not output.failed
    assert (output.structured, output.content) == (structured, content)
    assert "imported" in output.details["printed"]


@pytest.mark.parametrize(
    ("function", "said"),
    [
        ("fail", "ValueError: no x"),
        ("leave", "SystemExit: 3"),
        ("die", "exit code 7"),
        ("odd", "TypeError"),
        ("nan", "ValueError"),
        ("missing", "AttributeError"),
    ],
)
async def test_a_python_function_that_fails_says_why(project: Path, function: str, said: str):
    output = await run_raw(python_tool(function), context(project, runner=LocalRunner()), {"a": "x"})
    assert output.failed
    assert said in output.content


async def test_R05_half_a_character_from_a_function_does_not_lose_the_result(project: Path):
    output = await run_raw(python_tool("half"), context(project, runner=LocalRunner()), {"a": 1})
    assert not output.failed


async def test_a_module_that_does_not_exist_says_so(tmp_path: Path):
    output = await run_raw(python_tool("add"), context(tmp_path, runner=LocalRunner()), {"a": 1})
    assert output.failed and "ModuleNotFoundError" in output.content


# ---------------------------------------------------------------- HTTP


def http_tool(http: Any, properties: Any, **changes: Any) -> FunctionTool:
    return one(command=..., http=http, parameters=properties, **{"effects": ["network"], **changes})


def answer(body: bytes = b"{}", status: int = 200, kind: str = "application/json") -> RecordingHttp:
    return RecordingHttp(HttpResponse(status=status, headers={"Content-Type": kind}, body=body, url="u"))


@pytest.mark.parametrize(
    ("http", "properties", "arguments", "url", "body"),
    [
        (
            {"url": "https://x.example/i/{id}"},
            obj(id=STRING),
            {"id": "a/../b?c#d"},
            "https://x.example/i/a%2F..%2Fb%3Fc%23d",
            None,
        ),
        (
            {"url": "https://x.example/s", "query": {"q": "{q}", "n": "{n}"}},
            obj(q=STRING, n={}),
            {"q": "a&b=c"},
            "https://x.example/s?q=a%26b%3Dc",
            None,
        ),
        (
            {"url": "https://x.example/s?k=1", "query": {"t": "{t}"}},
            obj(t={"type": "array"}),
            {"t": ["a", "b"]},
            "https://x.example/s?k=1&t=a&t=b",
            None,
        ),
        (
            {"url": "https://x.example/s", "method": "post"},
            obj(a={}, b={}),
            {"a": [1], "b": None},
            "https://x.example/s",
            {"a": [1], "b": None},
        ),
        (
            {"url": "https://x.example/{id}", "method": "PUT"},
            obj(id=STRING, v={}),
            {"id": "1", "v": True},
            "https://x.example/1",
            {"v": True},
        ),
        (
            {
                "url": "https://x.example/s",
                "method": "POST",
                "body": {"q": "{q}", "deep": ["{n}", "id-{q}", 7], "gone": "{z}"},
            },
            obj(q=STRING, n={}, z=STRING),
            {"q": "w", "n": {"x": 1}},
            "https://x.example/s",
            {"q": "w", "deep": [{"x": 1}, "id-w", 7]},
        ),
    ],
)
async def test_the_request_of_one_call(
    tmp_path: Path, http: Any, properties: Any, arguments: dict[str, Any], url: str, body: Any
):
    port = answer()
    await run_raw(http_tool(http, properties), context(tmp_path, http=port), arguments)
    (request,) = port.asked
    assert request.url == url
    assert (None if request.body is None else json.loads(request.body)) == body


async def test_a_secret_header_comes_from_the_environment_and_is_never_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("GEODE_TEST_TOKEN", "s3cret")
    http = {"url": "https://x.example/{id}", "headers": {"Authorization": "Bearer ${GEODE_TEST_TOKEN}"}}
    tool = http_tool(http, obj(id=STRING))
    port = answer()
    await run_raw(tool, context(tmp_path, http=port), {"id": "1"})
    assert port.asked[0].headers == {"Authorization": "Bearer s3cret"}
    assert tool.spec.view is not None
    assert "s3cret" not in tool.spec.view({"id": "1"})
    assert "s3cret" not in json.dumps(tool.parameters) + tool.description


async def test_a_line_break_in_a_header_is_refused(tmp_path: Path):
    tool = http_tool({"url": "https://x.example/", "headers": {"X-Q": "{q}"}}, obj(q=STRING))
    port = answer()
    with pytest.raises(InvalidArguments):
        await run_raw(tool, context(tmp_path, http=port), {"q": "a\r\nEvil: 1"})
    assert port.asked == []


@pytest.mark.parametrize("value", ["..", ".", "", None])
async def test_a_dot_segment_or_nothing_cannot_stand_in_the_address(tmp_path: Path, value: Any):
    tool = http_tool({"url": "https://x.example/items/{id}/delete"}, obj(id=STRING))
    with pytest.raises(InvalidArguments):
        await run_raw(tool, context(tmp_path, http=answer()), {"id": value})


async def test_an_error_status_is_a_failed_output(tmp_path: Path):
    tool = http_tool({"url": "https://x.example/{id}"}, obj(id=STRING))
    output = await run_raw(tool, context(tmp_path, http=answer(b'{"e": 1}', 404)), {"id": "1"})
    assert output.failed
    assert output.content == '[HTTP 404]\n{"e": 1}'
    assert output.structured == {"e": 1}
    output = await run_raw(
        tool, context(tmp_path, http=answer("ä".encode("latin-1"), kind="text/plain; charset=latin-1")), {"id": "1"}
    )
    assert (output.failed, output.content, output.structured) == (False, "ä", None)


def test_what_a_request_touches_is_its_own_address():
    tool = http_tool({"url": "https://x.example/{id}"}, obj(id=STRING), effects=["spend"])
    assert tool.spec.effects == frozenset({Effect.SPEND, Effect.NETWORK})
    assert tool.spec.touches is not None
    touches = [(t.effect.value, t.target, t.kind) for t in tool.spec.touches({"id": "a b"})]
    assert touches == [("network", "https://x.example/a%20b", "url"), ("spend", "spend", "unknown")]


def test_an_undeclared_request_asks():
    tool = http_tool({"url": "https://x.example/{id}"}, obj(id=STRING), effects=...)
    assert tool.spec.effects is None
    assert tool.spec.touches is not None
    assert ("execute", "unknown") in [(t.effect.value, t.kind) for t in tool.spec.touches({"id": "1"})]


# ---------------------------------------------------------------- templates


@pytest.mark.parametrize(
    ("text", "rendered"),
    [
        ("{a}", "A"),
        ("x{a}y", "xAy"),
        ("{{a}}", "{a}"),
        ("{{{a}}}", "{A}"),
        ("${V}", "v"),
        ("$${V}", "${V}"),
        ("$V", "$V"),
        ("${V:-d}", "v"),
        ("${U:-d}", "d"),
        ("${U:-}", ""),
        ("${E:-d}", "d"),
        ("{ a }", "{ a }"),
        ("{}", "{}"),
        ("${", "${"),
        ("", ""),
        ("{h}", "{a} ${V}"),
        ("${H}", "{a} ${V}"),
    ],
)
def test_a_template_is_filled_once(text: str, rendered: str):
    template = Template.parse(text, {"a", "h"})
    environ = {"V": "v", "E": "", "H": "{a} ${V}"}
    assert template.render({"a": "A", "h": "{a} ${V}"}, environ) == rendered


def test_a_template_without_its_argument_is_left_out():
    assert Template.parse("x{a}", {"a"}).render({}, {}) is None


def test_a_changed_command_is_another_tool_for_an_approval():
    registry = ToolRegistry()
    registry.replace_source("definitions", loaded(entry()))
    before = registry.entry("count").digest
    change = registry.replace_source("definitions", loaded(entry(command=["rm", "-rf", "--", "{file}"])))
    assert change.changed == ("count",)
    assert registry.entry("count").digest != before


def test_a_pipe_in_the_place_of_the_file_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / ".geode").mkdir()
    os.mkfifo(tmp_path / ".geode" / "tools.json")
    with pytest.raises(ConfigError, match="regular file"):
        load_definitions(tmp_path)
