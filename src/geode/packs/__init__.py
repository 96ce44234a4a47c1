"""The built-in tools, in packs: perception (see) and execution (act)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..tools.tool import FunctionTool

__all__ = ["builtin_tools"]


def builtin_tools() -> list[FunctionTool]:
    """All built-in tools, in the order they are listed in."""
    # Imported here: the children that read documents and run code import modules of this
    # package, and must not pay for the whole of it.
    from .execution.code import code_interpreter, with_packages
    from .execution.files import edit_file, write_file
    from .execution.shell import shell_exec
    from .perception.documents import read_document
    from .perception.files import find_file, list_directory, read_file
    from .perception.grep import grep_file

    return [
        read_file,
        list_directory,
        find_file,
        grep_file,
        read_document,
        write_file,
        edit_file,
        shell_exec,
        with_packages(code_interpreter),
    ]
