"""The audit log: what is recorded, in which order, and what happens when it cannot be written."""

from __future__ import annotations

import asyncio
import json
import resource
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.types import ASGIApp
from starlette.websockets import WebSocket

from orchgit.clock import FakeClock
from orchgit.errors import InvalidInputError
from orchgit.ids import SequentialIds
from orchgit.server.audit.audit_log import audit_log
from orchgit.server.audit.file_sink import FileSink
from orchgit.server.audit.settings import AuditSettings, audit_filter
from orchgit.server.http.server import HttpServer
from tests.support.certificates import LOOPBACK
from tests.support.http_listener import on_uvloop
from tests.support.websocket import websocket

DONE: list[str] = []


async def jobs(request: Request) -> Response:
    DONE.append(request.method)
    return PlainTextResponse("[]")


async def broken(request: Request) -> Response:
    raise ValueError("a bug")


async def shell(socket: WebSocket) -> None:
    await socket.accept()
    await socket.close()


def app() -> ASGIApp:
    return Starlette(
        routes=[
            Route("/v1/jobs", jobs, methods=["GET", "PUT"]),
            Route("/v1/metrics", jobs),
            Route("/v1/broken", broken),
            WebSocketRoute("/v1/shell", shell),
        ]
    )


def with_listener(
    directory: Path,
    work: Callable[[HttpServer, httpx.AsyncClient], Awaitable[None]],
    clock: FakeClock | None = None,
    **settings: Any,
) -> None:
    DONE.clear()

    async def run() -> None:
        log = audit_log(AuditSettings(**settings), directory, clock or FakeClock(), SequentialIds())
        server = HttpServer(app(), f"{LOOPBACK}:0", audit=log)
        await server.start()
        base = f"http://{server.address}"
        async with httpx.AsyncClient(base_url=base, trust_env=False) as client:
            await work(server, client)
        await server.stop(1.0)

    on_uvloop(run)


def records(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line)["payload"] for line in path.read_text().splitlines()]


def brief(path: Path) -> list[tuple[str, str, str, int | None]]:
    return [
        (
            each["stage"],
            each["request"]["operation"],
            each["request"]["endpoint"],
            each.get("response", {}).get("status_code"),
        )
        for each in records(path)
    ]


def test_request_is_recorded_before_it_is_done_and_before_it_is_answered(tmp_path: Path) -> None:
    async def work(server: HttpServer, client: httpx.AsyncClient) -> None:
        answer = await client.put(
            "/v1/jobs",
            params={"namespace": "team-a", "secret": "s3cr3t"},
            headers={"X-Nomad-Token": "t0k3n", "User-Agent": "test/1"},
            content=b"b0dy",
        )
        assert answer.status_code == 200

    with_listener(tmp_path, work)
    path = tmp_path / "audit" / "audit.log"
    assert path.stat().st_mode & 0o777 == 0o600
    received, complete = records(path)
    assert received["stage"] == "OperationReceived"
    assert "response" not in received
    assert complete["stage"] == "OperationComplete"
    assert complete["response"] == {"status_code": 200}
    assert received["request"] == complete["request"]
    assert received["request"]["namespace"] == {"id": "team-a"}
    assert received["request"]["request_meta"]["user_agent"] == "test/1"
    assert received["request"]["node_meta"]["ip"].startswith(f"{LOOPBACK}:")
    assert (received["type"], received["version"]) == ("audit", 1)
    assert received["timestamp"].endswith("Z")
    text = path.read_text()
    assert not [secret for secret in ("s3cr3t", "t0k3n", "b0dy") if secret in text]


def test_refused_unknown_broken_and_socket_requests_are_recorded(tmp_path: Path) -> None:
    async def work(server: HttpServer, client: httpx.AsyncClient) -> None:
        await client.get("/v1/jobs", headers={"Host": "evil.example"})
        await client.get("/nowhere")
        await client.get("/v1/broken")
        await websocket(int(server.address.rpartition(":")[2]), "/v1/shell", [])

    with_listener(tmp_path, work)
    found = brief(tmp_path / "audit" / "audit.log")
    assert [each for each in found if each[3] is not None] == [
        ("OperationComplete", "GET", "/v1/jobs", 403),
        ("OperationComplete", "GET", "/nowhere", 404),
        ("OperationComplete", "GET", "/v1/broken", 500),
        ("OperationComplete", "WEBSOCKET", "/v1/shell", 101),
    ]
    assert len(found) == 8


