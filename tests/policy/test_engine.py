from collections.abc import Callable

import pytest

from geode.analysis.command import analyse
from geode.core.call import Decision, Verdict
from geode.core.effects import Effect, Impact, Origin, Scope
from geode.policy.chain import ToolPolicy
from geode.policy.engine import PolicyEngine, Question

Build = Callable[..., PolicyEngine]


def impact(kind: str, scope: str, target: str = "x") -> Impact:
    return Impact(Effect(kind), target, Scope(scope))


def on(engine: PolicyEngine, kind: str, scope: str, target: str = "/w/x", **question: object) -> str:
    impacts = (impact(kind, scope, target),)
    return engine.evaluate(Question(**{"tool": "t", "impacts": impacts, **question})).decision.value  # pyright: ignore[reportArgumentType]


def shell(engine: PolicyEngine, command: str, **question: object) -> Verdict:
    found = analyse(command, "/home/u/project", "/home/u")
    return engine.evaluate(Question(**{"tool": "shell_exec", "impacts": found.impacts, **question}))  # pyright: ignore[reportArgumentType]


# ---------------------------------------------------------------- names


@pytest.mark.parametrize("tool", ["run_analyst", "run_evaluator", "send_notification"])
def test_E14_dry_run_denies_what_costs_or_sends_whether_installed_or_not(build: Build, tool: str) -> None:
    verdict = build().evaluate(Question(tool=tool, mode="dry_run"))
    assert verdict.decision is Decision.DENY
    assert verdict.blocking_policies == ["dry_run_block_llm"]
    assert verdict.to_json()["trace"][0]["policy"] == "dry_run_block_llm"
    assert verdict.advice


def test_E14_full_pipeline_notifies_only_when_asked_for(build: Build) -> None:
    engine = build()
    plain = engine.evaluate(Question(tool="send_notification", mode="full_pipeline"))
    assert plain.blocking_policies == ["full_block_notification"]
    assert "--allow send_notification" in plain.advice
    asked = Question(tool="send_notification", mode="full_pipeline", requested=frozenset({"send_notification"}))
    assert engine.evaluate(asked).decision is Decision.ALLOW
    still = Question(tool="send_notification", mode="dry_run", requested=frozenset({"send_notification"}))
    assert engine.evaluate(still).decision is Decision.DENY


def test_a_users_own_rule_counts_as_asking_for_it(build: Build) -> None:
    engine = build("[[rules]]\nname='mine'\ntool='send_notification'\nverdict='allow'\n")
    assert engine.evaluate(Question(tool="send_notification", mode="full_pipeline")).decision is Decision.ALLOW
    assert on(engine, "communicate", "service", tool="send_notification", mode="full_pipeline") == "allow"
    assert on(engine, "communicate", "service", tool="send_notification", mode="dry_run") == "deny"


@pytest.mark.parametrize("mode", ["no_such_mode", "", "*", "DEFAULT"])
def test_an_unknown_mode_denies(build: Build, mode: str) -> None:
    verdict = build().evaluate(Question(tool="read_file", mode=mode, impacts=()))
    assert verdict.decision is Decision.DENY
    assert verdict.blocking_policies == ["modes"]


def test_E15_node_scope_is_part_of_the_verdict(build: Build) -> None:
    engine = build()
    assert engine.evaluate(Question(tool="memory_get", node="scoring")).blocking_policies == ["node_scope"]
    assert engine.evaluate(Question(tool="memory_get", node="nobody")).decision is Decision.DENY
    assert engine.evaluate(Question(tool="memory_get", node="analyst_x")).decision is Decision.ALLOW


def test_all_denials_are_in_one_trace(build: Build) -> None:
    question = Question(
        tool="run_analyst",
        mode="dry_run",
        node="scoring",
        impacts=(impact("spend", "service"), impact("delete", "home")),
    )
    assert build().evaluate(question).blocking_policies == [
        "dry_run_block_llm",
        "node_scope",
        "dry-run-spends-nothing",
        "delete-outside",
    ]


# ---------------------------------------------------------------- default effects

