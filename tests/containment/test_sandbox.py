"""Processes in the sandbox: what they see, what they may change, how they end."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from geode.config.settings import SandboxSettings
from geode.containment.sandbox import select, stage
from geode.containment.sandbox.bubblewrap import Bubblewrap
from geode.containment.sandbox.runner import SandboxRunner
from geode.core.errors import ConfigError, SandboxUnavailable, ToolFailed
from geode.core.ports import Limits, ProcessSpec

from .conftest import Ground, Shell, needs_root


def alive(marker: str) -> list[str]:
    """Processes of the machine that have `marker` among their arguments."""
    found: list[str] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if marker.encode() in (entry / "cmdline").read_bytes():
                    found.append(entry.name)
            except OSError:
                continue
    return found


async def gone(path: Path, seconds: float = 3.0) -> bool:
    """Whether a placeholder is taken away soon."""
    end = time.monotonic() + seconds
    while path.exists() and time.monotonic() < end:
        await asyncio.sleep(0.02)
    return not path.exists()


# ---------------------------------------------------------------- the plain way


async def test_a_process_gives_its_output_exit_code_and_backend(sh: Shell) -> None:
    outcome = await sh("echo out; echo err >&2; exit 3")
    assert (outcome.exit_code, outcome.signal, outcome.stopped) == (3, "", "")
    assert (outcome.stdout.text, outcome.stderr.text) == ("out\n", "err\n")
    assert outcome.backend.startswith("bubblewrap")
    assert 0 < outcome.duration_ms < 10_000


async def test_stderr_is_merged_in_order_when_asked(sh: Shell) -> None:
    outcome = await sh("echo 1; echo 2 >&2; echo 3", merge_stderr=True)
    assert outcome.stdout.text == "1\n2\n3\n"
    assert outcome.stderr.text == ""


async def test_stdin_is_what_was_given_or_empty(sh: Shell) -> None:
    data = "한글\n".encode() * 50_000
    assert (await sh("wc -c", stdin=data)).stdout.text.strip() == str(len(data))
    assert (await sh("cat")).stdout.text == ""


async def test_the_environment_is_clean_and_what_is_given_is_added(sh: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-secret")
    text = (await sh("env", env={"GIVEN": "a b\nc"})).stdout.text
    assert "sk-secret" not in text
    assert "GIVEN=a b\nc" in text
    for line in ("HOME=/home/user", "LANG=C.UTF-8", "PAGER=cat", "GIT_TERMINAL_PROMPT=0", "TERM=dumb", "CI=1"):
        assert line in text
    assert "SSH_ASKPASS" not in text


async def test_a_preloaded_library_of_the_request_is_not_loaded_outside(sh: Shell) -> None:
    outcome = await sh("echo ok", env={"LD_PRELOAD": "/nowhere/lib.so"})
    assert outcome.stderr.text.count("cannot be preloaded") == 1  # the shell inside; neither bubblewrap nor nsenter


@pytest.mark.skipif(sys.prefix == sys.base_prefix, reason="not in a virtual environment")
async def test_the_python_of_geode_works_inside_with_its_packages(sh: Shell) -> None:
    outcome = await sh('python -c "import pydantic, sys; print(sys.prefix)"')
    assert outcome.stdout.text.strip() == sys.prefix, outcome.stderr.text


async def test_a_program_that_does_not_exist_is_one_clear_line(runner: SandboxRunner, ground: Ground) -> None:
    with pytest.raises(ToolFailed, match="no-such-program cannot be started"):
        await runner.run(ProcessSpec(argv=("no-such-program",), cwd=ground.root, readable=(ground.root,)))
    for argv in ((), ("a\0b",)):
        with pytest.raises(ToolFailed, match="empty or contains"):
            await runner.run(ProcessSpec(argv=argv, cwd=ground.root))
    with pytest.raises(ToolFailed, match="does not exist"):
        await runner.run(ProcessSpec(argv=("true",), cwd=ground.root, writable=(ground.top / "nowhere",)))


async def test_many_at_once(sh: Shell) -> None:
    outcomes = await asyncio.gather(*(sh(f"echo {n}; echo {n} > f{n}; cat f{n}") for n in range(8)))
    assert [o.stdout.text for o in outcomes] == [f"{n}\n{n}\n" for n in range(8)]


# ---------------------------------------------------------------- files


async def test_T51_only_the_writable_directory_changes(sh: Shell, ground: Ground) -> None:
    (ground.top / "beside").mkdir()
    (ground.top / "beside" / "f").write_text("x")
    outcome = await sh(
        f"echo y > new; mkdir d; cat {ground.top}/beside/f; echo z > {ground.top}/beside/f; echo z > {ground.top}/made;"
        f"ls {ground.home}; touch /usr/x /etc/x /x {sys.prefix}/x; echo private > /tmp/p; cat /tmp/p; ls -A ~"
    )
    assert (ground.root / "new").read_text() == "y\n"
    assert (ground.root / "new").stat().st_uid == ground.root.stat().st_uid
    assert (ground.top / "beside" / "f").read_text() == "x"
    assert not (ground.top / "made").exists()
    assert not Path("/tmp/p").exists()
    assert outcome.stdout.text == "private\n"


async def test_a_readable_directory_is_not_writable(runner: SandboxRunner, ground: Ground) -> None:
    (ground.root / "f").write_text("here\n")
    spec = ProcessSpec(argv=("/bin/sh", "-c", "cat f; echo x > f; rm f"), cwd=ground.root, readable=(ground.root,))
    outcome = await runner.run(spec)
    assert outcome.stdout.text == "here\n"
    assert outcome.hint == "wrote outside the writable directories"
    assert (ground.root / "f").read_text() == "here\n"


async def test_a_working_directory_that_is_not_given_is_an_empty_place(runner: SandboxRunner, ground: Ground) -> None:
    (ground.root / "f").write_text("x")
    outcome = await runner.run(ProcessSpec(argv=("/bin/sh", "-c", "pwd; ls -A"), cwd=ground.root))
    assert outcome.stdout.text == "/home/user\n"


async def test_the_machine_and_geode_itself_are_never_given(runner: SandboxRunner, ground: Ground) -> None:
    for path in (Path("/"), Path("/etc"), Path("/usr"), ground.geode_home):
        with pytest.raises(ToolFailed, match="belongs to"):
            await runner.run(ProcessSpec(argv=("true",), cwd=ground.root, writable=(path,)))


async def test_a_home_as_workspace_is_read_only_and_hides_geode(ground: Ground) -> None:
    (ground.geode_home / "key").write_text("key")
    backend = Bubblewrap(geode_home=ground.geode_home, home=ground.home)
    runner = SandboxRunner(backend=backend, home=ground.geode_home)
    argv = ("/bin/sh", "-c", "echo evil > .bashrc; cat .geode/key; ls .geode")
    outcome = await runner.run(ProcessSpec(argv=argv, cwd=ground.home, writable=(ground.home,)))
    assert outcome.exit_code != 0
    assert "key" not in outcome.stdout.text
    assert "is or holds your home" in outcome.hint
    assert not (ground.home / ".bashrc").exists()


async def test_R52_a_secret_file_is_not_read_by_any_program(sh: Shell, ground: Ground) -> None:
    for path in (ground.root / ".env", ground.root / "deep" / "er" / "id_rsa"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("TOKEN=hunter2\n")
    (ground.root / ".env.example").write_text("TOKEN=\n")
    outcome = await sh(
        "cat .env; python -c 'print(open(\".env\").read())'; grep -r hunter2 .; cp .env copy; cat copy;"
        "ln .env l; cat l;"
        "mv .env moved; cat moved; chmod 644 .env; cat .env; cat deep/er/id_rsa; cat .env.example"
    )
    assert "hunter2" not in outcome.stdout.text + outcome.stderr.text
    assert "TOKEN=" in outcome.stdout.text
    assert (ground.root / ".env").read_text() == "TOKEN=hunter2\n"
    (ground.root / "late").mkdir()
    (ground.root / "late" / ".env").write_text("hunter2")
    assert "hunter2" not in (await sh("cat late/.env")).stdout.text


async def test_what_steers_other_programs_is_read_only_and_cannot_be_made(sh: Shell, ground: Ground) -> None:
    git = ground.root / ".git"
    (git / "hooks").mkdir(parents=True)
    (git / "config").write_text("[core]\n")
    (ground.root / ".vscode").mkdir()
    (ground.root / "sub" / ".git").mkdir(parents=True)
    (ground.root / "sub" / ".git" / "config").write_text("[core]\n")
    lines = [
        "echo x >> .git/config",
        "echo x > .git/hooks/pre-commit",
        "mv .git old",
        "mkdir -p .geode && echo x > .geode/config.toml",
        "mkdir -p .claude && echo x > .claude/settings.json",
        "echo x > .mcp.json",
        "rm .mcp.json",
        "rmdir .claude",
        "mv .claude c",
        "echo x > .vscode/tasks.json",
        "echo x >> sub/.git/config",
        "echo x > sub/.git/hooks/pre-commit",
        "mv sub/.git sub/old",
        "echo x > .git/index.lock && rm .git/index.lock && echo index-ok",
    ]
    outcome = await sh("; ".join(f"({line})" for line in lines))
    assert outcome.stdout.text == "index-ok\n"
    assert (git / "config").read_text() == "[core]\n"
    assert (ground.root / "sub" / ".git" / "config").read_text() == "[core]\n"
    assert list((git / "hooks").iterdir()) == []
    for name in (".geode", ".claude", ".mcp.json", "sub/.git/hooks"):
        assert await gone(ground.root / name), name


async def test_git_adds_everything_without_stumbling_over_placeholders(sh: Shell, ground: Ground) -> None:
    (ground.root / "f").write_text("x")
    outcome = await sh("git init -q . && git add -A && git status --short && ls -A")
    assert outcome.stdout.text.startswith("A  f\n"), outcome.stderr.text
    assert ".mcp.json" not in outcome.stdout.text.split("\n")[1]


async def test_the_persons_own_empty_folders_are_not_taken_for_placeholders(sh: Shell, ground: Ground) -> None:
    (ground.root / ".claude").mkdir()
    (ground.root / ".mcp.json").write_text("{}\n")
    outcome = await sh("cat .mcp.json; echo x > .mcp.json; ls -A .claude")
    assert outcome.stdout.text == "{}\n"
    await asyncio.sleep(0.3)
    assert (ground.root / ".claude").is_dir()
    assert (ground.root / ".mcp.json").read_text() == "{}\n"


async def test_placeholders_stay_as_long_as_one_process_needs_them(sh: Shell, ground: Ground) -> None:
    slow = asyncio.ensure_future(sh("sleep 1; echo x > .mcp.json; mkdir .claude/x; echo done"))
    await asyncio.sleep(0.4)
    await sh("true")
    await sh("true")
    assert (ground.root / ".mcp.json").exists()
    await slow
    assert await gone(ground.root / ".mcp.json")
    assert await gone(ground.root / ".claude")


async def test_a_replaced_link_and_a_git_redirection_are_undone(sh: Shell, ground: Ground) -> None:
    (ground.root / ".git").mkdir()
    (ground.root / "dotfiles").mkdir()
    (ground.root / ".claude").symlink_to("dotfiles")
    outcome = await sh("echo ../evil > .git/commondir; rm .claude; mkdir .claude; echo x > .claude/settings.json")
    assert outcome.exit_code == 0
    assert outcome.hint.count("set aside") == 2
    assert os.readlink(ground.root / ".claude") == "dotfiles"
    assert not (ground.root / ".git" / "commondir").exists()


async def test_R33_a_linked_worktree_can_commit_and_a_forged_one_gives_nothing(sh: Shell, ground: Ground) -> None:
    def git(*words: str, cwd: Path) -> None:
        base = ["git", "-c", "user.name=n", "-c", "user.email=e@x", "-c", "init.defaultBranch=main"]
        subprocess.run([*base, *words], cwd=cwd, check=True, capture_output=True)

    main = ground.top / "main"
    main.mkdir()
    git("init", "-q", cwd=main)
    git("commit", "-q", "--allow-empty", "-m", "first", cwd=main)
    ground.root.rmdir()
    git("worktree", "add", "-q", "-b", "side", str(ground.root), cwd=main)
    outcome = await sh(
        "echo hi > f && git add f && git -c user.name=n -c user.email=e@x commit -qm second;"
        "git log --oneline | wc -l;"
        f"echo x >> {main}/.git/config; echo x > {main}/.git/hooks/post-commit; ls {main}; git config alias.x y"
    )
    assert outcome.stdout.text.strip() == "2", outcome.stderr.text
    assert "alias" not in (main / ".git" / "config").read_text()
    assert not (main / ".git" / "hooks" / "post-commit").exists()
    victim = ground.top / "victim"
    (victim / "worktrees" / "n").mkdir(parents=True)
    (victim / "objects").mkdir()
    (victim / "worktrees" / "n" / "gitdir").write_text("/somewhere/else/.git\n")
    (victim / "worktrees" / "n" / "commondir").write_text("../..\n")
    other = ground.top / "other"
    other.mkdir()
    (other / ".git").write_text(f"gitdir: {victim}/worktrees/n\n")
    forged = await sh(f"ls {victim}; echo x > {victim}/objects/x", cwd=other, writable=(other,))
    assert forged.exit_code != 0
    assert list((victim / "objects").iterdir()) == []


@needs_root
async def test_as_root_the_process_is_a_user_of_its_own_and_files_keep_their_owner(sh: Shell, ground: Ground) -> None:
    os.chown(ground.root, 1234, 1234)
    (ground.root / "theirs").write_text("private")
    (ground.root / "theirs").chmod(0o600)  # root's, in a directory of user 1234
    seen: list[int] = []

    def look() -> None:
        for _ in range(60):
            for pid in alive("sleep-marker-77"):
                try:
                    seen.append(Path("/proc", pid).stat().st_uid)
                except OSError:
                    continue
            time.sleep(0.02)

    thread = threading.Thread(target=look)
    thread.start()
    outcome = await sh("echo x > mine; cat theirs; sh -c 'sleep 0.8; : sleep-marker-77'; id -u")
    thread.join()
    assert "private" not in outcome.stdout.text
    assert (ground.root / "mine").stat().st_uid == 1234
    inner = {uid for uid in seen if uid != 0}
    assert inner
    assert min(inner) > 1_000_000_000


@needs_root
async def test_as_root_a_file_system_without_idmapped_mounts_is_shown_read_only(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        stage, "_ATTR_IDMAP", 0x8000_0000
    )  # an attribute no kernel knows: EINVAL, as such file systems say
    runner = SandboxRunner(backend=Bubblewrap(geode_home=ground.geode_home), home=ground.geode_home)
    for path in (ground.root, *ground.root.parents[:-1]):
        path.chmod(path.stat().st_mode | 0o055)
    (ground.root / "f").write_text("readable\n")
    outcome = await runner.run(
        ProcessSpec(argv=("/bin/sh", "-c", "cat f; echo x > g"), cwd=ground.root, writable=(ground.root,))
    )
    assert outcome.stdout.text == "readable\n"
    assert "has no idmapped mounts" in outcome.hint
    assert not (ground.root / "g").exists()


# ---------------------------------------------------------------- network


async def test_there_is_no_network_and_the_hint_says_so(sh: Shell) -> None:
    outcome = await sh("python -c \"import socket; socket.create_connection(('example.org', 80), 3)\"")
    assert outcome.exit_code == 1
    assert outcome.hint == "blocked network"


async def test_with_network_the_loopback_of_the_host_is_reached(sh: Shell) -> None:
    def greet(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello")
        writer.close()

    server = await asyncio.start_server(greet, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    line = f"python -c \"import socket; print(socket.create_connection(('127.0.0.1', {port}), 2).recv(9))\""
    async with server:
        assert "hello" in (await sh(line, network=True)).stdout.text
        assert "hello" not in (await sh(line)).stdout.text


# ---------------------------------------------------------------- ending


async def test_R27_a_timeout_ends_the_whole_tree_and_keeps_what_was_said(sh: Shell) -> None:
    marker = f"deaf-{os.getpid()}-{time.monotonic_ns()}"
    started = time.monotonic()
    outcome = await sh(
        f"echo before; (trap '' TERM; setsid sh -c 'trap \"\" TERM; sleep 61; : {marker}') & sleep 62; echo x",
        limits=Limits(seconds=1.0),
    )
    assert 0.9 < time.monotonic() - started < 2.5
    assert (outcome.exit_code, outcome.stopped, outcome.stdout.text) == (None, "timeout", "before\n")
    assert alive(marker) == []


async def test_a_process_that_can_end_nicely_at_a_timeout_may(sh: Shell) -> None:
    outcome = await sh("trap 'echo bye; exit 5' TERM; echo hi; sleep 30 & wait", limits=Limits(seconds=0.6))
    assert outcome.stopped == "timeout"
    assert outcome.stdout.text == "hi\nbye\n"


async def test_R27_a_grandchild_that_holds_the_pipe_does_not_delay_the_return(sh: Shell) -> None:
    marker = f"holder-{os.getpid()}-{time.monotonic_ns()}"
    started = time.monotonic()
    outcome = await sh(f"setsid sh -c 'sleep 60; : {marker}' & echo done")
    assert time.monotonic() - started < 3
    assert outcome.stdout.text == "done\n"
    assert outcome.exit_code == 0
    assert alive(marker) == []


async def test_cancelling_ends_the_tree_before_it_propagates(sh: Shell, ground: Ground) -> None:
    marker = f"cancelled-{os.getpid()}-{time.monotonic_ns()}"
    task = asyncio.ensure_future(sh(f"yes > /dev/null & touch started; sleep 60; : {marker}"))
    while not (ground.root / "started").exists():
        await asyncio.sleep(0.02)
    started = time.monotonic()
    task.cancel()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert time.monotonic() - started < 1.0
    assert alive(marker) == []
    assert await gone(ground.root / ".claude")


async def test_cancelling_while_it_starts_leaves_nothing(sh: Shell) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for delay in (0.0, 0.001, 0.005, 0.02):
        marker = f"early-{os.getpid()}-{time.monotonic_ns()}"
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(delay):
                await sh(f"sleep 60; : {marker}")
        assert alive(marker) == []
    await asyncio.sleep(0.1)
    assert len(os.listdir("/proc/self/fd")) <= before + 4


async def test_no_descriptors_or_processes_are_lost(sh: Shell) -> None:
    await sh("true")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        await sh("echo x; echo y >&2", stdin=b"abc")
    await asyncio.sleep(0.2)
    assert len(os.listdir("/proc/self/fd")) <= before + 1


def test_nothing_is_left_when_geode_itself_is_killed(ground: Ground) -> None:
    marker = f"orphan-{os.getpid()}-{time.monotonic_ns()}"
    program = f"""
