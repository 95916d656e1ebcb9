"""Which pages of other sites may read an answer, and which may write."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from orchgit.server.http.browser_guard import BrowserGuard
from orchgit.server.http.cors import Cors
from orchgit.server.http.host_names import HostNames

PAGE = "https://ops.example"
ASKS = {"Origin": PAGE, "Access-Control-Request-Method": "PUT"}


def answer(
    method: str, path: str, headers: dict[str, str], friend: str = "", status: int = 200
) -> tuple[int, dict[str, str]]:
    """Returns the status and headers that the listener makes of an answer of the app."""
    sent: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        given = [(b"vary", b"Accept-Encoding"), (b"allow", b"GET, PUT, OPTIONS")]
        await send({"type": "http.response.start", "status": status, "headers": given})

    async def receive() -> Any:
        return {}

    async def send(message: Any) -> None:
        sent.append(message)

    async def ask() -> None:
        named = {"Host": "127.0.0.1:4646", **headers}.items()
        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "headers": [(name.lower().encode(), value.encode()) for name, value in named],
        }
        await BrowserGuard(Cors(app, friend), HostNames(()), friend)(scope, receive, send)

    asyncio.run(ask())
    found = sent[0]
    return found["status"], {name.decode(): value.decode() for name, value in found["headers"]}


@pytest.mark.parametrize(
    "path", ["/v1/vars", "/v1/var/a", "/v1/client/stats", "/v1/client/fs/ls/x"]
)
def test_answers_of_open_paths_may_be_read_by_pages_of_any_site(path: str) -> None:
    _, headers = answer("GET", path, {"Origin": PAGE})
    assert headers["access-control-allow-origin"] == "*"
    assert headers["vary"] == "Origin"


@pytest.mark.parametrize("path", ["/v1/jobs", "/v1/client/gc", "/v1/agent/self"])
def test_answers_of_other_paths_may_not_be_read_by_pages_of_other_sites(path: str) -> None:
    _, headers = answer("GET", path, {"Origin": PAGE})
    assert "access-control-allow-origin" not in headers
    assert headers["vary"] == "Accept-Encoding"


@pytest.mark.parametrize("status", [204, 405])
def test_preflight_grants_the_methods_of_the_route(status: int) -> None:
    asked = {**ASKS, "Access-Control-Request-Headers": "x-nomad-token"}
    found, headers = answer("OPTIONS", "/v1/var/a", asked, status=status)
    assert found == 204
    assert headers["access-control-allow-methods"] == "GET, PUT, OPTIONS"
    assert headers["access-control-allow-headers"] == "x-nomad-token"


@pytest.mark.parametrize(("friend", "status"), [("", 403), (PAGE, 200), ("https://x.example", 403)])
def test_only_pages_of_the_configured_origin_may_write(friend: str, status: int) -> None:
    assert answer("PUT", "/v1/jobs", {"Origin": PAGE}, friend)[0] == status
