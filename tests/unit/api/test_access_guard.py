"""What lies behind the guard: websockets, paths of agents; and bodies that try to mislead it."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from agent.agent import Agent
from agent.serve import client_routes
from orchgit.acl.rights import Rights, compile_rights
from orchgit.acl.rules import parse_rules
from orchgit.api.access.caller import UNKNOWN_TOKEN, BadTokenReason, Caller
from orchgit.api.access.control import AccessControl, AccessRefusedError
from orchgit.api.access.enforcement import admit
from orchgit.api.access.guard import Guard
from orchgit.api.access.requirements import ObjectKind
from orchgit.api.access.table import TABLE
from orchgit.api.app import TABLES, guarded_paths
from orchgit.api.call import ApiCall
from orchgit.api.context import ApiContext

EXEC = "/v1/client/allocation/a1/exec"
TEAM = """namespace "team" {
  capabilities = ["submit-job", "read-job", "alloc-exec", "alloc-node-exec", "gitops-source",
    "host-volume-create"]
  variables { path "*" { capabilities = ["write"] } }
}"""


def rights(text: str) -> Rights:
    return compile_rights([parse_rules(text)])


@dataclass
class FakeTokens:
    known: dict[str, Rights] = field(default_factory=dict)

    def caller(self, secret: str) -> Caller | BadTokenReason:
        found = self.known.get(secret)
        return UNKNOWN_TOKEN if found is None else Caller(found)


class InTeam:
    """Every object is in namespace team, and every driver is unknown."""

    def namespace_of(self, kind: ObjectKind, object_id: str) -> str:
        return "team"

    def driver_of(self, alloc_id: str, task: str) -> str:
        return ""


@dataclass
class FakeApi:
    access: AccessControl


@dataclass
class Socket:
    """A client's side of a websocket: it says `messages`."""

    messages: deque[Message]
    sent: list[Message] = field(default_factory=list)

    async def receive(self) -> Message:
        return self.messages.popleft()

    async def send(self, message: Message) -> None:
        self.sent.append(message)


