"""Finding secrets in text and JSON, and putting `[redacted:kind]` in their place.

Three ways, none of them a guess about randomness: values that are known (with their base64,
URL-encoded, escaped and hexadecimal forms), formats that vendors publish, and the names of the
fields they stand in. Commit hashes, UUIDs, images and integrity hashes stay as they are.
Time is linear in the length of the text.
"""

from __future__ import annotations

import base64
import html
import json
import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast
from urllib.parse import quote, quote_plus

from .patterns import FORMATS, KEY_WORDS, Format, field_kind, field_words

__all__ = ["Redactor", "StreamRedactor", "environment_redactor", "known_secrets"]

Span = tuple[int, int, str]

_MARKED = tuple((marker, one) for one in FORMATS for marker in one.markers)
_MIN_KNOWN = 6
_SHORT = 200
"""Characters of a text that is remembered when nothing was found in it: names, reasons, paths come again and again."""
_REMEMBERED = 4096
_COMMON = frozenset(
    "password passwd changeme secret secrets default example localhost postgres admin administrator testing "
    "development production undefined disabled enabled required anonymous username".split()
)
_PLACEHOLDER = re.compile(
    r"(?:#[0-9A-Fa-f]{3,8}|\$\{?[A-Za-z_][\w.:-]*\}?|%\(\w+\)s|<[^<>]{0,60}>|\{\{?[^{}]{0,60}\}?\}|%[A-Za-z_]\w*%|%[sd]|\.{3,}|[*xX•]{3,}|\[redacted:[\w-]*\].*"
    r"|null|none|nil|true|false|undefined|string|str|number|boolean|optional|required|your[-_ ].*|change_?me|redacted"
    r"|\(.*|\[.*)",
    re.IGNORECASE | re.DOTALL,
)
_AFTER_WORD = re.compile(r"([\w-]{0,40})((?:\\{0,3}[\"'])?\]?)([^\S\n]{0,8}(?:=>|:=|=|:)[^\S\n]{0,8}|[^\S\n]{1,4})")
_QUOTED = re.compile(r"(\\{0,3})([\"'])")
_BARE = re.compile(r"[^\s\"'`,;<>(){}\[\]\\&|]{1,4096}")
_HEADER_VALUE = re.compile(
    r"((?i:bearer|basic|token|digest|negotiate|apikey|key|aws4-hmac-sha256)[ \t]+)?([^\r\n\"'\\]+)"
)
_LINE_REST = re.compile(r"[^\r\n\"'\\]{1,8192}")
_COOKIE = re.compile(r"[\w.-]{1,200}=[^\s;]{3}")
_CODE = re.compile(r"[A-Za-z_][\w.]*[\[(]|[A-Za-z_]\w*(\.[A-Za-z_]\w*)+\W*$|[A-Za-z_]\w*\W*$|.*\s")
_DIGIT = re.compile(r"\d")
_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z_-]*")
_NAMES = frozenset(
    "password passwd pass pw pwd secret token key apikey accesstoken value userpass yourpassword yourtoken yourkey "
    "yourapikey jwt bearer credentials passphrase".split()
)
_BEARER_VALUE = re.compile(r"[ \t]{1,4}([A-Za-z0-9._~+/=-]{8,8192})")
_ENV_NAME = re.compile(r"[A-Z][A-Z0-9_]*")
_SECRET_NAME = re.compile(
    r"(?:^|_)(?:API_?KEY|KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASS|PASSPHRASE|PWD|CREDENTIALS?|PAT|DSN|AUTH|COOKIE|WEBHOOK_URL)S?$",
    re.IGNORECASE,
)
_PEM_BEGIN = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_PEM_END = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_PEM_LINE = re.compile(
    r"(?:\r?\n|\\r?\\n|\\n)[^\S\n]{0,8}(?:[+\-|>]?[^\S\n]?)"
    r"(?:[A-Za-z0-9+/=]{16,200}|[A-Za-z-]{2,20}: [^\n\\]{0,200}|(?=\r?\n|\\n))"
)

