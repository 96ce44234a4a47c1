"""Settings in layers: defaults < user < project (may only tighten) < environment < command line.

A project's file is somebody else's text. It is honoured, trusted or not, where it makes Geode
stricter (a lower limit, a stricter mode, more rules that ask or deny), and ignored, with a
notice, where it would loosen anything or steer what belongs to the person alone.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from ..core.errors import ConfigError
from .document import Document, read_document

__all__ = ["OutputLimits", "RuleText", "SandboxSettings", "Settings", "load_settings"]

BACKENDS = ("auto", "bubblewrap", "seatbelt")
MODE_STRICTNESS = {"auto": 0, "default": 1, "dry_run": 2, "read_only": 3}
"""A project may only move to a higher number, and leaves modes that are not listed alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputLimits:
    """What a model sees of one result: whole up to `lines` and `chars`, else head and tail.

    Attributes:
        lines: most lines shown whole.
        chars: most characters shown whole.
        head: lines shown from the start of a longer one.
        tail: lines shown from its end.
    """

    lines: int = 200
    chars: int = 10_000
    head: int = 50
    tail: int = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxSettings:
    """Which backend contains processes, and what one process tree may use. None: the backend's default.

    Attributes:
        backend: "auto", "bubblewrap" or "seatbelt".
        memory_mb: memory, megabytes.
        cpu_seconds: CPU time of one process.
        processes: processes and threads together.
        file_mb: size of any one file, megabytes.
        open_files: file descriptors of one process.
        output_mb: output kept on disk, megabytes.
    """

    backend: str = "auto"
    memory_mb: int | None = None
    cpu_seconds: int | None = None
    processes: int | None = None
    file_mb: int | None = None
    open_files: int | None = None
    output_mb: int = 64


