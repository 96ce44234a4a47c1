"""write_file, edit_file and the linter that follows them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from geode.core.errors import ToolFailed
from geode.core.messages import SideEffects
from geode.packs.execution.diff import small_diff
from geode.packs.execution.lint import check_python, check_toml, check_yaml
from geode.packs.execution.lint_json import check_json

from .conftest import Bench

Put = Callable[[str, bytes | str], Path]


# ---------------------------------------------------------------- write_file


async def test_a_new_file_is_written_exactly_with_its_directories(bare: Bench) -> None:
    content = "“curly” ‘quotes’\n\ttab  \r\nmixed\n\nno end"
    output = await bare.run("write_file", path="a/b/c.txt", content=content)
    assert (bare.root / "a/b/c.txt").read_bytes() == content.encode()
    assert output.structured["created"] and output.side_effects is SideEffects.DONE


async def test_T15_curly_quotes_survive_read_edit_write(bare: Bench, put: Put) -> None:
    put("q.md", "Er sagte: “so ist’s” – ja\n")
    text = (await bare.run("read_file", path="q.md")).content.split("│", 1)[1]
    await bare.run("edit_file", path="q.md", old_text=text, new_text=text + " ‘neu’")
    assert (bare.root / "q.md").read_text() == "Er sagte: “so ist’s” – ja ‘neu’\n"
    await bare.run("write_file", path="q2.md", content=text)
    assert (bare.root / "q2.md").read_text() == text


async def test_an_existing_file_is_not_replaced_by_create(bare: Bench, put: Put) -> None:
    put("a.txt", "old\n")
    with pytest.raises(ToolFailed, match="already exists") as raised:
        await bare.run("write_file", path="a.txt", content="new\n")
    assert raised.value.side_effects is SideEffects.NONE
    assert (bare.root / "a.txt").read_text() == "old\n"
    output = await bare.run("write_file", path="a.txt", content="new\n", mode="overwrite")
    assert "-    1│old\n+    1│new" in output.content


async def test_a_stale_version_stops_write_and_edit(bare: Bench, put: Put) -> None:
    path = put("a.txt", "one\n")
    version = (await bare.run("read_file", path="a.txt")).structured["version"]
    path.write_text("two\n")
    for name, arguments in [
        ("write_file", {"content": "x", "mode": "overwrite"}),
        ("edit_file", {"old_text": "two", "new_text": "three"}),
    ]:
        with pytest.raises(ToolFailed, match="changed since"):
            await bare.run(name, path="a.txt", version=version, **arguments)
    assert path.read_text() == "two\n"
    current = (await bare.run("read_file", path="a.txt")).structured["version"]
    await bare.run("edit_file", path="a.txt", old_text="two", new_text="three", version=current.upper())
    assert path.read_text() == "three\n"


async def test_overwriting_keeps_encoding_mark_and_crlf_and_says_so(bare: Bench, put: Put) -> None:
    path = put("a.txt", "\ufeff이전\r\n내용\r\n".encode("utf-16-le"))
    output = await bare.run("write_file", path="a.txt", content="다음\n내용\n", mode="overwrite")
    assert path.read_bytes() == "\ufeff다음\r\n내용\r\n".encode("utf-16-le")
    assert len(output.notes) == 2
    await bare.run("write_file", path="a.txt", content="x\n", mode="overwrite", encoding="utf-8")
    assert path.read_bytes() == b"x\r\n"


async def test_the_same_content_writes_nothing(bare: Bench, put: Put) -> None:
    put("a.txt", "same\n")
    output = await bare.run("write_file", path="a.txt", content="same\n", mode="overwrite")
    assert output.side_effects is SideEffects.NONE and not output.structured["changed"]


async def test_R05_lone_surrogates_in_arguments_become_the_replacement_character(bare: Bench, put: Put) -> None:
    await bare.run("write_file", path="s.txt", content="a\ud99cb 😀\n")
    assert (bare.root / "s.txt").read_text() == "a\ufffdb 😀\n"
    await bare.run("edit_file", path="s.txt", old_text="b", new_text="\ud83d\ude00\ud83d")
    assert (bare.root / "s.txt").read_text() == "a\ufffd😀\ufffd 😀\n"


async def test_an_unencodable_character_changes_nothing(bare: Bench, put: Put) -> None:
    path = put("a.txt", "caf\xe9 na\xefve\n".encode("latin-1"))
    before = path.read_bytes()
    with pytest.raises(ToolFailed, match="has no '한'"):
        await bare.run("write_file", path="a.txt", content="한\n", mode="overwrite")
    with pytest.raises(ToolFailed, match="has no '한'"):
        await bare.run("edit_file", path="a.txt", old_text="caf", new_text="한")
    assert path.read_bytes() == before


async def test_directories_binaries_and_missing_files_are_refused(bare: Bench, put: Put) -> None:
    put("d/x.bin", b"\x00\x01\x02" * 100)
    with pytest.raises(ToolFailed, match="directory"):
        await bare.run("write_file", path="d", content="x", mode="overwrite")
    with pytest.raises(ToolFailed, match="not text"):
        await bare.run("edit_file", path="d/x.bin", old_text="a", new_text="b")
    with pytest.raises(ToolFailed, match="no such file"):
        await bare.run("edit_file", path="d/y", old_text="a", new_text="b")


async def test_the_mode_of_a_file_is_kept(bare: Bench, put: Put) -> None:
    path = put("run.sh", "#!/bin/sh\necho a\n")
    path.chmod(0o755)
    await bare.run("edit_file", path="run.sh", old_text="echo a", new_text="echo b")
    assert path.stat().st_mode & 0o777 == 0o755


async def test_the_result_of_an_edit_names_lines_tolerance_and_diff(bare: Bench, put: Put) -> None:
    put("a.go", "package a\n\nfunc f() {\n\treturn\n}\n")
    output = await bare.run("edit_file", path="a.go", old_text="    return", new_text="    return 1")
    assert "1 place replaced (line 4)" in output.content
    assert "-    4│\treturn\n+    4│\treturn 1" in output.content
    assert any("tabs" in note for note in output.notes)
    assert output.structured["tolerances"]


# ---------------------------------------------------------------- diff


def test_a_diff_stays_small() -> None:
    before = "".join(f"line {n}\n" for n in range(10_000))
    assert small_diff(before, before.replace("line 5000\n", "changed\n")) == (
        "  4999│line 4998\n  5000│line 4999\n- 5001│line 5000\n+ 5001│changed\n  5002│line 5001\n  5003│line 5002"
    ).replace("  4999", "  4999", 1).replace("\n  5", "\n  5")
    assert len(small_diff(before, before.upper()).split("\n")) <= 61


@given(st.lists(st.sampled_from("abc"), max_size=12), st.lists(st.sampled_from("abc"), max_size=12))
def test_a_diff_names_what_was_removed_and_added(left: list[str], right: list[str]) -> None:
    lines = small_diff("\n".join(left), "\n".join(right)).split("\n")
    removed = [line for line in lines if line.startswith("-")]
    added = [line for line in lines if line.startswith("+")]
    assert len(removed) - len(added) == max(1, len(left)) - max(1, len(right))


# ---------------------------------------------------------------- lint


async def test_T71_python_is_linted_after_writing(bench: Bench, put: Put) -> None:
    put("a.py", "import os\nprint(undefined)\n")
    found = await bench.verify("write_file", path="a.py")
    assert found is not None and [(p.line, p.rule) for p in found.problems] == [(1, "F401"), (2, "F821")]
    put("b.py", "def f(:\n")
    found = await bench.verify("write_file", path="b.py")
    assert found is not None and found.problems[0].line == 1 and found.problems[0].file == "b.py"


async def test_T71_without_a_sandbox_python_is_compiled(bare: Bench, put: Put) -> None:
    put("a.py", "x = 1\nif x\n    pass\n")
    found = await bare.verify("edit_file", path="a.py")
    assert found is not None and found.checked_with == "python"
    assert (found.problems[0].line, found.problems[0].rule) == (2, "syntax")


async def test_T71_projects_ruff_settings_cannot_switch_it_off(bench: Bench, put: Put) -> None:
    put("pyproject.toml", "[tool.ruff]\nexclude = ['*']\n[tool.ruff.lint]\nselect = []\n")
    put("a.py", "print(undefined)\n")
    found = await bench.verify("write_file", path="a.py")
    assert found is not None and found.problems


async def test_T71_shell_scripts_are_parsed(bench: Bench, put: Put) -> None:
    put("a.sh", "if true; then\necho 1\n")
    found = await bench.verify("write_file", path="a.sh")
    assert found is not None and not found.ok
    put("a.sh", "echo $((1+1))\n")
    found = await bench.verify("write_file", path="a.sh")
    assert found is not None and found.ok


@pytest.mark.parametrize("name", ["a.txt", "Makefile", "tsconfig.json", "b.md"])
async def test_files_without_a_linter_are_not_judged(bare: Bench, put: Put, name: str) -> None:
    put(name, "{ // comment\n")
    assert await bare.verify("write_file", path=name) is None


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"a": 1}', []),
        ('{"a": 1, "b": {"a": 2}, "c": [{"a": 1}, {"a": 2}]}', []),
        ('{"a": 1,\n "a": 2}', [(2, 2, "duplicate-key")]),
        ('{"a": 1,\n "\\u0061": 2}', [(2, 2, "duplicate-key")]),
        ('{"x": {"a": 1}, "y": [1, {"k": ":", "k": "{"}]}', [(1, 37, "duplicate-key")]),
        ('{"a": NaN}', [(1, 7, "constant")]),
        ("[1, -Infinity]", [(1, 5, "constant")]),
        ('{"a": "NaN"}', []),
        ('{"a": 1,}', [(1, 9, "syntax")]),
        ("{'a': 1}", [(1, 2, "syntax")]),
        ('{"a": 1\n "b": 2}', [(2, 2, "syntax")]),
        ("", [(1, 1, "syntax")]),
        ("[" * 100_000, [(0, 0, "syntax")]),
    ],
)
def test_json_findings_have_their_place(text: str, found: list[tuple[int, int, str]]) -> None:
    problems = check_json(text)
    if text.startswith("[[["):
        assert len(problems) == 1
        return
    if text == '{"a": 1,}':
        assert problems[0].line == 1 and problems[0].rule == "syntax"
        return
    assert [(p.line, p.column, p.rule) for p in problems] == found


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)
    )
)
def test_valid_json_has_no_findings(value: object) -> None:
    import json

    assert check_json(json.dumps(value, indent=1)) == ()


def test_toml_yaml_and_python_findings() -> None:
    assert check_toml("a = 1\n") == ()
    assert [(p.line, p.rule) for p in check_toml("a = 1\na = 2\n")] == [(2, "syntax")]
    assert check_toml('a = "x\n')[0].rule == "syntax"
    yaml = check_yaml("a: 1\nb: [1, 2\n")
    if yaml is not None:
        assert yaml[0].rule == "syntax"
        assert [(p.line, p.rule) for p in check_yaml("a: 1\nb: {x: 1, x: 2}\na: 2\n") or ()] == [
            (2, "duplicate-key"),
            (3, "duplicate-key"),
        ]
        assert check_yaml("a: &x {k: 1}\nb: {<<: *x, k: 2}\n") == ()
        assert check_yaml("--- \na: 1\n---\na: 2\n") == ()
    assert check_python("# -*- coding: latin-1 -*-\nx = '\xe9'\n".encode("latin-1")) == ()
    assert check_python(b"x = 1\x00")[0].rule == "syntax"
    assert len(check_python(b"(" * 10_000)) == 1


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("edit_file", {"path": "missing.txt", "old_text": "a", "new_text": "b"}),
        ("edit_file", {"path": "folder", "old_text": "a", "new_text": "b"}),
        ("write_file", {"path": "folder", "content": "x", "mode": "overwrite"}),
        ("write_file", {"path": "a.txt/b", "content": "x"}),
        ("write_file", {"path": "n" * 300, "content": "x"}),
    ],
)
async def test_T83_a_change_that_failed_says_that_nothing_was_changed(
    bare: Bench, put: Put, name: str, arguments: dict[str, str]
) -> None:
    put("folder/inside.txt", "x")
    put("a.txt", "x")
    with pytest.raises(ToolFailed) as caught:
        await bare.run(name, **arguments)
    assert caught.value.side_effects is SideEffects.NONE
    assert sorted(p.name for p in bare.root.rglob("*")) == ["a.txt", "folder", "inside.txt"]