_PEM_BODY = re.compile(r"[^\S\n]{0,8}(?:\r?\n|\\{1,4}[nr]|[A-Za-z0-9+/=]{16})")
"""What follows the first line of a key; in prose about keys a quote does."""
_PEM_TAIL = re.compile(r"[+\-|> \t]{0,4}[A-Za-z0-9+/=]{4,200}\s*")
_PEM_HOLD = 20_000
"""A private key of 16,384 bits has fewer characters than this."""
_MAX_VALUE = 8192


def known_secrets(env: Mapping[str, str]) -> tuple[str, ...]:
    """The values of environment variables whose names say that they hold secrets.

    Paths, flags, small numbers and everyday words are left out: they would be found everywhere.
    """
    found: list[str] = []
    for name, value in env.items():
        if name in ("PWD", "OLDPWD") or not _SECRET_NAME.search(name):
            continue
        plain = value.strip()
        if plain.startswith(("/", "~", "./")) or (plain.isdigit() and len(plain) < 9):
            continue
        found.append(plain)
    return tuple(found)


def _forms(secret: str) -> Iterator[str]:
    """The spellings in which a known secret may turn up."""
    yield secret
    raw = secret.encode("utf-8", "surrogatepass")
    encoded = (
        quote(secret, safe="", errors="replace"),
        quote(secret, errors="replace"),
        quote_plus(secret, errors="replace"),
    )
    yield from encoded
    yield from (re.sub(r"%[0-9A-F]{2}", lambda m: m[0].lower(), e) for e in encoded)
    yield quote(encoded[0], safe="")
    for ascii_only in (True, False):
        escaped = json.dumps(secret, ensure_ascii=ascii_only)[1:-1]
        yield escaped
        yield json.dumps(escaped)[1:-1]
    yield html.escape(secret)
    yield shlex.quote(secret)[1:-1] if shlex.quote(secret) != secret else secret
    yield raw.hex()
    yield raw.hex().upper()
    for shift in range(3):
        # Of the base64 of any text around the secret, the characters that depend on the secret alone.
        whole = base64.b64encode(b"\0" * shift + raw).decode()
        first = (shift * 8 + 5) // 6
        last = (shift + len(raw)) * 8 // 6
        core = whole[first:last]
        yield core
        yield core.replace("+", "-").replace("/", "_")
        yield quote(core, safe="")


