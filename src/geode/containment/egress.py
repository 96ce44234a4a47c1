"""Outgoing HTTP that cannot be talked into reaching what was not allowed.

A name is resolved once, every address is checked, and the checked address is dialled: a
name that answers differently the second time (rebinding) gains nothing. Each redirect is
checked again. Proxies of the environment are not used.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, cast
from urllib.parse import urljoin, urlsplit

import httpcore2

from ..core.effects import Scope
from ..core.errors import Denied, ToolFailed, UsageError
from ..core.messages import SideEffects
from ..core.ports import HttpRequest, HttpResponse

__all__ = ["GuardedClient", "address_scope"]

_MAX_REDIRECTS = 5
_REDIRECTS = {301, 302, 303, 307, 308}
_PRIVATE_HEADERS = {"authorization", "cookie", "proxy-authorization", "x-api-key"}


def address_scope(address: str) -> Scope:
    """Scope of an IP address; IPv4 inside IPv6 (mapped, 6to4, Teredo, NAT64) counts as what it carries."""
    ip = ipaddress.ip_address(address.split("%", 1)[0])
    if isinstance(ip, ipaddress.IPv6Address):
        inner = ip.ipv4_mapped or ip.sixtofour or (ip.teredo[1] if ip.teredo else None)
        if inner is None and ip in ipaddress.ip_network("64:ff9b::/96"):
            inner = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
        if inner is not None:
            return address_scope(str(inner))
    if ip.is_loopback:
        return Scope.LOOPBACK
    public = ip.is_global and not ip.is_multicast and not ip.is_reserved
    return Scope.INTERNET if public else Scope.PRIVATE_NET


Resolve = Callable[[str, int], Awaitable[list[str]]]
"""Host name and port -> addresses; raises OSError."""


async def _system_resolve(host: str, port: int) -> list[str]:
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(info[4][0]) for info in found))


class _CheckedBackend(httpcore2.AsyncNetworkBackend):
    """Dials only addresses whose scope lies in `reach`."""

    def __init__(self, reach: frozenset[Scope], resolve: Resolve) -> None:
        self._inner = cast("httpcore2.AsyncNetworkBackend", httpcore2.AnyIOBackend())
        self._reach = reach
        self._resolve = resolve

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        try:
            addresses = await self._resolve(host, port)
        except OSError as error:
            raise ToolFailed(
                f"{host} cannot be resolved: {error.strerror or error}", fix="check the address"
            ) from error
        for address in addresses:
            scope = address_scope(address)
            if scope not in self._reach:
                raise Denied(
                    f"{host} leads to {address} ({scope.value}), which this call may not reach",
                    fix="ask for the address itself, so that the policy can decide on it",
                )
        return await self._inner.connect_tcp(addresses[0], port, timeout, local_address, socket_options)


class GuardedClient:
    """The `Http` port of the runtime. One connection pool a request: nothing outlives its check."""

    def __init__(self, resolve: Resolve = _system_resolve) -> None:
        self._resolve = resolve

    async def send(self, request: HttpRequest) -> HttpResponse:
        """See `core.ports.Http.send`."""
        try:
            async with asyncio.timeout(request.timeout):
                return await self._follow(request)
        except TimeoutError as error:
            raise ToolFailed(f"no answer from {_place(request.url)} within {request.timeout:g} s") from error
        except (httpcore2.NetworkError, httpcore2.ProtocolError, httpcore2.TimeoutException) as error:
            text = str(error) or type(error).__name__
            raise ToolFailed(
                f"no answer from {_place(request.url)}: {text}", fix="check address and service"
            ) from error

    async def _follow(self, request: HttpRequest) -> HttpResponse:
        method, url, body, headers = request.method.upper(), request.url, request.body, dict(request.headers)
        async with httpcore2.AsyncConnectionPool(network_backend=_CheckedBackend(request.reach, self._resolve)) as pool:
            for _ in range(_MAX_REDIRECTS + 1):
                _check_url(url)
                response = await self._once(pool, method, url, headers, body, request.max_bytes)
                target = response.headers.get("location")
                if response.status not in _REDIRECTS or not target:
                    return response
                before, url = url, urljoin(url, target)
                if urlsplit(before)[:2] != urlsplit(url)[:2]:
                    headers = {k: v for k, v in headers.items() if k.lower() not in _PRIVATE_HEADERS}
                if response.status == 303 or (response.status in {301, 302} and method == "POST"):
                    method, body = "GET", None
        raise ToolFailed(f"{_place(request.url)} redirects more than {_MAX_REDIRECTS} times")

    async def _once(
        self,
        pool: httpcore2.AsyncConnectionPool,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes | None,
        max_bytes: int,
    ) -> HttpResponse:
        sent = [(k.encode("latin-1"), v.encode("utf-8")) for k, v in headers.items()]
        async with pool.stream(method, url, headers=sent, content=body) as response:
            chunks: list[bytes] = []
            size = 0
            async for chunk in response.aiter_stream():
                size += len(chunk)
                if size > max_bytes:
                    raise ToolFailed(
                        f"the answer of {_place(url)} is larger than {max_bytes:,} bytes",
                        fix="ask for less",
                        side_effects=SideEffects.NONE if method in {"GET", "HEAD"} else SideEffects.UNKNOWN,
                    )
                chunks.append(chunk)
            got = {k.decode("latin-1").lower(): v.decode("latin-1") for k, v in response.headers}
            return HttpResponse(status=response.status, headers=got, body=b"".join(chunks), url=url)


def _check_url(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise UsageError(f"{_place(url)} is not an http or https address")
    if parts.username or parts.password:
        raise UsageError("credentials inside an address are refused", fix="send them in a header")


def _place(url: str) -> str:
    """Scheme and host of a URL, for messages: paths and queries may hold secrets."""
    try:
        parts = urlsplit(url)
        return f"{parts.scheme}://{parts.hostname}" if parts.hostname else "the address"
    except ValueError:
        return "the address"
