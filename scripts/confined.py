"""Run a command as an ordinary user, or without any network but loopback.

    confined.py [--user] [--offline] -- COMMAND...

`--user` (needs root): a user without a name, a group, a capability or a home on this system; folders that only root
may enter are replaced by empty ones, with this project and its Python put back. Nothing else is taken away: a program
with a set-user-id bit still works. `--offline`: a network namespace of its own. Exits 77 when this machine cannot do
it, otherwise with the command's exit code.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import stat
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
USER = 64321
CANNOT = 77
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 0x1


def cannot(why: str) -> int:
    print(f"confined: {why}", file=sys.stderr)
    return CANNOT


def outside(options: set[str], command: list[str]) -> int:
    """Start ourselves again in namespaces of our own; an ordinary user borrows bubblewrap's."""
    if os.geteuid() != 0:
        if "--user" in options:
            return cannot("only root can become another user")
        if not shutil.which("bwrap"):
            return cannot("bubblewrap is not installed")
        outer = ["bwrap", "--dev-bind", "/", "/", "--unshare-user", "--unshare-net", "--chdir", str(ROOT), "--"]
        if subprocess.run([*outer, "true"], check=False, stdin=subprocess.DEVNULL).returncode:
            return cannot("this system does not allow a network namespace")
        return subprocess.run([*outer, *command], check=False).returncode
    apart = ["unshare", "--mount", *(["--net"] if "--offline" in options else []), "--"]
    if subprocess.run([*apart, "true"], check=False, stdin=subprocess.DEVNULL).returncode:
        return cannot("this system does not allow namespaces")
    # Short: the path of a socket has 107 characters at most.
    with tempfile.TemporaryDirectory(prefix="g-", dir="/tmp") as home:
        again = [sys.executable, str(Path(__file__).resolve()), f"--inside={home}", *options, "--", *command]
        return subprocess.run([*apart, *again], check=False).returncode


def inside(home: Path, options: set[str], command: list[str]) -> int:
    """Arrange the namespaces, then become the user."""
    os.umask(0o022)
    os.chdir(ROOT)
    if "--offline" in options:
        loopback_up()
    if "--user" not in options:
        os.execvp(command[0], command)
    stage = home / "s"
    stage.mkdir()
    open_the_way([ROOT, Path(sys.base_prefix)], stage)
    temporary = home / "t"
    temporary.mkdir()
    for path in (home, temporary):
        os.chown(path, USER, USER)
    env = {
        "HOME": str(home),
        "TMPDIR": str(temporary),
        "PATH": os.pathsep.join((str(ROOT / ".venv/bin"), "/usr/local/bin", "/usr/bin", "/bin")),
        "LANG": "C.UTF-8",
        "CI": os.environ.get("CI", ""),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTEST_ADDOPTS": f"--basetemp={temporary}/p",
    }
    drop = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "--inh-caps=-all"]
    os.chdir(ROOT)
    os.execvpe(drop[0], [*drop, *command], env)


def loopback_up() -> None:
    with socket.socket() as any_socket:
        request = struct.pack("16sh", b"lo", 0)
        flags = struct.unpack("16sh", fcntl.ioctl(any_socket, SIOCGIFFLAGS, request))[1]
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh", b"lo", flags | IFF_UP))


def open_the_way(paths: list[Path], stage: Path) -> None:
    """Let others reach `paths` although folders above them are closed: an empty folder there, and the path put back."""
    held: list[tuple[Path, Path]] = []
    hidden: list[Path] = []
    for number, path in enumerate(paths):
        above = next((up for up in reversed(path.parents) if not up.stat().st_mode & stat.S_IXOTH), None)
        if above is None:
            continue
        copy = stage / str(number)
        copy.mkdir()
        mount("--rbind", str(path), str(copy))
        held.append((copy, path))
        if above not in hidden:
            hidden.append(above)
    for above in hidden:
        mount("-t", "tmpfs", "-o", "mode=0755", "tmpfs", str(above))
    for copy, path in held:
        path.mkdir(parents=True, exist_ok=True)
        mount("--rbind", str(copy), str(path))


def mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True, stdin=subprocess.DEVNULL)


def main(argv: list[str]) -> int:
    split = argv.index("--") if "--" in argv else -1
    options, command = set(argv[:split]), argv[split + 1 :]
    homes = {option for option in options if option.startswith("--inside=")}
    if split < 0 or not command or options - homes - {"--user", "--offline"}:
        print("usage: confined.py [--user] [--offline] -- COMMAND...", file=sys.stderr)
        return 2
    if homes:
        return inside(Path(homes.pop().partition("=")[2]), options, command)
    return outside(options, command)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
