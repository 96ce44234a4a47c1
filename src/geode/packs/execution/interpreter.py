"""The child of code_interpreter: runs one piece of Python and reports value and error.

Takes `{"code", "mark"}` on stdin. What the code prints goes to stdout and stderr as usual; at
the end one line `MARK JSON` on stderr says how it went.
"""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import io
import json
import linecache
import os
import sys
import traceback
from typing import Any

__all__ = ["PACKAGES", "main"]

NAME = "<code>"
_MAX_VALUE = 20_000
_MAX_JSON = 50_000
PACKAGES = (
    "numpy", "pandas", "sympy", "scipy", "statsmodels", "sklearn", "matplotlib", "openpyxl", "xlsxwriter",
    "networkx", "PIL", "yaml", "lxml", "bs4", "requests", "httpx2", "docx", "pptx", "polars", "duckdb",
)  # fmt: skip


def installed() -> list[str]:
    """Which well-known packages can be imported here."""
    found: list[str] = []
    for name in PACKAGES:
        with contextlib.suppress(ImportError, ValueError):
            if importlib.util.find_spec(name) is not None:
                found.append(name)
    return found


def main() -> None:
    """Run the request and end the process with 0 when the code went well, 1 when not."""
    request = json.loads(sys.stdin.buffer.read())
    sys.stdin = io.TextIOWrapper(open(os.devnull, "rb"), encoding="utf-8")  # noqa: SIM115  lives as long as the process
    sys.argv = [NAME]
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    report = _run(request["code"])
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
    sys.__stderr__.write(f"\n{request['mark']} {json.dumps(report)}\n")  # type: ignore[union-attr]
    sys.__stderr__.flush()  # type: ignore[union-attr]
    sys.exit(0 if report["ok"] else 1)


def _run(code: str) -> dict[str, Any]:
    scope: dict[str, Any] = {"__name__": "__main__", "__builtins__": __builtins__}
    # Tracebacks show the code's own lines.
    linecache.cache[NAME] = (len(code), None, code.splitlines(keepends=True), NAME)
    try:
        tree = ast.parse(code, NAME)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, NAME, "exec"), scope)  # noqa: S102  running it is the purpose; the process is contained
        value = None
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), NAME, "eval"), scope)  # noqa: S307
        return {"ok": True, **_described(value)}
    except SystemExit as stop:
        ok = stop.code in (None, 0)
        return {"ok": ok, "error": "" if ok else f"the code ended itself with sys.exit({stop.code!r})"}
    except BaseException as error:
        return {"ok": False, "error": _traceback(error), "type": type(error).__name__, **_hint(error)}


def _described(value: Any) -> dict[str, Any]:
    if value is None:
        return {}
    text = repr(value)
    described: dict[str, Any] = {"value": text[:_MAX_VALUE], "value_chars": len(text)}
    if isinstance(value, bool | int | float | str | list | dict | tuple):
        with contextlib.suppress(TypeError, ValueError, RecursionError):
            plain = json.dumps(value, allow_nan=False)
            if len(plain) <= _MAX_JSON:
                described["json"] = json.loads(plain)
    return described


def _traceback(error: BaseException) -> str:
    """The error with the frames that lie in the code or in files of the workspace."""
    shown = traceback.TracebackException.from_exception(error, limit=60)
    root = os.getcwd() + os.sep
    todo: list[traceback.TracebackException | None] = [shown]
    seen: set[int] = set()
    while todo:
        part = todo.pop()
        if part is None or id(part) in seen:
            continue
        seen.add(id(part))
        mine = [f for f in part.stack if f.filename == NAME or f.filename.startswith(root)]
        part.stack = traceback.StackSummary.from_list(mine)
        todo += [part.__cause__, part.__context__]
    return "".join(shown.format()).rstrip("\n")


def _hint(error: BaseException) -> dict[str, str]:
    if isinstance(error, ModuleNotFoundError):
        return {"hint": f"installed here: the standard library, {', '.join(installed()) or 'nothing else'}"}
    if isinstance(error, EOFError):
        return {"hint": "the code needed input; stdin is empty here: put the values into the code"}
    if isinstance(error, MemoryError):
        return {"hint": "it reached the memory limit; work on the data piece by piece"}
    return {}


if __name__ == "__main__":
    main()
