"""YAML as a tree that keeps positions and the written text of every scalar.

Plain scalars stay what the author wrote (`on`, `123`, `2024-01-01` are texts); what a YAML 1.2
reader would make of them is kept beside it. Tags are never acted on, so no object is built.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

__all__ = ["Node", "YamlProblem", "read_yaml"]

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_MAX_DEPTH = 100
_MAX_NODES = 20_000
"""Nodes after aliases are followed: a file of a few lines can otherwise describe millions."""

_CORE = (
    ("null", re.compile(r"(?:null|Null|NULL|~|)")),
    ("bool", re.compile(r"(?:true|True|TRUE|false|False|FALSE)")),
    ("int", re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")),
    ("float", re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.nan")),
)


class YamlProblem(ValueError):
    """The text is not YAML. `line` and `column` are 1-based, 0 when unknown."""

    def __init__(self, problem: str, line: int = 0, column: int = 0) -> None:
        super().__init__(problem)
        self.problem = problem
        self.line = line
        self.column = column


@dataclass(frozen=True, slots=True)
class Node:
    """A value and where it starts (1-based).

    Attributes:
        value: a text, a list of nodes, or a list of key and value nodes.
        kind: "text", "list" or "map".
        core: for a text, what YAML 1.2 makes of it: "str", "int", "float", "bool" or "null".
        tag: an explicit tag of the author, which has no effect.
    """

    value: Any
    kind: str
    line: int
    column: int
    core: str = "str"
    tag: str = ""

    @property
    def empty(self) -> bool:
        """True for nothing at all, `null`, an empty text, list or map."""
        return not self.value if self.kind != "text" else self.core == "null" or not self.value.strip()

    def texts(self) -> Any:
        """The value with every scalar as its text, `null` as an empty one."""
        if self.kind == "text":
            return "" if self.core == "null" else self.value
        if self.kind == "list":
            return [item.texts() for item in self.value]
        return {key.one_line(): item.texts() for key, item in self.value}

    def typed(self) -> Any:
        """The value as JSON, scalars as YAML 1.2 reads them."""
        if self.kind == "list":
            return [item.typed() for item in self.value]
        if self.kind == "map":
            return {key.one_line(): item.typed() for key, item in self.value}
        return _typed(self.value, self.core)

    def one_line(self) -> str:
        """A readable line, whatever the kind."""
        if self.kind == "text":
            return self.value
        if self.kind == "list":
            return ", ".join(item.one_line() for item in self.value)
        return ", ".join(f"{key.one_line()}: {item.one_line()}" for key, item in self.value)


def _typed(text: str, core: str) -> Any:
    match core:
        case "null":
            return None
        case "bool":
            return text.lower() == "true"
        case "int":
            if len(text) > 300:
                return text
            return int(text, 8 if text.startswith("0o") else 16 if text.startswith("0x") else 10)
        case "float":
            try:
                number = float(text.replace(".inf", "inf").replace(".nan", "nan"))
            except ValueError:
                return text
            return number if math.isfinite(number) else text
        case _:
            return text


def read_yaml(text: str, *, first_line: int = 1) -> Node | None:
    """Read one YAML document; None when it holds nothing.

    Args:
        text: the document.
        first_line: number of its first line, for positions.

    Raises:
        YamlProblem: it is not YAML, or too large once its aliases are followed.
    """
    try:
        events = yaml.parse(text, Loader=_LOADER)
        tree = _Tree(iter(events), first_line).document()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        what = " ".join(str(part) for part in (error.context, error.problem) if part)
        place = (mark.line + first_line, mark.column + 1) if mark else (0, 0)
        raise YamlProblem(" ".join(what.split()), *place) from error
    except yaml.YAMLError as error:
        position = getattr(error, "position", None)
        line = text.count("\n", 0, position) + first_line if isinstance(position, int) else 0
        raise YamlProblem(" ".join(str(error).split())[:200], line) from error
    except RecursionError as error:
        raise YamlProblem("nested too deeply") from error
    if tree is not None:
        _count(tree, [0], 0)
    return tree


def _count(node: Node, seen: list[int], depth: int) -> None:
    """Refuse what is too much or too deep; aliases make it so although every line is short."""
    seen[0] += 1
    if seen[0] > _MAX_NODES:
        raise YamlProblem("too many values once its aliases are followed", node.line, node.column)
    if depth > _MAX_DEPTH:
        raise YamlProblem("nested too deeply once its aliases are followed", node.line, node.column)
    if node.kind == "list":
        for item in node.value:
            _count(item, seen, depth + 1)
    elif node.kind == "map":
        for key, item in node.value:
            _count(key, seen, depth + 1)
            _count(item, seen, depth + 1)


class _Tree:
    """Builds nodes from parser events."""

    def __init__(self, events: Iterator[Any], first_line: int) -> None:
        self._events = events
        self._first = first_line
        self._anchors: dict[str, Node] = {}

    def document(self) -> Node | None:
        found: Node | None = None
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                if found is not None:
                    raise YamlProblem("more than one document", event.start_mark.line + self._first, 1)
                found = self._node(next(self._events), 0)
        return found

    def _node(self, event: Any, depth: int) -> Node:
        mark = event.start_mark
        line, column = mark.line + self._first, mark.column + 1
        if depth > _MAX_DEPTH:
            raise YamlProblem("nested too deeply", line, column)
        if isinstance(event, yaml.AliasEvent):
            known = self._anchors.get(event.anchor)
            if known is None:
                raise YamlProblem(f"found undefined alias {event.anchor!r}", line, column)
            return Node(known.value, known.kind, line, column, known.core, known.tag)
        tag = event.tag if event.tag not in (None, "!") else ""
        if isinstance(event, yaml.ScalarEvent):
            core = _core(event.value) if event.implicit[0] else "str"
            node = Node(event.value, "text", line, column, core, tag)
        elif isinstance(event, yaml.SequenceStartEvent):
            node = Node(self._items(depth), "list", line, column, tag=tag)
        else:
            items = self._items(depth)
            node = Node(list(zip(items[::2], items[1::2], strict=True)), "map", line, column, tag=tag)
        if event.anchor:  # known from here on only: an alias inside its own anchor is undefined
            self._anchors[event.anchor] = node
        return node

    def _items(self, depth: int) -> list[Node]:
        items: list[Node] = []
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent | yaml.MappingEndEvent):
            items.append(self._node(event, depth + 1))
        return items


def _core(text: str) -> str:
    return next((name for name, pattern in _CORE if pattern.fullmatch(text)), "str")
