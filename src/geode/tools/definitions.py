"""Tools declared in `.geode/tools.json`, bound to a command, an HTTP request or a Python function.

    {"tools": [
      {"name": "count_words", "description": "…", "effects": ["read"],
       "parameters": {"type": "object", "properties": {"file": {"type": "string"}}, "required": ["file"]},
       "command": ["wc", "-w", "--", "{file}"]},
      {"name": "get_issue", …, "http": {"method": "GET", "url": "https://api.example.com/issues/{id}",
                                        "headers": {"Authorization": "Bearer ${ISSUES_TOKEN}"}}},
      {"name": "score", …, "python": "scoring:score"}]}

Nothing of it runs inside Geode: commands and Python functions run in the sandbox, requests
go through the guarded HTTP port. Whoever loads a project's file must have its trust first.
"""

from __future__ import annotations

import hashlib
import json
import stat
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, cast

from ..core.call import canonical_json
from ..core.effects import Effect
from ..core.errors import ConfigError
from .bindings import Binding, CommandBinding, HttpBinding, PythonBinding
from .entries import LoadedTools, ToolProblem
from .schema import SchemaError, Validator, check_schema
from .tool import FunctionTool, ToolSpec

__all__ = ["FILE", "load_definitions", "parse_definitions"]

FILE = Path(".geode") / "tools.json"
MAX_BYTES = 4 * 1024 * 1024

_BINDINGS: dict[str, Callable[[Any, Mapping[str, Any], frozenset[Effect] | None], Binding]] = {
    "command": CommandBinding.parse,
    "http": HttpBinding.parse,
    "python": PythonBinding.parse,
}
_KEYS = (
    "name",
    "title",
    "description",
    "parameters",
    "effects",
    "category",
    "idempotent",
    "timeout",
    "examples",
    "output_schema",
    "max_chars",
    *_BINDINGS,
)


def load_definitions(project: Path) -> LoadedTools:
    """The tools of `PROJECT/.geode/tools.json`; none when there is no such file.

    A faulty entry is left out and reported in `problems`; the others work.

    Raises:
        ConfigError: the file as a whole cannot be read; names it and says how to correct it.
    """
    path = project / FILE
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # a pipe would be waited for, a device never ends
            raise ConfigError(f"{path} is not a regular file", fix="replace it by one, or remove it")
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return LoadedTools()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}", fix="make it readable, or remove it") from error
    if len(data) > MAX_BYTES:
        raise ConfigError(f"{path} is larger than {MAX_BYTES} bytes", fix="split it; it holds declarations only")
    return parse_definitions(data, str(path))


def parse_definitions(data: bytes, file: str) -> LoadedTools:
    """Like `load_definitions`, from the content; `file` is named in errors."""
    try:
        document: Any = json.loads(data.decode("utf-8-sig"), object_pairs_hook=_no_doubles)
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file} is not UTF-8 (byte {error.start})", fix="save it as UTF-8") from error
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise ConfigError(f"{file}: not JSON: {error.msg} ({where})", fix="correct that place") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{file}: {error}", fix="correct that place") from error
    entries = cast(Any, document).get("tools") if isinstance(document, dict) else document
    if not isinstance(entries, list):
        raise ConfigError(f'{file}: expected {{"tools": [ … ]}}', fix="put the list of tools under the key `tools`")
    tools: dict[str, FunctionTool] = {}
    problems: list[ToolProblem] = []
    for at, entry in enumerate(cast("list[Any]", entries)):
        name = str(cast(Any, entry).get("name", "")) if isinstance(entry, dict) else ""
        where = f"{file}: tools[{at}]{f' ({name})' if name else ''}"
        try:
            tool = _tool(entry)
            if tool.name in tools:
                raise ConfigError("a tool of this name stands above already", fix="give it another name")
            tools[tool.name] = tool
        except ConfigError as error:
            fix = f"; {error.fix}" if error.fix else ""
            problems.append(ToolProblem(name or f"#{at}", "definitions", "", "quarantined", f"{where}: {error}{fix}"))
    return LoadedTools(tuple(tools.values()), tuple(problems))


def _no_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for key, value in pairs:
        if key in out:
            raise ValueError(f"the key {key!r} stands twice in one object")
        out[key] = value
    return out


