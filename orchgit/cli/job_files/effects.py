"""Finds in a parsed job what a server takes and a node of orchgit cannot do."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from agent.drivers.config import TaskConfigError, decode_config
from agent.drivers.docker.config import DockerConfig
from agent.drivers.java import JavaConfig
from agent.drivers.mock import MockConfig
from agent.drivers.oci import Isolation
from agent.drivers.podman.config import PodmanConfig
from agent.drivers.qemu import QemuConfig
from agent.drivers.raw_exec import RawExecConfig

Place = tuple[str | int, ...]
Effect = tuple[str, Place, str]
"""A rule of `linting.RULES`, the place in the job, and the message."""

DRIVERS: dict[str, type[msgspec.Struct]] = {
    "docker": DockerConfig,
    "exec": Isolation,
    "java": JavaConfig,
    "mock_driver": MockConfig,
    "podman": PodmanConfig,
    "qemu": QemuConfig,
    "raw_exec": RawExecConfig,
}
_NO_PARTITIONS = "orchgit knows no namespaces and partitions of Consul; leave the consul block out"
_NO_MESH = "orchgit has no service mesh, so no node can take it; leave the connect block out"


def effects(spec: dict[str, Any]) -> Iterator[Effect]:
    """Yields what is wrong with drivers and their config, and what no node can do."""
    for at, group in enumerate(spec["TaskGroups"] or ()):
        place: Place = ("TaskGroups", at)
        yield from _services(group, place)
        if group.get("Consul"):
            yield "unplaceable", (*place, "Consul"), f"group {group['Name']!r}: {_NO_PARTITIONS}"
        for number, task in enumerate(group["Tasks"] or ()):
            inner = (*place, "Tasks", number)
            yield from _services(task, inner)
            yield from _task(task, inner)


def _services(owner: Mapping[str, Any], place: Place) -> Iterator[Effect]:
    for at, service in enumerate(owner["Services"] or ()):
        if service["Connect"] is not None:
            message = f"service {service['Name']!r}: {_NO_MESH}"
            yield "unplaceable", (*place, "Services", at), message


def _task(task: Mapping[str, Any], place: Place) -> Iterator[Effect]:
    if task.get("Vault"):
        identity = f"vault_{task['Vault'].get('Cluster') or 'default'}"
        if identity not in [each.get("Name") for each in task.get("Identities") or ()]:
            message = (
                f"task {task['Name']!r}: it cannot log in at Vault without an identity: add "
                f'identity {{ name = "{identity}" aud = ["vault.io"] }}'
            )
            yield "unplaceable", (*place, "Vault"), message
    name, config = str(task["Driver"]), dict(task["Config"] or {})
    shape = DRIVERS.get(name)
    if shape is None:
        near = difflib.get_close_matches(name, DRIVERS, 1)
        hint = f"did you mean {near[0]!r}?" if near else "a package has to add it to the nodes"
        yield "driver", (*place, "Driver"), f"driver {name!r} is not one of orchgit's: {hint}"
        return
    if not config:
        return
    if "${" in str(config):
        # What stands for a number may be a reference, which only the node can follow.
        config = {key: value for key, value in config.items() if "${" not in str(value)}
        fields = msgspec.structs.fields(shape)
        config |= {each.encode_name: "" for each in fields if each.required and each.type is str}
    try:
        decode_config(name, str(task["Name"]), config, shape)
    except TaskConfigError as error:
        yield "driver-config", (*place, "Config"), error.short
