"""Operators, versions, device attributes and ports, value by value."""

from __future__ import annotations

import random

import pytest

from orchgit.model.constraint import Affinity, Constraint
from orchgit.model.node import NodeDevice, NodeDeviceInstance
from orchgit.model.resources import (
    AllocatedDevice,
    AllocatedResources,
    AllocatedTask,
    NetworkResource,
    Port,
    RequestedDevice,
)
from orchgit.scheduler.feasibility.devices import DevicePool, matches, parse_value
from orchgit.scheduler.feasibility.operands import holds
from orchgit.scheduler.feasibility.targets import escapes_class
from orchgit.scheduler.placement.networks import (
    NodeNetworks,
    PortIndex,
    PortUnavailableError,
    parse_ports,
)
from tests.support.factories import make_node
from tests.support.scheduling import make_network_node


@pytest.mark.parametrize(
    ("left", "operand", "right", "expected"),
    [
        ("linux", "=", "linux", True),
        (None, "=", "linux", False),
        (None, "!=", "linux", True),
        ("2", "<", "10", True),
        ("b", ">", "a", True),
        ("9007199254740993", ">", "9007199254740992", True),
        ("1_000", ">", "9", False),
        ("nan", ">=", "1", False),
        ("1e3", ">", "999", True),
        ("1.5", ">=", "1.50", True),
        (None, "is_set", "", False),
        ("", "is_set", "", True),
        (None, "is_not_set", "", True),
        ("1.2.3", "version", ">= 1.2, < 2", True),
        ("1.2.3-beta1", "version", ">= 1.2", False),
        ("1.3.0-beta1", "version", ">= 1.3.0-alpha1", True),
        ("2.0.0", "version", "~> 1.4", False),
        ("1.9", "version", "~> 1.4", True),
        ("1.4.9", "version", "~> 1.4.2", True),
        ("1.5.0", "version", "~> 1.4.2", False),
        ("1.4.3", "version", "~> 1.4.2-beta1", False),
        ("1.4.2-beta2", "version", "~> 1.4.2-beta1", True),
        ("latest", "version", ">= 0", False),
        ("1.2.3-beta1", "semver", ">= 1.2.0", True),
        ("1.2.3", "semver", "~> 1.2", False),
        ("1.0.0-alpha.2", "semver", "< 1.0.0-alpha.10", True),
        ("Intel Xeon", "regexp", "Xe.n$", True),
        ("Intel", "regexp", "(", False),
        ("intel", "regexp", "(?i)INTEL", True),
        ("linux", "regexp", "^[[:lower:]]+$", True),
        ("Linux", "regexp", "^[[:lower:]]+$", False),
        ("linux\n", "regexp", "linux$", False),
        ("linux", "regexp", r"linux\z", True),
        ("a\nb", "regexp", "(?m)^a$", True),
        ("a.b", "regexp", r"\Qa.b\E", True),
        ("a+b", "regexp", r"a\x{2B}b", True),
        ("a[b", "regexp", "a[[&&]b", True),
        ("name", "regexp", "(?<n>name)", True),
        ("linux", "regexp", "lin(?=ux)", False),
        ("aa", "regexp", r"(a)\1", False),
        ("aa", "regexp", "a++", False),
        ("a", "regexp", "[[:unknown:]]", False),
        ("a, b,c", "set_contains", "c,a", True),
        ("a,b", "set_contains_all", "a,z", False),
        ("a,b", "set_contains_any", "z,b", True),
        ("x", "unheard_of", "x", False),
    ],
)
def test_operators(left: str | None, operand: str, right: str, expected: bool) -> None:
    assert holds(operand, left, right) is expected


def test_targets_that_nodes_of_one_class_can_differ_in() -> None:
    assert escapes_class("${node.unique.id}")
    assert escapes_class("${attr.unique.hostname}")
    assert not escapes_class("${attr.kernel.name}")


def test_reserved_ports_are_lists_and_ranges() -> None:
    assert parse_ports("22, 80,8000-8002") == {22, 80, 8000, 8001, 8002}
    assert parse_ports(" 8000 - 8002 , 22 ") == {22, 8000, 8001, 8002}
    assert parse_ports("") == set()


