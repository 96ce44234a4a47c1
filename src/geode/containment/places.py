"""Where a path lies: workspace, home, secret, system and so on.

Pure classification, no enforcement: `paths.py` and the sandbox enforce, the policy judges
by what this module says. Both the path as written and the path it really leads to are
judged and the more sensitive answer wins, so neither a symlink to a key nor a symlink
instead of `.git` changes the verdict.
"""

from __future__ import annotations

import fnmatch
import os
import re
import tempfile
import unicodedata
from collections.abc import Callable
from pathlib import Path, PurePath

from ..core.effects import Scope

__all__ = ["PROTECTED_NAMES", "Places", "is_secret"]

PROTECTED_NAMES = frozenset(
    {
        ".agents", ".claude", ".codex", ".cursor", ".envrc", ".geode", ".git", ".gitmodules", ".husky", ".idea",
        ".mcp.json", ".pre-commit-config.yaml", ".vscode", ".windsurf",
    }
)  # fmt: skip
"""Names that steer other programs (version control, agents, editors) from inside a project."""

_SECRET_NAMES = (
    ".env", ".env.*", "*.env", ".netrc", "_netrc", ".pgpass", ".pypirc", ".git-credentials", ".htpasswd",
    ".vault-token",
    "id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", "id_*_sk", "*.pem", "*.ppk", "*.p12", "*.pfx", "*.jks", "*.keystore",
    "*.kdbx", "*.key", "*.age", "secrets.json", "secrets.y*ml", "secrets.toml", "credentials.json", ".credentials.json",
    "service-account*.json", "service_account*.json", "*.tfvars", "*.tfstate",
)  # fmt: skip
_NOT_SECRET_NAMES = ("*.example", "*.sample", "*.template", "*.dist", "*.pub", ".env.defaults", ".env.test")
_SECRET_FOLDERS = frozenset({".ssh", ".gnupg", ".aws", ".azure", ".kube", ".password-store", ".docker"})
_SECRET_TAILS = (
    (".config", "gcloud"), (".config", "gh"), (".config", "op"), (".local", "share", "keyrings"),
    (".codex", "auth.json"),
    (".mozilla",), (".config", "google-chrome"), (".config", "chromium"), (".npmrc",), (".cargo", "credentials.toml"),
    (".terraform.d", "credentials.tfrc.json"),
)  # fmt: skip
_SECRET_SYSTEM = ("/etc/shadow*", "/etc/gshadow*", "/etc/sudoers*", "/etc/ssh/ssh_host_*_key", "/etc/ssl/private*",
                  "/proc/*/environ", "/proc/*/mem", "/proc/kcore", "/dev/mem", "/dev/kmem")  # fmt: skip


def _any_of(patterns: tuple[str, ...]) -> Callable[[str], re.Match[str] | None]:
    """Whether a text is matched by one of the file name patterns, case and all; one search instead of one each."""
    return re.compile("|".join(fnmatch.translate(pattern) for pattern in patterns)).match


_named_like_a_secret = _any_of(_SECRET_NAMES)
_named_like_none = _any_of(_NOT_SECRET_NAMES)
_secret_of_the_system = _any_of(_SECRET_SYSTEM)

# Most sensitive first: of two answers for one path the earlier wins.
_ORDER = (Scope.GEODE, Scope.SECRET, Scope.SYSTEM, Scope.UNKNOWN, Scope.HOME, Scope.PROTECTED, Scope.TEMP,
          Scope.WORKSPACE)  # fmt: skip


def fold(name: str) -> str:
    """A file name as a file system that ignores case and invisible characters compares it."""
    if name.isascii():
        return name.casefold().rstrip(" .") or name
    shown = "".join(c for c in unicodedata.normalize("NFKC", name) if unicodedata.category(c) != "Cf")
    return shown.casefold().rstrip(" .") or name


def is_secret(path: PurePath, home: PurePath | None = None) -> bool:
    """Whether a path names keys, tokens or credentials, judged by its names alone."""
    parts = [fold(part) for part in path.parts]
    if not parts:
        return False
    name = parts[-1]
    if _named_like_none(name):
        return False
    if _named_like_a_secret(name):
        return True
    if any(part in _SECRET_FOLDERS for part in parts):
        return True
    if _secret_of_the_system(path.as_posix()):
        return True
    if home is None or not path.is_relative_to(home):
        return False
    inner = tuple(fold(part) for part in path.relative_to(home).parts)
    return any(inner[: len(tail)] == tail for tail in _SECRET_TAILS)


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))


class Places:
    """The map of this machine as one workspace sees it.

    Args:
        root: the project directory.
        home: the person's home.
        geode_home: where Geode keeps its data.
    """

    def __init__(self, root: Path, *, home: Path, geode_home: Path) -> None:
        self.root = _real(root)
        self.home = _real(home)
        self.geode_home = _real(geode_home)
        temps = {tempfile.gettempdir(), "/tmp", "/var/tmp", "/private/tmp"}  # noqa: S108  names of places, not used to write
        self._temps = tuple(sorted({_real(Path(temp)) for temp in temps}))

    def scope(self, path: Path) -> Scope:
        """Where an absolute path lies. Never raises; what cannot be told is UNKNOWN."""
        try:
            candidates = {Path(os.path.normpath(path)), _real(path)}
        except (OSError, ValueError, RuntimeError):
            return Scope.UNKNOWN
        return min((self._one(candidate) for candidate in candidates), key=_ORDER.index)

    def _one(self, path: Path) -> Scope:
        if path.is_relative_to(self.geode_home):
            return Scope.GEODE
        if is_secret(path, self.home):
            return Scope.SECRET
        if path.is_relative_to(self.root) and self.root != Path(self.root.anchor):
            return self._inside(path)
        if any(path.is_relative_to(temp) for temp in self._temps):
            return Scope.TEMP
        return Scope.HOME if path.is_relative_to(self.home) else Scope.SYSTEM

    def _inside(self, path: Path) -> Scope:
        # A workspace that is the home itself (or holds it) does not turn dot files into project files.
        if self.home.is_relative_to(self.root) and path.is_relative_to(self.home):
            parts = path.relative_to(self.home).parts
            if parts and parts[0].startswith("."):
                return Scope.HOME
        names = {fold(part) for part in path.relative_to(self.root).parts}
        return Scope.PROTECTED if names & PROTECTED_NAMES else Scope.WORKSPACE
