"""`geode config`: the settings in force, and which layer set each of them."""

from __future__ import annotations

from typing import Any

from .. import render
from ..invocation import Invocation
from ..parser import CommandParser, add_command, add_group

__all__ = ["configure"]


def configure(parser: CommandParser) -> None:
    """Fill in `geode config`."""
    group = add_group(parser)
    add_command(group, "show", "every setting, its value and where it comes from", _show)


def _show(run: Invocation) -> int:
    from ...analysis.secrets import environment_redactor

    settings = run.settings
    files = {"user": settings.home / "config.toml", "project": settings.project / ".geode" / "config.toml"}
    document: dict[str, Any] = environment_redactor().json(settings.to_json())
    document["files"] = {layer: {"path": str(path), "exists": path.is_file()} for layer, path in files.items()}
    document["settings"]["database_url"]["value"] = _without_password(settings.database_url)

    def people() -> None:
        print(f"project {document['project']}   home {document['home']}")
        for layer, file in document["files"].items():
            print(f"{layer:8} {file['path']}{'' if file['exists'] else '  (none)'}")
        print()
        rows = [[key, _value(item["value"]), item["origin"]] for key, item in document["settings"].items()]
        render.table(["setting", "value", "set by"], rows)

    run.show(document, people)
    return 0


def _value(value: Any) -> str:
    if value is None:
        return "no limit"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return str(value)


def _without_password(url: str) -> str:
    """A database URL whose password is replaced."""
    scheme, mark, rest = url.partition("://")
    user, at, place = rest.rpartition("@")
    if not (mark and at):
        return url
    name, colon, _ = user.partition(":")
    return f"{scheme}://{name}{':[redacted]' if colon else ''}@{place}"
