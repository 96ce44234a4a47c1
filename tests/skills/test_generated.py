"""Hundreds of SKILL.md files, valid, odd and broken: none is lost silently, none widens rights."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from geode.skills import open_library
from geode.skills.document import parse_skill

_FILES = 420
_WORDS = (
    "review code pipeline 그래프 보고서 deploy: a #tag 'quote' \"text\" [x] {y} @at %p & * ! | > - ? , 技能 \U0001f600"
).split(" ")


@dataclass
class Made:
    """A generated file and what its author meant at most.

    Attributes:
        data: the bytes.
        pre_approved: every name that may be pre-approved.
        restricts: True when the author restricted tools.
        allowed: the only tools they named then.
        risky: True when they marked it as more than safe.
    """

    data: bytes
    pre_approved: set[str] = field(default_factory=set[str])
    restricts: bool = False
    allowed: set[str] = field(default_factory=set[str])
    risky: bool = False


def _list(rng: random.Random, names: list[str]) -> str:
    form = rng.randrange(5)
    if form == 0:
        return " " + " ".join(names)
    if form == 1:
        return " " + ", ".join(names)
    if form == 2:
        return " [" + ", ".join(f"'{n}'" for n in names) + "]"
    if form == 3:
        return "".join(f"\n  - {n}" for n in names)
    return "".join(f"\n- {n}" for n in names)


def _description(rng: random.Random) -> str:
    text = " ".join(rng.choice(_WORDS) for _ in range(rng.randint(1, 30)))
    form = rng.randrange(6)
    if form == 0:
        return f" {text}"
    if form == 1:
        return " '" + text.replace("'", "''") + "'"
    if form == 2:
        return " >-\n  " + text + "\n  more"
    if form == 3:
        return " |\n  " + text + "\n  tools: [not, a, key]"
    if form == 4:
        return f" {text}\n  continued: here {text}"
    return f' "{text}'


def make(rng: random.Random, name: str) -> Made:
    made = Made(b"")
    keys: list[str] = []
    if rng.random() < 0.8:
        keys.append(f"name: {name if rng.random() < 0.7 else rng.choice(_WORDS)}")
    if rng.random() < 0.9:
        keys.append(f"description:{_description(rng)}")
    if rng.random() < 0.5:
        made.pre_approved = set(rng.sample(["Bash(git:*)", "Read", "WebFetch", "Bash", "edit_file"], rng.randint(1, 3)))
        keys.append(f"allowed-tools:{_list(rng, sorted(made.pre_approved))}")
    if rng.random() < 0.5:
        made.restricts = True
        made.allowed = set(rng.sample(["read_file", "Grep", "Bash(ls:*)"], rng.randint(0, 2)))
        keys.append(f"tools:{_list(rng, sorted(made.allowed))}")
    if rng.random() < 0.4:
        made.risky = True
        keys.append(f"risk: {rng.choice(['caution', 'dangerous', 'evil', '[safe]', 'high'])}")
    if rng.random() < 0.5:
        keys.append(
            rng.choice(
                ["version: 1.0", "argument-hint: [a] [b]", "x: {a: [b, {c: d}]}", "metadata:\n  a: b", "hooks: {x: y}"]
            )
        )
    rng.shuffle(keys)
    text = "---\n" + "\n".join(keys) + "\n---\nBody $1\n"
    return _damaged(rng, text, made)


def _damaged(rng: random.Random, text: str, made: Made) -> Made:
    """The bytes of the text, in two of three cases with something wrong with them."""
    kind = rng.randrange(15)
    if kind == 0:
        text = text.replace("\n", "\r\n")
    elif kind == 1:
        text = "\ufeff" + text
    elif kind == 2:
        text = text.replace("---\n", "---   \n", 1)
    elif kind == 3:
        text = text.replace("\n  ", "\n\t")
    elif kind == 4:
        at = rng.randrange(len(text))
        text = text[:at] + rng.choice(['"', "'", "[", "{", ": ", "\t", "\n", "- ", "&", "%"]) + text[at:]
    elif kind == 5:
        text = text[: rng.randrange(len(text))]
    elif kind == 6:
        text = "\n\n" + text
    elif kind == 7:
        text = text.replace("---\nBody", "Body")
    elif kind == 8:
        text = text.replace("\nname", "\n name").replace("\ntools", "\n  tools")
    elif kind == 9:
        return Made(text.encode("utf-16"), made.pre_approved, made.restricts, made.allowed, made.risky)
    elif kind == 10:
        data = bytearray(text.encode())
        data[rng.randrange(len(data))] = rng.choice([0, 0xFF, 0xC3, 0x80])
        return Made(bytes(data), made.pre_approved, made.restricts, made.allowed, made.risky)
    made.data = text.encode()
    return made


def _touched_rights(made: Made) -> bool:
    """True when damage may have changed the letters of a rights key, so that the author's meaning is gone."""
    text = made.data.decode("utf-16" if made.data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8", "replace")
    lines = [line.strip("\r") for line in text.splitlines()]
    return made.restricts and not any(line.startswith(("tools:", "  tools:")) for line in lines)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Made]]:
    home = tmp_path_factory.mktemp("home")
    rng = random.Random(20261130)
    files: dict[str, Made] = {}
    for number in range(_FILES):
        name = f"skill-{number:03d}"
        folder = home / "skills" / name
        folder.mkdir(parents=True)
        files[name] = make(rng, name)
        (folder / "SKILL.md").write_bytes(files[name].data)
    return home, files


