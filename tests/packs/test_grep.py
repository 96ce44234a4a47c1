"""grep_file: ripgrep in the sandbox and Python give the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from geode.core.errors import NotStored, ToolFailed

from .conftest import Bench, needs_ripgrep

Put = Callable[[str, bytes | str], Path]

pytestmark = needs_ripgrep


def _tree(put: Put) -> None:
    put(".gitignore", "ignored/\n*.tmp\n")
    put("src/a.py", "import os\n\ndef main():\n    pass\n# def old\n")
    put("src/b.py", "def Main(x): return x[0]\r\nlast def\r\n")
    put("src/deep/c.ts", "function def() {}\n" * 3)
    put("ignored/d.py", "def ignored\n")
    put("x.tmp", "def tmp\n")
    put(".hidden/e.py", "def hidden\n")
    put("binary.bin", b"def before\n\x00\x01\x02def after\n")
    put("wide.txt", "한글 def wide\n".encode("utf-16"))
    put("korean.txt", "정의 def 값\n")
    put("invalid.txt", b"def \xff\xfe bad\n")
    put("cr.txt", b"progress\rdef\rdone\n")
    put("noend.txt", "x\ndef")
    put("bom.txt", b"\xef\xbb\xbfdef first\n")
    put(".git/config", "def git\n")
    put("long.txt", "a" * 5000 + " def\n")


SEARCHES: list[dict[str, Any]] = [
    {"pattern": "def"},
    {"pattern": "def", "include_ignored": True},
    {"pattern": "^def"},
    {"pattern": "def$"},
    {"pattern": r"def \w+\("},
    {"pattern": "DEF MAIN", "ignore_case": True},
    {"pattern": "x[0]", "literal": True},
    {"pattern": "def", "glob": "*.py", "context": 1},
    {"pattern": "def", "glob": "src/**/*.{ts,tsx}"},
    {"pattern": "def", "path": "src", "glob": "deep/*"},
    {"pattern": "def", "path": "src/b.py", "context": 2},
    {"pattern": "정의"},
    {"pattern": "zzz"},
    {"pattern": "def", "limit": 3, "offset": 2},
    {"pattern": r"\bdef\b.*\bpass\b"},
    {"pattern": "한글"},
]


@pytest.mark.parametrize("arguments", SEARCHES, ids=str)
async def test_T7_both_engines_give_the_same(bench: Bench, put: Put, arguments: dict[str, Any]) -> None:
    _tree(put)
    with_ripgrep = await bench.run("grep_file", **arguments)
    assert with_ripgrep.details["engine"] == "ripgrep"
    bench.runner = None
    in_python = await bench.run("grep_file", **arguments)
    assert in_python.details["engine"] == "python"
    assert in_python.content == with_ripgrep.content
    assert in_python.structured == with_ripgrep.structured


async def test_matches_have_place_and_number_and_long_lines_are_cut(bare: Bench, put: Put) -> None:
    _tree(put)
    output = await bare.run("grep_file", pattern="def")
    assert "src/a.py:3: def main():" in output.content
    assert "src/b.py:2: last def" in output.content
    assert "binary.bin" not in output.content and "ignored/" not in output.content and ".git/" not in output.content
    assert "[… 5,004 characters]" in output.content


async def test_context_lines_are_marked(bare: Bench, put: Put) -> None:
    put("a", "1\n2\nhit\n4\n5\n6\nhit\n8\n")
    content = (await bare.run("grep_file", pattern="hit", context=1)).content
    assert content.split("\n")[1:] == ["a-2- 2", "a:3: hit", "a-4- 4", "--", "a-6- 6", "a:7: hit", "a-8- 8"]


async def test_T36_the_first_matches_the_total_and_the_next_call(bare: Bench, put: Put) -> None:
    put("a", "hit\n" * 120)
    output = await bare.run("grep_file", pattern="hit")
    assert output.content.startswith("120 matching lines in 1 file\n")
    assert '[70 more matches. Next: grep_file {"pattern": "hit", "offset": 50}]' in output.content
    assert output.structured["next_offset"] == 50


async def test_files_with_secrets_are_left_out(bare: Bench, put: Put) -> None:
    put(".env", "TOKEN=abc\n")
    put("a.txt", "TOKEN is set in .env\n")
    output = await bare.run("grep_file", pattern="TOKEN")
    assert "abc" not in output.content
    assert "1 file with secrets left out" in output.content
    assert output.structured["total"] == 1


@pytest.mark.parametrize(
    ("pattern", "says"), [("(", "not a regular expression"), ("a\nb", "line by line"), ("(?=x)", "look-around")]
)
async def test_bad_patterns_are_explained(bare: Bench, put: Put, pattern: str, says: str) -> None:
    with pytest.raises(ToolFailed, match=says):
        await bare.run("grep_file", pattern=pattern)


async def test_a_pattern_that_backtracks_elsewhere_is_linear_here(bare: Bench, put: Put) -> None:
    put("a", "a" * 50_000 + "!\n")
    assert (await bare.run("grep_file", pattern="(a+)+$")).structured["total"] == 0


async def test_a_missing_path_is_named(bare: Bench) -> None:
    with pytest.raises(ToolFailed, match="no such file"):
        await bare.run("grep_file", pattern="x", path="no/such")


async def test_a_stored_result_is_searched_like_a_file(bare: Bench) -> None:
    text = "".join(f"row {n}\n" for n in range(1, 501))
    await bare.results.put(text, session="s", principal="local", call_id="abc", tool="t")
    output = await bare.run("grep_file", pattern="row 49$", path="result:abc", context=1)
    assert output.content.split("\n") == [
        "1 matching line in 1 file",
        "result:abc-48- row 48",
        "result:abc:49: row 49",
        "result:abc-50- row 50",
    ]
    assert (await bare.run("grep_file", pattern="nowhere", path="result:abc")).content == "no match for nowhere"
    with pytest.raises(NotStored):
        await bare.run("grep_file", pattern="x", path="result:nothing")
