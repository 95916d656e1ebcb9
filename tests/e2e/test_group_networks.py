"""Groups on bridge networks with a real server, agent and supervisor."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support import docker_engine
from tests.support.dev_server import DevServer
from tests.support.own_network import (
    ADDRESS,
    CNI_PATH,
    SECOND_ADDRESS,
    in_own_network,
    needs_networks,
)
from tests.support.polling import until_blocking

pytestmark = [needs_networks, pytest.mark.long]

_SERVE = (
    "import http.server,os,sys\n"
    "class H(http.server.BaseHTTPRequestHandler):\n"
    "    def do_GET(self):\n"
    "        self.send_response(200); self.end_headers()\n"
    "        self.wfile.write(os.environ['NOMAD_TASK_NAME'].encode())\n"
    "http.server.HTTPServer(('0.0.0.0',int(os.environ['NOMAD_PORT_http'])),H).serve_forever()\n"
)


def on_dev_server(directory: Path, body: Callable[[DevServer], None], more: str = "") -> None:
    """A dev server on a machine with its own network; nothing may be left there afterwards. `more`
    is added to its configuration."""
    config = directory / "agent.hcl"
    config.write_text(
        f"""
        client {{
          cni_path              = "{CNI_PATH}"
          cni_config_dir        = "{directory}/cni"
          bridge_network_name   = "og{uuid.uuid4().hex[:8]}"
          bridge_network_subnet = "10.89.0.0/24"
          network_interface     = "eth0"
        }}
        {more}
        """
    )

    def inside() -> None:
        server = DevServer(directory / "data", "-no-demo", "-config", str(config)).start()
        try:
            body(server)
        finally:
            server.cleanup()
        assert no_network_left(server.data_dir)

    in_own_network(inside)


def task(name: str, driver: str, script: str, **fields: Any) -> dict[str, Any]:
    return {
        "Name": name,
        "Driver": driver,
        "Config": {"command": "/usr/bin/python3", "args": ["-c", script]},
        "Resources": {"CPU": 50, "MemoryMB": 64},
        **fields,
    }


def job(network: dict[str, Any], *tasks: dict[str, Any], **group: Any) -> dict[str, Any]:
    return {
        "ID": "net",
        "Type": "service",
        "TaskGroups": [
            {
                "Name": "g",
                "Networks": [network],
                "Tasks": list(tasks),
                "EphemeralDisk": {"SizeMB": 300},
                **group,
            }
        ],
    }


def register(server: DevServer, wanted: dict[str, Any]) -> dict[str, Any]:
    answer = httpx.put(
        f"{server.address}/v1/jobs", json={"Job": wanted}, timeout=30, trust_env=False
    )
    assert answer.status_code == 200, answer.text
    (found,) = server.running_allocations("net")
    return dict(server.get(f"/v1/allocation/{found['ID']}"))


def stop(server: DevServer) -> None:
    answer = httpx.delete(
        f"{server.address}/v1/job/net", params={"purge": "true"}, timeout=30, trust_env=False
    )
    assert answer.status_code == 200, answer.text


def read(address: str) -> str:
    return httpx.get(f"http://{address}", timeout=30, trust_env=False).text


def no_network_left(data_dir: Path) -> bool:
    return not any((data_dir / "client/networks").glob("*.json"))


_HTTP = {"Mode": "bridge", "DynamicPorts": [{"Label": "http", "To": 8080}]}


def test_bridged_group_keeps_its_network_when_agent_and_supervisor_are_killed(
    tmp_path: Path,
) -> None:
    def body(server: DevServer) -> None:
        service = {
            "Name": "web",
            "PortLabel": "http",
            "Provider": "nomad",
            "Checks": [
                {
                    "Type": "http",
                    "Path": "/",
                    "Interval": 1_000_000_000,
                    "Timeout": 2_000_000_000,
                }
            ],
        }
        network = {**_HTTP, "Hostname": "web-${NOMAD_ALLOC_INDEX}", "DNS": {"Servers": ["9.9.9.9"]}}
        beside = "import time,urllib.request as u\nprint(u.urlopen('http://127.0.0.1:8080').read(),flush=True)"
        alloc = register(
            server,
            job(
                network,
                task("web", "exec", _SERVE),
                task("beside", "raw_exec", f"{_RETRY}{beside}\ntime.sleep(600)"),
                Services=[service],
            ),
        )
        (port,) = alloc["AllocatedResources"]["Shared"]["Ports"]
        (given,) = alloc["AllocatedResources"]["Shared"]["Networks"]
        assert given["DynamicPorts"][0]["Value"] == port["Value"]
        status = server.get(f"/v1/allocation/{alloc['ID']}")["NetworkStatus"]
        assert status["InterfaceName"] == "eth0"
        assert status["Address"].startswith("10.89.0.")
        assert status["DNS"]["Servers"] == ["9.9.9.9"]
        host = f"{ADDRESS}:{port['Value']}"
        assert until_blocking(lambda: read(host), 120, retried=(httpx.HTTPError,)) == "web"
        assert read(f"127.0.0.1:{port['Value']}") == "web"
        assert read(f"{status['Address']}:8080") == "web"
        until_blocking(lambda: "b'web'" in server.log(alloc["ID"], "beside"), 120)
        (instance,) = server.wait_for("/v1/service/web", lambda found: len(found) == 1)
        assert (instance["Address"], instance["Port"]) == (ADDRESS, port["Value"])
        shown = server.cli("alloc", "exec", "-task", "web", alloc["ID"], "sh", "-c", _SHOW).out
        assert f"{status['Address']} web-0" in shown
        assert "nameserver 9.9.9.9" in shown
        assert "host web-0" in shown
        checks = server.wait_for(
            f"/v1/client/allocation/{alloc['ID']}/checks",
            lambda found: [each["Status"] for each in found.values()] == ["success"],
        )
        assert len(checks) == 1

        pids = server.task_pids(alloc["ID"])
        server.kill9()
        (supervisor,) = supervisors(server.data_dir)
        os.kill(supervisor, signal.SIGKILL)
        assert read(host) == "web", "connections go on without an agent"
        server.start()
        after = server.running_allocations("net")[0]
        assert after["ID"] == alloc["ID"]
        assert server.task_pids(alloc["ID"]) == pids
        assert read(host) == "web"
        assert server.get(f"/v1/allocation/{alloc['ID']}")["NetworkStatus"] == status
        server.cli("alloc", "restart", alloc["ID"])
        assert until_blocking(lambda: read(host), 120, retried=(httpx.HTTPError,)) == "web"
        assert server.get(f"/v1/allocation/{alloc['ID']}")["NetworkStatus"] == status
        stop(server)
        until_blocking(lambda: no_network_left(server.data_dir), 120)

    on_dev_server(tmp_path, body)


_RETRY = (
    "import time,urllib.request as u\n"
    "for i in range(200):\n"
    "    try: u.urlopen('http://127.0.0.1:8080'); break\n"
    "    except OSError: time.sleep(.1)\n"
)
_SHOW = "cat /etc/hosts /etc/resolv.conf; echo host $(hostname)"


def supervisors(data_dir: Path) -> list[int]:
    done = subprocess.run(
        ["pgrep", "-f", f"agent.supervisor.*{data_dir}"],
        capture_output=True,
        text=True,
        check=False,
    )
    return [int(pid) for pid in done.stdout.split()]


def test_allocation_whose_port_is_taken_fails_and_tells_which(tmp_path: Path) -> None:
    def body(server: DevServer) -> None:
        network = {"Mode": "bridge", "ReservedPorts": [{"Label": "http", "Value": 18080, "To": 80}]}
        with socket.create_server((ADDRESS, 18080)):
            wanted = job(network, task("web", "raw_exec", _SERVE))
            wanted["TaskGroups"][0]["RestartPolicy"] = {"Attempts": 0, "Mode": "fail"}
            wanted["TaskGroups"][0]["ReschedulePolicy"] = {"Attempts": 0, "Unlimited": False}
            wanted["TaskGroups"][0]["Services"] = [
                {"Name": "web", "PortLabel": "http", "AddressMode": "alloc", "Provider": "nomad"}
            ]
            httpx.put(f"{server.address}/v1/jobs", json={"Job": wanted}, trust_env=False)
            (found,) = server.wait_for(
                "/v1/job/net/allocations",
                lambda found: [each["ClientStatus"] for each in found] == ["failed"],
            )
            events = found["TaskStates"]["web"]["Events"]
            assert any(
                'cannot map port "http"' in each["DisplayMessage"]
                and ":18080" in each["DisplayMessage"]
                for each in events
            )
            assert not any("cannot register" in each["DisplayMessage"] for each in events)
        assert no_network_left(server.data_dir)

    on_dev_server(tmp_path, body)


def test_agent_that_lost_its_state_removes_the_networks_it_had_made(tmp_path: Path) -> None:
    def body(server: DevServer) -> None:
        register(server, job(_HTTP, task("web", "raw_exec", _SERVE)))
        server.kill9()
        for path in (server.data_dir / "client").glob("state.db*"):
            path.unlink()
        server.start()
        until_blocking(lambda: no_network_left(server.data_dir), 120)
        register(server, job(_HTTP, task("web", "raw_exec", _SERVE)))  # left to the cleanup

    on_dev_server(tmp_path, body)


@docker_engine.needs_docker
def test_tasks_of_several_drivers_share_the_network_of_a_pause_container(tmp_path: Path) -> None:
    engine = docker_engine.engine()

    def pauses() -> list[str]:
        with engine.client() as api:
            found = api.containers(all=True, filters={"label": "org.orchgit.pause"})
            return [name for one in found for name in one["Names"]]

    def body(server: DevServer) -> None:
        script = "echo docker > /local/index.html; exec httpd -f -p 8080 -h /local"
        front = {
            "Name": "front",
            "Driver": "docker",
            "Config": {
                "image": docker_engine.IMAGE,
                "command": "/bin/sh",
                "args": ["-c", script],
            },
            "Resources": {"CPU": 50, "MemoryMB": 64},
        }
        beside = (
            "import time,urllib.request as u\n"
            "print(u.urlopen('http://127.0.0.1:8080').read(),flush=True)\ntime.sleep(600)"
        )
        alloc = register(
            server,
            job(
                {**_HTTP, "Hostname": "front-0"},
                front,
                task("chrooted", "exec", _RETRY + beside),
                task("raw", "raw_exec", _RETRY + beside),
            ),
        )
        (port,) = alloc["AllocatedResources"]["Shared"]["Ports"]
        host = f"{ADDRESS}:{port['Value']}"
        assert until_blocking(lambda: read(host), 120, retried=(httpx.HTTPError,)) == "docker\n"
        for name in ("chrooted", "raw"):
            until_blocking(lambda name=name: "b'docker" in server.log(alloc["ID"], name), 120)
        shown = server.cli("alloc", "exec", "-task", "front", alloc["ID"], "cat", "/etc/hosts").out
        status = server.get(f"/v1/allocation/{alloc['ID']}")["NetworkStatus"]
        assert f"{status['Address']} front-0" in shown
        assert pauses() == [f"/nomad_init_{alloc['ID']}"]
        server.kill9()
        server.start()
        server.running_allocations("net")
        assert read(host) == "docker\n"
        stop(server)
        until_blocking(lambda: no_network_left(server.data_dir) and not pauses(), 120)

    on_dev_server(
        tmp_path, body, f'plugin "docker" {{ config {{ endpoint = "{engine.endpoint}" }} }}'
    )


def test_cni_network_and_host_network_of_the_node_are_used_by_name(tmp_path: Path) -> None:
    (tmp_path / "cni").mkdir()
    ipam = {"type": "host-local", "subnet": "10.91.0.0/24", "dataDir": str(tmp_path / "ipam")}
    (tmp_path / "cni/blue.conflist").write_text(
        json.dumps(
            {
                "cniVersion": "0.4.0",
                "name": "blue",
                "plugins": [
                    {"type": "ptp", "ipam": {**ipam, "routes": [{"dst": "0.0.0.0/0"}]}},
                    {"type": "portmap", "capabilities": {"portMappings": True}},
                ],
            }
        )
    )

    def body(server: DevServer) -> None:
        (node,) = server.get("/v1/nodes")
        networks = server.get(f"/v1/node/{node['ID']}")["NodeResources"]["Networks"]
        assert [each["Mode"] for each in networks] == ["host", "bridge", "cni/blue"]
        service = {
            "Name": "web",
            "PortLabel": "http",
            "Provider": "nomad",
            "AddressMode": "alloc",
        }
        port = {"Label": "http", "To": 8080, "HostNetwork": "second"}
        alloc = register(
            server,
            job(
                {"Mode": "cni/blue", "DynamicPorts": [port]},
                task("web", "raw_exec", _SERVE),
                Services=[service],
            ),
        )
        (given,) = alloc["AllocatedResources"]["Shared"]["Ports"]
        assert given["HostIP"] == SECOND_ADDRESS
        host = f"{SECOND_ADDRESS}:{given['Value']}"
        assert until_blocking(lambda: read(host), 120, retried=(httpx.HTTPError,)) == "web"
        with pytest.raises(httpx.HTTPError):
            read(f"{ADDRESS}:{given['Value']}")
        (instance,) = server.wait_for("/v1/service/web", lambda found: len(found) == 1)
        assert instance["Address"].startswith("10.91.0.")
        assert instance["Port"] == 8080
        stop(server)
        until_blocking(lambda: no_network_left(server.data_dir), 120)
        assert not list((tmp_path / "ipam/blue").glob("10.*"))

    on_dev_server(
        tmp_path, body, f'client {{ host_network "second" {{ cidr = "{SECOND_ADDRESS}/32" }} }}'
    )
