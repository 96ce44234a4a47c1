"""`${VAR}` and `${VAR:-default}` in server entries: one rule for every field and every file.

A value is expanded once; what a variable holds is never expanded again. `$${X}` stands for
the text `${X}`; a lone `$` is itself. A variable that is not set and has no default is an
error that names it, never an empty string (requirement E8, case R37).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

__all__ = ["Missing", "expand"]

_REFERENCE = re.compile(r"\$\$\{|\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-((?:[^}\\]|\\.)*))?\}")

Missing = dict[str, list[str]]
"""Variable name -> the fields that need it."""


def expand(text: str, environ: Mapping[str, str], *, field: str, missing: Missing) -> str:
    """Replace every reference in `text`.

    Args:
        text: the raw value of the file.
        environ: variables; an empty value counts as unset only for `:-`, as in a shell.
        field: where the value stands, for the error.
        missing: collects names that are not set; the caller raises when it is not empty.
    """

    def value(match: re.Match[str]) -> str:
        name = match.group(1)
        if name is None:
            return "${"
        found = environ.get(name)
        default = match.group(2)
        if default is not None:
            return found or default
        if found is None:
            missing.setdefault(name, []).append(field)
            return ""
        return found

    return _REFERENCE.sub(value, text)
