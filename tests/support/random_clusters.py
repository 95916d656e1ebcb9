"""Random clusters in which a job has a history: versions, deployments, allocations in any state."""

from __future__ import annotations

import random
from dataclasses import dataclass

from msgspec.structs import replace

from orchgit.model.allocation import (
    Allocation,
    AllocDeploymentStatus,
    AllocState,
    DesiredTransition,
    TaskState,
    alloc_name,
)
from orchgit.model.base import NS_PER_S, datetime_of_ns
from orchgit.model.constraint import Constraint
from orchgit.model.deployment import Deployment, DeploymentState
from orchgit.model.evaluation import Evaluation
from orchgit.model.group import DisconnectStrategy, ReschedulePolicy, TaskGroup, UpdateStrategy
from orchgit.model.job import Job
from orchgit.model.node import DrainStrategy, Node
from orchgit.model.operator import PreemptionConfig
from orchgit.model.resources import Resources
from tests.support.cluster import ListCluster
from tests.support.factories import NOW_NS, make_group, make_resources, make_task
from tests.support.factories import make_job as plain_job
from tests.support.scheduling import make_network_node

JOB_ID = "api"
_CPU, _MEMORY_MB, _DISK_MB = 500, 256, 150


@dataclass
class RandomCase:
    cluster: ListCluster
    evaluation: Evaluation

    @property
    def job(self) -> Job:
        job = self.cluster.job("default", JOB_ID)
        assert job is not None
        return job


def random_case(seed: int) -> RandomCase:
    """Everything follows from the seed."""
    rng = random.Random(seed)
    kind = rng.choice(["service", "service", "service", "batch", "system", "sysbatch"])
    cluster = ListCluster(NOW_NS)
    for number in range(rng.randint(1, 7)):
        node = _node(rng, number)
        cluster.nodes[node.id] = node
    if rng.random() < 0.3:
        cluster.config.preemption_config = PreemptionConfig(True, True, True, True)
    if rng.random() < 0.3:
        cluster.config.scheduler_algorithm = "spread"
    versions = _versions(rng, kind)
    for job in versions:
        cluster.jobs[job.namespace, job.id, job.version] = job
    for deployment in _deployments(rng, versions) if kind in ("service", "system") else ():
        cluster.deployment_table[deployment.id] = deployment
    _neighbours(rng, cluster)
    _history(rng, cluster, versions)
    evaluation = Evaluation(
        id="eval",
        type=kind,
        job_id=JOB_ID,
        priority=50,
        triggered_by=rng.choice(["job-register", "node-update", "node-drain", "reconnect"]),
    )
    return RandomCase(cluster, evaluation)


def _node(rng: random.Random, number: int) -> Node:
    node = make_network_node(
        number,
        cpu_shares=rng.choice([1000, 2000, 4000]),
        memory_mb=rng.choice([2048, 4096]),
    )
    node.attributes["nomad.version"] = "2.0.0"
    node.datacenter = rng.choice(["dc1", "dc1", "dc1", "dc2"])
    node.node_pool = rng.choice(["default", "default", "default", "gpu"])
    node.meta = {"rack": rng.choice(["r1", "r2"])} if rng.random() < 0.9 else {}
    node.computed_class = f"class-{node.datacenter}-{node.node_pool}-{node.meta.get('rack')}"
    node.status = rng.choice(["ready"] * 6 + ["down", "disconnected", "initializing"])
    if node.status == "ready" and rng.random() < 0.15:
        node.scheduling_eligibility = "ineligible"
    if node.status == "ready" and rng.random() < 0.1:
        node.drain_strategy = DrainStrategy()
    return node


def _versions(rng: random.Random, kind: str) -> list[Job]:
    names = rng.choice([["web"], ["web"], ["web", "db"]])
    job = plain_job(id=JOB_ID, type=kind, task_groups=[_group(rng, kind, name) for name in names])
    job = replace(job, priority=50, create_index=10, modify_index=10, job_modify_index=10)
    job.datacenters = rng.choice([["*"], ["dc1"]])
    versions = [job]
    for number in range(1, rng.choice([1, 2, 2, 3])):
        changed = _changed(rng, versions[-1])
        versions.append(replace(changed, version=number, job_modify_index=10 + number))
    return versions


def _group(rng: random.Random, kind: str, name: str) -> TaskGroup:
    is_system = kind in ("system", "sysbatch")
    group = make_group(
        name=name,
        count=rng.choice([1, 1, 2]) if is_system else rng.randint(1, 4),
        tasks=[make_task(resources=Resources(cpu=_CPU, memory_mb=_MEMORY_MB))],
        update=None,
    )
    if kind in ("service", "system") and rng.random() < 0.6:
        group.update = UpdateStrategy(
            max_parallel=rng.randint(1, 3), canary=rng.choice([0, 0, 1, 2 if not is_system else 50])
        )
    if rng.random() < 0.4:
        group.disconnect = DisconnectStrategy(
            lost_after_ns=rng.choice([0, 300, 3600]) * NS_PER_S,
            replace=rng.random() < 0.7,
            reconcile=rng.choice(
                ["best_score", "keep_original", "keep_replacement", "longest_running"]
            ),
        )
    group.reschedule_policy = rng.choice(
        [
            ReschedulePolicy(delay_ns=30 * NS_PER_S, unlimited=True),
            ReschedulePolicy(delay_ns=0, unlimited=True),
            ReschedulePolicy(attempts=1, interval_ns=3600 * NS_PER_S, delay_ns=5 * NS_PER_S),
            ReschedulePolicy(attempts=0, unlimited=False),
        ]
    )
    if rng.random() < 0.15:
        group.constraints = [
            Constraint(operand="distinct_property", l_target="${meta.rack}", r_target="2")
        ]
    return group


