"""What the common programs do with their arguments, judged from words alone.

A handler says True when the command is known to do no more than the impacts it reported
(mostly: read the named files). Everything it does not know by name or option is False, and a
command that is False asks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from .shell import Word

__all__ = [
    "HANDLERS",
    "NETWORK_PROGRAMS",
    "PRIVILEGE_PROGRAMS",
    "SHELLS",
    "WRAPPERS",
    "Report",
    "options_from_wildcards",
]


class Report(Protocol):
    """What a handler tells about one command."""

    def read(self, word: Word, *, content: bool = True) -> None: ...

    def delete(self, word: Word) -> None: ...

    def sweep(self, word: Word) -> None:
        """A recursive change of rights or owner."""
        ...

    def network(self, target: str) -> None: ...

    def inner(self, words: Sequence[Word]) -> None:
        """A command that this one runs."""
        ...

    def shell(self, text: str) -> None:
        """Shell text that this one runs."""
        ...


Handler = Callable[[Sequence[Word], Report], bool]

PRIVILEGE_PROGRAMS = frozenset({"sudo", "su", "doas", "pkexec", "runuser", "sudoedit", "run0", "please"})
WRAPPERS = frozenset(
    "env command builtin exec nohup nice ionice timeout time stdbuf setsid xargs parallel chroot watch busybox toybox "
    "unshare nsenter taskset chrt flock script strace ltrace unbuffer caffeinate proxychains firejail".split()
)
SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "ash", "fish", "mksh", "rbash", "csh", "tcsh"})
NETWORK_PROGRAMS = frozenset(
    "curl wget ssh scp sftp rsync nc ncat netcat socat telnet ftp lftp ping dig host nslookup whois http https aria2c "
    "pip pip3 pipx npm npx yarn pnpm uv uvx cargo gem brew apt apt-get dnf yum pacman docker podman kubectl helm gh "
    "aws gcloud az terraform ansible s3cmd rclone".split()
)


def _options(words: Sequence[Word]) -> tuple[list[Word], list[Word]]:
    """Options and operands; after `--` everything is an operand."""
    options: list[Word] = []
    operands: list[Word] = []
    for i, word in enumerate(words):
        if word.text == "--":
            return options, operands + list(words[i + 1 :])
        (options if word.text.startswith("-") and len(word.text) > 1 else operands).append(word)
    return options, operands


def _option_paths(option: Word, report: Report) -> None:
    """The value attached to an option may be a file that is read."""
    text = option.text
    value = text.partition("=")[2] if text.startswith("--") else text[2:]
    if value:
        report.read(Word(value, option.known, tilde=value.startswith("~")))


def _reader(*, content: bool = True, refuse: Sequence[str] = (), operands: int | None = None) -> Handler:
    """A program that only reads its operands, whatever its options, unless one is refused.

    Args:
        content: it shows file contents (names only otherwise).
        refuse: options (or beginnings of long ones) that do more.
        operands: most operands it may have.
    """

    def handle(words: Sequence[Word], report: Report) -> bool:
        options, files = _options(words)
        harmless = operands is None or len(files) <= operands
        for option in options:
            if _refused(option.text, (*refuse, "--files0-from")):
                harmless = False
            _option_paths(option, report)
        for word in files:
            report.read(word, content=content)
        return harmless

    return handle


def _refused(option: str, refuse: Sequence[str]) -> bool:
    """Long options may be abbreviated, short ones clustered."""
    for bad in refuse:
        if bad.startswith("--"):
            name = option.partition("=")[0]
            if option.startswith("--") and len(name) > 2 and (bad.startswith(name) or name.startswith(bad)):
                return True
        elif not option.startswith("--") and bad[1] in option[1:]:
            return True
    return False


def _pure(words: Sequence[Word], report: Report) -> bool:
    """Prints something and touches no file."""
    return True


def _printf(words: Sequence[Word], report: Report) -> bool:
    return not (words and words[0].text.startswith("-"))


def _grep(words: Sequence[Word], report: Report) -> bool:
    options, operands = _options(words)
    # With -e or -f, in any cluster or abbreviation, there is no pattern among the operands.
    given = any(o.text.startswith(("--r", "--f")) or (o.text[1] != "-" and {"e", "f"} & set(o.text)) for o in options)
    for option in options:
        _option_paths(option, report)
    for word in operands if given else operands[1:]:
        report.read(word)
    return True


def _rg(words: Sequence[Word], report: Report) -> bool:
    options, _ = _options(words)
    refuse = ("--pre", "--hostname-bin", "--search-zip", "--no-ignore", "--hidden", "--unrestricted", "--follow")
    bad = any(
        o.text.startswith(refuse) or (not o.text.startswith("--") and set(o.text[1:]) & set("zu.L")) for o in options
    )
    return _grep(words, report) and not bad


_FIND_ACTIONS = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_FIND_TESTS = re.compile(
    r"-(i?name|i?path|i?wholename|i?regex|i?lname|type|xtype|size|[acm]time|[acm]min|newer[aBcmt]{0,2}|anewer|cnewer"
    r"|user|group|uid|gid|perm|maxdepth|mindepth|printf|fstype|inum|links|samefile|used|regextype|context)"
)
_FIND_WRITES = frozenset({"-fprint", "-fprint0", "-fprintf", "-fls", "-files0-from"})


def _ends_action(rest: Sequence[Word], at: int) -> bool:
    """`;` ends the command of -exec, and so does `+`, but only right after `{}`."""
    return rest[at].text == ";" or (rest[at].text == "+" and rest[at - 1].text == "{}")


def _find(words: Sequence[Word], report: Report) -> bool:
    paths: list[Word] = []
    rest = list(words)
    while rest and re.fullmatch(r"-[HLP]|-O\d?|-D", rest[0].text):
        rest = rest[2 if rest[0].text == "-D" else 1 :]
    while rest and not rest[0].text.startswith("-") and rest[0].text not in ("(", ")", "!", ","):
        paths.append(rest.pop(0))
    paths = paths or [Word(".")]
    for path in paths:
        report.read(path, content=False)
    harmless = True
    at = 0
    while at < len(rest):
        text = rest[at].text
        at += 1
        if _FIND_TESTS.fullmatch(text):
            at += 1  # its value, whatever it looks like
        elif text == "-delete":
            for path in paths:
                report.delete(path)
        elif text in _FIND_ACTIONS:
            harmless = False
            end = at
            while end < len(rest) and not _ends_action(rest, end):
                end += 1
            inner = [found for part in rest[at:end] for found in (paths if part.text == "{}" else [part])]
            report.inner(inner)
            at = end + 1
        elif text in _FIND_WRITES:
            harmless = False
    return harmless


def _rm(words: Sequence[Word], report: Report) -> bool:
    for word in _options(words)[1]:
        report.delete(word)
    return True


def _rm_like(words: Sequence[Word], report: Report) -> bool:
    _rm(words, report)
    return False


def _dd(words: Sequence[Word], report: Report) -> bool:
    for word in words:
        name, _, value = word.text.partition("=")
        if name == "of" and value not in ("/dev/null", "/dev/stdout"):
            report.delete(Word(value, word.known, tilde=value.startswith("~")))
    return False


def _recursive_change(words: Sequence[Word], report: Report) -> bool:
    """chmod, chown, chgrp: recursively over home or system they destroy like a deletion."""
    options, operands = _options(words)
    if any(o.text == "--recursive" or (not o.text.startswith("--") and "R" in o.text) for o in options):
        for word in operands[1:]:
            report.sweep(word)
    return False


def _mv(words: Sequence[Word], report: Report) -> bool:
    """The sources disappear from where they were; only whole directories of the person count here."""
    for word in _options(words)[1][:-1]:
        if word.tilde or word.text.rstrip("/*") in ("", "/"):
            report.delete(word)
    return False


def _sed(words: Sequence[Word], report: Report) -> bool:
    options, operands = _options(words)
    script = operands[0] if operands else None
    harmless = (
        script is not None
        and [o.text for o in options] == ["-n"]
        and re.fullmatch(r"(\d+|\$)(,(\d+|\$))?p", script.text) is not None
    )
    for word in operands[1:]:
        report.read(word)
    return harmless


def _sort(words: Sequence[Word], report: Report) -> bool:
    refuse = ("-o", "-T", "--output", "--compress-program", "--temporary-directory")
    return _reader(refuse=refuse)(words, report)


_GIT_SUBCOMMANDS: Mapping[str, str] = {
    "status": r"-s|--short|-b|--branch|--porcelain(=v[12])?|-u(no|all|normal)?|--ignored|--long|-v|-z",
    "log": "",
    "show": "",
    "diff": "",
    "shortlog": r"-[sne]+",
    "blame": r"-[wMCeslL]+|--date=.*|--porcelain",
    "ls-files": r"-[cdmosz]+|--others|--cached|--modified|--exclude-standard",
    "rev-parse": r"--show-toplevel|--abbrev-ref|--short(=\d+)?|--verify|--is-inside-work-tree|--git-dir",
    "branch": r"-[arv]+|--show-current|--list|--all|--remotes|--verbose",
    "remote": r"-v|--verbose",
    "describe": r"--tags|--always|--all|--long|--dirty",
}
_GIT_NO_OPERANDS = frozenset({"branch", "remote"})
_GIT_VIEW = re.compile(
    r"-\d+|-n\d*|-[pswbiMCEFzrt]|-u|-U\d+|-[LSG].+|-[SG]|--(oneline|graph|stat(=.*)?|all|decorate(=.*)?|no-decorate"
    r"|name-only|name-status|cached|staged|since=.*|until=.*|after=.*|before=.*|format=.*|pretty(=.*)?|author=.*"
    r"|committer=.*|grep=.*|abbrev-commit|abbrev(=\d+)?|no-color|color(=.*)?|word-diff(=.*)?|color-words|shortstat"
    r"|numstat|dirstat|summary|patch|no-patch|follow|reverse|merges|no-merges|first-parent|diff-filter=.*|date=.*"
    r"|relative-date|max-count=\d+|skip=\d+|branches|tags|remotes|topo-order|date-order|raw|quiet|exit-code|check"
    r"|no-renames|find-renames|find-copies|ignore-all-space|ignore-space-change|ignore-blank-lines|minimal|patience"
    r"|histogram|unified=\d+|full-index|no-ext-diff|no-textconv|left-right|cherry-pick|merge-base)"
)


def _git(words: Sequence[Word], report: Report) -> bool:
    rest = list(words)
    while rest and rest[0].text == "--no-pager":
        rest.pop(0)
    if not rest or not rest[0].known:
        return False
    name, rest = rest[0].text, rest[1:]
    if name in ("push", "pull", "fetch", "clone", "ls-remote", "submodule"):
        report.network("git remote")
        return False
    if name not in _GIT_SUBCOMMANDS:
        return False
    allowed = re.compile(_GIT_SUBCOMMANDS[name]) if _GIT_SUBCOMMANDS[name] else _GIT_VIEW
    options, operands = _options(rest)
    if any(not allowed.fullmatch(o.text) for o in options) or (operands and name in _GIT_NO_OPERANDS):
        return False
    for word in operands:
        _git_operand(word, report)
    return True


def _git_operand(word: Word, report: Report) -> None:
    """A revision or a path. `REV:PATH` shows a file; a path outside makes `git diff` read it."""
    revision, colon, path = word.text.partition(":")
    if colon and revision and not word.tilde:
        report.read(Word(path or ".", word.known))
    else:
        report.read(word)


def _command_v(words: Sequence[Word], report: Report) -> bool:
    if len(words) == 2 and words[0].text == "-v":
        return True
    report.inner(words)
    return False


_SILENT = "echo pwd true false : whoami id uname seq basename dirname which type".split()
_NAMES_ONLY = "ls stat wc du realpath readlink".split()
_CONTENTS = (
    *"cat head tail nl od hexdump tac rev cut fold paste comm cmp diff column".split(),
    *"md5sum sha1sum sha256sum sha512sum cksum".split(),
)


def _handlers() -> dict[str, Handler]:
    table: dict[str, Handler] = dict.fromkeys(_SILENT, _pure)
    table |= dict.fromkeys(_NAMES_ONLY, _reader(content=False))
    table |= dict.fromkeys(_CONTENTS, _reader())
    table |= dict.fromkeys(("rm", "rmdir", "unlink"), _rm)
    table |= dict.fromkeys(("shred", "srm", "wipefs", "truncate"), _rm_like)
    table |= dict.fromkeys(("chmod", "chown", "chgrp"), _recursive_change)
    table |= dict.fromkeys(("grep", "egrep", "fgrep"), _grep)
    table |= {
        # `test -v 'a[$(…)]'` runs what is in the brackets.
        "test": _reader(content=False, refuse=("-v", "-R")),
        "[": _reader(content=False, refuse=("-v", "-R")),
        "tr": _pure,
        "file": _reader(content=False, refuse=("-C", "--compile", "-m", "--magic-file", "-f", "--files-from", "-z")),
        "uniq": _reader(operands=1),
        "tree": _reader(content=False, refuse=("-o", "-R", "--output", "--fromfile")),
        "printf": _printf,
        "rg": _rg,
        "find": _find,
        "dd": _dd,
        "mv": _mv,
        "sed": _sed,
        "sort": _sort,
        "git": _git,
        "command": _command_v,
    }
    return table


_PICKY = frozenset({"sort", "uniq", "tree", "git", "rg", "file", "test", "[", "sed"})
_FIND_WORDS = (*sorted(_FIND_ACTIONS | _FIND_WRITES), "-delete")


def options_from_wildcards(name: str, words: Sequence[Word]) -> bool:
    """Whether an unquoted wildcard could turn into an option that does more, by a file of that name."""
    wild = [w for w in words[1:] if w.globs and (w.globs[0] == 0 or w.text.startswith("-"))]
    if name == "find":
        patterns = [re.escape(w.text).replace(r"\*", ".*").replace(r"\?", ".") for w in wild]
        return any("[" in w.text for w in wild) or any(re.fullmatch(p, f) for p in patterns for f in _FIND_WORDS)
    return name in _PICKY and (bool(wild) or (name == "uniq" and any(w.globs for w in words)))


HANDLERS: Mapping[str, Handler] = _handlers()
