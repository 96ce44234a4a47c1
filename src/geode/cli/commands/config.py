"""`geode config`: the settings in force, and which layer set each of them."""

from __future__ import annotations

from collections.abc import Mapping
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
        built_in = _built_in_limits()
        rows = [[k, _value(k, item["value"], built_in), item["origin"]] for k, item in document["settings"].items()]
        render.table(["setting", "value", "set by"], rows)

    run.show(document, people)
    return 0


def _built_in_limits() -> dict[str, int | None]:
    """What holds in the sandbox where the settings say nothing."""
    from ...containment.sandbox.select import DEFAULT_LIMITS as LIMITS

    mega = 1024 * 1024
    return {
        "sandbox.memory_mb": (LIMITS.memory_bytes or 0) // mega,
        "sandbox.cpu_seconds": LIMITS.cpu_seconds,
        "sandbox.processes": LIMITS.processes,
        "sandbox.file_mb": (LIMITS.file_bytes or 0) // mega,
        "sandbox.open_files": LIMITS.open_files,
    }


def _value(key: str, value: Any, built_in: Mapping[str, int | None]) -> str:
    if value is None:
        limit = built_in.get(key)
        return "no limit" if limit is None else f"{limit} (built in)"
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
