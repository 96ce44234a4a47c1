"""The words of floor 0: calls, verdicts, messages."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from geode.core.call import Call, Decision, TraceStep, Verdict, new_id
from geode.core.effects import Origin
from geode.core.errors import GeodeError
from geode.core.messages import Structured, Text, clean_json, clean_text


def call(**changes: object) -> Call:
    return replace(Call(tool="t", arguments={"a": 1}, origin=Origin.CLI, cwd=Path("/x")), **changes)  # type: ignore[arg-type]


def test_ids_sort_by_time_and_do_not_repeat() -> None:
    ids = [new_id("call") for _ in range(2_000)]
    assert len(set(ids)) == len(ids)
    assert [i[:14] for i in ids] == sorted(i[:14] for i in ids)


def test_digest_changes_with_everything_that_would_run_and_with_nothing_else() -> None:
    base = call()
    assert base.digest() == call().digest(), "two calls of the same thing are the same thing"
    assert base.digest() == call(arguments={"a": 1}, intent="other words").digest()
    for other in (
        call(tool="u"),
        call(arguments={"a": 2}),
        call(cwd=Path("/y")),
        call(principal="bob"),
        call(mode="auto"),
        call(node="analyst"),
    ):
        assert other.digest() != base.digest()
    assert base.digest("definition 1") != base.digest("definition 2")


def test_digest_ignores_the_order_of_keys_but_not_types() -> None:
    assert call(arguments={"a": 1, "b": 2}).digest() == call(arguments={"b": 2, "a": 1}).digest()
    assert call(arguments={"a": "1"}).digest() != call(arguments={"a": 1}).digest()


def test_verdict_names_each_blocking_policy_once() -> None:
    deny, ask = Decision.DENY, Decision.ASK
    trace = (
        TraceStep("p", deny, "no"),
        TraceStep("q", ask, "hm"),
        TraceStep("p", deny, "no"),
        TraceStep("r", deny, ""),
    )
    verdict = Verdict(deny, trace)
    assert verdict.blocking_policies == ["p", "r"]
    assert verdict.reason == "no"


def test_R05_lone_surrogates_become_replacement_characters_and_valid_pairs_survive() -> None:
    assert Text("ok \ud83d end").text == "ok \ufffd end"
    assert Text("a \ud83d\ude00 b").text == "a 😀 b"
    assert Structured({"k\ud99c": ["\udc00", 1, None]}).data == {"k\ufffd": ["\ufffd", 1, None]}
    assert clean_text("plain") == "plain"


@given(
    st.recursive(
        st.none() | st.integers() | st.text(st.characters()),
        lambda c: st.lists(c) | st.dictionaries(st.text(st.characters()), c),
    )
)
def test_R05_cleaned_values_can_always_be_encoded(value: object) -> None:
    repr_of = str(clean_json(value))
    repr_of.encode("utf-8")


def test_every_error_has_a_code_and_an_exit_code_of_the_contract() -> None:
    todo, seen = [GeodeError], set()
    while todo:
        kind = todo.pop()
        todo += kind.__subclasses__()
        assert kind.exit_code in {1, 2, 3, 4, 5}
        assert kind.code not in seen or kind.code == "error"
        seen.add(kind.code)
