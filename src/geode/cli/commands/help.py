"""`geode help`: short explanations of the ideas behind the commands."""

from __future__ import annotations

import difflib

from ...core.errors import UsageError
from .. import render
from ..invocation import Invocation
from ..parser import COMMANDS, CommandParser, build_parser

__all__ = ["TOPICS", "configure"]

TOPICS: dict[str, str] = {
    "start": """\
First steps
  geode doctor                                    what works on this machine
  geode tools search "read a PDF"                 find a tool in plain words
  geode tools show read_document                  its arguments and effects
  geode tools call read_document --args '{"path": "report.pdf", "pages": "2"}'
  geode audit list                                the record of it
  geode serve --stdio                             the same for your MCP client (see: geode help connect)""",
    "agent": """\
The agent
  geode                                           chat; /help lists its commands, Ctrl-C stops a turn
  geode run "what to do" --model anthropic:NAME   one task; the answer on stdout, what it does on stderr
  geode run --resume                              go on with the last session of this project
  The model: ANTHROPIC_API_KEY or OPENAI_API_KEY, a local server (Ollama, LM Studio, llama.cpp, vLLM),
  or --model openai-compatible:URL#NAME; GEODE_MODEL sets the usual one.
  Every call passes the same rules as everywhere. In the chat and at a terminal you are asked;
  without one a run ends with exit code 4 and says how to approve the call and go on.
  --events writes one JSON line for everything that happens, --json one document at the end.""",
    "models": """\
Models
  geode run and the chat take the first of these that is there; geode doctor says which:
    --model P:NAME            what you say now
    GEODE_MODEL               what you always want, in the same form
    ANTHROPIC_API_KEY         Anthropic's usual model
    OPENAI_API_KEY            OpenAI's usual model
    a local server            Ollama, LM Studio, llama.cpp or vLLM on its usual port
  P:NAME is anthropic:NAME, openai:NAME, ollama:NAME (also lmstudio:, llamacpp:, vllm:),
  openai-compatible:URL#NAME, pydantic-ai:PROVIDER:NAME, or the NAME alone where it is known.
  Any other server with OpenAI's chat interface:
    geode run "what to do" --model openai-compatible:http://HOST:PORT/v1#NAME
    GEODE_MODEL_API_KEY is its key, when it wants one.
  geode serve needs no model: your MCP client brings its own.""",
    "connect": """\
Connect an MCP client
  Geode is one MCP server that stands in front of all tools and servers.
  Claude Code   claude mcp add geode -- geode serve --stdio
  Cursor        .cursor/mcp.json:  {"mcpServers": {"geode": {"command": "geode", "args": ["serve", "--stdio"]}}}
  Codex         ~/.codex/config.toml:
                  [mcp_servers.geode]
                  command = "geode"
                  args = ["serve", "--stdio"]
  Give the full path of `geode` when the client does not find it, and --project DIR
  when the client does not start it in your project. --expose search shows three tools
  (search, inspect, call) instead of all of them.""",
    "servers": """\
MCP servers behind Geode
  geode mcp add files -- npx -y @modelcontextprotocol/server-filesystem .
  geode mcp add docs --url https://example.com/mcp --header "Authorization=Bearer ${DOCS_TOKEN}"
  geode mcp status                                state, tools, last error
  Files: .geode/mcp.json (project), ~/.geode/mcp.json (--scope user); .mcp.json is read.
  ${NAME} and ${NAME:-default} come from the environment; write no secret into the file.
  Servers that a project brings are used only after: geode trust""",
    "policy": """\
Policy
  Every call is judged before the tool is looked up and again with its resolved effects:
  deny wins over ask, ask over allow, over all policies and all effects.
  geode policy check TOOL --args JSON             the verdict with its trace; nothing is run
  geode policy show                               rules in force
  Own rules go into ~/.geode/config.toml:
    [[rules]]
    name = "no-mail"
    tool = "send_*"
    verdict = "deny"
    reason = "this machine sends nothing"
  --allow TOOL, or allow = ["TOOL", "srv__*"] in config.toml, says that you want a tool used: it lifts
  what asks because of the tool itself (an outside service, sending, spending, configuring), never
  what asks because of what this call does (deleting, the network, an unknown command, files outside).
  A project's .geode/config.toml can only make things stricter.""",
    "modes": """\
Modes (--mode M)
  default     the rules as they are
  read_only   nothing but reading
  dry_run     nothing that spends money or sends a message
  auto        as default; judges may answer what would ask
  evaluation, full_pipeline   for pipelines: see geode policy show
  A call in an unknown mode is denied; geode run, the chat and serve refuse to start in one.""",
    "approvals": """\
Approvals
  A call that policy asks about is shown at the terminal with exactly what will run.
  Without a terminal nothing runs: exit code 4, and the request waits.
  geode approvals list
  geode approvals approve ID                      allows exactly this call, once
  geode approvals deny ID --reason TEXT
  An approval is bound to tool, arguments, project and user: another call asks again.""",
    "audit": """\
The record
  Two records a call: the intent before it runs, the outcome after; denials too.
  Records are chained with a key in HOME/audit; the chain's head is signed outside the database.
  geode audit list --since 2h · geode audit show CALL_ID · geode audit stats
  geode audit verify                              finds a changed, removed, re-ordered or cut-off record
  A call that was interrupted between intent and outcome shows as unknown and is never repeated.""",
    "sandbox": """\
The sandbox
  Shell commands and code run inside the operating system's sandbox or not at all: no network,
  no home directory, only the project writable, with limits on memory, processes, time and output.
  geode sandbox probe                             tries to break out and reports what is open
  Linux needs bubblewrap (Debian: apt-get install bubblewrap).""",
    "json": """\
For programs
  --json prints exactly one JSON document on stdout with "schema": 1; messages go to stderr.
  An error is {"schema": 1, "error": {"code", "message", "fix"}}.
  Lists have next_cursor; go on with --cursor. --batch reads and writes JSON lines.
  tools call: "content" is the list of blocks ({"type": "text", "text": …}, image, audio,
  resource_link, structured); "text" is everything readable in one string.""",
    "exit-codes": """\
Exit codes
  0    ok
  1    the tool, task or check failed
  2    usage: invalid input, unknown tool, a file that cannot be used
  3    denied by policy
  4    needs approval and nobody can answer
  5    something needed is missing (server, key, program): the message says how to get it
  130  interrupted""",
    "files": """\
Files
  ~/.geode/config.toml      your settings and rules            (GEODE_HOME or --home moves ~/.geode)
  ~/.geode/mcp.json         your MCP servers
  ~/.geode/geode.db         calls, results, approvals          (GEODE_DATABASE_URL for Postgres)
  ~/.geode/audit/           key and signed heads of the record
  ~/.geode/logs/            details of unexpected errors
  .geode/config.toml        a project's settings: may only tighten
  .geode/tools.json         tools a project declares           (after: geode trust)
  .geode/mcp.json           servers a project brings           (after: geode trust)""",
}


