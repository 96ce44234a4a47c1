"""Workbooks (XLSX, XLSM): cells as a table with row numbers and column letters."""

from __future__ import annotations

import datetime
import io
import itertools
import warnings
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from .model import ReadError
from .pages import SheetPart, column_letters, name_pages, parse_sheets

__all__ = ["Workbook"]

_CELL = 500
_COLUMNS = 60


class Workbook:
    """A workbook; a part is a rectangle of one sheet."""

    kind = "xlsx"
    unit = "sheet"

    def __init__(self, data: bytes) -> None:
        try:
            import openpyxl
        except ImportError as error:
            raise ReadError(
                "no reader for workbooks is installed",
                "install the extra: pip install 'geode-runtime[documents]'",
                "missing",
            ) from error
        self._openpyxl, self._data = openpyxl, data
        self.notes: list[str] = []
        warnings.simplefilter("ignore")
        self._book = self._load(values=False)
        self._values: Any = None
        self._sheets: list[Any] = list(self._book.worksheets)
        if not self._sheets:
            raise ReadError("the workbook has no sheet with cells", "there is nothing to read in it")
        hidden = [s.title for s in self._sheets if s.sheet_state != "visible"]
        if hidden:
            self.notes.append(f"hidden sheets: {', '.join(hidden)}")

    def _load(self, *, values: bool) -> Any:
        try:
            return self._openpyxl.load_workbook(
                io.BytesIO(self._data), read_only=True, data_only=values, keep_links=False
            )
        except (zipfile.BadZipFile, KeyError, ValueError, TypeError, OSError, SyntaxError) as error:
            raise ReadError(
                f"the workbook is damaged or not an XLSX file: {error}", "open it in a spreadsheet and save it again"
            ) from error

    @property
    def total(self) -> int:
        return len(self._sheets)

    @property
    def names(self) -> list[str]:
        return [sheet.title for sheet in self._sheets]

    def select(self, pages: str) -> list[SheetPart]:
        return parse_sheets(pages, self.names)

    def title(self, part: SheetPart) -> str:
        sheet = self._sheets[part.sheet - 1]
        size = f", {sheet.max_row:,} rows" if sheet.max_row else ""
        return f'sheet {part.sheet} of {self.total}: "{sheet.title}"{size}'

    def name(self, parts: list[SheetPart]) -> str:
        whole = [p.sheet for p in parts if p == SheetPart(p.sheet)]
        if len(whole) == len(parts):
            return name_pages(whole)
        return ",".join(_name(part) for part in parts)

    def render(self, part: SheetPart, lines: int) -> tuple[list[str], SheetPart | None]:
        wanted = max(1, lines - 2)
        last = part.first_row + wanted
        if part.last_row is not None:
            last = min(last, part.last_row)
        rows = list(itertools.islice(self._rows(self._book, part, last), wanted + 1))
        if any(isinstance(cell, str) and cell.startswith("=") for row in rows for cell in row):
            rows = self._with_values(part, last, rows, wanted)
        while rows and part.last_row is None and all(cell is None for cell in rows[-1]) and len(rows) <= wanted:
            rows.pop()
        rest = None
        if len(rows) > wanted:
            rows = rows[:wanted]
            rest = replace(part, first_row=part.first_row + wanted)
        if not rows:
            return ["(no cells here)"], None
        return self._table(part, rows), rest

    def _rows(self, book: Any, part: SheetPart, last: int) -> Iterator[list[Any]]:
        sheet = book.worksheets[part.sheet - 1]
        if sheet.max_row is None or sheet.max_row == 1:
            sheet.reset_dimensions()  # some writers store a wrong size
        limit = part.last_column or part.first_column + _COLUMNS
        found = sheet.iter_rows(
            min_row=part.first_row, max_row=last, min_col=part.first_column, max_col=limit, values_only=True
        )
        return (list(row) for row in found)

    def _with_values(self, part: SheetPart, last: int, rows: list[list[Any]], wanted: int) -> list[list[Any]]:
        """Formulas replaced by their stored values; a formula without one stays visible as a formula."""
        if self._values is None:
            self._values = self._load(values=True)
        values = list(itertools.islice(self._rows(self._values, part, last), wanted + 1))
        missing = 0
        merged: list[list[Any]] = []
        for formulas, stored in itertools.zip_longest(rows, values, fillvalue=[]):
            line: list[Any] = []
            for formula, value in itertools.zip_longest(formulas, stored):
                if value is None and isinstance(formula, str) and formula.startswith("="):
                    missing += 1
                    line.append(formula)
                else:
                    line.append(value)
            merged.append(line)
        if missing:
            self._note(f"{missing} formulas have no stored value and are shown as formulas")
        return merged

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def _table(self, part: SheetPart, rows: list[list[Any]]) -> list[str]:
        width = max((at + 1 for row in rows for at, cell in enumerate(row) if cell is not None), default=1)
        if part.last_column is None and width > _COLUMNS:
            width = _COLUMNS
            first = column_letters(part.first_column + width)
            sheet = self.names[part.sheet - 1]
            self._note(f'more than {_COLUMNS} columns: read on with pages "{_quoted(sheet)}!{first}1:..."')
        letters = [column_letters(part.first_column + at) for at in range(width)]
        lines = ["| row | " + " | ".join(letters) + " |", "|" + "---|" * (width + 1)]
        for at, row in enumerate(rows):
            cells = [_text(cell) for cell in (row + [None] * width)[:width]]
            lines.append(f"| {part.first_row + at} | " + " | ".join(cells) + " |")
        return lines


def _name(part: SheetPart) -> str:
    if part.first_column != 1 or part.last_column is not None:
        left, right = column_letters(part.first_column), column_letters(part.last_column or part.first_column)
        return f"{part.sheet}!{left}{part.first_row}:{right}{part.last_row or ''}"
    if part.last_row is None:
        return str(part.sheet) if part.first_row == 1 else f"{part.sheet}!{part.first_row}-"
    return f"{part.sheet}!{part.first_row}-{part.last_row}"


def _quoted(name: str) -> str:
    return name if name.replace("_", "a").isalnum() else "'" + name.replace("'", "''") + "'"


def _text(cell: Any) -> str:
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "TRUE" if cell else "FALSE"
    if isinstance(cell, float):
        return repr(int(cell)) if cell.is_integer() and abs(cell) < 1e15 else repr(cell)
    if isinstance(cell, datetime.datetime):
        return cell.isoformat(sep=" ") if cell.time() != datetime.time() else cell.date().isoformat()
    if isinstance(cell, datetime.date | datetime.time):
        return cell.isoformat()
    text = str(cell).replace("\r\n", "\n").replace("|", "\\|").replace("\n", "<br>")
    return text if len(text) <= _CELL else f"{text[:_CELL]}… ({len(text):,} characters)"