def _changed(rng: random.Random, old: Job) -> Job:
    """A new version: nothing, the count, a group less, what is updated in place, what is not."""
    groups = [replace(group) for group in old.task_groups]
    chosen = rng.choice(groups)
    match rng.choice(["nothing", "count", "count", "zero", "drop", "place", "env", "env"]):
        case "count":
            chosen.count = rng.randint(1, 4)
        case "zero":
            chosen.count = 0
        case "drop" if len(groups) > 1:
            groups.remove(chosen)
        case "place":
            chosen.restart_policy = replace(chosen.restart_policy, attempts=rng.randint(5, 50))
        case "env":
            chosen.tasks = [replace(chosen.tasks[0], env={"REV": str(rng.random())})]
    return replace(old, task_groups=groups)


def _deployments(rng: random.Random, versions: list[Job]) -> list[Deployment]:
    found = []
    for job in versions:
        if rng.random() < 0.5:
            continue
        is_last = job is versions[-1]
        states = {}
        for group in job.task_groups:
            if group.update is None:
                continue
            canaries = group.update.canary if is_last and job.type == "service" else 0
            states[group.name] = DeploymentState(
                desired_total=group.count,
                desired_canaries=canaries,
                promoted=bool(canaries) and rng.random() < 0.4,
                progress_deadline_ns=600 * NS_PER_S,
            )
        status = rng.choice(
            ["running", "running", "paused", "failed", "cancelled", "successful"]
            if is_last
            else ["successful", "failed", "cancelled"]
        )
        found.append(
            Deployment(
                id=f"deployment-{job.version}",
                job_id=JOB_ID,
                job_version=job.version,
                job_create_index=job.create_index,
                status=status,
                task_groups=states,
                create_index=100 + job.version,
            )
        )
    return found


def _neighbours(rng: random.Random, cluster: ListCluster) -> None:
    """What else runs there, of lower priority."""
    other = plain_job(id="other", priority=20)
    cluster.jobs["default", "other", 0] = replace(other, create_index=5, job_modify_index=5)
    for number, node in enumerate(cluster.nodes.values()):
        if rng.random() < 0.4 and _has_room(cluster, node):
            cluster.allocs[f"other-{number}"] = Allocation(
                id=f"other-{number}",
                name=alloc_name("other", "web", number),
                node_id=node.id,
                job_id="other",
                task_group="web",
                client_status="running",
                create_index=6,
                allocated_resources=make_resources(_CPU, _MEMORY_MB, _DISK_MB),
            )


def _has_room(cluster: ListCluster, node: Node) -> bool:
    held = [a for a in cluster.allocs.values() if a.node_id == node.id and not a.is_client_terminal]
    return (len(held) + 1) * _CPU <= node.node_resources.cpu.cpu_shares


def _history(rng: random.Random, cluster: ListCluster, versions: list[Job]) -> None:
    """Allocations of all versions; those of one name and node are not made twice."""
    is_system = versions[0].type in ("system", "sysbatch")
    nodes = list(cluster.nodes.values())
    taken: set[tuple[str, str, int]] = set()
    for number in range(rng.randint(0, 8)):
        job, node = rng.choice(versions), rng.choice(nodes)
        group = rng.choice(job.task_groups)
        index = rng.randrange(group.count or 1) if is_system else rng.randrange(5)
        slot = (node.id if is_system else "", group.name, index)
        if slot in taken or not _has_room(cluster, node):
            continue
        taken.add(slot)
        allocation = Allocation(
            id=f"alloc-{number}",
            name=alloc_name(JOB_ID, group.name, index),
            node_id=node.id,
            node_name=node.name,
            job_id=JOB_ID,
            job_version=job.version,
            task_group=group.name,
            allocated_resources=make_resources(_CPU, _MEMORY_MB, _DISK_MB),
            create_index=200 + number,
            create_time_ns=NOW_NS - 3600 * NS_PER_S,
            modify_time_ns=NOW_NS - 600 * NS_PER_S,
        )
        cluster.allocs[allocation.id] = _in_some_state(rng, allocation, node, cluster)


def _in_some_state(
    rng: random.Random, allocation: Allocation, node: Node, cluster: ListCluster
) -> Allocation:
    status = rng.choice(["running"] * 6 + ["pending", "failed", "failed", "complete", "lost"])
    away_s = rng.choice([30, 240, 600])
    states = None
    if rng.random() < 0.15 or (node.status == "disconnected" and rng.random() < 0.5):
        moment = datetime_of_ns(NOW_NS - away_s * NS_PER_S)
        states = [AllocState(value="unknown", time=moment)]
        status = rng.choice(["unknown", "running", "failed"])
    task = None
    if status in ("failed", "complete"):
        ended = datetime_of_ns(NOW_NS - rng.choice([3, 60, 900]) * NS_PER_S)
        failed = status == "failed"
        task = {"web": TaskState(state="dead", failed=failed, finished_at=ended)}
    transition = DesiredTransition()
    if status in ("running", "pending") and rng.random() < 0.12:
        transition = DesiredTransition(migrate=True, reschedule=rng.random() < 0.3 or None)
    deployment_id, health = "", None
    deployment = cluster.deployment_table.get(f"deployment-{allocation.job_version}")
    if deployment is not None and rng.random() < 0.7:
        deployment_id = deployment.id
        health = AllocDeploymentStatus(healthy=rng.choice([True, True, True, False, None]))
    return replace(
        allocation,
        client_status=status,
        desired_status=rng.choice(["run"] * 7 + ["stop"] + ["evict"] * (rng.random() < 0.3)),
        alloc_states=states,
        task_states=task,
        desired_transition=transition,
        deployment_id=deployment_id,
        deployment_status=health,
    )
