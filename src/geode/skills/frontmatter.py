"""The front matter of a SKILL.md: found, read as YAML, and recovered key by key when it is not YAML.

Recovery exists because files in the wild are written by hand (case R12): `description: Review
code. Use when: a diff exists` is not YAML, and its meaning is plain. What cannot be told for
certain is never recovered in the direction of more rights: such a key is reported as `broken`.
"""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass, field

from .findings import Finding
from .yamltree import Node, YamlProblem, read_yaml

__all__ = ["RIGHTS_KEYS", "Front", "read_front"]

RIGHTS_KEYS = frozenset({"allowed-tools", "tools", "disallowed-tools", "risk", "disable-model-invocation"})
"""Keys that decide what may be done; a guess about them is not good enough."""

_FENCE = re.compile(r"---[ \t]*")
_END = re.compile(r"(?:---|\.\.\.)[ \t]*")
_KNOWN = RIGHTS_KEYS | {
    "name", "description", "license", "compatibility", "metadata", "triggers",
    "node", "nodes", "type", "types", "role", "roles",
}  # fmt: skip
_SPELLINGS = {key.replace("-", ""): key for key in _KNOWN}
_SWALLOWED = re.compile(rf"""\s*(?:- )?["']?({"|".join(sorted(RIGHTS_KEYS))})["']?[ \t]*:""", re.IGNORECASE)
_KEY = re.compile(r"""(["']?)([^\W\d][\w.-]*)\1[ \t]*:(?:[ \t]+(.*)|[ \t]*)""")
_BLOCK = re.compile(r"[>|][-+0-9]*[ \t]*(?:#.*)?")
_MAX_FRONT = 65_536
"""Characters; a front matter is read whenever skills are looked for, also before the project is trusted."""
_INSTEAD = {"name": "the folder names the skill"}
_QUOTE = 'put the whole value in quotes, or write "key: >-" and the text on indented lines below'


@dataclass(slots=True)
class Front:
    """A file taken apart.

    Attributes:
        fields: key -> value, in the order of the file.
        lines: key -> line of the key.
        body: everything after the front matter, without blank lines at its ends.
        body_line: line of the first line after the front matter.
        findings: what was found on the way.
        broken: keys whose value could not be told.
        recovered: True when the front matter was not YAML and was read key by key.
    """

    fields: dict[str, Node] = field(default_factory=dict[str, Node])
    lines: dict[str, int] = field(default_factory=dict[str, int])
    body: str = ""
    body_line: int = 1
    findings: list[Finding] = field(default_factory=list[Finding])
    broken: set[str] = field(default_factory=set[str])
    recovered: bool = False

    def error(self, problem: str, *, fix: str, line: int = 0, column: int = 0) -> None:
        self.findings.append(Finding(level="error", problem=problem, fix=fix, line=line, column=column, strict=True))

    def warn(self, problem: str, *, fix: str, line: int = 0, column: int = 0, strict: bool = True) -> None:
        self.findings.append(
            Finding(level="warning", problem=problem, fix=fix, line=line, column=column, strict=strict)
        )


def read_front(text: str) -> Front:
    """Take a file apart. `text` has `\\n` line ends. Never raises; errors are findings."""
    front = Front()
    lines = text.split("\n")
    start = next((n for n, line in enumerate(lines) if line.strip()), len(lines))
    if start == len(lines) or not _FENCE.fullmatch(lines[start]):
        front.error(
            "there is no front matter: the file must start with a line ---",
            fix="begin the file with four lines:  ---  name: NAME  description: WHAT AND WHEN  ---",
            line=min(start + 1, len(lines)),
            column=1,
        )
        return front
    if start:
        front.warn("blank lines stand before the front matter", fix="make --- the first line", line=1, column=1)
    end = next((n for n in range(start + 1, len(lines)) if _END.fullmatch(lines[n])), None)
    if end is None:
        front.error(
            "the front matter is not closed: a second line --- is missing",
            fix="put a line --- after the last key",
            line=start + 1,
            column=1,
        )
        return front
    front.body = "\n".join(lines[end + 1 :]).strip("\n").rstrip()
    front.body_line = end + 2
    if sum(len(line) + 1 for line in lines[start:end]) > _MAX_FRONT:
        what = f"the front matter is longer than {_MAX_FRONT:,} characters"
        front.error(what, fix="move long text below the second line ---", line=start + 1, column=1)
        return front
    _read_fields(front, lines[start + 1 : end], start + 2)
    return front


def _read_fields(front: Front, lines: list[str], first: int) -> None:
    try:
        tree = read_yaml("\n".join(lines), first_line=first)
    except YamlProblem as problem:
        _recover(front, lines, first, problem)
        return
    if tree is None or (tree.kind == "text" and tree.empty):
        return
    if tree.kind != "map":
        front.error(
            f"the front matter is a {tree.kind}, not keys with values",
            fix="write one `key: value` a line",
            line=tree.line,
            column=tree.column,
        )
        return
    for key, value in tree.value:
        _take(front, key.one_line().strip(), value, key.line, key.column)


def _canonical(key: str) -> str:
    """`Allowed_Tools` and `allowedTools` are meant as `allowed-tools`; other keys stay as they are."""
    return key if key in _KNOWN else _SPELLINGS.get(re.sub(r"[-_ ]", "", key).casefold(), key)


