"""What the network of an allocation should be, from its group and the ports it was given. Pure."""

from __future__ import annotations

import re

import msgspec

from orchgit.errors import InvalidInputError
from orchgit.model.allocation import Allocation
from orchgit.model.group import TaskGroup
from orchgit.model.interpolation import Interpolator
from orchgit.model.job import Job
from orchgit.model.resources import DNSConfig, NetworkResource
from orchgit.model.runtime_variables import allocated_ports

BRIDGE, NONE, CNI_PREFIX = "bridge", "none", "cni/"
_HOST = ("", "host")
_HOSTNAME = re.compile(r"(?=.{1,64}$)[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9-]+)*")
_SHORT_ID_LENGTH = 12


class PortMapping(msgspec.Struct, frozen=True, kw_only=True):
    """A port of the host that leads to one of the namespace; the names are those of CNI."""

    host_port: int = msgspec.field(name="hostPort")
    container_port: int = msgspec.field(name="containerPort")
    protocol: str
    host_ip: str = msgspec.field(name="hostIP", default="")
    """"" is every address of the host."""


class WantedNetwork(msgspec.Struct, frozen=True, kw_only=True):
    """The network that an allocation's tasks share; its mode is never the host's."""

    alloc_id: str
    mode: str
    hostname: str = ""
    dns: DNSConfig | None = None
    ports: list[PortMapping] = []
    labels: dict[int, str] = {}
    """The labels of the ports of the host, for messages."""
    arguments: dict[str, str] = {}
    """`CNI_ARGS`."""

    @property
    def cni_name(self) -> str:
        """The CNI network to connect to; "" for the bridge and for none."""
        return self.mode.removeprefix(CNI_PREFIX) if self.mode.startswith(CNI_PREFIX) else ""

    @property
    def name(self) -> str:
        """A name for the namespace where the job gives none."""
        return self.hostname or self.alloc_id[:_SHORT_ID_LENGTH]


def group_network(group: TaskGroup) -> NetworkResource | None:
    """The group's network block, where its tasks do not simply use the host's network."""
    network = group.networks[0] if group.networks else None
    return None if network is None or network.mode in _HOST else network


def wanted_network(
    alloc: Allocation,
    job: Job,
    group: TaskGroup,
    region: str,
    interpolate: Interpolator,
    any_address: bool = False,
) -> WantedNetwork | None:
    """Returns the network to set up, None where the tasks use the host's.

    `any_address`: mapped ports accept connections on every address of the host. Raises
    InvalidInputError for what cannot be.
    """
    network = group_network(group)
    if network is None:
        return None
    known = network.mode in (BRIDGE, NONE) or network.mode.startswith(CNI_PREFIX)
    if not known:
        raise InvalidInputError(
            f'cannot set up the network: there is no mode "{network.mode}"; use bridge, host, '
            "none or cni/NAME"
        )
    hostname = interpolate.text(network.hostname)
    if hostname and not _HOSTNAME.fullmatch(hostname):
        raise InvalidInputError(f'cannot set up the network: "{hostname}" is no host name')
    ports = allocated_ports(alloc)
    own = {
        "NOMAD_REGION": region,
        "NOMAD_NAMESPACE": alloc.namespace,
        "NOMAD_JOB_ID": job.id,
        "NOMAD_GROUP_NAME": group.name,
        "NOMAD_ALLOC_ID": alloc.id,
    }
    given = (network.cni or {}).get("Args")
    arguments = {
        "IgnoreUnknown": "true",
        **{name: value for name, value in own.items() if ";" not in value},
        **_arguments(given if isinstance(given, dict) else {}, interpolate),
    }
    return WantedNetwork(
        alloc_id=alloc.id,
        mode=network.mode,
        hostname=hostname,
        dns=interpolated_dns(network.dns, interpolate),
        ports=[
            PortMapping(
                host_port=port.value,
                container_port=port.to if port.to > 0 else port.value,
                protocol=protocol,
                host_ip="" if any_address else port.host_ip,
            )
            for port in ports
            for protocol in ("tcp", "udp")
        ],
        labels={port.value: port.label for port in ports if not port.ignore_collision},
        arguments=arguments,
    )


def interpolated_dns(dns: DNSConfig | None, interpolate: Interpolator) -> DNSConfig | None:
    if dns is None:
        return None
    return DNSConfig(
        servers=interpolate.tree(dns.servers),
        searches=interpolate.tree(dns.searches),
        options=interpolate.tree(dns.options),
    )


def _arguments(given: dict[str, object], interpolate: Interpolator) -> dict[str, str]:
    """A separator inside a name or value would make other arguments of it."""
    arguments = {interpolate.text(name): interpolate.text(str(v)) for name, v in given.items()}
    for name, value in arguments.items():
        if not name or any(mark in name for mark in ";=") or ";" in value:
            raise InvalidInputError(
                f'cannot set up the network: the CNI argument "{name}" may hold no semicolon'
            )
    return arguments
