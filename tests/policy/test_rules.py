import shlex
from collections.abc import Callable

import pytest

from geode.core.errors import ConfigError
from geode.policy.engine import PolicyEngine
from geode.policy.globs import GlobError, compile_glob, compile_path_glob
from geode.policy.rules import CommandPattern

Build = Callable[..., PolicyEngine]

BASE = {"name": "'r'", "tool": "'t'", "verdict": "'deny'"}


def rule(**keys: str | None) -> str:
    return "[[rules]]\n" + "".join(f"{k} = {v}\n" for k, v in {**BASE, **keys}.items() if v is not None)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (rule(colour="'x'"), "unknown key 'colour'"),
        (rule(name=None), "'name' must be a text"),
        (rule(name="''"), "'name' must be a text"),
        (rule(verdict=None), "'verdict' must be a text"),
        (rule(verdict="'maybe'"), "unknown verdict 'maybe'"),
        (rule(verdict="true"), "'verdict' must be a text"),
        (rule(tool="3"), "'tool' must be a text or a list"),
        (rule(tool="[]"), "not empty"),
        (rule(tool="['a', 3]"), "'tool' must be"),
        (rule(tool="'a[b'"), "bad pattern in 'tool'"),
        (rule(tool="'a[z-a]'"), "bad pattern in 'tool'"),
        (rule(tool="' a'"), "blanks"),
        (rule(effect="'fly'"), "unknown effect 'fly'"),
        (rule(scope="['workspace', 'moon']"), "unknown scope 'moon'"),
        (rule(origin="'x'"), "unknown origin 'x'"),
        (rule(mode="'nightly'"), "unknown mode 'nightly'"),
        (rule(taint="'yes'"), "'taint' must be true or false"),
        (rule(command="'git * \"'"), "badly quoted"),
        (rule(command="'g*t log'"), "without wildcards"),
        (rule(command="' '"), "empty"),
        (rule(path="'[a'"), "bad pattern in 'path'"),
        (rule(reason="3"), "'reason' must be a text"),
        (rule(match="'t'"), "'match' must be a list"),
        (rule(match="['u']"), "self-test failed: it does not match 'u'"),
        (rule(no_match="['t']"), "self-test failed: it matches 't'"),
        (rule(match="[{ tol = 't' }]"), "unknown key 'tol' in an example"),
        (rule(match="[{ effect = 'fly' }]"), "unknown effect 'fly'"),
        (rule(match="[{ tool = 3 }]"), "wrong type"),
        (rule(match="[3]"), "bad example"),
        (rule(tool=None, effect="'read'", match="['x']"), "a text as example needs"),
        (rule(verdict="'allow'", tool="'*'"), "would allow everything"),
        (rule(verdict="'allow'", tool=None), "would allow everything"),
        (rule(verdict="'allow'", tool=None, effect="'write'"), "would allow everything"),
        (rule() + rule(), "the name is taken"),
        (rule(name="'read-secret'"), "the name is taken"),
    ],
)
def test_a_bad_rule_names_file_line_rule_and_fix(build: Build, text: str, what: str) -> None:
    for files in ({"user": text}, {"project": text}):
        with pytest.raises(ConfigError) as caught:
            build(**files)
        assert what in caught.value.message
        assert "config.toml:" in caught.value.message
        assert "rule" in caught.value.message
        assert caught.value.fix


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("[[policies]]\nname='p'\nmode='nope'\n", "unknown mode 'nope'"),
        ("[[policies]]\nmode='*'\n", "policy 1: a policy needs a name"),
        ("[[policies]]\nname='p'\nmode='*'\ndenied='x'\n", "unknown key 'denied'"),
        ("[[policies]]\nname='p'\nmode='*'\ndenied_tools='x'\n", "list of tool names"),
        ("[[policies]]\nname='p'\nmode='*'\ndenied_tools=['a[']\n", "not closed"),
        ("[[policies]]\nname='p'\nmode='*'\npriority='high'\n", "whole number"),
        ("[[policies]]\nname='dry_run_block_llm'\nmode='*'\n", "already in the chain"),
        ("[node_scopes]\nn='x'\n", "list of tool names"),
        ("[node_scopes]\nn=['a[']\n", "not closed"),
    ],
)
def test_bad_policies_and_scopes_are_refused(build: Build, text: str, what: str) -> None:
    for files in ({"user": text}, {"project": text}):
        with pytest.raises(ConfigError) as caught:
            build(**files)
        assert what in caught.value.message
        assert "config.toml" in caught.value.message


