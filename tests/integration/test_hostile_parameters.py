"""No request makes a server fail: every route, with hostile values in every place of a request.

The routes are those of the app's own tables; the names of parameters and of keys of bodies are
those that the code of a route mentions. What is added later is tried as well.
"""

from __future__ import annotations

import asyncio
import inspect
import itertools
import json
import re
import sys
from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import Any
from urllib.parse import unquote

import msgspec
import pytest
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from agent.serve import client_app, client_routes
from orchgit.model.group import TaskGroup
from orchgit.model.job import Job
from orchgit.model.resources import NetworkResource, Resources
from orchgit.model.service import Service
from orchgit.model.task import Task
from tests.support.hostile.requests_http import BODIES, JSON_VALUES, PATH_VALUES, QUERY_VALUES
from tests.support.pacing import pause
from tests.support.served_routes import endpoints, read_query_names
from tests.support.server_rig import ServerRig, server_rig

_PARAMETER = re.compile(r"\{(\w+)(:path)?\}")
_BODY_NAME = re.compile(
    r'nomad_json\.\w+\(\s*\w+,\s*"(\w+)"|body\.get\("(\w+)"|"(\w+)": (?:go_json\.|_)'
)
_COMMON = ("index", "wait", "namespace", "prefix", "filter", "per_page", "next_token", "reverse")
_ENOUGH_S = 20.0
"""Streams and long reads are left after `_LET_GO_S`; nothing of the rest takes this long."""
_LET_GO_S = 0.01

Request = tuple[str, bytes, bytes, bytes]
"""Method, path as it is sent, query, body."""


def routes_of(routes: Iterable[BaseRoute]) -> Iterator[tuple[str, list[str], ModuleType]]:
    """The same of Starlette's routes: those of an agent, of git and of webhooks."""
    for each in routes:
        if isinstance(each, Route):
            methods = sorted((each.methods or set()) - {"HEAD", "POST"} or {"POST"})
            yield each.path, methods, sys.modules[each.endpoint.__module__]


def query_names(module: ModuleType, method: str) -> tuple[str, ...]:
    # What only reads have is not tried with writes, of which each is an entry of the log, or more.
    common = _COMMON if method == "GET" else ("namespace",)
    return tuple(dict.fromkeys([*read_query_names(module), *common]))


def body_names(module: ModuleType) -> tuple[str, ...]:
    found = _BODY_NAME.findall(inspect.getsource(module))
    return tuple(dict.fromkeys(name for names in found for name in names if name))


def filled(path: str, value: bytes) -> bytes:
    return _PARAMETER.sub(value.decode().replace("\\", "\\\\"), path).encode()


def hostile(
    path: str, methods: list[str], module: ModuleType, known: dict[str, str]
) -> Iterator[Request]:
    """`known`: values of path parameters that name something."""
    good = _PARAMETER.sub(lambda found: known.get(found[1], "none"), path).encode()
    names = _PARAMETER.findall(path)
    for method in methods:
        if names:
            for value in PATH_VALUES:
                yield method, filled(path, value), b"wait=1ms", b"{}"
        for name, value in itertools.product(query_names(module, method), QUERY_VALUES):
            wait = b"" if name == "wait" else b"&wait=1ms"
            yield method, good, name.encode() + b"=" + value + wait, b"{}"
        if method not in ("PUT", "POST"):
            continue
        for body in BODIES:
            yield method, good, b"", body
        for name, value in itertools.product(body_names(module), JSON_VALUES):
            yield method, good, b"", b'{"%s":%s}' % (name.encode(), value)


async def asked(app: ASGIApp, request: Request) -> tuple[int, bytes]:
    """Status and body; 0 of a stream that is still going on when it is left."""
    method, raw_path, query, body = request
    status, parts = 0, []
    messages = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def receive() -> Any:
        message = next(messages, None)
        if message is None:
            await pause(_LET_GO_S, "the client stays connected")
            return {"type": "http.disconnect"}
        return message

    async def send(message: Any) -> None:
        nonlocal status
        if message["type"] == "http.response.start":
            status = message["status"]
        else:
            parts.append(message.get("body", b""))

    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": unquote(raw_path.decode()),
        "raw_path": raw_path,
        "query_string": query,
        "root_path": "",
        "headers": [(b"host", b"localhost"), (b"content-length", b"%d" % len(body))],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 2),
        "state": {},
    }
    try:
        async with asyncio.timeout(_LET_GO_S if b"stream" in raw_path else _ENOUGH_S):
            await app(scope, receive, send)
    except TimeoutError:
        if b"stream" not in raw_path:
            return 599, b"took too long"
    return status, b"".join(parts)


