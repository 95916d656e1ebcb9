"""Who answers a request, and when it may be tried again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from orchgit.api.consistency import ELECTION_WAIT_S, WRITES, Consistency
from orchgit.api.placing import Place, place_of
from orchgit.clock import FakeClock
from orchgit.errors import NotLeaderError, UnavailableError
from orchgit.replication.leadership import Leadership, WhileLeading
from orchgit.replication.proposal import RequestWrites


@pytest.mark.parametrize(
    ("request_line", "place"),
    [
        ("GET /v1/jobs", Place.LEADER),
        ("GET /v1/jobs?stale", Place.HERE),
        ("GET /v1/jobs?stale=true&index=7", Place.HERE),
        ("GET /v1/jobs?stale=false", Place.LEADER),
        ("GET /v1/jobs?prefix=stale", Place.LEADER),
        ("GET /v1/jobs?consistent", Place.CURRENT),
        ("HEAD /v1/job/a?stale", Place.HERE),
        ("PUT /v1/jobs?stale", Place.LEADER),
        ("DELETE /v1/job/a", Place.LEADER),
        ("POST /v1/search?stale", Place.HERE),
        ("POST /v1/search", Place.LEADER),
        ("POST /v1/jobs/parse", Place.HERE),
        ("GET /v1/agent/self", Place.HERE),
        ("PUT /v1/agent/schedulers/config", Place.HERE),
        ("GET /v1/agent/self?server_id=b", Place.HERE),
        ("GET /v1/agent/monitor", Place.HERE),
        ("GET /v1/agent/monitor?plain=true&server_id=b", Place.SERVER),
        ("GET /v1/agent/pprof/heap?server_id=b&server_id=", Place.SERVER),
        ("GET /v1/agent/host?server_id=&server_id=b", Place.HERE),
        ("GET /v1/metrics", Place.HERE),
        ("GET /v1/status/leader", Place.HERE),
        ("GET /v1/event/stream", Place.LEADER),
        ("GET /v1/client/fs/logs/x", Place.NODE),
        ("GET /ui/jobs", Place.HERE),
        ("GET /.well-known/jwks.json", Place.LEADER),
        ("POST /webhooks/github", Place.LEADER),
        ("OPTIONS /v1/jobs", Place.HERE),
        ("GET /git/a.git/info/refs?service=git-upload-pack", Place.REPOSITORY),
        ("POST /git/a.git/git-upload-pack", Place.REPOSITORY),
        ("GET /git/a.git/info/refs?service=git-receive-pack", Place.LEADER),
        ("POST /git/a.git/git-receive-pack", Place.LEADER),
    ],
)
def test_request_is_placed_by_method_path_and_query(request_line: str, place: Place) -> None:
    method, target = request_line.split(" ")
    path, _, query = target.partition("?")
    assert place_of(method, path, query.encode()) is place


class ScriptedServer:
    """A server whose leadership the test decides, and what was answered by whom."""

    def __init__(self) -> None:
        self.is_leader = False
        self.leads_for_certain = True
        self.forwarding: list[Exception | None] = []
        self.seen: list[tuple[str, bytes]] = []
        self.sent: list[Message] = []
        self.reads = 0
        self.leadership = Leadership()
        self.leadership.set(True)
        self.clock = FakeClock()
        self.app: Callable[[RequestWrites | None], None] = lambda writes: None
        self.edge = Consistency(
            self._app, self, self.has_node, self._forward, self._app_of, self.clock
        )
        self.edge_entry: ASGIApp = self.edge

    async def read_index(self) -> int:
        self.reads += 1
        return 1

    def while_leading(self) -> WhileLeading:
        return self.leadership.while_leading()

    def has_node(self, scope: Scope) -> bool:
        return scope["path"].endswith("/known")

    async def _app(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.seen.append(("here", await _body(receive)))
        self.app(scope.get(WRITES))
        if b"index=" in scope["query_string"]:
            await asyncio.Event().wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def _forward(self, scope: Scope, receive: Receive, send: Send, wait_s: float) -> None:
        self.seen.append(("leader", await _body(receive)))
        error = self.forwarding.pop(0) if self.forwarding else None
        if error is not None:
            raise error
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    def _app_of(self, name: str) -> ASGIApp | None:
        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            self.seen.append((name, await _body(receive)))
            if name == "silent":
                raise UnavailableError("cannot ask server 'silent'")
            await send({"type": "http.response.start", "status": 200, "headers": []})

        return app if name in ("other", "silent") else None

    async def ask(self, method: str, path: str, query: str = "", body: bytes = b"") -> int:
        async def send(message: Message) -> None:
            self.sent.append(message)

        chunks = [body[:100], body[100:]] if len(body) > 100 else [body]
        messages: list[Message] = [
            {"type": "http.request", "body": each, "more_body": each is not chunks[-1]}
            for each in chunks
        ]

        async def receive() -> Message:
            return messages.pop(0) if messages else {"type": "http.disconnect"}

        scope = {"type": "http", "method": method, "path": path, "query_string": query.encode()}
        await self.edge_entry(scope, receive, send)
        return int(self.sent[0]["status"])

    @property
    def where(self) -> list[str]:
        return [place for place, _ in self.seen]


async def _body(receive: Receive) -> bytes:
    body = b""
    while (message := await receive())["type"] == "http.request":
        body += message["body"]
        if not message["more_body"]:
            break
    return body


def run(test: Callable[[ScriptedServer], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        await test(ScriptedServer())

    asyncio.run(main())


@pytest.mark.parametrize(
    ("method", "certain", "reads"), [("GET", True, 0), ("GET", False, 1), ("PUT", False, 0)]
)
def test_leader_confirms_its_majority_before_a_read(method: str, certain: bool, reads: int) -> None:
    async def scenario(server: ScriptedServer) -> None:
        server.is_leader, server.leads_for_certain = True, certain
        assert await server.ask(method, "/v1/jobs") == 200
        assert server.reads == reads

    run(scenario)


def test_follower_forwards_requests_and_answers_stale_reads() -> None:
    async def test(server: ScriptedServer) -> None:
        assert await server.ask("PUT", "/v1/jobs", body=b"{}") == 200
        assert await server.ask("GET", "/v1/jobs", "stale") == 200
        assert await server.ask("GET", "/v1/client/known") == 200
        assert await server.ask("GET", "/v1/client/unknown") == 200
        assert server.seen == [("leader", b"{}"), ("here", b""), ("here", b""), ("leader", b"")]

    run(test)


@pytest.mark.parametrize(
    ("name", "status", "where"),
    [("other", 200, "other"), ("silent", 503, "silent"), ("own", 200, "here")],
)
def test_request_about_a_server_is_answered_by_that_server_alone(
    name: str, status: int, where: str
) -> None:
    async def test(server: ScriptedServer) -> None:
        assert await server.ask("GET", "/v1/agent/host", f"server_id={name}") == status
        assert server.where == [where]

    run(test)


def test_forwarded_request_about_a_server_is_answered_without_leading() -> None:
    async def test(server: ScriptedServer) -> None:
        server.edge_entry = server.edge.forwarded
        assert await server.ask("GET", "/v1/agent/host", "server_id=other") == 200
        assert server.where == ["here"]

    run(test)


def test_request_that_was_not_begun_is_sent_whole_to_the_next_leader() -> None:
    async def test(server: ScriptedServer) -> None:
        server.forwarding = [NotLeaderError("no"), NotLeaderError("no")]
        body = b"x" * 500
        asking = asyncio.ensure_future(server.ask("PUT", "/v1/jobs", body=body))
        await server.clock.advance(1.0)
        assert await asking == 200
        assert server.seen == [("leader", body)] * 3

    run(test)


def test_large_body_is_not_sent_twice() -> None:
    async def test(server: ScriptedServer) -> None:
        server.forwarding = [NotLeaderError("no")]
        assert await server.ask("PUT", "/v1/jobs", body=b"x" * (2 << 20)) == 500
        assert server.where == ["leader"]

    run(test)


def test_without_a_leader_a_request_ends_as_in_nomad() -> None:
    async def test(server: ScriptedServer) -> None:
        server.forwarding = [NotLeaderError("no")] * 1000
        asking = asyncio.ensure_future(server.ask("GET", "/v1/jobs"))
        await server.clock.advance(ELECTION_WAIT_S - 0.5)
        assert not asking.done()
        await server.clock.advance(1.0)
        assert await asking == 500
        assert server.sent[1]["body"] == b"No cluster leader"

    run(test)


def test_unknown_outcome_is_told_and_not_tried_again() -> None:
    async def test(server: ScriptedServer) -> None:
        server.forwarding = [UnavailableError("cannot tell")]
        assert await server.ask("PUT", "/v1/jobs") == 503
        assert server.where == ["leader"]

    run(test)


def test_leader_that_is_deposed_before_it_wrote_hands_on() -> None:
    async def test(server: ScriptedServer) -> None:
        server.is_leader = True

        def depose(writes: RequestWrites | None) -> None:
            assert writes == RequestWrites(any=False)
            server.is_leader = False
            raise NotLeaderError("no longer")

        server.app = depose
        asking = asyncio.ensure_future(server.ask("PUT", "/v1/jobs", body=b"{}"))
        await server.clock.advance(1.0)
        assert await asking == 200
        assert server.seen == [("here", b"{}"), ("leader", b"{}")]

    run(test)


def test_each_request_that_the_leader_answers_has_its_own_record_of_writes() -> None:
    async def test(server: ScriptedServer) -> None:
        server.is_leader = True
        seen: list[RequestWrites | None] = []

        def write(writes: RequestWrites | None) -> None:
            assert writes is not None
            seen.append(replace(writes))
            writes.any = True

        server.app = write
        assert await server.ask("PUT", "/v1/jobs") == 200
        assert await server.ask("PUT", "/v1/jobs") == 200
        assert seen == [RequestWrites(any=False)] * 2

    run(test)


def test_request_for_any_server_has_no_record_of_writes() -> None:
    async def test(server: ScriptedServer) -> None:
        seen: list[RequestWrites | None] = []
        server.app = seen.append
        assert await server.ask("GET", "/v1/jobs", "stale") == 200
        assert seen == [None]

    run(test)


def test_blocking_read_moves_on_when_this_server_is_deposed() -> None:
    async def test(server: ScriptedServer) -> None:
        server.is_leader = True
        asking = asyncio.ensure_future(server.ask("GET", "/v1/jobs", "index=9"))
        await server.clock.advance(0.0)
        server.is_leader = False
        server.leadership.set(False)
        await server.clock.advance(1.0)
        assert await asking == 200
        assert server.where == ["here", "leader"]

    run(test)


def test_consistent_asks_the_others_first_and_a_forwarded_request_is_never_handed_on() -> None:
    async def test(server: ScriptedServer) -> None:
        server.is_leader = True
        await server.ask("GET", "/v1/jobs", "consistent")
        assert server.reads == 1
        server.is_leader = False
        scope = {"type": "http", "method": "GET", "path": "/v1/jobs", "query_string": b""}
        with pytest.raises(NotLeaderError):
            await server.edge.forwarded(scope, _nothing, _unsent)
        assert server.where == ["here"]

    run(test)


async def _nothing() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


async def _unsent(message: Message) -> None:
    raise AssertionError("nothing is answered")
