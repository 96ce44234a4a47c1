"""Nothing but the gate reaches a raw callable, and every front goes through the gate."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

import geode
from geode.core.effects import Effect
from geode.core.errors import GeodeError
from geode.tools.registry import ToolRegistry
from geode.tools.tool import tool

SOURCE = Path(geode.__file__).parent
MAY_ASK = {"gate/execute.py"}
DEFINES = "tools/tool.py"


def _names(tree: ast.AST) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.alias):
            found |= {node.name, node.asname or ""}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value)  # getattr(module, "raw_callable") is caught too
    return found


def test_only_the_gate_asks_for_raw_callables() -> None:
    users = {
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        if _names(ast.parse(path.read_text("utf-8"))) & {"raw_callable", "_RAW"}
    }
    assert users - {DEFINES} == MAY_ASK


def test_only_the_gate_runs_execute() -> None:
    users = {
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ImportFrom) and (node.module or "").endswith("execute")
        if any(alias.name in {"execute", "*"} for alias in node.names)
    }
    assert users == {"gate/gate.py"}


@tool(effects=[Effect.READ])
def secret_function(x: int) -> str:
    """Return a thing."""
    return f"ran {x}"


def test_a_tool_outside_a_registry_refuses_to_run() -> None:
    with pytest.raises(GeodeError, match="only through a gate"):
        secret_function.execute(x=1)
    assert not callable(secret_function)


def test_a_tool_in_a_registry_without_a_gate_refuses_to_run() -> None:
    registry = ToolRegistry()
    registry.register(secret_function)
    with pytest.raises(GeodeError, match="gate"):
        registry.get("secret_function").execute(x=1)


def _reachable(value: Any, depth: int = 3) -> list[Any]:
    """Everything one gets by following public attributes."""
    if depth == 0:
        return []
    out: list[Any] = []
    for name in dir(value):
        if name.startswith("_"):
            continue
        found = getattr(value, name)
        out.append(found)
        if type(found).__module__.startswith("geode"):
            out += _reachable(found, depth - 1)
    return out


async def test_the_function_is_not_reachable_over_public_attributes(make: Any) -> None:
    registry = make(tools=[secret_function]).registry
    for holder in (registry.get("secret_function"), registry.entry("secret_function"), secret_function):
        for found in _reachable(holder):
            code = getattr(found, "__code__", None)
            assert code is None or code.co_name != "secret_function"


async def test_the_facade_of_the_registry_is_recorded_like_every_call(make: Any) -> None:
    runtime = make(tools=[secret_function])
    result = await runtime.registry.get("secret_function").aexecute(x=2)
    assert result["status"] == "ok" and result["content"] == "ran 2"
    assert len(await runtime.audit.show(result["call_id"])) == 2


async def test_the_facade_is_denied_like_every_call(make: Any) -> None:
    runtime = make(tools=[secret_function], mode="no_such_mode")
    result = await runtime.registry.get("secret_function").aexecute(x=2)
    assert result["status"] == "denied"
    assert "ran" not in result["content"]
