"""A system call filter as classic BPF, assembled by hand for x86_64 and aarch64.

Deny list over a default of "allow": the mount view, the namespaces and the dropped
capabilities are the walls; this filter removes kernel surface that a program in them never
needs (io_uring, bpf, keys, ptrace, mounts, new namespaces, foreign socket families), keeps
it from making set-user-ID files that would outlive it, and answers "not implemented" for
every call younger than this table, so that a newer kernel does not open it again.

Sources: linux/seccomp.h, linux/filter.h, asm/unistd_64.h, asm-generic/unistd.h.
"""

from __future__ import annotations

import errno
import functools
import platform
import struct
from dataclasses import dataclass

__all__ = ["Table", "assemble", "filter_program", "table_for"]

_ALLOW = 0x7FFF0000
_KILL = 0x80000000
_ERRNO = 0x00050000

_LD, _JEQ, _JGE, _JSET, _AND, _RET = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_NR, _ARCH = 0, 4

_FIRST_UNKNOWN = 463  # setxattrat; calls from here on answer ENOSYS. x32 (bit 30) lies above, too.

# clone(2)/unshare(2): NEWTIME NEWNS NEWCGROUP NEWUTS NEWIPC NEWUSER NEWPID NEWNET.
_NAMESPACES = 0x00020000 | 0x02000000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000
_NEWTIME = 0x80
_SETID = 0o6000
_O_CREATES = 0o100 | 0o20000000  # O_CREAT, __O_TMPFILE
_TIOCSTI, _TIOCLINUX, _TIOCSETD = 0x5412, 0x541C, 0x5423
_AF_UNIX, _AF_INET, _AF_INET6, _AF_NETLINK = 1, 2, 10, 16

# name: (x86_64, aarch64); None where the architecture has no such call.
_DENIED: dict[str, tuple[int | None, int | None]] = {
    "acct": (163, 89), "add_key": (248, 217), "adjtimex": (159, 171), "afs_syscall": (183, None), "bpf": (321, 280),
    "chroot": (161, 51), "clock_adjtime": (305, 266), "clock_settime": (227, 112), "create_module": (174, None),
    "delete_module": (176, 106), "fanotify_init": (300, 262), "fanotify_mark": (301, 263), "finit_module": (313, 273),
    "fsconfig": (431, 431), "fsmount": (432, 432), "fsopen": (430, 430), "fspick": (433, 433),
    "get_kernel_syms": (177, None), "init_module": (175, 105), "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427), "io_uring_setup": (425, 425), "ioperm": (173, None), "iopl": (172, None),
    "kcmp": (312, 272), "kexec_file_load": (320, 294), "kexec_load": (246, 104), "keyctl": (250, 219),
    "lookup_dcookie": (212, 18), "memfd_secret": (447, 447), "migrate_pages": (256, 238), "modify_ldt": (154, None),
    "mount": (165, 40), "mount_setattr": (442, 442), "move_mount": (429, 429), "move_pages": (279, 239),
    "name_to_handle_at": (303, 264), "nfsservctl": (180, 42), "open_by_handle_at": (304, 265), "open_tree": (428, 428),
    "perf_event_open": (298, 241), "pidfd_getfd": (438, 438), "pivot_root": (155, 41), "process_madvise": (440, 440),
    "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "ptrace": (101, 117), "query_module": (178, None),
    "quotactl": (179, 60), "quotactl_fd": (443, 443), "reboot": (169, 142), "request_key": (249, 218),
    "security": (185, None), "setdomainname": (171, 162), "sethostname": (170, 161), "setns": (308, 268),
    "settimeofday": (164, 170), "swapoff": (168, 225), "swapon": (167, 224), "_sysctl": (156, None),
    "sysfs": (139, None), "syslog": (103, 116), "tuxcall": (184, None), "umount2": (166, 39), "uselib": (134, None),
    "userfaultfd": (323, 282), "ustat": (136, None), "vhangup": (153, 58), "vserver": (236, None),
}  # fmt: skip

