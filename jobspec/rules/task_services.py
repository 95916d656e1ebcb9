"""The services that a task has of its own."""

from __future__ import annotations

from jobspec.rules.findings import Findings
from jobspec.rules.services import check_service, needs_port
from orchgit.go_quote import quote
from orchgit.model.group import TaskGroup
from orchgit.model.service import Service
from orchgit.model.task import Task


def check_task_services(findings: Findings, task: Task, group: TaskGroup) -> None:
    names: set[str] = set()
    for index, service in enumerate(task.services or ()):
        inner = findings.at("Services", index)
        check_service(inner, service)
        findings.nest(f"service[{index}] {quote(service.name)} validation failed", inner)
        findings.check(
            service.name in names, f"service {quote(service.name)} is duplicate", "Services", index
        )
        names.add(service.name)
        findings.check(
            service.connect is not None,
            f'service {quote(service.name)} cannot have "connect" block, only services defined in '
            'a "group" block can',
            "Services",
            index,
        )
        findings.check(
            service.address_mode in ("alloc", "alloc_ipv6"),
            f'service {quote(service.name)} cannot use address_mode="alloc", only services '
            'defined in a "group" block can use this mode',
            "Services",
            index,
        )
        _task_checks(findings, service, index)
    _port_labels(findings, task, group)


def _task_checks(findings: Findings, service: Service, index: int) -> None:
    names: set[str] = set()
    for at, check in enumerate(service.checks or ()):
        place = ("Services", index, "Checks", at)
        name = f"check {quote(check.name)}"
        findings.check(
            check.address_mode in ("alloc", "alloc_ipv6"),
            f'check {quote(service.name)} cannot use address_mode="alloc", only checks defined in '
            'a "group" service block can use this mode',
            *place,
        )
        findings.check(needs_port(check, service), f"{name} is missing a port", *place)
        port = check.port_label or service.port_label
        if port.isdigit() and check.type != "script" and check.address_mode != "driver":
            findings.add(
                f'{name} cannot use a numeric port {port} without setting address_mode="driver"',
                *place,
            )
        findings.check(check.name in names, f"{name} is duplicate", *place)
        names.add(check.name)


def _port_labels(findings: Findings, task: Task, group: TaskGroup) -> None:
    """What a task's services say of ports are labels, but a driver's address has its own ports."""
    users: dict[str, list[str]] = {}
    for service in task.services or ():
        for owner in (service, *(service.checks or ())):
            numeric = owner.port_label.isdigit()
            judged = numeric and (owner is not service or owner.address_mode == "driver")
            if owner.port_label and not judged:
                known = users.setdefault(owner.port_label, [])
                known += [service.name] if service.name not in known else []
    networks = [*(group.networks or ()), *(task.resources.networks or ())]
    given = {port.label for network in networks for port in network.reserved_ports or ()}
    given |= {port.label for network in networks for port in network.dynamic_ports or ()}
    for label in sorted(users.keys() - given):
        findings.add(
            f"port label {quote(label)} referenced by services {', '.join(users[label])} does not "
            "exist",
            "Services",
        )