def test_filters_drop_by_endpoint_stage_and_operation(tmp_path: Path) -> None:
    async def work(server: HttpServer, client: httpx.AsyncClient) -> None:
        for method, path in (("GET", "/v1/metrics"), ("GET", "/v1/jobs"), ("PUT", "/v1/jobs")):
            await client.request(method, path)

    filters = (
        audit_filter("a", "HTTPEvent", ["/v1/met*"], ["*"], ["*"]),
        audit_filter("b", "HTTPEvent", ["*"], ["OperationReceived"], ["get"]),
    )
    with_listener(tmp_path, work, filters=filters)
    assert brief(tmp_path / "audit" / "audit.log") == [
        ("OperationComplete", "GET", "/v1/jobs", 200),
        ("OperationReceived", "PUT", "/v1/jobs", None),
        ("OperationComplete", "PUT", "/v1/jobs", 200),
    ]


def break_sink(directory: Path) -> None:
    """The file is moved, and nothing can be made in its place."""
    folder = directory / "audit"
    folder.rename(directory / "moved")
    folder.write_text("a file where the directory was")


def test_request_is_refused_undone_when_an_enforced_record_cannot_be_written(
    tmp_path: Path,
) -> None:
    async def work(server: HttpServer, client: httpx.AsyncClient) -> None:
        break_sink(tmp_path)
        answer = await client.put("/v1/jobs")
        assert answer.status_code == 500
        assert "could not be written to the audit log" in answer.text
        assert DONE == []
        (tmp_path / "audit").unlink()
        assert (await client.put("/v1/jobs")).status_code == 200

    with_listener(tmp_path, work)


def test_answer_is_withheld_when_its_enforced_record_cannot_be_written(tmp_path: Path) -> None:
    async def work(server: HttpServer, client: httpx.AsyncClient) -> None:
        break_sink(tmp_path)
        answer = await client.get("/v1/jobs")
        assert (answer.status_code, DONE) == (500, ["GET"])
        assert "[]" not in answer.text

    only_complete = audit_filter("r", "HTTPEvent", ["*"], ["OperationReceived"], ["*"])
    with_listener(tmp_path, work, filters=(only_complete,))


def test_best_effort_answers_though_nothing_can_be_written(tmp_path: Path) -> None:
    async def work(server: HttpServer, client: httpx.AsyncClient) -> None:
        break_sink(tmp_path)
        assert (await client.get("/v1/jobs")).status_code == 200

    with_listener(tmp_path, work, enforced=False)


def test_enforced_log_that_cannot_be_opened_keeps_the_listener_from_starting(
    tmp_path: Path,
) -> None:
    (tmp_path / "audit").write_text("no directory")

    async def work(server: HttpServer, client: httpx.AsyncClient) -> None:
        raise AssertionError("the listener started")

    with pytest.raises(InvalidInputError, match="cannot write the audit log"):
        with_listener(tmp_path, work)


def test_files_are_rotated_by_size_and_the_oldest_removed(tmp_path: Path) -> None:
    clock = FakeClock()

    async def work(server: HttpServer, client: httpx.AsyncClient) -> None:
        for _ in range(6):
            await client.get("/v1/jobs")
            await clock.advance(1)

    with_listener(tmp_path, work, clock, rotate_bytes=900, rotate_max_files=2)
    files = sorted((tmp_path / "audit").iterdir())
    assert len(files) == 3
    assert all(each.stat().st_size <= 900 for each in files)


def test_file_is_rotated_by_age(tmp_path: Path) -> None:
    clock = FakeClock()

    async def work(server: HttpServer, client: httpx.AsyncClient) -> None:
        await client.get("/v1/jobs")
        await clock.advance(3600)
        await client.get("/v1/jobs")

    with_listener(tmp_path, work, clock, rotate_duration_s=3600.0)
    old, new = sorted((tmp_path / "audit").iterdir())
    assert (len(records(old)), len(records(new))) == (2, 2)


def test_record_of_which_the_disk_took_half_leaves_nothing_in_the_file(tmp_path: Path) -> None:
    settings = AuditSettings(path=tmp_path / "audit.log")
    sink = FileSink(settings, FakeClock())
    sink.write(b"first\n")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(b"first\nsec"), limits[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            sink.write(b"second\n")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    sink.write(b"third\n")
    sink.close()
    assert settings.path.read_bytes() == b"first\nthird\n"


def test_many_requests_at_once_have_whole_lines(tmp_path: Path) -> None:
    async def work(server: HttpServer, client: httpx.AsyncClient) -> None:
        await asyncio.gather(*(client.get("/v1/jobs") for _ in range(50)))

    with_listener(tmp_path, work)
    found = records(tmp_path / "audit" / "audit.log")
    by_request: dict[str, list[str]] = {}
    for each in found:
        by_request.setdefault(each["id"], []).append(each["stage"])
    assert len(by_request) == 50
    assert all(each == ["OperationReceived", "OperationComplete"] for each in by_request.values())
