"""A declared tool bound to an HTTP request."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import quote, urlencode, urlsplit

from ...core.effects import Effect
from ...core.errors import ConfigError, InvalidArguments, Missing
from ...core.ports import HttpRequest, HttpResponse
from ..templates import Template, as_text
from ..tool import ToolContext, ToolOutput, ToolSpec, Touch
from .common import Arguments, NamedVariables, Run, all_used, declared_touches, only_keys, properties_of, texts_of

__all__ = ["HttpBinding"]

_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")


@dataclass(frozen=True, slots=True)
class HttpBinding:
    """One request. Arguments are percent-encoded in the URL; they can never change its host.

    Without `body`, POST, PUT and PATCH send the arguments that are used nowhere else as a JSON object.
    """

    effects: frozenset[Effect] | None
    method: str
    url: Template
    query: tuple[tuple[str, Template], ...]
    headers: tuple[tuple[str, Template], ...]
    body: Any
    rest: frozenset[str]

    @classmethod
    def parse(cls, value: Any, parameters: Mapping[str, Any], effects: frozenset[Effect] | None) -> HttpBinding:
        """Read `{"url", "method", "query", "headers", "body"}`.

        Raises:
            ConfigError
        """
        given: dict[str, Any] = cast("dict[str, Any]", value) if isinstance(value, dict) else {"url": value}
        only_keys(given, ("method", "url", "query", "headers", "body"), "http")
        method = str(given.get("method", "GET")).upper()
        if method not in _METHODS:
            raise ConfigError(f"unknown HTTP method {method!r}", fix=f"known: {', '.join(_METHODS)}")
        names = properties_of(parameters)
        url = _url(given.get("url"), names)
        query = tuple((k, Template.parse(v, names)) for k, v in texts_of(given.get("query", {}), "query").items())
        headers = tuple((k, Template.parse(v, names)) for k, v in texts_of(given.get("headers", {}), "headers").items())
        body = _compiled(given.get("body"), names)
        used = url.arguments.union(*(t.arguments for _, t in (*query, *headers)), _used(body))
        rest = frozenset[str]()
        if "body" not in given and method in ("POST", "PUT", "PATCH"):
            rest = frozenset(names - used)
        all_used(parameters, used | rest, "'http'")
        reached = None if effects is None else effects | {Effect.NETWORK}
        return cls(reached, method, url, query, headers, body, rest)

    def address(self, arguments: Arguments, environ: Mapping[str, str]) -> str:
        """The URL of one call.

        Raises:
            InvalidArguments: an argument of the path is not given, or is a dot segment.
        """
        for name in self.url.arguments:
            if str(arguments.get(name)) in (".", "..", "", "None"):
                problem = f"$.{name}: a part of the address cannot be empty or a dot"
                raise InvalidArguments(problem, problems=(problem,))
        base = self.url.render(arguments, environ, quote=lambda text: quote(text, safe="")) or ""
        pairs: list[tuple[str, str]] = []
        for key, template in self.query:
            lone = template.only_argument
            value = arguments.get(lone) if lone else None
            texts: list[str | None] = (
                [as_text(v) for v in cast("list[Any]", value)]
                if isinstance(value, list)
                else [template.render(arguments, environ)]
            )
            pairs += [(key, text) for text in texts if text is not None]
        if not pairs:
            return base
        return f"{base}{'&' if '?' in base else '?'}{urlencode(pairs)}"

    def touches(self, arguments: Arguments) -> list[Touch]:
        target = self.address(arguments, os.environ)
        return [
            Touch(Effect.NETWORK, target, kind="url"),
            *declared_touches(self.effects, but=frozenset({Effect.NETWORK})),
        ]

    def view(self, arguments: Arguments) -> str:
        lines = [f"{self.method} {self.address(arguments, NamedVariables())}"]
        body = self._body(arguments, NamedVariables())
        if body is not None:
            lines.append(body if isinstance(body, str) else json.dumps(body, ensure_ascii=False))
        return "\n".join(lines)

    def _body(self, arguments: Arguments, environ: Mapping[str, str]) -> Any:
        if self.rest or (self.body is None and self.method in ("POST", "PUT", "PATCH")):
            return {k: v for k, v in arguments.items() if k in self.rest}
        return _filled(self.body, arguments, environ)

    def _headers(self, arguments: Arguments) -> dict[str, str]:
        out: dict[str, str] = {}
        for key, template in self.headers:
            text = template.render(arguments, os.environ)
            if text is None:
                continue
            if any(c in text for c in "\r\n\0"):
                raise InvalidArguments(f"header {key}: a line break in its value", problems=(f"$: header {key}",))
            out[key] = text
        return out

    def runner(self, spec: ToolSpec) -> Run:
        async def run(context: ToolContext, arguments: Arguments) -> ToolOutput:
            if context.http is None:
                raise Missing(f"{spec.name} needs the network, which is not available here")
            headers = self._headers(arguments)
            body = self._body(arguments, os.environ)
            data: bytes | None = None
            if isinstance(body, str):
                data = body.encode("utf-8", "replace")
            elif body is not None:
                data = json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
                if not any(k.lower() == "content-type" for k in headers):
                    headers["Content-Type"] = "application/json"
            address = self.address(arguments, os.environ)
            request = HttpRequest(method=self.method, url=address, headers=headers, body=data, timeout=spec.timeout)
            return _http_output(await context.http.send(request))

        return run


def _url(value: Any, names: set[str]) -> Template:
    if not isinstance(value, str):
        raise ConfigError("'url' must be a text")
    template = Template.parse(value, names)
    fixed = template.parts[0].value if template.parts and template.parts[0].kind == "text" else ""
    variable = bool(template.parts) and template.parts[0].kind == "variable"
    parts = urlsplit(fixed)
    whole_host = "/" in fixed.partition("://")[2] or "?" in fixed.partition("://")[2] or len(template.parts) == 1
    if not variable and (parts.scheme not in ("http", "https") or not parts.hostname or not whole_host):
        raise ConfigError(
            f"'url' {value!r}: scheme and host must be fixed", fix="like https://api.example.com/items/{id}"
        )
    if variable and len(template.parts) > 1 and not template.parts[1].value.startswith(("/", "?")):
        raise ConfigError(f"'url' {value!r}: a path must follow the variable")
    if parts.username or parts.password:
        raise ConfigError("'url' holds a password", fix="send it as a header with ${VARIABLE}")
    return template


def _compiled(value: Any, names: set[str]) -> Any:
    """A JSON body with every text made a template."""
    if isinstance(value, str):
        return Template.parse(value, names)
    if isinstance(value, dict):
        return {k: _compiled(v, names) for k, v in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_compiled(v, names) for v in cast("list[Any]", value)]
    return value


def _used(body: Any) -> frozenset[str]:
    if isinstance(body, Template):
        return body.arguments
    inside: list[Any] = []
    if isinstance(body, dict):
        inside = list(cast("dict[str, Any]", body).values())
    elif isinstance(body, list):
        inside = cast("list[Any]", body)
    return frozenset[str]().union(*(_used(v) for v in inside))


_ABSENT = object()


def _filled(body: Any, arguments: Arguments, environ: Mapping[str, str]) -> Any:
    """The body of one call: a lone `{name}` keeps its JSON type; what has no value is left out."""
    filled = _fill(body, arguments, environ)
    return None if filled is _ABSENT else filled


def _fill(body: Any, arguments: Arguments, environ: Mapping[str, str]) -> Any:
    if isinstance(body, Template):
        lone = body.only_argument
        if lone is not None:
            return arguments.get(lone, _ABSENT)
        text = body.render(arguments, environ)
        return _ABSENT if text is None else text
    if isinstance(body, dict):
        pairs = ((k, _fill(v, arguments, environ)) for k, v in cast("dict[str, Any]", body).items())
        return {k: v for k, v in pairs if v is not _ABSENT}
    if isinstance(body, list):
        return [v for v in (_fill(v, arguments, environ) for v in cast("list[Any]", body)) if v is not _ABSENT]
    return body


def _http_output(response: HttpResponse) -> ToolOutput:
    headers = {k.lower(): v for k, v in response.headers.items()}
    kind = headers.get("content-type", "")
    charset = re.search(r"charset=\"?([\w.-]+)", kind)
    try:
        text = response.body.decode(charset[1] if charset else "utf-8", "replace")
    except LookupError:
        text = response.body.decode("utf-8", "replace")
    structured: Any = None
    if "json" in kind:
        try:
            structured = json.loads(text)
        except (ValueError, RecursionError):
            structured = None
    failed = response.status >= 400
    content = f"[HTTP {response.status}]\n{text}" if failed else text
    return ToolOutput(
        content=content or f"[HTTP {response.status}, no content]",
        structured=structured,
        failed=failed,
        details={"status": response.status, "url": response.url},
    )
