"""One SKILL.md: front matter as people write it, and what it may never do."""

from __future__ import annotations

import codecs

import pytest

from .conftest import parse, problems, text_of


def test_the_model_has_what_the_description_of_the_system_names() -> None:
    skill = parse(text_of(tools="[a_tool, b_tool]", risk="caution", triggers="[x, y]")).skill
    assert skill is not None
    assert (skill.name, skill.description) == ("demo", "What it does. Use it for tests.")
    assert (skill.triggers, skill.tools, skill.risk) == (["x", "y"], ["a_tool", "b_tool"], "caution")
    assert (skill.body, skill.source) == ("Do it.", "demo/SKILL.md")


def test_the_name_falls_back_to_the_folder_and_the_risk_is_safe() -> None:
    skill = parse("---\ndescription: d\n---\nb", "my-folder").skill
    assert skill is not None
    assert (skill.name, skill.risk) == ("my-folder", "safe")


# ---------------------------------------------------------------- R12, R85: text as it is written


def test_R12_an_unquoted_colon_loads_with_a_warning_that_names_the_place() -> None:
    parsed = parse("---\nname: demo\ndescription: Review code. Use when: a diff exists\n---\nb")
    assert parsed.skill is not None
    assert parsed.skill.description == "Review code. Use when: a diff exists"
    (warning,) = [f for f in parsed.findings if f.level == "warning"]
    assert (warning.file, warning.line, warning.column) == ("demo/SKILL.md", 3, 14)
    assert "quotes" in warning.fix


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("description: a: b: c", "a: b: c"),
        ("description: Review.\n  Use when: a diff exists", "Review. Use when: a diff exists"),
        ('description: "quoted" and more: text', '"quoted" and more: text'),
        ('description: "never closed', "never closed"),
        ("description: @scope/pkg helper", "@scope/pkg helper"),
        ("description: `code` first", "`code` first"),
        ("description: [a] [b]", "[a] [b]"),
        ("description: 100% sure: yes", "100% sure: yes"),
        ("description: first\nsecond line: no key here\nthird", None),
        ("description: ends with colon:", "ends with colon:"),
        ("description: - a list? no: text", "- a list? no: text"),
    ],
)
def test_R12_near_variants_keep_the_text(written: str, read: str | None) -> None:
    skill = parse(f"---\nname: demo\n{written}\n---\nb").skill
    assert skill is not None
    assert skill.recovered
    assert skill.description == read if read else skill.description.startswith("first")


def test_R12_what_cannot_be_used_names_file_line_column_and_fix() -> None:
    parsed = parse("---\nname: demo\n---\nbody")
    assert parsed.skill is None
    (error,) = parsed.errors()
    assert (error.file, error.line > 0, error.column > 0) == ("demo/SKILL.md", True, True)
    assert error.fix


PLAIN = "---\nname: demo\ndescription: says one thing\n---\nline one\n\nline two\n"


@pytest.mark.parametrize(
    "data",
    [
        codecs.BOM_UTF8 + PLAIN.encode(),
        PLAIN.replace("\n", "\r\n").encode(),
        codecs.BOM_UTF8 + PLAIN.replace("\n", "\r\n").encode(),
        PLAIN.replace("---\n", "---  \t\n").encode(),
        PLAIN.rstrip("\n").encode(),
        PLAIN.replace("\n", "\r").encode(),
        PLAIN.encode("utf-16"),
        PLAIN.replace("---\nline", "...\nline").encode(),
        PLAIN.replace("---\nline", "---\n\n\nline").encode(),
    ],
    ids=["bom", "crlf", "bom+crlf", "blanks", "no final newline", "cr", "utf-16", "dots", "blank lines"],
)
def test_R85_every_spelling_of_one_file_gives_one_skill(data: bytes) -> None:
    plain, other = parse(PLAIN).skill, parse(data).skill
    assert plain is not None
    assert other is not None
    assert (other.name, other.description, other.body) == (plain.name, plain.description, plain.body)
    assert other.body == "line one\n\nline two"
    assert not other.recovered