class Redactor:
    """Removes secrets from text and JSON values. Safe to share between threads.

    Args:
        known: secret values to remove wherever they stand; very short or common ones are ignored.
    """

    def __init__(self, known: Iterable[str] = ()) -> None:
        forms: dict[str, None] = {}
        for value in known:
            for secret in _parts(value):
                for form in _forms(secret):
                    if len(form) >= _MIN_KNOWN:
                        forms[form] = None
        self._known = tuple(sorted(forms, key=len, reverse=True))
        self._clean: set[str] = set()

    # ------------------------------------------------------------ text

    def text(self, text: str) -> str:
        """The text with every secret replaced by `[redacted:kind]`."""
        if len(text) < _MIN_KNOWN:
            return text
        if text in self._clean:
            return text
        spans = list(self._find(text))
        if spans:
            return _replace(text, spans)
        if len(text) <= _SHORT:
            if len(self._clean) >= _REMEMBERED:
                self._clean.clear()
            self._clean.add(text)
        return text

    def _find(self, text: str) -> Iterator[Span]:
        for form in self._known:
            at = text.find(form)
            while at >= 0:
                yield at, at + len(form), "known"
                at = text.find(form, at + len(form))
        if "PRIVATE KEY" in text:
            yield from _pem_blocks(text)
        for one in _marked(text):
            for match in one.pattern.finditer(text):
                if (one.check is None or one.check(match[1])) and not _names_something(match[1]):
                    yield match.start(1), match.end(1), one.kind
        yield from _after_words(text)

    # ------------------------------------------------------------ JSON

    def json(self, value: Any) -> Any:
        """A copy of a JSON value without secrets: by field name, and in every text (keys too)."""
        return self._walk(value, "")

    def _walk(self, value: Any, parent: str) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return self._object(cast("Mapping[Any, Any]", value), parent)
        if isinstance(value, list | tuple):
            return self._array(list(cast("Iterable[Any]", value)), parent)
        return value

    def _object(self, value: Mapping[Any, Any], parent: str) -> dict[str, Any]:
        result: dict[str, Any] = {}
        named = _named_kind(value)
        for key, item in value.items():
            name = str(key)
            # The members of a JSON Schema's `properties` are names of fields, not values.
            kind = "" if parent == "properties" and isinstance(item, Mapping | bool) else field_kind(name)
            if not kind and named and name.lower() in ("value", "values", "default"):
                kind = named
            shown = self.text(name)
            while shown in result:
                shown += "'"
            result[shown] = self._hide(item, kind) if kind else self._walk(item, name)
        return result

    def _array(self, items: list[Any], parent: str) -> list[Any]:
        result: list[Any] = []
        hide_next = ""
        for item in items:
            if hide_next and isinstance(item, str) and not item.startswith("-"):
                result.append(self._hide(item, hide_next))
                hide_next = ""
                continue
            result.append(self._walk(item, parent))
            hide_next = field_kind(item) if isinstance(item, str) and _is_name(item, len(items)) else ""
        return result

    def _hide(self, value: Any, kind: str) -> Any:
        """Everything below a secret field; what cannot be a secret (booleans, null, "") stays."""
        if isinstance(value, bool) or value is None or value == "":
            return value
        if isinstance(value, int | float):
            return value if kind in ("token", "cookie") else f"[redacted:{kind}]"
        if isinstance(value, Mapping):
            return {self.text(str(k)): self._hide(v, kind) for k, v in cast("Mapping[Any, Any]", value).items()}
        if isinstance(value, list | tuple):
            return [self._hide(v, kind) for v in cast("Iterable[Any]", value)]
        text = str(value)
        return text if text.startswith("[redacted:") and text.endswith("]") else f"[redacted:{kind}]"

    # ------------------------------------------------------------ streams

    def stream(self) -> StreamRedactor:
        """For text that arrives in pieces: nothing leaves before its line is whole."""
        return StreamRedactor(self)


def environment_redactor() -> Redactor:
    """A redactor that knows the secrets in this process's environment."""
    return Redactor(known_secrets(os.environ))


class StreamRedactor:
    """Redacts by whole lines, and keeps a private key together over its lines.

    Args:
        redactor: what to remove.
        limit: most characters held back; a longer line or key block is redacted in parts.
    """

    def __init__(self, redactor: Redactor, *, limit: int = 1_000_000) -> None:
        self._redactor = redactor
        self._limit = limit
        self._held: list[str] = []
        self._size = 0

    def feed(self, piece: str) -> str:
        """Take a piece; return what can be shown now, possibly nothing."""
        self._held.append(piece)
        self._size += len(piece)
        if "\n" not in piece and self._size < self._limit:
            return ""
        text = "".join(self._held)
        cut = text.rfind("\n") + 1
        begin = max((m.start() for m in _PEM_BEGIN.finditer(text)), default=-1)
        if begin >= 0 and len(text) - begin < _PEM_HOLD and not _PEM_END.search(text, begin):
            cut = text.rfind("\n", 0, begin) + 1
        if len(text) - cut >= self._limit:
            cut = len(text)
        self._held, self._size = [text[cut:]], len(text) - cut
        return self._redactor.text(text[:cut])

    def close(self) -> str:
        """The rest."""
        text = "".join(self._held)
        self._held, self._size = [], 0
        return self._redactor.text(text)


def _parts(value: str) -> Iterator[str]:
    """A known secret, and its long lines when it has several: output may show them one by one."""
    secret = value.strip()
    if len(secret) < _MIN_KNOWN or secret.lower() in _COMMON or len(set(secret)) < 3:
        return
    yield secret
    if "\n" in secret:
        yield from (line.strip() for line in secret.splitlines() if len(line.strip()) >= 16 and "-----" not in line)


