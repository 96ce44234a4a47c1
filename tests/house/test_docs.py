"""Documents point at things that exist, and say what the code says."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from geode.core.call import Call

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
DECISIONS = sorted((ROOT / "docs/decisions").glob("0*.md"))


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_relative_link_leads_to_a_file(path: Path) -> None:
    targets = re.findall(r"\]\((?![a-z]+:|#)([^)#]+)", path.read_text("utf-8"))
    assert [target for target in targets if not (path.parent / target).exists()] == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_file_of_ours_that_is_named_exists(path: Path) -> None:
    named = re.findall(r"`((?:docs|scripts|tests|examples|requirements|src/geode)/[\w./-]+)`", path.read_text("utf-8"))
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_decisions_are_numbered_without_gaps_and_listed() -> None:
    assert [path.name[:4] for path in DECISIONS] == [f"{n:04}" for n in range(1, len(DECISIONS) + 1)]
    listed = (ROOT / "docs/decisions/README.md").read_text("utf-8")
    assert [path.name for path in DECISIONS if path.name not in listed] == []


@pytest.mark.parametrize("path", DECISIONS, ids=lambda path: path.name)
def test_a_decision_states_context_decision_and_consequences(path: Path) -> None:
    text = path.read_text("utf-8")
    assert text.startswith(f"# {path.name[:4]} ")
    assert all(f"**{part}.**" in text for part in ("Context", "Decision", "Consequences"))


def test_the_record_on_call_names_every_field_of_it() -> None:
    text = (ROOT / "docs/decisions/0003-fields-of-call.md").read_text("utf-8")
    assert [field.name for field in fields(Call) if f"`{field.name}`" not in text] == []
