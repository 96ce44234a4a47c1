"""Skills as the MCP extension `io.modelcontextprotocol/skills` describes them: entries with digests.

Both directions: entries of our own skills, and the checks a host owes to what another server
says about its skills (specification of 2026-07-28, "Integrity and Verification"). Digests prove
that entry and content are consistent, not that a server deserves trust.
"""

from __future__ import annotations

import hashlib
import json
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import quote, unquote

from .conform import is_conforming_name
from .document import SkillDefinition, parse_skill
from .files import SkillFile
from .findings import Finding, SkillInvalid

__all__ = [
    "EXTENSION", "INDEX", "RemoteSkill", "entry_of", "listed_skill", "not_served", "parse_entry", "uri_of",
    "verified", "verified_skill",
]  # fmt: skip

EXTENSION = "io.modelcontextprotocol/skills"
INDEX = "skill://index.json"
"""The same entries for clients and servers of the older era, as a plain resource."""
MAX_RESOURCES = 512
MAX_SIZE = 16 * 1024 * 1024
"""Limits that every host accepts, files and bytes of one skill."""
_MARKDOWN = "SKILL.md"


# ---------------------------------------------------------------- ours


def uri_of(skill: str, file: str = "") -> str:
    """`skill://NAME/FILE`; without a file the skill's folder."""
    root = f"skill://{quote(skill, safe='-')}"
    return f"{root}/{quote(file, safe='/-._~')}" if file else root


def not_served(skill: SkillDefinition, files: Sequence[SkillFile]) -> str:
    """Why a skill cannot be offered over MCP, or ""."""
    if not is_conforming_name(skill.name) or skill.frontmatter.get("name") != skill.name:
        return "its name does not conform to the specification"
    if skill.recovered or skill.frontmatter.get("description") != skill.description:
        return "its front matter does not conform to the specification"
    if skill.risk == "dangerous":
        return "it is marked dangerous, and reading it over MCP asks nobody"
    if skill.for_nodes_only:
        return "it belongs to pipeline nodes"
    if not any(file.name == _MARKDOWN for file in files):
        return "its file is not named SKILL.md"
    if len(files) > MAX_RESOURCES or sum(file.size for file in files) > MAX_SIZE:
        return f"it holds more than {MAX_RESOURCES} files or {MAX_SIZE:,} bytes"
    return ""


def entry_of(skill: SkillDefinition, files: Sequence[SkillFile]) -> dict[str, Any]:
    """The `Skill` entry: where its SKILL.md is, its front matter, every file with digest and size."""
    return {
        "uri": uri_of(skill.name, _MARKDOWN),
        "frontmatter": skill.frontmatter,
        "resources": [
            {"uri": uri_of(skill.name, file.name), "digest": f"sha256:{file.sha256}", "size": file.size}
            for file in files
        ],
    }


# ---------------------------------------------------------------- of other servers


@dataclass(frozen=True, slots=True)
class RemoteSkill:
    """A skill that another server offers. It is known by server and URI together, never by name alone.

    Attributes:
        server: our label of the server.
        uri: of its SKILL.md.
        name, description: as its front matter says.
        frontmatter: all of it.
        resources: URI -> digest in hex and size in bytes; what may be read while it is active.
        alias: what stands for its name in the label when the server offers several of that name.
    """

    server: str
    uri: str
    name: str
    description: str
    frontmatter: Mapping[str, Any]
    resources: Mapping[str, tuple[str, int]]
    alias: str = ""

    @property
    def label(self) -> str:
        """`SERVER:NAME`: it never takes the place of a skill of another origin."""
        return f"{self.server}:{self.alias or self.name}"

    @property
    def digest(self) -> str:
        """SHA-256 over every file's URI and digest: what a person's approval of it is bound to."""
        rows = "\n".join(f"{uri} {digest}" for uri, (digest, _) in sorted(self.resources.items()))
        return hashlib.sha256(rows.encode("utf-8", "surrogatepass")).hexdigest()

    @property
    def files(self) -> tuple[SkillFile, ...]:
        """Its files under names relative to its folder, sorted by name."""
        start = len(self.root) + 1
        found = (SkillFile(unquote(uri[start:]), size, sha) for uri, (sha, size) in self.resources.items())
        return tuple(sorted(found, key=lambda file: file.name))

    @property
    def root(self) -> str:
        return self.uri.removesuffix(f"/{_MARKDOWN}")

    def resolve(self, file: str) -> str:
        """The URI of one of its files, given relative to its folder.

        Raises:
            SkillInvalid: it is not in the entry; an unlisted file is a failed verification.
        """
        wanted = file if file in self.resources else f"{self.root}/{quote(file.removeprefix('./'), safe='/-._~')}"
        if wanted not in self.resources:  # the server may quote other characters than we do
            start, plain = len(self.root) + 1, file.removeprefix("./")
            wanted = next((uri for uri in self.resources if unquote(uri[start:]) == plain), "")
        if not wanted:
            raise _refused(f"the skill {self.label} lists no file {file!r}", self.uri)
        return wanted


def _refused(problem: str, uri: str) -> SkillInvalid:
    fix = "ask the server's owner, or read its list of skills again"
    return SkillInvalid(problem, findings=(Finding(level="error", problem=problem, fix=fix, file=uri),))


