import pytest

from geode.policy.scopes import NODE_TOOL_ALLOWLISTS, NodeScopePolicy


def test_E15_default_scopes_are_those_of_the_description() -> None:
    assert NODE_TOOL_ALLOWLISTS == {
        "analyst": ["memory_search", "memory_get", "query_monolake"],
        "evaluator": ["memory_search", "memory_get", "steam_info", "reddit_sentiment", "web_search"],
        "scoring": ["memory_search", "psm_calculate"],
        "synthesizer": ["memory_search", "memory_get", "explain_score"],
        "verification": ["memory_search", "memory_get"],
    }


@pytest.mark.parametrize(
    ("node", "allowed"),
    [
        ("analyst", True),
        ("analyst_game_mechanics", True),
        ("analyst_", True),
        ("analystX", False),
        ("Analyst", False),
        ("xanalyst", False),
        ("_analyst", False),
        ("", False),
        (None, True),
    ],
)
def test_E15_prefix_needs_its_underscore(node: str | None, allowed: bool) -> None:
    assert NodeScopePolicy().check("query_monolake", node) is allowed


def test_E15_outside_the_scope_is_filtered_and_refused_with_the_reason() -> None:
    scopes = NodeScopePolicy()
    assert scopes.filter(["web_search", "memory_get", "psm_calculate"], "scoring") == ["psm_calculate"]
    assert scopes.filter(["a", "b"], None) == ["a", "b"]
    assert scopes.filter(["memory_get"], "nobody") == []
    assert "may call only: memory_search, psm_calculate" in scopes.explain("web_search", "scoring_fast").reason
    assert "unknown node 'nobody'" in scopes.explain("memory_get", "nobody").reason


def test_the_longest_name_wins() -> None:
    scopes = NodeScopePolicy({"analyst": ["a"], "analyst_deep": ["b"]})
    assert scopes.check("b", "analyst_deep_1")
    assert not scopes.check("a", "analyst_deep")
    assert scopes.check("a", "analyst_deepX")


def test_an_empty_list_allows_nothing_and_globs_work() -> None:
    assert not NodeScopePolicy({"n": []}).check("a", "n")
    assert NodeScopePolicy({"n": ["srv__*"]}).check("srv__read", "n")


def test_narrowed_scopes_only_take_away() -> None:
    scopes = NodeScopePolicy({"n": ["a", "b"]}, narrowed={"n": ["b", "c"]})
    assert [t for t in "abc" if scopes.check(t, "n")] == ["b"]
    assert NodeScopePolicy({"n": ["a"]}, narrowed={"n_x": []}).check("a", "n")
    assert not NodeScopePolicy({"n": ["a"]}, narrowed={"n_x": []}).check("a", "n_x")
