"""SKILL.md -> `SkillDefinition`, with everything there is to say about the file.

A file either becomes a skill (with warnings where it was odd) or is invalid with file, line,
column and fix. Nothing is dropped silently, and nothing odd ever means more rights:
a front matter that had to be recovered pre-approves nothing, and a restriction that cannot be
read restricts to nothing.
"""

from __future__ import annotations

import codecs
import hashlib
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, model_validator

from .conform import conformance
from .findings import Finding, errors_of
from .frontmatter import Front, read_front
from .grants import tool_names
from .triggers import quoted_phrases, triggers_in
from .yamltree import Node

__all__ = ["MAX_BYTES", "Parsed", "Risk", "SkillDefinition", "parse_skill"]

MAX_BYTES = 1_048_576
"""A SKILL.md is text for a model; a larger file is a mistake."""
_MAX_NAME = 200

Risk = Literal["safe", "caution", "dangerous"]
_RISKS: Mapping[str, Risk] = {
    "safe": "safe", "low": "safe", "caution": "caution", "medium": "caution", "moderate": "caution",
    "dangerous": "dangerous", "high": "dangerous", "critical": "dangerous",
}  # fmt: skip
_NODE_KEYS = {"nodes": "nodes", "node": "nodes", "types": "types", "type": "types", "roles": "roles", "role": "roles"}
GEODE_KEYS = frozenset({"triggers", "tools", "risk", *_NODE_KEYS})
HONOURED_KEYS = frozenset({"disallowed-tools", "disable-model-invocation"})
_NOT_RUN = {"hooks": "hooks of a skill are never run"}
_INLINE = re.compile(r"(?:^|[\s(])!`[^`\n]+`", re.MULTILINE)


