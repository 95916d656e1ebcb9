"""Several addresses: the next is asked where one does not answer, and a write is sent once."""

from __future__ import annotations

import json
import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from orchgit.cli.client.exchange import (
    BrokenError,
    ClientRequest,
    NoAnswerError,
    NotConnectedError,
    Pool,
    ServerAnswer,
    Url,
)
from orchgit.cli.client.first_server import FIRST_BYTE_S, FirstServer
from orchgit.cli.client.http_client import ApiClient, ApiError
from orchgit.cli.client.tls_client import TlsClient
from orchgit.cli.client.unreachable import why_unreachable
from orchgit.errors import InvalidInputError

PROBE = "/v1/status/leader"


@dataclass
class Told:
    """An answer with a JSON body."""

    body: dict[str, str]
    status: int = 200
    reason: str = "OK"

    def header(self, name: str) -> str:
        return ""

    def read(self) -> bytes:
        return json.dumps(self.body).encode()

    def pieces(self) -> Iterator[bytes]:
        yield self.read()

    def close(self) -> None:
        return


class Doors:
    """Hosts in `shut` refuse to connect, those in `rude` break off after they were asked, those in
    `silent` accept and never answer."""

    def __init__(self, **hosts: set[str]) -> None:
        self.shut, self.rude = hosts.get("shut", set()), hosts.get("rude", set())
        self.silent = hosts.get("silent", set())
        self.asked: list[str] = []

    def send(self, url: Url, request: ClientRequest) -> ServerAnswer:
        if url.host in self.shut:
            raise NotConnectedError("refused")
        is_probe = request.path.endswith(PROBE)
        if not is_probe:
            self.asked.append(f"{url}{request.path}")
        if url.host in self.silent:
            assert request.read_timeout_s <= FIRST_BYTE_S
            raise NoAnswerError("silent")
        if url.host in self.rude and not is_probe:
            raise BrokenError("reset")
        return Told({"host": url.netloc})

    def open_socket(self, url: Url, timeout_s: float) -> socket.socket:
        raise NotConnectedError("no sockets here")

    def close(self) -> None:
        return


class Time:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def three(doors: Doors, time_: Time | None = None) -> FirstServer:
    addresses = ["http://a:1", "http://b:2/base", "http://c:3"]
    return FirstServer(addresses, doors, monotonic_s=time_ or Time())


def asked(servers: FirstServer, method: str, path: str = "/v1/jobs") -> Any:
    return json.loads(servers.send(ClientRequest(method, path)).read())


def test_first_that_is_there_is_used_and_stays_in_use() -> None:
    doors = Doors(shut={"a"})
    servers = three(doors)
    assert asked(servers, "PUT", "/v1/jobs?x=1") == {"host": "b:2"}
    doors.shut = set()
    asked(servers, "GET")
    assert doors.asked == ["http://b:2/base/v1/jobs?x=1", "http://b:2/base/v1/jobs"]
    assert servers.address == "http://b:2/base"


def test_server_that_accepts_and_says_nothing_is_passed_over_unseen() -> None:
    doors = Doors(silent={"a"})
    assert asked(three(doors), "PUT") == {"host": "b:2"}
    assert doors.asked == ["http://b:2/base/v1/jobs"]


def test_server_that_falls_silent_between_two_writes_is_passed_over() -> None:
    doors, time_ = Doors(), Time()
    servers = three(doors, time_)
    asked(servers, "PUT")
    doors.silent = {"a"}
    time_.now_s = 60.0
    assert asked(servers, "PUT") == {"host": "b:2"}


def test_write_that_was_sent_is_not_sent_to_another() -> None:
    doors = Doors(rude={"a"})
    with pytest.raises(BrokenError):
        asked(three(doors), "PUT")
    assert doors.asked == ["http://a:1/v1/jobs"]


def test_read_that_was_not_answered_is_sent_to_another() -> None:
    assert asked(three(Doors(rude={"a"})), "GET") == {"host": "b:2"}


def test_without_any_the_last_refusal_is_the_answer() -> None:
    with pytest.raises(NotConnectedError):
        asked(three(Doors(shut={"a", "b", "c"})), "GET")


def test_one_server_alone_is_not_asked_twice() -> None:
    doors = Doors(rude={"a"})
    with pytest.raises(BrokenError):
        asked(FirstServer(["a:1"], doors), "GET")
    assert doors.asked == ["http://a:1/v1/jobs"]


