"""The one place to import schema work from: description, validation, normalisation."""

from __future__ import annotations

from .docstring import split_docstring
from .signature import parameters_of

__all__ = ["parameters_of", "split_docstring"]