DEFAULTS = [
    ("read", "workspace temp sandbox protected", "allow"),
    ("read", "home system geode service unknown loopback internet", "ask"),
    ("read", "secret", "deny"),
    ("write", "workspace temp sandbox", "allow"),
    ("write", "protected service unknown", "ask"),
    ("write", "home system geode secret", "deny"),
    ("delete", "workspace temp protected service unknown", "ask"),
    ("delete", "home system geode secret", "deny"),
    ("execute", "sandbox", "allow"),
    ("execute", "unknown workspace system home service geode secret", "ask"),
    ("privilege", "system unknown sandbox workspace", "deny"),
    ("network", "loopback private_net internet unknown", "ask"),
    ("spend", "service unknown", "ask"),
    ("communicate", "service unknown", "ask"),
    ("configure", "geode workspace service", "ask"),
    ("spawn", "sandbox workspace", "allow"),
    ("spawn", "unknown", "ask"),
]


@pytest.mark.parametrize(("kind", "scope", "wanted"), [(k, s, w) for k, scopes, w in DEFAULTS for s in scopes.split()])
def test_T59_default_verdict_by_effect_and_scope(build: Build, kind: str, scope: str, wanted: str) -> None:
    engine = build()
    assert on(engine, kind, scope) == wanted
    assert on(engine, kind, scope, mode="auto") == wanted


def test_every_effect_has_a_verdict_in_every_scope_and_none_is_allowed_unknown(build: Build) -> None:
    engine = build()
    for effect in Effect:
        for scope in Scope:
            for mode in engine.modes():
                found = on(engine, effect.value, scope.value, mode=mode)
                assert found != "allow" or scope is not Scope.UNKNOWN, (effect, mode)


def test_read_only_allows_reading_and_contained_execution_alone(build: Build) -> None:
    engine = build()
    for effect in Effect:
        for scope in Scope:
            found = on(engine, effect.value, scope.value, mode="read_only")
            if effect is Effect.READ or (effect is Effect.EXECUTE and scope is Scope.SANDBOX):
                assert found == on(engine, effect.value, scope.value)
            else:
                assert found == "deny", (effect, scope)


def test_dry_run_spends_and_sends_nothing(build: Build) -> None:
    engine = build()
    for scope in Scope:
        assert on(engine, "spend", scope.value, mode="dry_run") == "deny"
        assert on(engine, "communicate", scope.value, mode="dry_run") == "deny"
    assert on(engine, "write", "workspace", mode="dry_run") == "allow"


def test_the_strictest_impact_decides(build: Build) -> None:
    engine = build()
    mixed = (impact("read", "workspace"), impact("network", "internet"))
    assert engine.evaluate(Question(tool="t", impacts=mixed)).decision is Decision.ASK
    assert engine.evaluate(Question(tool="t", impacts=(*mixed, impact("write", "home")))).decision is Decision.DENY
    assert engine.evaluate(Question(tool="t", impacts=())).decision is Decision.ALLOW


def test_T67_rm_rf_is_denied_with_reason_and_advice(build: Build) -> None:
    verdict = shell(build(), "rm -rf ~")
    assert verdict.decision is Decision.DENY
    assert verdict.blocking_policies == ["delete-outside"]
    assert verdict.reason
    assert verdict.advice


# ---------------------------------------------------------------- layers


def test_R60_a_server_that_policy_allows_runs_and_others_ask(build: Build) -> None:
    engine = build("[[rules]]\nname='srv'\ntool='srv__*'\nverdict='allow'\n")
    assert on(engine, "execute", "service", tool="srv__read", source="mcp:srv") == "allow"
    assert on(engine, "execute", "service", tool="other__read", source="mcp:other") == "ask"
    by_source = build("[[rules]]\nname='srv'\nsource='mcp:srv'\nverdict='allow'\n")
    assert on(by_source, "execute", "service", tool="x", source="mcp:srv") == "allow"
    assert on(by_source, "execute", "service", tool="x", source="mcp:srv2") == "ask"


