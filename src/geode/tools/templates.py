"""Texts with holes, as declared tools use them: `{argument}` and `${VARIABLE}`.

`{name}` is an argument of the call, `${NAME}` and `${NAME:-default}` a variable of the
environment, `{{`, `}}` and `$${` stand for themselves. A value is put in once and never
looked into again, so what a model sends cannot become a hole, and what a variable holds
cannot either.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ..core.errors import ConfigError, Missing

__all__ = ["Part", "Template", "as_text"]

_HOLES = re.compile(
    r"(?P<escape>\$\$\{|\{\{|\}\})"
    r"|\$\{(?P<env>[A-Za-z_]\w*)(?::-(?P<default>(?:[^}\\]|\\.)*))?\}"
    r"|\{(?P<arg>[A-Za-z_][\w-]*)\}"
)
_ESCAPES = {"$${": "${", "{{": "{", "}}": "}"}


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a template: fixed text, an argument, or a variable with its default."""

    kind: Literal["text", "argument", "variable"]
    value: str
    default: str | None = None


def as_text(value: Any) -> str:
    """An argument's value inside a text: strings as they are, everything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class Template:
    """A parsed text with holes."""

    parts: tuple[Part, ...]

    @classmethod
    def parse(cls, text: str, names: Collection[str]) -> Template:
        """Read a template.

        Args:
            names: arguments the tool has.

        Raises:
            ConfigError: a hole names an argument that does not exist.
        """
        parts: list[Part] = []
        at = 0
        for match in _HOLES.finditer(text):
            if match.start() > at:
                parts.append(Part("text", text[at : match.start()]))
            at = match.end()
            if match["escape"]:
                parts.append(Part("text", _ESCAPES[match["escape"]]))
            elif match["env"]:
                parts.append(Part("variable", match["env"], match["default"]))
            elif match["arg"] in names:
                parts.append(Part("argument", match["arg"]))
            else:
                raise ConfigError(
                    f"{text!r} uses {{{match['arg']}}}, which is not a parameter",
                    fix=f"declare it in `parameters`, or write {{{{{match['arg']}}}}} for the text itself",
                )
        if at < len(text):
            parts.append(Part("text", text[at:]))
        return cls(tuple(parts))

    @property
    def arguments(self) -> frozenset[str]:
        """Names of the arguments it uses."""
        return frozenset(p.value for p in self.parts if p.kind == "argument")

    @property
    def only_argument(self) -> str | None:
        """The argument's name when the template is nothing but one hole."""
        return self.parts[0].value if len(self.parts) == 1 and self.parts[0].kind == "argument" else None

    def render(
        self,
        arguments: Mapping[str, Any],
        environ: Mapping[str, str],
        *,
        quote: Callable[[str], str] = lambda text: text,
    ) -> str | None:
        """The text, or None when an argument it needs was not given.

        Args:
            quote: applied to each argument's text (for example percent-encoding), not to fixed text.

        Raises:
            Missing: a variable is not set and has no default; names it.
        """
        out: list[str] = []
        for part in self.parts:
            if part.kind == "text":
                out.append(part.value)
            elif part.kind == "variable":
                out.append(_variable(part, environ))
            else:
                value = arguments.get(part.value)
                if value is None:
                    return None
                out.append(quote(as_text(value)))
        return "".join(out)


def _variable(part: Part, environ: Mapping[str, str]) -> str:
    found = environ.get(part.value)
    if part.default is not None:
        return found or part.default
    if found is None:
        raise Missing(
            f"environment variable {part.value} is not set",
            fix=f"set {part.value}, or give a default in the tool's definition: ${{{part.value}:-…}}",
        )
    return found
