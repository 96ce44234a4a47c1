"""The tools with which a model uses skills: read them, and run their scripts."""

from .tools import skill_tools

__all__ = ["skill_tools"]
