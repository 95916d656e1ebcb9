"""Services of provider consul, registered by a real agent at a stub of Consul's HTTP API."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent.config import ConsulConfig
from agent.consul.sync import ConsulSync
from agent.drivers.base import ExecResult
from agent.http_json import HttpService, request
from agent.services.registrations import AllocServices, ServiceTable
from orchgit.clock import FakeClock
from orchgit.errors import UnreachableError
from orchgit.model.interpolation import Interpolator
from orchgit.model.service import Service
from tests.support.consul_stub import ConsulStub
from tests.support.factories import make_allocation, make_node
from tests.support.json_http_stub import StubRequest
from tests.support.polling import until, until_blocking
from tests.support.server_rig import ServerRig

_SECOND_NS = 1_000_000_000
TOKEN = "consul-token"


def consul_job(**service: Any) -> dict[str, Any]:
    return {
        "ID": "web",
        "Type": "service",
        "TaskGroups": [
            {
                "Name": "g",
                "Networks": [{"DynamicPorts": [{"Label": "http"}]}],
                "Services": [
                    {
                        "Name": "web",
                        "PortLabel": "http",
                        "Provider": "consul",
                        "Tags": ["a", "${NOMAD_ALLOC_INDEX}"],
                        "Meta": {"team": "blue"},
                        "Weights": {"Passing": 5, "Warning": 2},
                        "Checks": [
                            {
                                "Name": "up",
                                "Type": "http",
                                "Path": "/health",
                                "Interval": 10 * _SECOND_NS,
                                "Timeout": 2 * _SECOND_NS,
                                "OnUpdate": "ignore",
                            },
                            {
                                "Name": "script",
                                "Type": "script",
                                "Command": "/bin/sh",
                                "Args": ["-c", "echo fine"],
                                "TaskName": "t",
                                "Interval": 10 * _SECOND_NS,
                                "Timeout": 2 * _SECOND_NS,
                            },
                        ],
                        **service,
                    }
                ],
                "Tasks": [
                    {
                        "Name": "t",
                        "Driver": "raw_exec",
                        "Config": {"command": "/bin/sleep", "args": ["600"]},
                        "Resources": {"CPU": 50, "MemoryMB": 64},
                    }
                ],
            }
        ],
    }


def test_services_of_provider_consul_come_and_go_with_their_allocations(tmp_path: Path) -> None:
    with ConsulStub(TOKEN) as consul:
        service = HttpService(url=consul.url, headers={"X-Consul-Token": TOKEN}, timeout_s=60)
        foreign = {"ID": "_nomad-task-x", "Meta": {"orchgit-node": "another"}}
        consul.services["_nomad-task-x"] = foreign
        config = {"consul": ConsulConfig(service=service)}
        rig = ServerRig(tmp_path, agent_config=config)
        rig.start()
        try:
            node_id = rig.wait_ready_node()
            rig.wait_for(
                f"/v1/node/{node_id}",
                lambda node: node["Attributes"].get("consul.version") == "1.17.2",
            )
            assert rig.http.get(f"/v1/node/{node_id}").json()["Links"]["consul"] == "east.host-1"
            rig.register(consul_job())
            (alloc,) = rig.wait_for(
                "/v1/job/web/allocations",
                lambda found: [each["ClientStatus"] for each in found] == ["running"],
            )
            id_ = f"_nomad-task-{alloc['ID']}-group-g-web-http"
            until_blocking(lambda: id_ in consul.services, 120)
            known = consul.services[id_]
            (port,) = rig.http.get(f"/v1/allocation/{alloc['ID']}").json()["AllocatedResources"][
                "Shared"
            ]["Ports"]
            assert (known["Address"], known["Port"]) == (port["HostIP"], port["Value"])
            assert known["Tags"] == ["a", "0"]
            assert known["Meta"] == {
                "team": "blue",
                "external-source": "nomad",
                "orchgit-node": node_id,
            }
            assert known["Weights"] == {"Passing": 5, "Warning": 2}
            http, script = known["Checks"]
            assert http["HTTP"] == f"http://{port['HostIP']}:{port['Value']}/health"
            assert (http["Interval"], http["Timeout"]) == ("10s", "2s")
            assert script["TTL"] == "41s"
            check = until_blocking(
                lambda: (
                    (found := consul.checks[script["CheckID"]])["Status"] == "passing" and found
                ),
                20,
            )
            assert check["Output"] == "fine\n"
            del consul.services[id_]
            rig.register(consul_job(Tags=["b"]))
            until_blocking(lambda: consul.services.get(id_, {}).get("Tags") == ["b"], 120)
            job = consul_job()
            job["TaskGroups"][0]["Services"] = []
            rig.register(job)
            until_blocking(lambda: list(consul.services) == ["_nomad-task-x"], 120)
            rig.register(consul_job())
            until_blocking(lambda: id_ in consul.services, 120)
            rig.http.delete("/v1/job/web")
            until_blocking(lambda: list(consul.services) == ["_nomad-task-x"], 120)
            assert rig.http.get("/v1/services").json() == []
        finally:
            rig.stop()


async def no_command(command: list[str], timeout_s: float) -> ExecResult:
    raise AssertionError("no check of these services runs a command")


def test_services_of_what_is_still_being_taken_up_stay_registered() -> None:
    async def scenario(consul: ConsulStub) -> None:
        clock, table, alloc = FakeClock(), ServiceTable(), make_allocation()
        services = AllocServices(
            clock, make_node, alloc, table.authorities, lambda: None, lambda *_: None, table.changed
        )
        services.resuming_owners = {"", "web"}
        table.by_alloc[alloc.id] = services
        mine = {"Meta": {"orchgit-node": "n"}}
        group = f"_nomad-task-{alloc.id}-group-{alloc.task_group}-api-http"
        task, gone = f"_nomad-task-{alloc.id}-web-api-http", f"_nomad-task-{alloc.id}-old-api-http"
        consul.services = {group: mine, task: mine, gone: mine}
        sync = ConsulSync(
            HttpService(url=consul.url, timeout_s=60), "", table, "n", clock, lambda *_: None
        )
        work = asyncio.create_task(sync.run())
        await until(lambda: consul.deregistered == [gone], 120)
        services.start("", [], Interpolator({}, {}), lambda name: no_command)
        await until(lambda: consul.deregistered == [gone, group], 120)
        services.close()
        await until(lambda: consul.deregistered == [gone, group, task], 120)
        work.cancel()

    with ConsulStub() as consul:
        asyncio.run(scenario(consul))


class ConsulThatListsSlowly(ConsulStub):
    """Calls `meanwhile` between the reading of its services and the answer."""

    def __init__(self, meanwhile: Callable[[], None]) -> None:
        super().__init__()
        self.meanwhile = meanwhile

    def answer(self, request: StubRequest) -> tuple[int, object]:
        status, body = super().answer(request)
        if request.path == "/v1/agent/services":
            body = dict(self.services)
            self.meanwhile()
        return status, body


def test_services_that_are_taken_up_while_consul_lists_them_stay_registered() -> None:
    async def scenario() -> None:
        clock, table, alloc = FakeClock(), ServiceTable(), make_allocation()
        services = AllocServices(
            *(clock, make_node, alloc, table.authorities),
            *(lambda: None, lambda *_: None, table.changed),
        )
        services.resuming_owners = {""}
        table.by_alloc[alloc.id] = services
        loop, started = asyncio.get_running_loop(), threading.Event()
        service = Service(name="api", provider="consul", address_mode="auto", address="10.0.0.1")

        def start() -> None:
            if started.is_set():
                return
            services.start("", [service], Interpolator({}, {}), lambda name: no_command)
            started.set()

        def meanwhile() -> None:
            loop.call_soon_threadsafe(start)
            assert started.wait(60)

        with ConsulThatListsSlowly(meanwhile) as consul:
            id_ = f"_nomad-task-{alloc.id}-group-{alloc.task_group}-api-"
            consul.services = {id_: {"Meta": {"orchgit-node": "n"}}}
            sync = ConsulSync(
                HttpService(url=consul.url, timeout_s=60), "", table, "n", clock, lambda *_: None
            )
            work = asyncio.create_task(sync.run())
            await until(lambda: consul.registered >= 1, 120)
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
            services.close()
            assert list(consul.services) == [id_]
            assert consul.deregistered == []

    asyncio.run(scenario())


def test_services_stay_registered_over_a_restart_of_the_agent(tmp_path: Path) -> None:
    with ConsulStub() as consul:
        config = {"consul": ConsulConfig(service=HttpService(url=consul.url, timeout_s=60))}
        rig = ServerRig(tmp_path, agent_config=config)
        rig.start()
        try:
            node_id = rig.wait_ready_node()
            rig.wait_for(f"/v1/node/{node_id}", lambda node: "consul.version" in node["Attributes"])
            for number in range(8):
                rig.register({**consul_job(), "ID": f"web-{number}"})
            until_blocking(lambda: len(consul.services) == 8, 120)
            rig.run(rig.agent.stop())
            assert len(consul.services) == 8
            before = consul.registered
            rig.run(rig.start_agent())
            until_blocking(lambda: consul.registered >= before + 8, 120)
            assert (len(consul.services), consul.deregistered) == (8, [])
        finally:
            rig.stop()


def test_service_that_consul_refuses_holds_up_no_other(tmp_path: Path) -> None:
    with ConsulStub() as consul:
        consul.refused.add("bad")
        config = {"consul": ConsulConfig(service=HttpService(url=consul.url, timeout_s=60))}
        rig = ServerRig(tmp_path, agent_config=config)
        rig.start()
        try:
            node_id = rig.wait_ready_node()
            rig.wait_for(f"/v1/node/{node_id}", lambda node: "consul.version" in node["Attributes"])
            rig.register({**consul_job(Name="bad"), "ID": "a-bad"})
            rig.wait_for(
                "/v1/job/a-bad/allocations",
                lambda found: [each["ClientStatus"] for each in found] == ["running"],
            )
            for number in range(3):
                rig.register({**consul_job(), "ID": f"web-{number}"})
            until_blocking(lambda: len(consul.services) == 3, 120)
            node = rig.http.get(f"/v1/node/{node_id}").json()
            assert node["Attributes"]["consul.version"] == "1.17.2"
        finally:
            rig.stop()


def test_consul_that_does_not_answer_is_named() -> None:
    service = HttpService(url="http://127.0.0.1:9", timeout_s=1)
    with pytest.raises(UnreachableError, match=r"cannot reach http://127\.0\.0\.1:9"):
        asyncio.run(request(service, "GET", "/v1/agent/self"))
