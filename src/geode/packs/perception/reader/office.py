"""DOCX, PPTX, HTML and other formats through xberg, as Markdown."""

from __future__ import annotations

import asyncio
import re
from typing import Any

from ...text import decode
from .model import ReadError, Sections, sections

__all__ = ["MIME", "read_office"]

MIME = {
    "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    "odt": "application/vnd.oasis.opendocument.text",
    "ods": "application/vnd.oasis.opendocument.spreadsheet",
    "epub": "application/epub+zip",
    "html": "text/html",
    "eml": "message/rfc822",
    "rtf": "application/rtf",
    "doc": "application/msword",
    "xls": "application/vnd.ms-excel",
    "ppt": "application/vnd.ms-powerpoint",
}


def read_office(data: bytes, kind: str, name: str) -> Sections:
    """Read the whole document; its own page breaks or slides are the parts, else sections.

    Raises:
        ReadError: damaged, protected, or the reader is not installed.
    """
    if kind == "html":
        data = _as_utf8(data)
    try:
        import xberg
    except ImportError as error:
        raise ReadError(
            f"no reader for {kind} is installed", "install the extra: pip install 'geode-runtime[documents]'", "missing"
        ) from error
    config = xberg.ExtractionConfig(
        use_cache=False, output_format="markdown", disable_ocr=True, pages=xberg.PageConfig(extract_pages=True)
    )
    item = xberg.ExtractInput(kind="bytes", bytes=data, mime_type=MIME[kind], filename=name)
    try:
        found: Any = asyncio.run(xberg.extract(item, config))
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic in the extension is no Exception
        raise _unreadable(kind, str(error)) from error
    if not found.results:
        raise _unreadable(kind, "nothing was found in it")
    document = found.results[0]
    pages = [str(page.content) for page in document.pages or []]
    if len(pages) > 1:
        return Sections(kind, pages, "slide" if kind in ("pptx", "ppt") else "page")
    text = re.sub(r"\A---\n.*?\n---\n+", "", str(document.content), count=1, flags=re.DOTALL)
    return Sections(kind, sections(text))


def _unreadable(kind: str, why: str) -> ReadError:
    if "ncrypt" in why or "assword" in why:
        return ReadError(f"the {kind} file is encrypted and needs a password", "ask for an unprotected copy")
    return ReadError(
        f"the {kind} file is damaged or not of that kind: {why[:200]}",
        "open it in its program and save it again, or name another file_type",
    )


def _as_utf8(data: bytes) -> bytes:
    """HTML in the encoding it declares, as UTF-8 that declares nothing."""
    declared = re.search(rb"<meta[^>]{0,200}charset\s*=\s*[\"']?([\w.:-]{2,40})", data[:4096], re.IGNORECASE)
    text: str | None = None
    if declared and not data.startswith((b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")):
        name = declared[1].decode("ascii").lower()
        try:
            text = data.decode({"euc-kr": "cp949", "ks_c_5601-1987": "cp949"}.get(name, name))
        except (LookupError, UnicodeDecodeError):
            text = None
    if text is None:
        text = decode(data).text
    text = re.sub(r"(<meta[^>]{0,200}charset\s*=\s*[\"']?)[\w.:-]{2,40}", r"\1utf-8", text, count=1, flags=re.I)
    return text.encode("utf-8", "replace")
