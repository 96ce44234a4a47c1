"""What went wrong, in one sentence: every exception of an SDK or of HTTP becomes a `Failure`.

No SDK exception, no page of HTML and no key ever reaches the reader.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from .model import ModelError, ModelUnavailable
from .retry import RETRIED, Failure, retry_after
from .wire import as_dict, as_text

__all__ = ["AnswerBroken", "AnswerRefused", "Explainer"]

_KEYS = re.compile(r"\b(?:sk|pk|rk|gsk|xai|hf|nvapi|r8)[-_][A-Za-z0-9_\-*.]{6,}|(?<=Bearer )\S+")
_TOO_LONG = re.compile(
    r"context.{0,20}(length|window|size|limit)|too (long|many tokens|large)|prompt.{0,12}exceeds", re.I
)
_NEVER = frozenset({"insufficient_quota", "billing_hard_limit_reached", "billing_error", "invalid_request_error"})
_PASSING = frozenset(
    {"overloaded_error", "api_error", "rate_limit_error", "timeout_error", "server_error", "rate_limit_exceeded"}
    | {"server_is_overloaded", "slow_down", "vector_store_timeout"}
)


class AnswerBroken(Exception):
    """The stream ended early or is not what the protocol says. `why` completes "the model's answer …"."""

    def __init__(self, why: str, *, retry: bool = True) -> None:
        super().__init__(why)
        self.why = why
        self.retry = retry


class AnswerRefused(Exception):
    """The stream carried an error of the provider's instead of an answer."""

    def __init__(self, body: Any) -> None:
        super().__init__("error in the stream")
        self.body = body