@dataclass(frozen=True, slots=True)
class RuleText:
    """The policy part of one settings file, as written; `policy.engine` checks and compiles it.

    Attributes:
        layer: "user" or "project".
        file: the file, for messages.
        items: tables of `[[rules]]`.
        lines: line of each rule in the file.
        policies: tables of `[[policies]]`.
        policy_lines: line of each of them.
        node_scopes: node -> tools.
        modes: mode -> description, or table with `description` and `like`.
    """

    layer: str
    file: str
    items: tuple[Mapping[str, Any], ...] = ()
    lines: tuple[int, ...] = ()
    policies: tuple[Mapping[str, Any], ...] = ()
    policy_lines: tuple[int, ...] = ()
    node_scopes: Mapping[str, Any] = field(default_factory=dict[str, Any])
    modes: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything that can be configured, already merged.

    Attributes:
        project: absolute project directory, the workspace root.
        home: absolute Geode home.
        mode: policy mode of calls that name none.
        database_url: SQLAlchemy URL; may hold a password, so it is never printed as it is.
        output: limits on what a model sees.
        approval_timeout: how long a request for approval stays open, seconds.
        results_days: days full results are kept.
        audit_days: days audit records are kept, or None for ever.
        sandbox: containment.
        allow: tools the person asked for explicitly.
        rules: policy parts of the settings files, user before project.
        origins: dotted key -> layer that set it ("default", "user", "project", "environment", "command line").
        notices: what was ignored, in plain words.
        trusted: whether this user trusts the project's content.
    """

    project: Path
    home: Path
    mode: str = "default"
    database_url: str = ""
    output: OutputLimits = OutputLimits()
    approval_timeout: float = 300.0
    results_days: int = 30
    audit_days: int | None = None
    sandbox: SandboxSettings = SandboxSettings()
    allow: frozenset[str] = frozenset()
    rules: tuple[RuleText, ...] = ()
    origins: Mapping[str, str] = field(default_factory=dict[str, str])
    notices: tuple[str, ...] = ()
    trusted: bool = False

    def values(self) -> dict[str, Any]:
        """Every setting by dotted key, without the policy part."""
        flat: dict[str, Any] = {key: getattr(self, key) for key in _SCALARS}
        flat["allow"] = sorted(self.allow)
        for section in _SECTIONS:
            flat |= {f"{section}.{key}": value for key, value in asdict(getattr(self, section)).items()}
        return flat

    def to_json(self) -> dict[str, Any]:
        """For `geode config show`: value and layer of every key. Redact before printing."""
        values = self.values()
        return {
            "project": str(self.project),
            "home": str(self.home),
            "trusted": self.trusted,
            "settings": {k: {"value": v, "origin": self.origins.get(k, "default")} for k, v in values.items()},
            "notices": list(self.notices),
        }


# ---------------------------------------------------------------- what each key may hold

Check = Callable[[Any], str]
"""The reason a value is wrong, or ""."""


def _integer(low: int, high: int, *, none: bool = False) -> Check:
    def check(value: Any) -> str:
        good = isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
        return "" if good or (none and value is None) else f"must be a whole number from {low:,} to {high:,}"

    return check


def _seconds(value: Any) -> str:
    number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return "" if number and 0 < value <= 604_800 else "must be a number of seconds, more than 0, at most 604,800"


def _text(value: Any) -> str:
    return "" if isinstance(value, str) and value.strip() else "must be a text that is not empty"


def _names(value: Any) -> str:
    good = isinstance(value, list | tuple | set | frozenset) and all(isinstance(v, str) and v for v in value)  # pyright: ignore[reportUnknownVariableType]
    if not good:
        return "must be a list of tool names"
    every = next((v for v in cast("list[str]", value) if not v.strip("*") or v.count("[") != v.count("]")), None)
    return "" if every is None else f"must name tools, or a group of them (srv__*): {every!r} names none"


def _backend(value: Any) -> str:
    return "" if value in BACKENDS else f"must be one of {', '.join(BACKENDS)}"


_LOWER = "lower"
_NEVER = "never"
_MODE = "mode"

_SCALARS: dict[str, tuple[Check, str]] = {
    "mode": (_text, _MODE),
    "database_url": (_text, _NEVER),
    "approval_timeout": (_seconds, _LOWER),
    "results_days": (_integer(0, 36_500), _NEVER),
    "audit_days": (_integer(1, 36_500, none=True), _NEVER),
}
_SECTIONS: dict[str, dict[str, tuple[Check, str]]] = {
    "output": {
        "lines": (_integer(1, 100_000), _LOWER),
        "chars": (_integer(200, 10_000_000), _LOWER),
        "head": (_integer(0, 50_000), _LOWER),
        "tail": (_integer(0, 50_000), _LOWER),
    },
    "sandbox": {
        "backend": (_backend, _NEVER),
        "memory_mb": (_integer(16, 1_048_576), _LOWER),
        "cpu_seconds": (_integer(1, 604_800), _LOWER),
        "processes": (_integer(1, 100_000), _LOWER),
        "file_mb": (_integer(1, 1_048_576), _LOWER),
        "open_files": (_integer(16, 1_048_576), _LOWER),
        "output_mb": (_integer(1, 10_240), _LOWER),
    },
}
_KEYS: dict[str, tuple[Check, str]] = {
    **_SCALARS,
    "allow": (_names, _NEVER),
    **{f"{section}.{key}": value for section, keys in _SECTIONS.items() for key, value in keys.items()},
}
_POLICY_KEYS: dict[str, type] = {"rules": list, "policies": list, "node_scopes": dict, "modes": dict}


def _closest(key: str) -> str:
    import difflib  # only on the way to an error

    known = [*_KEYS, *_SECTIONS, *_POLICY_KEYS]
    near = difflib.get_close_matches(key, known, 1)
    return f"did you mean {near[0]!r}?" if near else f"known keys: {', '.join(known)}"


def _read_layer(document: Document, layer: str) -> tuple[dict[str, Any], RuleText]:
    """Check one file completely: its flat settings, and its policy part.

    Raises:
        ConfigError: an unknown key or a wrong type, with file and line.
    """
    flat: dict[str, Any] = {}
    for key, value in document.data.items():
        if key in _SECTIONS:
            if not isinstance(value, dict):
                raise document.error(f"{key!r} must be a table", key=key, fix=f"write it as [{key}]")
            flat |= {f"{key}.{k}": v for k, v in value.items()}  # pyright: ignore[reportUnknownVariableType]
        elif key in _POLICY_KEYS:
            if not isinstance(value, _POLICY_KEYS[key]) or (key in ("rules", "policies") and not _tables(value)):
                form = f"[[{key}]]" if _POLICY_KEYS[key] is list else f"[{key}]"
                raise document.error(f"{key!r} must be written as {form}", key=key, fix=f"use {form} tables")
        else:
            flat[key] = value
    for key, value in flat.items():
        table, _, name = key.rpartition(".")
        if key not in _KEYS:
            raise document.error(f"unknown key {key!r}", key=name, table=table, fix=_closest(key))
        if reason := _KEYS[key][0](value):
            raise document.error(f"{key!r} {reason}, not {value!r:.60}", key=name, table=table, fix="correct the value")
    data = document.data
    return flat, RuleText(
        layer,
        document.name,
        tuple(data.get("rules", ())),
        document.lines_of_tables("rules"),
        tuple(data.get("policies", ())),
        document.lines_of_tables("policies"),
        data.get("node_scopes", {}),
        data.get("modes", {}),
    )


def _tables(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, dict) for item in value)  # pyright: ignore[reportUnknownVariableType]


# ---------------------------------------------------------------- merging


def _tightens(kind: str, old: Any, new: Any) -> bool:
    """Whether a project's value is at least as strict as the one in force."""
    if kind == _LOWER:
        return old is None or new <= old
    if kind == _MODE:
        return old in MODE_STRICTNESS and new in MODE_STRICTNESS and MODE_STRICTNESS[new] >= MODE_STRICTNESS[old]
    return False


