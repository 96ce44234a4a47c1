"""JSON Schemas of tools: made from signatures, checked, used to validate, fitted to providers."""

from __future__ import annotations

from .arguments import read_arguments
from .dialect import SchemaError, copy_json, modernise
from .docstring import split_docstring
from .provider import PROVIDERS, Dialect, Provider, normalise
from .signature import parameters_of
from .strict import strict_form
from .validation import Validated, Validator, check_schema

__all__ = [
    "PROVIDERS",
    "Dialect",
    "Provider",
    "SchemaError",
    "Validated",
    "Validator",
    "check_schema",
    "copy_json",
    "modernise",
    "normalise",
    "parameters_of",
    "read_arguments",
    "split_docstring",
    "strict_form",
]