def _tool(entry: Any) -> FunctionTool:
    if not isinstance(entry, dict):
        raise ConfigError("an entry must be an object")
    given = cast("dict[str, Any]", entry)
    for key in given:
        if key not in _KEYS:
            close = get_close_matches(key, _KEYS, n=1)
            raise ConfigError(f"unknown key {key!r}", fix=f"did you mean {close[0]!r}?" if close else "remove it")
    name = _text(given, "name", required=True)
    description = _text(given, "description", required=True)
    parameters = _parameters(given)
    effects = _effects(given)
    kinds = [k for k in _BINDINGS if k in given]
    if len(kinds) != 1:
        raise ConfigError(f"exactly one of {', '.join(_BINDINGS)} is needed, {len(kinds)} given")
    binding = _BINDINGS[kinds[0]](given[kinds[0]], parameters, effects)
    spec = ToolSpec(
        name=name,
        title=_text(given, "title"),
        description=description,
        parameters=parameters,
        effects=binding.effects,
        category=_text(given, "category") or "declared",
        idempotent=_flag(given, "idempotent"),
        timeout=_timeout(given),
        examples=_examples(given, parameters),
        output_schema=_output_schema(given),
        touches=binding.touches,
        view=binding.view,
        max_chars=_max_chars(given),
        fingerprint=hashlib.sha256(canonical_json(given).encode("utf-8", "surrogatepass")).hexdigest(),
    )
    return FunctionTool(spec, binding.runner(spec))


def _text(given: Mapping[str, Any], key: str, *, required: bool = False) -> str:
    value = given.get(key, "")
    if not isinstance(value, str):
        raise ConfigError(f"{key!r} must be a text")
    if required and not value.strip():
        raise ConfigError(f"{key!r} is missing", fix=f"add {key!r}")
    return value.strip()


def _flag(given: Mapping[str, Any], key: str) -> bool:
    value = given.get(key, False)
    if not isinstance(value, bool):
        raise ConfigError(f"{key!r} must be true or false")
    return value


def _timeout(given: Mapping[str, Any]) -> float:
    value = given.get("timeout", 60)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 3600:
        raise ConfigError("'timeout' must be a number of seconds up to 3600")
    return float(value)


def _max_chars(given: Mapping[str, Any]) -> int | None:
    value = given.get("max_chars")
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 100:
        raise ConfigError("'max_chars' must be a whole number of at least 100")
    return value


def _parameters(given: Mapping[str, Any]) -> dict[str, Any]:
    """The schema, closed unless it says otherwise: an argument nobody uses is a mistake."""
    schema = given.get("parameters", {"type": "object", "properties": {}})
    try:
        modern = check_schema(schema)
    except SchemaError as error:
        raise ConfigError(f"'parameters': {error.message}", fix=error.fix) from error
    modern.setdefault("properties", {})
    modern.setdefault("additionalProperties", False)
    return modern


def _output_schema(given: Mapping[str, Any]) -> dict[str, Any] | None:
    schema = given.get("output_schema")
    if schema is None:
        return None
    try:
        return check_schema(schema)
    except SchemaError as error:
        raise ConfigError(f"'output_schema': {error.message}", fix=error.fix) from error


def _effects(given: Mapping[str, Any]) -> frozenset[Effect] | None:
    names = given.get("effects")
    if names is None:
        return None
    known = ", ".join(e.value for e in Effect)
    if not isinstance(names, list) or not all(isinstance(n, str) for n in cast("list[Any]", names)):
        raise ConfigError("'effects' must be a list of texts", fix=f"known: {known}")
    unknown = [n for n in cast("list[str]", names) if n not in set(Effect)]
    if unknown:
        raise ConfigError(f"unknown effect {unknown[0]!r}", fix=f"known: {known}")
    return frozenset(Effect(n) for n in cast("list[str]", names))


def _examples(given: Mapping[str, Any], parameters: Mapping[str, Any]) -> tuple[dict[str, Any], ...]:
    examples = given.get("examples", [])
    if not isinstance(examples, list):
        raise ConfigError("'examples' must be a list of argument objects")
    validator = Validator(parameters)
    for at, example in enumerate(cast("list[Any]", examples)):
        problems = validator.problems(example)
        if problems:
            raise ConfigError(f"examples[{at}] does not satisfy 'parameters': {problems[0]}")
    return tuple(cast(Iterable[dict[str, Any]], examples))
