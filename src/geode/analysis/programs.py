"""What the common programs do with their arguments, judged from words alone.

A handler says True when the command is known to do no more than the impacts it reported
(mostly: read or write the named files). Everything it does not know by name or option is False, and a
command that is False asks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Protocol

from .known import CONTENTS, NAMES_ONLY, PRINTERS, TABLES, VERSIONED
from .options import Parsed, parse
from .places import looks_secret
from .shell import Word
from .writers import WRITERS, WriterReport, copy, move, write_all

__all__ = [
    "HANDLERS",
    "NETWORK_PROGRAMS",
    "PRIVILEGE_PROGRAMS",
    "SHELLS",
    "VERSIONED",
    "WRAPPERS",
    "Report",
    "options_from_wildcards",
]


class Report(WriterReport, Protocol):
    """What a handler tells about one command."""

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


def _parsed(name: str, words: Sequence[Word], report: Report) -> Parsed:
    """The words by the program's table; files given as option values are reported as read."""
    found = parse(TABLES[name], words)
    for word in found.files:
        report.read(word)
    return found


def _reader(name: str, *, content: bool = True, operands: int | None = None) -> Handler:
    """A program that only reads its operands, given options of its table.

    Args:
        content: it shows file contents (names only otherwise).
        operands: most operands it may have.
    """

    def handle(words: Sequence[Word], report: Report) -> bool:
        found = _parsed(name, words, report)
        for word in found.operands:
            report.read(word, content=content)
        return not found.unknown and (operands is None or len(found.operands) <= operands)

    return handle


def _printer(name: str) -> Handler:
    """A program that prints something and touches no file."""

    def handle(words: Sequence[Word], report: Report) -> bool:
        return not _parsed(name, words, report).unknown

    return handle


def _pure(words: Sequence[Word], report: Report) -> bool:
    """Takes any words and touches no file."""
    return True


def _printf(words: Sequence[Word], report: Report) -> bool:
    return not (words and words[0].text.startswith("-"))


def _date(words: Sequence[Word], report: Report) -> bool:
    """Shows a date; any operand that is not a format would set it."""
    found = _parsed("date", words, report)
    return not found.unknown and all(w.text.startswith("+") for w in found.operands)


def _hostname(words: Sequence[Word], report: Report) -> bool:
    found = _parsed("hostname", words, report)
    return not found.unknown and not found.operands


def _tests(words: Sequence[Word], report: Report) -> bool:
    """test and [: `-v 'a[$(…)]'` and `-R` would run what is in the brackets."""
    for word in words:
        if not word.text.startswith("-") and word.text not in ("]", "!", "(", ")", "=", "==", "!=", "<", ">"):
            report.read(word, content=False)
    return not any(word.text in ("-v", "-R") for word in words)


def _grep(words: Sequence[Word], report: Report) -> bool:
    return _search("grep", words, report, ("-r", "--recursive"))


def _search(name: str, words: Sequence[Word], report: Report, recursive: Sequence[str]) -> bool:
    """Searches files for a pattern; the first operand is the pattern unless an option gave it."""
    found = _parsed(name, words, report)
    by_option = found.has("-e", "-f", "--regexp", "--file", "--files", "--type-list") or bool(found.unknown)
    files = found.operands if by_option else found.operands[1:]
    if not files and (found.has(*recursive) or not recursive):
        files = [Word(".")]
    for word in files:
        report.read(word)
    return not found.unknown


_PLAIN_GLOB = re.compile(r"(?:\*\*/)?\*(\.\w+)")


def _rg(words: Sequence[Word], report: Report) -> bool:
    """ripgrep leaves hidden files out, unless a glob names them."""
    harmless = _search("rg", words, report, ())
    for name, value in parse(TABLES["rg"], words).options:
        if name in ("-g", "--glob", "--iglob") and value is not None and not value.text.startswith("!"):
            ending = _PLAIN_GLOB.fullmatch(value.text)
            harmless = harmless and ending is not None and not looks_secret(ending[1])
    return harmless


_JQ_REACHES_OUT = re.compile(r"\b(import|include|env|ENV|input_filename|get_search_list|modulemeta)\b")


def _jq(words: Sequence[Word], report: Report) -> bool:
    found = _parsed("jq", words, report)
    for word in found.operands if found.unknown else found.operands[1:]:
        report.read(word)
    return not found.unknown and bool(found.operands) and not _JQ_REACHES_OUT.search(found.operands[0].text)


