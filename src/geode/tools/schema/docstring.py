"""Docstrings of tools: what the model reads about a function and about each parameter."""

from __future__ import annotations

import inspect
import re

__all__ = ["split_docstring"]

_ARGS = re.compile(r"^(?:Args|Arguments|Parameters|Params)\s*:\s*$")
_ENTRY = re.compile(r"^\*{0,2}(?P<name>\w+)\s*(?:\([^)]*\))?\s*:\s*(?P<text>.*)$")
_FIELD = re.compile(r"^:(?:param|parameter|arg|argument)\s+(?:[^:]*?\s)?\*{0,2}(?P<name>\w+)\s*:\s*(?P<text>.*)$")
_NUMPY_HEAD = re.compile(r"^(?:Parameters|Args|Arguments)\s*$")
_NUMPY_ENTRY = re.compile(r"^\*{0,2}(?P<name>\w+)\s*(?::\s*.*)?$")


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _block_end(lines: list[str], start: int, indent: int) -> int:
    """Index of the first line from `start` on that is not blank and not deeper than `indent`."""
    at = start
    while at < len(lines) and (not lines[at].strip() or _indent(lines[at]) > indent):
        at += 1
    return at


def _entries(block: list[str], params: dict[str, str]) -> None:
    """Google style: `name (type): text`, continued on deeper lines."""
    filled = [line for line in block if line.strip()]
    if not filled:
        return
    base = min(_indent(line) for line in filled)
    name = ""
    for line in block:
        stripped = line.strip()
        match = _ENTRY.match(stripped) if _indent(line) == base else None
        if match:
            name = match["name"]
            params[name] = match["text"].strip()
        elif stripped and name:
            params[name] = f"{params[name]} {stripped}".strip()


def _numpy(lines: list[str], start: int, params: dict[str, str]) -> int:
    """NumPy style from the line after the dashes; returns the index after the section."""
    at = start
    name = ""
    while at < len(lines):
        line = lines[at]
        underlined = at + 1 < len(lines) and re.fullmatch(r"-{3,}", lines[at + 1].strip())
        if line.strip() and _indent(line) == 0:
            match = _NUMPY_ENTRY.match(line.strip())
            if underlined or not match:
                break
            name = match["name"]
            params[name] = ""
        elif line.strip() and name:
            params[name] = f"{params[name]} {line.strip()}".strip()
        at += 1
    return at


def split_docstring(doc: str) -> tuple[str, dict[str, str]]:
    """Split a docstring into the description and the texts of its parameters.

    Google (`Args:`), NumPy and reST (`:param x:`) forms are understood. Everything else
    (`Returns:`, `Raises:`, examples) stays in the description, where the model reads it.

    Args:
        doc: the docstring, indented or not.

    Returns:
        `(description, {parameter: text})`.
    """
    lines = inspect.cleandoc(doc).splitlines()
    kept: list[str] = []
    params: dict[str, str] = {}
    at = 0
    while at < len(lines):
        line = lines[at]
        following = lines[at + 1] if at + 1 < len(lines) else ""
        if _ARGS.match(line):
            end = _block_end(lines, at + 1, 0)
            _entries(lines[at + 1 : end], params)
            at = end
        elif _NUMPY_HEAD.match(line) and re.fullmatch(r"-{3,}", following.strip()):
            at = _numpy(lines, at + 2, params)
        elif match := _FIELD.match(line):
            end = at + 1
            while end < len(lines) and lines[end].strip() and _indent(lines[end]) > 0:
                end += 1
            more = [part.strip() for part in lines[at + 1 : end]]
            params[match["name"]] = " ".join([match["text"].strip(), *more]).strip()
            at = end
        else:
            kept.append(line)
            at += 1
    description = re.sub(r"\n{3,}", "\n\n", "\n".join(kept)).strip()
    return description, params
