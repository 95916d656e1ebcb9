"""Services, checks and the mesh."""

from __future__ import annotations

import re

from jobspec.evaluation.runtime_text import without_references
from jobspec.rules.connect import check_connect
from jobspec.rules.findings import Findings
from orchgit.durations import to_text
from orchgit.go_quote import quote
from orchgit.model.group import TaskGroup
from orchgit.model.service import CheckRestart, Service, ServiceCheck

_SECOND_NS = 1_000_000_000
_NAME = re.compile(r"(?i)[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_ADDRESS_MODES = ("", "auto", "host", "driver", "alloc", "alloc_ipv6")
_STATES = ("", "passing", "warning", "critical")
_ON_UPDATE = ("", "require_healthy", "ignore_warnings", "ignore")
_NOMAD_METHODS = (
    "",
    "GET",
    "HEAD",
    "POST",
    "PUT",
    "DELETE",
    "CONNECT",
    "OPTIONS",
    "TRACE",
    "PATCH",
)
_CONSUL_TYPES = ("grpc", "tcp", "http", "script")


def check_group_services(findings: Findings, group: TaskGroup) -> None:
    """All services of a group: its own and, where they must agree, those of its tasks."""
    providers = {service.provider or "consul" for service in group.services or ()}
    seen: set[tuple[str, str]] = set()
    repeated: list[str] = []
    for index, service in enumerate(group.services or ()):
        inner = findings.at("Services", index)
        check_service(inner, service)
        findings.nest(f"Service[{index}] {service.name} validation failed", inner)
        _check_tasks(findings, service, group, index)
        _note_repeated(service, "group", seen, repeated)
    for task in group.tasks:
        for service in task.services or ():
            findings.check(
                service.task_name not in ("", task.name),
                f"Service {service.name} is invalid: may only specify task the service belongs "
                f"to, got {quote(service.task_name)}",
                "Services",
            )
            providers.add(service.provider or "consul")
            _note_repeated(service, task.name, seen, repeated)
    if repeated:
        findings.add(f"Services are not unique: [{' '.join(repeated)}]", "Services")
    findings.check(
        len(providers) > 1,
        "Multiple service providers used: task group services must use the same provider",
        "Services",
    )


def _check_tasks(findings: Findings, service: Service, group: TaskGroup, index: int) -> None:
    known = {task.name for task in group.tasks}
    for at, check in enumerate(service.checks or ()):
        findings.check(
            bool(check.task_name) and check.task_name not in known,
            f"Check {check.name} invalid: refers to non-existent task {check.task_name}",
            "Services",
            index,
            "Checks",
            at,
        )


def check_script_checks(findings: Findings, group: TaskGroup) -> None:
    """A script runs in a task, so its check must name the task."""
    for index, service in enumerate(group.services or ()):
        for at, check in enumerate(service.checks or ()):
            findings.check(
                check.type == "script" and not check.task_name and not service.task_name,
                f"Service [{group.name}]->{service.name} or Check {check.name} must specify task "
                "parameter",
                "Services",
                index,
                "Checks",
                at,
            )


def _note_repeated(
    service: Service, owner: str, seen: set[tuple[str, str]], repeated: list[str]
) -> None:
    key = (service.name, service.port_label)
    if key in seen:
        repeated.append(f"{owner}->{':'.join(part for part in key if part)}")
    seen.add(key)


def needs_port(check: ServiceCheck, service: Service) -> bool:
    network = check.type in ("http", "tcp", "grpc")
    return network and not check.port_label and not service.port_label


def _missing_port(findings: Findings, check: ServiceCheck, service: Service, index: int) -> bool:
    missing = needs_port(check, service)
    if missing:
        findings.add(
            f"Check {check.name} invalid: check requires a port but neither check nor service "
            f"{quote(service.name)} have a port",
            "Checks",
            index,
        )
    return missing


def check_service(findings: Findings, service: Service) -> None:
    name = without_references(service.name, "ENV-VAR")
    findings.check(
        not _NAME.fullmatch(name),
        "Service name must be valid per RFC 1123 and can contain only alphanumeric characters or "
        f"dashes and must be no longer than 63 characters: {quote(service.name)}",
        "Name",
    )
    findings.check(
        service.address_mode not in _ADDRESS_MODES,
        'Service address_mode must be "auto", "host", or "driver"; not '
        f"{quote(service.address_mode)}",
        "AddressMode",
    )
    findings.check(
        bool(service.address) and service.address_mode not in ("", "auto"),
        'Service address_mode must be "auto" if address is set',
        "AddressMode",
    )
    findings.check(
        service.on_update not in _ON_UPDATE,
        "Service on_update must be "
        f'"require_healthy", "ignore_warnings", or "ignore"; not {quote(service.on_update)}',
        "OnUpdate",
    )
    if service.provider == "nomad":
        _nomad_service(findings, service)
    elif service.provider in ("", "consul"):
        _consul_service(findings, service)
    else:
        findings.add(
            f'Service provider must be "consul", or "nomad"; not {quote(service.provider)}',
            "Provider",
        )


def _nomad_service(findings: Findings, service: Service) -> None:
    findings.check(
        service.connect is not None,
        "Service with provider nomad cannot include Connect blocks",
        "Connect",
    )
    for index, check in enumerate(service.checks or ()):
        place = ("Checks", index)
        if check.type not in ("http", "tcp"):
            findings.add(f'invalid check type ("{check.type}"), must be one of tcp, http', *place)
            continue
        problem = _nomad_check_problem(check)
        if problem is not None:
            findings.add(problem, *place)
            continue
        if not _missing_port(findings, check, service, index):
            _check(findings, check, index)


def _nomad_check_problem(check: ServiceCheck) -> str | None:
    for value, name in (
        (check.expose, "expose may only be set for Consul service checks"),
        (
            check.check_restart is not None and check.check_restart.ignore_warnings,
            "ignore_warnings on check_restart only supported for Consul service checks",
        ),
        (
            check.success_before_passing,
            "success_before_passing may only be set for Consul service checks",
        ),
        (
            check.failures_before_critical,
            "failures_before_critical may only be set for Consul service checks",
        ),
        (
            check.address_mode == "driver",
            "address_mode = driver may only be set for Consul service checks",
        ),
        (check.grpc_service, "grpc_service may only be set on Consul service checks"),
        (check.tls_server_name, "tls_server_name may only be set for Consul service checks"),
    ):
        if value:
            return name
    if check.type == "http" and check.method not in _NOMAD_METHODS:
        return f"method type {quote(check.method)} not supported in Nomad http check"
    return None


def _consul_service(findings: Findings, service: Service) -> None:
    for index, check in enumerate(service.checks or ()):
        if not _missing_port(findings, check, service, index):
            _check(findings, check, index)
    if service.connect is not None:
        check_connect(findings, service, service.connect)


def _check(findings: Findings, check: ServiceCheck, index: int) -> None:
    inner = findings.at("Checks", index)
    problem = _check_problem(check)
    if problem is not None:
        findings.add(f"Check {check.name} invalid: {problem}", "Checks", index)
    elif check.check_restart is not None:
        _check_restart(inner, check.check_restart)
        findings.nest(f"Check {check.name} invalid", inner)


def _check_problem(check: ServiceCheck) -> str | None:
    kind = check.type.lower()
    if kind not in _CONSUL_TYPES:
        return f"invalid check type ({quote(check.type)}), must be one of grpc, tcp, http, script"
    problem = _kind_problem(kind, check) or _timing_problem(check)
    if problem is not None:
        return problem
    if check.initial_status not in _STATES:
        return (
            f"invalid initial check state ({check.initial_status}), must be one of "
            '"passing", "warning", "critical" or empty'
        )
    if check.address_mode not in _ADDRESS_MODES:
        return f'invalid address_mode "{check.address_mode}"'
    if check.on_update not in _ON_UPDATE:
        return (
            'on_update must be "require_healthy", "ignore_warnings", or "ignore"; got '
            f"{quote(check.on_update)}"
        )
    return _threshold_problem(kind, check)


def _kind_problem(kind: str, check: ServiceCheck) -> str | None:
    if kind == "script" and not check.command:
        return "script type must have a valid script path"
    if kind == "http":
        if not check.path:
            return "http type must have http path"
        if re.match(r"[a-zA-Z][a-zA-Z0-9+.-]*:", check.path):
            return "http type must have relative http path"
    return None


def _timing_problem(check: ServiceCheck) -> str | None:
    least = to_text(_SECOND_NS)
    if check.interval_ns == 0:
        return f"missing required value interval. Interval cannot be less than {least}"
    if check.interval_ns < _SECOND_NS:
        return f"interval ({to_text(check.interval_ns)}) cannot be lower than {least}"
    if check.timeout_ns == 0:
        return f"missing required value timeout. Timeout cannot be less than {least}"
    if check.timeout_ns < _SECOND_NS:
        return (
            f"timeout ({to_text(check.timeout_ns)}) is lower than required minimum timeout {least}"
        )
    return None


def _threshold_problem(kind: str, check: ServiceCheck) -> str | None:
    for name, value in (
        ("success_before_passing", check.success_before_passing),
        ("failures_before_critical", check.failures_before_critical),
        ("failures_before_warning", check.failures_before_warning),
    ):
        if value > 0 and kind not in ("http", "tcp", "grpc"):
            return f"{name} not supported for check of type {quote(check.type)}"
        if value < 0:
            return f"{name} must be non-negative"
    return None


def _check_restart(findings: Findings, restart: CheckRestart) -> None:
    findings.check(
        restart.limit < 0,
        f"limit must be greater than or equal to 0 but found {restart.limit}",
        "CheckRestart",
    )
    findings.check(
        restart.grace_ns < 0,
        f"grace period must be greater than or equal to 0 but found {restart.grace_ns}",
        "CheckRestart",
    )
