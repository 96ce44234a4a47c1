"""The rules of the Agent Skills specification (agentskills.io) for a front matter.

What breaks them is a warning: the skill still loads, as the specification's guide for
implementers advises. In strict mode, which is opt-in, each is an error (R62, R88).
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection

from .findings import Finding
from .frontmatter import Front

__all__ = ["SPEC_KEYS", "conformance", "is_conforming_name"]

SPEC_KEYS = frozenset({"name", "description", "license", "compatibility", "metadata", "allowed-tools"})
_MAX_NAME, _MAX_DESCRIPTION, _MAX_COMPATIBILITY = 64, 1024, 500


def name_problems(name: str) -> list[str]:
    """What is wrong with a name by the specification; [] when nothing is."""
    name = unicodedata.normalize("NFKC", name.strip())
    problems: list[str] = []
    if len(name) > _MAX_NAME:
        problems.append(f"the name exceeds the limit of {_MAX_NAME} characters ({len(name)})")
    if name != name.lower():
        problems.append(f"the name {name!r} must be lowercase")
    if name.startswith("-") or name.endswith("-"):
        problems.append("the name cannot start or end with a hyphen")
    if "--" in name:
        problems.append("the name cannot contain consecutive hyphens")
    if not all(c.isalnum() or c == "-" for c in name):
        problems.append(f"the name {name!r} contains invalid characters: only letters, digits and hyphens are allowed")
    return problems


def is_conforming_name(name: str) -> bool:
    """True when the specification allows it."""
    return bool(name) and not name_problems(name)


def conformance(
    front: Front, name: str, folders: Collection[str], own: Collection[str], honoured: Collection[str]
) -> None:
    """Add what breaks the specification to the findings of `front`.

    Args:
        front: the front matter.
        name: the name the skill has.
        folders: names of its folder.
        own: keys that are Geode's own.
        honoured: keys of other agents that Geode acts on.
    """
    _names(front, name, folders)
    _lengths(front)
    allowed = front.fields.get("allowed-tools")
    if allowed is not None:
        items = allowed.value if allowed.kind == "list" else [allowed]
        if allowed.kind == "map" or any(item.kind != "text" or item.core not in ("str", "null") for item in items):
            front.warn(
                "'allowed-tools' must be a string or a list of strings",
                fix="write names: allowed-tools: read_file grep_file",
                line=allowed.line,
                column=allowed.column,
            )
    metadata = front.fields.get("metadata")
    if metadata is not None and metadata.kind != "map" and not metadata.empty:
        front.warn("'metadata' must be a map", fix="write `metadata:` and indented `key: value` lines",
                   line=metadata.line, column=metadata.column)  # fmt: skip
    _keys(front, own, honoured)


def _names(front: Front, name: str, folders: Collection[str]) -> None:
    node = front.fields.get("name")
    line, column = (node.line, node.column) if node else (1, 1)
    if node is None or node.empty:
        front.warn(
            f"'name' is missing; the folder's name {name!r} is taken",
            fix=f"add  name: {name}",
            line=line,
            column=column,
        )
    for problem in name_problems(name):
        front.warn(problem, fix="use lower-case letters, digits and single hyphens", line=line, column=column)
    if name not in {unicodedata.normalize("NFKC", folder) for folder in folders}:
        folder = next(iter(folders))
        front.warn(
            f"the folder {folder!r} must match the name {name!r}; it loads as {name!r}",
            fix=f"rename the folder to {name}, or write  name: {folder}",
            line=line,
            column=column,
        )


def _lengths(front: Front) -> None:
    for key, limit in (("description", _MAX_DESCRIPTION), ("compatibility", _MAX_COMPATIBILITY)):
        node = front.fields.get(key)
        if node is None:
            continue
        text = node.one_line()
        if len(text) > limit:
            front.warn(
                f"the {key} exceeds {limit} characters ({len(text)})",
                fix="shorten it; details belong into the body",
                line=node.line,
                column=node.column,
            )
        if key == "compatibility" and node.kind != "text":
            front.warn("'compatibility' must be a text", fix="write one line", line=node.line, column=node.column)


def _keys(front: Front, own: Collection[str], honoured: Collection[str]) -> None:
    for key, node in front.fields.items():
        if key in SPEC_KEYS:
            continue
        if key in own:
            problem = f"the key {key!r} is Geode's own and not in the specification"
            fix = f"for other agents' validators write it as  metadata: {{geode-{key}: …}}"
        elif key in honoured:
            problem, fix = f"the key {key!r} is not in the specification", "keep it: Geode honours it"
        else:
            problem = f"the key {key!r} is not in the specification; it is kept and has no effect"
            fix = f"it belongs under metadata:  metadata: {{{key}: …}}"
        front.findings.append(
            Finding(
                level="notice", problem=problem, fix=fix, line=front.lines.get(key, node.line), column=1, strict=True
            )
        )
