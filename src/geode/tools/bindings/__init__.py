"""What a declared tool is bound to: a command, an HTTP request or a Python function.

Each binding knows what one call touches (before it runs), how to show it to a person, and
how to run it through the ports of its context.
"""

from __future__ import annotations

from .command import CommandBinding
from .common import Binding
from .http import HttpBinding
from .python import PythonBinding

__all__ = ["Binding", "CommandBinding", "HttpBinding", "PythonBinding"]
