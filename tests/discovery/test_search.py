"""`ToolSearch`: exact names first, needs in words, an honest nothing, live following."""

from __future__ import annotations

from typing import Any

import pytest

from geode.discovery.search import ToolSearch
from geode.tools.registry import ToolRegistry
from geode.tools.tool import FunctionTool, ToolSpec


def make_tool(name: str, description: str, properties: dict[str, Any] | None = None) -> FunctionTool:
    async def run(ctx: Any, arguments: Any) -> str:
        return ""

    schema = {"type": "object", "properties": {} if properties is None else properties}
    return FunctionTool(ToolSpec(name=name, description=description, parameters=schema), run)


LIBRARY = [
    ("fetch_emails", "Fetch the messages of the mail inbox, newest first."),
    ("create_incident", "Create an incident ticket for the operations team."),
    ("append_row", "Add a row to a spreadsheet, for example a new user in a sheet."),
    ("read_pdf", "Read the pages of a PDF document as text with tables."),
    ("theme_set", "Change the colour theme of the editor."),
    ("weather_now", "Current weather for a city."),
    ("stock_price", "주식의 현재 가격(주가)을 알려줍니다."),
    ("메일_확인", "받은 메일함을 확인하고 새 메일 목록을 보여줍니다."),
]


@pytest.fixture
def registry() -> ToolRegistry:
    registry = ToolRegistry()
    for name, description in LIBRARY:
        registry.register(make_tool(name, description))
    return registry


def names(search: ToolSearch, query: str) -> list[str]:
    return [h.name for h in search.search(query).results]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("check my inbox", "fetch_emails"),
        ("open a ticket", "create_incident"),
        ("add the user to the sheet", "append_row"),
        ("read the tables of a pdf report", "read_pdf"),
        ("주가를 알려줘", "stock_price"),
        ("메일함 확인해줘", "메일_확인"),
    ],
)
def test_R81_a_need_in_words_finds_the_tool_in_the_first_three(
    registry: ToolRegistry, query: str, expected: str
) -> None:
    assert expected in names(ToolSearch(registry), query)[:3]


def test_R57_an_exact_or_suffix_name_is_always_first() -> None:
    registry = ToolRegistry()
    for i in range(100):
        registry.register(make_tool(f"ask_something_{i}", "Ask codex, ask a question, ask codex again."))
    registry.register(make_tool("mcp__plugin_x__ask_codex", "Talk."))
    search = ToolSearch(registry)
    assert names(search, "ask_codex")[0] == "mcp__plugin_x__ask_codex"
    assert names(search, "please use ask_codex for this")[0] == "mcp__plugin_x__ask_codex"
    assert search.search("mcp__plugin_x__ask_codex").results[0].band == "exact"


def test_R57_an_empty_answer_names_servers_that_could_not_be_searched(registry: ToolRegistry) -> None:
    search = ToolSearch(registry, unavailable=lambda: {"jira": "starting", "crm": "failed"})
    answer = search.search("translate to latin")
    assert answer.not_found and not answer.results
    assert "jira (starting)" in answer.reason and "crm (failed)" in answer.reason


def test_stop_words_alone_find_nothing(registry: ToolRegistry) -> None:
    assert ToolSearch(registry).search("the of and").not_found


def test_tools_added_and_removed_while_running_are_followed(registry: ToolRegistry) -> None:
    search = ToolSearch(registry)
    assert search.search("draw a bar chart").not_found
    registry.register(make_tool("chart", "Draw a bar or line chart."))
    assert names(search, "draw a bar chart") == ["chart"]
    registry.unregister("chart")
    assert search.search("draw a bar chart").not_found


def test_what_the_asker_may_not_use_is_not_shown(registry: ToolRegistry) -> None:
    search = ToolSearch(registry)
    answer = search.search("check my inbox", visible=lambda name: name != "fetch_emails")
    assert "fetch_emails" not in [h.name for h in answer.results]
    assert search.search("select:fetch_emails", visible=lambda name: False).not_found


def test_select_returns_exactly_the_named_tools(registry: ToolRegistry) -> None:
    assert names(ToolSearch(registry), "select:read_pdf, chart ,append_row") == ["read_pdf", "append_row"]


def test_R22_a_tool_whose_schema_is_odd_does_not_stop_the_search(registry: ToolRegistry) -> None:
    for number, odd in enumerate(([], 7, "x", {"a": 3, "b": {"description": 7}})):
        registry.register(make_tool(f"odd_{number}", "Odd.", odd))  # type: ignore[arg-type]
    assert names(ToolSearch(registry), "check my inbox")


def test_one_tool_alone_is_found(registry: ToolRegistry) -> None:
    alone = ToolRegistry()
    alone.register(make_tool("convert", "Convert an amount between currencies."))
    assert names(ToolSearch(alone), "convert currency") == ["convert"]
