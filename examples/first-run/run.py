"""The first run: Geode's main job on real files, seen by an ordinary MCP client. No account, no model.

    python examples/first-run/run.py [--json] [--home DIR] [--pause SECONDS]

It copies this folder's report, spreadsheet and source tree into a fresh workspace, starts
`geode serve --stdio` there and talks to it through the official MCP SDK, as Claude Code, Cursor
or Codex would. Every step is checked; the exit code is 0 when all of them behaved, else 1.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
STEP_SECONDS = 90.0
"""Longest time one step may take."""

BROKEN = """def average(values):
    total = sum(values
    return total / len(values)
"""

SUMS = """\
from openpyxl import load_workbook

sheet = load_workbook("sales.xlsx", data_only=True)["Sales"]
sums = {}
for day, district, product, quantity, price, amount in sheet.iter_rows(min_row=2, values_only=True):
    sums[district] = sums.get(district, 0) + quantity * price
for district in sorted(sums):
    print(f"{district:6} {sums[district]:10.2f}")
print(f"total  {sum(sums.values()):10.2f}")
"""


@dataclass(slots=True)
class Step:
    """What was asked, what Geode did, and the proof that it did.

    Attributes:
        title: the step in a few words.
        asked: what the client sent.
        did: lines that came back, shortened for reading.
        proof: what was checked, in words.
        ok: whether it held.
        duration_ms: wall time of the step.
    """

    title: str
    asked: str = ""
    did: list[str] = field(default_factory=list)
    proof: str = ""
    ok: bool = False
    duration_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class Answer:
    """One tool result as the client sees it."""

    text: str
    is_error: bool
    structured: Any


class Run:
    """The run: places, the connected client, the steps so far.

    Args:
        root: a fresh folder for everything.
        home: Geode's home of this run.
        story: prints for people, or does nothing.
        pause: seconds between steps.
    """

    def __init__(self, root: Path, home: Path, story: Story, pause: float) -> None:
        self.workspace = root / "workspace"
        self.user_home = root / "user-home"
        self.log = root / "gateway.log"
        self.home = home
        self.story = story
        self.pause = pause
        self.steps: list[Step] = []
        self.client: Any = None
        self.ready_seconds = 0.0

    # ------------------------------------------------------------ setting

    def prepare(self) -> None:
        """A fresh workspace, and a throw-away user home with a file that must survive."""
        self.workspace.mkdir(parents=True)
        self.user_home.mkdir()
        (self.user_home / "diary.txt").write_text("Dear diary, nobody deleted me today.\n", encoding="utf-8")
        for name in ("report.pdf", "sales.xlsx"):
            shutil.copy(HERE / name, self.workspace / name)
        shutil.copytree(HERE / "src", self.workspace / "src", ignore=shutil.ignore_patterns("__pycache__"))

    @property
    def environment(self) -> dict[str, str]:
        """For Geode: its own home, and a user home that may be lost."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith("GEODE_")}
        return {**kept, "HOME": str(self.user_home), "PYTHONUTF8": "1"}

    def geode(self, *words: str) -> tuple[int, dict[str, Any]]:
        """Run a `geode` command with --json; exit code and document."""
        place = ["--project", str(self.workspace), "--home", str(self.home), "--json"]
        done = subprocess.run(
            [sys.executable, "-m", "geode", *words, *place],
            env=self.environment,
            cwd=self.workspace,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=STEP_SECONDS,
            check=False,
        )
        try:
            return done.returncode, json.loads(done.stdout)
        except ValueError:
            return done.returncode, {"error": {"message": (done.stderr or done.stdout or "no output").strip()[-400:]}}

    async def call(self, tool: str, arguments: dict[str, Any]) -> Answer:
        """Call a tool over MCP."""
        result = await self.client.call_tool(tool, arguments)
        text = "\n".join(getattr(block, "text", f"[{block.type}]") for block in result.content)
        return Answer(text, bool(result.is_error), result.structured_content)

    def said_last(self) -> str:
        """What the gateway wrote last before it ended, "" when it wrote nothing."""
        try:
            lines = [line.strip() for line in self.log.read_text(encoding="utf-8", errors="replace").splitlines()]
        except OSError:
            return ""
        told = [line for line in lines if line]
        return " ".join(told[-2:]) if told and told[-1].startswith("fix:") else (told[-1] if told else "")

    # ------------------------------------------------------------ steps

    async def step(self, title: str, work: Callable[[Step], Awaitable[None]]) -> None:
        """Run one step; whatever goes wrong in it is told and ends only this step."""
        step = Step(title)
        self.steps.append(step)
        started = time.perf_counter()
        try:
            async with asyncio.timeout(STEP_SECONDS):
                await work(step)
        except TimeoutError:
            step.ok, step.proof = False, f"nothing came back within {STEP_SECONDS:.0f} s"
        except Exception as error:  # the story must go on: the step is marked as failed
            step.ok, step.proof = False, f"{type(error).__name__}: {error}"
        step.duration_ms = round((time.perf_counter() - started) * 1000, 1)
        self.story.step(len(self.steps), step)
        if self.pause:
            await asyncio.sleep(self.pause)

    async def connect(self, step: Step) -> None:
        step.asked = "an MCP client starts it and asks: which tools are there?"
        tools = (await self.client.list_tools()).tools
        names = sorted(t.name for t in tools)
        step.did = [
            f"ready {self.ready_seconds:.1f} s after the start, protocol {self.client.protocol_version}",
            f"{len(names)} tools: {', '.join(names)}",
        ]
        wanted = {"tool_search", "read_document", "grep_file", "code_interpreter", "write_file", "shell_exec"}
        missing = wanted - set(names)
        step.ok = not missing
        step.proof = f"missing: {', '.join(sorted(missing))}" if missing else "everything this run needs is listed"

    async def search(self, step: Step) -> None:
        need = "read the tables on one page of a PDF report"
        step.asked = f'tool_search: "{need}"'
        answer = await self.call("tool_search", {"query": need, "limit": 3})
        found = (answer.structured or {}).get("results", [])
        step.did = [f"{hit['name']} ({hit['band']}): {hit['description']}" for hit in found]
        step.ok = bool(found) and found[0]["name"] == "read_document"
        step.proof = "read_document is the first candidate, with its schema" if step.ok else answer.text[:300]

    async def read(self, step: Step) -> None:
        step.asked = "read_document: report.pdf, page 2"
        answer = await self.call("read_document", {"path": "report.pdf", "pages": "2"})
        step.did = excerpt(answer.text, ("of 6 pages", "| Month", "| Jul", "| Year"), 8)
        step.ok = not answer.is_error and "349,545" in answer.text and "Workshop" not in answer.text
        step.proof = "349,545 rides in the table of page 2" if step.ok else "the sum of the table was not there"

    async def grep(self, step: Step) -> None:
        step.asked = 'grep_file: "TODO" in src/'
        answer = await self.call("grep_file", {"pattern": "TODO", "path": "src"})
        step.did = excerpt(answer.text, ("TODO",), 6)
        places = ("plan.py", "load.py", "refresh.sh")
        step.ok = not answer.is_error and all(name in answer.text for name in places)
        step.proof = f"found in {', '.join(places)}" if step.ok else "a place was not found"

    async def compute(self, step: Step) -> None:
        step.asked = "code_interpreter: sums of sales.xlsx by district (Python, in the sandbox, without network)"
        answer = await self.call("code_interpreter", {"code": SUMS})
        step.did = excerpt(answer.text, ("North", "East", "South", "West", "total"), 6)
        step.ok = not answer.is_error and "59044.00" in answer.text
        step.proof = "59,044.00 in total, as in the sheet Summary" if step.ok else "the sum is not 59,044.00"

    async def write(self, step: Step) -> None:
        step.asked = "write_file: average.py, with a bracket that is never closed"
        answer = await self.call("write_file", {"path": "average.py", "content": BROKEN})
        step.did = excerpt(answer.text, (), 6)
        there = (self.workspace / "average.py").is_file()
        told = "average.py:2" in answer.text or "problem" in answer.text.lower() or "never closed" in answer.text
        step.ok = there and told
        step.proof = "written, checked at once, the fault reported" if step.ok else "no fault was reported"

    async def repair(self, step: Step) -> None:
        step.asked = "edit_file: close the bracket"
        edit = {"path": "average.py", "old_text": "sum(values\n", "new_text": "sum(values)\n"}
        answer = await self.call("edit_file", edit)
        step.did = excerpt(answer.text, (), 5)
        text = (self.workspace / "average.py").read_text(encoding="utf-8")
        step.ok = not answer.is_error and "sum(values)" in text and "never closed" not in answer.text
        step.proof = "edited, and the check is clean now" if step.ok else "the file is not repaired"

    async def refuse(self, step: Step) -> None:
        step.asked = 'shell_exec: "rm -rf ~"'
        answer = await self.call("shell_exec", {"command": "rm -rf ~"})
        step.did = excerpt(answer.text, (), 4)
        alive = (self.user_home / "diary.txt").is_file()
        step.ok = answer.is_error and alive and "denied" in answer.text.lower()
        step.proof = "not run: the home of this run and its diary.txt are still there" if alive else "the home is gone"

    async def record(self, step: Step) -> None:
        step.asked = "geode audit list"
        code, document = await asyncio.to_thread(self.geode, "audit", "list")
        calls = document.get("calls") or document.get("records") or []
        step.did = [f"{c.get('tool', '?'):17} {c.get('status', '?'):8} {c.get('call_id', '')}" for c in reversed(calls)]
        tools = {c.get("tool") for c in calls}
        denied = any(c.get("tool") == "shell_exec" and c.get("status") == "denied" for c in calls)
        step.ok = code == 0 and denied and {"read_document", "grep_file", "write_file"} <= tools
        step.proof = "every call is there, the refused one too" if step.ok else reason(document, "a call is missing")

    async def verify(self, step: Step) -> None:
        step.asked = "geode audit verify"
        code, document = await asyncio.to_thread(self.geode, "audit", "verify")
        step.did = [", ".join(f"{key}: {document.get(key)}" for key in ("ok", "records", "first_bad"))]
        step.ok = code == 0 and document.get("ok") is True and document.get("records", 0) > 0
        step.proof = "the chain is whole and its head is signed" if step.ok else reason(document, "not intact")

    async def go(self) -> None:
        """All steps over one connection."""
        from mcp import Client, StdioServerParameters, stdio_client

        server = StdioServerParameters(
            command=sys.executable,
            args=["-m", "geode", "serve", "--stdio", "--project", str(self.workspace), "--home", str(self.home)],
            env=self.environment,
            cwd=str(self.workspace),
        )
        started = time.perf_counter()
        with self.log.open("w", encoding="utf-8") as log:
            async with Client(stdio_client(server, errlog=log), read_timeout_seconds=STEP_SECONDS) as client:
                self.client, self.ready_seconds = client, time.perf_counter() - started
                await self.over_mcp()
        await self.step("Look at the record", self.record)
        await self.step("Verify the record", self.verify)

    async def over_mcp(self) -> None:
        """The steps of the connected client."""
        await self.step("Connect to `geode serve --stdio`", self.connect)
        await self.step("Ask for a capability in plain words", self.search)
        await self.step("Read one page of a PDF", self.read)
        await self.step("Search a source tree", self.grep)
        await self.step("Compute on a spreadsheet, in the sandbox", self.compute)
        await self.step("Write a file with a mistake in it", self.write)
        await self.step("Repair it", self.repair)
        await self.step("Try to delete the home directory", self.refuse)


def reason(document: dict[str, Any], otherwise: str) -> str:
    return str(document.get("error", {}).get("message") or otherwise)


def excerpt(text: str, wanted: Sequence[str], most: int) -> list[str]:
    """The lines with one of the wanted words (all lines when none is named), at most `most`."""
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    chosen = [line for line in lines if any(word in line for word in wanted)] if wanted else lines
    chosen = chosen or lines
    left = len(chosen) - most
    return chosen[:most] + ([f"… {left} more lines"] if left > 0 else [])


# ---------------------------------------------------------------- telling it


class Story:
    """Prints the run for people. Colours only on a terminal that wants them.

    Args:
        quiet: print nothing (for --json).
    """

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._colours = sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        self._width = min(110, shutil.get_terminal_size((100, 24)).columns)

    def say(self, text: str = "") -> None:
        if not self._quiet:
            print(text, flush=True)

    def paint(self, text: str, code: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self._colours else text

    def step(self, number: int, step: Step) -> None:
        """One step: title with its result, then asked, did, proof."""
        mark = self.paint("ok", "32") if step.ok else self.paint("FAILED", "31")
        self.say(f"\n{self.paint(f'{number:2}  {step.title}', '1')}  {mark}  {step.duration_ms:.0f} ms")
        self._field("asked", [step.asked])
        self._field("Geode", step.did)
        self._field("proof", [step.proof])

    def _field(self, name: str, lines: list[str]) -> None:
        for at, line in enumerate(line for line in lines if line):
            label = name if at == 0 else ""
            room = self._width - 12
            clean = "".join(c for c in line.expandtabs(2) if c.isprintable())
            parts = [clean] if clean.startswith("|") else textwrap.wrap(clean, room) or [""]
            if len(parts) > 3:
                parts = [*parts[:2], parts[2][: room - 2] + " …"]
            for index, part in enumerate(parts):
                shown = part if len(part) <= room else part[: room - 1] + "…"
                head = f"{label if index == 0 else '':<6}"
                self.say(f"    {self.paint(head, '2')}  {shown}")


def opening(story: Story, run: Run) -> None:
    story.say(story.paint("Geode: the first run", "1"))
    story.say(
        textwrap.dedent(f"""\
        An ordinary MCP client asks Geode for capabilities in plain words. Geode finds the tool, checks
        the call against policy, runs it contained, shapes the result and records it. No model, no account.

          workspace  {run.workspace}  (a copy of examples/first-run)
          record     {run.home}""")
    )


def closing(story: Story, run: Run, *, ok: bool) -> None:
    program = program_path()
    words = json.dumps(["serve", "--stdio"])
    failed = [step.title for step in run.steps if not step.ok]
    result = story.paint("All steps behaved.", "32") if ok else story.paint(f"Failed: {'; '.join(failed)}", "31")
    story.say(
        f"\n{result}  The record of this run stays in {run.home} (geode audit list --home {run.home})\n"
        f"To remove what this run made: rm -r {run.workspace.parent}\n"
        + textwrap.dedent(f"""
        Connect your client (in your project's folder)
          Claude Code   claude mcp add geode -- {program} serve --stdio
          Cursor        .cursor/mcp.json
                        {{"mcpServers": {{"geode": {{"command": "{program}", "args": {words}}}}}}}
          Codex         ~/.codex/config.toml
                        [mcp_servers.geode]
                        command = "{program}"
                        args = {words}

        Bring a model
          This run needed none: the client above plays its part, and with Claude Code, Cursor or Codex
          their model does. Geode's own agent takes ANTHROPIC_API_KEY, OPENAI_API_KEY or a local server
          (Ollama, LM Studio, llama.cpp, vLLM); which one it would use: {program} doctor
            {program} run "say what this project is about"     one task
            {program}                                          a chat

        Go on
          {program} --help
          {program} tools search "find text in files"
          {program} doctor""")
    )


def program_path() -> str:
    """How to start `geode` from anywhere on this machine."""
    beside = Path(sys.executable).with_name("geode")
    return str(beside) if beside.is_file() else shutil.which("geode") or "geode"


def summary(run: Run, *, ok: bool, duration_ms: float) -> dict[str, Any]:
    """The one document of --json."""
    return {
        "schema": 1,
        "ok": ok,
        "steps": [asdict(step) for step in run.steps],
        "workspace": str(run.workspace),
        "home": str(run.home),
        "duration_ms": round(duration_ms, 1),
    }


def main(words: Sequence[str] | None = None) -> int:
    """Do the run; 0 when every step behaved, 1 when one did not, 130 when interrupted."""
    parser = argparse.ArgumentParser(description="Geode's main job on the example files: no account, no model.")
    parser.add_argument("--json", action="store_true", help="one summary document on stdout")
    parser.add_argument("--home", type=Path, metavar="DIR", help="Geode's home of this run (default: a fresh one)")
    parser.add_argument("--pause", type=float, metavar="S", help="seconds between steps (default: 0.6 on a terminal)")
    args = parser.parse_args(words)
    pause = args.pause if args.pause is not None else 0.6 if sys.stdout.isatty() and not args.json else 0.0
    root = Path(tempfile.mkdtemp(prefix="geode-first-run-"))
    story = Story(quiet=args.json)
    run = Run(root, args.home.absolute() if args.home else root / "home", story, pause)
    started = time.perf_counter()
    try:
        run.prepare()
        opening(story, run)
        asyncio.run(run.go())
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return 130
    except (Exception, BaseExceptionGroup) as error:  # told as a failed step
        run.steps.append(Step("Start Geode", proof=run.said_last() or f"{type(error).__name__}: {error}"))
        story.step(len(run.steps), run.steps[-1])
    ok = len(run.steps) == 10 and all(step.ok for step in run.steps)
    if args.json:
        print(json.dumps(summary(run, ok=ok, duration_ms=(time.perf_counter() - started) * 1000), indent=2))
    else:
        closing(story, run, ok=ok)
    return 0 if ok else 1


if __name__ == "__main__":
    raise SystemExit(main())