def _replace(text: str, spans: list[Span]) -> str:
    """Put the marks in; of overlapping finds the union is removed, named after the first."""
    spans.sort(key=lambda s: (s[0], -s[1]))
    out: list[str] = []
    done = 0
    end = 0
    for start, stop, kind in spans:
        if start < end:
            end = done = max(end, stop)
            continue
        out.append(text[done:start])
        out.append(f"[redacted:{kind}]")
        end = done = stop
    out.append(text[done:])
    return "".join(out)


def _is_name(text: str, siblings: int) -> bool:
    """Whether an element of a list names the next one: `--token`, or the first of a pair."""
    return len(text) < 60 and (re.fullmatch(r"--?[A-Za-z][\w-]*", text) is not None or siblings == 2)


def _named_kind(value: Mapping[Any, Any]) -> str:
    """The kind for `{"name": "Authorization", "value": …}`."""
    for key in ("name", "key", "header", "field"):
        name = value.get(key)
        if isinstance(name, str) and len(name) < 80 and (kind := field_kind(name)):
            return kind
    return ""


def _pem_blocks(text: str) -> Iterator[Span]:
    """Private keys from BEGIN to END; a cut one as far as its lines look like a key."""
    begins = [b for b in _PEM_BEGIN.finditer(text) if _PEM_BODY.match(text, b.end())]
    ends = list(_PEM_END.finditer(text))
    if ends and (not begins or ends[0].start() < begins[0].start()):
        yield _tail_of_key(text, ends[0].start()), ends[0].end(), "private-key"
    done = at = 0
    for i, begin in enumerate(begins):
        if begin.start() < done:
            continue
        while at < len(ends) and ends[at].start() < begin.end():
            at += 1
        limit = begins[i + 1].start() if i + 1 < len(begins) else len(text)
        if at < len(ends) and ends[at].start() < limit:
            done = ends[at].end()
        else:
            done = begin.end()
            while line := _PEM_LINE.match(text, done):
                done = line.end()
        yield begin.start(), done, "private-key"


def _tail_of_key(text: str, start: int) -> int:
    """Where the lines of a key begin whose head was cut off."""
    while start > 0:
        cut = text.rfind("\n", max(start - 300, 0), start - 1) + 1
        if not _PEM_TAIL.fullmatch(text, cut, start):
            break
        start = cut
    return start


def _marked(text: str) -> Iterable[Format]:
    """The formats of which a marker is in the text, each once and in their order: mostly none."""
    return dict.fromkeys([one for marker, one in _MARKED if marker in text])


def _after_words(text: str) -> Iterator[Span]:
    """Values that stand after a telling name: `password=…`, `"api_key": "…"`, `Authorization: …`, `--token …`."""
    lower = text.lower()
    if len(lower) != len(text):  # a character whose lower case is longer: positions would shift
        lower = re.sub(r"[A-Z]+", lambda m: m[0].lower(), text)
    for word in [word for word in KEY_WORDS if word in lower]:
        at = lower.find(word)
        while at >= 0:
            stop = at + len(word)
            span = _value_after(text, at, stop, word)
            if span:
                yield span
                stop = max(stop, span[1])
            at = lower.find(word, stop)


def _value_after(text: str, at: int, stop: int, word: str) -> Span | None:
    if word == "bearer":
        match = _BEARER_VALUE.match(text, stop)
        good = match and (re.search(r"\d", match[1]) or len(match[1]) >= 32)
        return (match.start(1), match.end(1), "token") if match and good else None
    if word == "signature=":
        match = _BARE.match(text, stop)
        in_url = text[max(at - 8, 0) : at].rpartition("&")[1] or text[max(at - 8, 0) : at].rpartition("?")[1]
        return (stop, match.end(), "signature") if match and in_url and len(match[0]) >= 16 else None
    after = _AFTER_WORD.match(text, stop)
    if not after:
        return None
    start_of_name = at
    while (
        start_of_name > 0
        and at - start_of_name < 60
        and (text[start_of_name - 1].isalnum() or text[start_of_name - 1] in "_-.")
    ):
        start_of_name -= 1
    name = text[start_of_name : after.end(1)]
    kind = field_kind(name)
    if not kind or text[max(start_of_name - 1, 0) : start_of_name] == ":":  # a part of a resource name
        return None
    separator = after[3].strip()
    if not separator and (not name.startswith("--") or after[2]):
        return None  # a blank separates only an option and its value
    if kind in ("authorization", "cookie") and separator == ":":
        return _header(text, after.end(), kind)
    exported = after[2] + after[3] == "=" and _ENV_NAME.fullmatch(name) is not None
    return _assigned(text, after.end(), start_of_name, name, kind, exported)


