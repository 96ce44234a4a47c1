"""read_file, list_directory, find_file: windows, kinds of text, links, ignore rules."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from geode.core.errors import GeodeError, NotStored, PathEscape, ToolFailed
from geode.packs.perception.globs import Glob, IgnoreFile
from geode.packs.perception.window import read_window
from geode.packs.text import cut_text

from .conftest import Bench

Put = Callable[[str, bytes | str], Path]


def body(content: Any) -> list[str]:
    """The numbered lines of a result of read_file, without the numbers."""
    return [line.split("│", 1)[1] for line in str(content).split("\n") if "│" in line]


# ---------------------------------------------------------------- read_file


async def test_a_small_file_is_shown_whole_with_its_facts(bare: Bench, put: Put) -> None:
    put("a.py", "def f():\r\n\treturn 1\r\n")
    output = await bare.run("read_file", path="a.py")
    assert body(output.content) == ["def f():", "\treturn 1"]
    assert "lines 1-2 of 2" in output.content and "CRLF" in output.content and "tabs" in output.content
    assert output.structured["version"] in output.content


async def test_T37_offset_and_limit_and_how_to_read_on(bare: Bench, put: Put) -> None:
    put("long.txt", "".join(f"line {n}\n" for n in range(1, 1001)))
    output = await bare.run("read_file", path="long.txt")
    assert body(output.content)[-1] == "line 200"
    assert '800 more lines. Read on: read_file {"path": "long.txt", "offset": 201}' in output.content
    output = await bare.run("read_file", path="long.txt", offset=999, limit=10)
    assert body(output.content) == ["line 999", "line 1000"]
    assert "Read on" not in output.content


async def test_T38_one_huge_line_can_be_read_to_its_end(bare: Bench, put: Put) -> None:
    text = "".join(chr(0x4E00 + n % 5000) for n in range(25_000))
    put("min.js", text + "\nlast\n")
    seen, column, offset = "", 1, 1
    for _ in range(10):
        output = await bare.run("read_file", path="min.js", offset=offset, column=column)
        seen += "\n".join(body(output.content))
        facts = output.structured
        if not facts["next_offset"]:
            break
        seen += "\n" if facts["next_offset"] != offset else ""
        offset, column = facts["next_offset"], facts["next_column"] or 1
    assert seen == text + "\nlast"


async def test_the_gate_never_has_to_cut_a_result_of_read_file(bare: Bench, put: Put) -> None:
    put("w.txt", "".join("x" * 300 + "\n" for _ in range(500)))
    output = await bare.run("read_file", path="w.txt")
    assert len(output.content) <= 10_000
    assert output.structured["next_offset"] == output.structured["shown_lines"] + 1


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "cp949", "cp1252", "utf-16-le"])
async def test_other_encodings_are_shown_as_text(bare: Bench, put: Put, encoding: str) -> None:
    text = "가나다 라마바\n사아자\n" if encoding != "cp1252" else "naïve “café”\nother\n"
    text = "plain text\nmore text\n" if encoding == "utf-16-le" else text
    put("f.txt", text.encode(encoding))
    assert body((await bare.run("read_file", path="f.txt")).content) == text.splitlines()


async def test_R05_lone_surrogates_in_a_file_reach_nobody(bare: Bench, put: Put) -> None:
    put("f.txt", b"ok \xed\xa0\xbd end and valid \xf0\x9f\x98\x80 and \xc3\xa9\n")
    content = (await bare.run("read_file", path="f.txt")).content
    assert "😀" in content
    from geode.core.messages import Text

    Text(content).text.encode()


async def test_a_stored_result_is_read_by_lines(bare: Bench) -> None:
    await bare.results.put(
        "".join(f"row {n}\n" for n in range(1, 501)), session="s", principal="local", call_id="abc", tool="t"
    )
    output = await bare.run("read_file", path="result:abc", offset=51, limit=50)
    assert body(output.content) == [f"row {n}" for n in range(51, 101)]
    assert '"path": "result:abc", "offset": 101' in output.content
    with pytest.raises(NotStored):
        await bare.run("read_file", path="result:nothing")


@pytest.mark.parametrize(
    ("name", "data", "says"),
    [
        ("a.pdf", b"%PDF-1.7\n\xe2\xe3", "read_document"),
        ("a.png", b"\x89PNG\r\n\x1a\n\x00\x00", "PNG"),
        ("a.bin", bytes(range(256)) * 4, "binary"),
    ],
)
async def test_binary_files_are_refused_with_what_they_are(
    bare: Bench, put: Put, name: str, data: bytes, says: str
) -> None:
    put(name, data)
    with pytest.raises(ToolFailed) as raised:
        await bare.run("read_file", path=name)
    assert says in raised.value.message + raised.value.fix


async def test_missing_directory_empty_and_beyond_the_end(bare: Bench, put: Put) -> None:
    put("readme.md", "")
    put("d/x", "1\n2\n")
    with pytest.raises(ToolFailed, match="no such file"):
        await bare.run("read_file", path="README.txt")
    with pytest.raises(ToolFailed, match="directory"):
        await bare.run("read_file", path="d")
    with pytest.raises(ToolFailed, match="has 2 lines"):
        await bare.run("read_file", path="d/x", offset=9)
    assert "empty" in (await bare.run("read_file", path="readme.md")).content


async def test_R73_links_out_of_the_workspace_are_refused_by_every_tool(bare: Bench, put: Put) -> None:
    (bare.root / "link").symlink_to("/etc/passwd")
    (bare.root / "out").symlink_to("/etc")
    put("in/real.txt", "hello\n")
    (bare.root / "ok").symlink_to("in")
    for name, arguments in [
        ("read_file", {"path": "link"}),
        ("read_file", {"path": "out/passwd"}),
        ("read_file", {"path": "../home/x"}),
        ("list_directory", {"path": "out"}),
        ("find_file", {"pattern": "*", "path": "out"}),
        ("grep_file", {"pattern": "root", "path": "link"}),
        ("grep_file", {"pattern": "root", "path": "/etc"}),
        ("write_file", {"path": "out/x", "content": "x"}),
        ("write_file", {"path": "link", "content": "x", "mode": "overwrite"}),
        ("edit_file", {"path": "link", "old_text": "root", "new_text": "x"}),
    ]:
        with pytest.raises(PathEscape):
            await bare.run(name, **arguments)
    assert body((await bare.run("read_file", path="ok/real.txt")).content) == ["hello"]
    found = await bare.run("find_file", pattern="passwd")
    assert found.structured["paths"] == []
    assert (await bare.run("grep_file", pattern="root:")).structured["total"] == 0


def test_large_files_are_scanned_not_loaded(tmp_path: Path) -> None:
    path = tmp_path / "big"
    path.write_bytes(b"".join(b"%07d some text\n" % n for n in range(1, 300_001)) + "끝 é".encode())
    with path.open("rb") as stream:
        window = read_window(stream, offset=299_999, limit=10, column=1, chars=9000)
    assert window.lines == ["0299999 some text", "0300000 some text", "끝 é"]
    assert window.total_lines == 300_001


@given(text=st.text(alphabet="ab\n\ré", max_size=200), offset=st.integers(1, 5), limit=st.integers(1, 5))
def test_a_window_is_a_slice_of_the_lines(text: str, offset: int, limit: int) -> None:
    import io

    window = read_window(io.BytesIO(text.encode()), offset=offset, limit=limit, column=1, chars=9000)
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    assert window.total_lines == len(lines)
    assert window.lines == [line.removesuffix("\r") for line in lines[offset - 1 : offset - 1 + limit]]


def test_R05_cutting_never_splits_a_character() -> None:
    for text in ("ab👨‍👩‍👧cd", "e\u0301e\u0301", "👍🏽👍🏽", "☎️x"):
        for at in range(len(text) + 1):
            part = cut_text(text, at)
            assert text.startswith(part)
            rest = text[len(part) :]
            assert not rest.startswith(("\u0301", "\u200d", "\ufe0f", "🏽"))


# ---------------------------------------------------------------- list_directory, find_file


async def test_a_listing_is_sorted_and_marks_what_is_ignored(bare: Bench, put: Put) -> None:
    put(".gitignore", "build/\n*.log\n!keep.log\n")
    put("build/x", "1")
    put("src/a.py", "12345")
    put("debug.log", "")
    put("keep.log", "")
    output = await bare.run("list_directory", depth=2)
    assert output.content.split("\n") == [
        ".: 6 entries",
        ".gitignore  23 bytes",
        "build/  (ignored)",
        "debug.log  0 bytes  (ignored)",
        "keep.log  0 bytes",
        "src/",
        "src/a.py  5 bytes",
    ]


async def test_T36_a_long_listing_says_how_to_go_on(bare: Bench, put: Put) -> None:
    for n in range(30):
        put(f"f{n:02}", "")
    output = await bare.run("list_directory", limit=10)
    assert "[20 more entries. Next: list_directory " in output.content
    assert output.structured["next_offset"] == 10
    output = await bare.run("list_directory", limit=10, offset=20)
    assert output.structured["next_offset"] is None


async def test_find_file_by_name_path_braces_and_case(bare: Bench, put: Put) -> None:
    for path in ("src/a.ts", "src/deep/b.tsx", "src/deep/c.js", "README.md", "docs/readme.MD", ".github/w.yml"):
        put(path, "")

    async def found(**arguments: Any) -> list[str]:
        return (await bare.run("find_file", **arguments)).structured["paths"]

    assert await found(pattern="*.{ts,tsx}") == ["src/a.ts", "src/deep/b.tsx"]
    assert await found(pattern="src/*/*.js") == ["src/deep/c.js"]
    assert await found(pattern="**/deep/**") == ["src/deep/b.tsx", "src/deep/c.js"]
    assert await found(pattern="readme*", ignore_case=True) == ["README.md", "docs/readme.MD"]
    assert await found(pattern="*.yml") == [".github/w.yml"]
    assert await found(pattern="deep", kind="dir") == ["src/deep"]
    assert await found(pattern="*.js", path="src/deep") == ["src/deep/c.js"]
    assert await found(pattern="nothing") == []
    with pytest.raises(ToolFailed):
        await found(pattern="*", path="README.md")
    with pytest.raises(ToolFailed):
        await found(pattern="*", path="no/such")


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("*.py", "a/b/c.py", True),
        ("/a.py", "a.py", True),
        ("/a.py", "b/a.py", False),
        ("src/**/x", "src/x", True),
        ("src/**/x", "src/a/b/x", True),
        ("src/**", "src/a/b", True),
        ("src/*", "src/a/b", False),
        ("**", "a/b", True),
        ("[!a]*.py", "b.py", True),
        ("[^a]*.py", "a.py", False),
        ("a?c", "abc", True),
        ("./src/*.py", "src/a.py", True),
    ],
)
def test_globs(pattern: str, path: str, matches: bool) -> None:
    assert Glob(pattern).matches(path.split("/")) is matches


def test_no_glob_is_slow() -> None:
    glob = Glob("/".join(["**", "*a*a*a*a*a*a*a*b"] * 12))
    assert not glob.matches(["a" * 200] * 40)


@pytest.mark.parametrize(
    ("rules", "path", "is_dir", "ignored"),
    [
        ("*.log", "a/b.log", False, True),
        ("/top", "top", False, True),
        ("/top", "a/top", False, False),
        ("dir/", "dir", True, True),
        ("dir/", "dir", False, False),
        ("a/b", "a/b", False, True),
        ("a/b", "x/a/b", False, False),
        ("*.log\n!keep.log", "keep.log", False, False),
        ("**/gen", "x/y/gen", True, True),
        ("gen/**", "gen/x", False, True),
        ("gen/**", "gen", True, False),
        ("# comment\n\n\\#file", "#file", False, True),
        ("trailing  ", "trailing", False, True),
    ],
)
def test_gitignore_rules(rules: str, path: str, is_dir: bool, ignored: bool) -> None:
    assert bool(IgnoreFile(rules).verdict(path.split("/"), is_dir=is_dir)) is ignored


async def test_nested_gitignore_wins_over_the_outer_one(bare: Bench, put: Put) -> None:
    put(".gitignore", "*.txt\n")
    put("sub/.gitignore", "!*.txt\n")
    put("a.txt", "")
    put("sub/b.txt", "")
    assert (await bare.run("find_file", pattern="*.txt")).structured["paths"] == ["sub/b.txt"]
    assert len((await bare.run("find_file", pattern="*.txt", include_ignored=True)).structured["paths"]) == 2


async def test_link_loops_and_unreadable_directories_do_no_harm(bare: Bench, put: Put) -> None:
    put("a/x.txt", "")
    (bare.root / "a" / "loop").symlink_to("..")
    os.mkfifo(bare.root / "pipe")
    assert (await bare.run("find_file", pattern="x.txt")).structured["paths"] == ["a/x.txt"]
    with pytest.raises(GeodeError):
        await bare.run("read_file", path="pipe")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may look everywhere")
async def test_unreadable_directories_are_reported_and_the_rest_is_found(bare: Bench, put: Put) -> None:
    put("closed/x.txt", "")
    put("open/x.txt", "")
    (bare.root / "closed").chmod(0)
    try:
        assert (await bare.run("find_file", pattern="x.txt")).structured["paths"] == ["open/x.txt"]
        assert "closed/  (Permission denied)" in (await bare.run("list_directory", depth=2)).content
        for name, arguments in [
            ("read_file", {}),
            ("write_file", {"content": "x"}),
            ("edit_file", {"old_text": "a", "new_text": "b"}),
        ]:
            with pytest.raises(ToolFailed):
                await bare.run(name, path="closed/x.txt", **arguments)
    finally:
        (bare.root / "closed").chmod(0o755)