def _index() -> PortIndex:
    node = make_network_node(0)
    node.node_resources.min_dynamic_port = 30000
    node.node_resources.max_dynamic_port = 30001
    node.reserved_resources.networks.reserved_host_ports = "22"
    return PortIndex(NodeNetworks(node))


def test_static_port_is_given_once() -> None:
    index = _index()
    ask = NetworkResource(reserved_ports=[Port(label="web", value=80)])
    [given] = index.offer_group(ask, random.Random(1))
    assert (given.value, given.host_ip) == (80, "10.0.0.1")
    index.take(given.host_ip, given.value)
    with pytest.raises(PortUnavailableError, match="reserved port collision web=80"):
        index.offer_group(ask, random.Random(1))


def test_port_the_node_keeps_for_itself_is_not_given() -> None:
    ask = NetworkResource(reserved_ports=[Port(label="ssh", value=22)])
    with pytest.raises(PortUnavailableError, match="ssh=22"):
        _index().offer_group(ask, random.Random(1))


def test_dynamic_ports_come_from_the_nodes_range_until_it_is_empty() -> None:
    index = _index()
    ask = NetworkResource(dynamic_ports=[Port(label="a"), Port(label="b", to=-1)])
    first, second = index.offer_group(ask, random.Random(1))
    assert {first.value, second.value} == {30000, 30001}
    assert (first.to, second.to) == (0, second.value)
    index.take("10.0.0.1", 30000)
    with pytest.raises(PortUnavailableError, match="dynamic port selection failed"):
        index.offer_group(ask, random.Random(1))


def test_unknown_host_network_has_no_addresses() -> None:
    ask = NetworkResource(dynamic_ports=[Port(label="a", host_network="private")])
    with pytest.raises(PortUnavailableError, match='no addresses available for "private" network'):
        _index().offer_group(ask, random.Random(1))


_GPU = NodeDevice(
    vendor="nvidia",
    type="gpu",
    name="a100",
    instances=[NodeDeviceInstance(id="g1"), NodeDeviceInstance(id="g2", healthy=False)],
    attributes={"memory": {"Int": 40, "Unit": "GiB"}},
)


@pytest.mark.parametrize(
    ("name", "constraint", "expected"),
    [
        ("gpu", None, True),
        ("nvidia/gpu", None, True),
        ("nvidia/gpu/t4", None, False),
        ("gpu", Constraint("${device.attr.memory}", "40960 MiB", "="), True),
        ("gpu", Constraint("${device.attr.memory}", "41 GiB", ">="), False),
        ("gpu", Constraint("${device.attr.missing}", "1", ">"), False),
        ("gpu", Constraint("${device.vendor}", "nvidia", "="), True),
    ],
)
def test_devices_match_by_kind_and_attributes(
    name: str, constraint: Constraint | None, expected: bool
) -> None:
    ask = RequestedDevice(name=name, constraints=[constraint] if constraint else None)
    assert matches(ask, _GPU) is expected


def test_quantities_have_dimensions() -> None:
    assert parse_value("2 GiB") == (2 * 2**30, "B")
    assert parse_value("1.5 GHz") == (1.5e9, "Hz")
    assert parse_value("7") == (7.0, "")
    assert parse_value("true") is True
    assert parse_value("ampere") == "ampere"


def test_only_healthy_free_instances_are_offered() -> None:
    node = make_node()
    node.node_resources.devices = [_GPU]
    ask = RequestedDevice(name="gpu", affinities=[Affinity("${device.model}", "a100", "=", 60)])
    offer = DevicePool(node, []).offer([("web", ask)])
    assert offer is not None
    assert offer.by_task["web"][0].device_ids == ["g1"]
    assert offer.score == 1.0
    held = AllocatedResources(
        tasks={
            "web": AllocatedTask(
                devices=[
                    AllocatedDevice(vendor="nvidia", type="gpu", name="a100", device_ids=["g1"])
                ]
            )
        }
    )
    assert DevicePool(node, [held]).offer([("web", ask)]) is None