def test_R04_names_with_hyphens_are_matched_by_rules(build: Build) -> None:
    engine = build("[[rules]]\nname='srv-a-read'\ntool='srv-a__read'\nverdict='allow'\n")
    assert on(engine, "execute", "service", tool="srv-a__read") == "allow"
    assert [r["name"] for r in engine.show()["rules"] if r["layer"] == "user"] == ["srv-a-read"]


def test_a_users_allow_never_lifts_a_denial(build: Build) -> None:
    engine = build("[[rules]]\nname='all'\ntool='shell_exec'\nverdict='allow'\n")
    assert shell(engine, "make all").decision is Decision.ALLOW
    assert shell(engine, "rm -rf ~").decision is Decision.DENY
    assert shell(engine, "sudo ls").decision is Decision.DENY
    assert shell(engine, "cat .env").decision is Decision.DENY


def test_a_users_ask_beats_a_users_allow_and_a_default_allow(build: Build) -> None:
    engine = build(
        "[[rules]]\nname='a'\ntool='t'\nverdict='allow'\n[[rules]]\nname='q'\ntool='t'\neffect='write'\nverdict='ask'\n"
    )
    assert on(engine, "write", "workspace") == "ask"
    assert on(engine, "network", "internet") == "allow"
    assert on(engine, "read", "workspace") == "allow"


@pytest.mark.parametrize(
    ("kind", "scope", "wanted"),
    [
        ("communicate", "service", "allow"),
        ("spend", "service", "allow"),
        ("configure", "geode", "allow"),
        ("spawn", "unknown", "allow"),
        ("execute", "service", "allow"),
        ("read", "service", "allow"),
        ("write", "service", "allow"),
        ("delete", "service", "ask"),
        ("delete", "workspace", "ask"),
        ("network", "internet", "ask"),
        ("network", "service", "ask"),
        ("execute", "unknown", "ask"),
        ("execute", "system", "ask"),
        ("read", "home", "ask"),
        ("read", "system", "ask"),
        ("write", "protected", "ask"),
        ("write", "unknown", "ask"),
        ("privilege", "system", "deny"),
        ("delete", "home", "deny"),
        ("read", "secret", "deny"),
    ],
)
def test_a_request_answers_whether_the_tool_may_act_and_nothing_else(
    build: Build, kind: str, scope: str, wanted: str
) -> None:
    assert on(build(), kind, scope, requested=frozenset({"t"})) == wanted


def test_a_request_for_the_shell_lets_no_command_pass_that_asks(build: Build) -> None:
    engine = build()
    asked = frozenset({"shell_exec"})
    for command in ("rm a", "curl https://x", "make", "cat $X", "cat /etc/hosts", "echo x > .git/config"):
        assert shell(engine, command, requested=asked).decision is Decision.ASK, command


def test_a_request_holds_for_its_tool_only_and_never_lifts_a_persons_own_question(build: Build) -> None:
    engine = build("[[rules]]\nname='q'\neffect='spend'\nverdict='ask'\n")
    assert on(engine, "communicate", "service", requested=frozenset({"other"})) == "ask"
    assert on(engine, "spend", "service", requested=frozenset({"t"})) == "ask"


def test_a_request_may_be_a_pattern_but_never_everything(build: Build) -> None:
    engine = build()
    for wanted, asked in (("allow", "srv__*"), ("allow", "srv__?ead"), ("ask", "*"), ("ask", "**"), ("ask", "srv__[")):
        assert on(engine, "execute", "service", tool="srv__read", requested=frozenset({asked})) == wanted, asked
    assert on(engine, "execute", "service", tool="other__read", requested=frozenset({"srv__*"})) == "ask"


def test_the_reason_names_what_is_not_known(build: Build) -> None:
    engine = build()
    assert "`" not in shell(engine, "ls && make all").reason
    assert shell(engine, "ls && make all").reason == "what this does is not known: make all"
    assert "the value of $X" in shell(engine, "cat $X").reason
    assert shell(engine, "cat /etc/hosts").reason == "reads outside the workspace"
    many = shell(engine, "; ".join(f"make t{n}" for n in range(6)))
    assert many.reason.endswith("make t0, make t1, make t2 (and 3 more)")
    assert len(shell(engine, "make " + "x" * 5000).reason) < 300


