"""What lists show of an object: fewer fields than the object itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import UNSET, UnsetType, field
from msgspec.structs import asdict, replace

from orchgit.api.shapes.shown import shown
from orchgit.host_port import host_of
from orchgit.model.allocation import (
    Allocation,
    AllocDeploymentStatus,
    DesiredTransition,
    NetworkStatus,
    RescheduleTracker,
    TaskState,
)
from orchgit.model.base import Model
from orchgit.model.group import TaskGroup
from orchgit.model.job import ChildrenSummary, Job, JobStatus, JobSummary, JobType
from orchgit.model.node import (
    ClientHostVolume,
    DriverInfo,
    Node,
)
from orchgit.model.resources import AllocatedResources, Resources
from orchgit.model.task import Task
from orchgit.model.variable import RootKey


class JobStub(Model):
    id: str
    parent_id: str
    name: str
    namespace: str
    datacenters: list[str]
    node_pool: str
    multiregion: dict[str, Any] | None
    type: str
    priority: int
    periodic: bool
    parameterized_job: bool
    stop: bool
    status: str
    status_description: str
    job_summary: JobSummary | None
    create_index: int
    modify_index: int
    job_modify_index: int
    submit_time_ns: int
    source: str | UnsetType
    commit_id: str | UnsetType


class JobStubWithMeta(JobStub):
    meta: dict[str, str] | UnsetType = UNSET


def job_stub(job: Job, summary: JobSummary | None, with_meta: bool = False) -> JobStub:
    fields: dict[str, Any] = {
        name: getattr(job, name) for name in JobStub.__struct_fields__ if name not in _JOB_DERIVED
    }
    fields.update(
        periodic=job.is_periodic,
        parameterized_job=job.is_parameterized,
        job_summary=with_children(summary),
        source=(job.origin.source if job.origin else "") or UNSET,
        commit_id=(job.origin.commit_id if job.origin else "") or UNSET,
    )
    return JobStubWithMeta(**fields, meta=job.meta or UNSET) if with_meta else JobStub(**fields)


def with_children(summary: JobSummary | None) -> JobSummary | None:
    """Adds the counts of children, which Nomad shows for every job: zeros where it can have
    none."""
    if summary is None or summary.children is not None:
        return summary
    return replace(summary, children=ChildrenSummary())


_JOB_DERIVED = frozenset(("periodic", "parameterized_job", "job_summary", "source", "commit_id"))


class AllocStub(Model):
    id: str
    eval_id: str
    name: str
    namespace: str
    node_id: str
    node_name: str
    job_id: str
    job_type: str
    job_version: int
    task_group: str
    desired_status: str
    desired_description: str
    desired_transition: DesiredTransition
    client_status: str
    client_description: str
    deployment_status: AllocDeploymentStatus | None
    followup_eval_id: str
    next_allocation: str
    reschedule_tracker: RescheduleTracker | None
    preempted_allocations: list[str] | None
    preempted_by_allocation: str
    commit_id: str | UnsetType
    rollout_id: str | UnsetType
    create_index: int
    modify_index: int
    create_time_ns: int
    modify_time_ns: int
    task_states: dict[str, TaskState] | None


class AllocStubWithResources(AllocStub):
    allocated_resources: AllocatedResources | None = None


def alloc_stub(
    allocation: Allocation, with_states: bool = True, with_resources: bool = False
) -> AllocStub:
    kind = AllocStubWithResources if with_resources else AllocStub
    stub = kind(*[getattr(allocation, name) for name in kind.__struct_fields__])
    stub.commit_id, stub.rollout_id = stub.commit_id or UNSET, stub.rollout_id or UNSET
    if not with_states:
        stub.task_states = None
    return stub


class AllocationWithJob(Allocation):
    """An allocation with the version of its job, as reads of one allocation show it.

    Older clients read the three kinds of resources beside `allocated_resources`.
    """

    job: Job | None = None
    resources: Resources = field(default_factory=Resources)
    shared_resources: Resources = field(default_factory=Resources)
    task_resources: dict[str, Resources] = {}
    signing_key_id: str = ""


def allocation_with_job(
    allocation: Allocation, job: Job | None, root_keys: Sequence[RootKey] = ()
) -> AllocationWithJob:
    """Returns the allocation with its job as it was when the allocation was placed, which clients
    take for granted. `root_keys`: the newest first.

    Where an older server lost the job, the answer holds what the allocation knows of it.
    """
    values = {name: getattr(allocation, name) for name in Allocation.__struct_fields__}
    if allocation.network_status is None and allocation.task_states:
        values["network_status"] = NetworkStatus()
    given = allocation.allocated_resources or AllocatedResources()
    tasks = {
        name: Resources(
            cpu=task.cpu.cpu_shares,
            cores=len(task.cpu.reserved_cores or ()),
            memory_mb=task.memory.memory_mb,
            memory_max_mb=task.memory.memory_max_mb,
        )
        for name, task in given.tasks.items()
    }
    if given.shared.ports and given.shared.networks:
        given = given.with_ports(given.shared.ports)
    networks, disk_mb = given.shared.networks, given.shared.disk_mb
    shared = Resources(cpu=0, memory_mb=0, disk_mb=disk_mb, networks=networks)
    whole = Resources(
        cpu=sum(task.cpu for task in tasks.values()),
        memory_mb=sum(task.memory_mb for task in tasks.values()),
        memory_max_mb=sum(task.memory_max_mb or task.memory_mb for task in tasks.values()),
        disk_mb=disk_mb,
        networks=networks,
    )
    return AllocationWithJob(
        **values,
        job=_placed_job(allocation, job) if job is not None else _lost_job(allocation),
        signing_key_id=signing_key_id(root_keys, allocation.create_index),
        resources=whole,
        shared_resources=shared,
        task_resources=tasks,
    )


def allocation_alone(allocation: Allocation) -> dict[str, Any]:
    """Returns an allocation as events show it: in full, but without its job."""
    found: dict[str, Any] = shown(allocation_with_job(allocation, None))
    del found["Job"]
    return found


def signing_key_id(root_keys: Sequence[RootKey], index: int) -> str:
    """Returns the key that signed identities at an index of the log: the newest one then, or the
    first that was made later. `root_keys`: the newest first."""
    of_then = (each.key_id for each in root_keys if each.create_index <= index)
    return next(of_then, root_keys[-1].key_id if root_keys else "")


def _placed_job(allocation: Allocation, job: Job) -> Job:
    """Returns the job's version before the allocation changed its status and its stability."""
    is_first = not (job.version or allocation.previous_allocation)
    always_runs = job.type == JobType.SYSTEM
    status = JobStatus.PENDING if is_first and not always_runs else JobStatus.RUNNING
    return replace(job, status=status, stable=job.stable and not is_first)


