"""The gateway over Streamable HTTP: loopback by default, `Host` and `Origin` checked, both eras on one endpoint."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import ipaddress
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..core.errors import GeodeError, UsageError
from .parts import GatewayParts
from .server import Expose, Gateway

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

__all__ = ["is_loopback", "serve_http"]

PATH = "/mcp"
_LAST_SECONDS = 5.0
"""Time that clients have to end their requests after an interruption."""
MAX_BODY = 4 * 1024 * 1024
MAX_SESSIONS = 1000


def is_loopback(host: str) -> bool:
    """True for `localhost` and addresses of this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


async def serve_http(
    parts: GatewayParts,
    host: str = "127.0.0.1",
    port: int = 0,
    *,
    expose: Expose = "direct",
    token: str | None = None,
    ready: Callable[[str], None] | None = None,
    stop: asyncio.Event | None = None,
) -> None:
    """Serve clients until cancelled, interrupted, or `stop` is set.

    Args:
        parts: registry, gate and the rest.
        host: address to bind; one that others can reach needs a token.
        port: 0 takes a free one.
        expose: "direct" or "search".
        token: clients must send `Authorization: Bearer TOKEN`.
        ready: called with the endpoint's address once it accepts connections.
        stop: ends the server when set.

    Raises:
        UsageError: a reachable address without a token.
        GeodeError: the address cannot be bound; says why.
    """
    import uvicorn
    from mcp.server.transport_security import TransportSecuritySettings

    if not is_loopback(host) and not token:
        raise UsageError(
            f"{host} can be reached by others, and the gateway would serve anybody",
            fix="use 127.0.0.1, or give clients a token",
        )
    listener = _bind(host, port)
    port = listener.getsockname()[1]
    shown = f"[{host}]" if ":" in host.strip("[]") else host
    names = ["127.0.0.1", "localhost", "[::1]", shown]
    security = TransportSecuritySettings(
        enable_dns_rebinding_protection=True,
        allowed_hosts=[f"{n}:{port}" for n in names],
        allowed_origins=[f"http://{n}:{port}" for n in names],
    )
    gateway = Gateway(parts, expose)
    async with gateway.running() as server:
        app: Any = server.streamable_http_app(
            streamable_http_path=PATH,
            transport_security=security,
            max_request_body_size=MAX_BODY,
            max_sessions=MAX_SESSIONS,
        )
        if token:
            app = _TokenCheck(app, token)
        config = uvicorn.Config(
            app, log_level="error", access_log=False, lifespan="on", timeout_graceful_shutdown=2, server_header=False
        )
        web: Any = uvicorn.Server(config)
        web.capture_signals = contextlib.nullcontext  # signals are the command's own business, once
        await _run(web, listener, f"http://{shown}:{port}{PATH}", ready, stop)


async def _run(
    web: Any, listener: socket.socket, address: str, ready: Callable[[str], None] | None, stop: asyncio.Event | None
) -> None:
    async def watch() -> None:
        while not web.started:  # noqa: ASYNC110 - uvicorn offers a flag only
            await asyncio.sleep(0.01)
        if ready is not None:
            ready(address)
        if stop is not None:
            await stop.wait()
            web.should_exit = True

    watcher = asyncio.create_task(watch(), name="gateway http")
    serving = asyncio.create_task(web.serve(sockets=[listener]), name="gateway http server")
    try:
        await asyncio.shield(serving)
    except asyncio.CancelledError:
        # Cut off in the middle, uvicorn and the application would each report an error.
        web.should_exit = True
        if (await asyncio.wait({serving}, timeout=_LAST_SECONDS))[1]:
            web.force_exit = True
            serving.cancel()
        raise
    finally:
        watcher.cancel()
        await asyncio.gather(watcher, return_exceptions=True)
        listener.close()


def _bind(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host.strip("[]") else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host.strip("[]"), port))
        listener.listen(128)
        listener.setblocking(False)
    except (OSError, OverflowError) as error:
        listener.close()
        why = getattr(error, "strerror", None) or str(error)
        raise GeodeError(
            f"cannot listen on {host}:{port}: {why}", fix="choose another port, or 0 for a free one"
        ) from error
    return listener


class _TokenCheck:
    """Refuses requests without the bearer token."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._expected = f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            given = next((v for k, v in scope["headers"] if k == b"authorization"), b"")
            if not hmac.compare_digest(given, self._expected):
                await _refuse(send)
                return
        await self._app(scope, receive, send)


async def _refuse(send: Send) -> None:
    headers = [(b"content-type", b"text/plain"), (b"www-authenticate", b"Bearer")]
    await send({"type": "http.response.start", "status": 401, "headers": headers})
    await send({"type": "http.response.body", "body": b"a bearer token is needed"})