def parse_entry(server: str, entry: Any) -> RemoteSkill:
    """Check the form of an entry of `skills/list` or `skills/get`.

    Raises:
        SkillInvalid: it breaks a rule; a skill without stable digests is refused too.
    """
    data = cast("dict[str, Any]", entry) if isinstance(entry, dict) else {}
    uri, front, resources = data.get("uri"), data.get("frontmatter"), data.get("resources")
    shown = str(uri)[:200]
    if not isinstance(uri, str) or not uri.endswith(f"/{_MARKDOWN}") or not isinstance(front, dict):
        raise _refused(f"{server} describes a skill without URI or front matter", shown)
    facts = cast("dict[str, Any]", front)
    name, description = facts.get("name"), facts.get("description")
    if not isinstance(name, str) or not isinstance(description, str) or not is_conforming_name(name):
        raise _refused(f"{server}: the skill {shown} has no usable name and description", shown)
    if unquote(uri.removesuffix(f"/{_MARKDOWN}").rpartition("/")[2]) != name:
        raise _refused(f"{server}: the URI {shown} does not end in the name {name!r}", shown)
    if not isinstance(resources, list):
        raise _refused(f"{server}: the skill {name} publishes no digests", shown)
    listed = _resources(server, uri, cast("list[Any]", resources))
    skill = RemoteSkill(server, uri, name, description, facts, listed)
    bad = _unusable([file.name for file in skill.files])
    if bad:
        raise _refused(f"{server}: {uri} lists a file that cannot be stored: {bad[:100]!r}", uri)
    return skill


def _unusable(names: Sequence[str]) -> str:
    """The first name that is no plain relative path, or that another one stands in the way of; or ""."""
    taken: set[str] = set()
    for name in names:
        parts = name.split("/")
        if not all(0 < len(part.encode("utf-8", "surrogatepass")) <= 200 and part not in (".", "..") for part in parts):
            return name
        if len(parts) > 20 or any(c in "\\:" or unicodedata.category(c) in ("Cc", "Cs") for c in name):
            return name
        key = unicodedata.normalize("NFC", name).casefold()  # where the file system tells no cases apart
        if key in taken:
            return name
        taken.add(key)
    folders = {key.rsplit("/", depth)[0] for key in taken for depth in range(1, key.count("/") + 1)}
    return next(iter(sorted(folders & taken)), "")


def _resources(server: str, uri: str, resources: list[Any]) -> dict[str, tuple[str, int]]:
    root = uri.removesuffix(_MARKDOWN)
    listed: dict[str, tuple[str, int]] = {}
    for item in resources:
        data = cast("dict[str, Any]", item) if isinstance(item, dict) else {}
        place, digest, size = data.get("uri"), str(data.get("digest", "")), data.get("size")
        hexed = digest.removeprefix("sha256:")
        well = len(hexed) == 64 and not set(hexed) - set("0123456789abcdef") and digest.startswith("sha256:")
        if (
            not isinstance(place, str)
            or not place.startswith(root)
            or ".." in unquote(place).split("/")
            or place in listed
        ):
            raise _refused(f"{server}: {uri} lists a file outside of it, or one twice: {str(place)[:100]}", uri)
        if not well or not isinstance(size, int) or isinstance(size, bool) or size < 0:
            raise _refused(f"{server}: {place} has no digest or size", uri)
        listed[place] = (hexed, size)
    if uri not in listed or len(listed) > MAX_RESOURCES or sum(size for _, size in listed.values()) > MAX_SIZE:
        raise _refused(f"{server}: {uri} does not list itself, or is too large", uri)
    return listed


def verified(skill: RemoteSkill, uri: str, data: bytes) -> bytes:
    """The bytes of one file, when they are what the entry says.

    Raises:
        SkillInvalid: the file is not listed, or size or digest differ; nothing of it may be used.
    """
    expected = skill.resources.get(uri)
    if expected is None:
        raise _refused(f"{skill.label}: {uri} is not listed", uri)
    if len(data) != expected[1] or hashlib.sha256(data).hexdigest() != expected[0]:
        raise _refused(f"{skill.label}: {uri} is not what its digest says", uri)
    return data


def verified_skill(skill: RemoteSkill, data: bytes) -> SkillDefinition:
    """The skill in the bytes of its SKILL.md, verified against the entry, with what it may not do taken away.

    What comes over MCP pre-approves nothing and is at least of risk caution; its restrictions stay.

    Raises:
        SkillInvalid: bytes or front matter differ from the entry, or it is not a skill.
    """
    found = _parsed(skill, verified(skill, skill.uri, data))
    if found is None or found.recovered or found.frontmatter != dict(skill.frontmatter):
        raise _refused(f"{skill.label}: the front matter differs from the entry", skill.uri)
    return _limited(skill, found)


def listed_skill(skill: RemoteSkill) -> SkillDefinition:
    """The skill as its entry describes it, without its instructions: what may be shown before it is read.

    Raises:
        SkillInvalid: its front matter makes no skill.
    """
    rows = (
        f"{json.dumps(key, ensure_ascii=False)}: {json.dumps(value, ensure_ascii=False)}\n"
        for key, value in skill.frontmatter.items()
    )
    found = _parsed(skill, f"---\n{''.join(rows)}---\n".encode("utf-8", "replace"))
    if found is None:
        raise _refused(f"{skill.label}: its front matter makes no skill", skill.uri)
    return _limited(skill, found)


def _parsed(skill: RemoteSkill, data: bytes) -> SkillDefinition | None:
    return parse_skill(data, file=skill.uri, folder=skill.name, origin=f"mcp:{skill.server}").skill


def _limited(skill: RemoteSkill, found: SkillDefinition) -> SkillDefinition:
    """No words of a person activate it, for then nobody would have asked; the rest see `verified_skill`."""
    risk = "dangerous" if found.risk == "dangerous" else "caution"
    limits = {"name": skill.label, "allowed_tools": [], "triggers": [], "risk": risk, "digest": skill.digest}
    return found.model_copy(update=limits)