def test_folded_and_literal_blocks_keep_their_lines() -> None:
    skill = parse("---\nname: demo\ndescription: >-\n  one\n  two\n\n  three\nlicense: |\n  a\n  b\n---\n").skill
    assert skill is not None
    assert skill.description == "one two\nthree"
    assert skill.license == "a\nb"


def test_plain_values_stay_what_was_written() -> None:
    keys = {"name": "on", "version": "1.10", "date": "2024-01-02", "count": "0123", "flag": "yes", "big": "1_000"}
    skill = parse("---\ndescription: 123\n" + "".join(f"{k}: {v}\n" for k, v in keys.items()) + "---\n", "on").skill
    assert skill is not None
    assert (skill.name, skill.description) == ("on", "123")
    assert skill.extra == {k: v for k, v in keys.items() if k != "name"}


def test_tabs_for_indentation_are_read() -> None:
    skill = parse("---\nname: demo\ndescription: d\ntriggers:\n\t- one\n\t- two\n---\n").skill
    assert skill is not None
    assert skill.triggers == ["one", "two"]


def test_comments_quotes_lists_and_maps_are_yaml() -> None:
    skill = parse(
        "---\n# a comment\nname: 'demo'\ndescription: \"a \\u00e9: b\" # said\n"
        "metadata:\n  author: me\n  nested:\n    - [1, {a: b}]\ntriggers: ['x, y', z]\n---\n"
    ).skill
    assert skill is not None
    assert skill.description == "a é: b"
    assert skill.metadata == {"author": "me", "nested": [["1", {"a": "b"}]]}
    assert skill.triggers == ["x, y", "z"]


# ---------------------------------------------------------------- R62, R88: keys and names of others


def test_R62_unknown_keys_are_kept_and_listed_and_strict_says_where_they_belong() -> None:
    parsed = parse(
        text_of(version="1.0", argument_hint="[file]", x_foo="bar", metadata="{a: [b, [c]]}", origin="elsewhere")
    )
    assert parsed.skill is not None
    assert set(parsed.skill.extra) == {"version", "argument-hint", "x-foo", "origin"}
    notices = [f for f in parsed.findings if f.level == "notice"]
    assert len(notices) == 4
    assert not parsed.errors()
    strict = parsed.errors(strict=True)
    assert {f.line for f in strict} == {4, 5, 6, 8}
    assert all("metadata" in f.fix for f in strict)


def test_R88_another_name_than_the_folder_loads_with_a_warning() -> None:
    parsed = parse(text_of("todoist"), "todoist-cli")
    assert parsed.skill is not None
    assert parsed.skill.name == "todoist"
    assert "todoist-cli" in next(f for f in parsed.findings if f.level == "warning").problem
    assert "must match" in problems(parsed, strict=True)


@pytest.mark.parametrize("name", ["../evil", "a/b", "a\\b", ".hidden", "a\x07b", "x" * 201, "a\u202eb"])
def test_a_name_that_could_be_a_path_or_hide_something_is_refused(name: str) -> None:
    import json

    parsed = parse(f"---\nname: {json.dumps(name)}\ndescription: d\n---\n")
    assert parsed.skill is None
    assert "name" in problems(parsed)


# ---------------------------------------------------------------- R63: rights


@pytest.mark.parametrize(
    "written",
    ["Read Grep", "Read, Grep", "[Read, Grep]", "\n  - Read\n  - Grep", "Read,Grep", '"Read  Grep"', "\n- Read, Grep"],
)
def test_R63_all_forms_of_a_tool_list_are_equal(written: str) -> None:
    for key in ("allowed-tools", "tools", "disallowed-tools"):
        skill = parse(f"---\nname: demo\ndescription: d\n{key}: {written}\n---\n").skill
        assert skill is not None
        found = {"allowed-tools": skill.allowed_tools, "tools": skill.tools, "disallowed-tools": skill.denied_tools}
        assert found[key] == ["Read", "Grep"]
        assert skill.restricts == (key == "tools")