# Answered "not implemented", so that libraries fall back to the older call, which can be looked into.
_ABSENT: dict[str, tuple[int | None, int | None]] = {
    "clone3": (435, 435), "openat2": (437, 437), "statmount": (457, 457), "listmount": (458, 458),
    "lsm_get_self_attr": (459, 459), "lsm_set_self_attr": (460, 460), "lsm_list_modules": (461, 461),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Table:
    """Numbers of one architecture: its audit id, refused calls and the ones whose arguments matter."""

    audit: int
    denied: tuple[int, ...]
    absent: tuple[int, ...]
    clone: int
    unshare: int
    personality: int
    ioctl: int
    socket: int
    modes: tuple[tuple[int, int], ...]
    """(number, index of the mode argument) of chmod-like and mkdir-like calls."""
    opens: tuple[tuple[int, int, int], ...]
    """(number, index of the flags, index of the mode)."""


def _numbers(of: dict[str, tuple[int | None, int | None]], column: int) -> tuple[int, ...]:
    found = (numbers[column] for numbers in of.values())
    return tuple(sorted(number for number in found if number is not None))


_TABLES: dict[str, Table] = {
    "x86_64": Table(
        audit=0xC000003E, denied=_numbers(_DENIED, 0), absent=_numbers(_ABSENT, 0),
        clone=56, unshare=272, personality=135, ioctl=16, socket=41,
        # chmod fchmod fchmodat fchmodat2 creat mkdir mkdirat mknod mknodat
        modes=((90, 1), (91, 1), (268, 2), (452, 2), (85, 1), (83, 1), (258, 2), (133, 1), (259, 2)),
        opens=((2, 1, 2), (257, 2, 3)),
    ),
    "aarch64": Table(
        audit=0xC00000B7, denied=_numbers(_DENIED, 1), absent=_numbers(_ABSENT, 1),
        clone=220, unshare=97, personality=92, ioctl=29, socket=198,
        modes=((52, 1), (53, 2), (452, 2), (34, 2), (33, 2)),
        opens=((56, 2, 3),),
    ),
}  # fmt: skip


def table_for(machine: str = "") -> Table | None:
    """The table for a machine name as `uname -m` gives it; None when there is none."""
    name = machine or platform.machine()
    return _TABLES.get({"amd64": "x86_64", "arm64": "aarch64"}.get(name.lower(), name))


def _op(code: int, value: int, yes: int = 0, no: int = 0) -> bytes:
    return struct.pack("=HBBI", code, yes, no, value & 0xFFFFFFFF)


def _answer(number: int) -> bytes:
    return _op(_RET, _ERRNO | number)


def _argument(index: int) -> bytes:
    """Load the low half of an argument; both architectures are little endian."""
    return _op(_LD, 16 + 8 * index)


def _when(number: int, body: list[bytes]) -> list[bytes]:
    """`body` (which must return on every path) runs when the call has this number."""
    return [_op(_JEQ, number, 0, len(body)), *body]


def _refuse_bits(index: int, bits: int) -> list[bytes]:
    return [_argument(index), _op(_JSET, bits, 0, 1), _answer(errno.EPERM), _op(_RET, _ALLOW)]


def _refuse_values(index: int, values: tuple[int, ...]) -> list[bytes]:
    body = [_argument(index)]
    for value in values:
        body += [_op(_JEQ, value, 0, 1), _answer(errno.EPERM)]
    return [*body, _op(_RET, _ALLOW)]


def _socket(network: bool) -> list[bytes]:
    # With the host's network its abstract Unix sockets would be in reach: no new Unix sockets then.
    families = (_AF_INET, _AF_INET6) if network else (_AF_UNIX, _AF_INET, _AF_INET6)
    body = [_argument(0)]
    for family in families:
        body += [_op(_JEQ, family, 0, 1), _op(_RET, _ALLOW)]
    # NETLINK_ROUTE (protocol 0) only: language runtimes list the addresses of their network namespace.
    body += [_op(_JEQ, _AF_NETLINK, 0, 3), _argument(2), _op(_JEQ, 0, 0, 1), _op(_RET, _ALLOW)]
    return [*body, _answer(errno.EAFNOSUPPORT)]


def assemble(table: Table, *, network: bool = False) -> bytes:
    """The filter as an array of `struct sock_filter`, ready for bubblewrap's `--seccomp`.

    Args:
        table: numbers of the architecture.
        network: the process shares the host's network.
    """
    program = [_op(_LD, _ARCH), _op(_JEQ, table.audit, 1, 0), _op(_RET, _KILL), _op(_LD, _NR)]
    program += [_op(_JGE, _FIRST_UNKNOWN, 0, 1), _answer(errno.ENOSYS)]
    for number in table.absent:
        program += _when(number, [_answer(errno.ENOSYS)])
    for number in table.denied:
        program += _when(number, [_answer(errno.EPERM)])
    program += _when(table.clone, _refuse_bits(0, _NAMESPACES))
    program += _when(table.unshare, _refuse_bits(0, _NAMESPACES | _NEWTIME))
    program += _when(
        table.personality,
        [_argument(0), _op(_JEQ, 0, 2, 0), _op(_JEQ, 0xFFFFFFFF, 1, 0), _answer(errno.EPERM), _op(_RET, _ALLOW)],
    )
    program += _when(table.ioctl, _refuse_values(1, (_TIOCSTI, _TIOCLINUX, _TIOCSETD)))
    program += _when(table.socket, _socket(network))
    for number, mode in table.modes:
        program += _when(number, _refuse_bits(mode, _SETID))
    for number, flags, mode in table.opens:
        creates = [_argument(flags), _op(_JSET, _O_CREATES, 1, 0), _op(_RET, _ALLOW)]
        program += _when(number, [*creates, *_refuse_bits(mode, _SETID)])
    program.append(_op(_RET, _ALLOW))
    return b"".join(program)


@functools.cache
def filter_program(*, network: bool) -> bytes | None:
    """The filter for this machine, or None when its architecture has no table."""
    table = table_for()
    return None if table is None else assemble(table, network=network)