def test_none_is_lost_silently(made: tuple[Path, dict[str, Made]], tmp_path: Path) -> None:
    home, files = made
    library = open_library(tmp_path, home)
    entries = {entry.folder.name: entry for entry in library.entries()}
    assert set(entries) == set(files)
    count = Counter(entry.status for entry in entries.values())
    assert count["active"] + count["shadowed"] + count["invalid"] == _FILES
    assert count["active"] > 150, count
    assert count["invalid"] > 30, count
    for entry in entries.values():
        if entry.status == "active":
            assert entry.name in library.registry
            assert f"**{entry.name}**" in library.registry.get_context_block(1_000_000)
        elif entry.status == "invalid":
            assert any(f.level == "error" and f.problem and f.fix and f.file for f in entry.findings), entry
        else:
            assert "same name" in entry.reason


def test_none_widens_rights(made: tuple[Path, dict[str, Made]], tmp_path: Path) -> None:
    home, files = made
    checked = 0
    for entry in open_library(tmp_path, home).entries():
        skill, meant = entry.skill, files[entry.folder.name]
        if skill is None:
            continue
        checked += 1
        assert {name.strip("'\"") for name in skill.allowed_tools} <= meant.pre_approved, entry
        assert not (skill.recovered and skill.allowed_tools), entry
        if meant.restricts and not _touched_rights(meant):
            assert skill.restricts, meant.data
            assert {name.strip("'\"") for name in skill.tools} <= meant.allowed, meant.data
    assert checked > 200


def test_the_block_of_all_of_them_keeps_its_limit(made: tuple[Path, dict[str, Made]], tmp_path: Path) -> None:
    registry = open_library(tmp_path, made[0]).registry
    block = registry.get_context_block()
    assert len(block) <= 8000
    assert block == open_library(tmp_path, made[0]).registry.get_context_block()


@settings(max_examples=300, deadline=None)
@given(
    st.binary(max_size=400) | st.text(max_size=300).map(lambda t: ("---\n" + t + "\n---\nx").encode("utf-8", "replace"))
)
def test_any_bytes_give_a_skill_or_a_reason(data: bytes) -> None:
    parsed = parse_skill(data, file="f/SKILL.md", folder="f")
    assert (parsed.skill is None) == bool(parsed.errors())
    if parsed.skill is not None:
        assert parsed.skill.name
        assert parsed.skill.description
        if parsed.skill.recovered:
            assert parsed.skill.allowed_tools == []


_LINE = st.sampled_from(
    ["tools: [a]", "tools:", "tools: [a", "  tools: b", "allowed-tools: Bash", "allowed-tools: [Bash", "risk: safe",
     "risk: [", "description: d", "description: a: b", 'description: "x', "name: n", "x: |", "  deep", "- item", ""]
)  # fmt: skip


@settings(max_examples=400, deadline=None)
@given(st.lists(_LINE, max_size=8))
def test_broken_front_matter_is_never_wider_than_its_rights_lines(lines: list[str]) -> None:
    parsed = parse_skill(("---\n" + "\n".join(lines) + "\n---\n").encode(), file="f/SKILL.md", folder="f")
    skill = parsed.skill
    if skill is None:
        return
    if any(line.startswith("tools:") for line in lines):
        assert skill.restricts
        assert set(skill.tools) <= {"a", "deep", "item"}, "what stands on the lines below belongs to the key"
    if skill.allowed_tools:
        assert not skill.recovered
    if "risk: [" in lines:
        assert skill.risk == "dangerous"