def _header(text: str, start: int, kind: str) -> Span | None:
    """A header's whole value, without the scheme; its beginning tells whether it is one."""
    if quote := _QUOTED.match(text, start):
        start = quote.end()
    head = _HEADER_VALUE.match(text[start : start + 256])
    if not head:
        return None
    value = head[2].strip(" \t`.,;)")
    if len(value) < 6 or _PLACEHOLDER.fullmatch(value) or _names_something(value):
        return None
    if kind == "cookie":
        good = _COOKIE.match(value) is not None
    else:
        good = head[1] or (len(value) >= 12 and not _CODE.match(value)) or (_DIGIT.search(value) and " " not in value)
    if not good:
        return None
    start += head.start(2)
    rest = _LINE_REST.match(text, start)
    return (start, start + len(rest[0].rstrip(" \t`")), kind) if rest else None


def _names_something(value: str, name: str = "") -> bool:
    """Whether a value is a word about secrets rather than one: `next_token`, `TOKEN`, the field's own name."""
    word = value.strip("`.,;:'\"")
    if _DIGIT.search(word) or not _IDENTIFIER.fullmatch(word):
        return False
    plain = re.sub(r"[\W_]", "", word).lower()
    if plain in _NAMES or (name and plain == re.sub(r"[\W_]", "", name).lower()):
        return True
    words = field_words(word)
    return len(words) > 1 and words[-1] in ("token", "key")


def _assigned(text: str, start: int, name_at: int, name: str, kind: str, exported: bool) -> Span | None:
    quote = _QUOTED.match(text, start)
    if quote:
        end = _closing_quote(text, quote.end(), quote[1], quote[2])
        value = text[quote.end() : end]
        if len(value) < 3 or (re.search(r"\s", value) and kind != "password") or _PLACEHOLDER.fullmatch(value):
            return None
        if re.search(r"\s", value) and len(value.split()) > 1 and not re.search(r"\d", value):
            return None  # a sentence, most likely a label
        if _names_something(value, name):
            return None
        return quote.end(), end, kind
    match = _BARE.match(text, start)
    if not match or len(match[0]) < 4 or _PLACEHOLDER.fullmatch(match[0].rstrip(".,:")):
        return None
    value = match[0]
    following = text[match.end() : match.end() + 1]
    in_url = name_at > 0 and text[name_at - 1] in "?&"
    telling = (re.search(r"\d", value) and len(value) >= 6) or re.search(r"[!@#$%^*+/=~]", value)
    code = (following in ("(", "[", "{") and following) or re.fullmatch(r"[A-Za-z_][\w]*(\.[A-Za-z_]\w*)+", value)
    if code or not (in_url or exported or telling or name.startswith("--")):
        return None
    return match.start(), match.end(), kind


def _closing_quote(text: str, start: int, escapes: str, quote: str) -> int:
    """Where a quoted value ends: at the same quote with the same escaping, or at the line's end."""
    closing = escapes + quote
    bound = min(len(text), start + _MAX_VALUE)
    line = text.find("\n", start, bound)
    line = bound if line < 0 else line
    at = text.find(closing, start, line)
    while at > start and not escapes and text[at - 1] == "\\":
        backslashes = at - len(text[start:at].rstrip("\\")) - start
        if backslashes % 2 == 0:
            break
        at = text.find(closing, at + 1, line)
    return line if at < 0 else at
