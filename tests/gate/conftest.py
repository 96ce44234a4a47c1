"""A real runtime for each test."""

from runtimes import home, make, project

__all__ = ["home", "make", "project"]
