"""The policy Geode ships with: `defaults.toml`, read once."""

from __future__ import annotations

from importlib import resources

from ..config.document import Document, parse_document

__all__ = ["DEFAULTS", "DEFAULTS_NAME"]

DEFAULTS_NAME = "policy/defaults.toml"

DEFAULTS: Document = parse_document(
    resources.files(__package__ or "geode.policy").joinpath("defaults.toml").read_bytes(), DEFAULTS_NAME
)