_FIND_ACTIONS = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_FIND_TESTS = re.compile(
    r"-(i?name|i?path|i?wholename|i?regex|i?lname|type|xtype|size|[acm]time|[acm]min|newer[aBcmt]{0,2}|anewer|cnewer"
    r"|user|group|uid|gid|perm|maxdepth|mindepth|printf|fstype|inum|links|samefile|used|regextype|context)"
)
_FIND_WRITES = frozenset({"-fprint", "-fprint0", "-fprintf", "-fls", "-files0-from"})
_FIND_PLAIN = frozenset(
    "-print -print0 -ls -prune -quit -true -false -empty -daystart -depth -d -mount -xdev -readable -writable"
    " -executable -not -and -or -a -o -nouser -nogroup -warn -nowarn -noleaf -ignore_readdir_race ( ) ! ,".split()
)


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
        elif text not in _FIND_PLAIN:
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
    end = next((i for i, w in enumerate(rest) if w.text == "--"), len(rest))
    paths = rest[end + 1 :]
    for word in operands[: len(operands) - len(paths)]:
        _git_operand(word, report)
    for word in paths:
        report.read(word)
    return True


_REVISION = re.compile(r"[\w.-]+(/[\w.-]+)*([~^]\d*|@\{[^}]*\}|\.\.\.?[\w./-]*)+|[\w-]+")


def _git_operand(word: Word, report: Report) -> None:
    """A revision or a path. `REV:PATH` shows a file; a path outside makes `git diff` read it."""
    revision, colon, path = word.text.partition(":")
    if colon and revision and not word.tilde:
        report.read(Word(path or ".", word.known))
    elif not (word.known and not word.globs and _REVISION.fullmatch(word.text)) or looks_secret(word.text):
        report.read(word)


def _command_v(words: Sequence[Word], report: Report) -> bool:
    if len(words) == 2 and words[0].text == "-v":
        return True
    report.inner(words)
    return False


def _handlers() -> dict[str, Handler]:
    table: dict[str, Handler] = {name: _printer(name) for name in PRINTERS}
    table |= dict.fromkeys(("echo", "true", "false", ":"), _pure)
    table |= {name: _reader(name, content=False) for name in NAMES_ONLY}
    table |= {name: _reader(name) for name in CONTENTS}
    table |= {name: partial(write_all, name) for name in ("mkdir", "touch", "tee")}
    table |= dict.fromkeys(("rm", "rmdir", "unlink"), _rm)
    table |= dict.fromkeys(("shred", "srm", "wipefs", "truncate"), _rm_like)
    table |= dict.fromkeys(("chmod", "chown", "chgrp"), _recursive_change)
    table |= dict.fromkeys(("grep", "egrep", "fgrep"), _grep)
    table |= {
        "test": _tests,
        "[": _tests,
        "date": _date,
        "hostname": _hostname,
        "uniq": _reader("uniq", operands=1),
        "cmp": _reader("cmp", operands=2),
        "printf": _printf,
        "rg": _rg,
        "jq": _jq,
        "find": _find,
        "dd": _dd,
        "cp": copy,
        "mv": move,
        "sed": _sed,
        "git": _git,
        "command": _command_v,
    }
    return table


_PICKY = frozenset({"sort", "uniq", "tree", "git", "rg", "file", "test", "[", "sed", "date", "jq", *WRITERS})
_FIND_WORDS = (*sorted(_FIND_ACTIONS | _FIND_WRITES), "-delete")


def options_from_wildcards(name: str, words: Sequence[Word]) -> bool:
    """Whether an unquoted wildcard could turn into an option that does more, by a file of that name."""
    wild = [w for w in words[1:] if w.globs and (w.globs[0] == 0 or w.text.startswith("-"))]
    if name == "find":
        patterns = [re.escape(w.text).replace(r"\*", ".*").replace(r"\?", ".") for w in wild]
        return any("[" in w.text for w in wild) or any(re.fullmatch(p, f) for p in patterns for f in _FIND_WORDS)
    return name in _PICKY and (bool(wild) or (name == "uniq" and any(w.globs for w in words)))


HANDLERS: Mapping[str, Handler] = _handlers()
