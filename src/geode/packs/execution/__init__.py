"""Tools to act: change files, run commands and code."""
