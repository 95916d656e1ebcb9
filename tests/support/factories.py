"""Ready-made model structs for tests: each is valid as it stands; keywords replace its fields."""

from __future__ import annotations

import itertools
import os
from typing import Any

import msgspec

from orchgit.model.allocation import Allocation, alloc_name
from orchgit.model.deployment import Deployment, DeploymentState
from orchgit.model.evaluation import EvalTrigger, Evaluation
from orchgit.model.group import EphemeralDisk, ReschedulePolicy, TaskGroup, UpdateStrategy
from orchgit.model.job import Job, JobType
from orchgit.model.node import (
    DriverInfo,
    Node,
    NodeCpu,
    NodeDisk,
    NodeMemory,
    NodeResources,
    NodeStatus,
)
from orchgit.model.plan import Placements
from orchgit.model.resources import (
    AllocatedCpu,
    AllocatedMemory,
    AllocatedResources,
    AllocatedShared,
    AllocatedTask,
    Resources,
)
from orchgit.model.task import Task

NOW_NS = 1_800_000_000_000_000_000

_numbers = itertools.count(1)


def make_id(prefix: str = "00000000") -> str:
    """A UUID-shaped id, new at every call; the prefix tells whose it is."""
    return f"{prefix}-0000-4000-8000-{next(_numbers):012x}"


def make_alloc_id() -> str:
    """Returns the id of an allocation, new at every call and of no other process: control groups,
    containers and networks of the machine are named by it."""
    process = f"{os.getpid() & 0xFFFFFFF:07x}"
    return f"000000a1-{process[:4]}-4{process[4:]}-8000-{next(_numbers):012x}"


def make_task(**fields: Any) -> Task:
    task = Task(
        name="web",
        driver="raw_exec",
        config={"command": "/bin/sleep", "args": ["3600"]},
        resources=Resources(cpu=100, memory_mb=64),
    )
    return msgspec.structs.replace(task, **fields)


def make_group(**fields: Any) -> TaskGroup:
    """A group of one task; `count` 1, 150 MB of disk."""
    group = TaskGroup(
        name="web",
        count=1,
        tasks=[make_task()],
        ephemeral_disk=EphemeralDisk(size_mb=150),
        reschedule_policy=ReschedulePolicy(),
    )
    return msgspec.structs.replace(group, **fields)


def make_job(**fields: Any) -> Job:
    """A service job of one group. `count=N` sets the group's count, `update=` its strategy."""
    count = fields.pop("count", 1)
    number = next(_numbers)
    groups = fields.pop("task_groups", None) or [make_group(count=count)]
    update = fields.get("update")
    if isinstance(update, UpdateStrategy):
        groups = [msgspec.structs.replace(group, update=update) for group in groups]
    name = fields.pop("id", f"job-{number}")
    job = Job(id=name, name=name, task_groups=groups, submit_time_ns=NOW_NS)
    return msgspec.structs.replace(job, **fields)


def make_batch_job(**fields: Any) -> Job:
    return make_job(**{"type": JobType.BATCH, **fields})


def make_system_job(**fields: Any) -> Job:
    return make_job(**{"type": JobType.SYSTEM, **fields})


def make_node(**fields: Any) -> Node:
    """A ready node with 4,000 MHz, 8,192 MB of memory, 100,000 MB of disk and raw_exec."""
    number = next(_numbers)
    cpu, memory, disk = (
        fields.pop("cpu_shares", 4000),
        fields.pop("memory_mb", 8192),
        fields.pop("disk_mb", 100_000),
    )
    node = Node(
        id=f"0000000a-0000-4000-8000-{number:012x}",
        secret_id=f"0000005e-0000-4000-8000-{number:012x}",
        name=f"node-{number}",
        http_addr="127.0.0.1:4646",
        computed_class="v1:0000000000000001",
        attributes={
            "kernel.name": "linux",
            "cpu.arch": "amd64",
            "unique.hostname": f"node-{number}",
            "driver.raw_exec": "1",
        },
        drivers={"raw_exec": DriverInfo(detected=True, healthy=True)},
        node_resources=NodeResources(
            cpu=NodeCpu(cpu_shares=cpu, total_cpu_cores=2),
            memory=NodeMemory(memory_mb=memory),
            disk=NodeDisk(disk_mb=disk),
        ),
        status=NodeStatus.READY,
    )
    return msgspec.structs.replace(node, **fields)


