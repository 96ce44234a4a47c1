"""What the built-in tools declare: descriptions, examples, effects, and what importing them costs."""

from __future__ import annotations

import subprocess
import sys

import jsonschema
import pytest

from geode.core.effects import Effect
from geode.packs import builtin_tools

TOOLS = builtin_tools()
IDS = [item.name for item in TOOLS]


def test_the_tools_of_the_first_issue_are_there() -> None:
    assert IDS == [
        "read_file",
        "list_directory",
        "find_file",
        "grep_file",
        "read_document",
        "write_file",
        "edit_file",
        "shell_exec",
        "code_interpreter",
    ]


@pytest.mark.parametrize("item", TOOLS, ids=IDS)
def test_T8_T13_descriptions_say_when_what_not_result_and_cost(item: object) -> None:
    spec = item.spec  # type: ignore[attr-defined]
    text = spec.description
    for words in (("Use it",), ("not ", "no "), ("Result:",), ("cheap", "Cost", "cost", "tokens")):
        assert any(word in text for word in words), words
    assert 1 <= len(spec.examples) <= 5
    for example in spec.examples:
        jsonschema.Draft202012Validator(spec.parameters).validate(example)
    for name, schema in spec.parameters["properties"].items():
        assert schema.get("description"), f"{spec.name}.{name} has no description"
    assert spec.parameters["additionalProperties"] is False


@pytest.mark.parametrize("item", TOOLS, ids=IDS)
def test_effects_and_touches_are_declared(item: object) -> None:
    spec = item.spec  # type: ignore[attr-defined]
    assert spec.effects is not None and spec.touches is not None
    touched = {touch.effect for example in spec.examples for touch in spec.touches(example)}
    assert touched <= spec.effects | {Effect.READ}
    if spec.effects - {Effect.READ}:
        assert spec.view is not None and spec.view(spec.examples[0])
        assert not spec.idempotent


def test_a_stored_result_touches_no_file() -> None:
    spec = TOOLS[0].spec
    assert spec.touches is not None
    assert list(spec.touches({"path": "result:abc"})) == []


@pytest.mark.parametrize("child", ["geode.packs.perception.reader.__main__", "geode.packs.execution.interpreter"])
def test_the_children_import_little(child: str) -> None:
    code = f"import sys, {child}; print([m for m in ('pydantic', 'sqlalchemy', 'mcp', 'asyncio') if m in sys.modules])"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert output.stdout.strip() == "[]"
