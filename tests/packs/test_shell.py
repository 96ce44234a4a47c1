"""shell_exec and code_interpreter in the real sandbox."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from geode.core.errors import SandboxUnavailable, ToolFailed
from geode.core.messages import SideEffects

from .conftest import Bench

Put = Callable[[str, bytes | str], Path]


# ---------------------------------------------------------------- shell_exec


async def test_output_exit_code_and_time(bench: Bench, put: Put) -> None:
    put("d/a.txt", "x\n")
    output = await bench.run("shell_exec", command="ls; echo err >&2; exit 3", cwd="d")
    assert output.failed
    assert output.structured["exit_code"] == 3
    assert output.content.startswith("a.txt\nerr\n[exit code 3, ")


async def test_R27_at_the_time_limit_the_whole_tree_ends_and_the_output_is_kept(bench: Bench) -> None:
    started = time.monotonic()
    output = await bench.run("shell_exec", command="echo before; (sleep 60; echo x) & sleep 60; echo y", timeout=1)
    assert time.monotonic() - started < 5
    assert output.failed and output.structured["stopped"] == "timeout"
    assert "timed out" in output.content and "before" in output.content
    assert output.side_effects is SideEffects.UNKNOWN


async def test_R27_a_background_process_does_not_outlive_the_call(bench: Bench) -> None:
    started = time.monotonic()
    output = await bench.run("shell_exec", command="(sleep 2; touch late) >/dev/null 2>&1 & echo started")
    assert time.monotonic() - started < 2
    assert "started" in output.content
    await asyncio.sleep(2.2)
    assert not (bench.root / "late").exists()


async def test_R40_whoever_waits_for_input_ends_at_once(bench: Bench) -> None:
    started = time.monotonic()
    assert "exit code 0" in (await bench.run("shell_exec", command="cat")).content
    output = await bench.run("shell_exec", command="read -p 'password: ' x || { echo 'password: '; exit 1; }")
    assert "needed input" in output.content
    assert (
        "exit code 0" in (await bench.run("shell_exec", command="git init -q r && cd r && git log | cat; true")).content
    )
    assert time.monotonic() - started < 10


async def test_R51_five_megabytes_keep_head_and_tail_and_the_count(bench: Bench) -> None:
    command = "seq 1 700000; echo 'the error is here' >&2; exit 2"
    output = await bench.run("shell_exec", command=command)
    assert output.structured["exit_code"] == 2
    assert "the error is here" in output.content and output.content.startswith("1\n2\n")
    assert len(output.content) < 1_000_000
    assert output.structured["omitted_bytes"] > 3_000_000
    assert len(output.spools) == 1
    whole = output.spools[0].read_bytes()
    assert len(whole) == output.structured["output_bytes"]
    output.spools[0].unlink()


async def test_R68_bytes_that_are_no_utf8_do_not_fail_the_call(bench: Bench) -> None:
    output = await bench.run(
        "shell_exec", command=r"printf '\xff\xfe ok \xed\x95'; sleep 0.1; printf '\x9c\n'; locale -a >/dev/null"
    )
    assert "ok 한" in output.content and "\ufffd" in output.content


async def test_R94_colours_redraws_and_titles_are_gone(bench: Bench) -> None:
    command = r"printf '\033[31mred\033[0m\n\033]0;title\a'; for i in 1 2 3; do printf '\rstep %s' $i; done; echo"
    content = (await bench.run("shell_exec", command=command)).content
    assert "red" in content and "step 3" in content
    assert "\033" not in content and "step 1" not in content and "title" not in content


async def test_a_silent_command_says_so(bench: Bench) -> None:
    output = await bench.run("shell_exec", command="true")
    assert output.content.startswith("(no output)\n[exit code 0") and not output.failed


async def test_it_needs_a_directory_in_the_workspace_and_a_sandbox(bench: Bench) -> None:
    with pytest.raises(ToolFailed, match="no directory"):
        await bench.run("shell_exec", command="ls", cwd="no/such")
    bench.runner = None
    with pytest.raises(SandboxUnavailable):
        await bench.run("shell_exec", command="ls")


# ---------------------------------------------------------------- code_interpreter


async def test_printed_text_and_the_value_of_the_last_line(bench: Bench) -> None:
    output = await bench.run("code_interpreter", code="print('hello')\nx = 20\n{'sum': x + 1, 'list': [1, 2.5]}")
    assert output.content == "hello\n=> {'sum': 21, 'list': [1, 2.5]}"
    assert output.structured["value"] == {"sum": 21, "list": [1, 2.5]}
    assert not output.failed


async def test_an_error_shows_the_lines_of_the_code_only(bench: Bench) -> None:
    code = "import json\ndef load(text):\n    return json.loads(text)\nprint('start')\nload('{bad')\n"
    output = await bench.run("code_interpreter", code=code)
    assert output.failed
    assert "start" in output.content and 'File "<code>", line 5' in output.content
    assert "return json.loads(text)" in output.content and "JSONDecodeError" in output.content
    assert "json/decoder.py" not in output.content and "geode" not in output.content


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("def f(:\n  pass", "SyntaxError"),
        ("import no_such_module", "installed here"),
        ("input()", "needed input"),
        ("import sys; sys.exit(3)", "sys.exit(3)"),
        ("raise ValueError('가나다')", "ValueError: 가나다"),
        ("import os; os._exit(7)", "exit code 7"),
        ("def f(): f()\nf()", "RecursionError"),
        ("x = bytearray(64 * 1024**3)", "memory"),
    ],
)
async def test_every_way_to_fail_is_told_apart(bench: Bench, code: str, says: str) -> None:
    output = await bench.run("code_interpreter", code=code)
    assert output.failed
    assert says in output.content


@pytest.mark.parametrize("code", ["import sys; sys.exit()", "None", "x = 1", "'quoted'", "import math; math.nan"])
async def test_harmless_ends_are_no_failure(bench: Bench, code: str) -> None:
    assert not (await bench.run("code_interpreter", code=code)).failed


async def test_files_of_the_workspace_are_read_and_written(bench: Bench, put: Put) -> None:
    put("data.csv", "a,b\n1,2\n3,4\n")
    put("helper.py", "def double(x):\n    return 2 * x\n")
    code = (
        "import csv, helper\nrows = list(csv.DictReader(open('data.csv')))\n"
        "open('out.txt', 'w').write('written')\nhelper.double(sum(int(r['b']) for r in rows))"
    )
    output = await bench.run("code_interpreter", code=code)
    assert output.content == "=> 12"
    assert (bench.root / "out.txt").read_text() == "written"


async def test_it_has_no_network_and_sees_nothing_outside(bench: Bench) -> None:
    secret = bench.root.parent / "home" / "secret.txt"
    secret.write_text("secret")
    code = (
        f"import os, socket\nseen = os.path.exists({str(secret)!r})\ntry:\n"
        "    socket.create_connection(('1.1.1.1', 53), 1)\n    net = True\n"
        "except OSError:\n    net = False\n(seen, net)"
    )
    assert (await bench.run("code_interpreter", code=code)).content == "=> (False, False)"


async def test_a_loop_without_end_is_stopped(bench: Bench) -> None:
    output = await bench.run("code_interpreter", code="print('go', flush=True)\nwhile True: pass", timeout=1)
    assert output.failed and "timed out" in output.content and "go" in output.content


async def test_large_stderr_does_not_hide_the_report(bench: Bench) -> None:
    code = "import sys\nfor n in range(200_000): print('noise', n, file=sys.stderr)\n42"
    output = await bench.run("code_interpreter", code=code)
    assert output.content.endswith("=> 42") and not output.failed
    for spool in output.spools:
        assert b"==" not in spool.read_bytes()[-100:]
        spool.unlink()


async def test_unicode_passes_whatever_the_locale_is(bench: Bench) -> None:
    output = await bench.run("code_interpreter", code="print('한글 😀 é')\nopen('ü.txt', 'w').write('값')\n'끝'")
    assert output.content == "한글 😀 é\n=> '끝'"
    assert (bench.root / "ü.txt").read_text("utf-8") == "값"


@pytest.mark.parametrize("noise", [0, 100, 200_000])
async def test_a_large_value_never_shows_up_as_stderr(bench: Bench, noise: int) -> None:
    code = f"import sys\nfor n in range({noise}): print('noise', n, file=sys.stderr)\n'v' * 19_000"
    output = await bench.run("code_interpreter", code=code)
    assert output.structured["value"] == "v" * 19_000
    assert output.content.count("v" * 19_000) == 1 and "json" not in output.content
    assert len(output.spools) == (1 if noise > 1000 else 0)
    for spool in output.spools:
        spool.unlink()