def test_patterns_in_parentheses_belong_to_the_name() -> None:
    skill = parse(text_of(allowed_tools="Bash(git log *), Bash(jq:*) Read")).skill
    assert skill is not None
    assert skill.allowed_tools == ["Bash(git log *)", "Bash(jq:*)", "Read"]


def test_R63_a_broken_front_matter_pre_approves_nothing_but_still_restricts() -> None:
    skill = parse("---\nname: demo\ndescription: a: b\nallowed-tools: Bash\ntools: read_file\n---\n").skill
    assert skill is not None
    assert skill.recovered
    assert skill.allowed_tools == []
    assert (skill.restricts, skill.tools) == (True, ["read_file"])


@pytest.mark.parametrize(
    "written",
    [
        "tools: [read_file",
        "tools: read_file)",
        "tools: {a: b}",
        "tools: [[a], b]",
        "tools: [a]\ntools: [a, b]",
        "tools:",
        "tools: []",
        "Tools: []",
        "description: x\n  tools: [read_file]",
        "disallowed-tools: {a: b}",
    ],
)
def test_R63_a_restriction_that_cannot_be_read_restricts_to_nothing(written: str) -> None:
    skill = parse(f"---\nname: demo\ndescription: d\n{written}\n---\n").skill
    assert skill is not None
    assert skill.restricts
    assert skill.tools == [] or written.count("tools:") == 2


@pytest.mark.parametrize("risk", ["unknown", "[safe]", "", "SAFE!", "{a: b}", "[safe"])
def test_a_risk_that_is_not_known_counts_as_dangerous(risk: str) -> None:
    skill = parse(text_of(risk=risk)).skill
    assert skill is not None
    assert skill.risk == "dangerous"


def test_spellings_of_known_keys_are_taken_as_meant() -> None:
    parsed = parse("---\nName: demo\nDescription: d\nallowedTools: Read\ndisallowed_tools: Write\n---\n")
    assert parsed.skill is not None
    assert (parsed.skill.allowed_tools, parsed.skill.denied_tools) == (["Read"], ["Write"])
    assert parsed.errors(strict=True)


def test_tags_anchors_and_hooks_do_nothing() -> None:
    parsed = parse(
        "---\nname: demo\ndescription: !!python/object/apply:os.system ['echo x']\n"
        "metadata: &m {a: b}\nextra: *m\nhooks: {start: rm}\n---\nrun !`rm -rf x` now"
    )
    assert parsed.skill is not None
    said = " ".join(f.problem for f in parsed.findings)
    assert "tag" in said
    assert "hooks" in said
    assert "never run" in said
    assert parsed.skill.extra["extra"] == {"a": "b"}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"just text",
        b"---\nname: demo",
        b"---\n- a\n- list\n---\nbody",
        b"---\n\x00\n---\n",
        b"---\nname: demo\ndescription: \xff\xfe bad\n---\n",
        b"---\na: &a [x, x]\nb: &b [*a, *a]\nc: " + b"[" + b",".join([b"*b"] * 9000) + b"]\ndescription: d\n---\n",
        b"---\n" + b"[" * 50_000 + b"\n---\n",
        b"---\n" + b"- " * 50_000 + b"\n---\n",
        b"x" * 2_000_000,
    ],
    ids=["empty", "text", "open", "list", "nul", "latin", "aliases", "nested", "deep list", "huge"],
)
def test_hopeless_files_are_invalid_with_a_reason(data: bytes) -> None:
    parsed = parse(data)
    assert parsed.skill is None or parsed.skill.recovered
    if parsed.skill is None:
        assert all(f.problem and f.fix and f.file for f in parsed.errors())
        assert parsed.errors()


def test_geode_keys_may_stand_under_metadata_for_other_validators() -> None:
    parsed = parse(
        "---\nname: demo\ndescription: d\nmetadata:\n  geode-tools: read_file\n  geode-risk: caution\n"
        "  geode-triggers: a, b\n---\n"
    )
    assert parsed.skill is not None
    assert (parsed.skill.tools, parsed.skill.risk, parsed.skill.triggers) == (["read_file"], "caution", ["a", "b"])
    assert not parsed.errors(strict=True)