import asyncio, pathlib
from geode.containment.sandbox.runner import SandboxRunner
from geode.core.ports import ProcessSpec
root, home = pathlib.Path({str(ground.root)!r}), pathlib.Path({str(ground.geode_home)!r})
spec = ProcessSpec(argv=("/bin/sh", "-c", "touch up; sleep 60; : {marker}"), cwd=root, writable=(root,))
asyncio.run(SandboxRunner(home=home).run(spec))
"""
    process = subprocess.Popen([sys.executable, "-c", program])
    try:
        end = time.monotonic() + 20
        while not (ground.root / "up").exists() and time.monotonic() < end:
            time.sleep(0.05)
        assert len(alive(marker)) > 1
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    end = time.monotonic() + 2
    while alive(marker) and time.monotonic() < end:
        time.sleep(0.02)
    assert alive(marker) == []
    from geode.containment.sandbox import placeholders

    placeholders.sweep()
    assert not (ground.root / ".mcp.json").exists()
    assert not (ground.root / ".claude").exists()


async def test_the_loop_is_not_blocked_while_processes_run(sh: Shell) -> None:
    worst = 0.0
    stop = asyncio.Event()

    async def watch() -> None:
        nonlocal worst
        while not stop.is_set():
            before = time.perf_counter()
            await asyncio.sleep(0.005)
            worst = max(worst, time.perf_counter() - before - 0.005)

    watcher = asyncio.ensure_future(watch())
    await asyncio.gather(*(sh("head -c 3000000 /dev/zero | tr '\\0' x") for _ in range(3)))
    stop.set()
    await watcher
    assert worst < 0.25


# ---------------------------------------------------------------- output and quotas


async def test_R34_output_without_end_is_stopped_at_the_cap(sh: Shell, ground: Ground) -> None:
    cap = 1024 * 1024
    outcome = await sh("yes", limits=Limits(seconds=20, output_bytes=cap))
    assert (outcome.exit_code, outcome.stopped) == (None, "output_limit")
    assert outcome.stdout.total_bytes == cap
    assert outcome.stdout.spool is not None
    assert outcome.stdout.spool.stat().st_size == cap
    assert outcome.stdout.spool.parent == ground.geode_home / "spool"  # not where jobs look for files
    outcome.stdout.spool.unlink()


async def test_R51_five_megabytes_keep_the_error_on_the_last_line(sh: Shell) -> None:
    outcome = await sh("head -c 5000000 /dev/zero | tr '\\0' x; echo; echo 'ERROR: here' >&1; exit 2")
    assert outcome.exit_code == 2
    assert outcome.stdout.text.endswith("ERROR: here\n")
    assert outcome.stdout.total_bytes == 5_000_000 + 13
    assert outcome.stdout.spool is not None
    assert outcome.stdout.spool.stat().st_size == 5_000_013
    outcome.stdout.spool.unlink()


async def test_R68_output_that_is_not_utf8_does_not_fail(sh: Shell) -> None:
    outcome = await sh(r"printf '\377\376 caf\303'; sleep 0.1; printf '\251 end, a longer line of plain text\n'")
    assert outcome.stdout.text == "\ufffd\ufffd café end, a longer line of plain text\n"


@pytest.mark.parametrize(
    "line",
    [
        "cat",
        "sudo -k true",
        "python -c 'input(\"Password: \")'",
        "read x </dev/tty",
        "git push https://127.0.0.1:1/x.git",
        "python -c 'import getpass; getpass.getpass()'",
        "git log",
        "man ls",
        "git commit",
    ],
)
async def test_R40_a_command_that_waits_for_a_person_ends_at_once(sh: Shell, line: str) -> None:
    started = time.monotonic()
    outcome = await sh(line, limits=Limits(seconds=15))
    assert outcome.stopped == ""
    assert time.monotonic() - started < 8
    if "input(" in line or "getpass" in line:
        assert outcome.hint == "needed input"


async def test_T78_limits_hold_for_the_process_tree(sh: Shell) -> None:
    few = Limits(
        seconds=20, cpu_seconds=1, memory_bytes=300 * 1024 * 1024, processes=20, file_bytes=1_000_000, open_files=64
    )
    cpu, memory, files, size, forks = await asyncio.gather(
        sh("python -c 'while True: pass'", limits=few),
        sh("python -c 'x = bytearray(500_000_000)'", limits=few),
        sh("python -c 'x = [open(\"/dev/null\") for _ in range(100)]'", limits=few),
        sh("head -c 5000000 /dev/zero > big; stat -c %s big", limits=few),
        sh("for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25; do sleep 3 & done", limits=few),
    )
    assert (cpu.signal, cpu.hint) == ("SIGXCPU", "reached the CPU limit")
    assert (memory.exit_code, memory.hint) == (1, "reached the memory limit")
    assert files.exit_code == 1
    assert "Too many open files" in files.stderr.text
    assert size.stdout.text.strip() == "1000000"
    assert forks.hint == "reached the process limit"


async def test_T78_memory_is_counted_over_the_whole_tree(sh: Shell) -> None:
    code = (
        "import os, time\n"
        "for _ in range(5):\n"
        "    if os.fork() == 0:\n"
        "        data = bytearray(60_000_000); time.sleep(20); os._exit(0)\n"
        "print('forked', flush=True); time.sleep(20)"
    )
    outcome = await sh(f'python -c "{code}"', limits=Limits(seconds=20, memory_bytes=200 * 1024 * 1024))
    assert (outcome.signal, outcome.hint) == ("SIGKILL", "reached the memory limit")
    assert outcome.duration_ms < 8000


async def test_memory_a_fork_shares_counts_once(sh: Shell) -> None:
    code = (
        "import os, time\n"
        "data = bytearray(60_000_000)\n"
        "children = [os.fork() or (time.sleep(2), os._exit(0)) for _ in range(5)]\n"
        "[os.wait() for _ in children]\n"
        "print('done')"
    )
    outcome = await sh(f'python -c "{code}"', limits=Limits(seconds=20, memory_bytes=200 * 1024 * 1024))
    assert (outcome.exit_code, outcome.stdout.text) == (0, "done\n")


async def test_a_request_cannot_exceed_the_configured_limits(ground: Ground) -> None:
    settings = SandboxSettings(processes=33, open_files=77, output_mb=1)
    runner = SandboxRunner(settings, home=ground.geode_home)
    spec = ProcessSpec(
        argv=("/bin/sh", "-c", "ulimit -n"), cwd=Path("/"), limits=Limits(open_files=10_000, output_bytes=1 << 40)
    )
    assert (await runner.run(spec)).stdout.text.strip() == "77"
    assert select.limits_of(settings).output_bytes == 1024 * 1024


# ---------------------------------------------------------------- choosing


def test_no_bubblewrap_refuses_with_the_fix(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("geode.containment.sandbox.bubblewrap._TRUSTED", str(ground.top))
    with pytest.raises(SandboxUnavailable, match="not installed") as caught:
        Bubblewrap(geode_home=ground.geode_home).check()
    assert "apt-get install bubblewrap" in caught.value.fix


def test_R33_a_bubblewrap_that_cannot_start_refuses_with_the_reason(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = ground.top / "bwrap"
    broken.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    ground.top.chmod(0o755)
    broken.chmod(0o755)
    backend = Bubblewrap(geode_home=ground.geode_home)
    monkeypatch.setattr(backend, "_program", str(broken))
    if os.geteuid() == 0:
        monkeypatch.setattr(backend, "_root", False)
    with pytest.raises(SandboxUnavailable, match="No permissions to create new namespace") as caught:
        backend.check()
    assert "unprivileged_userns_clone" in caught.value.fix


def test_an_unknown_backend_is_a_configuration_error_and_seatbelt_is_refused_here(ground: Ground) -> None:
    with pytest.raises(ConfigError):
        select.select_backend(SandboxSettings(backend="chroot"), home=ground.geode_home)
    with pytest.raises(SandboxUnavailable):
        select.select_backend(SandboxSettings(backend="seatbelt"), home=ground.geode_home)


async def test_etc_holds_public_files_only_and_names_resolve_inside(sh: Shell) -> None:
    outcome = await sh("ls /etc; id -un; cat /etc/hosts; touch /etc/x; ls /etc/ssl")
    names = outcome.stdout.text.split()
    assert "passwd" in names
    assert not {"shadow", "sudoers", "machine-id", "environment", "fstab", "private"} & set(names)
    assert "user\n127.0.0.1 localhost" in outcome.stdout.text
    assert "Read-only file system" in outcome.stderr.text


async def test_the_sandbox_does_not_depend_on_the_search_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setattr(select, "_chosen", {})
    assert select.select_backend(SandboxSettings(), home=tmp_path / "home").name.startswith("bubblewrap")
