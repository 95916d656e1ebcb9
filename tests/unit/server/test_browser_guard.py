"""What the guard in front of every listener lets through, and what it refuses."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from orchgit.server.http.browser_guard import BrowserGuard
from orchgit.server.http.host_names import HostNames
from tests.support.hostile.requests_http import BROWSER_REQUESTS

Headers = dict[str, str]
CHROME = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/120 Safari/537.36"


def status(method: str, path: str, headers: Headers, kind: str = "http") -> int:
    """200: it reached the app."""
    found: list[int] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        found.append(200)

    async def receive() -> Any:
        return {}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            found.append(message["status"])
        elif message["type"] == "websocket.close":
            found.append(403)

    headers = {"Host": "127.0.0.1:4646", **headers}
    scope = {
        "type": kind,
        "method": method,
        "path": path,
        "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
    }
    if kind == "websocket":
        del scope["method"]
    guard = BrowserGuard(app, HostNames(("ui.example",)))
    asyncio.run(_wait(guard(scope, receive, send)))
    return found[0]


async def _wait(work: Any) -> None:
    await work


@pytest.mark.parametrize(
    ("method", "path", "headers"), [each for each in BROWSER_REQUESTS if each[1] != "/v1/client/gc"]
)
def test_request_that_a_foreign_page_makes_is_refused(
    method: str, path: str, headers: Headers
) -> None:
    assert status(method, path, headers) == 403


@pytest.mark.parametrize(
    ("method", "path", "headers"),
    [
        ("PUT", "/v1/jobs", {}),
        ("GET", "/v1/jobs", {"Origin": "https://other.example"}),
        ("POST", "/v1/jobs", {"Origin": "http://127.0.0.1:4646"}),
        ("POST", "/v1/jobs", {"Origin": "http://127.0.0.1:4646", "Sec-Fetch-Site": "same-origin"}),
        ("POST", "/v1/jobs", {"Sec-Fetch-Site": "none"}),
        ("PUT", "/v1/jobs", {"Host": "ui.example:80", "Origin": "http://ui.example"}),
        ("PUT", "/v1/jobs", {"Host": "10.0.0.1:443", "Origin": "https://10.0.0.1"}),
        ("PUT", "/v1/jobs", {"Host": "10.0.0.1:4646", "Origin": "https://ui.example"}),
        ("GET", "/v1/jobs", {"User-Agent": CHROME}),
        ("OPTIONS", "/v1/jobs", {"Origin": "https://other.example"}),
    ],
)
def test_request_of_a_program_or_of_the_own_page_passes(
    method: str, path: str, headers: Headers
) -> None:
    assert status(method, path, headers) == 200


EXEC = "/v1/client/allocation/x/exec"


@pytest.mark.parametrize(
    ("headers", "wanted"),
    [
        ({}, 200),
        ({"Origin": "http://127.0.0.1:4646", "User-Agent": CHROME}, 200),
        ({"Origin": "https://other.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Host": "rebound.example", "Origin": "http://rebound.example"}, 403),
    ],
)
def test_websocket_is_opened_only_by_programs_and_the_own_page(
    headers: Headers, wanted: int
) -> None:
    assert status("", EXEC, headers, "websocket") == wanted
