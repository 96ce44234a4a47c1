"""Skills: knowledge in files, found by name, trigger or node and read step by step."""

from .block import fill_prompt
from .document import SkillDefinition, parse_skill
from .findings import Finding, SkillInvalid
from .install import install_skill, remove_skill
from .library import SkillChanges, SkillEntry, SkillLibrary, SkillLoader, SkillRegistry, default_roots, open_library
from .render import activation_text, render
from .rights import SkillRights

__all__ = [
    "Finding",
    "SkillChanges",
    "SkillDefinition",
    "SkillEntry",
    "SkillInvalid",
    "SkillLibrary",
    "SkillLoader",
    "SkillRegistry",
    "SkillRights",
    "activation_text",
    "default_roots",
    "fill_prompt",
    "install_skill",
    "open_library",
    "parse_skill",
    "remove_skill",
    "render",
]
