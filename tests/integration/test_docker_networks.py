"""Docker tasks in the network of their group, which a pause container holds."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import urllib.request
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from agent.drivers.base import NetworkIsolation, NetworkRequest, TaskConfig, TaskPort
from agent.drivers.docker.driver import DockerDriver
from agent.drivers.docker.options import DockerOptions
from agent.networks.alloc_networks import AllocNetworks
from agent.networks.config import GroupNetworkConfig
from agent.networks.wanted import PortMapping, WantedNetwork
from orchgit.clock import SystemClock
from orchgit.errors import DriverError
from tests.support import docker_engine
from tests.support.driver_rigs import log_text, task_config
from tests.support.own_network import ADDRESS, CNI_PATH, in_own_network, needs_networks
from tests.support.polling import until
from tests.support.ports import free_ports

pytestmark = [docker_engine.needs_docker, pytest.mark.docker]


def run(directory: Path, scenario: Callable[[DockerDriver, str], Awaitable[None]]) -> None:
    async def body() -> None:
        options = DockerOptions(endpoint=docker_engine.engine().endpoint)
        made = DockerDriver(directory, options, SystemClock())
        alloc_id = f"{secrets.token_hex(4)}-0000-4000-8000-000000000006"
        try:
            async with asyncio.timeout(60):
                await scenario(made, alloc_id)
        finally:
            await made.destroy_network(alloc_id)
            await made.close()

    asyncio.run(body())


def task(directory: Path, alloc_id: str, text: str, **fields: object) -> TaskConfig:
    config = {"image": docker_engine.IMAGE, "command": "/bin/sh", "args": ["-c", text]}
    config |= fields.pop("config", {})  # type: ignore[operator]
    return task_config(directory, config, alloc_id=alloc_id, **fields)


def pauses(alloc_id: str) -> list[str]:
    with docker_engine.engine().client() as api:
        found = api.containers(all=True, filters={"label": f"org.orchgit.pause={alloc_id}"})
        return [one["State"] for one in found]


def test_container_joins_the_network_of_its_group(tmp_path: Path) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text("127.0.0.1 localhost\n10.9.9.9 other\n")

    async def scenario(made: DockerDriver, alloc_id: str) -> None:
        network = await made.create_network(NetworkRequest(alloc_id=alloc_id, hostname="front"))
        assert await made.create_network(NetworkRequest(alloc_id=alloc_id)) == network
        assert pauses(alloc_id) == ["running"]
        isolation = NetworkIsolation(
            mode="bridge",
            namespace=network.namespace,
            hosts_file=str(hosts),
            created_by="docker",
            state=network.state,
        )
        joined = task(
            tmp_path,
            alloc_id,
            "ls -l /proc/self/ns/net; cat /etc/hosts /etc/hostname",
            network=isolation,
            ports=(TaskPort("http", 8080),),
            config={"ports": ["http"], "extra_hosts": ["third:10.8.8.8", "six:[fd00::6]"]},
        )
        handle = await made.start_task(joined)
        assert (await made.wait_task(handle)).successful
        inode = os.stat(network.namespace).st_ino
        said = log_text(joined)
        assert f"net:[{inode}]" in said
        assert "10.9.9.9 other\n10.8.8.8 third\nfd00::6 six\n" in said
        assert said.endswith("front\n")
        await made.destroy_task(handle)
        assert pauses(alloc_id) == ["running"]
        await made.destroy_network(alloc_id)
        await made.destroy_network(alloc_id)
        assert pauses(alloc_id) == []

    run(tmp_path, scenario)


def test_network_whose_container_has_ended_is_made_anew(tmp_path: Path) -> None:
    async def scenario(made: DockerDriver, alloc_id: str) -> None:
        first = await made.create_network(NetworkRequest(alloc_id=alloc_id))
        with docker_engine.engine().client() as api:
            api.kill(first.state["container"])
            api.wait(first.state["container"])
        second = await made.create_network(NetworkRequest(alloc_id=alloc_id))
        assert second.state != first.state
        assert pauses(alloc_id) == ["running"]

    run(tmp_path, scenario)


@pytest.mark.parametrize(
    ("maker", "config", "reason"),
    [
        ("", {}, "the agent made it, and docker joins only its own"),
        ("docker", {"hostname": "x"}, "cannot use hostname of task web: the network belongs"),
        ("docker", {"dns_servers": ["10.0.0.1"]}, "cannot use dns_servers"),
    ],
)
def test_what_the_network_of_a_group_does_not_let_a_task_choose_is_refused(
    tmp_path: Path, maker: str, config: dict[str, object], reason: str
) -> None:
    async def scenario(made: DockerDriver, alloc_id: str) -> None:
        isolation = NetworkIsolation(
            mode="bridge", namespace="/n", created_by=maker, state={"container": "c"}
        )
        with pytest.raises(DriverError, match=reason):
            await made.start_task(
                task(tmp_path, alloc_id, "true", network=isolation, config=config)
            )

    run(tmp_path, scenario)


def test_network_of_an_unknown_allocation_is_removed(tmp_path: Path) -> None:
    async def scenario(made: DockerDriver, alloc_id: str) -> None:
        await made.create_network(NetworkRequest(alloc_id=alloc_id))
        await made.end_orphans(lambda known: known == alloc_id)
        assert pauses(alloc_id) == ["running"]
        await made.end_orphans(lambda known: False)
        assert pauses(alloc_id) == []

    run(tmp_path, scenario)


@needs_networks
def test_container_answers_at_the_mapped_port_of_its_group(tmp_path: Path) -> None:
    """The pause container holds the namespace, and CNI's plugins make the network in it."""
    (port,) = free_ports(1)
    engine = docker_engine.engine()
    network_config = GroupNetworkConfig(
        cni_path=CNI_PATH,
        cni_config_dir=tmp_path / "cni",
        bridge_name=f"og{secrets.token_hex(4)}",
        bridge_subnet="10.89.0.0/24",
    )

    async def scenario() -> None:
        driver = DockerDriver(tmp_path, DockerOptions(endpoint=engine.endpoint), SystemClock())
        alloc_id = f"{secrets.token_hex(4)}-0000-4000-8000-000000000006"
        networks = AllocNetworks(
            network_config,
            tmp_path / "records",
            tmp_path / "run",
            {"docker": driver},
            SystemClock(),
        )
        mapping = PortMapping(host_port=port, container_port=80, protocol="tcp", host_ip=ADDRESS)
        asked = WantedNetwork(
            alloc_id=alloc_id,
            mode="bridge",
            ports=[mapping],
            labels={port: "http"},
            arguments={"IgnoreUnknown": "true"},
        )
        network = await networks.set_up(asked, "docker")
        assert network.created_by == "docker"
        text = "cd /local; echo hello > greeting; httpd -f -p 80"
        wanted = task(tmp_path, alloc_id, text, network=network)
        handle = await driver.start_task(wanted)

        def answer() -> bytes:
            with contextlib.suppress(OSError):
                return urllib.request.urlopen(f"http://{ADDRESS}:{port}/greeting").read()
            return b""

        await until(lambda: answer() == b"hello\n", 120)
        await driver.destroy_task(handle)
        await networks.remove(alloc_id)
        assert pauses(alloc_id) == []
        await driver.close()

    in_own_network(lambda: asyncio.run(asyncio.wait_for(scenario(), 60)))
