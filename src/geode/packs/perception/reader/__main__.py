"""Entry point of the child: one request line of JSON and the document on stdin, one JSON object on stdout."""

from __future__ import annotations

import io
import json
import re
import sys
import zipfile
from typing import Any

from ...text import decode, is_binary, kind_of_binary, split_lines
from .model import Document, ReadError, Request, Sections
from .pages import SelectionError

_EXTENSIONS = {
    "pdf": "pdf",
    "xlsx": "xlsx",
    "xlsm": "xlsx",
    "docx": "docx",
    "pptx": "pptx",
    "odt": "odt",
    "ods": "ods",
    "epub": "epub",
    "html": "html",
    "htm": "html",
    "xhtml": "html",
    "eml": "eml",
    "rtf": "rtf",
    "doc": "doc",
    "xls": "xls",
    "ppt": "ppt",
}
_MAX_UNPACKED = 1024 * 1024 * 1024
_LINES_PER_SECTION = 200


def main() -> None:
    """Answer the request; every failure that can be named becomes a JSON answer too."""
    head, _, data = sys.stdin.buffer.read().partition(b"\n")
    request = Request(**json.loads(head))
    try:
        answer = _answer(request, data)
    except ReadError as error:
        answer = {"ok": False, "message": error.message, "fix": error.fix, "code": error.code}
    except SelectionError as error:
        answer = {"ok": False, "message": error.message, "fix": error.fix, "code": "tool_failed"}
    except MemoryError:
        answer = {
            "ok": False,
            "message": "reading it needs more memory than a reader may use",
            "fix": "read a smaller part or a smaller file",
            "code": "tool_failed",
        }
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # boundary: parsers raise (and panic) in many ways on damaged files
        answer = {
            "ok": False,
            "message": f"it could not be read: {type(error).__name__}: {str(error)[:200]}",
            "fix": "the file is probably damaged: save it again in its program, or get it again",
            "code": "tool_failed",
        }
    sys.stdout.write(json.dumps(answer) + "\n")


def _answer(request: Request, data: bytes) -> dict[str, Any]:
    document = _open(request, data)
    parts = document.select(request.pages)
    least = 3 if document.unit == "sheet" else 1
    if document.unit == "sheet" and request.offset > 1:
        raise ReadError("offset does not apply to workbooks", 'select rows instead, for example "pages": "Sales!101-"')
    lines: list[str] = []
    shown: list[Any] = []
    room = request.chars
    offset = request.offset
    following: dict[str, Any] | None = None
    for at, part in enumerate(parts):
        if at and (room < 200 or len(lines) >= request.limit - 2):
            following = {"pages": document.name(parts[at:])}
            break
        body, rest = document.render(part, request.limit - len(lines) - 1 + (offset - 1 if not at else 0))
        if not at and offset > max(1, len(body)):
            raise ReadError(f"{document.title(part)} has {len(body)} lines", "use a smaller offset")
        start = offset - 1 if not at else 0
        taken, room = _fit(body[start:], request.limit - len(lines) - 1, room, least)
        lines += [f"--- {document.title(part)} ---", *body[start : start + taken]]
        shown.append(part)
        if start + taken < len(body):
            following = _inside(document, part, parts[at + 1 :], start, taken)
            break
        if rest is not None:
            following = {"pages": document.name([rest, *parts[at + 1 :]])}
            break
    return {
        "ok": True,
        "kind": document.kind,
        "unit": document.unit,
        "total": document.total,
        "shown": document.name(shown),
        "lines": lines,
        "next": following,
        "notes": document.notes,
    }


def _inside(document: Document, part: Any, later: list[Any], start: int, taken: int) -> dict[str, Any]:
    """How to go on inside a part that did not fit."""
    if document.unit == "sheet":
        from dataclasses import replace

        rest = replace(part, first_row=part.first_row + max(1, taken - 2))
        return {"pages": document.name([rest, *later])}
    return {"pages": document.name([part, *later]), "offset": start + taken + 1}