def test_the_refusal_of_a_servers_tool_says_how_to_allow_it_for_good(build: Build) -> None:
    verdict = build().evaluate(Question(tool="srv__read", impacts=(impact("execute", "service"),)))
    assert 'allow = ["srv__read"]' in verdict.advice
    allowed = build('allow = ["srv__read"]\n')
    assert allowed.evaluate(Question(tool="srv__read", impacts=())).decision is Decision.ALLOW


def test_T55_a_project_tightens_and_never_loosens(build: Build) -> None:
    engine = build(
        "[[rules]]\nname='u'\ntool='t'\nverdict='allow'\n",
        "[[rules]]\nname='p-allow'\ntool='other'\nverdict='allow'\n"
        "[[rules]]\nname='p-ask'\ntool='t'\neffect='network'\nverdict='ask'\nreason='the project wants to know'\n"
        "[[rules]]\nname='p-deny'\npath='data'\neffect=['write','delete']\nverdict='deny'\n"
        "[[policies]]\nname='p-names'\nmode='*'\ndenied_tools=['code_interpreter']\n"
        "[node_scopes]\nanalyst=['memory_search']\nmine=['web_search']\n",
    )
    assert on(engine, "network", "internet", tool="other") == "ask"
    assert on(engine, "network", "internet") == "ask"
    assert on(engine, "write", "workspace", "/w/data/a.csv") == "deny"
    assert on(engine, "write", "workspace", "/w/src/a.csv") == "allow"
    assert engine.evaluate(Question(tool="code_interpreter")).blocking_policies == ["p-names"]
    assert engine.evaluate(Question(tool="memory_get", node="analyst")).decision is Decision.DENY
    assert engine.evaluate(Question(tool="memory_search", node="analyst")).decision is Decision.ALLOW
    assert engine.evaluate(Question(tool="web_search", node="mine")).decision is Decision.DENY
    assert "p-allow" not in [r["name"] for r in engine.show()["rules"]]
    assert any("mine" in n for n in engine.notices)


def test_a_user_may_add_modes_policies_and_scopes(build: Build) -> None:
    engine = build(
        "[modes]\nnight='only tests'\n[modes.rehearsal]\ndescription='like dry_run'\nlike='dry_run'\n"
        "[[policies]]\nname='n'\nmode='night'\nallowed_tools=['run_tests']\n[node_scopes]\nfixer=['edit_file']\n"
    )
    assert engine.evaluate(Question(tool="run_tests", mode="night")).decision is Decision.ALLOW
    assert engine.evaluate(Question(tool="x", mode="night")).blocking_policies == ["n"]
    assert engine.evaluate(Question(tool="run_analyst", mode="rehearsal")).decision is Decision.DENY
    assert on(engine, "spend", "service", mode="rehearsal") == "deny"
    assert engine.evaluate(Question(tool="edit_file", node="fixer_1")).decision is Decision.ALLOW


# ---------------------------------------------------------------- cases


@pytest.mark.parametrize(
    ("command", "wanted"),
    [
        ("git log | head", "allow"),
        ("git log; make", "ask"),
        ("git log && $(date)", "ask"),
        ("git log\nmake", "ask"),
        ("git log; rm -rf src", "ask"),
        ("git log & make", "ask"),
        ("git log --format='%h; rm -rf x'", "allow"),
        ("git log | xargs rm", "ask"),
        ("git log > out.txt", "ask"),
        ("git log `date`", "ask"),
        ("git log || rm -rf ~", "deny"),
    ],
)
def test_R07_allow_for_one_command_lets_no_other_pass(build: Build, command: str, wanted: str) -> None:
    rules = "[[rules]]\nname='g'\ntool='shell_exec'\ncommand=['git log*','head*']\nverdict='allow'\n"
    assert shell(build(rules), command).decision.value == wanted


