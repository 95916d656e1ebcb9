"""The pure parts of group networks: what is wanted, results of plugins, files of tasks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent.drivers.base import NetworkIsolation
from agent.fingerprint.group_networks import version_of
from agent.hooks.base import SetupError
from agent.hooks.network import hosts_file, resolv_conf
from agent.networks.cni import configuration, results
from agent.networks.config import GroupNetworkConfig
from agent.networks.wanted import wanted_network
from agent.tasks.environment import core_list
from orchgit.errors import InvalidInputError
from orchgit.model.allocation import Allocation
from orchgit.model.group import TaskGroup
from orchgit.model.interpolation import Interpolator
from orchgit.model.job import Job
from orchgit.model.resources import (
    AllocatedPort,
    AllocatedResources,
    AllocatedShared,
    DNSConfig,
    NetworkResource,
)

NAMES = Interpolator({"attr.unique.network.ip-address": "10.0.0.9"}, {"NOMAD_ALLOC_INDEX": "3"})


def wanted(network: NetworkResource, job_id: str = "web", **fields: Any) -> Any:
    ports = [AllocatedPort(label="http", value=23001, to=80, host_ip="10.0.0.9")]
    alloc = Allocation(
        id="4d8a2c1e-0000-4000-8000-000000000001",
        allocated_resources=AllocatedResources(shared=AllocatedShared(ports=ports)),
    )
    group = TaskGroup(name="g", networks=[network])
    return wanted_network(alloc, Job(id=job_id), group, "eu", NAMES, **fields)


@pytest.mark.parametrize("mode", ["", "host"])
def test_group_on_the_hosts_network_has_none_of_its_own(mode: str) -> None:
    assert wanted(NetworkResource(mode=mode)) is None


def test_each_port_is_mapped_for_both_protocols_at_its_address() -> None:
    found = wanted(NetworkResource(mode="bridge"))
    assert [(m.host_ip, m.host_port, m.container_port, m.protocol) for m in found.ports] == [
        ("10.0.0.9", 23001, 80, "tcp"),
        ("10.0.0.9", 23001, 80, "udp"),
    ]
    everywhere = wanted(NetworkResource(mode="bridge"), any_address=True)
    assert {m.host_ip for m in everywhere.ports} == {""}


def test_name_and_dns_are_interpolated() -> None:
    network = NetworkResource(
        mode="bridge",
        hostname="web-${NOMAD_ALLOC_INDEX}",
        dns=DNSConfig(servers=["${attr.unique.network.ip-address}"]),
    )
    found = wanted(network)
    assert found.hostname == "web-3"
    assert found.dns.servers == ["10.0.0.9"]


def test_arguments_of_a_cni_network_name_the_allocation_then_what_the_job_says() -> None:
    found = wanted(NetworkResource(mode="cni/blue", cni={"Args": {"VLAN": "${NOMAD_ALLOC_INDEX}"}}))
    assert found.cni_name == "blue"
    assert found.arguments == {
        "IgnoreUnknown": "true",
        "NOMAD_REGION": "eu",
        "NOMAD_NAMESPACE": "default",
        "NOMAD_JOB_ID": "web",
        "NOMAD_GROUP_NAME": "g",
        "NOMAD_ALLOC_ID": found.alloc_id,
        "VLAN": "3",
    }


def test_value_with_a_semicolon_is_left_out_or_refused() -> None:
    found = wanted(NetworkResource(mode="cni/blue"), job_id="a;b")
    assert "NOMAD_JOB_ID" not in found.arguments
    with pytest.raises(InvalidInputError, match='"VLAN" may hold no semicolon'):
        wanted(NetworkResource(mode="cni/blue", cni={"Args": {"VLAN": "1;K=2"}}))


@pytest.mark.parametrize(
    ("network", "problem"),
    [
        (NetworkResource(mode="weave"), 'there is no mode "weave"'),
        (NetworkResource(mode="bridge", hostname="no_name!"), '"no_name!" is no host name'),
        (NetworkResource(mode="bridge", hostname="x" * 65), "is no host name"),
    ],
)
def test_network_that_cannot_be_is_refused(network: NetworkResource, problem: str) -> None:
    with pytest.raises(InvalidInputError, match=problem):
        wanted(network)


RESULT: dict[str, Any] = {
    "cniVersion": "0.4.0",
    "interfaces": [
        {"name": "nomad", "mac": "aa"},
        {"name": "veth1", "mac": "bb"},
        {"name": "eth0", "mac": "cc", "sandbox": "/run/x"},
    ],
    "ips": [
        {"version": "4", "address": "172.26.64.5/20", "gateway": "172.26.64.1", "interface": 2},
        {"version": "6", "address": "fd00::5/64", "interface": 2},
    ],
    "dns": {"nameservers": ["9.9.9.9"], "domain": "example.org"},
}


def test_result_gives_the_interface_inside_the_namespace() -> None:
    found = results.connected_interface(RESULT, "eth0")
    assert (found.name, found.address, found.address_ipv6) == ("eth0", "172.26.64.5", "fd00::5")
    assert found.dns == DNSConfig(servers=["9.9.9.9"], searches=["example.org"], options=[])


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        ({}, ("eth0", "", "")),
        ({"ip4": {"ip": "10.1.1.2/24"}}, ("eth0", "10.1.1.2", "")),
        ({"ips": [{"address": "fd00::9/64"}]}, ("eth0", "fd00::9", "fd00::9")),
        ({**RESULT, "ips": [{"address": "10.1.1.2/24", "interface": 0}]}, ("eth0", "", "")),
        (
            {**RESULT, "ips": [{"address": "10.1.1.2/24", "interface": 99}]},
            ("eth0", "10.1.1.2", ""),
        ),
    ],
)
def test_results_of_other_forms_are_read(result: Any, expected: tuple[str, str, str]) -> None:
    found = results.connected_interface(result, "eth0")
    assert (found.name, found.address, found.address_ipv6) == expected


@pytest.mark.parametrize("result", [{"ips": "x"}, {"ips": [{"address": "nowhere"}]}])
def test_result_that_breaks_the_specification_is_an_error(result: Any) -> None:
    with pytest.raises(InvalidInputError, match="cannot read the result"):
        results.connected_interface(result, "eth0")


def test_configurations_are_read_by_name_and_bad_ones_left_out(tmp_path: Path) -> None:
    (tmp_path / "10.conflist").write_text(
        json.dumps({"name": "blue", "cniVersion": "1.0.0", "plugins": [{"type": "a"}]})
    )
    (tmp_path / "20.conf").write_text(json.dumps({"name": "red", "type": "b"}))
    (tmp_path / "30.conflist").write_text(json.dumps({"name": "blue", "plugins": [{"type": "c"}]}))
    (tmp_path / "40.json").write_text("{")
    (tmp_path / "50.json").write_text(json.dumps({"name": "up", "plugins": [{"type": "../x"}]}))
    (tmp_path / "60.conf").write_bytes(b" " * ((1 << 20) + 1))
    (tmp_path / "notes.txt").write_text("{}")
    found = configuration.load(tmp_path)
    assert {name: network.plugins[0]["type"] for name, network in found.items()} == {
        "blue": "a",
        "red": "b",
    }
    assert configuration.load(tmp_path / "nowhere") == {}


NETWORK = NetworkIsolation(mode="bridge", namespace="/x", address="172.26.64.5")


def test_hosts_file_names_the_allocation_and_the_extra_hosts() -> None:
    lines = hosts_file(NETWORK, "web-0", ["db:10.0.0.4", "six:[fd00::1]"]).splitlines()
    assert lines[0] == "127.0.0.1 localhost"
    assert lines[-3:] == ["172.26.64.5 web-0", "10.0.0.4 db", "fd00::1 six"]
    with pytest.raises(SetupError, match='"db" is not of the form NAME:ADDRESS'):
        hosts_file(NETWORK, "web-0", ["db"])


def test_dns_of_the_host_fills_what_the_job_leaves_open() -> None:
    stub = "nameserver 127.0.0.53\noptions edns0\nsearch a.example\n"
    real = "# x\nnameserver 10.0.0.2 ; y\nnameserver fe80::1%eth0\nsearch b.example c.example\n"
    assert resolv_conf(None, [stub, real]) == (
        "search b.example c.example\nnameserver 10.0.0.2\nnameserver fe80::1%eth0\n"
    )
    given = DNSConfig(servers=["9.9.9.9"], options=["ndots:2"])
    assert resolv_conf(given, [real]) == (
        "search b.example c.example\nnameserver 9.9.9.9\noptions ndots:2\n"
    )


@pytest.mark.parametrize(
    ("printed", "version"),
    [
        ("CNI bridge plugin v1.3.0\nCNI protocol versions supported: 0.1.0, 1.0.0", "1.3.0"),
        ("CNI bridge plugin 1.1.1-dev+x\n", "1.1.1-dev+x"),
        (
            "CNI bridge plugin version unknown\nCNI protocol versions supported: 0.4.0, 1.0.0",
            "1.0.0",
        ),
        ("CNI bridge plugin version unknown\n", ""),
        ("usage: frobnicate 1.2.3", ""),
    ],
)
def test_version_of_a_plugin_is_what_it_prints(printed: str, version: str) -> None:
    assert version_of(printed) == version


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"bridge_name": "a-very-long-bridge"}, "bridge_network_name"),
        ({"bridge_subnet": "10.0.0.0/31"}, "bridge_network_subnet:"),
        ({"bridge_subnet": "fd00::/64"}, "bridge_network_subnet:"),
        ({"bridge_subnet_ipv6": "nowhere"}, "bridge_network_subnet_ipv6"),
    ],
)
def test_settings_that_make_no_bridge_are_problems(fields: dict[str, str], problem: str) -> None:
    (found,) = GroupNetworkConfig(**fields).problems()  # type: ignore[arg-type]
    assert found.startswith(problem)
    assert GroupNetworkConfig().problems() == []


def test_cores_are_listed_as_ranges() -> None:
    assert core_list([]) == ""
    assert core_list([12, 0, 1, 2, 7, 13, 14]) == "0-2,7,12-14"
