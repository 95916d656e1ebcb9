"""Commands that follow something live through changes of leader and servers that stand still."""

from __future__ import annotations

import io
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stderr
from dataclasses import dataclass, field
from typing import Any

import pytest

from orchgit.cli.client.http_client import ApiClient, ApiError
from orchgit.cli.client.patient_reads import (
    LONGEST_FAULT_S,
    FaultNotices,
    Patience,
    PatientReads,
)
from orchgit.cli.printing.monitor import follow_deployment
from tests.support.polling import until_blocking


@dataclass
class Server:
    """Raises `failures` first; `asked` are the indexes of its blocking queries."""

    failures: list[ApiError]
    now_s: float = 0.0
    asked: list[int] = field(default_factory=list)

    def get(self, path: str, **_: Any) -> str:
        if self.failures:
            raise self.failures.pop(0)
        return path

    def blocking_get(self, path: str, index: int, **_: Any) -> tuple[int, Any]:
        self.asked.append(index)
        return 7, self.get(path)

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds

    def reads(self) -> PatientReads:
        return PatientReads(self, "job web", lambda: self.now_s, self.sleep)  # type: ignore[arg-type]


def test_fault_is_told_once_and_its_end_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    server = Server([ApiError("No cluster leader", 500), ApiError("nobody there"), ApiError("x")])
    reads = server.reads()
    assert reads.blocking_get("/v1/job/web", 5) == (7, "/v1/job/web")
    assert server.asked == [5, 0, 0, 0]
    assert capsys.readouterr().err == (
        "==> Waiting for servers to follow job web: No cluster leader\n"
        "==> Servers answer again; following job web.\n"
    )
    assert reads.get("/v1/jobs") == "/v1/jobs"
    assert capsys.readouterr().err == ""


def test_refusal_ends_the_command_and_so_does_a_fault_without_end() -> None:
    server = Server([ApiError("Permission denied", 403)])
    with pytest.raises(ApiError, match="Permission denied"):
        server.reads().get("/v1/jobs")
    server.failures = [ApiError("gone") for _ in range(10_000)]
    with pytest.raises(ApiError, match="cannot follow job web further: gone"):
        server.reads().get("/v1/jobs")
    assert LONGEST_FAULT_S < server.now_s < LONGEST_FAULT_S + 5


def test_deployment_is_followed_over_a_change_of_leader(
    capsys: pytest.CaptureFixture[str],
) -> None:
    done = {"ID": "d1", "JobID": "web", "JobVersion": 1, "Status": "successful"}
    answers: list[Any] = [ApiError("No cluster leader", 500), {**done, "Status": "running"}, done]

    class Deployments(ApiClient):
        def blocking_get(self, path: str, index: int, **_: Any) -> tuple[int, Any]:
            answer = answers.pop(0)
            if isinstance(answer, ApiError):
                raise answer
            return index + 1, {**answer, "StatusDescription": "", "TaskGroups": {}}

    assert follow_deployment(Deployments(), "d1") == 0
    assert "Servers answer again; following deployment d1" in capsys.readouterr().err


def test_command_says_what_it_waits_for() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        said = io.StringIO()
        client = ApiClient(address, slow_s=0.01)
        with redirect_stderr(said):
            asking = threading.Thread(target=lambda: _ended(client), daemon=True)
            asking.start()
            until_blocking(lambda: "\n" in said.getvalue())
        connection, _ = silent.accept()
        connection.close()
        asking.join(60)
    assert said.getvalue() == (
        f"==> Still waiting for the server at {address} to answer PUT /v1/jobs ...\n"
    )


def _ended(client: ApiClient) -> None:
    with client, pytest.raises(ApiError):
        client.put("/v1/jobs", {})


class Streams:
    """Answers of a server, one for each time that a stream is opened."""

    def __init__(self, *answers: Sequence[str | ApiError], is_stream: bool = True) -> None:
        self.answers = list(answers)
        self.is_stream = is_stream

    def open(self, opened: Callable[[], None]) -> Iterator[str]:
        for piece in self.answers.pop(0):
            if isinstance(piece, ApiError):
                raise piece
            if self.is_stream:
                opened()
            yield piece

    def followed(self) -> Iterator[str]:
        patience = Patience(FaultNotices("the events"), lambda: 0.0, lambda _: None)
        return patience.stream(self.open, has_end=False)


def read_until_refused(streams: Streams, refusal: str) -> list[str]:
    """Returns the pieces before the error that ends the stream."""
    seen: list[str] = []
    with pytest.raises(ApiError, match=refusal):
        seen.extend(iter(streams.followed().__next__, None))
    return seen


def test_endless_stream_that_ends_is_opened_again_until_one_is_refused() -> None:
    refused, broken = ApiError("Permission denied", 403), ApiError("broke off")
    streams = Streams(["{}", "a"], ["b"], [broken], ["c", broken], [refused], [])
    assert read_until_refused(streams, "Permission denied") == ["{}", "a", "b", "c"]
    assert streams.answers == [[]]


def test_whole_answer_of_another_program_is_not_asked_for_again() -> None:
    streams = Streams(["<html>", "</html>"], [], is_stream=False)
    assert read_until_refused(streams, "no stream answered") == ["<html>", "</html>"]
    assert streams.answers == [[]]


def test_whole_answer_of_another_program_after_a_stream_is_not_asked_for_again() -> None:
    class Replaced(Streams):
        def open(self, opened: Callable[[], None]) -> Iterator[str]:
            self.is_stream = len(self.answers) == 3
            return super().open(opened)

    streams = Replaced(["{}", "a"], ["<html>"], [])
    assert read_until_refused(streams, "no stream answered") == ["{}", "a", "<html>"]
    assert streams.answers == [[]]


def test_stream_that_brings_nothing_is_told_to_be_empty(capsys: pytest.CaptureFixture[str]) -> None:
    """A token without rights gets an empty answer, at first or when it lost them."""
    assert read_until_refused(Streams([]), "a token may lack the right") == []
    streams = Streams(["{}", "a"], [])
    assert read_until_refused(streams, "a token may lack the right") == ["{}", "a"]
    assert "Servers answer again" not in capsys.readouterr().err


def test_first_request_that_breaks_before_a_piece_is_not_sent_again() -> None:
    streams = Streams([ApiError("the answer is not HTTP")], [])
    assert read_until_refused(streams, "not HTTP") == []
    assert streams.answers == [[]]


def test_stream_is_open_when_its_first_bytes_come_and_has_no_length() -> None:
    """An answer with a length is whole."""
    answers = {
        "/stream": b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        "/whole": b"Content-Length: 2\r\n\r\n{}",
        "/bad": b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
    }
    opened: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"

        def answer() -> None:
            for _ in answers:
                connection, _ = listener.accept()
                with connection, connection.makefile("rb") as request:
                    path = request.readline().split()[1].decode()
                    while request.readline() != b"\r\n":
                        pass
                    connection.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n" + answers[path])

        serving = threading.Thread(target=answer, daemon=True)
        serving.start()
        with ApiClient(address) as client:
            assert b"".join(client.stream_bytes("/stream", lambda: opened.append("s"))) == b"{}"
            assert b"".join(client.stream_bytes("/whole", lambda: opened.append("w"))) == b"{}"
            with pytest.raises(ApiError, match="is one running"):
                list(client.stream_bytes("/bad", lambda: opened.append("b")))
        serving.join(60)
    assert opened == ["s"]
