"""Several addresses: the next is asked where no connection can be made, and only then."""

from __future__ import annotations

import httpx
import pytest

from orchgit.cli.first_server import FirstServer


class Doors(httpx.BaseTransport):
    """Hosts in `shut` refuse to connect, those in `rude` break off after they were asked."""

    def __init__(self, shut: set[str], rude: set[str]) -> None:
        self.shut, self.rude = shut, rude
        self.asked: list[str] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.host in self.shut:
            raise httpx.ConnectError("refused", request=request)
        self.asked.append(str(request.url))
        if request.url.host in self.rude:
            raise httpx.ReadError("reset", request=request)
        return httpx.Response(200, json={"host": request.headers["host"]})


def client(doors: Doors) -> tuple[httpx.Client, FirstServer]:
    servers = FirstServer(["http://a:1", "http://b:2/base", "http://c:3"], doors)
    return httpx.Client(base_url="http://server", transport=servers), servers


def test_the_first_that_is_there_is_used_and_stays_in_use() -> None:
    doors = Doors({"a"}, set())
    http, servers = client(doors)
    assert http.put("/v1/jobs?x=1", content=b"{}").json() == {"host": "b:2"}
    doors.shut = set()
    http.get("/v1/jobs")
    assert doors.asked == ["http://b:2/base/v1/jobs?x=1", "http://b:2/base/v1/jobs"]
    assert servers.address == "http://b:2/base"


def test_what_was_sent_is_not_sent_to_another() -> None:
    doors = Doors(set(), {"a"})
    http, _ = client(doors)
    with pytest.raises(httpx.ReadError):
        http.put("/v1/jobs", content=b"{}")
    assert doors.asked == ["http://a:1/v1/jobs"]


def test_without_any_the_last_refusal_is_the_answer() -> None:
    http, _ = client(Doors({"a", "b", "c"}, set()))
    with pytest.raises(httpx.ConnectError):
        http.get("/v1/jobs")
