"""What secrets look like: formats of vendors, and names of fields that hold secrets.

Formats come from the vendors' published key prefixes. Each has literal markers that are looked
for first, so that text without any costs next to nothing, and an expression that consumes
what it looked at, so that time stays linear.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

__all__ = ["FORMATS", "KEY_WORDS", "Format", "field_kind", "field_words"]

_START = r"(?:(?<![A-Za-z0-9_])|(?<=\\[nrt]))"
"""Not inside a longer word; an escaped line end (a backslash and a letter) may precede."""


@dataclass(frozen=True, slots=True, eq=False)
class Format:
    """One kind of secret.

    Attributes:
        kind: shown in place of the secret.
        markers: one of them is in every such secret.
        pattern: group 1 is the secret.
        check: a last look at group 1, or None.
    """

    kind: str
    markers: tuple[str, ...]
    pattern: re.Pattern[str]
    check: Callable[[str], bool] | None = None


def _format(kind: str, markers: str, pattern: str, check: Callable[[str], bool] | None = None) -> Format:
    return Format(kind, tuple(markers.split()), re.compile(pattern), check)


def _mixed(text: str) -> bool:
    """Keys mix digits and letters of both cases; class names and words do not."""
    return bool(re.search(r"\d", text) and re.search(r"[a-z]", text) and re.search(r"[A-Z]", text))


def _has_digit(text: str) -> bool:
    return re.search(r"\d", text) is not None


def _jwt(text: str) -> bool:
    return text.count(".") >= 1


FORMATS: tuple[Format, ...] = (
    _format("aws-key", "AKIA ASIA ABIA ACCA", r"((?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16})(?![A-Za-z0-9+/])"),
    _format("github-token", "ghp_ gho_ ghu_ ghs_ ghr_", r"(gh[pousr]_[A-Za-z0-9]{30,255})"),
    _format("github-token", "github_pat_", r"(github_pat_[A-Za-z0-9_]{22,255})"),
    _format(
        "gitlab-token",
        "glpat- gldt- glrt- glptt- glft- glsoat- glcbt- glagent-",
        r"(gl[a-z]{2,6}-[A-Za-z0-9_.-]{20,300})",
    ),
    _format("anthropic-key", "sk-ant-", r"(sk-ant-[A-Za-z0-9_-]{16,300})"),
    _format("openai-key", "sk-", _START + r"(sk-[A-Za-z0-9_-]{20,300})", _mixed),
    _format(
        "slack-token",
        "xoxb- xoxp- xoxa- xoxr- xoxs- xoxo- xoxe- xoxc- xoxd- xapp-",
        r"((?:xox[a-z]|xapp)-[A-Za-z0-9%.-]{10,400})",
    ),
    _format(
        "slack-webhook",
        "hooks.slack.com/",
        r"(hooks\.slack\.com/(?:services|workflows|triggers)/[A-Za-z0-9/_-]{20,300})",
    ),
    _format("discord-webhook", "/api/webhooks/", r"(/api/webhooks/\d{15,22}/[A-Za-z0-9_-]{30,120})"),
    _format("telegram-token", ":AA", r"((?<!\d)\d{8,10}:AA[A-Za-z0-9_-]{32,34})(?![A-Za-z0-9_-])"),
    _format("google-key", "AIza", r"(?:(?<![A-Za-z0-9+/])|(?<=\\[nrt]))(AIza[A-Za-z0-9_-]{35})(?![A-Za-z0-9_-])"),
    _format("google-token", "ya29.", r"(ya29\.[A-Za-z0-9_-]{20,2000})"),
    _format("google-secret", "GOCSPX-", r"(GOCSPX-[A-Za-z0-9_-]{20,60})"),
    _format("stripe-key", "_live_ _test_", r"((?:sk|rk)_(?:live|test)_[A-Za-z0-9]{16,250})"),
    _format("webhook-secret", "whsec_", r"(whsec_[A-Za-z0-9+/=]{24,120})"),
    _format("npm-token", "npm_", _START + r"(npm_[A-Za-z0-9]{36})(?![A-Za-z0-9])"),
    _format("pypi-token", "pypi-AgE", r"(pypi-AgE[A-Za-z0-9_-]{40,400})"),
    _format("huggingface-token", "hf_", _START + r"(hf_[A-Za-z0-9]{30,60})(?![A-Za-z0-9_])", _mixed),
    _format("sendgrid-key", "SG.", _START + r"(SG\.[A-Za-z0-9_-]{16,32}\.[A-Za-z0-9_-]{16,64})"),
    _format("digitalocean-token", "dop_v1_ doo_v1_ dor_v1_", r"(do[opr]_v1_[a-f0-9]{64})"),
    _format("shopify-token", "shpat_ shpca_ shppa_ shpss_", r"(shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32})"),
    _format("databricks-token", "dapi", _START + r"(dapi[a-f0-9]{32})(?![a-f0-9])"),
    _format("linear-key", "lin_api_ lin_oauth_", r"(lin_(?:api|oauth)_[A-Za-z0-9]{32,80})"),
    _format(
        "notion-token", "ntn_ secret_", _START + r"((?:ntn_|secret_)[A-Za-z0-9]{40,60})(?![A-Za-z0-9_])", _has_digit
    ),
    _format("vault-token", "hvs. hvb. hvr.", _START + r"(hv[sbr]\.[A-Za-z0-9_-]{24,300})"),
    _format("groq-key", "gsk_", _START + r"(gsk_[A-Za-z0-9]{40,80})"),
    _format("xai-key", "xai-", _START + r"(xai-[A-Za-z0-9]{60,120})"),
    _format("replicate-token", "r8_", _START + r"(r8_[A-Za-z0-9]{37})(?![A-Za-z0-9])"),
    _format("perplexity-key", "pplx-", _START + r"(pplx-[A-Za-z0-9]{40,64})"),
    _format("tavily-key", "tvly-", _START + r"(tvly-[A-Za-z0-9-]{24,64})", _has_digit),
    _format("age-key", "AGE-SECRET-KEY-", r"(AGE-SECRET-KEY-1[A-Z0-9]{50,70})"),
    _format(
        "azure-key", "AccountKey= SharedAccessKey=", r"(?:AccountKey|SharedAccessKey)=([A-Za-z0-9+/]{20,120}={0,2})"
    ),
    _format("jwt", "eyJ", _START + r"(eyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]+){0,4})", _jwt),
    _format("url-password", "://", r"://[^\s/?#@:\"'<>\\\[\]]{0,256}:([^\s/?#\"'<>\\]{1,512})@(?=[A-Za-z0-9\[])"),
    _format("url-token", "://", r"://([A-Za-z0-9_-]{20,256})@(?=[A-Za-z0-9\[])"),
)

KEY_WORDS: tuple[str, ...] = (
    "authorization", "password", "passwd", "passphrase", "passcode", "pwd", "secret", "token", "api-key", "api_key",
    "apikey", "access-key", "access_key", "accesskey", "private-key", "private_key", "privatekey", "signing_key",
    "signing-key", "encryption_key", "account_key", "auth-key", "auth_key", "authkey", "credential", "cookie",
    "bearer", "signature=",
)  # fmt: skip
"""Lower-case words after which a secret may stand in text."""

_MAX_NAME = 200
"""Characters of a name that are looked at."""

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_PASSWORDS = frozenset(
    {"password", "passwd", "passphrase", "passcode", "pwd", "pass", "passwords", "userpassword", "pin"}
)
_SECRETS = frozenset({"secret", "secrets", "clientsecret", "credential", "credentials", "creds"})
_TOKENS = frozenset({"token", "accesstoken", "authtoken", "jwt", "sessiontoken", "bearer", "apitoken", "refreshtoken"})
_KEYS = frozenset(
    {"api", "access", "private", "secret", "signing", "encryption", "master", "auth", "account", "shared", "service"}
)
_HEADERS = frozenset(
    {"authorization", "proxyauthorization", "cookie", "setcookie", "auth", "xauth", "cookies", "authentication"}
)
_HARMLESS_TOKENS = frozenset(
    "page next prev previous continuation start cursor max min total num stop cancel cancellation pad eos bos unk "
    "mask sync progress special".split()
)


def field_words(name: str) -> list[str]:
    """The lower-case words of a name in any spelling: `X-Api-Key`, `apiKey`, `API_KEY`."""
    return [w.lower() for w in _WORDS.findall(name[:_MAX_NAME])]


def field_kind(name: str) -> str:
    """The kind of secret a field of this name holds ("password", "token", …), or "".

    The last word decides (`reset_token`, not `token_count`), in any spelling: `X-Api-Key`,
    `apiKey`, `API_KEY`. Tokens that page through lists or count text are none.
    """
    return _kind_of(name[:_MAX_NAME])


@lru_cache(maxsize=2048)
def _kind_of(name: str) -> str:
    words = field_words(name)
    if not words:
        return ""
    joined = "".join(words)
    last = words[-1]
    before = words[-2] if len(words) > 1 else ""
    if joined in _HEADERS:
        return "cookie" if "cookie" in joined else "authorization"
    if last in _PASSWORDS or joined.endswith(("password", "passwd", "passphrase")):
        return (
            ""
            if last in ("pass", "pin") and len(words) > 1 and before not in ("db", "user", "smtp", "ftp")
            else "password"
        )
    if last in _SECRETS or joined.endswith("secret"):
        return "secret"
    if last in _TOKENS:
        return "" if before in _HARMLESS_TOKENS else "token"
    if last == "key" and before in _KEYS:
        return "key"
    if joined.endswith(("apikey", "accesskey", "secretkey", "privatekey", "authkey")):
        return "key"
    return "cookie" if last == "cookie" else ""