@pytest.mark.parametrize("text", ["http://a:99999", "ftp://a", "", "http://", "a:b"])
def test_address_that_cannot_be_read_is_named(text: str) -> None:
    with pytest.raises(InvalidInputError, match="cannot use the address"):
        FirstServer([text])


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
    with frozen() as stopped, answering() as (address, heard):
        servers = FirstServer([stopped, address], first_byte_s=2.0)
        answer = servers.send(ClientRequest("GET", "/v1/jobs", read_timeout_s=20.0))
        assert answer.read() == b"[]"
        answer.close()
        servers.close()
        assert servers.address == address
    assert heard == [PROBE, "/v1/jobs"]


@pytest.mark.parametrize(("writes", "words"), [(True, "is not known"), (False, "ORCHGIT_ADDR")])
def test_server_that_took_too_long_is_named_with_the_way_out(writes: bool, words: str) -> None:
    error = NoAnswerError("timed out")
    said = why_unreachable(error, "http://a:1", "http://a:1", TlsClient(), writes)
    assert said.startswith("cannot get an answer from the server at http://a:1")
    assert words in said


# -- sockets of this machine -----------------------------------------------------------------------


class SocketServer(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True


class HostEcho(BaseHTTPRequestHandler):
    """Answers with the Host header that it was sent."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        body = json.dumps({"host": self.headers["Host"], "path": self.path}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def address_string(self) -> str:
        return "socket"

    def log_message(self, format: str, *args: object) -> None:
        """A test's output stays free of requests."""


def test_unix_socket_is_asked_by_its_path(tmp_path: Path) -> None:
    path = tmp_path / "a socket"
    with SocketServer(str(path), HostEcho) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        with ApiClient(f"unix://{tmp_path}/a%20socket") as client:
            for _ in range(2):
                assert client.get("/v1/jobs") == {"host": "localhost", "path": "/v1/jobs"}
            assert client.address == f"unix://{path}"
            assert client.socket_path == str(path)
        server.shutdown()


def test_unix_socket_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    with ApiClient(f"unix://{tmp_path}/none") as client, pytest.raises(ApiError) as caught:
        client.get("/v1/jobs")
    assert str(caught.value).startswith(f"cannot reach the server at unix://{tmp_path}/none: ")
    with pytest.raises(InvalidInputError, match="write the whole path of the socket"):
        Url.parse("unix://api.sock")


@pytest.mark.parametrize("text", ["nonsense://", "nonsense:", "ftp://host:1", "http://host:port"])
def test_address_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(InvalidInputError, match="write it like http://"):
        Url.parse(text.rstrip("/"))


@pytest.mark.parametrize("address", [",", " , ", "/"])
def test_list_of_no_addresses_is_refused(address: str) -> None:
    with pytest.raises(InvalidInputError, match="write it like http://"):
        ApiClient(address)


@pytest.mark.parametrize("token", ["a\nb", "a\x00", "\u2192"])
def test_token_that_no_header_can_hold_is_refused_without_being_shown(token: str) -> None:
    with pytest.raises(InvalidInputError, match="cannot use the token") as caught:
        ApiClient(token=token)
    assert token not in str(caught.value)


def test_port_of_another_protocol_is_told_with_little_of_its_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(bytes(range(128)) + b"\n")

        serving = threading.Thread(target=answer, daemon=True)
        serving.start()
        with ApiClient(address) as client, pytest.raises(ApiError) as caught:
            client.get("/v1/jobs")
        serving.join(60)
    said = str(caught.value)
    assert said.startswith(f"cannot talk to the server at {address}: the answer is not HTTP")
    assert "HTTP API (port 4646" in said
    assert len(said) < 250


def test_host_that_is_no_name_is_one_sentence() -> None:
    with (
        ApiClient("http://a b") as client,
        pytest.raises(ApiError, match="cannot reach the server"),
    ):
        client.get("/v1/jobs")


def test_answer_that_is_not_read_to_its_end_leaves_no_connection_open() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(60)
        pool = Pool(None)
        found: list[ServerAnswer] = []
        url = Url.parse(f"127.0.0.1:{listener.getsockname()[1]}")
        asking = threading.Thread(
            target=lambda: found.append(pool.send(url, ClientRequest("GET", "/"))), daemon=True
        )
        asking.start()
        connection, _ = listener.accept()
        with connection:
            connection.settimeout(60)
            while not connection.recv(4096).endswith(b"\r\n\r\n"):
                pass
            connection.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nbegin")
            asking.join(60)
            [answer] = found
            assert next(answer.pieces()) == b"begin"
            answer.close()
            assert connection.recv(1) == b""
