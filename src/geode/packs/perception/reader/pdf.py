"""PDF, page by page: pdf-oxide as Markdown, pypdfium2 as plain text where that fails."""

from __future__ import annotations

import re
from typing import Any, Protocol

from .model import ReadError, wrap
from .pages import name_pages, parse_pages

__all__ = ["Pdf"]

_ENCRYPTED = ReadError(
    "the PDF is encrypted and needs a password",
    "ask for an unprotected copy, or remove the password first (for example qpdf --decrypt)",
)


class _Engine(Protocol):
    total: int

    def page(self, number: int) -> str: ...


class Pdf:
    """A PDF document."""

    kind = "pdf"
    unit = "page"

    def __init__(self, data: bytes) -> None:
        self.notes: list[str] = []
        self._data = data
        self._plain: _Engine | None = None
        if b"%%EOF" not in data[-4096:]:
            self.notes.append("the file is cut off at its end: pages or text may be missing")
        self._engine = self._open(data)

    def _open(self, data: bytes) -> _Engine:
        try:
            return _Oxide(data)
        except ImportError:
            pass
        except ReadError:
            raise
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException:  # pyo3's PanicException is no Exception; the other reader may still manage
            self.notes.append("its structure is damaged, so it was read as plain text, without headings and tables")
        return self._fallback()

    def _fallback(self) -> _Engine:
        if self._plain is None:
            self._plain = _Pdfium(self._data)
        return self._plain

    @property
    def total(self) -> int:
        return self._engine.total

    def select(self, pages: str) -> list[int]:
        return parse_pages(pages, self.total, "page")

    def title(self, part: int) -> str:
        return f"page {part} of {self.total}"

    def name(self, parts: list[int]) -> str:
        return name_pages(parts)

    def render(self, part: int, lines: int) -> tuple[list[str], None]:
        try:
            text = self._engine.page(part)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException:  # see _open
            self.notes.append(f"page {part} is damaged and was read as plain text, without headings and tables")
            text = ""
        if not text.strip() and isinstance(self._engine, _Oxide):
            try:
                text = self._fallback().page(part)
            except ReadError:
                text = ""
        if not text.strip():
            text = "(no text on this page: it is empty or an image; text in images is not recognised)"
        return wrap(text), None


class _Oxide:
    def __init__(self, data: bytes) -> None:
        import pdf_oxide

        pdf_oxide.disable_logging()
        self._document: Any = pdf_oxide.PdfDocument.from_bytes(data)
        # Without the password it answers with empty pages instead of an error.
        if not self._document.authenticate(""):
            raise _ENCRYPTED
        self.total = int(self._document.page_count)
        if self.total < 1:
            raise ValueError("no pages found")

    def page(self, number: int) -> str:
        text = str(self._document.to_markdown(number - 1, embed_images=False))
        # One bold phrase comes as bold words.
        text = re.sub(r"(?<=\S)\*\* \*\*(?=\S)", " ", text)
        return re.sub(r"\n{3,}", "\n\n", text).strip("\n")


class _Pdfium:
    def __init__(self, data: bytes) -> None:
        try:
            import pypdfium2
        except ImportError as error:
            raise ReadError(
                "no PDF reader is installed", "install the extra: pip install 'geode-runtime[documents]'", "missing"
            ) from error
        try:
            self._document: Any = pypdfium2.PdfDocument(data)
            self.total = len(self._document)
        except pypdfium2.PdfiumError as error:
            if "assword" in str(error):
                raise _ENCRYPTED from error
            raise ReadError(
                f"the PDF is damaged or not a PDF: {str(error).split('(')[-1].rstrip(').')}",
                "check that the download is complete, or get the file again",
            ) from error

    def page(self, number: int) -> str:
        page = self._document[number - 1]
        try:
            text = page.get_textpage()
            try:
                return str(text.get_text_bounded()).replace("\r\n", "\n")
            finally:
                text.close()
        finally:
            page.close()