def _fit(lines: list[str], limit: int, room: int, least: int) -> tuple[int, int]:
    """How many lines fit into `limit` lines and `room` characters; at least `least` (a table's head and a row)."""
    taken = 0
    for line in lines[: max(least, limit)]:
        if taken >= least and len(line) + 1 > room:
            break
        room -= len(line) + 1
        taken += 1
    return taken, room


def _open(request: Request, data: bytes) -> Document:
    kind = request.kind if request.kind != "auto" else kind_of(data, request.name)
    if not data.strip(b"\x00 \t\r\n"):
        raise ReadError("the file is empty", "check that it was written or downloaded completely")
    if kind == "pdf":
        from .pdf import Pdf

        return Pdf(data)
    if data.startswith(b"PK\x03\x04"):
        _check_size(data)
    if kind == "xlsx":
        from .workbook import Workbook

        return Workbook(data)
    if kind == "text":
        return _text(data)
    from .office import MIME, read_office

    if kind not in MIME:
        raise ReadError(
            f"it is no document this tool can read: {kind_of_binary(data[:64])}",
            "it reads PDF, DOCX, XLSX, PPTX, HTML, EPUB, ODT, EML, RTF and text",
        )
    return read_office(data, kind, request.name)


def kind_of(data: bytes, name: str) -> str:
    """The kind of a document: by its content where that is telling, else by its name."""
    extension = name.rpartition(".")[2].lower() if "." in name else ""
    known = _EXTENSIONS.get(extension, "")
    if b"%PDF-" in data[:1024]:
        return "pdf"
    if data.startswith(b"PK\x03\x04"):
        return _zip_kind(data) or known or "zip"
    if data.startswith(b"\xd0\xcf\x11\xe0"):
        if "EncryptedPackage".encode("utf-16-le") in data:
            raise ReadError(
                "the Office file is encrypted and needs a password",
                "ask for an unprotected copy, or save it without a password",
            )
        return known or "doc"
    if data.startswith(b"{\\rtf"):
        return "rtf"
    if re.match(rb"\s*(<!doctype html|<html)", data[:512].lstrip(b"\xef\xbb\xbf"), re.IGNORECASE):
        return "html"
    if is_binary(data[:8192]):
        return known or "binary"
    return known if known in ("html", "eml") else "text"


def _zip_kind(data: bytes) -> str:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            names = set(archive.namelist())
            if "mimetype" in names:
                mime = archive.read("mimetype")[:100]
                return {b"application/epub+zip": "epub", b"application/vnd.oasis.opendocument.text": "odt"}.get(
                    mime.strip(), "ods" if b"spreadsheet" in mime else ""
                )
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, OSError, KeyError):
        return ""
    for prefix, kind in (("word/", "docx"), ("xl/", "xlsx"), ("ppt/", "pptx")):
        if any(name.startswith(prefix) for name in names):
            return kind
    return ""


def _check_size(data: bytes) -> None:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            total = sum(item.file_size for item in archive.infolist())
    except (zipfile.BadZipFile, NotImplementedError) as error:
        raise ReadError(
            f"the file is damaged: {error}", "check that the download is complete, or get the file again"
        ) from error
    if total > _MAX_UNPACKED:
        raise ReadError(
            f"it unpacks to {total / 2**30:.1f} GB, more than a reader may use", "check where the file comes from"
        )


def _text(data: bytes) -> Sections:
    if is_binary(data[:8192]):
        raise ReadError(
            f"it is not text but {kind_of_binary(data[:64])}", "name the right file_type, or use another tool"
        )
    decoded = decode(data)
    lines = split_lines(decoded.text)
    texts = ["\n".join(lines[at : at + _LINES_PER_SECTION]) for at in range(0, len(lines), _LINES_PER_SECTION)]
    notes = [f"encoding {decoded.label}"] if decoded.encoding != "utf-8" or decoded.errors != "strict" else []
    return Sections("text", texts or [""], notes=notes)


if __name__ == "__main__":
    main()
