"""Outgoing HTTP reaches what was allowed and nothing else."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from geode.containment.egress import GuardedClient, address_scope
from geode.core.effects import Scope
from geode.core.errors import Denied, ToolFailed, UsageError
from geode.core.ports import HttpRequest

LOOPBACK = frozenset({Scope.LOOPBACK})
INTERNET = frozenset({Scope.INTERNET})


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path.startswith("/to/"):
            self.send_response(302)
            self.send_header("Location", self.path.removeprefix("/to/"))
            self.end_headers()
            return
        body = b"x" * 5_000 if self.path == "/big" else str(self.headers.get("Authorization")).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        return


@pytest.fixture
def server() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as httpd:
        threading.Thread(target=httpd.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{httpd.server_port}"
        httpd.shutdown()


@pytest.mark.parametrize(
    ("address", "scope"),
    [
        ("127.0.0.1", Scope.LOOPBACK),
        ("127.8.9.1", Scope.LOOPBACK),
        ("::1", Scope.LOOPBACK),
        ("::ffff:127.0.0.1", Scope.LOOPBACK),
        ("10.1.2.3", Scope.PRIVATE_NET),
        ("169.254.169.254", Scope.PRIVATE_NET),
        ("::ffff:169.254.169.254", Scope.PRIVATE_NET),
        ("64:ff9b::a9fe:a9fe", Scope.PRIVATE_NET),
        ("2002:a9fe:a9fe::1", Scope.PRIVATE_NET),
        ("0.0.0.0", Scope.PRIVATE_NET),
        ("100.64.0.1", Scope.PRIVATE_NET),
        ("224.0.0.1", Scope.PRIVATE_NET),
        ("fe80::1%eth0", Scope.PRIVATE_NET),
        ("fd00::1", Scope.PRIVATE_NET),
        ("255.255.255.255", Scope.PRIVATE_NET),
        ("1.1.1.1", Scope.INTERNET),
        ("2606:4700::1", Scope.INTERNET),
    ],
)
def test_addresses_are_classified_by_what_they_reach(address: str, scope: Scope) -> None:
    assert address_scope(address) is scope


async def test_an_allowed_address_answers(server: str) -> None:
    response = await GuardedClient().send(HttpRequest(method="GET", url=f"{server}/", reach=LOOPBACK))
    assert response.status == 200


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "2130706433", "0x7f.1", "[::1]", "[::ffff:127.0.0.1]"])
async def test_every_spelling_of_loopback_is_refused_when_only_the_internet_is_allowed(server: str, host: str) -> None:
    port = server.rsplit(":", 1)[1]
    with pytest.raises((Denied, ToolFailed)):
        await GuardedClient().send(HttpRequest(method="GET", url=f"http://{host}:{port}/", reach=INTERNET))


async def test_a_redirect_is_checked_like_a_first_request(server: str) -> None:
    url = f"{server}/to/http://169.254.169.254/latest/meta-data/"
    with pytest.raises(Denied):
        await GuardedClient().send(HttpRequest(method="GET", url=url, reach=LOOPBACK))
    with pytest.raises(UsageError):
        await GuardedClient().send(HttpRequest(method="GET", url=f"{server}/to/file:///etc/passwd", reach=LOOPBACK))


async def test_a_name_that_answers_differently_the_second_time_gains_nothing(server: str) -> None:
    port = int(server.rsplit(":", 1)[1])
    answers = [["93.184.216.34"], ["127.0.0.1"]]
    asked: list[str] = []

    async def rebinding(host: str, _: int) -> list[str]:
        asked.append(host)
        return answers[min(len(asked), 2) - 1]

    with pytest.raises(Denied):
        client = GuardedClient(rebinding)
        answers[0] = ["127.0.0.1"]
        await client.send(HttpRequest(method="GET", url=f"http://evil.test:{port}/", reach=INTERNET))
    assert asked == ["evil.test"]


async def test_one_forbidden_address_among_allowed_ones_refuses_the_name() -> None:
    async def both(_: str, __: int) -> list[str]:
        return ["1.1.1.1", "10.0.0.1"]

    with pytest.raises(Denied):
        await GuardedClient(both).send(HttpRequest(method="GET", url="http://mixed.test/", reach=INTERNET))


async def test_credentials_do_not_follow_a_redirect_to_another_host(server: str) -> None:
    other = server.replace("127.0.0.1", "localhost")
    request = HttpRequest(
        method="GET", url=f"{server}/to/{other}/", headers={"Authorization": "Bearer s3cret"}, reach=LOOPBACK
    )
    assert (await GuardedClient().send(request)).body == b"None"


async def test_a_body_over_the_limit_is_an_error_and_not_a_cut(server: str) -> None:
    with pytest.raises(ToolFailed, match="larger than"):
        await GuardedClient().send(HttpRequest(method="GET", url=f"{server}/big", reach=LOOPBACK, max_bytes=1_000))


async def test_credentials_inside_an_address_are_refused(server: str) -> None:
    with pytest.raises(UsageError):
        url = server.replace("http://", "http://user:pass@")
        await GuardedClient().send(HttpRequest(method="GET", url=url, reach=LOOPBACK))