async def failures(app: ASGIApp, requests: Iterator[Request]) -> list[str]:
    found = []
    for request in requests:
        try:
            status, body = await asked(app, request)
        except Exception as error:
            found.append(f"{describe(request)}: {error!r}")
            continue
        if status >= 500 and (status == 599 or b"its log says why" in body or not body):
            found.append(f"{describe(request)}: {status} {body[:200]!r}")
    return found


def describe(request: Request) -> str:
    method, path, query, body = request
    return f"{method} {path[:80].decode()}?{query[:80].decode()} {body[:80]!r}"


class Rig:
    """A server and its agent, with a job that runs."""

    def __init__(self, running: ServerRig) -> None:
        self.server, self.agent, self.run = running.server, running.agent, running.run
        self.known = {"node_id": running.wait_ready_node(), "job_id": "kept"}
        running.register(job("kept"))
        (alloc,) = running.wait_for(
            "/v1/job/kept/allocations",
            lambda found: bool(found) and found[0]["ClientStatus"] == "running",
        )
        self.known["alloc_id"] = alloc["ID"]
        self.known["eval_id"] = alloc["EvalID"]

    def no_failures(self, app: ASGIApp, requests: Iterable[Request]) -> None:
        found = self.run(failures(app, requests))
        assert not found, f"{len(found)} requests failed:\n" + "\n".join(found[:40])


def job(job_id: str, **group: Any) -> dict[str, Any]:
    task = {"Name": "main", "Driver": "raw_exec", "Config": {"command": "/bin/sleep"}}
    task["Config"]["args"] = ["1000"]  # type: ignore[index]
    group = {"Name": "main", "Tasks": [task], **group}
    return {"ID": job_id, "Type": "batch", "TaskGroups": [group]}


def spoiled_jobs() -> Iterator[bytes]:
    """A job's body with each value of the table in each of its fields, in groups and tasks too."""
    for depth, kind in enumerate((Job, TaskGroup, Task, Resources, Service, NetworkResource)):
        for field, value in itertools.product(msgspec.structs.fields(kind), JSON_VALUES):
            body = job("spoiled")
            group = body["TaskGroups"][0]
            task = group["Tasks"][0]
            task["Resources"], group["Services"], group["Networks"] = {}, [{}], [{}]
            group["Count"] = 0
            places = (body, group, task, task["Resources"], group["Services"][0])
            (*places, group["Networks"][0])[depth][field.encode_name] = "THE-VALUE"
            yield json.dumps({"Job": body}).encode().replace(b'"THE-VALUE"', value)


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with server_rig(tmp_path_factory.mktemp("hostile"), num_schedulers=1) as running:
        yield Rig(running)


FIRST_PARTS = sorted({path.split("/")[2] for path, _, _ in endpoints()})


@pytest.mark.parametrize("part", FIRST_PARTS)
def test_hostile_value_in_any_request_parameter_fails_no_server(rig: Rig, part: str) -> None:
    for path, methods, module in endpoints():
        if path.split("/")[2] == part:
            reading = [method for method in methods if method != "DELETE"]
            rig.no_failures(rig.server.front, hostile(path, reading, module, rig.known))
            deleting = [method for method in methods if method == "DELETE"]
            rig.no_failures(rig.server.front, hostile(path, deleting, module, {}))


@pytest.mark.parametrize("path", [b"/v1/jobs", b"/v1/job/spoiled/plan", b"/v1/validate/job"])
def test_hostile_value_in_a_job_fails_no_server(rig: Rig, path: bytes) -> None:
    rig.no_failures(rig.server.front, (("PUT", path, b"", body) for body in spoiled_jobs()))


def test_hostile_value_in_any_git_or_webhook_request_fails_no_server(rig: Rig) -> None:
    for route in routes_of(rig.server.gitops.routes):
        rig.no_failures(rig.server.front, hostile(*route, rig.known))


def test_hostile_value_in_any_request_parameter_fails_no_agent(rig: Rig) -> None:
    app = client_app(rig.agent)
    for route in routes_of(client_routes(rig.agent)):
        rig.no_failures(app, hostile(*route, {**rig.known, "path": "alloc"}))
