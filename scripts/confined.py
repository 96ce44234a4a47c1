"""Run a command as an ordinary user, or without any network but loopback.

    confined.py [--user] [--offline] -- COMMAND...

`--user` (needs root): a user without a name, a group, a capability or a home on this system; folders that only root
may enter are replaced by empty ones, with this project (read-only) and its Python put back. `--offline`: a network
namespace of its own. Exits 77 when this machine cannot do it, otherwise with the command's exit code.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
USER = 64321
CANNOT = 77


def closed_to_others(folder: Path) -> bool:
    return not folder.stat().st_mode & stat.S_IXOTH


def openings(paths: list[Path]) -> Iterator[str]:
    """Yield bubblewrap options under which others can reach `paths` although folders above them are closed."""
    hidden: list[Path] = []
    for path in paths:
        above = next((up for up in reversed(path.parents) if closed_to_others(up)), None)
        if above and above not in hidden:
            hidden.append(above)
            yield from ("--perms", "0755", "--tmpfs", str(above))
        for up in reversed(path.parents):
            if above and above in up.parents:
                yield from ("--perms", "0755", "--dir", str(up))
        yield from ("--ro-bind", str(path), str(path))


def as_user(home: Path) -> tuple[list[str], list[str]]:
    """Return bubblewrap options and the words before the command that make it run as an ordinary user."""
    temporary = home / "t"  # short: the path of a socket has 107 characters at most
    temporary.mkdir()
    for path in (home, temporary):
        os.chown(path, USER, USER)
    path = os.pathsep.join((str(ROOT / ".venv/bin"), "/usr/local/bin", "/usr/bin", "/bin"))
    env = {
        "HOME": str(home),
        "TMPDIR": str(home / "tmp"),
        "PATH": path,
        "LANG": "C.UTF-8",
        "CI": os.environ.get("CI", ""),
    }
    drop = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all"]
    words = ["env", "-i", "PYTHONDONTWRITEBYTECODE=1", *(f"{key}={value}" for key, value in env.items()), *drop]
    return list(openings([ROOT, Path(sys.base_prefix)])), words


def cannot(why: str) -> int:
    print(f"confined: {why}", file=sys.stderr)
    return CANNOT


def main(argv: list[str]) -> int:
    split = argv.index("--") if "--" in argv else -1
    options, command = set(argv[:split]), argv[split + 1 :]
    if split < 0 or not command or options - {"--user", "--offline"}:
        print("usage: confined.py [--user] [--offline] -- COMMAND...", file=sys.stderr)
        return 2
    if not shutil.which("bwrap"):
        return cannot("bubblewrap is not installed")
    if "--user" in options and os.geteuid() != 0:
        return cannot("only root can become another user")
    outer = ["bwrap", "--dev-bind", "/", "/"]
    if "--offline" in options:
        outer.append("--unshare-net")
        if os.geteuid() != 0:
            outer.append("--unshare-user")
        if subprocess.run([*outer, "true"], check=False, stdin=subprocess.DEVNULL).returncode:
            return cannot("this system does not allow a network namespace")
    with tempfile.TemporaryDirectory(prefix="g-", dir="/tmp") as home:
        if "--user" in options:
            more, words = as_user(Path(home))
            outer, command = [*outer, *more], [*words, *command]
        return subprocess.run([*outer, "--chdir", str(ROOT), "--", *command], check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
