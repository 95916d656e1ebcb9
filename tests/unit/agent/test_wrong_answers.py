"""What stands between the agent and Consul or Vault answers in their place: nothing seems to be
absent or refused because of it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from agent.config import ConsulConfig
from agent.consul.sync import ConsulSync
from agent.consul.template_reads import ConsulReads
from agent.http_json import HttpService, request
from agent.services.registrations import ServiceTable
from agent.templates.cluster_reads import OutsideSource, Reader, VaultAccess
from agent.templates.queries import OUTSIDE, Query, QueryKind
from agent.vault.template_reads import VaultReads
from agent.vault.tokens import Vault, VaultConfig
from orchgit.clock import FakeClock
from orchgit.errors import OrchgitError, RefusedError, UnreachableError
from tests.support.polling import until
from tests.support.vault_stub import VaultStub

WEB = Reader("alloc", "web", "default", "web", lambda: VaultAccess("hvs.1", ""))
PAGE = b"<html>502</html>"


@contextmanager
def answers(status: int, body: bytes, **headers: str) -> Iterator[str]:
    """Serves the same answer to every request; gives the URL."""

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_PUT = _answer

        def log_message(self, format: str, *args: object) -> None:
            """A test's output stays free of requests."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=lambda: server.serve_forever(poll_interval=0.02))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def service_at(url: str) -> HttpService:
    return HttpService(url=url, timeout_s=60)


STRANGE = [(200, PAGE), (404, PAGE), (404, b""), (200, b""), (200, b"[1]"), (503, PAGE)]


CONSULS_OWN = [
    (QueryKind.CONSUL_KEY, 404, b""),
    (QueryKind.CONSUL_KEYS, 404, b""),
    (QueryKind.CONSUL_NODE, 404, b""),
    (QueryKind.CONSUL_NODE, 200, b""),
    (QueryKind.CONSUL_DATACENTERS, 200, b"[1]"),
]
"""Answers that Consul itself may give."""


@pytest.mark.parametrize(
    ("kind", "status", "body"),
    [
        (kind, status, body)
        for kind in sorted(OUTSIDE)
        for status, body in STRANGE
        if (kind, status, body) not in CONSULS_OWN
    ],
)
def test_answer_of_another_is_never_a_value(kind: QueryKind, status: int, body: bytes) -> None:
    with answers(status, body) as url:
        source: OutsideSource = (
            ConsulReads(ConsulConfig(service=service_at(url)), use_token=False)
            if kind.startswith("consul")
            else VaultReads(VaultConfig(service=service_at(url)))
        )
        with pytest.raises(OrchgitError, match=r"cannot read the answer|Unexpected response code"):
            asyncio.run(source.read(Query(kind, "a/b", data=("k=v",)), WEB, None))


@pytest.mark.parametrize(
    ("status", "body"), [*STRANGE, (403, PAGE), (200, b'{"auth": {"client_token": 1}}')]
)
def test_login_that_vault_did_not_answer_may_be_tried_again(status: int, body: bytes) -> None:
    with answers(status, body) as url:
        vault = Vault(VaultConfig(service=service_at(url)))
        with pytest.raises(RefusedError, match=f"was answered with {status}"):
            asyncio.run(vault.log_in("jwt", "", ""))
        with pytest.raises(RefusedError, match=f"was answered with {status}"):
            asyncio.run(vault.renew("hvs.1", ""))
        with pytest.raises(RefusedError, match="not as Vault does"):
            asyncio.run(vault.facts())


def test_server_in_standby_sends_a_login_to_the_active_one() -> None:
    with VaultStub() as active:
        login = f"{active.url}/v1/auth/jwt-nomad/login"
        with answers(307, b"", Location=login) as url:
            vault = Vault(VaultConfig(service=service_at(url)))
            token = asyncio.run(vault.log_in("a.eyJhIjogMX0.b", "web", "team"))
    assert token.token == "hvs.1"
    assert active.logins == [{"a": 1, "role": "web", "namespace": "team"}]


@pytest.mark.parametrize(
    ("location", "why"),
    [("/v1/again", "redirects more than 2 times"), ("ftp://x/", "it redirects to x")],
)
def test_redirects_without_an_end_or_to_another_protocol_are_not_followed(
    location: str, why: str
) -> None:
    with answers(302, b"", Location=location) as url, pytest.raises(UnreachableError, match=why):
        asyncio.run(request(service_at(url), "GET", "/v1/x"))


@pytest.mark.parametrize(("status", "body"), STRANGE)
def test_node_has_no_consul_where_another_answers(status: int, body: bytes) -> None:
    async def work(url: str) -> list[dict[str, Any]]:
        clock, told = FakeClock(), list[dict[str, Any]]()
        table = ServiceTable()
        sync = ConsulSync(
            service_at(url), "", table, "n", clock, lambda found, _links: told.append(found)
        )
        running = asyncio.create_task(sync.run())
        await until(lambda: bool(table.listeners))
        await clock.advance(1)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        return told

    with answers(status, body) as url:
        assert asyncio.run(work(url)) == []
