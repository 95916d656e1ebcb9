"""Services of provider consul, registered by a real agent at a stub of Consul's HTTP API."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agent.config import ConsulConfig
from agent.http_json import HttpService, request
from orchgit.errors import UnreachableError
from tests.support.consul_stub import ConsulStub
from tests.support.polling import until_blocking
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
            rig.http.delete("/v1/job/web")
            until_blocking(lambda: list(consul.services) == ["_nomad-task-x"], 120)
            assert rig.http.get("/v1/services").json() == []
        finally:
            rig.stop()


def test_consul_that_does_not_answer_is_named() -> None:
    service = HttpService(url="http://127.0.0.1:9", timeout_s=1)
    with pytest.raises(UnreachableError, match=r"cannot reach http://127\.0\.0\.1:9"):
        asyncio.run(request(service, "GET", "/v1/agent/self"))
