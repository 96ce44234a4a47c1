import pytest

from geode.core.errors import UsageError
from geode.policy.chain import PolicyChain, ToolPolicy


def test_E14_unset_allow_list_restricts_nothing_and_an_empty_one_denies_all() -> None:
    assert ToolPolicy("p", "*").is_allowed("anything")
    assert not ToolPolicy("p", "*", allowed_tools=[]).is_allowed("anything")


def test_E14_allow_list_beats_deny_list_inside_one_policy() -> None:
    policy = ToolPolicy("p", "*", allowed_tools={"a"}, denied_tools={"a", "b"})
    assert policy.is_allowed("a")
    assert not policy.is_allowed("b")
    assert not policy.is_allowed("c")


def test_E14_all_policies_of_a_mode_must_agree() -> None:
    chain = PolicyChain(
        [ToolPolicy("one", "*", allowed_tools={"a", "b"}), ToolPolicy("two", "dry_run", denied_tools={"b"})]
    )
    assert chain.filter_tools(["a", "b", "c"], mode="dry_run") == ["a"]
    assert chain.filter_tools(["c", "b", "a"], mode="default") == ["b", "a"]


def test_an_unknown_mode_denies_everything_even_without_policies() -> None:
    chain = PolicyChain()
    assert chain.filter_tools(["a"], mode="no_such_mode") == []
    result = chain.audit_check("a", mode="no_such_mode", user="u")
    assert (result.allowed, result.blocking_policies, result.user) == (False, ["modes"], "u")
    assert chain.filter_tools(["a"], mode="") == []
    assert chain.filter_tools(["a"], mode="*") == []


def test_modes_become_known_by_adding_them_or_a_policy_for_them() -> None:
    chain = PolicyChain()
    chain.add_mode("evaluation")
    assert chain.filter_tools(["a"], mode="evaluation") == ["a"]
    chain.add_policy(ToolPolicy("p", "full_pipeline", denied_tools={"send_notification"}))
    assert chain.filter_tools(["send_notification", "b"], mode="full_pipeline") == ["b"]


def test_a_mode_like_another_is_judged_by_its_policies_too() -> None:
    chain = PolicyChain([ToolPolicy("p", "dry_run", denied_tools={"x"})])
    chain.add_mode("rehearsal", like="dry_run")
    assert chain.audit_check("x", mode="rehearsal").blocking_policies == ["p"]
    assert chain.audit_check("x", mode="default").allowed


def test_E16_audit_names_every_policy_with_its_verdict_in_priority_order() -> None:
    chain = PolicyChain(
        [
            ToolPolicy("late", "*", priority=200, denied_tools={"x"}),
            ToolPolicy("early", "*", priority=1),
            ToolPolicy("other-mode", "auto", denied_tools={"x"}),
        ]
    )
    result = chain.audit_check("x", mode="default")
    assert [(s.policy, s.verdict.value) for s in result.steps] == [("early", "allow"), ("late", "deny")]
    assert result.blocking_policies == ["late"]
    assert "denies x" in result.steps[1].reason


def test_unless_requested_opens_only_on_request() -> None:
    chain = PolicyChain([ToolPolicy("p", "*", unless_requested={"send_notification"})])
    assert chain.filter_tools(["send_notification"], mode="default") == []
    assert chain.filter_tools(["send_notification"], mode="default", requested={"send_notification"}) == [
        "send_notification"
    ]
    assert not chain.audit_check("send_notification", mode="default", requested={"other"}).allowed


def test_a_request_never_opens_a_plain_denial() -> None:
    policy = ToolPolicy("p", "*", denied_tools={"x"}, unless_requested={"x"})
    assert not policy.is_allowed("x", requested=True)


def test_names_may_be_globs_and_are_case_sensitive() -> None:
    policy = ToolPolicy("p", "*", denied_tools={"github__*", "x?"})
    assert not policy.is_allowed("github__push")
    assert not policy.is_allowed("x1")
    assert policy.is_allowed("GitHub__push")
    assert policy.is_allowed("x")


def test_policies_can_be_removed_and_names_are_unique() -> None:
    chain = PolicyChain([ToolPolicy("p", "*", denied_tools={"x"})])
    with pytest.raises(UsageError, match="already"):
        chain.add_policy(ToolPolicy("p", "*"))
    assert chain.filter_tools(["x"], mode="default") == []
    assert chain.remove_policy("p")
    assert not chain.remove_policy("p")
    assert chain.filter_tools(["x"], mode="default") == ["x"]


@pytest.mark.parametrize("key", ["allowed_tools", "denied_tools", "unless_requested"])
def test_a_single_text_is_not_a_list_of_names(key: str) -> None:
    with pytest.raises(UsageError, match="must be a list"):
        ToolPolicy("p", "*", **{key: "run_analyst"})  # pyright: ignore[reportArgumentType]
