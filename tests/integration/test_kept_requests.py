"""Requests that the listener answers itself, as it answered equal ones before."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.polling import until_blocking
from tests.support.raw_http import RawConnection
from tests.support.server_rig import ServerRig


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerRig]:
    rig = ServerRig(tmp_path_factory.mktemp("kept"), with_agent=False)
    rig.start()
    try:
        yield rig
    finally:
        rig.stop()


def job(name: str, priority: int = 50) -> dict[str, Any]:
    task = {"Name": "main", "Driver": "raw_exec", "Config": {"command": "/bin/true"}}
    group = {"Name": "main", "Count": 1, "Tasks": [task]}
    return {"Job": {"ID": name, "Name": name, "Priority": priority, "TaskGroups": [group]}}


def timings(rig: ServerRig, path: str) -> int:
    """How many requests of this path were counted."""
    text = rig.http.get("/v1/metrics", params={"format": "prometheus"}).text
    lines = [line for line in text.splitlines() if f'"{path}"' in line and "_count" in line]
    return sum(int(float(line.rsplit(" ", 1)[1])) for line in lines if 'method="GET"' in line)


def test_each_write_is_in_the_next_answer(rig: ServerRig) -> None:
    for priority in range(1, 60):
        rig.http.put("/v1/jobs", json=job("fresh", priority)).raise_for_status()
        for _ in range(3):
            assert rig.http.get("/v1/job/fresh").json()["Priority"] == priority
            listed = rig.http.get("/v1/jobs", params={"prefix": "fresh"}).json()
            assert [each["Priority"] for each in listed] == [priority]


def test_answers_of_the_listener_are_those_of_the_app_and_are_counted(rig: ServerRig) -> None:
    rig.http.put("/v1/jobs", json=job("equal")).raise_for_status()
    counted = timings(rig, "/v1/job/{job_id:path}")
    answers = [rig.http.get("/v1/job/equal") for _ in range(5)]
    assert len({answer.content for answer in answers}) == 1
    heads = [{**answer.headers, "date": ""} for answer in answers]
    assert all(head == heads[0] for head in heads)
    assert timings(rig, "/v1/job/{job_id:path}") == counted + 5


def test_requests_that_differ_in_a_header_or_the_method_are_answered_apart(rig: ServerRig) -> None:
    rig.http.put("/v1/jobs", json=job("apart")).raise_for_status()
    for _ in range(2):
        plain = rig.http.get("/v1/jobs", headers={"Accept-Encoding": "identity"})
        assert "content-encoding" not in plain.headers
        assert len(rig.http.get("/v1/jobs?pretty").content) > len(plain.content)
        head = rig.http.head("/v1/job/apart")
        assert head.status_code == 200
        assert head.content == b""
        evil = rig.http.get("/v1/job/apart", headers={"Host": "evil.example"})
        assert evil.status_code == 403


def raw(rig: ServerRig, data: bytes, answers: int) -> list[bytes]:
    """Sends `data` at once; returns the answers' bodies, in order."""

    async def exchange() -> list[bytes]:
        host, _, port = rig.server.http_address.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(data)
        bodies = []
        for _ in range(answers):
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            assert head.startswith(b"http/1.1 200"), head
            length = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])
            body = await reader.readexactly(length)
            bodies.append(gzip.decompress(body) if b"encoding: gzip" in head else body)
        writer.close()
        return bodies

    return asyncio.run(exchange())


def test_pipelined_requests_are_answered_in_their_order(rig: ServerRig) -> None:
    for name in ("first", "second"):
        rig.http.put("/v1/jobs", json=job(name)).raise_for_status()
    lines = b"GET /v1/job/%s HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    names = [b"first", b"second", b"first", b"first", b"second"] * 20
    for number in range(3):
        # The first one was never asked before: the app answers it while the others are read.
        asked = [b"first?namespace=default&new=%d" % number, *names]
        bodies = raw(rig, b"".join(lines % each for each in asked), len(asked))
        assert [json.loads(body)["ID"].encode() for body in bodies] == [b"first", *names]


def test_connection_that_is_to_be_closed_is_closed(rig: ServerRig) -> None:
    rig.http.put("/v1/jobs", json=job("closing")).raise_for_status()

    async def ask(version: bytes, header: bytes) -> bytes:
        host, _, port = rig.server.http_address.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(
            b"GET /v1/job/closing HTTP/%s\r\nHost: 127.0.0.1\r\n%s\r\n" % (version, header)
        )
        answer = await asyncio.wait_for(reader.read(), 60)
        writer.close()
        return answer

    for version, header in ((b"1.1", b"Connection: close\r\n"), (b"1.0", b"")):
        for _ in range(2):
            assert asyncio.run(ask(version, header)).startswith(b"HTTP/1.1 200")


def test_blocking_query_waits_although_its_list_is_kept(rig: ServerRig) -> None:
    rig.http.put("/v1/jobs", json=job("waited")).raise_for_status()
    rig.http.get("/v1/jobs")

    async def wait_and_change() -> tuple[int, bool]:
        host, _, port = rig.server.http_address.rpartition(":")
        one, other = [await RawConnection.open((host, int(port))) for _ in range(2)]
        index = (await other.request("GET", "/v1/job/waited")).header("X-Nomad-Index")
        path = f"/v1/job/waited?index={index}&wait=60s"
        waiting = asyncio.ensure_future(one.request("GET", path))
        again = await other.request("GET", "/v1/job/waited")
        was_open = not waiting.done() and again.status == 200
        await other.request("PUT", "/v1/jobs", json.dumps(job("waited", 77)).encode())
        answer = (await waiting).json()["Priority"]
        one.close()
        other.close()
        return answer, was_open

    assert asyncio.run(wait_and_change()) == (77, True)


def test_list_shows_a_stop_and_a_new_registration_at_once(rig: ServerRig) -> None:
    rig.http.put("/v1/jobs", json=job("stopped")).raise_for_status()
    for stopped in (True, False):
        rig.http.get("/v1/jobs", params={"prefix": "stopped"})
        if stopped:
            rig.http.delete("/v1/job/stopped").raise_for_status()
        else:
            rig.http.put("/v1/jobs", json=job("stopped")).raise_for_status()
        listed = rig.http.get("/v1/jobs", params={"prefix": "stopped"}).json()
        assert [each["Stop"] for each in listed] == [stopped]


def test_list_counts_what_waits_for_a_place_as_soon_as_the_evaluation_says_so(
    rig: ServerRig,
) -> None:
    """Only the evaluation's entry changes what is queued: no job and no allocation."""
    rig.http.put("/v1/jobs", json=job("queued")).raise_for_status()
    params = {"prefix": "queued"}

    def queued() -> int:
        listed = rig.http.get("/v1/jobs", params=params).json()
        return int(listed[0]["JobSummary"]["Summary"].get("main", {}).get("Queued", 0))

    until_blocking(lambda: queued() == 1)
