"""Output: nothing from outside may repaint the terminal; JSON is whole whatever it holds."""

from __future__ import annotations

import io
import json

import pytest

from geode.cli import render
from geode.core.errors import UsageError


def test_control_characters_are_removed_for_reading_and_shown_for_approving():
    text = "a\x1b[31mred\x1b[0m\x1b]0;title\x07 b\x00\u202ec\td\n"
    assert render.plain(text) == "ared bc\td\n"
    assert render.visible("rm\x1b[2K\u202e") == "rm\\x1b[2K\\u202e"


def test_json_survives_lone_surrogates():
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    render.emit_json({"a": "ok \ud83d 가"}, stream)
    assert json.loads(stream.buffer.getvalue()) == {"schema": 1, "a": "ok ? 가"}  # type: ignore[attr-defined]


def test_a_table_in_a_pipe_is_aligned_text(capsys: pytest.CaptureFixture[str]):
    render.table(["name", "x"], [["가나", True], ["abcdef", None], ["a\nb", "\x1b[31mc"]])
    assert capsys.readouterr().out.splitlines() == ["name    x", "가나    yes", "abcdef  -", "a b     c"]


def test_an_empty_table_says_so_on_stderr(capsys: pytest.CaptureFixture[str]):
    render.table(["name"], [], empty="no tools")
    done = capsys.readouterr()
    assert (done.out, done.err) == ("", "no tools\n")


def test_pages_lead_through_the_whole_list():
    items, cursor, seen = list(range(7)), None, []
    while True:
        page = render.page(items, 3, cursor)
        seen += page.items
        cursor = page.next_cursor
        assert page.total == 7
        if cursor is None:
            break
    assert seen == items
    for bad in ("", "x", "-1", "1.5", "9" * 12, "²"):
        with pytest.raises(UsageError):
            render.page(items, 3, bad)