TOKENS = FakeTokens({"": rights(""), "team": rights(TEAM)})
API = cast(ApiContext, FakeApi(AccessControl(TOKENS, InTeam())))


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers HTTP with 200; accepts a websocket, and repeats its first message."""
    if scope["type"] == "http":
        await Response("served")(scope, receive, send)
        return
    assert (await receive())["type"] == "websocket.connect"
    await send({"type": "websocket.accept"})
    await send({"type": "websocket.send", "text": (await receive())["text"]})


def guarded() -> Guard:
    return Guard(echo, API, guarded_paths([each for table in TABLES for each in table]))


def ask_socket(query: str, secret: str, *texts: str) -> list[Message]:
    said: list[Message] = [{"type": "websocket.receive", "text": text} for text in texts]
    socket = Socket(deque([{"type": "websocket.connect"}, *said]))
    headers = [(b"x-nomad-token", secret.encode())] if secret else []
    scope: Scope = {
        "type": "websocket",
        "path": EXEC,
        "query_string": query.encode(),
        "headers": headers,
    }
    asyncio.run(guarded()(scope, socket.receive, socket.send))
    return socket.sent


def test_websocket_with_a_right_reaches_the_agent() -> None:
    sent = ask_socket("task=t", "team", "hello")
    assert [each["type"] for each in sent] == ["websocket.accept", "websocket.send"]


def test_websocket_without_the_right_is_closed_with_the_reason() -> None:
    assert ask_socket("task=t", "")[1:] == [
        {"type": "websocket.close", "code": 1011, "reason": "Permission denied"}
    ]


def test_websocket_with_an_unknown_token_is_closed_as_a_violation() -> None:
    assert ask_socket("task=t", "nobodys")[1:] == [
        {"type": "websocket.close", "code": 1008, "reason": "rpc error: Permission denied"}
    ]


def test_token_in_the_first_message_counts_where_the_query_says_so() -> None:
    hello = json.dumps({"version": 1, "auth_token": "team"})
    sent = ask_socket("task=t&ws_handshake=true", "", hello, "work")
    assert [each["type"] for each in sent] == ["websocket.accept", "websocket.send"]
    assert sent[1]["text"] == "work"


@pytest.mark.parametrize("hello", ['{"version": 1, "auth_token": ""}', "[]", "x", '{"a":'])
def test_first_message_without_a_token_is_refused(hello: str) -> None:
    sent = ask_socket("task=t&ws_handshake=true", "", hello, "work")
    assert sent[-1]["type"] == "websocket.close"
    assert [each["type"] for each in sent].count("websocket.accept") >= 1


def test_path_of_an_agent_without_an_entry_is_not_found() -> None:
    socket = Socket(deque([{"type": "http.request", "body": b""}]))
    scope: Scope = {
        "type": "http",
        "method": "GET",
        "path": "/v1/client/forgotten",
        "query_string": b"",
        "headers": [],
    }
    asyncio.run(guarded()(scope, socket.receive, socket.send))
    assert socket.sent[0]["status"] == 404


def test_every_path_of_an_agent_has_an_entry() -> None:
    for route in client_routes(cast(Agent, object())):
        path = getattr(route, "path", "")
        methods = route.methods or () if isinstance(route, Route) else ("WEBSOCKET",)
        for method in methods:
            assert TABLE.rule(path, method) is not None, f"{method} {path}"


async def admitted(route: str, query: str, body: dict[str, Any], named: dict[str, str]) -> bool:
    """Returns whether the token of the team may send the request."""
    data = json.dumps(body).encode()

    async def receive() -> Message:
        return {"type": "http.request", "body": data}

    scope: Scope = {
        "type": "http",
        "method": "PUT",
        "path": route,
        "query_string": query.encode(),
        "headers": [(b"x-nomad-token", b"team")],
        "path_params": named,
        "app": Starlette(),
    }
    call = ApiCall(Request(scope, receive), API)
    assert API.access is not None
    try:
        await admit(call, route, API.access)
    except AccessRefusedError:
        return False
    return True


JOB = {"ID": "j", "Type": "service", "TaskGroups": []}


@pytest.mark.parametrize(
    ("path", "query", "body", "allowed"),
    [
        ("/v1/jobs", "", {"Job": {**JOB, "Namespace": "team"}}, True),
        ("/v1/jobs", "", {"Job": JOB}, False),
        ("/v1/jobs", "namespace=team", {"Job": {**JOB, "Namespace": "other"}}, True),
        ("/v1/jobs", "namespace=other", {"Job": {**JOB, "Namespace": "team"}}, False),
        ("/v1/var/{path:path}", "namespace=team", {"Items": {}}, True),
        ("/v1/var/{path:path}", "", {"Namespace": "team", "Items": {}}, True),
        ("/v1/var/{path:path}", "namespace=other", {"Namespace": "team"}, False),
        ("/v1/volume/host/create", "", {"Volume": {"Namespace": "team"}}, True),
        ("/v1/volume/host/create", "", {"Volume": {"Name": "v"}}, False),
        ("/v1/gitops/release", "namespace=team", {"JobID": "j"}, True),
        ("/v1/gitops/release", "namespace=team", {"JobID": "j", "Namespace": "other"}, False),
        ("/v1/gitops/source/{name}", "namespace=team", {"Namespace": "other"}, False),
        ("/v1/gitops/source/{name}", "", {"Namespace": "team"}, True),
    ],
)
def test_right_counts_in_the_namespace_that_the_handler_will_take(
    path: str, query: str, body: dict[str, Any], allowed: bool
) -> None:
    named = {"path": "p"} if "{path" in path else {"name": "s"}
    assert asyncio.run(admitted(path, query, body, named)) is allowed
