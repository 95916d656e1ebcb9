"""Where services are registered and checked, by their `address_mode`."""

from __future__ import annotations

import pytest

from orchgit.model.allocation import Allocation, DriverAddress, NetworkStatus
from orchgit.model.node import Node
from orchgit.model.resources import AllocatedPort, AllocatedResources, AllocatedShared
from orchgit.model.service import Service, ServiceCheck
from orchgit.model.service_addresses import Whereabouts

NODE = Node(id="n", attributes={"unique.network.ip-address": "10.0.0.9"})
PORTS = [
    AllocatedPort(label="http", value=23001, to=80, host_ip="10.0.0.7"),
    AllocatedPort(label="same", value=23002, host_ip="10.0.0.7"),
]
ALLOC = Allocation(
    id="a", allocated_resources=AllocatedResources(shared=AllocatedShared(ports=PORTS))
)
STATUS = NetworkStatus(interface_name="eth0", address="172.26.64.5", address_ipv6="fd00::5")
DRIVER = DriverAddress(ip="172.17.0.3", ports={"http": 8080})
ADVERTISED = DriverAddress(ip="172.20.0.3", ports={"http": 8080}, auto_advertise=True)


@pytest.mark.parametrize(
    ("mode", "label", "driver", "expected"),
    [
        ("", "http", None, ("10.0.0.7", 23001)),
        ("auto", "http", DRIVER, ("10.0.0.7", 23001)),
        ("auto", "http", ADVERTISED, ("172.20.0.3", 8080)),
        ("host", "http", ADVERTISED, ("10.0.0.7", 23001)),
        ("auto", "9000", None, ("10.0.0.9", 9000)),
        ("auto", "", None, ("10.0.0.9", 0)),
        ("alloc", "http", None, ("172.26.64.5", 80)),
        ("alloc", "same", None, ("172.26.64.5", 23002)),
        ("alloc", "9000", None, ("172.26.64.5", 9000)),
        ("alloc_ipv6", "http", None, ("fd00::5", 80)),
        ("driver", "http", DRIVER, ("172.17.0.3", 8080)),
        ("driver", "same", DRIVER, ("172.17.0.3", 23002)),
        ("driver", "9000", DRIVER, ("172.17.0.3", 9000)),
        ("driver", "9000", None, ("", 9000)),
    ],
)
def test_service_is_registered_where_its_address_mode_says(
    mode: str, label: str, driver: DriverAddress | None, expected: tuple[str, int]
) -> None:
    service = Service(name="web", port_label=label, address_mode=mode)
    assert Whereabouts(ALLOC, NODE, STATUS, driver).of_service(service) == expected


@pytest.mark.parametrize(
    ("service_mode", "check_mode", "label", "expected"),
    [
        ("", "", "", ("10.0.0.7", 23001)),
        ("alloc", "", "", ("172.26.64.5", 80)),
        ("alloc", "host", "", ("10.0.0.7", 23001)),
        ("", "alloc", "9000", ("172.26.64.5", 9000)),
        ("", "", "same", ("10.0.0.7", 23002)),
    ],
)
def test_check_goes_to_its_own_port_and_mode_before_those_of_the_service(
    service_mode: str, check_mode: str, label: str, expected: tuple[str, int]
) -> None:
    service = Service(name="web", port_label="http", address_mode=service_mode)
    check = ServiceCheck(type="http", address_mode=check_mode, port_label=label)
    assert Whereabouts(ALLOC, NODE, STATUS).of_check(service, check) == expected


def test_address_of_the_job_file_is_registered_and_checked() -> None:
    service = Service(name="web", port_label="http", address="web.example.org")
    places = Whereabouts(ALLOC, NODE)
    assert places.of_service(service) == ("web.example.org", 23001)
    assert places.of_check(service, ServiceCheck(type="tcp")) == ("web.example.org", 23001)
