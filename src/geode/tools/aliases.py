"""Names and property names that a provider accepts, and the way back to the originals.

A legal name stays as it is. Any other becomes its legal part and a short hash of the
original, so it depends on nothing but itself: the same in every run and for every set.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from ..core.errors import InvalidArguments
from .schema import Provider

__all__ = ["Aliases", "ArgumentCodec", "Shape", "legal_name", "shape_of"]

_HASH = 8
"""Hexadecimal digits of the suffix; more only when two would be equal."""


@dataclass(frozen=True, slots=True)
class _Rule:
    chars: str
    start: str
    length: int

    def accepts(self, name: str) -> bool:
        return len(name) <= self.length and re.fullmatch(f"[{self.start}][{self.chars}]*", name) is not None

    def alias(self, name: str, digits: int) -> str:
        digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:digits]
        base = re.sub(r"_{3,}", "_", re.sub(f"[^{self.chars}]", "_", name))
        if not re.match(f"[{self.start}]", base):
            base = f"_{base}"
        base = base[: self.length - digits - 1].rstrip("_") or "_"
        return f"{base}_{digest}"


def _assign(names: Iterable[str], rule: _Rule) -> dict[str, str]:
    """Original -> legal, one to one, whatever the order of `names`."""
    distinct = sorted(set(names))
    out = {name: name for name in distinct if rule.accepts(name)}
    taken = set(out)
    for name in distinct:
        if name in out:
            continue
        digits = _HASH
        while (alias := rule.alias(name, digits)) in taken:
            digits += 4
        out[name] = alias
        taken.add(alias)
    return out


def _name_rule(provider: Provider) -> _Rule:
    return _Rule(provider.name_chars, provider.name_start, provider.name_length)


def legal_name(name: str, provider: Provider) -> str:
    """The name to send for one tool on its own."""
    return _assign([name], _name_rule(provider))[name]


class Aliases:
    """Tool names of one provider, both ways.

    Args:
        provider: a row of `PROVIDERS`.
        names: the original names.
    """

    __slots__ = ("_back", "_to", "provider")

    def __init__(self, provider: Provider, names: Iterable[str]) -> None:
        self.provider = provider
        self._to = _assign(names, _name_rule(provider))
        self._back = {alias: name for name, alias in self._to.items()}

    def alias(self, name: str) -> str:
        """What to send for an original name; also for one that is not in the set."""
        return self._to.get(name) or legal_name(name, self.provider)

    def original(self, alias: str) -> str | None:
        """The original for what a model called, or None when it is no alias of this set."""
        return self._back.get(alias)

    @property
    def renamed(self) -> Mapping[str, str]:
        """Original -> alias, for the names that had to change."""
        return {name: alias for name, alias in self._to.items() if name != alias}


# ---------------------------------------------------------------- arguments


@dataclass(slots=True)
class Shape:
    """Where in an arguments value something must be mapped back.

    Attributes:
        keys: name on the wire -> (original name, shape below, True when null means "absent").
        items: shape of the members of an array.
        others: shape of properties that are not named.
    """

    keys: dict[str, tuple[str, Shape, bool]] = field(default_factory=dict[str, "tuple[str, Shape, bool]"])
    items: Shape | None = None
    others: Shape | None = None

    @property
    def trivial(self) -> bool:
        """True when nothing below needs mapping."""
        if any(wire != own or drop or not below.trivial for wire, (own, below, drop) in self.keys.items()):
            return False
        return (self.items is None or self.items.trivial) and (self.others is None or self.others.trivial)


_IN_PLACE = ("anyOf", "oneOf", "allOf")
_SAME_PLACE = ("if", "then", "else", "not")


def _all_keys(node: Any, found: set[str]) -> None:
    if isinstance(node, dict):
        schema = cast("dict[str, Any]", node)
        found.update(schema.get("properties", {}))
        for key, value in schema.items():
            if key in ("properties", "patternProperties", "dependentSchemas"):
                for sub in value.values():
                    _all_keys(sub, found)
            elif key not in ("enum", "const", "default", "examples"):
                _all_keys(value, found)
    elif isinstance(node, list):
        for sub in cast("list[Any]", node):
            _all_keys(sub, found)


def shape_of(form: dict[str, Any], provider: Provider, *, nulls_absent: bool) -> tuple[dict[str, Any], Shape]:
    """Rename the properties of a normalised schema for a provider.

    Args:
        form: the schema, without references.
        nulls_absent: True when optional properties are sent as nullable (strict mode).

    Returns:
        The schema with legal names, and the shape that maps arguments back.
    """
    aliases: dict[str, str] = {}
    if provider.key_chars is not None:
        keys: set[str] = set()
        _all_keys(form, keys)
        aliases = _assign(keys, _Rule(provider.key_chars, provider.key_start, provider.key_length))
    shape = Shape()
    renamed = _Renamer(aliases, nulls_absent).walk(form, shape)
    return renamed, shape


class _Renamer:
    def __init__(self, aliases: Mapping[str, str], nulls_absent: bool) -> None:
        self.aliases = aliases
        self.nulls_absent = nulls_absent

    def _wire(self, name: str) -> str:
        return self.aliases.get(name, name)

    def walk(self, node: Any, shape: Shape) -> Any:
        """The node with legal names; fills `shape`. Alternatives share the shape of their place."""
        if not isinstance(node, dict):
            return node
        schema = cast("dict[str, Any]", node)
        out: dict[str, Any] = {}
        required = set(cast("list[str]", schema.get("required", [])))
        for key, value in schema.items():
            if key == "properties":
                out[key] = self._properties(cast("dict[str, Any]", value), required, shape)
            elif key == "required":
                out[key] = [self._wire(n) for n in value]
            elif key == "dependentRequired" and isinstance(value, dict):
                named = cast("dict[str, list[str]]", value)
                out[key] = {self._wire(n): [self._wire(m) for m in more] for n, more in named.items()}
            elif key == "dependentSchemas" and isinstance(value, dict):
                subs = cast("dict[str, Any]", value)
                out[key] = {self._wire(n): self.walk(sub, shape) for n, sub in subs.items()}
            elif key in _IN_PLACE and isinstance(value, list):
                out[key] = [self.walk(sub, shape) for sub in cast("list[Any]", value)]
            elif key in _SAME_PLACE:
                out[key] = self.walk(value, shape)
            elif key in ("items", "contains"):
                shape.items = shape.items or Shape()
                out[key] = self.walk(value, shape.items)
            elif key == "prefixItems" and isinstance(value, list):
                shape.items = shape.items or Shape()
                out[key] = [self.walk(sub, shape.items) for sub in cast("list[Any]", value)]
            elif key == "additionalProperties":
                shape.others = shape.others or Shape()
                out[key] = self.walk(value, shape.others)
            elif key == "patternProperties" and isinstance(value, dict):
                shape.others = shape.others or Shape()
                subs = cast("dict[str, Any]", value)
                out[key] = {pattern: self.walk(sub, shape.others) for pattern, sub in subs.items()}
            else:
                out[key] = value
        return out

    def _properties(self, named: dict[str, Any], required: set[str], shape: Shape) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for name, sub in named.items():
            wire = self._wire(name)
            drop = self.nulls_absent and name not in required
            _, below, before = shape.keys.get(wire, (name, Shape(), drop))
            shape.keys[wire] = (name, below, before and drop)
            out[wire] = self.walk(sub, below)
        return out


class ArgumentCodec:
    """Arguments as a model sends them, to arguments as the tool knows them, and back."""

    __slots__ = ("_shape", "trivial")

    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self.trivial = shape.trivial

    def decode(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Original names; nulls that mean "absent" left out.

        Raises:
            InvalidArguments: a property was given under both of its names.
        """
        return dict(arguments) if self.trivial else cast("dict[str, Any]", _decode(dict(arguments), self._shape))

    def encode(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Names as this provider saw them, for the history of a conversation."""
        return dict(arguments) if self.trivial else cast("dict[str, Any]", _encode(dict(arguments), self._shape))


def _decode(value: Any, shape: Shape) -> Any:
    if isinstance(value, dict):
        out: dict[str, Any] = {}
        for wire, sub in cast("dict[str, Any]", value).items():
            known = shape.keys.get(wire)
            if known is None:
                name, sub = wire, _decode(sub, shape.others) if shape.others else sub
            else:
                name, below, drop = known
                if drop and sub is None:
                    continue
                sub = _decode(sub, below)
            if name in out:
                raise InvalidArguments(f"{name!r} is given twice", problems=(f"$: {name!r} is given twice",))
            out[name] = sub
        return out
    if isinstance(value, list) and shape.items is not None:
        return [_decode(sub, shape.items) for sub in cast("list[Any]", value)]
    return value


def _encode(value: Any, shape: Shape) -> Any:
    if isinstance(value, dict):
        back = {name: (wire, below) for wire, (name, below, _) in shape.keys.items()}
        out: dict[str, Any] = {}
        for name, sub in cast("dict[str, Any]", value).items():
            wire, below = back.get(name, (name, shape.others))
            out[wire] = _encode(sub, below) if below else sub
        return out
    if isinstance(value, list) and shape.items is not None:
        return [_encode(sub, shape.items) for sub in cast("list[Any]", value)]
    return value
