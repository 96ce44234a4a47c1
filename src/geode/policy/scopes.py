"""Node scopes: what a node of a pipeline may call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ..core.call import Decision, TraceStep
from .defaults import DEFAULTS
from .globs import Names

__all__ = ["NODE_TOOL_ALLOWLISTS", "NodeScopePolicy"]

NODE_TOOL_ALLOWLISTS: dict[str, list[str]] = {node: list(tools) for node, tools in DEFAULTS.data["node_scopes"].items()}
"""The scopes of `defaults.toml`."""

POLICY_NAME = "node_scope"


class NodeScopePolicy:
    """Each node may call the tools of its list and nothing else.

    A list named `analyst` is that of the nodes `analyst` and `analyst_…`; the longest name that
    fits wins. A node without a list may call nothing; no node (None) is not restricted.

    Args:
        allowlists: node -> tools (names or globs); None: the defaults.
        narrowed: further lists that must allow too, for the nodes they fit (a project's).
    """

    def __init__(
        self,
        allowlists: Mapping[str, Iterable[str]] | None = None,
        *,
        narrowed: Mapping[str, Iterable[str]] | None = None,
    ) -> None:
        lists = NODE_TOOL_ALLOWLISTS if allowlists is None else allowlists
        self._lists = {node: Names(tools) for node, tools in lists.items()}
        self._narrowed = {node: Names(tools) for node, tools in (narrowed or {}).items()}
        self.allowlists = {node: sorted(tools) for node, tools in lists.items()}
        """As given, for showing."""

    def knows(self, node: str) -> bool:
        return _longest(self._lists, node) is not None

    def check(self, tool: str, node: str | None) -> bool:
        """Whether `node` may call `tool`."""
        return self.explain(tool, node).verdict is Decision.ALLOW

    def explain(self, tool: str, node: str | None) -> TraceStep:
        """The same, as a trace step with the reason."""
        if node is None:
            return TraceStep(POLICY_NAME, Decision.ALLOW, "no node")
        name = _longest(self._lists, node)
        if name is None:
            known = ", ".join(self._lists)
            return TraceStep(POLICY_NAME, Decision.DENY, f"unknown node {node!r}; known nodes: {known}")
        if tool not in self._lists[name]:
            tools = ", ".join(self.allowlists[name]) or "nothing"
            return TraceStep(POLICY_NAME, Decision.DENY, f"node {node} may call only: {tools}")
        narrow = _longest(self._narrowed, node)
        if narrow is not None and tool not in self._narrowed[narrow]:
            return TraceStep(POLICY_NAME, Decision.DENY, f"the project narrows node {node} and leaves out {tool}")
        return TraceStep(POLICY_NAME, Decision.ALLOW, f"in the scope of node {name}")

    def filter(self, names: Sequence[str], node: str | None) -> list[str]:
        """Those of `names` that `node` may call, in their order."""
        return list(names) if node is None else [n for n in names if self.check(n, node)]


def _longest(lists: Mapping[str, object], node: str) -> str | None:
    """The longest key that is the node or, followed by `_`, begins it."""
    name = node
    while name not in lists:
        name, separator, _ = name.rpartition("_")
        if not separator:
            return None
    return name
