"""An agent's own HTTP under access control: tokens are checked with the servers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
import structlog
from starlette.types import Scope

from agent.agent import Agent
from agent.config import AgentConfig
from agent.serve import client_app
from agent.serve.by_servers import ServersApi
from agent.serve.guard import KEPT_S, AccessGuard
from orchgit.cli.commands.dev import end_tasks
from orchgit.clock import SystemClock
from orchgit.ids import RandomIds
from orchgit.model.acl import ANONYMOUS, AclPolicy
from orchgit.replication.commands.acl import PutAclPolicies
from orchgit.server.audit.audit_log import audit_log
from orchgit.server.audit.records import AuditAuth
from orchgit.server.audit.settings import AuditSettings
from orchgit.server.http.server import HttpServer
from orchgit.services.acl.settings import AclSettings
from orchgit.wire.relay_proof import MAX_AGE_S, is_proven, proof
from tests.support.polling import until_blocking
from tests.support.server_rig import DRIVERS, ServerRig, server_rig
from tests.support.websocket import websocket

READER = 'namespace "default" { capabilities = ["read-job", "read-logs"] }'


@dataclass
class AloneAgent:
    """A server, and an agent that serves its own HTTP, with a running task."""

    rig: ServerRig
    agent: Agent
    http: httpx.Client
    reader: str
    accessor: str
    audit_log: Path
    alloc_id: str = ""

    def get(self, path: str, token: str = "", **headers: str) -> httpx.Response:
        sent = {"X-Nomad-Token": token, **headers} if token else headers
        return self.http.get(path, headers=sent)

    @property
    def logs(self) -> str:
        return f"/v1/client/fs/logs/{self.alloc_id}?task=t&type=stdout&plain=true"


def asked_by(guard: AccessGuard, scope: Scope) -> AuditAuth:
    said = guard.asked_by(scope)
    return AuditAuth(said.accessor_id, said.token_name, said.token_type, said.policies)


def audited_sockets(path: Path) -> list[dict[str, Any]]:
    """The records of websockets that were answered."""
    payloads = [json.loads(line)["payload"] for line in path.read_text().splitlines()]
    return [
        each
        for each in payloads
        if each["request"]["operation"] == "WEBSOCKET" and each["stage"] == "OperationComplete"
    ]


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AloneAgent]:
    directory = tmp_path_factory.mktemp("alone")
    with server_rig(directory, with_agent=False, acl=AclSettings(enabled=True)) as rig:
        rig.http.headers["X-Nomad-Token"] = rig.http.post("/v1/acl/bootstrap").json()["SecretID"]
        context = rig.server.services.context
        rig.run(context.propose(PutAclPolicies(policies=[AclPolicy("reader", rules=READER)])))
        body = {"Name": "r", "Type": "client", "Policies": ["reader"]}
        token = rig.http.post("/v1/acl/token", json=body).json()
        config = AgentConfig(
            data_dir=directory / "agent", servers=(rig.server.rpc_address,), drivers=DRIVERS
        )
        agent = Agent(config)
        guard = AccessGuard(client_app(agent), agent.access)
        audit = directory / "audit" / "audit.log"
        log = audit_log(
            AuditSettings(), directory, SystemClock(), RandomIds(), partial(asked_by, guard)
        )
        app = ServersApi(guard, agent, names_callers=True)
        listener = HttpServer(app, "127.0.0.1:0", audit=log)

        async def start() -> None:
            listener.bind()
            agent.config = replace(config, http_addr=listener.address)
            await agent.start()
            await listener.start()

        async def stop() -> None:
            await listener.stop(1.0)
            await agent.stop()
            await end_tasks(directory / "agent")

        rig.run(start())
        rig.wait_ready_node()
        with httpx.Client(base_url=f"http://{listener.address}", trust_env=False) as http:
            found = AloneAgent(rig, agent, http, token["SecretID"], token["AccessorID"], audit)
            rig.register(sleeping_job())
            [alloc] = rig.wait_for(
                "/v1/job/runs/allocations",
                lambda found: bool(found) and found[0]["ClientStatus"] == "running",
            )
            found.alloc_id = alloc["ID"]
            until_blocking(lambda: "hello" in rig.http.get(found.logs).text)
            yield found
        rig.run(stop())


def sleeping_job() -> dict[str, Any]:
    script = {"command": "/bin/sh", "args": ["-c", "echo hello; exec sleep 600"]}
    task = {"Name": "t", "Driver": "raw_exec", "Config": script}
    return {"ID": "runs", "Type": "service", "TaskGroups": [{"Name": "g", "Tasks": [task]}]}


def test_agent_answers_those_whom_the_servers_would_answer(alone: AloneAgent) -> None:
    management = alone.rig.http.headers["X-Nomad-Token"]
    stats, files = "/v1/client/stats", f"/v1/client/fs/ls/{alone.alloc_id}?path=/"
    assert alone.get(alone.logs).status_code == 403
    unknown = alone.get(alone.logs, "00000000-0000-4000-8000-000000000000")
    assert unknown.status_code == 500  # as Nomad's agents word it
    assert "Permission denied" in unknown.text
    assert alone.get(alone.logs, alone.reader).text == "hello\n"
    bearer = alone.get(alone.logs, Authorization=f"Bearer {alone.reader}")
    assert bearer.text == "hello\n"
    for path in (stats, files, "/v1/client/metadata"):
        assert alone.get(path, alone.reader).status_code == 403, path
        assert alone.get(path, management).status_code == 200, path
    assert alone.get("/v1/client/nowhere", management).status_code == 403


def test_exec_at_the_agent_wants_a_token(alone: AloneAgent) -> None:
    port = int(alone.agent.config.http_addr.rpartition(":")[2])
    path = f"/v1/client/allocation/{alone.alloc_id}/exec?task=t&command=%5B%22true%22%5D"
    frames, code = alone.rig.run(websocket(port, path, []))
    assert (frames, code) == ([], 1011)


def test_token_in_the_first_message_of_exec_counts_and_is_named_in_the_audit_log(
    alone: AloneAgent,
) -> None:
    port = int(alone.agent.config.http_addr.rpartition(":")[2])
    path = f"/v1/client/allocation/{alone.alloc_id}/exec?task=t&command=%5B%22true%22%5D"
    management = alone.rig.http.headers["X-Nomad-Token"]
    accessor = alone.rig.http.get("/v1/acl/token/self").json()["AccessorID"]
    log = alone.audit_log
    for token, code, name in (
        (management, 1000, accessor),
        (alone.reader, 1011, alone.accessor),
        ("", 1011, ANONYMOUS),
    ):
        before = len(audited_sockets(log))
        hello = {"version": 1, "auth_token": token}
        frames, closed = alone.rig.run(
            websocket(port, f"{path}&ws_handshake=true", [hello, {"stdin": {"close": True}}])
        )
        assert closed == code
        assert bool(frames) is (code == 1000)
        [record] = audited_sockets(log)[before:]
        assert record["auth"]["accessor_id"] == name
        assert record["response"]["status_code"] == (101 if code == 1000 else 403)
    assert management not in log.read_text()


def test_server_relays_what_it_has_checked(alone: AloneAgent) -> None:
    asked = {"X-Nomad-Token": alone.reader}
    assert alone.rig.http.get(alone.logs, headers=asked).text == "hello\n"
    refused = alone.rig.http.get("/v1/client/stats", headers=asked)
    assert refused.status_code == 403


def test_forged_proof_of_a_server_is_worth_nothing(alone: AloneAgent) -> None:
    now_ns = alone.agent.clock.now_ns()
    path = f"/v1/client/fs/logs/{alone.alloc_id}"
    query = b"task=t&type=stdout&plain=true"
    forged = proof("guess", "GET", path, query, now_ns).decode()
    assert alone.get(alone.logs, **{"X-Orchgit-Checked": forged}).status_code == 403


def test_proof_counts_for_its_request_and_time_only() -> None:
    now_ns = 1_800_000_000 * 10**9
    value = proof("secret", "GET", "/v1/client/stats", b"a=1&b=%2F", now_ns)
    good: dict[str, Any] = {
        "secret": "secret",
        "method": "GET",
        "path": "/v1/client/stats",
        "query": b"b=/&a=1",
        "now_ns": now_ns,
        "value": value,
    }
    assert is_proven(**good)
    assert is_proven(**{**good, "now_ns": now_ns + MAX_AGE_S * 10**9})
    for changed in (
        {"secret": "other"},
        {"method": "PUT"},
        {"path": "/v1/client/gc"},
        {"query": b"a=1"},
        {"now_ns": now_ns + (MAX_AGE_S + 1) * 10**9},
        {"now_ns": now_ns - (MAX_AGE_S + 1) * 10**9},
        {"value": b"x"},
        {"value": value[:-1] + b"\xff"},
    ):
        assert not is_proven(**{**good, **changed}), changed


def test_revoked_token_is_refused_within_a_moment(alone: AloneAgent) -> None:
    body = {"Name": "gone", "Type": "client", "Policies": ["reader"]}
    token = alone.rig.http.post("/v1/acl/token", json=body).json()
    assert alone.get(alone.logs, token["SecretID"]).status_code == 200
    alone.rig.http.delete(f"/v1/acl/token/{token['AccessorID']}")
    until_blocking(
        lambda: alone.get(alone.logs, token["SecretID"]).status_code != 200,
        timeout_s=KEPT_S * 5,
    )


def test_agent_remembers_access_control_across_a_restart(alone: AloneAgent) -> None:
    facts = alone.agent.local.facts()
    assert facts["acl"] == "on"
    assert alone.agent.access().is_on


def test_agent_passes_on_what_only_servers_answer(alone: AloneAgent) -> None:
    management = alone.rig.http.headers["X-Nomad-Token"]
    found = alone.get("/v1/jobs", management)
    assert [each["ID"] for each in found.json()] == ["runs"]
    assert int(found.headers["X-Nomad-Index"]) > 0
    for token in ("", alone.reader):
        answer = alone.get("/v1/nodes", token)
        assert (answer.status_code, answer.text) == (403, "Permission denied")
    assert alone.get("/v1/status/leader").status_code == 200  # for this no token is needed
    assert alone.get("/v1/nowhere", management).status_code == 404
    assert alone.get("/git/none.git/info/refs", management).status_code == 403


def test_write_at_an_agent_is_of_its_token_there_and_in_the_audit_log(alone: AloneAgent) -> None:
    management = alone.rig.http.headers["X-Nomad-Token"]
    body = {"Name": "team", "Description": "written at an agent"}
    headers = {"X-Nomad-Token": management}
    assert alone.http.put("/v1/namespace/team", json=body, headers=headers).status_code == 200
    own = alone.rig.http.get("/v1/acl/token/self").json()["AccessorID"]
    authors = alone.rig.http.get("/v1/gitops/authors").json()
    [written] = [each for each in authors if each["Kind"] == "namespaces"]
    assert written["Author"]["AccessorID"] == own
    payloads = [json.loads(line)["payload"] for line in alone.audit_log.read_text().splitlines()]
    of_write = [each for each in payloads if each["request"]["endpoint"] == "/v1/namespace/team"]
    assert [each["auth"].get("accessor_id") for each in of_write][-1] == own


def test_request_that_a_server_has_passed_on_is_not_passed_back(alone: AloneAgent) -> None:
    management = alone.rig.http.headers["X-Nomad-Token"]
    gone = "11111111-2222-4333-8444-555555555555"
    path = f"/v1/client/fs/ls/{gone}"
    secret, now_ns = alone.agent.facts.identity.secret_id, alone.agent.clock.now_ns()
    proven = proof(secret, "GET", path, b"path=/", now_ns).decode()
    answer = alone.get(f"{path}?path=/", management, **{"X-Orchgit-Checked": proven})
    assert (answer.status_code, answer.text) == (404, f'Unknown allocation "{gone}"')


def test_agent_tells_of_itself(alone: AloneAgent) -> None:
    management = alone.rig.http.headers["X-Nomad-Token"]
    assert alone.get("/v1/agent/health").json() == {"client": {"ok": True, "message": "ok"}}
    assert alone.get("/v1/agent/self").status_code == 403
    own = alone.get("/v1/agent/self", management).json()
    assert own["stats"]["client"]["node_id"] == alone.agent.node_id
    assert own["config"]["ACL"] == {"Enabled": True}
    assert own["config"]["Server"] == {"Enabled": False}
    reloads: list[bool] = []
    alone.agent.reload = lambda: reloads.append(True)
    for token, status in ((alone.reader, 403), (management, 200)):
        headers = {"X-Nomad-Token": token}
        assert alone.http.put("/v1/agent/reload", headers=headers).status_code == status
    assert reloads == [True]  # the agent's, not a server's
    servers = alone.get("/v1/agent/servers", management).json()
    assert servers == [alone.rig.server.rpc_address]


_OF_PROCESS = ("host", "pprof/goroutine", "pprof/cmdline")


def _asked_paths(alone: AloneAgent) -> list[str]:
    lines = alone.audit_log.read_text().splitlines()
    return [json.loads(line)["payload"]["request"]["endpoint"] for line in lines]


@pytest.mark.parametrize("path", _OF_PROCESS)
def test_server_has_a_nodes_agent_answer_what_is_asked_of_its_process(
    alone: AloneAgent, path: str
) -> None:
    query = {"node_id": alone.agent.node_id}
    answer = alone.rig.http.get(f"/v1/agent/{path}", params=query)
    assert (answer.status_code, bool(answer.text)) == (200, True)
    assert any(each.startswith(f"/v1/agent/{path}") for each in _asked_paths(alone))


@pytest.mark.parametrize("path", [*_OF_PROCESS, "monitor?plain=true"])
def test_process_of_a_node_is_shown_to_those_who_may_read_agents(
    alone: AloneAgent, path: str
) -> None:
    mark = "&" if "?" in path else "?"
    headers = {"X-Nomad-Token": alone.reader}
    by_server = f"/v1/agent/{path}{mark}node_id={alone.agent.node_id}"
    assert alone.rig.http.get(by_server, headers=headers).status_code == 403
    assert alone.get(f"/v1/agent/{path}", alone.reader).status_code == 403
    assert alone.get(f"/v1/agent/{path}").status_code == 403


def test_log_of_a_node_is_followed_through_its_server(alone: AloneAgent) -> None:
    log = structlog.get_logger(component="test")
    query = {"node_id": alone.agent.node_id, "plain": "true", "log_level": "DEBUG"}
    with alone.rig.http.stream("GET", "/v1/agent/monitor", params=query) as answer:
        assert answer.status_code == 200
        log.debug("a mark of the node")
        for text in answer.iter_text():
            if "a mark of the node" in text:
                break
            log.debug("a mark of the node")
    assert any(each.startswith("/v1/agent/monitor") for each in _asked_paths(alone))


@pytest.mark.parametrize("is_of_node", [True, False])
def test_log_that_is_followed_ends_in_order_when_the_token_is_revoked(
    alone: AloneAgent, is_of_node: bool
) -> None:
    rules = 'agent { policy = "read" }'
    policy = {"Name": "follower", "Rules": rules}
    assert alone.rig.http.put("/v1/acl/policy/follower", json=policy).status_code == 200
    body = {"Name": "f", "Type": "client", "Policies": ["follower"]}
    token = alone.rig.http.post("/v1/acl/token", json=body).json()
    query = {"log_level": "DEBUG", **({"node_id": alone.agent.node_id} if is_of_node else {})}
    headers = {"X-Nomad-Token": token["SecretID"]}
    with alone.rig.http.stream(
        "GET", "/v1/agent/monitor", params=query, headers=headers, timeout=60
    ) as answer:
        chunks = answer.iter_text()
        assert next(chunks)
        alone.rig.http.delete(f"/v1/acl/token/{token['AccessorID']}")
        structlog.get_logger(component="test").debug("what is not for it")
        for _ in chunks:  # raises where the answer breaks off
            pass


def test_process_of_an_unknown_node_and_of_two_at_once_is_refused(alone: AloneAgent) -> None:
    http, other = alone.rig.http, "00000000-1111-2222-3333-444444444444"
    refused = http.get("/v1/agent/host", params={"node_id": other})
    assert (refused.status_code, refused.text) == (404, f"Unknown node {other}")
    both = {"node_id": alone.agent.node_id, "server_id": "leader"}
    assert http.get("/v1/agent/host", params=both).status_code == 400
    management = http.headers["X-Nomad-Token"]
    assert alone.get("/v1/metrics").status_code == 200  # scrapers have no token
    assert alone.get("/v1/agent/host", management).status_code == 200
    assert alone.get(f"/v1/agent/host?node_id={other}", management).status_code == 404
    of_leader = alone.get("/v1/agent/host?server_id=leader", management)  # a server answers it
    assert of_leader.status_code == 200