@pytest.mark.parametrize(
    "text", ["[modes]\ndefault='x'\n", "[modes]\nx=3\n", "[modes.x]\nlike='y'\n", "[modes.x]\nlikes='auto'\n"]
)
def test_bad_modes_are_refused(build: Build, text: str) -> None:
    with pytest.raises(ConfigError, match="mode"):
        build(user=text)


def test_self_tests_of_command_rules_parse_their_examples(build: Build) -> None:
    good = rule(
        tool=None,
        command="'git log*'",
        verdict="'allow'",
        match="['git log', 'git log -3']",
        no_match="['git log; rm x', 'git log $(x)', 'git push', 'echo git log']",
    )
    build(user=good)
    with pytest.raises(ConfigError, match="self-test"):
        build(user=rule(tool=None, command="'git log*'", verdict="'allow'", match="['git log && make']"))
    build(user=rule(tool=None, command="'make*'", match="['git log && make']"))


def test_self_tests_of_tables_and_paths(build: Build) -> None:
    build(
        user=rule(
            tool=None,
            path="'secrets'",
            effect="['read','write']",
            match="['secrets/a', 'x/secrets', { path = '~/secrets/b', effect = 'read' }]",
            no_match="['secret', { path = 'secrets', effect = 'delete' }]",
        )
    )


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("a*", "a ab a*b", "b ba"),
        ("*__read", "x__read", "x__reads"),
        ("[ab]?", "ax b1", "a cx abc"),
        ("[!a]x", "bx", "ax"),
        ("a.b", "a.b", "axb"),
        ("[]]", "]", "["),
        ("a**b", "ab axxb", "a"),
    ],
)
def test_globs_match_whole_names(pattern: str, yes: str, no: str) -> None:
    compiled = compile_glob(pattern)
    assert all(compiled.match(n) for n in yes.split())
    assert not any(compiled.match(n) for n in no.split())
    assert not compile_glob("a").match("a\n")


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        (".env", "/w/.env /w/a/.env /w/.env/x .env a/.env", "/w/.env2 /w/x.env"),
        ("*.pem", "/w/a.pem /w/d/b.pem", "/w/a.pem2"),
        ("config/prod", "/w/config/prod /w/config/prod/a config/prod", "/w/config/dev /w/xconfig/prod"),
        ("/etc/*", "/etc/passwd /etc/a/b", "/etc /w/etc/x"),
        ("~/docs", "/home/u/docs /home/u/docs/x", "/w/docs /home/u/docs2"),
        ("data/**/*.csv", "/w/data/a.csv /w/data/x/y/a.csv", "/w/data/a.txt"),
        ("/srv/**", "/srv /srv/a/b", "/srv2"),
        ("build/", "/w/build /w/build/x", "/w/builds"),
    ],
)
def test_path_globs_match_what_they_name_and_everything_beneath(pattern: str, yes: str, no: str) -> None:
    compiled = compile_path_glob(pattern, "/home/u")
    assert [p for p in yes.split() if not compiled.match(p)] == []
    assert [p for p in no.split() if compiled.match(p)] == []


@pytest.mark.parametrize("bad", ["", "[", "a[", "[z-a]", "a\nb", " a"])
def test_malformed_globs_are_refused(bad: str) -> None:
    with pytest.raises(GlobError):
        compile_glob(bad)


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("git log*", ["git log", "git log -3 x", "git log"], ["git", "git push", "log"]),
        ("head*", ["head", "head -5 x"], ["headless", "tail"]),
        ("npm run test:*", ["npm run test:unit", "npm run test:a b"], ["npm run test", "npm run build"]),
        ("make", ["make"], ["make x"]),
        ("make *", ["make", "make x y"], ["cmake x"]),
        ("go test ./*", ["go test ./a", "go test ./a ./b"], ["go test", "go test /x"]),
        ("a 'b c'", ["a 'b c'"], ["a b c"]),
    ],
)
def test_command_patterns_match_words(pattern: str, yes: list[str], no: list[str]) -> None:
    compiled = CommandPattern.parse(pattern)
    assert [c for c in yes if not compiled.matches(tuple(shlex.split(c)))] == []
    assert [c for c in no if compiled.matches(tuple(shlex.split(c)))] == []
