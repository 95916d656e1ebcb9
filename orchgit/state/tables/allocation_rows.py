"""How an allocation is stored in its row: columns, a shared part, and a body of unusual fields.

Rows of one `Placements` share their resources and metrics (`alloc_shared`). The body is NULL for an
allocation that was placed and nothing else, as most of a million rows are.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import msgspec

from orchgit.model.allocation import (
    Allocation,
    AllocDeploymentStatus,
    AllocState,
    DesiredTransition,
    DriverAddress,
    NetworkStatus,
    RescheduleTracker,
    TaskState,
    alloc_name,
)
from orchgit.model.evaluation import AllocMetric
from orchgit.model.resources import AllocatedPort, AllocatedResources


class AllocBody(msgspec.Struct, omit_defaults=True):
    """The fields of an allocation that are neither in a column nor shared."""

    desired_description: str = ""
    desired_transition: DesiredTransition | None = None
    client_description: str = ""
    task_states: dict[str, TaskState] | None = None
    alloc_states: list[AllocState] | None = None
    previous_allocation: str = ""
    next_allocation: str = ""
    deployment_status: AllocDeploymentStatus | None = None
    reschedule_tracker: RescheduleTracker | None = None
    network_status: NetworkStatus | None = None
    followup_eval_id: str = ""
    preempted_allocations: list[str] | None = None
    preempted_by_allocation: str = ""
    resources: AllocatedResources | None = None
    """Instead of the shared ones."""
    metrics: AllocMetric | None = None
    """Instead of the shared ones."""
    driver_addresses: dict[str, DriverAddress] | None = None


_EMPTY = AllocBody()
CLIENT_TERMINAL = ("complete", "failed", "lost")
_BODY = msgspec.msgpack.Decoder(AllocBody)
_PORTS = msgspec.msgpack.Decoder(list[AllocatedPort])
_RESOURCES = msgspec.msgpack.Decoder(AllocatedResources)
_METRICS = msgspec.msgpack.Decoder(AllocMetric)
encode = msgspec.msgpack.Encoder().encode


_MAP_16, _SHORT_MAP, _TOO_LONG = 0xDE, 0x80, 16
"""Headers of msgpack, and how many fields a short one cannot tell."""


def encode_body(body: AllocBody) -> bytes | None:
    """The bytes depend on the fields that are set, and not on how many there are to set: servers of
    another version have the same rows."""
    if body == _EMPTY:
        return None
    data = encode(body)
    # msgspec takes the header for as many fields as there might be.
    if data[0] == _MAP_16 and (count := int.from_bytes(data[1:3], "big")) < _TOO_LONG:
        return bytes([_SHORT_MAP | count]) + data[3:]
    return data


def decode_body(data: bytes | None) -> AllocBody:
    return AllocBody() if data is None else _BODY.decode(data)


@dataclass(slots=True)
class Shared:
    resources: AllocatedResources
    metrics: AllocMetric | None

    @staticmethod
    def decode(resources: bytes, metrics: bytes | None) -> Shared:
        return Shared(
            _RESOURCES.decode(resources), _METRICS.decode(metrics) if metrics is not None else None
        )


READ_COLUMNS = """id, namespace, job_id, job_version, job_type, task_group, name_index, node_id,
    node_name, eval_id, deployment_id, commit_id, rollout_id, desired_status, client_status,
    ports, shared, create_index, modify_index, alloc_modify_index, create_time_ns, modify_time_ns,
    body"""

_Row = tuple[
    str, str, str, int, str, str, int, str, str, str, str, str, str, str, str,
    bytes | None, int, int, int, int, int, int, bytes | None,
]  # fmt: skip


def shared_id(row: tuple[object, ...]) -> int:
    """Returns the id of the shared part of a row of READ_COLUMNS."""
    return cast(int, row[16])


def allocation_of(row: tuple[object, ...], shared: Shared) -> Allocation:
    """Returns the allocation of a row of READ_COLUMNS."""
    (
        id_, namespace, job_id, job_version, job_type, task_group, name_index, node_id,
        node_name, eval_id, deployment_id, commit_id, rollout_id, desired_status, client_status,
        ports, _, create_index, modify_index, alloc_modify_index, create_time_ns, modify_time_ns,
        body_data,
    ) = cast(_Row, row)  # fmt: skip
    body = _EMPTY if body_data is None else _BODY.decode(body_data)
    return Allocation(
        id=id_,
        namespace=namespace,
        eval_id=eval_id,
        name=alloc_name(job_id, task_group, name_index),
        node_id=node_id,
        node_name=node_name,
        job_id=job_id,
        job_version=job_version,
        job_type=job_type,
        task_group=task_group,
        allocated_resources=_with_ports(body.resources or shared.resources, ports),
        metrics=body.metrics or shared.metrics,
        desired_status=desired_status,
        desired_description=body.desired_description,
        desired_transition=body.desired_transition or DesiredTransition(),
        client_status=client_status,
        client_description=body.client_description,
        task_states=body.task_states,
        alloc_states=body.alloc_states,
        previous_allocation=body.previous_allocation,
        next_allocation=body.next_allocation,
        deployment_id=deployment_id,
        deployment_status=body.deployment_status,
        reschedule_tracker=body.reschedule_tracker,
        network_status=body.network_status,
        followup_eval_id=body.followup_eval_id,
        preempted_allocations=body.preempted_allocations,
        preempted_by_allocation=body.preempted_by_allocation,
        commit_id=commit_id,
        rollout_id=rollout_id,
        create_index=create_index,
        modify_index=modify_index,
        alloc_modify_index=alloc_modify_index,
        create_time_ns=create_time_ns,
        modify_time_ns=modify_time_ns,
        driver_addresses=body.driver_addresses,
    )


def _with_ports(resources: AllocatedResources, ports: bytes | None) -> AllocatedResources:
    if ports is None:
        return resources
    replace = msgspec.structs.replace
    return replace(resources, shared=replace(resources.shared, ports=_PORTS.decode(ports)))


CHANGE_COLUMNS = """row, id, namespace, job_id, job_version, task_group, node_id, deployment_id,
    desired_status, client_status, shared, create_index, alloc_modify_index, body"""


@dataclass(slots=True)
class AllocationRow:
    """The fields of an allocation that an entry may change; `old_...` are those before the
    entry."""

    row: int
    id: str
    namespace: str
    job_id: str
    job_version: int
    task_group: str
    node_id: str
    deployment_id: str
    desired_status: str
    client_status: str
    shared: int
    create_index: int
    alloc_modify_index: int
    body: AllocBody
    eval_id: str | None = None
    """A new one, or None to leave it."""
    resources: AllocatedResources | None = None
    """New ones, or None to leave them."""
    old_client_status: str = field(init=False)
    old_live: bool = field(init=False)
    old_deployment_id: str = field(init=False)
    old_healthy: bool | None = field(init=False)

    def __post_init__(self) -> None:
        self.old_client_status = self.client_status
        self.old_live = self.live
        self.old_deployment_id = self.deployment_id
        self.old_healthy = self.healthy

    @property
    def group_key(self) -> tuple[str, str, str]:
        """(namespace, job id, group)."""
        return self.namespace, self.job_id, self.task_group

    @property
    def live(self) -> bool:
        """Whether the allocation is not terminal: neither server nor client ended it."""
        return self.desired_status == "run" and self.client_status in (
            "pending",
            "running",
            "unknown",
        )

    @property
    def changes_usage(self) -> bool:
        """Whether the usage of the node changes; a client-terminal allocation uses nothing."""
        ended, ended_before = (
            status in CLIENT_TERMINAL for status in (self.client_status, self.old_client_status)
        )
        return ended != ended_before or self.resources is not None

    @property
    def healthy(self) -> bool | None:
        status = self.body.deployment_status
        return status.healthy if status is not None else None

    @staticmethod
    def of(row: tuple[object, ...]) -> AllocationRow:
        """Returns the allocation of a row of CHANGE_COLUMNS."""
        columns: list[Any] = [*row]
        columns[-1] = decode_body(columns[-1])
        return AllocationRow(*columns)
