"""What Consul is told of a service and of its checks. Pure."""

from __future__ import annotations

from typing import Any

from agent.services.check_state import CheckState, CheckStatus
from agent.services.registrations import ProvidedService, RunningCheck
from orchgit.host_port import join_host_port
from orchgit.model.base import NS_PER_S

ID_PREFIX = "_nomad-task-"
NODE_META = "orchgit-node"
"""The key of a service's metadata that says which node registered the service: several agents may
share one Consul agent."""
_SCRIPT_GRACE_S = 31
"""How much later than at its interval the result of a script may come."""


def service_id(provided: ProvidedService) -> str:
    """The id in Consul."""
    entry, port = provided.registration, provided.service.port_label
    prefix = owner_prefix(entry.alloc_id, provided.group, provided.owner)
    return f"{prefix}{entry.service_name}-{port}"


def owner_prefix(alloc_id: str, group: str, owner: str) -> str:
    """Returns how ids of services of a task begin, or of the group for an empty `owner`."""
    return f"{ID_PREFIX}{alloc_id}-{owner or f'group-{group}'}-"


def service_definition(provided: ProvidedService, node_id: str, is_canary: bool) -> dict[str, Any]:
    """The body of Consul's `agent/service/register`."""
    entry, service = provided.registration, provided.service
    meta = (service.canary_meta if is_canary and service.canary_meta else service.meta) or {}
    weights = service.weights or {}
    definition: dict[str, Any] = {
        "ID": service_id(provided),
        "Name": entry.service_name,
        "Tags": entry.tags,
        "Address": entry.address,
        "Port": entry.port,
        "Meta": {**meta, "external-source": "nomad", NODE_META: node_id},
        "EnableTagOverride": service.enable_tag_override,
        "Checks": [_check(provided, each) for each in provided.checks],
    }
    if weights:
        definition["Weights"] = {
            "Passing": weights.get("Passing", 1),
            "Warning": weights.get("Warning", 1),
        }
    if service.tagged_addresses:
        definition["TaggedAddresses"] = {
            name: {"Address": address, "Port": entry.port}
            for name, address in service.tagged_addresses.items()
        }
    return definition


def check_status(state: CheckState) -> str:
    """Consul's word for the status of a check that the agent runs."""
    if state.status is CheckStatus.SUCCESS:
        return "passing"
    return "warning" if state.warning else "critical"


def _check(provided: ProvidedService, running: RunningCheck) -> dict[str, Any]:
    check = running.check
    place = join_host_port(running.target.host, running.target.port)
    interval_s, timeout_s = check.interval_ns / NS_PER_S, check.timeout_ns / NS_PER_S
    definition: dict[str, Any] = {
        "CheckID": f"_nomad-check-{running.id}",
        "Name": check.name,
        "ServiceID": service_id(provided),
        "SuccessBeforePassing": check.success_before_passing,
        "FailuresBeforeCritical": check.failures_before_critical,
        "FailuresBeforeWarning": check.failures_before_warning,
    }
    if check.initial_status:
        definition["Status"] = check.initial_status
    if check.notes:
        definition["Notes"] = check.notes
    if check.type == "script":
        return {**definition, "TTL": f"{interval_s + _SCRIPT_GRACE_S:g}s"}
    definition |= {"Interval": f"{interval_s:g}s", "Timeout": f"{timeout_s:g}s"}
    if check.type == "tcp":
        return {**definition, "TCP": place}
    secure = {"TLSSkipVerify": check.tls_skip_verify, "TLSServerName": check.tls_server_name}
    if check.type == "grpc":
        target = f"{place}/{check.grpc_service}" if check.grpc_service else place
        return {**definition, "GRPC": target, "GRPCUseTLS": check.grpc_use_tls, **secure}
    path = check.path if check.path.startswith("/") else f"/{check.path}"
    return {
        **definition,
        **secure,
        "HTTP": f"{check.protocol or 'http'}://{place}{path}",
        "Method": check.method or "GET",
        "Header": check.header or {},
        "Body": check.body,
    }