def test_R07_a_command_rule_lifts_the_question_for_its_words_alone(build: Build) -> None:
    engine = build("[[rules]]\nname='m'\ncommand='make test*'\nverdict='allow'\n")
    assert shell(engine, "make test").decision is Decision.ALLOW
    assert shell(engine, "make test-slow -j2 | tail -3").decision is Decision.ALLOW
    for other in ("make", "make install", "make test; make install", "make test $X", "X=1 make test", "./make test"):
        assert shell(engine, other).decision is Decision.ASK, other
    assert shell(engine, "make test > ~/x").decision is Decision.DENY


def test_R52_denied_path_holds_for_every_tool_and_beats_an_allow_on_its_parent(build: Build) -> None:
    engine = build(
        "[[rules]]\nname='no'\neffect='read'\npath='config/prod.yml'\nverdict='deny'\n"
        "[[rules]]\nname='yes'\neffect='read'\npath='config'\nverdict='allow'\n"
    )
    assert on(engine, "read", "workspace", "/w/config/prod.yml", tool="read_file") == "deny"
    assert on(engine, "read", "workspace", "/w/config/dev.yml", tool="read_file") == "allow"
    for command in ("cat config/prod.yml", "grep x config/../config/prod.yml", "git show HEAD:config/prod.yml"):
        assert shell(engine, command).decision is Decision.DENY, command


def test_R52_secrets_are_denied_by_default_from_the_shell_too(build: Build) -> None:
    engine = build()
    for command in ("cat .env", "head -5 ~/.ssh/id_ed25519", "grep KEY .env", "wc -c < .env", "git show HEAD:.env"):
        assert shell(engine, command).decision is Decision.DENY, command
    assert shell(engine, "cat .e*").decision is Decision.ASK


def test_command_rules_can_also_deny_what_only_reads(build: Build) -> None:
    engine = build("[[rules]]\nname='n'\ncommand='git log*'\nverdict='deny'\nadvice='use git status'\n")
    assert shell(engine, "ls; git log -3").blocking_policies == ["n"]
    assert shell(engine, "git log -3 $X").blocking_policies == ["n"]
    assert shell(engine, "echo git log").decision is Decision.ALLOW


def test_rules_look_at_origin_taint_and_host(build: Build) -> None:
    engine = build(
        "[[rules]]\nname='o'\norigin=['gateway','channel']\neffect='write'\nverdict='deny'\n"
        "[[rules]]\nname='t'\ntaint=true\neffect='network'\nverdict='deny'\n"
        "[[rules]]\nname='h'\nhost='*.example.org'\nverdict='allow'\n"
    )
    assert on(engine, "write", "workspace", origin=Origin.GATEWAY) == "deny"
    assert on(engine, "write", "workspace", origin=Origin.USER) == "allow"
    assert on(engine, "network", "internet", "https://api.example.org/x") == "allow"
    assert on(engine, "network", "internet", "https://api.example.org.evil.net/x") == "ask"
    assert on(engine, "network", "internet", "https://api.example.org@evil.net/x") == "ask"
    assert on(engine, "network", "internet", "https://api.example.org/x", taint=frozenset({"srv"})) == "deny"


# ---------------------------------------------------------------- caching and cost


def test_changes_of_the_chain_take_effect_at_once(build: Build) -> None:
    engine = build()
    question = Question(tool="t", impacts=())
    assert engine.evaluate(question).decision is Decision.ALLOW
    engine.chain.add_policy(ToolPolicy("now", "*", denied_tools={"t"}))
    assert engine.evaluate(question).blocking_policies == ["now"]
    engine.chain.remove_policy("now")
    assert engine.evaluate(question).decision is Decision.ALLOW


def test_the_cache_keeps_questions_apart(build: Build) -> None:
    engine = build("[[rules]]\nname='t'\ntaint=true\nverdict='deny'\n")
    assert on(engine, "read", "workspace") == "allow"
    assert on(engine, "read", "workspace", taint=frozenset({"x"})) == "deny"
    assert on(engine, "read", "workspace", node="scoring") == "deny"
    assert on(engine, "read", "workspace") == "allow"
    for number in range(10_000):
        engine.evaluate(Question(tool=f"t{number}"))
    assert on(engine, "read", "workspace", taint=frozenset({"x"})) == "deny"
