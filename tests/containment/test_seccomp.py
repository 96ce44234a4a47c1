"""The system call filter, run by a small interpreter of classic BPF, for both architectures."""

from __future__ import annotations

import errno
import struct

import pytest

from geode.containment.sandbox import seccomp

ALLOW, KILL, ERRNO = 0x7FFF0000, 0x80000000, 0x00050000


def verdict(machine: str, number: int, *arguments: int, network: bool = False, arch: int | None = None) -> int:
    """What the filter answers: 0 allowed, an errno, or -1 killed."""
    table = seccomp.table_for(machine)
    assert table is not None
    program = list(struct.iter_unpack("=HBBI", seccomp.assemble(table, network=network)))
    words = [*arguments, *[0] * (6 - len(arguments))]
    data = struct.pack("=IIQ6Q", number, table.audit if arch is None else arch, 0, *words)
    accumulator, place = 0, 0
    while True:
        code, yes, no, value = program[place]
        place += 1
        if code == 0x20:
            (accumulator,) = struct.unpack_from("=I", data, value)
        elif code == 0x15:
            place += yes if accumulator == value else no
        elif code == 0x35:
            place += yes if accumulator >= value else no
        elif code == 0x45:
            place += yes if accumulator & value else no
        elif code == 0x06:
            return {ALLOW: 0, KILL: -1}.get(value, value & 0xFFFF if value & 0xFFFF0000 == ERRNO else -2)
        else:
            raise AssertionError(f"unknown instruction {code:#x}")


NUMBERS = {
    "x86_64": {
        "read": 0,
        "ptrace": 101,
        "clone": 56,
        "unshare": 272,
        "socket": 41,
        "ioctl": 16,
        "chmod": 90,
        "openat": 257,
        "personality": 135,
        "mknodat": 259,
        "fchmodat": 268,
        "bpf": 321,
        "execve": 59,
    },
    "aarch64": {
        "read": 63,
        "ptrace": 117,
        "clone": 220,
        "unshare": 97,
        "socket": 198,
        "ioctl": 29,
        "chmod": 53,
        "openat": 56,
        "personality": 92,
        "mknodat": 33,
        "fchmodat": 53,
        "bpf": 280,
        "execve": 221,
    },
}


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_filter_allows_work_and_refuses_ways_out(machine: str) -> None:
    n = NUMBERS[machine]
    mode = 1 if machine == "x86_64" else 2
    assert verdict(machine, n["read"]) == 0
    assert verdict(machine, n["execve"]) == 0
    for name in ("ptrace", "bpf"):
        assert verdict(machine, n[name]) == errno.EPERM
    for number in (425, 426, 427, 428, 429, 430, 431, 432, 433, 438, 440, 442):
        assert verdict(machine, number) == errno.EPERM
    for number in (435, 437, 457, 463, 467, 500, 0x4000_0000 | 39, 0xFFFF_FFFF):
        assert verdict(machine, number) == errno.ENOSYS
    assert verdict(machine, n["read"], arch=0x40000003) == -1  # 32-bit x86
    assert verdict(machine, n["clone"], 0x11) == 0
    assert verdict(machine, n["clone"], 0x003D0F00) == 0  # a thread
    for flag in (0x10000000, 0x00020000, 0x40000000, 0x20000000):
        assert verdict(machine, n["clone"], flag | 0x11) == errno.EPERM
        assert verdict(machine, n["unshare"], flag) == errno.EPERM
    assert verdict(machine, n["unshare"], 0x80) == errno.EPERM
    assert verdict(machine, n["unshare"], 0x400) == 0  # CLONE_FILES
    assert verdict(machine, n["ioctl"], 1, 0x5412) == errno.EPERM
    assert (
        verdict(machine, n["ioctl"], 1, 0xFFFF_FFFF_0000_5412) == errno.EPERM
    )  # the kernel looks at the low half only
    assert verdict(machine, n["ioctl"], 1, 0x5413) == 0
    assert verdict(machine, n["chmod"], *[0] * mode, 0o4755) == errno.EPERM
    assert verdict(machine, n["chmod"], *[0] * mode, 0o755) == 0
    assert verdict(machine, n["openat"], 0, 0, 0o101, 0o4755) == errno.EPERM
    assert verdict(machine, n["openat"], 0, 0, 0, 0o4755) == 0  # nothing is created
    assert verdict(machine, n["mknodat"], 0, 0, 0o104755) == errno.EPERM
    assert verdict(machine, n["personality"], 0xFFFF_FFFF) == 0
    assert verdict(machine, n["personality"], 0) == 0
    assert verdict(machine, n["personality"], 0x0040000) == errno.EPERM


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_socket_families(machine: str) -> None:
    socket = NUMBERS[machine]["socket"]
    closed = {family: verdict(machine, socket, family, 1, 0) for family in (1, 2, 10, 16, 17, 31, 38, 40, 44)}
    assert [family for family, answer in closed.items() if answer == 0] == [1, 2, 10, 16]
    opened = {family: verdict(machine, socket, family, 1, 0, network=True) for family in (1, 2, 10, 16, 17, 38, 40)}
    assert [family for family, answer in opened.items() if answer == 0] == [2, 10, 16]
    assert verdict(machine, socket, 16, 3, 9) == errno.EAFNOSUPPORT
    assert verdict(machine, socket, 16, 3, 9, network=True) == errno.EAFNOSUPPORT  # audit, not routes


def test_machine_names() -> None:
    assert seccomp.table_for("arm64") is seccomp.table_for("aarch64")
    assert seccomp.table_for("AMD64") is seccomp.table_for("x86_64")
    assert seccomp.table_for("riscv64") is None
