"""The editing engine: what it finds, and that nothing else changes."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from geode.core.errors import ToolFailed
from geode.packs.execution.editing import apply_edit
from geode.packs.text import decode

# ---------------------------------------------------------------- cases


def test_R17_crlf_only_the_matched_bytes_change() -> None:
    edited = apply_edit(b"a\r\nb\r\nc\n\rx", "b", "B")
    assert edited.data == b"a\r\nB\r\nc\n\rx"
    assert edited.tolerances == ()


def test_R17_inserted_lines_take_the_majority_ending_and_the_others_stay() -> None:
    edited = apply_edit(b"a\r\nb\r\nc\n\rx", "b", "b\nb2\nb3")
    assert edited.data == b"a\r\nb\r\nb2\r\nb3\r\nc\n\rx"


def test_R17_a_match_over_mixed_line_ends_keeps_each_of_them() -> None:
    edited = apply_edit(b"a\r\nb\nc\r\nd\r\n", "a\nb\nc\n", "a\nB\nc\n")
    assert edited.data == b"a\r\nB\nc\r\nd\r\n"
    assert edited.tolerances == ("line endings",)


@pytest.mark.parametrize("tail", [b"", b"\n", b"\r\n", b"\n\n"])
def test_R17_the_last_line_end_state_is_kept(tail: bytes) -> None:
    assert apply_edit(b"x\r\ny" + tail, "y", "z").data == b"x\r\nz" + tail


def test_R17_old_text_with_a_line_end_the_last_line_does_not_have() -> None:
    edited = apply_edit(b"a\nb", "b\n", "c\n")
    assert edited.data == b"a\nc"
    assert edited.tolerances


def test_R17_a_match_never_splits_crlf() -> None:
    assert apply_edit(b"a\r\nb\r\nc", "\nb", "").data == b"a\r\nc"


def test_R17_a_file_with_lone_cr_only_keeps_them() -> None:
    edited = apply_edit(b"a\rb\rc\r", "b\nc", "b\nX\nc")
    assert edited.data == b"a\rb\rX\rc\r"


def test_R17_crlf_in_new_text_becomes_the_files_ending_and_is_reported() -> None:
    edited = apply_edit(b"a\nb\n", "b", "b\r\nc")
    assert edited.data == b"a\nb\nc\n"
    assert any("CRLF" in note for note in edited.notes)


GO = b"func f() {\n\tif x {\n\t\ty()\n\t}\n}\n"


def test_R16_tabs_are_found_by_blanks_and_written_as_tabs() -> None:
    edited = apply_edit(
        GO, "    if x {\n        y()\n    }", "    if x {\n        if z {\n            y()\n        }\n    }"
    )
    assert edited.data == b"func f() {\n\tif x {\n\t\tif z {\n\t\t\ty()\n\t\t}\n\t}\n}\n"
    assert any("tabs" in t for t in edited.tolerances)


@pytest.mark.parametrize("width", [2, 3, 8])
def test_R16_any_width_of_blanks_is_understood(width: int) -> None:
    one, two = " " * width, " " * 2 * width
    edited = apply_edit(GO, f"{one}if x {{\n{two}y()", f"{one}if x {{\n{two}y()\n{two}z()")
    assert edited.data == b"func f() {\n\tif x {\n\t\ty()\n\t\tz()\n\t}\n}\n"


def test_R16_indentation_left_out_altogether_is_put_back() -> None:
    edited = apply_edit(GO, "\t\ty()\n", "\t\tz()\n")
    assert edited.data == GO.replace(b"y()", b"z()")
    edited = apply_edit(
        b"class A:\n    def f(self):\n        return 1\n", "def f(self):\n    return 1", "def f(self):\n    return 2"
    )
    assert edited.data == b"class A:\n    def f(self):\n        return 2\n"


def test_R16_blanks_in_the_file_and_tabs_in_old_text() -> None:
    edited = apply_edit(b"if a:\n    if b:\n        c()\n", "\tif b:\n\t\tc()", "\tif b:\n\t\tif d:\n\t\t\tc()")
    assert edited.data == b"if a:\n    if b:\n        if d:\n            c()\n"


def test_R16_not_unique_without_indentation_is_refused() -> None:
    with pytest.raises(ToolFailed, match="2 times"):
        apply_edit(b"\tx()\n\t\tx()\n", "    x()\n", "y()\n")


def test_R16_contradictory_indentation_is_refused_and_says_the_file_uses_tabs() -> None:
    with pytest.raises(ToolFailed, match="uses tabs"):
        apply_edit(b"a:\n\tb\n\t\tc\n", "  b\n  c", "  b\n  d")


def test_R17_crlf_and_tabs_at_once() -> None:
    data = GO.replace(b"\n", b"\r\n")
    edited = apply_edit(data, "    if x {\n        y()", "    if x {\n        z()")
    assert edited.data == data.replace(b"y()", b"z()")


def test_T15_typographic_quotes_in_the_file_stay_where_nothing_changes() -> None:
    edited = apply_edit("er sagte “hallo” und „ja“.\n".encode(), 'sagte "hallo"', 'sagte "hallo" laut')
    assert edited.data == "er sagte “hallo” laut und „ja“.\n".encode()


def test_T15_quotes_given_in_new_text_are_written_as_given() -> None:
    assert apply_edit(b'say "x"\n', 'say "x"', "say “x”").data == "say “x”\n".encode()


def test_nfd_file_is_found_by_nfc_text_and_keeps_its_form() -> None:
    data = unicodedata.normalize("NFD", "한국어 café 값\n").encode()
    edited = apply_edit(data, "한국어 café 값", "한국어 café 값어치")
    assert edited.data == data[:-1] + "어치".encode() + b"\n"


def test_an_exact_match_wins_over_a_tolerant_one() -> None:
    edited = apply_edit('x = “a”\nx = "a"\n'.encode(), 'x = "a"', "y")
    assert edited.data == "x = “a”\ny\n".encode()


def test_more_than_one_place_is_refused_with_the_lines() -> None:
    with pytest.raises(ToolFailed, match=r"2 times.*lines 1, 3"):
        apply_edit(b"a\nb\na\n", "a", "c")


def test_overlapping_occurrences_are_not_unique() -> None:
    with pytest.raises(ToolFailed, match="2 times"):
        apply_edit(b"aXaXa", "aXa", "b")


def test_replace_all_replaces_every_place_whatever_its_line_end() -> None:
    edited = apply_edit(b"a\nb\r\na\r\nb\r\n", "a\nb", "c\nd", replace_all=True)
    assert edited.data == b"c\nd\r\nc\r\nd\r\n"
    assert edited.replacements == 2
    assert edited.lines == (1, 3)


def test_replace_all_does_not_guess() -> None:
    with pytest.raises(ToolFailed, match="only line endings"):
        apply_edit("“a” “a”".encode(), '"a"', "b", replace_all=True)


def test_line_numbers_copied_from_read_file_are_recognised() -> None:
    with pytest.raises(ToolFailed, match="line numbers"):
        apply_edit(b"one\ntwo\n", "    1│one\n    2│two", "x")


def test_an_edit_that_is_already_done_is_recognised() -> None:
    with pytest.raises(ToolFailed, match="already there"):
        apply_edit(b"def new_name():\n", "def old_name():", "def new_name():")


def test_the_closest_line_is_named() -> None:
    with pytest.raises(ToolFailed, match="closest line is 2"):
        apply_edit(b"first line\nsecond line here\n", "second lime here", "x")


@pytest.mark.parametrize(("old", "new"), [("", "x"), ("a", "a")])
def test_nothing_to_do_is_an_error(old: str, new: str) -> None:
    with pytest.raises(ToolFailed):
        apply_edit(b"a", old, new)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "latin-1", "cp949", "utf-16-le"])
def test_encoding_and_mark_are_kept(encoding: str) -> None:
    text = "제목: 값\n내용\n" if encoding in ("cp949", "utf-16", "utf-8-sig") else "café: x\nnaïve\n"
    old, new = ("내용", "내용물") if "내용" in text else ("naïve", "naïveté")
    edited = apply_edit(text.encode(encoding), old, new)
    assert edited.data == text.replace(old, new).encode(encoding)


def test_a_character_the_encoding_does_not_have_is_refused() -> None:
    with pytest.raises(ToolFailed, match=r"no '한'"):
        apply_edit("café naïve x".encode("latin-1"), "x", "한")


def test_invalid_bytes_elsewhere_survive() -> None:
    data = "값은 ".encode() + b"\xff\xfe\x80" + " 여기 x\n".encode()
    assert apply_edit(data, "x", "y").data == data.replace(b"x", b"y")


def test_a_huge_file_is_edited_quickly() -> None:
    data = b"line of text\r\n" * 200_000 + b"needle\r\n"
    assert apply_edit(data, "needle\n", "found\n").data.endswith(b"found\r\n")


# ---------------------------------------------------------------- properties

_ENDINGS = st.sampled_from(["\n", "\r\n", "\r"])
_WORDS = st.text(alphabet="ab \té값“\u0301\u1161", max_size=6)
_FILES = st.lists(st.tuples(_WORDS, _ENDINGS), min_size=1, max_size=12)
_ENCODINGS = st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-16-be"])


def _encoded(text: str, encoding: str) -> bytes:
    return b"\xfe\xff" + text.encode(encoding) if encoding == "utf-16-be" else text.encode(encoding)


@settings(max_examples=150, deadline=None)
@given(before=_FILES, after=_FILES, encoding=_ENCODINGS, new=st.text(alphabet="xyz\n", min_size=1, max_size=12))
def test_only_the_target_bytes_change(
    before: list[tuple[str, str]], after: list[tuple[str, str]], encoding: str, new: str
) -> None:
    head = "".join(word + end for word, end in before)
    tail = "".join(word + end for word, end in after)
    data = _encoded(head + "@@TARGET@@" + tail, encoding)
    result = apply_edit(data, "@@TARGET@@", new).data
    prefix, suffix = _encoded(head, encoding), _encoded("@@TARGET@@" + tail, encoding)
    mark = len(decode(data).bom)
    suffix = suffix[mark:][len("@@TARGET@@".encode("utf-16-le" if "16" in encoding else "utf-8")) :]
    assert result.startswith(prefix)
    assert result.endswith(suffix)
    middle = decode(data[:mark] + result[len(prefix) : len(result) - len(suffix)]).text
    assert middle.replace("\r\n", "\n").replace("\r", "\n") == new


@settings(max_examples=150, deadline=None)
@given(
    lines=st.lists(st.sampled_from(["alpha", "“beta”", "  gamma", "\tdelta", "é", ""]), min_size=1, max_size=6),
    ends=st.lists(_ENDINGS, min_size=6, max_size=6),
    change=st.integers(min_value=0, max_value=5),
)
def test_unchanged_lines_of_a_tolerant_match_keep_their_bytes(lines: list[str], ends: list[str], change: int) -> None:
    change %= len(lines)
    body = "".join(line + ends[at] for at, line in enumerate(lines))
    text = "<<\n" + body + ">>\n"
    old = "<<\n" + "".join(line + "\n" for line in lines) + ">>"
    changed = list(lines)
    changed[change] = "CHANGED"
    new = "<<\n" + "".join(line + "\n" for line in changed) + ">>"
    expected = "<<\n" + "".join(line + ends[at] for at, line in enumerate(changed)) + ">>\n"
    old = old.replace("“", '"').replace("”", '"')
    new = new.replace("“", '"').replace("”", '"')
    if any(
        end == "\r" and ends[at + 1 : at + 2] == ["\n"] and lines[at + 1 : at + 2] == [""]
        for at, end in enumerate(ends)
    ):
        return  # CR of one line and LF of the next are one line end
    assert apply_edit(text.encode(), old, new).data.decode() == expected


@settings(max_examples=200, deadline=None)
@given(data=st.binary(max_size=200))
def test_every_file_decodes_to_something_that_encodes_back(data: bytes) -> None:
    decoded = decode(data)
    assert decoded.bom + decoded.encode(decoded.text) == data


def test_a_match_never_starts_or_ends_inside_crlf() -> None:
    with pytest.raises(ToolFailed):
        apply_edit(b"x\r\ny\r\n", "x\r", "z", replace_all=True)
    assert apply_edit(b"a\r\n\r\nb", "\n\nb", "\nb").data == b"a\r\nb"


def test_a_tail_cut_inside_crlf_is_not_taken_for_a_line() -> None:
    assert apply_edit(b"q\r\n\r\na\r\nb", "a\nb\n", "c\n").data == b"q\r\n\r\nc"
