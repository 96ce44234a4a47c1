"""Attempts to get out, run INSIDE the sandbox by `probe.py`; standard library only, no Geode imports.

Each function tries one thing and returns True when it worked, that is, when the sandbox is
open there. It runs in a child of its own, so that a killed or hanging attempt only counts
as held. Reads its settings as JSON on stdin, writes one JSON object a line.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import json
import os
import platform
import resource
import signal
import socket
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Attempt = Callable[[dict[str, Any]], bool]
ATTEMPTS: list[tuple[str, Attempt]] = []
ARM = platform.machine() == "aarch64"


def attempt(name: str) -> Callable[[Attempt], Attempt]:
    """Register an attempt under a readable name."""

    def register(function: Attempt) -> Attempt:
        ATTEMPTS.append((name, function))
        return function

    return register


def works(action: Callable[[], object]) -> bool:
    """Whether an action is let through."""
    try:
        action()
    except (OSError, ValueError, subprocess.SubprocessError):
        return False
    return True


def syscall(number: int, *arguments: Any) -> int:
    """A raw system call: its result, or minus errno."""
    function = ctypes.CDLL(None, use_errno=True).syscall
    function.restype = ctypes.c_long
    words = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    result = function(ctypes.c_long(number), *words)
    return -ctypes.get_errno() if result < 0 else int(result)


def reaches(number: int, *arguments: Any) -> bool:
    """Whether a forbidden call gets further than a refusal: it works, or complains about its arguments."""
    return syscall(number, *arguments) not in (-errno.EPERM, -errno.ENOSYS, -errno.EACCES, -errno.EAFNOSUPPORT)


# ------------------------------------------------------------------ files


def _reads(path: str) -> bool:
    with open(path, "rb") as file:
        return len(file.read(16)) > 0


for _name, _path in (
    ("read /etc/shadow", "/etc/shadow"),
    ("read /etc/sudoers", "/etc/sudoers"),
    ("read /proc/kcore", "/proc/kcore"),
    ("read /dev/mem", "/dev/mem"),
    ("read the kernel log", "/dev/kmsg"),
    ("read the first disk", "/dev/vda"),
):
    ATTEMPTS.append((_name, lambda _s, path=_path: _reads(path)))


@attempt("read a world-readable file outside")
def _outside(s: dict[str, Any]) -> bool:
    return _reads(s["outside"] + "/canary")


@attempt("read it through /proc/1/root")
def _proc_root(s: dict[str, Any]) -> bool:
    return _reads("/proc/1/root" + s["outside"] + "/canary")


@attempt("read it through a symlink in the workspace")
def _through_link(s: dict[str, Any]) -> bool:
    link = s["workspace"] + "/way-out"
    os.symlink(s["outside"] + "/canary", link)
    return _reads(link)


@attempt("make a hard link to it")
def _hard_link(s: dict[str, Any]) -> bool:
    return works(lambda: os.link(s["outside"] + "/canary", s["workspace"] + "/hard"))


@attempt("list the person's home")
def _home(s: dict[str, Any]) -> bool:
    shown = [n for n in os.listdir(s["home"]) if not s["workspace"].startswith(os.path.join(s["home"], n))]
    return any(os.path.isfile(os.path.join(s["home"], name)) for name in shown)


@attempt("list Geode's home")
def _geode(s: dict[str, Any]) -> bool:
    return bool(os.listdir(s["geode_home"]))


@attempt("read a secret file of the workspace")
def _secret(s: dict[str, Any]) -> bool:
    return _reads(s["workspace"] + "/.env")


@attempt("read the secret after making it readable")
def _secret_chmod(s: dict[str, Any]) -> bool:
    os.chmod(s["workspace"] + "/.env", 0o644)
    return _reads(s["workspace"] + "/.env")


@attempt("move the secret away and read it")
def _secret_move(s: dict[str, Any]) -> bool:
    os.rename(s["workspace"] + "/.env", s["workspace"] + "/moved")
    return _reads(s["workspace"] + "/moved")


@attempt("hard link the secret and read it")
def _secret_link(s: dict[str, Any]) -> bool:
    os.link(s["workspace"] + "/.env", s["workspace"] + "/linked")
    return _reads(s["workspace"] + "/linked")


@attempt("read shared memory of the host")
def _shm(s: dict[str, Any]) -> bool:
    return _reads(s["shm"])


def _writes(path: str) -> bool:
    with open(path, "ab") as file:
        file.write(b"x")
    return True


for _name, _where in (
    ("write outside", "{outside}/written"),
    ("write /usr", "/usr/geode-probe"),
    ("write /etc", "/etc/geode-probe"),
    ("write the root directory", "/geode-probe"),
    ("write Geode's Python environment", "{prefix}/geode-probe"),
    ("write Geode's program", "{package}/geode_probe.py"),
    ("make a file in /dev", "/dev/geode-probe"),
    ("write a git hook", "{workspace}/.git/hooks/pre-commit"),
    ("write git's configuration", "{workspace}/.git/config"),
    ("write .geode/config.toml", "{workspace}/.geode/config.toml"),
    ("write .claude/settings.json", "{workspace}/.claude/settings.json"),
    ("write .mcp.json", "{workspace}/.mcp.json"),
    ("write a nested repository's configuration", "{workspace}/nested/.git/config"),
    ("write kernel settings", "/proc/sys/kernel/core_pattern"),
    ("write the host name setting", "/proc/sys/kernel/hostname"),
    ("allow user namespaces again", "/proc/sys/user/max_user_namespaces"),
    ("press the sysrq key", "/proc/sysrq-trigger"),
    ("write a cgroup release agent", "/sys/fs/cgroup/release_agent"),
):
    ATTEMPTS.append((_name, lambda s, where=_where: _writes(where.format(**s))))


@attempt("replace .git as a whole")
def _replace_git(s: dict[str, Any]) -> bool:
    os.rename(s["workspace"] + "/.git", s["workspace"] + "/old-git")
    return True


@attempt("replace .geode as a whole")
def _replace_geode(s: dict[str, Any]) -> bool:
    os.rename(s["workspace"] + "/.geode", s["workspace"] + "/old-geode")
    return True


@attempt("remove .mcp.json")
def _remove_mcp(s: dict[str, Any]) -> bool:
    os.unlink(s["workspace"] + "/.mcp.json")
    return True


@attempt("write through a symlink to outside")
def _write_link(s: dict[str, Any]) -> bool:
    link = s["workspace"] + "/write-out"
    os.symlink(s["outside"] + "/through", link)
    return _writes(link)


@attempt("make a set-user-ID file")
def _setuid(s: dict[str, Any]) -> bool:
    path = s["workspace"] + "/suid"
    _writes(path)
    os.chmod(path, 0o4755)  # noqa: S103  the attempt
    return bool(os.stat(path).st_mode & 0o4000)


@attempt("make a set-group-ID file by its creation mode")
def _setgid(s: dict[str, Any]) -> bool:
    os.close(os.open(s["workspace"] + "/sgid", os.O_CREAT | os.O_WRONLY, 0o2755))
    return bool(os.stat(s["workspace"] + "/sgid").st_mode & 0o2000)


@attempt("make a set-user-ID file by openat2")
def _openat2(s: dict[str, Any]) -> bool:
    how = struct.pack("QQQ", os.O_CREAT | os.O_WRONLY, 0o4755, 0)
    return reaches(437, -100, ctypes.c_char_p((s["workspace"] + "/s2").encode()), ctypes.c_char_p(how), len(how))


@attempt("make a device file")
def _mknod(s: dict[str, Any]) -> bool:
    return works(lambda: os.mknod(s["workspace"] + "/mem", 0o20666, os.makedev(1, 1)))


@attempt("leave the root by chroot and ..")
def _chroot(s: dict[str, Any]) -> bool:
    os.chroot("/tmp")  # noqa: S108  the private one
    return True


@attempt("open a file by handle")
def _handle(_s: dict[str, Any]) -> bool:
    return reaches(265 if ARM else 304, -100, 0, 0)


# ------------------------------------------------------------------ kernel surface

_CALLS: tuple[tuple[str, int, int, tuple[int, ...]], ...] = (
    ("mount", 165, 40, (0, 0, 0, 0, 0)),
    ("umount", 166, 39, (0, 0)),
    ("pivot_root", 155, 41, (0, 0)),
    ("open_tree", 428, 428, (-100, 0, 1)),
    ("move_mount", 429, 429, (-1, 0, -1, 0, 0)),
    ("fsopen", 430, 430, (0, 0)),
    ("mount_setattr", 442, 442, (-1, 0, 0, 0, 0)),
    ("unshare a user namespace", 272, 97, (0x10000000,)),
    ("unshare a mount namespace", 272, 97, (0x00020000,)),
    ("unshare a network namespace", 272, 97, (0x40000000,)),
    ("clone3", 435, 435, (0, 0)),
    ("setns", 308, 268, (0, 0)),
    ("ptrace", 101, 117, (16, 1, 0, 0)),
    ("process_vm_readv", 310, 270, (1, 0, 0, 0, 0, 0)),
    ("process_vm_writev", 311, 271, (1, 0, 0, 0, 0, 0)),
    ("pidfd_getfd", 438, 438, (-1, 0, 0)),
    ("kcmp", 312, 272, (1, 1, 0, 0, 0)),
    ("keyctl", 250, 219, (0, -3, 0)),
    ("add_key", 248, 217, (0, 0, 0, 0, 0)),
    ("request_key", 249, 218, (0, 0, 0, 0)),
    ("bpf", 321, 280, (0, 0, 0)),
    ("perf_event_open", 298, 241, (0, 0, -1, -1, 0)),
    ("userfaultfd", 323, 282, (0,)),
    ("io_uring_setup", 425, 425, (1, 0)),
    ("io_uring_enter", 426, 426, (-1, 0, 0, 0, 0, 0)),
    ("io_uring_register", 427, 427, (-1, 0, 0, 0)),
    ("fanotify_init", 300, 262, (0, 0)),
    ("kexec_load", 246, 104, (0, 0, 0, 0)),
    ("init_module", 175, 105, (0, 0, 0)),
    ("finit_module", 313, 273, (-1, 0, 0)),
    ("delete_module", 176, 106, (0, 0)),
    ("swapoff", 168, 225, (0,)),
    ("acct", 163, 89, (1,)),
    ("reboot", 169, 142, (1, 2, 3, 0)),
    ("set the clock", 227, 112, (0, 0)),
    ("sethostname", 170, 161, (0, 0)),
    ("quotactl", 179, 60, (0, 0, 0, 0)),
    ("syslog", 103, 116, (3, 0, 0)),
    ("memfd_secret", 447, 447, (0,)),
    ("change the personality", 135, 92, (0x0040000,)),
)
for _name, _x86, _arm, _arguments in _CALLS:
    ATTEMPTS.append((f"call {_name}", lambda _s, n=_arm if ARM else _x86, arguments=_arguments: reaches(n, *arguments)))


@attempt("clone into a user namespace")
def _clone(_s: dict[str, Any]) -> bool:
    result = syscall(220 if ARM else 56, 0x10000000 | signal.SIGCHLD, 0, 0, 0, 0)
    if result == 0:
        os._exit(0)
    return result > 0


@attempt("make a system call by its x32 number")
def _x32(_s: dict[str, Any]) -> bool:
    return not ARM and syscall(0x40000000 | 39) > 0


@attempt("type into the terminal (TIOCSTI)")
def _tiocsti(_s: dict[str, Any]) -> bool:
    master, _slave = os.openpty()
    return works(lambda: fcntl.ioctl(master, termios.TIOCSTI, b"x"))


@attempt("open the controlling terminal")
def _tty(_s: dict[str, Any]) -> bool:
    return works(lambda: os.close(os.open("/dev/tty", os.O_RDWR)))


# ------------------------------------------------------------------ privileges and processes


def _status(key: str) -> str:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key + ":"):
            return line.split(":", 1)[1].strip()
    return ""


@attempt("have capabilities")
def _capabilities(_s: dict[str, Any]) -> bool:
    return any(int(_status(key) or "0", 16) for key in ("CapPrm", "CapEff", "CapBnd", "CapAmb", "CapInh"))


@attempt("gain privileges by running a program")
def _no_new_privileges(_s: dict[str, Any]) -> bool:
    return _status("NoNewPrivs") != "1"


@attempt("run without a system call filter")
def _no_filter(_s: dict[str, Any]) -> bool:
    return _status("Seccomp") != "2"


@attempt("become root")
def _root(_s: dict[str, Any]) -> bool:
    return os.getuid() == 0 or works(lambda: os.setuid(0))


@attempt("run a set-user-ID program as root")
def _su(_s: dict[str, Any]) -> bool:
    for program in ("/usr/bin/su", "/bin/su", "/usr/bin/mount", "/usr/bin/passwd", "/usr/bin/newgrp"):
        if os.path.exists(program) and os.stat(program).st_uid == 0 and not os.statvfs(program).f_flag & os.ST_NOSUID:
            return True
    return False


@attempt("see a process of the host")
def _see(s: dict[str, Any]) -> bool:
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError):
                if s["marker"].encode() in Path(f"/proc/{entry}/cmdline").read_bytes():
                    return entry != str(os.getpid())
    return False


@attempt("signal a process of the host")
def _signal(s: dict[str, Any]) -> bool:
    return works(lambda: os.kill(s["host_pid"], signal.SIGUSR1))


@attempt("inherit a descriptor of Geode")
def _descriptors(_s: dict[str, Any]) -> bool:
    found: list[str] = []
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            target = os.readlink(f"/proc/self/fd/{name}")
            if int(name) > 2 and not target.startswith("/proc/"):
                found.append(target)
    return bool(found)


@attempt("inherit an environment variable of Geode")
def _environment(s: dict[str, Any]) -> bool:
    return s["variable"] in os.environ


@attempt("read the environment of the sandbox's first process")
def _init_environment(s: dict[str, Any]) -> bool:
    return s["variable"].encode() in Path("/proc/1/environ").read_bytes()


@attempt("raise a limit again")
def _raise_limit(_s: dict[str, Any]) -> bool:
    _soft, hard = resource.getrlimit(resource.RLIMIT_NPROC)
    return hard == resource.RLIM_INFINITY or works(lambda: resource.setrlimit(resource.RLIMIT_NPROC, (hard, hard + 10)))


@attempt("protect itself from the out-of-memory killer")
def _oom(_s: dict[str, Any]) -> bool:
    return works(lambda: Path("/proc/self/oom_score_adj").write_text("-900"))


# ------------------------------------------------------------------ network


@attempt("connect to the host's loopback (TCP)")
def _tcp(s: dict[str, Any]) -> bool:
    return works(lambda: socket.create_connection(("127.0.0.1", s["tcp"]), 1))


@attempt("connect to the host's loopback (IPv6)")
def _tcp6(s: dict[str, Any]) -> bool:
    return bool(s["tcp6"]) and works(lambda: socket.create_connection(("::1", s["tcp6"]), 1))


@attempt("send a UDP datagram to the host")
def _udp(s: dict[str, Any]) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.settimeout(0.5)
        sender.connect(("127.0.0.1", s["udp"]))
        sender.send(b"ping")
        return sender.recv(4) == b"pong"


@attempt("connect to an address of the machine")
def _address(s: dict[str, Any]) -> bool:
    return any(works(lambda a=a: socket.create_connection((a, s["tcp_any"]), 0.3)) for a in s["addresses"])


@attempt("have a network interface besides loopback")
def _interfaces(_s: dict[str, Any]) -> bool:
    names = [line.split(":")[0].strip() for line in Path("/proc/net/dev").read_text().splitlines()[2:]]
    return any(name != "lo" and not name.startswith(("sit", "ip6tnl", "tunl", "gre", "erspan")) for name in names)


@attempt("connect to an abstract Unix socket")
def _abstract(s: dict[str, Any]) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        return works(lambda: client.connect("\0" + s["abstract"]))


@attempt("connect to a Unix socket outside")
def _unix(s: dict[str, Any]) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        return works(lambda: client.connect(s["outside"] + "/socket"))


for _name, _family, _kind, _protocol in (
    ("open a raw socket", socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP),
    ("open a packet socket", 17, socket.SOCK_RAW, 0),
    ("open an audit netlink socket", 16, socket.SOCK_RAW, 9),
    ("open a netfilter netlink socket", 16, socket.SOCK_RAW, 12),
    ("open a device event netlink socket", 16, socket.SOCK_RAW, 15),
    ("open a vsock socket", 40, socket.SOCK_STREAM, 0),
    ("open a kernel crypto socket", 38, socket.SOCK_SEQPACKET, 0),
    ("open a Bluetooth socket", 31, socket.SOCK_RAW, 0),
    ("open an XDP socket", 44, socket.SOCK_RAW, 0),
):
    ATTEMPTS.append((_name, lambda _s, f=_family, k=_kind, p=_protocol: works(lambda: socket.socket(f, k, p).close())))


@attempt("see shared memory of other processes (System V)")
def _sysv(_s: dict[str, Any]) -> bool:
    return len(Path("/proc/sysvipc/shm").read_text().splitlines()) > 1


# ------------------------------------------------------------------ running them


def run(name: str, function: Attempt, settings: dict[str, Any]) -> dict[str, Any]:
    """One attempt in a child; anything but a clean "it worked" counts as held."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            signal.alarm(3)
            code = 0 if function(settings) else 1
        except BaseException:
            code = 1
        finally:
            os._exit(code)
    return {"name": name, "open": os.waitpid(child, 0)[1] == 0}


def main() -> None:
    """Run all attempts, then leave things behind that the caller looks for."""
    settings = json.load(sys.stdin)
    for name, function in ATTEMPTS:
        print(json.dumps(run(name, function, settings)), flush=True)  # noqa: T201  the answer
    with contextlib.suppress(OSError):  # looked for afterwards, from outside
        Path(settings["workspace"], ".git", "commondir").write_text("../elsewhere\n")
    if os.fork() == 0:  # outlive the first process, in a session of its own
        os.setsid()
        if os.fork() == 0:
            time.sleep(1.0)
            _writes(settings["workspace"] + "/outlived")
        os._exit(0)


if __name__ == "__main__":
    main()
