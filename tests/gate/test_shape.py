"""Shaping: what the model sees of a long output, and that nothing is lost or split."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from geode.core.effects import Effect
from geode.core.errors import ToolFailed
from geode.core.messages import Status, Text
from geode.gate.shape import cut_back, shorten
from geode.tools.tool import ToolOutput, tool


@dataclass(frozen=True)
class Limits:
    lines: int = 200
    chars: int = 10_000
    head: int = 50
    tail: int = 50


LIMITS = Limits()


def test_short_text_stays_whole_at_exactly_the_limits() -> None:
    assert shorten("x\n" * 200, LIMITS) is None
    assert shorten("x" * 10_000, LIMITS) is None
    assert shorten("", LIMITS) is None


def test_one_line_over_the_limit_gives_the_first_and_the_last_fifty_lines() -> None:
    text = "".join(f"line {i}\n" for i in range(201))
    cut = shorten(text, LIMITS)
    assert cut is not None
    head, tail, lines, chars = cut
    assert head.splitlines() == [f"line {i}" for i in range(50)]
    assert tail.splitlines() == [f"line {i}" for i in range(151, 201)]
    assert lines == 101
    assert len(head) + len(tail) + chars == len(text)


def test_one_huge_line_is_cut_by_characters_on_both_sides() -> None:
    text = "a" * 300_000 + "END"
    cut = shorten(text, LIMITS)
    assert cut is not None
    head, tail, lines, chars = cut
    assert head.startswith("aaa") and tail.endswith("END") and lines == 0
    assert len(head) + len(tail) <= 10_000
    assert len(head) + len(tail) + chars == len(text)


def test_a_huge_line_in_the_head_does_not_hide_the_tail() -> None:
    text = "b" * 50_000 + "\n" + "".join(f"t{i}\n" for i in range(300))
    cut = shorten(text, LIMITS)
    assert cut is not None
    assert cut[1].splitlines()[-1] == "t299"
    assert len(cut[0]) + len(cut[1]) <= 10_000


def test_few_long_lines_are_cut_too() -> None:
    text = "\n".join("c" * 3_000 for _ in range(10))
    cut = shorten(text, LIMITS)
    assert cut is not None
    assert len(cut[0]) + len(cut[1]) <= 10_000


def test_R05_a_cut_never_lands_inside_a_character() -> None:
    for emoji in ("😀", "👩‍👩‍👧", "👍🏽", "🇰🇷", "é", "❤️"):
        text = "x" * 4_799 + emoji * 8_000
        cut = shorten(text, LIMITS)
        assert cut is not None
        head, tail, _, _ = cut
        assert head[4_799:] == emoji * (len(head[4_799:]) // len(emoji)), emoji
        assert tail == emoji * (len(tail) // len(emoji)), emoji


@given(st.text(min_size=1, max_size=200), st.integers(0, 250))
def test_R05_cut_back_never_moves_forward_and_never_before_a_mark(text: str, at: int) -> None:
    cut = cut_back(text, at)
    assert 0 <= cut <= min(at, len(text))
    if 0 < cut < len(text) and cut > at - 60:
        assert not unicodedata.combining(text[cut])


@given(st.text(alphabet=st.sampled_from("ab\n é😀"), max_size=3_000).map(lambda t: t * 13))
def test_head_tail_and_omitted_add_up_to_the_whole(text: str) -> None:
    cut = shorten(text, LIMITS)
    if cut is None:
        return
    head, tail, lines, chars = cut
    assert text.startswith(head) and text.endswith(tail)
    assert len(head) + len(tail) + chars == len(text)
    assert text[len(head) : len(text) - len(tail)].count("\n") == lines


@pytest.mark.parametrize("last", ["", "\n"])
async def test_R51_what_is_counted_as_omitted_is_what_the_stored_output_has_more(
    make: Any, tmp_path: Path, last: str
) -> None:
    lines = [f"line {i}" for i in range(1, 100_001)]
    spool = tmp_path / "spool"
    spool.write_text("\n".join(lines) + last)

    @tool(effects=[Effect.READ])
    def noisy() -> ToolOutput:
        """Print more than is shown."""
        part = "\n".join([*lines[:3000], "[... left out ...]", *lines[-3000:]])
        return ToolOutput(content=(Text(part), Text("[exit code 2]\n[Hint: none]")), spools=(spool,))

    result = await make(tools=[noisy]).call("noisy", {})
    shown = result.text.split("\n")
    assert shown[:50] == lines[:50] and shown[-50:] == [*lines[-48:], "[exit code 2]", "[Hint: none]"]
    assert result.details["omitted"]["lines"] == 100_000 - 50 - 48
    assert "99,902 lines," in result.text and "(100,000 lines," in result.text
    assert not spool.exists()


async def test_T72_a_long_error_is_cut_like_any_output(make: Any) -> None:
    @tool(effects=[Effect.READ])
    def broken(path: str) -> str:
        """Fail at length."""
        raise ToolFailed("x" * 200_000 + " the reason", fix="none")

    runtime = make(tools=[broken])
    for result in (
        await runtime.call("broken", {"path": "a"}),
        await runtime.call("broken", {"path": ["b" * 200_000]}),
        await runtime.call("n" * 200_000, {}),
    ):
        assert result.status is Status.ERROR
        assert len(result.text) <= 10_000
    assert "the reason" in (await runtime.call("broken", {"path": "a"})).text