def _lost_job(allocation: Allocation) -> Job:
    given = allocation.allocated_resources
    group = TaskGroup(
        name=allocation.task_group,
        tasks=[Task(name=name) for name in (given.tasks if given else ())],
    )
    return Job(
        namespace=allocation.namespace,
        id=allocation.job_id,
        name=allocation.job_id,
        type=allocation.job_type,
        version=allocation.job_version,
        task_groups=[group],
        status=JobStatus.DEAD,
        stop=True,
    )


class NodeStub(Model):
    id: str
    name: str
    address: str
    datacenter: str
    node_pool: str
    node_class: str
    version: str
    drain: bool
    scheduling_eligibility: str
    status: str
    status_description: str
    drivers: dict[str, DriverInfo]
    host_volumes: dict[str, ClientHostVolume]
    last_drain: dict[str, Any] | None
    create_index: int
    modify_index: int


_REGISTERED = "Node registered"
"""The event of a node's first entry, which has no index in Nomad."""


def shown_node(node: Node) -> Node:
    """Returns the node without its secret, which only its agent and the servers know; maps are
    never null."""
    drivers = {
        name: driver if driver.attributes is not None else replace(driver, attributes={})
        for name, driver in node.drivers.items()
    }
    drain = node.last_drain
    accessor = str((drain or {}).get("AccessorID") or "")
    if drain is not None and accessor and ":" not in accessor:
        drain = {**drain, "AccessorID": f"token:{accessor}"}
    events = [
        replace(each, create_index=0) if each.message == _REGISTERED else each
        for each in node.events
    ]
    return replace(
        node,
        secret_id="",
        events=events,
        last_drain=drain,
        drivers=drivers,
        csi_node_plugins=node.csi_node_plugins or {},
        csi_controller_plugins=node.csi_controller_plugins or {},
    )


def node_stub(node: Node, with_resources: bool, with_os: bool) -> dict[str, Any] | NodeStub:
    node = shown_node(node)
    stub = NodeStub(
        address=host_of(node.http_addr),
        version=node.attributes.get("nomad.version", ""),
        **{
            name: getattr(node, name)
            for name in NodeStub.__struct_fields__
            if name not in ("address", "version")
        },
    )
    if not (with_resources or with_os):
        return stub
    shown: dict[str, Any] = {
        type(stub).__struct_encode_fields__[place]: value
        for place, value in enumerate(asdict(stub).values())
    }
    if with_resources:
        shown["NodeResources"] = node.node_resources
        shown["ReservedResources"] = node.reserved_resources
    if with_os:
        shown["Attributes"] = {"os.name": node.attributes.get("os.name", "")}
    return shown
