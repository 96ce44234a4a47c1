"""Selections: `2`, `1-3,7`, `5-`, `last`; for workbooks also `Sales`, `Sales!1-200`, `'Q1, north'!A5:F20`."""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["SelectionError", "SheetPart", "name_pages", "parse_pages", "parse_sheets"]

_ITEM = re.compile(r"(\d+|last)(?:\s*(-)\s*(\d+|last)?)?\Z", re.IGNORECASE | re.ASCII)
_ROWS = re.compile(r"(\d+)(?:\s*(-)\s*(\d+)?)?\Z", re.ASCII)
_CELLS = re.compile(r"\$?([A-Za-z]{1,3})\$?(\d+)?(?::\$?([A-Za-z]{1,3})\$?(\d+)?)?\Z", re.ASCII)
_MAX_ITEMS = 10_000


class SelectionError(ValueError):
    """The selection cannot be understood or names something that does not exist. `fix` says what does."""

    def __init__(self, message: str, fix: str) -> None:
        super().__init__(message)
        self.message, self.fix = message, fix


def parse_pages(text: str, total: int, unit: str = "page") -> list[int]:
    """Numbers named by a selection, in its order, each once.

    Args:
        text: for example `2`, `1-3,7`, `5-` (to the end), `last`; empty: all.
        total: how many there are.
        unit: what they are called.

    Raises:
        SelectionError: not understood, or beyond the end.
    """
    if not text.strip():
        return list(range(1, total + 1))
    numbers: dict[int, None] = {}
    for item in text.split(","):
        found = _ITEM.match(item.strip())
        if found is None:
            how = f'use for example "2", "1-3,7", "5-" or "last"; {_has(total, unit)}'
            raise SelectionError(f"{item.strip()!r} names no {unit}", how)
        first = _number(found[1], total)
        last = first if found[2] is None else (_number(found[3], total) if found[3] else total)
        for number in (first, last):
            if not 1 <= number <= total:
                raise SelectionError(f"there is no {unit} {number}", _has(total, unit))
        if last < first:
            raise SelectionError(f"{item.strip()!r} runs backwards", f'write "{last}-{first}"')
        if len(numbers) + last - first > _MAX_ITEMS:
            raise SelectionError(f"too many {unit}s are selected", "select fewer")
        numbers.update(dict.fromkeys(range(first, last + 1)))
    return list(numbers)


def _number(text: str, total: int) -> int:
    return total if text.lower() == "last" else int(text[:9])


def _has(total: int, unit: str) -> str:
    return f"the document has {total} {unit}{'' if total == 1 else 's'}: use 1-{total}" if total else "it is empty"


def name_pages(numbers: list[int]) -> str:
    """The shortest selection that names these numbers in this order."""
    parts: list[str] = []
    at = 0
    while at < len(numbers):
        end = at
        while end + 1 < len(numbers) and numbers[end + 1] == numbers[end] + 1:
            end += 1
        parts.append(str(numbers[at]) if end == at else f"{numbers[at]}-{numbers[end]}")
        at = end + 1
    return ",".join(parts)


@dataclass(frozen=True, slots=True)
class SheetPart:
    """Rows and columns of one sheet, 1-based and inclusive; None means to the end.

    Attributes:
        sheet: position of the sheet in the workbook, 1-based.
        first_row, last_row, first_column, last_column: the rectangle.
    """

    sheet: int
    first_row: int = 1
    last_row: int | None = None
    first_column: int = 1
    last_column: int | None = None


def parse_sheets(text: str, names: list[str]) -> list[SheetPart]:
    """Parts of a workbook: sheets by number or name, each with rows or a cell range after `!`.

    Args:
        text: for example `2`, `1-3`, `Sales`, `Sales!1-200`, `2!500-`, `'Q1, north'!A5:F20`; empty: all.
        names: the sheets' names.

    Raises:
        SelectionError
    """
    if not text.strip():
        return [SheetPart(n) for n in range(1, len(names) + 1)]
    parts: list[SheetPart] = []
    for item in [text.strip()] if text.strip() in names else _split_items(text):
        sheet, bang, rest = (item, False, "") if item in names else _split_sheet(item)
        numbers = _sheet_numbers(sheet, names, quoted=item.startswith("'"))
        if bang and not rest:
            raise SelectionError(f"{item!r} names no rows", f'write for example "{sheet}!1-200"')
        for number in numbers:
            parts.append(SheetPart(number, *_rectangle(rest, item)) if bang else SheetPart(number))
    return parts


def _split_items(text: str) -> list[str]:
    items: list[str] = []
    current, quoted = "", False
    for char in text:
        if char == "'":
            quoted = not quoted
        if char == "," and not quoted:
            items.append(current.strip())
            current = ""
        else:
            current += char
    items.append(current.strip())
    return items


def _split_sheet(item: str) -> tuple[str, bool, str]:
    if item.startswith("'"):
        end = len(item)
        at = 1
        while at < len(item):
            if item[at] == "'":
                if item[at + 1 : at + 2] != "'":
                    end = at
                    break
                at += 1
            at += 1
        rest = item[end + 1 :].strip()
        return item[1:end].replace("''", "'"), rest.startswith("!"), rest[1:].strip()
    sheet, bang, rest = item.rpartition("!")
    return (sheet.strip(), True, rest.strip()) if bang else (item, False, "")


def _sheet_numbers(sheet: str, names: list[str], *, quoted: bool) -> list[int]:
    for number, name in enumerate(names, 1):
        if name == sheet:
            return [number]
    folded = [n for n, name in enumerate(names, 1) if name.casefold() == sheet.casefold()]
    if len(folded) == 1:
        return folded
    if not quoted and _ITEM.match(sheet):
        return parse_pages(sheet, len(names), "sheet")
    listed = ", ".join(f"{n}: {name}" for n, name in enumerate(names[:30], 1))
    raise SelectionError(f"there is no sheet {sheet!r}", f"the sheets are {listed}")


def _rectangle(rest: str, item: str) -> tuple[int, int | None, int, int | None]:
    rows = _ROWS.match(rest)
    if rows:
        first = int(rows[1][:9])
        last = first if rows[2] is None else (int(rows[3][:9]) if rows[3] else None)
        return _checked((first, last, 1, None), item)
    cells = _CELLS.match(rest)
    if cells:
        column, row, end_column, end_row = cells.groups()
        single = end_column is None
        first_row = int(row[:9]) if row else 1
        last_row = (first_row if row else None) if single else (int(end_row[:9]) if end_row else None)
        left = column_number(column)
        return _checked((first_row, last_row, left, left if single else column_number(end_column)), item)
    raise SelectionError(
        f"{rest!r} in {item!r} names neither rows nor cells", 'write rows as "Sales!1-200" or cells as "Sales!A1:F20"'
    )


def _checked(area: tuple[int, int | None, int, int | None], item: str) -> tuple[int, int | None, int, int | None]:
    first_row, last_row, left, right = area
    if first_row < 1:
        raise SelectionError(f"{item!r} starts before row 1", "rows are counted from 1")
    if (last_row is not None and last_row < first_row) or (right is not None and right < left):
        raise SelectionError(f"{item!r} runs backwards", "write the smaller end first")
    return area


def column_number(letters: str) -> int:
    """A = 1, Z = 26, AA = 27."""
    number = 0
    for letter in letters.upper():
        number = number * 26 + ord(letter) - 64
    return number


def column_letters(number: int) -> str:
    """1 = A, 26 = Z, 27 = AA."""
    letters = ""
    while number > 0:
        number, rest = divmod(number - 1, 26)
        letters = chr(65 + rest) + letters
    return letters
