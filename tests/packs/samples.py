"""Documents made for the tests."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence
from typing import Any


def pdf(pages: Sequence[Sequence[str]]) -> bytes:
    """A PDF with one text line after the other on each page."""
    objects: list[bytes] = []
    kids = " ".join(f"{4 + 2 * n} 0 R" for n in range(len(pages)))
    objects.append(b"<< /Type /Catalog /Pages 2 0 R >>")
    objects.append(f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>".encode())
    objects.append(b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>")
    for n, lines in enumerate(pages):
        text = "".join(f"({_escape(line)}) Tj 0 -16 Td " for line in lines)
        stream = f"BT /F1 11 Tf 60 780 Td {text}ET".encode("latin-1")
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents {5 + 2 * n} 0 R "
            "/Resources << /Font << /F1 3 0 R >> >> >>".encode()
        )
        objects.append(f"<< /Length {len(stream)} >>\nstream\n".encode() + stream + b"\nendstream")
    out = io.BytesIO(b"%PDF-1.4\n")
    out.seek(0, io.SEEK_END)
    places: list[int] = []
    for number, content in enumerate(objects, 1):
        places.append(out.tell())
        out.write(f"{number} 0 obj\n".encode() + content + b"\nendobj\n")
    start = out.tell()
    out.write(f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n".encode())
    for place in places:
        out.write(f"{place:010} 00000 n \n".encode())
    out.write(f"trailer\n<< /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{start}\n%%EOF\n".encode())
    return out.getvalue()


def _escape(text: str) -> str:
    return text.replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)")


def docx(paragraphs: Sequence[str], *, table: Sequence[Sequence[str]] = (), break_before: int = -1) -> bytes:
    """A Word document; a page break stands before paragraph `break_before`."""
    import docx as library

    document: Any = library.Document()
    for at, text in enumerate(paragraphs):
        if at == break_before:
            document.add_page_break()
        document.add_paragraph(text)
    if table:
        grid = document.add_table(len(table), len(table[0]))
        for row, cells in enumerate(table):
            for column, cell in enumerate(cells):
                grid.cell(row, column).text = cell
    out = io.BytesIO()
    document.save(out)
    return out.getvalue()


def xlsx(sheets: dict[str, Sequence[Sequence[Any]]]) -> bytes:
    """A workbook."""
    import openpyxl

    book: Any = openpyxl.Workbook()
    book.remove(book.active)
    for name, rows in sheets.items():
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(row)
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def zip_of(files: dict[str, bytes], *, claimed_size: int = 0) -> bytes:
    """A ZIP archive; with `claimed_size` its last entry claims to unpack to that many bytes."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
        if claimed_size:
            archive.infolist()[-1].file_size = claimed_size
    return out.getvalue()


def with_broken_sheet() -> bytes:
    """A workbook whose sheet is no XML."""
    with zipfile.ZipFile(io.BytesIO(xlsx({"A": [[1, 2]]}))) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    files["xl/worksheets/sheet1.xml"] = files["xl/worksheets/sheet1.xml"].replace(b"</row>", b"<row")
    return zip_of(files)
