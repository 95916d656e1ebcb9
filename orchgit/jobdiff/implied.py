"""Fills in what a group implies without writing it: identities, and the owners of services."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from orchgit.model.group import TaskGroup
from orchgit.model.service import Service
from orchgit.model.task import Task

DEFAULT_IDENTITY = "default"
DEFAULT_AUDIENCE = "nomadproject.io"


def completed(group: TaskGroup | None) -> TaskGroup | None:
    """Returns the group with implied identities and owners, without the server's bookkeeping."""
    if group is None:
        return None
    scaling = group.scaling
    if scaling is not None:
        scaling = replace(scaling, id="", target=None, create_index=0, modify_index=0)
    return replace(
        group,
        scaling=scaling,
        services=_services(group.services, ""),
        tasks=[_task(task) for task in group.tasks],
    )


def _task(task: Task) -> Task:
    """Every task has the default identity; one of that name among `identities` is taken as it."""
    others = [each for each in task.identities or () if not _is_default(each)]
    named = next((each for each in task.identities or () if _is_default(each)), None)
    identity = {key: value for key, value in (task.identity or named or {}).items() if value}
    if _is_default(identity):
        identity = {"Audience": [DEFAULT_AUDIENCE], **identity, "Name": DEFAULT_IDENTITY}
    logs = task.log_config
    return replace(
        task,
        identity=identity,
        identities=others or None,
        services=_services(task.services, task.name),
        log_config=replace(logs, disabled=logs.disabled or logs.enabled is False, enabled=None),
    )


def _is_default(identity: dict[str, object]) -> bool:
    return identity.get("Name") in (None, "", DEFAULT_IDENTITY)


def _services(services: Sequence[Service] | None, task_name: str) -> list[Service] | None:
    """Services of a task belong to it; identities are named after their services."""
    if not services:
        return None
    return [_service(service, task_name) for service in services]


def _service(service: Service, task_name: str) -> Service:
    owner = service.task_name or task_name
    identity = service.identity
    if identity is not None:
        names = [owner, service.name, service.port_label]
        name = "-".join(each for each in names if each)
        named = {"Name": f"consul-service_{name}", "ServiceName": service.name}
        identity = {**identity, **named}
    return replace(service, task_name=owner, identity=identity)
