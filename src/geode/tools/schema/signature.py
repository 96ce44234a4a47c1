"""A function's signature as a JSON Schema, and the function as a callable over JSON arguments."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any, NotRequired, cast, get_args, get_origin, get_type_hints

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.errors import PydanticInvalidForJsonSchema, PydanticSchemaGenerationError, PydanticUserError
from pydantic.fields import Field, FieldInfo
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import PydanticSerializationError, to_jsonable_python
from typing_extensions import TypedDict

from ...core.errors import InvalidArguments
from .docstring import split_docstring

__all__ = ["parameters_of"]

RawCallable = Callable[[Any, Mapping[str, Any]], Awaitable[Any]]


class _Schema(GenerateJsonSchema):
    """Without the titles that pydantic derives from names: they repeat the key and cost tokens."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    """Annotations as objects; names that are local to the function that defines the tool are found too."""
    target = function if inspect.isroutine(function) else getattr(function, "__call__", function)  # noqa: B004
    try:
        return get_type_hints(target, include_extras=True)
    except NameError:
        pass
    local: dict[str, Any] = {}
    frame = inspect.currentframe()
    for _ in range(8):
        frame = frame.f_back if frame else None
        if frame is not None and frame.f_globals is getattr(target, "__globals__", None):
            local = {**frame.f_locals, **local}
    try:
        return get_type_hints(target, localns=local, include_extras=True)
    except NameError as error:
        raise TypeError(f"{_name(function)}: annotation cannot be resolved: {error}") from error


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", type(function).__name__)


def _is_context(annotation: Any, context_type: type) -> bool:
    if get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    return isinstance(annotation, type) and issubclass(annotation, context_type)


def _field(where: str, annotation: Any, default: Any, text: str) -> Any:
    """The annotation of one TypedDict entry: limits kept, description and default added."""
    notes: list[Any] = list(get_args(annotation)[1:]) if get_origin(annotation) is Annotated else []
    if isinstance(default, FieldInfo):
        text = default.description or text
        annotation = Annotated[(annotation, *default.metadata)] if default.metadata else annotation
        default = inspect.Parameter.empty if default.is_required() else default.get_default(call_default_factory=True)
    elif any(isinstance(note, FieldInfo) and note.description for note in notes):
        text = ""
    extra: dict[str, Any] = {}
    required = default is inspect.Parameter.empty
    if not required:
        try:
            extra["default"] = to_jsonable_python(default)
        except (PydanticSerializationError, ValueError, TypeError) as error:
            raise TypeError(f"{where}: the default {default!r} has no JSON form: {error}") from error
    if text or extra:
        annotation = Annotated[annotation, Field(description=text or None, json_schema_extra=extra or None)]
    return annotation if required else NotRequired[annotation]


def _fields(
    function: Callable[..., Any], context_type: type, texts: Mapping[str, str]
) -> tuple[dict[str, Any], str | None]:
    hints = _hints(function)
    fields: dict[str, Any] = {}
    context: str | None = None
    for at, (name, parameter) in enumerate(inspect.signature(function).parameters.items()):
        where = f"{_name(function)}: parameter {name!r}"
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise TypeError(f"{where} is variadic; a tool needs named parameters, so that they can be described")
        if parameter.kind is parameter.POSITIONAL_ONLY:
            raise TypeError(f"{where} is positional-only; arguments of a tool are passed by name")
        if name not in hints:
            raise TypeError(f"{where} has no annotation")
        if _is_context(hints[name], context_type):
            if at != 0:
                raise TypeError(f"{where}: the context must be the first parameter")
            context = name
            continue
        fields[name] = _field(where, hints[name], parameter.default, texts.get(name, ""))
    return fields, context


def _tidy(schema: dict[str, Any]) -> dict[str, Any]:
    schema.pop("title", None)
    schema.pop("description", None)
    for key, definition in schema.get("$defs", {}).items():
        if definition.get("title") == key:
            del definition["title"]
    schema.setdefault("properties", {})
    schema["additionalProperties"] = False
    return {k: schema[k] for k in sorted(schema, key=_ORDER.index)} if set(schema) <= set(_ORDER) else schema


_ORDER = ["type", "properties", "required", "additionalProperties", "$defs"]


def _line(error: Any) -> str:
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error["loc"])
    return f"${path}: {error['msg']}"


def parameters_of(function: Callable[..., Any], *, context_type: type) -> tuple[dict[str, Any], RawCallable]:
    """Describe a function's parameters and wrap it so that it takes JSON arguments.

    Args:
        function: sync or async; every parameter annotated, a first parameter of `context_type` is not described.
        context_type: the class whose instances are passed as the context.

    Returns:
        The JSON Schema (2020-12) of the arguments object, and an async callable `(context, arguments)`
        that converts models, dataclasses, enums and dates and runs the function; a sync
        function runs in a worker thread with the caller's context variables.

    Raises:
        TypeError: no docstring, variadic or unannotated parameters, an annotation without a JSON form.
    """
    name = _name(function)
    doc = inspect.getdoc(function) or ""
    description, texts = split_docstring(doc)
    if not re.search(r"\w", description):
        raise TypeError(f"{name}: a tool needs a docstring; it is what the model reads")
    if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
        raise TypeError(f"{name}: a generator cannot be a tool; return one value")
    fields, context = _fields(function, context_type, texts)
    unknown = sorted(set(texts) - set(fields) - {context})
    if unknown:
        raise TypeError(f"{name}: the docstring describes parameters that do not exist: {', '.join(unknown)}")
    make = cast(Any, TypedDict)  # the fields are known at run time only
    shape: Any = make(f"{name}_arguments", fields)
    shape.__pydantic_config__ = ConfigDict(extra="forbid")
    try:
        adapter: TypeAdapter[dict[str, Any]] = TypeAdapter(shape)
        schema = _tidy(adapter.json_schema(schema_generator=_Schema))
    except (PydanticSchemaGenerationError, PydanticInvalidForJsonSchema, PydanticUserError) as error:
        raise TypeError(f"{name}: a parameter has no JSON form: {error}") from error
    return schema, _runner(function, adapter, context)


def _runner(function: Callable[..., Any], adapter: TypeAdapter[dict[str, Any]], context: str | None) -> RawCallable:
    defaults = {
        name: parameter.default
        for name, parameter in inspect.signature(function).parameters.items()
        if isinstance(parameter.default, FieldInfo) and not parameter.default.is_required()
    }
    is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004
    )

    async def run(ctx: Any, arguments: Mapping[str, Any]) -> Any:
        try:
            values = adapter.validate_python(dict(arguments))
        except ValidationError as error:
            problems = tuple(_line(item) for item in error.errors(include_url=False))
            raise InvalidArguments("; ".join(problems), problems=problems) from error
        if context is not None:
            values[context] = ctx
        for name, info in defaults.items():
            if name not in values:
                values[name] = info.get_default(call_default_factory=True)
        result = function(**values) if is_async else await asyncio.to_thread(function, **values)
        return await result if inspect.isawaitable(result) else result

    return run