def make_resources(
    cpu: int = 100, memory_mb: int = 64, disk_mb: int = 150, task: str = "web"
) -> AllocatedResources:
    """What an allocation of `make_job()` is given."""
    return AllocatedResources(
        tasks={
            task: AllocatedTask(
                cpu=AllocatedCpu(cpu_shares=cpu), memory=AllocatedMemory(memory_mb=memory_mb)
            )
        },
        shared=AllocatedShared(disk_mb=disk_mb),
    )


def make_allocation(job: Job | None = None, node: Node | None = None, **fields: Any) -> Allocation:
    """A pending allocation of the job's first group; `index=` is its name index."""
    job = job if job is not None else make_job()
    group = job.task_groups[0].name
    allocation = Allocation(
        id=make_alloc_id(),
        namespace=job.namespace,
        eval_id=make_id("000000e1"),
        name=alloc_name(job.id, group, fields.pop("index", 0)),
        node_id=node.id if node is not None else make_id("0000000a"),
        node_name=node.name if node is not None else "node",
        job_id=job.id,
        job_version=job.version,
        job_type=job.type,
        task_group=group,
        allocated_resources=make_resources(),
        create_time_ns=NOW_NS,
        modify_time_ns=NOW_NS,
    )
    return msgspec.structs.replace(allocation, **fields)


def make_placements(
    job: Job, nodes: list[Node], count: int | None = None, **fields: Any
) -> Placements:
    """`count` new allocations of the job's first group, spread over `nodes` in turn."""
    rows = range(count if count is not None else len(nodes))
    placements = Placements(
        namespace=job.namespace,
        job_id=job.id,
        job_version=job.version,
        job_type=job.type,
        task_group=job.task_groups[0].name,
        eval_id=fields.pop("eval_id", make_id("000000e1")),
        alloc_ids=[make_alloc_id() for _ in rows],
        name_indexes=list(rows),
        node_ids=[nodes[row % len(nodes)].id for row in rows],
        node_names=[nodes[row % len(nodes)].name for row in rows],
        resources=make_resources(),
    )
    return msgspec.structs.replace(placements, **fields)


def make_evaluation(job: Job | None = None, **fields: Any) -> Evaluation:
    """A pending evaluation of the job, as its registration makes it."""
    job = job if job is not None else make_job()
    evaluation = Evaluation(
        id=make_id("000000e1"),
        namespace=job.namespace,
        priority=job.priority,
        type=job.type,
        triggered_by=EvalTrigger.JOB_REGISTER,
        job_id=job.id,
        job_modify_index=job.job_modify_index,
        create_time_ns=NOW_NS,
        modify_time_ns=NOW_NS,
    )
    return msgspec.structs.replace(evaluation, **fields)


def make_deployment(job: Job | None = None, **fields: Any) -> Deployment:
    """A running deployment of the job's version, wanting each group's count."""
    job = job if job is not None else make_job()
    deployment = Deployment(
        id=make_id("000000d1"),
        namespace=job.namespace,
        job_id=job.id,
        job_version=job.version,
        job_modify_index=job.modify_index,
        job_spec_modify_index=job.job_modify_index,
        job_create_index=job.create_index,
        task_groups={
            group.name: DeploymentState(
                desired_total=group.count, progress_deadline_ns=600_000_000_000
            )
            for group in job.task_groups
        },
        status_description="Deployment is running",
        create_time_ns=NOW_NS,
        modify_time_ns=NOW_NS,
    )
    return msgspec.structs.replace(deployment, **fields)