def configure(parser: CommandParser) -> None:
    """Fill in `geode help`."""
    parser.add_argument("topic", nargs="?", metavar="TOPIC", help=", ".join([*TOPICS, "or a command"]))
    parser.set_defaults(run=_help)


def _help(run: Invocation) -> int:
    topic = run.args.topic
    if topic is None:
        lines = [f"  {name:<11} {text.splitlines()[0]}" for name, text in TOPICS.items()]
        run.show(
            {"topics": list(TOPICS), "commands": list(COMMANDS)},
            lambda: print("geode help TOPIC explains:\n" + "\n".join(lines) + "\n\ncommands: geode --help"),
        )
        return 0
    name = topic.lower().replace("_", "-")
    if name in TOPICS:
        text = TOPICS[name]
    elif name in COMMANDS:
        text = _usage(name)
    else:
        near = difflib.get_close_matches(name, [*TOPICS, *COMMANDS], 3)
        hint = f"did you mean: {', '.join(near)}?" if near else f"topics: {', '.join(TOPICS)}"
        raise UsageError(f"there is no help on {render.plain(topic)!r}", fix=hint)
    run.show({"topic": name, "text": text}, lambda: print(text))
    return 0


def _usage(command: str) -> str:
    """The help of a command, as `geode COMMAND --help` prints it."""
    import contextlib
    import io

    text = io.StringIO()
    with contextlib.redirect_stdout(text), contextlib.suppress(SystemExit):
        build_parser().parse_args([command, "--help"])
    return text.getvalue().rstrip()