def _take(front: Front, key: str, value: Node, line: int, column: int = 1) -> None:
    written, key = key, _canonical(key)
    if written != key:
        front.warn(f"the key {written!r} was taken as {key!r}", fix=f"write {key}", line=line, column=column)
    if key in front.fields or key in front.broken:
        front.warn(
            f"the key {key!r} stands twice",
            fix=f"keep one of lines {front.lines.get(key, line)} and {line}",
            line=line,
            column=column,
        )
        if key in RIGHTS_KEYS:
            front.broken.add(key)
    if key == "<<":
        for lost in sorted(_merged(value) & RIGHTS_KEYS):
            front.broken.add(lost)
            front.warn(
                f"{lost!r} stands in a merge (<<), which is not followed; the strictest meaning is taken",
                fix=f"write {lost}: on a line of its own",
                line=value.line,
            )
    if value.tag:
        front.warn(f"the tag {value.tag} of {key!r} has no effect", fix="remove it", line=value.line, strict=False)
    front.fields[key] = value
    front.lines[key] = line


def _merged(node: Node) -> set[str]:
    """The keys that YAML 1.1 readers would take from a merge."""
    if node.kind == "list":
        return {key for item in node.value for key in _merged(item)}
    return {_canonical(key.one_line().strip()) for key, _ in node.value} if node.kind == "map" else set()


# ---------------------------------------------------------------- recovery


@dataclass(slots=True)
class _Chunk:
    """A key's line and what follows up to the next key."""

    key: str
    rest: str
    line: int
    column: int
    lines: list[str]


def _recover(front: Front, lines: list[str], first: int, problem: YamlProblem) -> None:
    """Read each key alone; what still is not YAML is taken as text, or reported as broken."""
    chunks, loose = _chunks(lines, first)
    front.recovered = True
    line = problem.line or first
    if not chunks:
        what = f"the front matter cannot be read: {problem.problem}"
        front.error(what, fix="write one `key: value` a line", line=line, column=problem.column)
        return
    for number in loose:
        front.warn("this line belongs to no key and was left out", fix="remove or indent it", line=number, column=1)
        if lost := _SWALLOWED.match(lines[number - first]):
            front.broken.add(lost[1].lower())
    told = len(front.findings)
    for chunk in chunks:
        value = _chunk_value(front, chunk)
        if value is not None:
            _take(front, chunk.key, value, chunk.line)
        else:
            front.lines.setdefault(_canonical(chunk.key), chunk.line)
    if len(front.findings) == told:
        what = f"the front matter is not valid YAML ({problem.problem}); it was read key by key"
        front.warn(what, fix=_QUOTE, line=line, column=problem.column)


def _chunks(lines: list[str], first: int) -> tuple[list[_Chunk], list[int]]:
    chunks: list[_Chunk] = []
    loose: list[int] = []
    indents = [len(line) - len(line.lstrip()) for line in lines if line.strip()]
    margin = min(indents, default=0)
    for number, line in enumerate(lines, first):
        text = line[margin:]
        found = _KEY.fullmatch(text) if text[:1].strip() else None
        if found:
            column = margin + len(text) - len(found[3] or "") + 1
            chunks.append(_Chunk(found[2], (found[3] or "").strip(), number, column, [text]))
        elif chunks:
            chunks[-1].lines.append(text)
        elif text.strip() and not text.lstrip().startswith("#"):
            loose.append(number)
    return chunks, loose


def _chunk_value(front: Front, chunk: _Chunk) -> Node | None:
    for spaced in (False, True):
        lines = [_spaced(line) for line in chunk.lines] if spaced else chunk.lines
        try:
            tree = read_yaml("\n".join(lines), first_line=chunk.line)
        except YamlProblem:
            continue
        if tree is not None and tree.kind == "map" and len(tree.value) == 1:
            if spaced:
                front.warn("tabs are used for indentation", fix="use blanks", line=chunk.line, column=1)
            value: Node = tree.value[0][1]
            if value.kind == "text":
                _swallowed(front, chunk)
            return value
    key = _canonical(chunk.key)
    _swallowed(front, chunk)
    if key in RIGHTS_KEYS or key == "name":
        front.broken.add(key)
        front.warn(
            f"{chunk.key!r} cannot be read; {_INSTEAD.get(key, 'the strictest meaning is taken')}",
            fix="write one name" if key == "name" else "write it as a list, one `- NAME` a line",
            line=chunk.line,
            column=chunk.column,
        )
        return None
    text = _as_text(chunk)
    shown = textwrap.shorten(text, 60, placeholder=" …")
    front.warn(
        f"the value of {chunk.key!r} is not valid YAML and was taken as text: {shown}",
        fix=_QUOTE,
        line=chunk.line,
        column=chunk.column,
    )
    return Node(text, "text", chunk.line, chunk.column)


def _swallowed(front: Front, chunk: _Chunk) -> None:
    """A key about rights that was meant as one, but stands inside the text of another."""
    for line in chunk.lines[1:]:
        if lost := _SWALLOWED.match(line):
            front.broken.add(lost[1].lower())
            front.warn(
                f"{lost[1]!r} stands inside the value of {chunk.key!r}; the strictest meaning is taken",
                fix=f"begin its line with {lost[1]}:, without blanks before it",
                line=chunk.line,
                column=1,
            )


def _spaced(line: str) -> str:
    body = line.lstrip(" \t")
    return line[: len(line) - len(body)].replace("\t", "  ") + body


def _as_text(chunk: _Chunk) -> str:
    """The rest of the line and the lines below as one text: folded, or kept for a literal block."""
    below = [line.strip() for line in chunk.lines[1:]]
    if _BLOCK.fullmatch(chunk.rest):
        return ("\n" if chunk.rest.startswith("|") else " ").join(line for line in below if line).strip()
    text = " ".join(part for part in (chunk.rest, *below) if part)
    if text[:1] in "\"'" and text.count(text[:1]) == 1:
        text = text[1:]
    return text