def _tightened(
    current: Mapping[str, Any], flat: Mapping[str, Any], document: Document, notices: list[str]
) -> dict[str, Any]:
    """The project's values that count; the rest become notices."""
    kept: dict[str, Any] = {}
    for key, value in flat.items():
        kind = _KEYS[key][1]
        if value == current[key]:
            continue
        if _tightens(kind, current[key], value):
            kept[key] = value
            continue
        table, _, name = key.rpartition(".")
        why = "only you may set it" if kind == _NEVER else f"it would loosen {current[key]!r}"
        shown = "" if kind == _NEVER else f" = {value!r:.40}"
        notices.append(f"{document.place(document.line_of(name, table))}: {key}{shown} ignored: {why}")
    return kept


def _rule_notices(text: RuleText) -> list[str]:
    """What of a project's policy part can never count, because it would loosen."""
    notices: list[str] = []
    for number, item in enumerate(text.items):
        if item.get("verdict") == "allow":
            place = f"{text.file}:{text.lines[number]}" if number < len(text.lines) else text.file
            name = str(item.get("name", number + 1))
            notices.append(f"{place}: rule {name!r} ignored: a project cannot allow anything")
    notices += [f"{text.file}: mode {name!r} ignored: a project cannot add modes" for name in text.modes]
    return notices


def _flatten(overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Command line values by dotted key; None means the option was not given."""
    flat: dict[str, Any] = {}
    for key, value in overrides.items():
        if key in _SECTIONS and isinstance(value, Mapping):
            flat |= {f"{key}.{k}": v for k, v in value.items() if v is not None}  # pyright: ignore[reportUnknownVariableType]
        elif value is not None:
            flat[key] = value
    for key, value in flat.items():
        if key not in _KEYS:
            raise ConfigError(f"unknown setting {key!r}", fix=_closest(key))
        if reason := _KEYS[key][0](value):
            raise ConfigError(f"setting {key!r} {reason}, not {value!r:.60}", fix="correct the value")
    return flat


def load_settings(
    project: Path,
    home: Path,
    *,
    trusted: bool = False,
    overrides: Mapping[str, Any] | None = None,
    env: Mapping[str, str] | None = None,
) -> Settings:
    """Read and merge all layers.

    Args:
        project: the project directory.
        home: the Geode home.
        trusted: whether the project's content is trusted; kept in the result for whoever loads
            servers and tools. The project's settings only ever tighten, trusted or not.
        overrides: command line values by dotted key, None for options not given.
        env: environment, for `GEODE_DATABASE_URL`.

    Raises:
        ConfigError: a file or a value is wrong; names file, line and what to do.
    """
    project = Path(os.path.abspath(project.expanduser()))
    home = Path(os.path.abspath(home.expanduser()))
    if not project.is_dir():
        raise ConfigError(f"the project {project} is not a directory", fix="pass --project DIR")
    base = Settings(project=project, home=home, database_url=f"sqlite:///{home / 'geode.db'}", trusted=trusted)
    current = base.values()
    origins = dict.fromkeys(current, "default")

    def apply(flat: Mapping[str, Any], layer: str) -> None:
        current.update(flat)
        origins.update(dict.fromkeys(flat, layer))

    user_document = read_document(home / "config.toml")
    user, user_rules = _read_layer(user_document, "user")
    apply(user, "user")
    notices: list[str] = []
    texts = [user_rules]
    project_file = project / ".geode" / "config.toml"
    if not _same_file(project_file, home / "config.toml"):
        document = read_document(project_file)
        flat, rules = _read_layer(document, "project")
        apply(_tightened(current, flat, document, notices), "project")
        notices += _rule_notices(rules)
        texts.append(rules)
    url = (os.environ if env is None else env).get("GEODE_DATABASE_URL", "").strip()
    if url:
        apply({"database_url": url}, "environment")
    apply(_flatten(overrides or {}), "command line")
    return _build(base, current, origins, tuple(texts), tuple(notices))


def _same_file(one: Path, other: Path) -> bool:
    """A project in the person's home may share its `.geode` with the Geode home: that file is the user's."""
    try:
        return one.samefile(other)
    except (OSError, ValueError):
        return False


def _build(
    base: Settings,
    current: Mapping[str, Any],
    origins: Mapping[str, str],
    texts: tuple[RuleText, ...],
    notices: tuple[str, ...],
) -> Settings:
    part = {section: {k: current[f"{section}.{k}"] for k in keys} for section, keys in _SECTIONS.items()}
    return replace(
        base,
        **{key: current[key] for key in _SCALARS if key != "approval_timeout"},
        allow=frozenset(current["allow"]),
        approval_timeout=float(current["approval_timeout"]),
        output=OutputLimits(**part["output"]),
        sandbox=SandboxSettings(**part["sandbox"]),
        rules=texts,
        origins=dict(origins),
        notices=notices,
    )
