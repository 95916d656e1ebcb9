"""Consul's service mesh: sidecars, their upstreams, gateways."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Any

from jobspec.rules.findings import Findings
from orchgit.go_quote import quote
from orchgit.model.group import TaskGroup
from orchgit.model.service import Service

_MAX_USER_ID = 2**32 - 1


def check_upstreams(findings: Findings, group: TaskGroup, index: int) -> None:
    """Two upstreams of a group cannot listen on one address: its sidecars share a network."""
    taken: dict[str, str] = {}
    for at, service in enumerate(group.services or ()):
        for upstream in _proxy(service).get("Upstreams") or ():
            address = _address(upstream)
            if address in taken:
                findings.add(
                    f"Consul Connect services {quote(service.name)} and {quote(taken[address])} "
                    f"in group {quote(group.name)} using same address for upstreams ({address})",
                    "TaskGroups",
                    index,
                    "Services",
                    at,
                )
            taken.setdefault(address, service.name)


def check_proxy_ports(findings: Findings, group: TaskGroup, index: int) -> None:
    """What a transparent proxy leaves alone is given as numbers or as ports of the group."""
    labels = {
        port.label
        for network in group.networks or ()
        for port in (*(network.reserved_ports or ()), *(network.dynamic_ports or ()))
    }
    for at, service in enumerate(group.services or ()):
        transparent = _proxy(service).get("TransparentProxy") or {}
        for port in transparent.get("ExcludeInboundPorts") or ():
            findings.check(
                not str(port).isdigit() and port not in labels,
                f"Consul Connect transparent proxy port {quote(str(port))} must be numeric or one "
                "of network.port labels",
                "TaskGroups",
                index,
                "Services",
                at,
            )


def _proxy(service: Service) -> Mapping[str, Any]:
    sidecar = (service.connect or {}).get("SidecarService")
    proxy = sidecar.get("Proxy") if isinstance(sidecar, Mapping) else None
    return proxy if isinstance(proxy, Mapping) else {}


def _address(upstream: Mapping[str, Any]) -> str:
    socket = upstream.get("LocalBindSocketPath")
    if socket:
        return str(socket)
    return f"{upstream.get('LocalBindAddress') or ''}:{upstream.get('LocalBindPort') or 0}"


def _transparent_proxy(findings: Findings, transparent: Mapping[str, Any]) -> None:
    for block in transparent.get("ExcludeOutboundCIDRs") or ():
        problem = _prefix_problem(str(block))
        if problem:
            findings.add(
                "could not parse transparent proxy excluded outbound CIDR as network prefix: "
                f"netip.ParsePrefix({quote(str(block))}): {problem}"
            )
    fields = [("UID", transparent.get("UID"))]
    fields += [("ExcludeUIDs", user) for user in transparent.get("ExcludeUIDs") or ()]
    for name, user in fields:
        if user and not (str(user).isdigit() and int(user) <= _MAX_USER_ID):
            findings.add(
                f"transparent proxy block has invalid {name} field: invalid user ID "
                f"{quote(str(user))}: invalid syntax"
            )


def _prefix_problem(text: str) -> str:
    if "/" not in text:
        return "no '/'"
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        return "no network prefix"
    return ""


def check_connect(findings: Findings, service: Service, connect: dict[str, Any]) -> None:
    kinds = [
        bool(connect.get("Native")),
        connect.get("SidecarService") is not None,
        connect.get("Gateway") is not None,
    ]
    if sum(kinds) != 1:
        findings.add(
            "Consul Connect must be exclusively native, make use of a sidecar, or represent a "
            "Gateway",
            "Connect",
        )
        return
    if kinds[0]:
        findings.check(
            not service.port_label,
            f"Service {service.name} is Connect Native and requires setting the port",
            "Connect",
        )
    proxy = (connect.get("SidecarService") or {}).get("Proxy") or {}
    if proxy.get("TransparentProxy"):
        inner = findings.at("Connect")
        _transparent_proxy(inner, proxy["TransparentProxy"])
        findings.nest("", inner)
    gateway = connect.get("Gateway")
    if gateway is not None:
        problem = _gateway_problem(gateway)
        findings.check(problem is not None, str(problem), "Connect")


def _gateway_problem(gateway: dict[str, Any]) -> str | None:
    parts = [gateway.get(name) for name in ("Ingress", "Terminating", "Mesh")]
    count = sum(part is not None for part in parts)
    ingress, terminating, _ = parts
    if ingress is not None:
        listeners = ingress.get("Listeners") or ()
        if not listeners:
            return "Consul Ingress Gateway requires at least one listener"
        for listener in listeners:
            problem = _listener_problem(listener)
            if problem is not None:
                return problem
    if terminating is not None and not terminating.get("Services"):
        return "Consul Terminating Gateway requires at least one service"
    return None if count == 1 else "One Consul Gateway Configuration must be set"


def _listener_problem(listener: dict[str, Any]) -> str | None:
    if not listener.get("Port"):
        return "Consul Ingress Listener requires valid Port"
    protocol = listener.get("Protocol")
    if protocol not in ("tcp", "http", "http2", "grpc"):
        return (
            "Consul Ingress Listener requires protocol of tcp, http, http2, grpc, got "
            f"{quote(str(protocol or ''))}"
        )
    services = listener.get("Services") or ()
    if not services:
        return "Consul Ingress Listener requires one or more services"
    if protocol == "tcp" and len(services) > 1:
        return 'Consul Ingress Listener requires exactly one service for protocol "tcp"'
    return None
