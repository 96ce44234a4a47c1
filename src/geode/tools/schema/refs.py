"""`$ref` replaced by what it points to, for providers that do not follow references.

Repeated use of one definition is expanded each time; only a definition that contains
itself is cut, after two levels, with its type kept. Growth is bounded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import unquote, urldefrag, urljoin

from .combine import merge
from .dialect import IN_LIST, IN_MAP, IN_ONE, Json, SchemaError

__all__ = ["Measure", "inline", "measure"]

RECURSION = 2
"""Levels of a definition inside itself that are spelled out."""
MAX_PARTS = 4_000
"""Subschemas of an expanded schema; beyond it references are cut."""
MAX_CHAIN = 60
"""References one inside the other."""
MAX_PLACE = 100_000
"""Subschemas that may apply to one and the same value, references and alternatives followed."""

_DROPPED = ("$defs", "definitions", "$id", "$anchor", "$dynamicAnchor", "$comment", "$schema")
_ANNOTATIONS = frozenset(
    ("description", "title", "default", "examples", "example", "deprecated", "readOnly", "writeOnly")
)


@dataclass(frozen=True, slots=True)
class _Resource:
    """A schema with its own base URI: the root, or a part with `$id`."""

    uri: str
    root: Json


def inline(schema: Json, *, recursion: int = RECURSION, parts: int = MAX_PARTS) -> Json:
    """The schema without references.

    Args:
        schema: in the form `modernise` returns.
        recursion: levels of a definition inside itself that are spelled out.
        parts: subschemas of the result; beyond it references are cut.

    Raises:
        SchemaError: a reference leads nowhere; says which.
    """
    worker = _Inliner(schema, recursion, parts)
    result = worker.expand(schema, worker.home, (id(schema),))
    assert isinstance(result, dict)
    return result


class _Resolver:
    """Finds what a reference points to."""

    def __init__(self, schema: Json) -> None:
        self.home = _Resource(_id_of(schema), schema)
        self.resources: dict[str, _Resource] = {"": self.home, self.home.uri: self.home}
        self.anchors: dict[tuple[str, str], Any] = {}
        self._index(schema, self.home)

    def _index(self, node: Any, resource: _Resource) -> None:
        if not isinstance(node, dict):
            return
        schema = cast(Json, node)
        uri = _id_of(schema)
        if uri and schema is not resource.root:
            resource = _Resource(urljoin(resource.uri, uri), schema)
            self.resources.setdefault(resource.uri, resource)
        for key in ("$anchor", "$dynamicAnchor"):
            if isinstance(schema.get(key), str):
                self.anchors.setdefault((resource.uri, schema[key]), schema)
        for child in children(schema):
            self._index(child, resource)

    def inside(self, schema: Json, resource: _Resource) -> _Resource:
        """The resource `schema` belongs to, when it is met within `resource`."""
        uri = _id_of(schema)
        if not uri or schema is resource.root:
            return resource
        return self.resources.get(urljoin(resource.uri, uri), resource)

    def resolve(self, ref: str, resource: _Resource) -> tuple[Any, _Resource]:
        """The schema `ref` means within `resource`, and the resource that one belongs to.

        Raises:
            SchemaError: it leads nowhere, or out of the document.
        """
        base, fragment = urldefrag(ref)
        if base:
            target = self.resources.get(urljoin(resource.uri, base)) or self.resources.get(base)
            if target is None:
                raise SchemaError(f"reference to another document: {ref}")
            resource = target
        fragment = unquote(fragment)
        if not fragment:
            return resource.root, resource
        if not fragment.startswith("/"):
            anchored = self.anchors.get((resource.uri, fragment))
            if anchored is None:
                raise SchemaError(f"dangling reference {ref}")
            return anchored, resource
        at: Any = resource.root
        for part in fragment[1:].split("/"):
            at = _step(at, part.replace("~1", "/").replace("~0", "~"), ref)
        if not isinstance(at, dict | bool):
            raise SchemaError(f"reference {ref} leads to something that is no schema")
        return cast(Any, at), resource


class _Inliner(_Resolver):
    def __init__(self, schema: Json, recursion: int, parts: int) -> None:
        super().__init__(schema)
        self.recursion = recursion
        self.left = parts

    def expand(self, node: Any, resource: _Resource, stack: tuple[int, ...]) -> Any:
        """`node` without references; `stack` holds the ids of the definitions it lies in."""
        if not isinstance(node, dict):
            return node
        schema = cast(Json, node)
        self.left -= 1
        resource = self.inside(schema, resource)
        ref = schema.get("$ref", schema.get("$dynamicRef"))
        if not isinstance(ref, str):
            return self._children(schema, resource, stack)
        target, home = self.resolve(ref, resource)
        if isinstance(target, dict) and (
            stack.count(id(cast(Any, target))) >= self.recursion or self.left < 0 or len(stack) > MAX_CHAIN
        ):
            expanded: Any = self._cut(cast(Json, target), home)
        else:
            expanded = self.expand(target, home, (*stack, id(target)))
        beside = {k: v for k, v in schema.items() if k not in ("$ref", "$dynamicRef", *_DROPPED)}
        if not beside:
            return expanded
        beside = self._children(beside, resource, stack)
        if set(beside) <= _ANNOTATIONS:
            return {**cast(Json, expanded), **beside} if isinstance(expanded, dict) else expanded
        return merge(expanded, beside)

    def _children(self, schema: Json, resource: _Resource, stack: tuple[int, ...]) -> Json:
        out: Json = {}
        for key, value in schema.items():
            if key in _DROPPED:
                continue
            if key in IN_MAP and isinstance(value, dict):
                named = cast(Json, value)
                out[key] = {name: self.expand(sub, resource, stack) for name, sub in named.items()}
            elif key in IN_LIST and isinstance(value, list):
                out[key] = [self.expand(sub, resource, stack) for sub in cast("list[Any]", value)]
            elif key in IN_ONE:
                out[key] = self.expand(value, resource, stack)
            else:
                out[key] = value
        return out

    def _cut(self, target: Json, resource: _Resource) -> Json:
        """A stand-in with the type of `target` and nothing inside."""
        for _ in range(10):
            ref = target.get("$ref")
            if "type" in target or not isinstance(ref, str):
                break
            found, resource = self.resolve(ref, resource)
            if not isinstance(found, dict):
                break
            target = cast(Json, found)
        kind = target.get("type")
        if kind is None and "properties" in target:
            kind = "object"
        stub: Json = {} if kind is None else {"type": kind}
        name = target.get("title")
        what = f" ({name})" if isinstance(name, str) else ""
        stub["description"] = f"Same form as the level above{what}; deeper levels are not shown."
        return stub


def _id_of(schema: Json) -> str:
    value = schema.get("$id")
    return value.rstrip("#") if isinstance(value, str) else ""


def _step(at: Any, key: str, ref: str) -> Any:
    if isinstance(at, dict) and key in at:
        return cast(Json, at)[key]
    if isinstance(at, list) and key.isdecimal() and int(key) < len(cast("list[Any]", at)):
        return cast("list[Any]", at)[int(key)]
    raise SchemaError(f"dangling reference {ref}")


def children(schema: Json) -> list[Any]:
    """The direct subschemas of a schema."""
    found: list[Any] = []
    for key, value in schema.items():
        if key in IN_MAP and isinstance(value, dict):
            found += cast(Json, value).values()
        elif key in IN_LIST and isinstance(value, list):
            found += cast("list[Any]", value)
        elif key in IN_ONE:
            found.append(value)
    return found


_IN_PLACE_LISTS = ("allOf", "anyOf", "oneOf")
_IN_PLACE_ONES = ("not", "if", "then", "else")


@dataclass(frozen=True, slots=True)
class Measure:
    """How much work a schema can cause.

    Attributes:
        place: most subschemas that apply to one value; grows exponentially with references
            to references inside alternatives.
        recursive: True when a definition contains itself.
        branching: True when it may do so along several alternatives of one place, so that listing
            what is wrong with a value takes time exponential in its depth.
    """

    place: int
    recursive: bool
    branching: bool


def measure(schema: Json) -> Measure:
    """Weigh a schema before it is used.

    Raises:
        SchemaError: a reference leads nowhere, or the schema would be too costly to check.
    """
    scale = _Scale(schema)
    scale.visit(schema, scale.home, 0)
    place = max(scale.weights.values(), default=1)
    if place > MAX_PLACE:
        raise SchemaError(f"its alternatives multiply to more than {MAX_PLACE} cases for one value")
    return Measure(place, scale.recursive, scale.recursive and scale.forked)


class _Scale(_Resolver):
    def __init__(self, schema: Json) -> None:
        super().__init__(schema)
        self.weights: dict[int, int] = {}
        self.open: set[int] = set()
        self.recursive = False
        self.forked = False

    def visit(self, node: Any, resource: _Resource, chain: int) -> int:
        """The weight of a node: itself and everything that applies to the same value."""
        if not isinstance(node, dict):
            return 1
        schema = cast(Json, node)
        key = id(schema)
        if key in self.open:
            self.recursive = True
            return 1
        if key in self.weights:
            return self.weights[key]
        if chain > 2 * MAX_CHAIN:
            raise SchemaError(f"more than {2 * MAX_CHAIN} levels of references and subschemas")
        self.open.add(key)
        resource = self.inside(schema, resource)
        weight = 1
        ref = schema.get("$ref", schema.get("$dynamicRef"))
        if isinstance(ref, str):
            target, home = self.resolve(ref, resource)
            weight += self.visit(target, home, chain + 1)
        same_place = [
            *(sub for k in _IN_PLACE_LISTS if isinstance(schema.get(k), list) for sub in schema[k]),
            *(schema[k] for k in _IN_PLACE_ONES if k in schema),
            *cast(Json, schema.get("dependentSchemas", {})).values(),
        ]
        weight += sum(self.visit(sub, resource, chain + 1) for sub in same_place)
        for sub in children(schema):
            self.visit(sub, resource, chain + 1)
        for alternatives in (schema.get("anyOf"), schema.get("oneOf")):
            if isinstance(alternatives, list):
                branches = sum(_refers(sub) for sub in cast("list[Any]", alternatives))
                self.forked = self.forked or branches > 1
        self.open.discard(key)
        self.weights[key] = weight
        return weight


def _refers(node: Any) -> bool:
    """True when a reference stands anywhere in the node."""
    if not isinstance(node, dict):
        return False
    schema = cast(Json, node)
    return "$ref" in schema or "$dynamicRef" in schema or any(_refers(sub) for sub in children(schema))
