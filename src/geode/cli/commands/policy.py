"""`geode policy`: what is allowed, and why. Needs no database and runs nothing."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ...config.person import local_user
from ...core.errors import GeodeError, UsageError
from .. import render
from ..inputs import arguments_from, open_text, parse_object
from ..invocation import Invocation
from ..parser import ALLOW_HELP, CommandParser, add_command, add_group

if TYPE_CHECKING:
    from ...core.call import Verdict

__all__ = ["configure"]

EXIT_CODES = {"allow": 0, "ask": 4, "deny": 3}


def configure(parser: CommandParser) -> None:
    """Fill in `geode policy`."""
    group = add_group(parser)
    add_command(group, "show", "the policies, rules and modes in force", _show)
    check = add_command(group, "check", "would this call be allowed? (nothing is run)", _check)
    check.add_argument("tool", nargs="?", help="name of the tool; it need not be installed")
    check.add_argument("--args", dest="arguments", metavar="JSON", help="arguments: JSON, @FILE or - for stdin")
    check.add_argument("--node", metavar="N", help="pipeline node that would call it")
    check.add_argument("--user", metavar="U", help="on whose behalf (default: you)")
    check.add_argument("--allow", action="append", default=[], metavar="TOOL", help=ALLOW_HELP)
    command = add_command(group, "command", "would this shell command be allowed? (nothing is run)", _command)
    command.add_argument("command", nargs="?", metavar="CMD", help="the command, quoted as one word")
    for each in (check, command):
        each.add_argument("--batch", metavar="FILE", help="one JSON request a line (or -); one JSON answer a line")
        each.add_argument("--exit-code", action="store_true", help="exit 3 for deny, 4 for ask")


def _show(run: Invocation) -> int:
    document = run.policy.show()

    def people() -> None:
        print(f"mode in force: {run.settings.mode}\n")
        render.table(["mode", "meaning"], list(document["modes"].items()))
        for title, line in (("policies", _policy_line), ("rules", _rule_line)):
            print(f"\n{render.paint(title, 'bold')}")
            render.table(["name", "says", "about", "because"], [line(item) for item in document[title]])
        print(f"\n{render.paint('node scopes', 'bold')}")
        render.table(["node", "tools"], [[node, _short(tools)] for node, tools in document["node_scopes"].items()])

    run.show({"mode": run.settings.mode, **document}, people)
    return 0


def _policy_line(policy: Mapping[str, Any]) -> list[str | None]:
    says = [
        f"{word}: {_short(policy[key])}"
        for word, key in (
            ("only", "allowed_tools"),
            ("denied", "denied_tools"),
            ("denied unless requested", "unless_requested"),
        )
        if policy.get(key) is not None and policy[key] != []
    ]
    return [policy["name"], "; ".join(says), f"mode {policy['mode']}", None]


def _rule_line(rule: Mapping[str, Any]) -> list[str | None]:
    about = f"{_short(rule.get('effect')) or 'anything'} on {_short(rule.get('scope')) or 'anything'}"
    for key in ("tool", "target", "origin", "source", "mode"):
        if _short(rule.get(key)) not in (None, "*"):
            about += f", {key} {_short(rule[key])}"
    if rule.get("taint") is not None:
        about += ", after untrusted content" if rule["taint"] else ", before untrusted content"
    name = rule["name"] if rule.get("layer") == "default" else f"{rule['name']} ({rule.get('layer')})"
    return [name, rule["verdict"], about, rule.get("reason")]


def _short(value: Any) -> str | None:
    if value is None or value == []:
        return None
    if isinstance(value, list | tuple | set | frozenset):
        return ", ".join(map(str, value))
    return str(value)


# ---------------------------------------------------------------- check


def _check(run: Invocation) -> int:
    args = run.args
    if args.batch is not None:
        return _batch(run, lambda request: _judge(run, request))
    if not args.tool:
        raise UsageError("policy check: give the name of a tool", fix="geode policy check TOOL, or --batch FILE")
    request: dict[str, Any] = {"tool": args.tool, "node": args.node, "user": args.user, "allow": args.allow}
    if args.arguments is not None:
        request["args"] = arguments_from(args.arguments)
    document = _judge(run, request)
    run.show(document, lambda: _explain(document, args.tool))
    return EXIT_CODES[document["verdict"]] if args.exit_code else 0


def _judge(run: Invocation, request: Mapping[str, Any]) -> dict[str, Any]:
    """One verdict as the contract's document.

    Raises:
        UsageError: the request has unknown keys or wrong types.
    """
    from ..checking import check_call

    _refuse_unknown(request, {"tool", "mode", "node", "user", "args", "allow", "id"})
    tool = _text(request, "tool")
    if tool is None:
        raise UsageError("the request has no tool", fix='{"tool": "NAME", "mode": …, "node": …, "args": {…}}')
    arguments = request.get("args")
    if arguments is not None and not isinstance(arguments, dict):
        raise UsageError("args is not a JSON object")
    allow = request.get("allow") or []
    if not isinstance(allow, list) or not all(isinstance(name, str) for name in allow):
        raise UsageError("allow is not a list of tool names")
    mode = _text(request, "mode") or run.settings.mode
    verdict: Verdict = check_call(
        run.policy,
        run.settings,
        tool=tool,
        arguments=arguments,
        mode=mode,
        node=_text(request, "node"),
        user=_text(request, "user") or local_user(),
        requested=frozenset(allow) | run.settings.allow,
    )
    return {"tool": tool, "mode": mode, "node": _text(request, "node"), **verdict.to_json()}


def _explain(document: Mapping[str, Any], what: str) -> None:
    verdict = str(document["verdict"])
    colour = {"allow": "green", "ask": "yellow", "deny": "red"}[verdict]
    print(f"{render.paint(verdict, colour)}  {render.plain(what)}")
    if document.get("reason"):
        print(f"  {render.plain(document['reason'])}")
    if document.get("advice"):
        print(f"  instead: {render.plain(document['advice'])}")
    for effect in document.get("effects", []):
        print(f"  effect: {effect['kind']} {render.plain(effect['target'])} ({effect['scope']})")
    trace = document.get("trace", [])
    if trace:
        print()
        render.table(["policy", "verdict", "reason"], [[s["policy"], s["verdict"], s["reason"]] for s in trace])


# ---------------------------------------------------------------- command


def _command(run: Invocation) -> int:
    args = run.args
    if args.batch is not None:
        return _batch(run, lambda request: _judge_command(run, request))
    if args.command is None:
        raise UsageError("policy command: give a command", fix="geode policy command 'ls -l', or --batch FILE")
    document = _judge_command(run, {"command": args.command})
    run.show(document, lambda: _explain(document, args.command))
    return EXIT_CODES[document["verdict"]] if args.exit_code else 0


def _judge_command(run: Invocation, request: Mapping[str, Any]) -> dict[str, Any]:
    from ..checking import check_command

    _refuse_unknown(request, {"command", "mode", "node", "id"})
    command = _text(request, "command")
    if command is None:
        raise UsageError("the request has no command", fix='{"command": "ls -l"}')
    mode = _text(request, "mode") or run.settings.mode
    return check_command(run.policy, run.settings, command=command, mode=mode, node=_text(request, "node"))


# ---------------------------------------------------------------- batch


def _batch(run: Invocation, answer: Callable[[Mapping[str, Any]], dict[str, Any]]) -> int:
    """Answer every line in order; a bad line gets an error line and the batch ends with 2."""
    worst = 0
    for number, line in _lines(run.args.batch):
        request: dict[str, Any] = {}
        try:
            request = parse_object(line, f"line {number}")
            document = answer(request)
            code = EXIT_CODES[document["verdict"]] if run.args.exit_code else 0
        except GeodeError as error:
            document, code = {"line": number, "error": error.to_json()}, error.exit_code
        if "id" in request:
            document = {"id": request["id"], **document}
        render.emit_line(document)
        worst = max(worst, code, key=_RANK.index)
    return worst


_RANK = [0, 4, 3, 5, 1, 2]
"""Which exit code of a batch wins, weakest first."""


def _lines(source: str) -> Iterator[tuple[int, str]]:
    with open_text(source) as stream:
        try:
            for number, line in enumerate(stream, 1):
                if line.strip():
                    yield number, line
        except UnicodeDecodeError as error:
            raise UsageError(f"{source} is not UTF-8 text: {error.reason}", fix="save it as UTF-8") from None
        except OSError as error:
            raise UsageError(f"cannot read {source}: {error.strerror}", fix="check the file") from None
    sys.stdout.flush()


def _refuse_unknown(request: Mapping[str, Any], known: set[str]) -> None:
    unknown = sorted(set(request) - known)
    if unknown:
        raise UsageError(f"unknown key {json.dumps(unknown[0])}", fix=f"known keys: {', '.join(sorted(known))}")


def _text(request: Mapping[str, Any], key: str) -> str | None:
    value = request.get(key)
    if value is not None and not isinstance(value, str):
        raise UsageError(f"{key} is not a string")
    return value
