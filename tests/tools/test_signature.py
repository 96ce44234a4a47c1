"""`@tool`: one function becomes a schema, a description and something to run."""

from __future__ import annotations

import asyncio
import contextvars
import enum
import threading
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import AfterValidator, BaseModel, Field

from geode.core.effects import Effect
from geode.core.errors import GeodeError, InvalidArguments
from geode.tools.schema import Validator, split_docstring
from geode.tools.tool import FunctionTool, Tool, ToolContext, tool
from tools.helpers import context, run_raw


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Point(BaseModel):
    x: int
    y: int = 0


@dataclass
class Box:
    width: float
    label: str | None = None


@tool(effects=[Effect.READ], examples=[{"count": 3}])
def sample(
    ctx: ToolContext,
    count: Annotated[int, Field(ge=1, le=10)],
    where: Point | None = None,
    box: Box | None = None,
    colour: Colour = Colour.RED,
    when: datetime | None = None,
    kind: Literal["a", "b"] = "a",
    tags: list[str] | None = None,
    schema: str = "x",
    _hidden: int = 3,
) -> str:
    """Count things.

    Use it for tests; not for production.

    Args:
        count: how many,
            between 1 and 10.
        where (Point): the place.

    Returns:
        A text.
    """
    return repr((count, where, box, colour, when, kind, tags, schema, _hidden, ctx.call.tool))


def test_the_docstring_is_split_into_description_and_parameter_texts():
    assert sample.description == "Count things.\n\nUse it for tests; not for production.\n\nReturns:\n    A text."
    assert sample.parameters["properties"]["count"]["description"] == "how many, between 1 and 10."
    assert sample.parameters["properties"]["where"]["description"] == "the place."


def test_the_signature_becomes_a_closed_schema_with_limits_and_defaults():
    schema = sample.parameters
    assert schema["type"] == "object"
    assert schema["required"] == ["count"]
    assert schema["additionalProperties"] is False
    assert schema["properties"]["count"] == {
        "description": "how many, between 1 and 10.",
        "maximum": 10,
        "minimum": 1,
        "type": "integer",
    }
    assert "ctx" not in schema["properties"]
    assert schema["properties"]["kind"]["default"] == "a"
    assert schema["properties"]["_hidden"]["default"] == 3


async def test_arguments_arrive_as_the_annotated_types(tmp_path: Path):
    arguments = {
        "count": 3,
        "where": {"x": 1},
        "box": {"width": 2, "label": "b"},
        "colour": "blue",
        "when": "2026-01-02T03:04:05Z",
    }
    Validator(sample.parameters).check(arguments)
    text = await run_raw(sample, context(tmp_path), arguments)
    when = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    expected = (3, Point(x=1), Box(2.0, "b"), Colour.BLUE, when, "a", None, "x", 3, "t")
    assert text == repr(expected).replace(repr(when), text.split("'blue'>, ")[1].split(", 'a'")[0])


async def test_a_sync_function_runs_in_another_thread_with_the_callers_context():
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")

    @tool()
    def where() -> list[Any]:
        """Say where it runs."""
        return [threading.get_ident(), variable.get()]

    variable.set("set")
    thread, value = await run_raw(where, None, {})
    assert thread != threading.get_ident()
    assert value == "set"


async def test_an_async_function_runs_on_the_loop():
    @tool()
    async def where() -> bool:
        """Say where it runs."""
        return asyncio.get_running_loop() is not None

    assert await run_raw(where, None, {}) is True


async def test_a_default_given_by_field_is_a_default_not_an_object():
    @tool()
    def shout(text: str = Field("hi", max_length=5, description="what to shout")) -> str:
        """Shout."""
        return text.upper()

    assert shout.parameters["properties"]["text"] == {
        "default": "hi",
        "description": "what to shout",
        "maxLength": 5,
        "type": "string",
    }
    assert await run_raw(shout, None, {}) == "HI"


async def test_a_custom_check_that_the_schema_cannot_say_is_an_argument_error():
    def even(value: int) -> int:
        if value % 2:
            raise ValueError("must be even")
        return value

    @tool()
    def halve(number: Annotated[int, AfterValidator(even)]) -> int:
        """Halve."""
        return number // 2

    with pytest.raises(InvalidArguments) as caught:
        await run_raw(halve, None, {"number": 3})
    assert "$.number" in caught.value.problems[0]
    assert "must be even" in caught.value.problems[0]


def no_docstring(x: int) -> int:
    return x


def variadic(*args: int) -> int:
    """Add."""
    return sum(args)


def keywords(**more: int) -> int:
    """Add."""
    return len(more)


def unannotated(x) -> int:  # type: ignore[no-untyped-def]
    """Take."""
    return x


def positional(x: int, /) -> int:
    """Take."""
    return x


def unsupported(x: threading.Thread) -> int:
    """Take."""
    return 1


def wrong_doc(x: int) -> int:
    """Take.

    Args:
        y: is not there.
    """
    return x


def generator(x: int):  # type: ignore[no-untyped-def]
    """Yield."""
    yield x


def late_context(x: int, ctx: ToolContext) -> int:
    """Take."""
    return x


@pytest.mark.parametrize(
    "function",
    [
        no_docstring,
        variadic,
        keywords,
        unannotated,
        positional,
        unsupported,
        wrong_doc,
        generator,
        late_context,
    ],
)
def test_a_function_that_cannot_be_described_is_refused_with_its_name(function: Any):
    with pytest.raises(TypeError, match=function.__name__):
        tool()(function)


def test_the_function_of_a_tool_is_out_of_reach():
    assert isinstance(sample, FunctionTool)
    assert isinstance(sample, Tool)
    assert not callable(sample)
    with pytest.raises(GeodeError, match="only through a gate"):
        sample.execute(count=1)


@pytest.mark.parametrize(
    ("doc", "description", "params"),
    [
        (
            "Do.\n\nArgs:\n    a: one\n    b (int): two\n        more\n\nRaises:\n    X: y",
            "Do.\n\nRaises:\n    X: y",
            ("one", "two more"),
        ),
        ("Do.\n\n:param a: one\n:param int b: two\n    more\n:return: z", "Do.\n\n:return: z", ("one", "two more")),
        (
            "Do.\n\nParameters\n----------\na : int\n    one\nb\n    two\n    more\n\nReturns\n-------\nstr",
            "Do.\n\nReturns\n-------\nstr",
            ("one", "two more"),
        ),
        (
            "Do.\n\n    Arguments:\n        a: one\n        b: two: more",
            "Do.",
            ("one", "two: more"),
        ),
    ],
)
def test_docstring_styles(doc: str, description: str, params: tuple[str, str]):
    text, found = split_docstring(doc)
    assert text == description
    assert found == ({"a": params[0], "b": params[1]})


def test_an_empty_docstring_gives_nothing():
    assert split_docstring("") == ("", {})