class SkillDefinition(BaseModel):
    """A skill: what it is called, when to use it, what it says.

    Attributes:
        name: unique among the skills in use.
        description: what it does and when to use it.
        triggers: phrases that activate it.
        tools: when `restricts`, the only tools that may be used while it is active; shown to the model.
        body: the instructions, Markdown.
        source: path of its SKILL.md, "" when made in code.
        risk: "safe", "caution" (its scripts ask a person and it pre-approves nothing) or
            "dangerous" (activating it asks too).
        restricts: True when `tools` is a restriction, even an empty one.
        allowed_tools: calls that are pre-approved within the policy while it is active, as written.
        denied_tools: tools that may not be used while it is active, as written.
        nodes: pipeline nodes it belongs to, `*` for each; then it is for nodes only.
        types, roles: which of these nodes, by kind and role; empty for all.
        license, compatibility, metadata: as in the Agent Skills specification.
        extra: further keys, kept as written.
        frontmatter: the whole front matter as JSON, scalars as YAML 1.2 reads them.
        folder: absolute folder of its files, "" when made in code.
        origin: "user", "project", "extra", "code", or "mcp:SERVER".
        digest: SHA-256 of the SKILL.md, of all files when a server offers it, "" when made in code.
        recovered: True when the front matter was not valid YAML.
        model_may_activate: False when only a person may activate it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    description: str = ""
    triggers: list[str] = Field(default_factory=list)
    tools: list[str] = Field(default_factory=list)
    body: str = ""
    source: str = ""
    risk: Risk = "safe"
    restricts: bool = False
    allowed_tools: list[str] = Field(default_factory=list)
    denied_tools: list[str] = Field(default_factory=list)
    nodes: list[str] = Field(default_factory=list)
    types: list[str] = Field(default_factory=list)
    roles: list[str] = Field(default_factory=list)
    license: str = ""
    compatibility: str = ""
    metadata: dict[str, Any] = Field(default_factory=dict)
    extra: dict[str, Any] = Field(default_factory=dict)
    frontmatter: dict[str, Any] = Field(default_factory=dict)
    folder: str = ""
    origin: str = "code"
    digest: str = ""
    recovered: bool = False
    model_may_activate: bool = True

    @model_validator(mode="before")
    @classmethod
    def _tools_restrict(cls, data: Any) -> Any:
        """A list of tools is a restriction wherever the skill comes from."""
        if isinstance(data, dict) and cast("dict[str, Any]", data).get("tools"):
            return {**cast("dict[str, Any]", data), "restricts": True}
        return data  # pyright: ignore[reportUnknownVariableType]

    @property
    def server(self) -> str:
        """The MCP server that offers it, or ""."""
        return self.origin.removeprefix("mcp:") if self.origin.startswith("mcp:") else ""

    @property
    def for_nodes_only(self) -> bool:
        """True when it belongs to pipeline nodes and not into the main prompt."""
        return bool(self.nodes)


@dataclass(frozen=True, slots=True)
class Parsed:
    """What became of a file: the skill, or None when it is invalid, and the findings."""

    skill: SkillDefinition | None
    findings: tuple[Finding, ...]
    name: str
    """The name it has or would have."""

    def errors(self, *, strict: bool = False) -> tuple[Finding, ...]:
        return errors_of(self.findings, strict=strict)


def parse_skill(
    data: bytes, *, file: str, folder: str, folder_path: str = "", origin: str = "code", also: tuple[str, ...] = ()
) -> Parsed:
    """Read a SKILL.md.

    Args:
        data: its bytes.
        file: its path, for findings and `source`.
        folder: name of its folder, the name of a skill that declares none.
        folder_path: absolute folder.
        origin: where it comes from.
        also: further names of the folder (a link's target) that the declared name may equal.
    """
    text, findings = _decode(data)
    if text is None:
        return Parsed(None, tuple(f.at(file) for f in findings), folder)
    front = read_front(text)
    front.findings[:0] = findings
    reader = _Reader(front)
    name = reader.name(folder)
    if not errors_of(front.findings):
        conformance(front, name, (folder, *also), GEODE_KEYS, HONOURED_KEYS)
    values = reader.values() if not errors_of(front.findings) else {}
    found = tuple(f.at(file) for f in sorted(front.findings, key=lambda f: (f.level != "error", f.line)))
    if errors_of(found):
        return Parsed(None, found, name)
    skill = SkillDefinition(
        name=name,
        source=file,
        folder=folder_path,
        origin=origin,
        digest=hashlib.sha256(data).hexdigest(),
        recovered=front.recovered,
        body=front.body,
        **values,
    )
    return Parsed(skill, found, name)


def _decode(data: bytes) -> tuple[str | None, list[Finding]]:
    """The text with `\\n` line ends and without a byte order mark (R85)."""

    def invalid(problem: str, fix: str, line: int = 0, column: int = 0) -> tuple[None, list[Finding]]:
        return None, [Finding(level="error", problem=problem, fix=fix, line=line, column=column, strict=True)]

    if len(data) > MAX_BYTES:
        return invalid(f"the file is larger than {MAX_BYTES:,} bytes", "move long material into files beside it")
    findings: list[Finding] = []
    encoding = "utf-8"
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        encoding = "utf-16"
        findings.append(
            Finding(level="warning", problem="the file is UTF-16", fix="save it as UTF-8", line=1, strict=True)
        )
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        before = data[: error.start]
        line = before.count(b"\n") + 1
        column = len(before.rpartition(b"\n")[2].decode("utf-8", "replace")) + 1
        return invalid("the file is not UTF-8 text", "save it as UTF-8", line, column)
    text = text.removeprefix("\ufeff")
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        return invalid("the file holds NUL characters; it is not text", "write it as text", line)
    return text.replace("\r\n", "\n").replace("\r", "\n"), findings


class _Reader:
    """Fields of a front matter as values of a skill."""

    def __init__(self, front: Front) -> None:
        self._front = front
        self._fields = dict(front.fields)
        metadata = front.fields.get("metadata")
        if metadata is not None and metadata.kind == "map":
            for key, value in metadata.value:
                own = key.one_line().removeprefix("geode-")
                if own in GEODE_KEYS and key.one_line().startswith("geode-"):
                    self._fields.setdefault(own, value)

    # ------------------------------------------------------------ single keys

    def name(self, folder: str) -> str:
        """The declared name, else the folder's."""
        node = self._fields.get("name")
        declared = " ".join(node.texts().split()) if node is not None and node.kind == "text" else ""
        if node is not None and node.kind != "text":
            self._front.warn("'name' is not a text; the folder's name is taken", fix="write one name", line=node.line)
        name = unicodedata.normalize("NFKC", declared or folder)
        bad = next((c for c in name if c in "/\\" or unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")), None)
        if bad is not None or name.startswith(".") or len(name) > _MAX_NAME or not name:
            self._front.error(
                f"the name {name[:60]!r} cannot be used",
                fix="use lower-case letters, digits and hyphens, at most 64",
                line=node.line if node else 1,
                column=node.column if node else 1,
            )
        return name

    def values(self) -> dict[str, Any]:
        """Everything but name and body; adds findings."""
        description = self._description()
        pre_approved, allowed_ok = self._tools("allowed-tools")
        restricted, tools_ok = self._tools("tools")
        denied, denied_ok = self._tools("disallowed-tools")
        restricts = "tools" in self._fields or "tools" in self._front.broken
        if not denied_ok or not tools_ok:
            restricted, restricts = [], True
        if restricted == ["*"]:
            restricted, restricts = [], False
        elif restricts and not restricted:
            self._front.warn(
                "'tools' names no tool: while the skill is active it may use none",
                fix="name the tools, or remove the key to restrict nothing",
                line=self._line("tools"),
                strict=False,
            )
        if pre_approved and (self._front.recovered or not allowed_ok):
            pre_approved = []
            self._front.warn(
                "'allowed-tools' pre-approves nothing, because the front matter is not valid YAML",
                fix="correct the front matter",
                line=self._line("allowed-tools"),
                strict=False,
            )
        self._notice_extras()
        return {
            "description": description,
            "triggers": self._triggers(description),
            "tools": restricted,
            "restricts": restricts,
            "allowed_tools": pre_approved,
            "denied_tools": denied,
            "risk": self._risk(),
            **self._node_lists(),
            "license": self._text("license"),
            "compatibility": self._text("compatibility"),
            "metadata": self._metadata(),
            "extra": {key: node.texts() for key, node in self._extras()},
            "frontmatter": {key: node.typed() for key, node in self._front.fields.items()},
            "model_may_activate": self._model_may_activate(),
        }

    def _line(self, key: str) -> int:
        return self._front.lines.get(key, self._front.lines.get("metadata", 0))

    def _text(self, key: str) -> str:
        node = self._fields.get(key)
        return "" if node is None or (node.kind == "text" and node.core == "null") else node.one_line().strip()

    def _description(self) -> str:
        node = self._fields.get("description")
        text = self._text("description")
        if node is None or node.empty or not text:
            self._front.error(
                "the description is missing: nothing says when to use the skill",
                fix="add a line  description: what it does and when to use it",
                line=node.line if node else self._front.lines.get("name", 1),
                column=node.column if node else 1,
            )
        elif node.kind != "text":
            self._front.warn("'description' was taken as text", fix="put it in quotes", line=node.line)
        return text

    def _triggers(self, description: str) -> list[str]:
        node = self._fields.get("triggers")
        found = triggers_in(description)
        if node is not None:
            texts = _flat(node)
            if node.kind == "text":
                texts = quoted_phrases(node.texts())
            found = [*texts, *found]
        return list(dict.fromkeys(text.strip() for text in found if any(c.isalnum() for c in text)))

    def _risk(self) -> Risk:
        node = self._fields.get("risk")
        if node is None and "risk" not in self._front.broken:
            return "safe"
        text = node.texts().strip().casefold() if node is not None and node.kind == "text" else ""
        known = _RISKS.get(text)
        if known is None or "risk" in self._front.broken:
            self._front.warn(
                f"the risk {text or '?'!r} is not known; the skill counts as dangerous",
                fix="use safe, caution or dangerous",
                line=self._line("risk"),
                strict=False,
            )
            return "dangerous"
        return known

    def _model_may_activate(self) -> bool:
        key = "disable-model-invocation"
        node = self._fields.get(key)
        if key in self._front.broken:
            return False
        return node is None or (node.kind == "text" and node.texts().strip().casefold() in ("false", "no", "off", ""))

    # ------------------------------------------------------------ lists

    def _tools(self, key: str) -> tuple[list[str], bool]:
        """Names of a list of tools, and whether it could be read for certain."""
        node = self._fields.get(key)
        if key in self._front.broken:
            return [], False
        names = tool_names(node) if node is not None else []
        if names is None:
            self._front.warn(
                f"{key!r} cannot be read; the strictest meaning is taken",
                fix="write the names with blanks or commas between, or as a list",
                line=self._line(key),
            )
            return [], False
        return names, True

    def _node_lists(self) -> dict[str, list[str]]:
        lists: dict[str, list[str]] = {"nodes": [], "types": [], "roles": []}
        for key, target in _NODE_KEYS.items():
            node = self._fields.get(key)
            if node is not None:
                texts = re.split(r"[\s,]+", node.texts()) if node.kind == "text" else _flat(node)
                lists[target] += [text.strip() for text in texts if text.strip()]
        if not lists["nodes"]:  # `type` and `role` are common words; alone they do not hide a skill from the prompt
            return {}
        return {key: list(dict.fromkeys(names)) for key, names in lists.items()}

    def _metadata(self) -> dict[str, Any]:
        node = self._fields.get("metadata")
        return node.texts() if node is not None and node.kind == "map" else {}

    # ------------------------------------------------------------ the rest

    def _extras(self) -> list[tuple[str, Node]]:
        spec = {"name", "description", "license", "compatibility", "metadata", "allowed-tools"}
        known = spec | HONOURED_KEYS | (GEODE_KEYS if self._node_lists() else {"triggers", "tools", "risk"})
        return [(key, node) for key, node in self._front.fields.items() if key not in known]

    def _notice_extras(self) -> None:
        for key, node in self._extras():
            if key in _NOT_RUN:
                self._front.warn(_NOT_RUN[key], fix=f"remove {key!r}", line=node.line, strict=False)
        found = _INLINE.search(self._front.body)
        if found:
            line = self._front.body_line + self._front.body.count("\n", 0, found.start())
            text = "the form !`command` is shown as it is and never run"
            self._front.findings.append(
                Finding(level="notice", problem=text, fix="say in words which command to run", line=line)
            )


def _flat(node: Node) -> list[str]:
    """All texts of nested lists."""
    if node.kind == "text":
        return [node.texts()]
    items = node.value if node.kind == "list" else [value for _, value in node.value]
    return [text for item in items for text in _flat(item)]
