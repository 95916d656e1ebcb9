"""Where a service is reached, by the `address_mode` of the service or of its check. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from orchgit.model.allocation import Allocation, DriverAddress, NetworkStatus
from orchgit.model.node import Node
from orchgit.model.resources import AllocatedPort
from orchgit.model.runtime_variables import allocated_ports
from orchgit.model.service import Service, ServiceCheck
from orchgit.whole_number import whole_number

AUTO, HOST, DRIVER, ALLOC, ALLOC_IPV6 = "auto", "host", "driver", "alloc", "alloc_ipv6"
NO_ADDRESS: Mapping[str, str] = {
    AUTO: "the node has no address; set client.network_interface",
    HOST: "the node has no address; set client.network_interface",
    DRIVER: 'the driver gave its task no address; use address_mode "host", or a driver and '
    "network_mode that have addresses of their own",
    ALLOC: 'the group has no network of its own; use address_mode "host", or network mode "bridge"',
    ALLOC_IPV6: 'the group\'s network has no IPv6 address; use address_mode "alloc" or "host"',
}
"""Why a service has no address, by its mode, and the way out."""


@dataclass(frozen=True, slots=True)
class Whereabouts:
    """What the addresses of an allocation's services follow from."""

    alloc: Allocation
    node: Node
    network: NetworkStatus | None = None
    """The network of the group; None where its tasks use the host's."""
    driver: DriverAddress | None = None
    """The address that a driver gave to the task whose services they are."""

    def of_service(self, service: Service) -> tuple[str, int]:
        """Returns address and port to register; the address is "" where the mode has none."""
        address, port = self._resolve(service.address_mode or AUTO, service.port_label)
        return service.address or address, port

    def of_check(self, service: Service, check: ServiceCheck) -> tuple[str, int]:
        """Returns address and port to check.

        A check without a mode has the service's, where that is not the host's address.
        """
        label = check.port_label or service.port_label
        own = service.address_mode if service.address_mode in (ALLOC, ALLOC_IPV6, DRIVER) else HOST
        address, port = self._resolve(check.address_mode or own, label)
        if service.address and not check.address_mode and label == service.port_label:
            address = service.address
        return address, port

    def _resolve(self, mode: str, label: str) -> tuple[str, int]:
        given = next((one for one in allocated_ports(self.alloc) if one.label == label), None)
        number = max(whole_number(label) or 0, 0)
        driver = self.driver
        if driver is not None and (mode == DRIVER or (mode == AUTO and driver.auto_advertise)):
            return driver.ip, driver.ports.get(label) or (_inside(given) if given else number)
        if mode == DRIVER:
            return "", number
        if mode in (ALLOC, ALLOC_IPV6):
            network = self.network or NetworkStatus()
            address = network.address if mode == ALLOC else network.address_ipv6
            return address, _inside(given) if given else number
        if given is not None:
            return given.host_ip or self._host(), given.value
        return self._host(), number

    def _host(self) -> str:
        return self.node.attributes.get("unique.network.ip-address", "")


def _inside(port: AllocatedPort) -> int:
    return port.to if port.to > 0 else port.value