class Explainer:
    """Explains the exceptions of one endpoint.

    Args:
        who: how the reader knows the endpoint ("Anthropic", "the server at http://…").
        url: where it is.
        key: the secret that must not appear in any text.
        key_name: the environment variable that holds it.
        stall: seconds of silence after which a read fails.
        local: True on this machine.
    """

    def __init__(self, *, who: str, url: str, key: str, key_name: str, stall: float, local: bool) -> None:
        self._who = who
        self._where = _place(url)
        self._key = key
        self._key_name = key_name
        self._stall = stall
        self._local = local

    def __call__(self, exc: Exception, now: datetime) -> Failure:
        """What `exc` means."""
        if isinstance(exc, ModelError | ModelUnavailable):
            return Failure(error=exc)
        if isinstance(exc, AnswerBroken):
            return self._broken(exc.why, retry=exc.retry)
        if isinstance(exc, AnswerRefused):
            return self._told(None, exc.body, {}, now)
        status = getattr(exc, "status_code", None)
        if isinstance(status, int):
            return self._refused(exc, status, now)
        kinds = _kinds(exc)
        if kinds & {"APITimeoutError", "ReadTimeout"}:
            return self._timed_out(exc, kinds)
        if kinds & {"ConnectError", "ConnectTimeout", "APIConnectionError", "UnsupportedProtocol", "ProxyError"}:
            return self._unreachable(exc)
        if kinds & {"HTTPError", "TransportError", "StreamError"}:
            return self._broken("broke off: the connection was lost")
        if "APIError" in kinds:
            return self._told(None, getattr(exc, "body", None) or {"message": str(exc)}, {}, now)
        if isinstance(exc, ValueError | TypeError | KeyError | AttributeError | IndexError | RecursionError):
            return self._broken("cannot be read: it is not what the protocol says")
        return Failure(
            error=ModelError(f"{self._who} could not be asked: {self._clean(str(exc) or type(exc).__name__)}")
        )

    # ------------------------------------------------------------ kinds of failure

    def _broken(self, why: str, *, retry: bool = True) -> Failure:
        fix = "try again" if retry else "check the address and the server, or use another model"
        error = ModelError(f"the answer of {self._who} {why}", fix=fix, retryable=retry)
        return Failure(error=error, retry=retry)

    def _timed_out(self, exc: Exception, kinds: set[str]) -> Failure:
        causes = _kinds(exc.__cause__)
        if "ConnectTimeout" in kinds | causes or "PoolTimeout" in kinds | causes:
            return self._unreachable(exc)
        error = ModelError(
            f"{self._who} sent nothing for {self._stall:g} s", fix="try again, or use another model", retryable=True
        )
        return Failure(error=error, retry=True, stall=True)

    def _unreachable(self, exc: Exception) -> Failure:
        kinds = _kinds(exc) | _kinds(exc.__cause__)
        if kinds & {"RemoteProtocolError", "ReadError", "WriteError", "CloseError"}:
            return self._broken("broke off: the connection was lost")
        fix = "start the server, or choose another model with --model" if self._local else "check the network"
        error = ModelUnavailable(f"{self._who} cannot be reached at {self._where}", fix=fix)
        return Failure(error=error, retry=not self._local)

    def _refused(self, exc: Exception, status: int, now: datetime) -> Failure:
        response = getattr(exc, "response", None)
        headers: Mapping[str, str] = getattr(response, "headers", {})
        body = getattr(exc, "body", None)
        return self._told(None if status < 300 else status, body, headers, now)

    def _told(self, status: int | None, body: Any, headers: Mapping[str, str], now: datetime) -> Failure:
        """An error that the provider described. `status` is None for one inside a stream."""
        said, kind = _description(body)
        retry = status in RETRIED if status is not None else kind in _PASSING
        if kind in _NEVER:
            retry = False
        retry = {"true": True, "false": False}.get(headers.get("x-should-retry", "").lower(), retry)
        what = f"{self._who} answered {status}" if status is not None else f"{self._who} broke off with an error"
        text = self._clean(said) or ("" if not _is_page(body) else "a web page instead of an answer")
        error = ModelError(
            f"{what}: {text}" if text else what, fix=self._fix(status, said), status=status, retryable=retry
        )
        return Failure(error=error, retry=retry, after=retry_after(headers, now))

    def _fix(self, status: int | None, said: str) -> str:
        if status in (401, 403):
            return f"check the key in {self._key_name}" if self._key_name else "check the key"
        if status == 404:
            return "check the name of the model and the address; `geode models list` shows what is there"
        if status == 413 or _TOO_LONG.search(said):
            return "the conversation is too long for the model: begin a new one, or use a model with a larger context"
        if status == 429:
            return "wait, or use another model"
        if status is not None and (status in RETRIED or status >= 500):
            return "try again later"
        if status is not None and status < 400:
            return "check the address of the server: it redirects"
        return ""

    def _clean(self, text: str) -> str:
        """One line of at most 300 characters without keys."""
        if self._key:
            text = text.replace(self._key, "[key]")
        text = " ".join(_KEYS.sub("[key]", text).split())
        return text if len(text) <= 300 else text[:299] + "…"


def _kinds(exc: BaseException | None) -> set[str]:
    """Names of an exception's classes: both SDKs and httpx2 are told apart without importing them."""
    return {c.__name__ for c in type(exc).__mro__} if exc is not None else set()


def _description(body: Any) -> tuple[str, str]:
    """The provider's sentence and its code, out of the forms that error bodies have."""
    if isinstance(body, str):
        try:
            body = json.loads(body)
        except ValueError:
            return ("" if _is_page(body) else body), ""
    outer = as_dict(body)
    if not outer:
        return "", ""
    inner = as_dict(outer.get("error")) or outer
    said = inner.get("message") or outer.get("message") or outer.get("detail") or outer.get("error") or ""
    text = said if isinstance(said, str) else json.dumps(said, ensure_ascii=False)
    code = as_text(inner.get("code")) or as_text(inner.get("type"))
    return text, code


def _is_page(body: Any) -> bool:
    return (
        isinstance(body, str)
        and "<" in body[:200]
        and bool(re.search(r"<(!doctype|html|head|body|h1|title)\b", body, re.I))
    )


def _place(url: str) -> str:
    """The address without user, password and query."""
    parts = urlsplit(url)
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{parts.hostname or ''}{port}{parts.path.rstrip('/')}"
