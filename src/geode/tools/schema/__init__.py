"""JSON Schemas of tools: made from signatures, checked, used to validate, fitted to providers."""

from __future__ import annotations

from .dialect import SchemaError, check_schema, modernise
from .docstring import split_docstring
from .signature import parameters_of
from .validation import Validated, Validator

__all__ = [
    "SchemaError",
    "Validated",
    "Validator",
    "check_schema",
    "modernise",
    "parameters_of",
    "split_docstring",
]
