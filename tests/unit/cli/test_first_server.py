"""Several addresses: the next is asked where one does not answer, and a write is sent once."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pytest

from orchgit.cli.client.first_server import FIRST_BYTE_S, FirstServer
from orchgit.cli.client.tls_client import TlsClient
from orchgit.cli.client.unreachable import why_unreachable

PROBE = "/v1/status/leader"


class Doors(httpx.BaseTransport):
    """Hosts in `shut` refuse to connect, those in `rude` break off after they were asked, those in
    `silent` accept and never answer."""

    def __init__(self, **hosts: set[str]) -> None:
        self.shut, self.rude = hosts.get("shut", set()), hosts.get("rude", set())
        self.silent = hosts.get("silent", set())
        self.asked: list[str] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.host in self.shut:
            raise httpx.ConnectError("refused", request=request)
        is_probe = request.url.path.endswith(PROBE)
        if not is_probe:
            self.asked.append(str(request.url))
        if request.url.host in self.silent:
            assert request.extensions["timeout"]["read"] <= FIRST_BYTE_S
            raise httpx.ReadTimeout("silent", request=request)
        if request.url.host in self.rude and not is_probe:
            raise httpx.ReadError("reset", request=request)
        return httpx.Response(200, json={"host": request.headers["host"]})


class Time:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def client(doors: Doors, time_: Time | None = None) -> tuple[httpx.Client, FirstServer]:
    addresses = ["http://a:1", "http://b:2/base", "http://c:3"]
    servers = FirstServer(addresses, doors, monotonic_s=time_ or Time())
    return httpx.Client(base_url="http://server", transport=servers), servers


def test_first_that_is_there_is_used_and_stays_in_use() -> None:
    doors = Doors(shut={"a"})
    http, servers = client(doors)
    assert http.put("/v1/jobs?x=1", content=b"{}").json() == {"host": "b:2"}
    doors.shut = set()
    http.get("/v1/jobs")
    assert doors.asked == ["http://b:2/base/v1/jobs?x=1", "http://b:2/base/v1/jobs"]
    assert servers.address == "http://b:2/base"


def test_server_that_accepts_and_says_nothing_is_passed_over_unseen() -> None:
    doors = Doors(silent={"a"})
    http, _ = client(doors)
    assert http.put("/v1/jobs", content=b"{}").json() == {"host": "b:2"}
    assert doors.asked == ["http://b:2/base/v1/jobs"]


def test_server_that_falls_silent_between_two_writes_is_passed_over() -> None:
    doors, time_ = Doors(), Time()
    http, _ = client(doors, time_)
    http.put("/v1/jobs", content=b"{}")
    doors.silent = {"a"}
    time_.now_s = 60.0
    assert http.put("/v1/jobs", content=b"{}").json() == {"host": "b:2"}


def test_write_that_was_sent_is_not_sent_to_another() -> None:
    doors = Doors(rude={"a"})
    http, _ = client(doors)
    with pytest.raises(httpx.ReadError):
        http.put("/v1/jobs", content=b"{}")
    assert doors.asked == ["http://a:1/v1/jobs"]


def test_read_that_was_not_answered_is_sent_to_another() -> None:
    doors = Doors(rude={"a"})
    http, _ = client(doors)
    assert http.get("/v1/jobs").json() == {"host": "b:2"}


def test_without_any_the_last_refusal_is_the_answer() -> None:
    http, _ = client(Doors(shut={"a", "b", "c"}))
    with pytest.raises(httpx.ConnectError):
        http.get("/v1/jobs")


def test_one_server_alone_is_not_asked_twice() -> None:
    doors = Doors(rude={"a"})
    http = httpx.Client(base_url="http://server", transport=FirstServer(["a:1"], doors))
    with pytest.raises(httpx.ReadError):
        http.get("/v1/jobs")
    assert doors.asked == ["http://a:1/v1/jobs"]


@contextmanager
def frozen() -> Iterator[str]:
    """The address of a server whose process is stopped: the kernel accepts, nobody answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


@contextmanager
def answering() -> Iterator[tuple[str, list[str]]]:
    """The address of a server that has no jobs, and what it was asked."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"[]")

        def log_message(self, *_: Any) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}", asked
        server.shutdown()


def test_real_server_that_is_frozen_is_passed_over() -> None:
    with frozen() as stopped, answering() as (address, asked):
        servers = FirstServer([stopped, address], first_byte_s=0.2)
        with httpx.Client(base_url="http://server", transport=servers) as http:
            assert http.get("/v1/jobs", timeout=20.0).json() == []
        assert servers.address == address
    assert asked == [PROBE, "/v1/jobs"]


@pytest.mark.parametrize(("writes", "words"), [(True, "is not known"), (False, "ORCHGIT_ADDR")])
def test_server_that_took_too_long_is_named_with_the_way_out(writes: bool, words: str) -> None:
    error = httpx.ReadTimeout("timed out")
    said = why_unreachable(error, "http://a:1", "http://a:1", TlsClient(), writes)
    assert said.startswith("cannot get an answer from the server at http://a:1")
    assert words in said
