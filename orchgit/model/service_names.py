"""How a service is registered: its texts with references replaced, and its tags."""

from __future__ import annotations

from msgspec.structs import replace

from orchgit.model.allocation import Allocation
from orchgit.model.interpolation import Interpolator
from orchgit.model.service import Service, ServiceCheck


def interpolated_service(service: Service, interpolate: Interpolator) -> Service:
    """Returns the service with references replaced in all texts, those of its checks too but for
    scripts: these run in a task, with what its environment is then.

    Checks without `check_restart` get that of the service.
    """
    text, tree = interpolate.text, interpolate.tree
    return replace(
        service,
        name=text(service.name),
        port_label=text(service.port_label),
        address=text(service.address),
        tags=tree(service.tags),
        canary_tags=tree(service.canary_tags),
        meta=tree(service.meta),
        canary_meta=tree(service.canary_meta),
        checks=[_check(check, service, interpolate) for check in service.checks or ()],
    )


def _check(check: ServiceCheck, service: Service, interpolate: Interpolator) -> ServiceCheck:
    text, tree = interpolate.text, interpolate.tree
    return replace(
        check,
        name=text(check.name),
        type=text(check.type),
        path=text(check.path),
        protocol=text(check.protocol),
        port_label=text(check.port_label),
        initial_status=text(check.initial_status),
        method=text(check.method),
        header=tree(check.header),
        body=text(check.body),
        grpc_service=text(check.grpc_service),
        tls_server_name=text(check.tls_server_name),
        check_restart=check.check_restart or service.check_restart,
    )


def registered_tags(service: Service, allocation: Allocation) -> list[str]:
    """Returns the tags of the service; `canary_tags` for a canary, if the service has any."""
    status = allocation.deployment_status
    canary = status is not None and status.canary
    return list((service.canary_tags if canary else None) or service.tags or ())
