"""read_document: pages of every kind of document, through the sandbox."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from geode.core.errors import SandboxUnavailable, ToolFailed
from geode.packs.perception.reader.model import sections, wrap
from geode.packs.perception.reader.pages import (
    SelectionError,
    SheetPart,
    column_letters,
    column_number,
    name_pages,
    parse_pages,
    parse_sheets,
)

from . import samples
from .conftest import Bench

Put = Callable[[str, bytes | str], Path]

# ---------------------------------------------------------------- selections


@pytest.mark.parametrize(
    ("text", "pages"),
    [
        ("", [1, 2, 3, 4, 5]),
        ("2", [2]),
        ("1-3,5", [1, 2, 3, 5]),
        (" 4 - 5 , 1 ", [4, 5, 1]),
        ("3-", [3, 4, 5]),
        ("last", [5]),
        ("4-last", [4, 5]),
        ("2,2,1-2", [2, 1]),
    ],
)
def test_page_selections(text: str, pages: list[int]) -> None:
    assert parse_pages(text, 5) == pages


@pytest.mark.parametrize("text", ["0", "6", "3-9", "5-3", "x", "1;2", "-1", ",", "1-2-3", "٣", "99999999999999999999"])
def test_selections_that_name_nothing_say_what_exists(text: str) -> None:
    with pytest.raises(SelectionError) as raised:
        parse_pages(text, 5)
    assert raised.value.fix


@given(st.lists(st.integers(1, 30), unique=True, max_size=20))
def test_a_selection_and_its_name_are_the_same(numbers: list[int]) -> None:
    assert parse_pages(name_pages(numbers), 30) == (numbers or list(range(1, 31)))


NAMES = ["Sales", "Q1, north", "it's", "7", "Data!x"]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("2", [SheetPart(2)]),
        ("sales", [SheetPart(1)]),
        ("7", [SheetPart(4)]),
        ("1-2", [SheetPart(1), SheetPart(2)]),
        ("Sales!5", [SheetPart(1, 5, 5)]),
        ("Sales!10-20", [SheetPart(1, 10, 20)]),
        ("Sales!10-", [SheetPart(1, 10)]),
        ("2!A5:F20", [SheetPart(2, 5, 20, 1, 6)]),
        ("'Q1, north'!$B$2:$C3,Sales", [SheetPart(2, 2, 3, 2, 3), SheetPart(1)]),
        ("'it''s'!C", [SheetPart(3, 1, None, 3, 3)]),
        ("Data!x", [SheetPart(5)]),
        ("Q1, north", [SheetPart(2)]),
    ],
)
def test_sheet_selections(text: str, parts: list[SheetPart]) -> None:
    assert parse_sheets(text, NAMES) == parts


@pytest.mark.parametrize("text", ["Nope", "Sales!", "Sales!x-y", "Sales!0-3", "Sales!9-3", "'Sales", "9"])
def test_sheet_selections_that_name_nothing(text: str) -> None:
    if text == "'Sales":
        assert parse_sheets(text, NAMES)
        return
    with pytest.raises(SelectionError):
        parse_sheets(text, NAMES)


@given(st.integers(1, 20_000))
def test_column_letters_and_numbers(number: int) -> None:
    assert column_number(column_letters(number)) == number


@given(st.text(alphabet="ab \n", max_size=3000), st.integers(10, 200))
def test_sections_lose_nothing_but_blank_lines(text: str, chars: int) -> None:
    joined = "\n\n".join(sections(text, chars=chars))
    assert [x for x in joined.split("\n") if x] == [x for x in text.split("\n") if x]


@given(st.text(alphabet="ab ", min_size=1, max_size=9000))
def test_wrapping_keeps_the_words(text: str) -> None:
    lines = wrap(text)
    assert all(len(line) <= 2000 for line in lines)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")


# ---------------------------------------------------------------- PDF


@pytest.fixture
def report(put: Put) -> Path:
    pages = [
        [f"Chapter {n}", *(f"Line {k} of page {n} (with parentheses)" for k in range(1, 31))] for n in range(1, 13)
    ]
    return put("report.pdf", samples.pdf(pages))


async def test_one_page_of_a_pdf_with_the_total_and_how_to_read_on(bench: Bench, report: Path) -> None:
    output = await bench.run("read_document", path="report.pdf", pages="2")
    assert "page 2 of 12 pages (pdf)" in output.content.split("\n")[0]
    assert "Line 7 of page 2 (with parentheses)" in output.content
    assert "page 3" not in output.content
    assert 'the document has 12 pages. Read on: read_document {"path": "report.pdf", "pages": "3-"}' in output.content
    assert output.structured["total"] == 12


async def test_reading_on_leads_through_the_whole_document_once(bench: Bench, report: Path) -> None:
    seen: list[str] = []
    arguments: dict[str, Any] = {"path": "report.pdf"}
    for _ in range(12):
        output = await bench.run("read_document", **arguments)
        assert len(output.content) <= 10_000 and output.content.count("\n") < 200
        seen.append(output.content)
        following = output.structured["next"]
        if following is None:
            break
        arguments = {"path": "report.pdf", **following}
    assert "End of the document" in output.content
    joined = "\n".join(seen)
    assert all(joined.count(f"Line {k} of page {n} ") == 1 for n in range(1, 13) for k in range(1, 31))


async def test_a_page_too_long_at_once_goes_on_inside(bench: Bench, put: Put) -> None:
    put("long.html", "".join(f"<p>Row {n} has some text</p>" for n in range(1, 46)))
    output = await bench.run("read_document", path="long.html", limit=10)
    following = output.structured["next"]
    assert following["pages"] == "1" and following["offset"] > 1
    rest = await bench.run("read_document", path="long.html", **following)
    assert "Row 45 " in rest.content and "Row 1 " not in rest.content


async def test_pages_beyond_the_end_are_refused_with_the_total(bench: Bench, report: Path) -> None:
    with pytest.raises(ToolFailed) as raised:
        await bench.run("read_document", path="report.pdf", pages="13")
    assert "no page 13" in raised.value.message and "12 pages" in raised.value.fix


async def test_an_encrypted_pdf_is_an_error_and_not_an_empty_page(bench: Bench, put: Put) -> None:
    import pdf_oxide

    data = pdf_oxide.PdfDocument.from_bytes(samples.pdf([["secret text"]])).to_bytes_encrypted("user", "owner")
    put("locked.pdf", data)
    with pytest.raises(ToolFailed, match="encrypted"):
        await bench.run("read_document", path="locked.pdf")


async def test_a_page_without_text_says_so(bench: Bench, put: Put) -> None:
    put("scan.pdf", samples.pdf([[], ["text"]]))
    output = await bench.run("read_document", path="scan.pdf")
    assert "no text on this page" in output.content and "text" in output.content


@pytest.mark.parametrize(
    ("name", "data", "says"),
    [
        ("a.pdf", b"", "empty"),
        ("a.pdf", b"\n\n  \n", "empty"),
        ("a.pdf", b"%PDF-1.7\ngarbage", "damaged"),
        ("a.docx", b"PK\x03\x04 not a zip", "damaged"),
        ("a.xlsx", samples.zip_of({"xl/workbook.xml": b"<broken"}), "damaged"),
        ("a.docx", samples.zip_of({"word/document.xml": b"<broken"}), "damaged"),
        (
            "a.docx",
            b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(512) + "EncryptedPackage".encode("utf-16-le"),
            "encrypted",
        ),
        ("a.xlsx", samples.with_broken_sheet(), "could not be read"),
        ("a.zip", samples.zip_of({"x": b"1"}), "no document"),
        ("a.png", b"\x89PNG\r\n\x1a\n\x00", "PNG"),
        ("a.dat", bytes(range(256)), "no document"),
    ],
)
async def test_bad_files_give_one_clear_error(bench: Bench, put: Put, name: str, data: bytes, says: str) -> None:
    put(name, data)
    with pytest.raises(ToolFailed) as raised:
        await bench.run("read_document", path=name)
    assert says in raised.value.message
    assert raised.value.fix and "Traceback" not in raised.value.message and "\n" not in raised.value.message


async def test_an_archive_that_unpacks_to_too_much_is_refused(bench: Bench, put: Put) -> None:
    put("bomb.xlsx", samples.zip_of({"xl/workbook.xml": b"<x/>", "xl/a": b"0"}, claimed_size=3 * 1024**3))
    with pytest.raises(ToolFailed, match=r"unpacks to 3\.0 GB"):
        await bench.run("read_document", path="bomb.xlsx")


async def test_mutated_pdfs_never_break_the_tool(bench: Bench, put: Put) -> None:
    good = samples.pdf([["one"], ["two"]])
    for cut in (len(good) // 3, len(good) // 2, len(good) - 60):
        put("m.pdf", good[:cut])
        try:
            output = await bench.run("read_document", path="m.pdf")
            assert "the file is cut off at its end" in output.content
            assert "Error" not in output.content
        except ToolFailed as error:
            assert error.fix


async def test_without_a_sandbox_nothing_is_parsed(bare: Bench, put: Put) -> None:
    put("a.pdf", samples.pdf([["x"]]))
    with pytest.raises(SandboxUnavailable, match="sandbox") as raised:
        await bare.run("read_document", path="a.pdf")
    assert "doctor" in raised.value.fix


# ---------------------------------------------------------------- Office, HTML, text


async def test_word_by_its_page_breaks_with_tables(bench: Bench, put: Put) -> None:
    put("d.docx", samples.docx(["첫째 문단", "second", "third"], table=[["a", "b"], ["1", "2"]], break_before=2))
    output = await bench.run("read_document", path="d.docx", pages="1")
    assert "첫째 문단" in output.content and "third" not in output.content
    output = await bench.run("read_document", path="d.docx", pages="2")
    assert "third" in output.content and "| a | b |" in output.content


ROWS = [["date", "item", "qty", "price", "total"]] + [
    [datetime.date(2024, 3, 15), f"item|{n}", n, n * 1.5, f"=C{n + 1}*D{n + 1}"] for n in range(1, 501)
]


async def test_a_workbook_by_sheets_rows_and_cells(bench: Bench, put: Put) -> None:
    put("s.xlsx", samples.xlsx({"Sales": ROWS, "Q1, north": [["x\ny", True, 3.0]]}))
    output = await bench.run("read_document", path="s.xlsx")
    assert "| 2 | 2024-03-15 | item\\|1 | 1 | 1.5 | =C2*D2 |" in output.content
    assert "no stored value" in output.content
    following = output.structured["next"]["pages"]
    assert following.startswith("1!") and following.endswith("-,2")
    first_unseen = int(following.split("!")[1].split("-")[0])
    assert f"\n| {first_unseen - 1} |" in output.content and f"\n| {first_unseen} |" not in output.content
    output = await bench.run("read_document", path="s.xlsx", pages="Sales!A500:B501,'Q1, north'")
    assert "| 501 | 2024-03-15 | item\\|500 |" in output.content
    assert "| 1 | x<br>y | TRUE | 3 |" in output.content
    with pytest.raises(ToolFailed, match="no sheet 'Other'") as raised:
        await bench.run("read_document", path="s.xlsx", pages="Other")
    assert "1: Sales, 2: Q1, north" in raised.value.fix


async def test_reading_on_in_a_workbook_shows_every_row_once(bench: Bench, put: Put) -> None:
    put("s.xlsx", samples.xlsx({"A": [[n, "x" * 60] for n in range(1, 301)], "B": [["end"]]}))
    seen: list[int] = []
    arguments: dict[str, Any] = {"path": "s.xlsx"}
    for _ in range(20):
        output = await bench.run("read_document", **arguments)
        seen += [int(line.split("|")[2]) for line in output.content.split("\n") if line.count("| xxx")]
        if output.structured["next"] is None:
            break
        arguments = {"path": "s.xlsx", **output.structured["next"]}
    assert seen == list(range(1, 301))
    assert "end" in output.content


@pytest.mark.parametrize("charset", ["utf-8", "euc-kr"])
async def test_html_in_the_encoding_it_declares(bench: Bench, put: Put, charset: str) -> None:
    html = (
        f"<html><head><meta charset='{charset}'><title>t</title><script>var hidden</script></head><body><h1>제목</h1>"
        "<p>Hello <a href='http://x/y'>link</a></p><table><tr><th>a</th></tr><tr><td>1</td></tr></table></body></html>"
    )
    put("p.html", html.encode(charset))
    content = (await bench.run("read_document", path="p.html")).content
    assert "# 제목" in content and "[link](http://x/y)" in content and "| a |" in content and "hidden" not in content


async def test_text_csv_and_markdown_in_sections(bench: Bench, put: Put) -> None:
    put("t.csv", "이름,값\n".encode("cp949") + b"".join(b"row%d,%d\n" % (n, n) for n in range(1, 450)))
    output = await bench.run("read_document", path="t.csv", pages="3")
    assert "section 3 of 3" in output.content and "row449,449" in output.content and "cp949" in output.content
    put("r.md", "# Title\n\ntext\n")
    assert "# Title" in (await bench.run("read_document", path="r.md")).content


async def test_the_reader_is_not_led_astray_by_files_of_the_project(bench: Bench, put: Put, report: Path) -> None:
    put("json.py", "raise SystemExit('shadowed')\n")
    put("geode/__init__.py", "raise SystemExit('shadowed')\n")
    put("sitecustomize.py", "raise SystemExit('shadowed')\n")
    assert "Chapter 1" in (await bench.run("read_document", path="report.pdf", pages="1")).content
