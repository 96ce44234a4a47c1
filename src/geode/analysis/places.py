"""Where a path lies, judged by its spelling alone. Whoever can look at the disk does better."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable

from ..core.effects import Scope

__all__ = ["PROTECTED_NAMES", "lexical_scopes", "looks_secret"]

PROTECTED_NAMES = frozenset(
    {".git", ".geode", ".claude", ".cursor", ".vscode", ".idea", ".mcp.json", ".gitmodules", ".husky", ".codex"}
)
"""Entries of a workspace that steer it."""

TEMP_FOLDERS = ("/tmp", "/var/tmp")  # noqa: S108 - named here to be recognised, not to be used
_SECRET_FOLDERS = frozenset({".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".password-store", "gcloud"})
_SECRET_FILE = re.compile(
    r"(\.env(\.(?!example$|sample$|template$|dist$)[\w.-]+)?|\.netrc|_netrc|\.pgpass|\.npmrc|\.pypirc|\.git-credentials"
    r"|\.dockercfg|\.htpasswd|\.my\.cnf|\.vault-token|id_(rsa|dsa|ecdsa|ed25519)(_sk)?|.*\.(pem|key|p12|pfx|jks|keystore|kdbx|ppk)"
    r"|credentials(\.(json|toml|ya?ml|ini))?|secrets?\.(json|toml|ya?ml|env|ini)|service[-_]account.*\.json"
    r"|\.?shadow-?|gshadow-?|master\.passwd|environ)",
    re.IGNORECASE,
)
_SYSTEM_SHADOW = frozenset({"shadow", "shadow-", "gshadow", "gshadow-", "master.passwd", "environ"})


def looks_secret(path: str) -> bool:
    """Whether a path names keys, tokens or passwords. `.pub` files and examples do not count."""
    parts = [p for p in path.replace("\\", "/").split("/") if p]
    if not parts:
        return False
    name = parts[-1]
    if (
        any(p in _SECRET_FOLDERS for p in parts)
        and not name.endswith(".pub")
        and name not in ("known_hosts", "config.example")
    ):
        return True
    if name.lower() in _SYSTEM_SHADOW:
        return path.startswith(("/etc/", "/proc/"))
    return _SECRET_FILE.fullmatch(name) is not None


def _beneath(path: str, root: str) -> bool:
    root = root.rstrip("/")
    return path == root or path.startswith(f"{root}/")


def lexical_scopes(
    workspace: str, home: str, *, geode_home: str = "", temp: tuple[str, ...] = TEMP_FOLDERS
) -> Callable[[str], Scope]:
    """A `scope_of` that knows only how paths are spelled.

    Args:
        workspace: absolute workspace root.
        home: the person's home.
        geode_home: Geode's own directory; default `HOME/.geode`.
        temp: directories for temporary files.
    """
    own = geode_home or f"{home.rstrip('/')}/.geode"

    def scope_of(path: str) -> Scope:
        absolute = path if path.startswith("/") else f"{workspace}/{path}"
        normal = "/" + posixpath.normpath(absolute).lstrip("/")
        if looks_secret(normal):
            return Scope.SECRET
        if _beneath(normal, own):
            return Scope.GEODE
        if _beneath(normal, workspace):
            inside = normal[len(workspace.rstrip("/")) :].strip("/").split("/")
            return Scope.PROTECTED if not PROTECTED_NAMES.isdisjoint(inside) else Scope.WORKSPACE
        if any(_beneath(normal, t) for t in temp):
            return Scope.TEMP
        return Scope.HOME if _beneath(normal, home) else Scope.SYSTEM

    return scope_of
