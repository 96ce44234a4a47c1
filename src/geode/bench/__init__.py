"""Measurements of Geode beside its targets; `geode bench NAME` runs them."""
