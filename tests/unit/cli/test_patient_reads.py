"""Commands that follow something live through changes of leader and servers that stand still."""

from __future__ import annotations

import io
import socket
import threading
from contextlib import redirect_stderr
from dataclasses import dataclass, field
from typing import Any

import pytest

from orchgit.cli.client.http_client import ApiClient, ApiError
from orchgit.cli.client.patient_reads import LONGEST_FAULT_S, PatientReads
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
