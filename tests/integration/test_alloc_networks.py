"""Networks of allocations, made by real CNI plugins in a network namespace of the test's own."""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import socket
import subprocess
import sys
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from agent.drivers.base import NetworkIsolation
from agent.networks import namespaces
from agent.networks.alloc_networks import AllocNetworks
from agent.networks.bridge import ADDRESSES_DIR
from agent.networks.config import GroupNetworkConfig
from agent.networks.records import NetworkRecords
from agent.networks.wanted import PortMapping, WantedNetwork
from orchgit.clock import SystemClock
from orchgit.errors import DriverError
from tests.support.own_network import (
    ADDRESS,
    CNI_PATH,
    in_own_network,
    leftovers,
    needs_networks,
)
from tests.support.pacing import pause

pytestmark = needs_networks


class Node:
    """The networks of one node; each call of `agent` is a new life of its agent."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.config = GroupNetworkConfig(
            cni_path=CNI_PATH,
            cni_config_dir=directory / "cni",
            bridge_name=f"og{uuid.uuid4().hex[:8]}",
            bridge_subnet="10.88.0.0/24",
        )

    def agent(self) -> AllocNetworks:
        return AllocNetworks(
            self.config, self.directory / "records", self.directory / "run", {}, SystemClock()
        )

    def left(self) -> list[str]:
        found = [*(self.directory / "records").glob("*"), *(self.directory / "run").glob("*")]
        addresses = Path("/run/orchgit/cni", self.config.bridge_name).glob("[0-9]*.*.*.*")
        return [str(path) for path in (*found, *addresses)]


def wanted(mode: str = "bridge", *ports: tuple[int, int]) -> WantedNetwork:
    return WantedNetwork(
        alloc_id=str(uuid.uuid4()),
        mode=mode,
        ports=[
            PortMapping(host_port=host, container_port=inside, protocol=protocol, host_ip=ADDRESS)
            for host, inside in ports
            for protocol in ("tcp", "udp")
        ],
        labels={host: "http" for host, _ in ports},
        arguments={"IgnoreUnknown": "true"},
    )


def run(
    directory: Path, scenario: Callable[[Node], Awaitable[None]], timeout_s: float = 60
) -> None:
    """Nothing may be left after the scenario, which removes what it made."""
    node = Node(directory)

    def body() -> None:
        asyncio.run(asyncio.wait_for(scenario(node), timeout_s))
        assert node.left() == []

    try:
        in_own_network(body)
    finally:  # a mount that a failed test leaves would be in the way of the next run
        for path in (directory / "run").glob("*"):
            namespaces.remove(path)
        shutil.rmtree(Path(ADDRESSES_DIR, node.config.bridge_name), ignore_errors=True)


def inside(network: NetworkIsolation, *command: str) -> str:
    done = subprocess.run(
        ["nsenter", f"--net={network.namespace}", "--", *command],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


class Greeter:
    """A server in a namespace that says its name to each connection."""

    def __init__(self, network: NetworkIsolation, port: int, name: str) -> None:
        program = (
            "import socket,sys\n"
            f"s=socket.create_server(('0.0.0.0',{port}))\n"
            "print('ready',flush=True)\n"
            f"while True:\n c=s.accept()[0]; c.sendall({name.encode()!r}); c.close()\n"
        )
        self._process = subprocess.Popen(
            ["nsenter", f"--net={network.namespace}", "--", "python3", "-c", program],
            stdout=subprocess.PIPE,
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"ready\n"

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


def greeting(host: str, port: int) -> str:
    with socket.create_connection((host, port), timeout=30) as connection:
        return connection.recv(100).decode()


def test_bridge_gives_addresses_and_maps_ports(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        agent = node.agent()
        asked = wanted("bridge", (23001, 80))
        first, second = await asyncio.gather(agent.set_up(asked, ""), agent.set_up(wanted(), ""))
        assert first.interface == "eth0"
        assert first.address.startswith("10.88.0.")
        assert first.address != second.address
        server = Greeter(first, 80, "first")
        try:
            assert greeting(ADDRESS, 23001) == "first"
            assert greeting(first.address, 80) == "first"
            out = inside(second, "python3", "-c", _CONNECT.format(first.address, 80))
            assert out == "first\n"
        finally:
            server.stop()
        assert await agent.set_up(asked, "", is_idle=True) == first
        await agent.sweep(lambda _: False)

    run(tmp_path, scenario)


_CONNECT = "import socket;print(socket.create_connection(('{}',{}),5).recv(9).decode())"


def test_next_life_of_the_agent_finds_the_network_again(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        asked = wanted("bridge", (23001, 80))
        before = await node.agent().set_up(asked, "")
        identity = namespaces.identity(before.namespace)
        agent = node.agent()
        assert await agent.set_up(asked, "") == before
        assert namespaces.identity(before.namespace) == identity
        await agent.remove(asked.alloc_id)
        await agent.remove(asked.alloc_id)

    run(tmp_path, scenario)


def test_network_whose_namespace_is_gone_is_made_anew(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        agent, asked = node.agent(), wanted("bridge", (23001, 80))
        before = await agent.set_up(asked, "")
        namespaces.remove(Path(before.namespace))
        after = await agent.set_up(asked, "")
        assert namespaces.exists(after.namespace)
        assert await agent.set_up(asked, "", is_idle=True) == after
        await agent.remove(asked.alloc_id)

    run(tmp_path, scenario)


def test_network_that_changed_is_made_anew_once_no_task_uses_it(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        agent, asked = node.agent(), wanted("bridge", (23001, 80))
        before = await agent.set_up(asked, "")
        inside(before, "ip", "link", "del", "eth0")
        assert await agent.set_up(asked, "") == before
        after = await agent.set_up(asked, "", is_idle=True)
        assert '"eth0"' in inside(after, "ip", "-j", "addr")
        await agent.remove(asked.alloc_id)

    run(tmp_path, scenario)


def test_agent_killed_in_the_middle_leaves_nothing_behind(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        """The plugins have run, the agent has not written so."""
        agent, asked = node.agent(), wanted("bridge", (23001, 80))
        await agent.set_up(asked, "")
        record = node.directory / "records" / f"{asked.alloc_id}.json"
        content = json.loads(record.read_bytes())
        content.update(complete=False, result=None, interface=None)
        record.write_text(json.dumps(content))
        await node.agent().sweep(lambda _: False)

    run(tmp_path, scenario)


def test_networks_without_a_record_are_removed_at_the_start(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        asked = wanted("bridge", (23001, 80))
        await node.agent().set_up(asked, "")
        (node.directory / "records" / f"{asked.alloc_id}.json").unlink()
        await node.agent().sweep(lambda _: False)

    run(tmp_path, scenario)


def test_port_of_another_process_is_a_named_error(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        with socket.create_server((ADDRESS, 23001)):
            with pytest.raises(DriverError) as raised:
                await node.agent().set_up(wanted("bridge", (23001, 80)), "")
        assert f'port "http" ({ADDRESS}:23001)' in str(raised.value)

    run(tmp_path, scenario)


def test_mode_none_has_loopback_alone(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        agent, asked = node.agent(), wanted("none")
        network = await agent.set_up(asked, "")
        links = json.loads(inside(network, "ip", "-j", "addr"))
        assert [(link["ifname"], "UP" in link["flags"]) for link in links] == [("lo", True)]
        assert network.address == ""
        await agent.remove(asked.alloc_id)

    run(tmp_path, scenario)


def fake_plugin(directory: Path, name: str, script: str) -> None:
    path = directory / "plugins" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    (directory / "cni").mkdir(exist_ok=True)
    (directory / "cni" / f"{name}.conflist").write_text(
        json.dumps({"cniVersion": "1.0.0", "name": f"net-{name}", "plugins": [{"type": name}]})
    )


def test_cni_network_gets_arguments_and_names_the_failure(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        calls = tmp_path / "calls"
        fake_plugin(
            tmp_path,
            "refuses",
            f'echo "$CNI_COMMAND $CNI_ARGS $CNI_IFNAME" >> {calls}\n'
            '[ "$CNI_COMMAND" = DEL ] && exit 0\n'
            'echo \'{"code": 7, "msg": "no such pool", "details": "blue"}\'; exit 1',
        )
        with pytest.raises(DriverError, match=r"refuses \(ADD\) failed: no such pool; blue"):
            await node.agent().set_up(wanted("cni/net-refuses"), "")
        assert calls.read_text().split("\n")[0] == "ADD IgnoreUnknown=true eth0"
        assert calls.read_text().count("ADD") == 3

    def with_plugins(node: Node) -> Awaitable[None]:
        node.config = GroupNetworkConfig(
            cni_path=f"{CNI_PATH}:{tmp_path}/plugins",
            cni_config_dir=tmp_path / "cni",
            bridge_name=node.config.bridge_name,
        )
        return scenario(node)

    run(tmp_path, with_plugins)


def test_network_that_no_file_describes_is_named(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        with pytest.raises(DriverError, match='no CNI network "nowhere" in'):
            await node.agent().set_up(wanted("cni/nowhere"), "")

    run(tmp_path, scenario)


def test_failing_removal_is_tried_again_by_the_sweep(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        agent, asked = node.agent(), wanted()
        await agent.set_up(asked, "")
        moved = tmp_path / "no-plugins"
        record = node.directory / "records" / f"{asked.alloc_id}.json"
        whole = record.read_text()
        record.write_text(whole.replace(CNI_PATH, str(moved)))
        await agent.remove(asked.alloc_id)
        assert record.exists()
        os.symlink("/usr/lib/cni", moved)
        await agent.sweep(lambda _: False)

    run(tmp_path, scenario)


@pytest.mark.long
def test_nothing_is_left_of_an_agent_that_is_killed_at_any_moment(tmp_path: Path) -> None:
    draws = random.Random(16)

    async def scenario(node: Node) -> None:
        for _ in range(25):
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "tests.support.network_process", str(tmp_path)),
                *(node.config.bridge_name, CNI_PATH),
                stdout=asyncio.subprocess.PIPE,
            )
            assert process.stdout is not None
            try:
                assert await process.stdout.readline() == b"ready\n"
                await pause(draws.uniform(0.0, 1.0), "the agent is killed at a random moment")
            finally:
                process.kill()
                await process.wait()
            await node.agent().sweep(lambda _: False)
            assert node.left() == []
            assert leftovers() == []

    run(tmp_path, scenario, timeout_s=600)


def test_lock_without_a_record_is_removed_by_the_next_agent(tmp_path: Path) -> None:
    records = NetworkRecords(tmp_path)
    os.close(records.open_lock("begun"))  # as an agent that is killed then
    NetworkRecords(tmp_path)
    assert list(tmp_path.iterdir()) == []
