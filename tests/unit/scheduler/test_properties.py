"""What must hold of every plan, over random clusters and histories."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from dataclasses import dataclass, field

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from orchgit.control.plans.check import examine_plan
from orchgit.ids import SequentialIds
from orchgit.model.allocation import Allocation, AllocDeploymentStatus
from orchgit.model.base import NS_PER_S
from orchgit.model.constraint import Affinity, Constraint, Spread, SpreadTarget
from orchgit.model.evaluation import EvalStatus, Evaluation
from orchgit.model.group import DisconnectStrategy, ReschedulePolicy, TaskGroup, UpdateStrategy
from orchgit.model.job import Job
from orchgit.model.node import (
    ClientHostVolume,
    DrainStrategy,
    Node,
    NodeDevice,
    NodeDeviceInstance,
)
from orchgit.model.operator import PreemptionConfig
from orchgit.model.resources import NetworkResource, Port, RequestedDevice, Resources
from orchgit.model.volume import HostVolume, VolumeCapability, VolumeRequest
from orchgit.scheduler.outcome import SchedulingOutcome
from orchgit.scheduler.placement.fit import SINGLE_WRITER
from orchgit.scheduler.placement.networks import ports_of
from orchgit.scheduler.schedule import schedule
from tests.support.cluster import ListCluster
from tests.support.factories import NOW_NS, make_group, make_task
from tests.support.factories import make_job as plain_job
from tests.support.scheduling import make_network_node

_RACKS = ("r1", "r2", "r3")


@dataclass
class World:
    """A cluster, the jobs in it, and how it is changed."""

    cluster: ListCluster
    seed: int
    ids: SequentialIds = field(default_factory=SequentialIds)
    evaluations: int = 0

    def evaluate(self, job: Job, trigger: str = "job-register") -> SchedulingOutcome:
        """One evaluation of the job, its plan checked and committed."""
        self.evaluations += 1
        evaluation = Evaluation(
            id=f"e{self.evaluations}",
            type=job.type,
            job_id=job.id,
            triggered_by=trigger,
            priority=job.priority,
        )
        before = self._serving(job)
        outcome = schedule(evaluation, self.cluster, self.cluster.now_ns, self.seed, self.ids)
        if outcome.plan is not None:
            checked = examine_plan(outcome.plan, self.cluster)
            assert not checked.reasons, "a lone scheduler's plan is always committed"
            self.cluster.apply(checked.result)
        queued = sum((outcome.evaluation.queued_allocations or {}).values())
        wanted = job.task_groups[0].count if job.type != "system" else 0
        assert self._serving(job) + queued >= min(before, wanted), "no plan takes what is needed"
        return outcome

    def _serving(self, job: Job) -> int:
        """How many of the job's allocations are on nodes that are up, and can be reached."""
        return sum(
            self.cluster.nodes[allocation.node_id].is_untainted
            for allocation in self.cluster.allocations_by_job(job.namespace, job.id)
            if not allocation.is_terminal and allocation.client_status != "unknown"
        )


def _node(draw: st.DrawFn, number: int) -> Node:
    node = make_network_node(
        number,
        cpu_shares=draw(st.sampled_from([1000, 2000, 4000])),
        memory_mb=draw(st.sampled_from([1024, 4096])),
    )
    node.datacenter = draw(st.sampled_from(["dc1", "dc2"]))
    node.meta = {"rack": draw(st.sampled_from(_RACKS))}
    node.computed_class = f"class-{node.meta['rack']}"
    node.node_resources.cpu.total_cpu_cores = 4
    node.node_resources.cpu.reservable_cpu_cores = [0, 1, 2, 3]
    instances = [NodeDeviceInstance(id=f"{node.id}-{slot}") for slot in range(2)]
    node.node_resources.devices = [NodeDevice("acme", "gpu", "one", instances)]
    return node


def _give_volume(cluster: ListCluster, node: Node) -> None:
    """A dynamic host volume that one allocation at a time may write to."""
    modes = [VolumeCapability(access_mode=SINGLE_WRITER, attachment_mode="file-system")]
    volume = HostVolume(
        id=f"v-{node.id}", name="data", node_id=node.id, state="ready", requested_capabilities=modes
    )
    cluster.volumes[volume.id] = volume
    node.host_volumes = {"data": ClientHostVolume(name="data", id=volume.id)}


def _ask_for_more(draw: st.DrawFn, group: TaskGroup) -> None:
    """Now and then something of which there are few."""
    resources = group.tasks[0].resources
    match draw(st.sampled_from([None, None, None, "cores", "gpu", "volume"])):
        case "cores":
            resources.cores = draw(st.integers(1, 2))
            resources.cpu = 0
        case "gpu":
            resources.devices = [RequestedDevice(name="gpu", count=draw(st.integers(1, 2)))]
        case "volume":
            request = VolumeRequest(
                name="d", type="host", source="data", access_mode=SINGLE_WRITER,
                attachment_mode="file-system",
            )  # fmt: skip
            group.volumes = {"d": request}


def _job(draw: st.DrawFn, number: int) -> Job:
    kind = draw(st.sampled_from(["service", "service", "batch", "system"]))
    group = make_group(
        count=1 if kind == "system" else draw(st.integers(0, 6)),
        tasks=[
            make_task(
                resources=Resources(
                    cpu=draw(st.sampled_from([100, 500, 900])),
                    memory_mb=draw(st.sampled_from([64, 512])),
                )
            )
        ],
    )
    if draw(st.booleans()):
        static = [Port(label="web", value=8080)] if draw(st.booleans()) else None
        group.networks = [
            NetworkResource(mode="host", dynamic_ports=[Port(label="d")], reserved_ports=static)
        ]
    _ask_for_more(draw, group)
    limit = draw(st.sampled_from(["none", "hosts", "racks"]))
    if limit == "hosts":
        group.constraints = [Constraint(operand="distinct_hosts", r_target="true")]
    elif limit == "racks":
        group.constraints = [
            Constraint(operand="distinct_property", l_target="${meta.rack}", r_target="2")
        ]
    if draw(st.booleans()):
        group.spreads = [
            Spread(
                attribute="${node.datacenter}",
                spread_target=draw(st.sampled_from([None, [SpreadTarget("dc1", 70)]])),
            )
        ]
    if draw(st.booleans()):
        group.affinities = [Affinity(l_target="${meta.rack}", r_target="r1", weight=-50)]
    if kind == "service" and draw(st.booleans()):
        group.update = UpdateStrategy(
            max_parallel=draw(st.integers(1, 3)), canary=draw(st.integers(0, 2))
        )
    if kind == "service" and draw(st.booleans()):
        group.disconnect = DisconnectStrategy(
            lost_after_ns=3600 * NS_PER_S,
            replace=draw(st.booleans()),
            reconcile=draw(
                st.sampled_from(
                    ["best_score", "keep_original", "keep_replacement", "longest_running"]
                )
            ),
        )
    group.reschedule_policy = ReschedulePolicy(delay_ns=draw(st.sampled_from([0, 30])) * NS_PER_S)
    priority = draw(st.sampled_from([30, 50, 70]))
    job = plain_job(id=f"job-{number}", type=kind, task_groups=[group], priority=priority)
    return replace(job, create_index=1, modify_index=1, job_modify_index=number + 1)


@st.composite
def worlds(draw: st.DrawFn) -> tuple[World, list[Job]]:
    cluster = ListCluster(NOW_NS)
    for number in range(draw(st.integers(1, 6))):
        node = _node(draw, number)
        if draw(st.booleans()):
            _give_volume(cluster, node)
        cluster.nodes[node.id] = node
    if draw(st.booleans()):
        cluster.config.preemption_config = PreemptionConfig(True, True, True, True)
    jobs = [_job(draw, number) for number in range(draw(st.integers(1, 3)))]
    for job in jobs:
        cluster.jobs[job.namespace, job.id, job.version] = job
    return World(cluster, draw(st.integers(0, 1000))), jobs


_EVENTS = st.lists(
    st.tuples(
        st.sampled_from(
            ["evaluate", "run", "fail", "finish", "down", "up", "disconnect", "drain", "change"]
        ),
        st.integers(0, 7),
    ),
    max_size=14,
)


def _happen(world: World, jobs: list[Job], event: str, number: int) -> None:
    """Something happens in the cluster; the jobs concerned are evaluated."""
    cluster = world.cluster
    allocs = sorted(cluster.allocs.values(), key=lambda a: a.id)
    node = list(cluster.nodes.values())[number % len(cluster.nodes)]
    if event == "run":
        for allocation in allocs:
            if allocation.client_status == "pending" and not allocation.is_terminal:
                cluster.allocs[allocation.id] = _running(allocation)
    elif event in ("fail", "finish") and allocs:
        chosen = allocs[number % len(allocs)]
        if chosen.client_status in ("pending", "running"):
            status = "failed" if event == "fail" else "complete"
            cluster.allocs[chosen.id] = replace(chosen, client_status=status)
    elif event in ("down", "up", "disconnect"):
        status = {"down": "down", "up": "ready", "disconnect": "disconnected"}[event]
        cluster.nodes[node.id] = replace(node, status=status, drain_strategy=None)
        if event == "up":
            _node_returns(cluster, node)
    elif event == "drain":
        cluster.nodes[node.id] = replace(node, drain_strategy=DrainStrategy())
        for allocation in allocs:
            if allocation.node_id == node.id and not allocation.is_terminal:
                transition = replace(allocation.desired_transition, migrate=True)
                cluster.allocs[allocation.id] = replace(allocation, desired_transition=transition)
    elif event == "change":
        _change_job(cluster, jobs, number)
    cluster.changed()
    for job in jobs:
        world.evaluate(job, "node-update")


def _running(allocation: Allocation) -> Allocation:
    status = allocation.deployment_status
    healthy = replace(status or AllocDeploymentStatus(), healthy=True)
    return replace(allocation, client_status="running", deployment_status=healthy)


def _node_returns(cluster: ListCluster, node: Node) -> None:
    """Its agent reports: what the servers stopped is over, what was unknown runs."""
    for allocation in list(cluster.allocs.values()):
        if allocation.node_id != node.id or allocation.is_client_terminal:
            continue
        if allocation.is_server_terminal:
            cluster.allocs[allocation.id] = replace(allocation, client_status="complete")
        elif allocation.client_status == "unknown":
            cluster.allocs[allocation.id] = replace(allocation, client_status="running")


def _change_job(cluster: ListCluster, jobs: list[Job], number: int) -> None:
    position = number % len(jobs)
    old = jobs[position]
    group = old.task_groups[0]
    task = replace(group.tasks[0], env={"VERSION": str(old.version + 1)})
    new = replace(
        old,
        version=old.version + 1,
        job_modify_index=old.job_modify_index + 100,
        task_groups=[replace(group, tasks=[task] if number % 2 else group.tasks)],
    )
    jobs[position] = new
    cluster.jobs[new.namespace, new.id, new.version] = new


def _check_nodes(cluster: ListCluster) -> None:
    """No node is over-committed, no port is given twice."""
    by_node: dict[str, list[Allocation]] = defaultdict(list)
    for allocation in cluster.allocs.values():
        if not allocation.is_terminal:
            by_node[allocation.node_id].append(allocation)
    for node_id, allocations in by_node.items():
        node = cluster.nodes[node_id]
        totals = [a.allocated_resources.total() for a in allocations if a.allocated_resources]
        assert sum(t.cpu_shares for t in totals) <= node.node_resources.cpu.cpu_shares
        assert sum(t.memory_mb for t in totals) <= node.node_resources.memory.memory_mb
        ports = Counter(
            port
            for a in allocations
            if a.allocated_resources
            for port in ports_of(a.allocated_resources)
        )
        assert all(count == 1 for count in ports.values()), ports
        _check_few(cluster, node, allocations)


def _check_few(cluster: ListCluster, node: Node, allocations: list[Allocation]) -> None:
    """No core, device instance or volume of one writer is given twice."""
    tasks = [
        task
        for a in allocations
        if a.allocated_resources
        for task in a.allocated_resources.tasks.values()
    ]
    cores = Counter(core for task in tasks for core in task.cpu.reserved_cores or ())
    assert max(cores.values(), default=0) <= 1, cores
    assert set(cores) <= {0, 1, 2, 3}
    instances = Counter(
        instance
        for task in tasks
        for device in task.devices or ()
        for instance in device.device_ids
    )
    assert max(instances.values(), default=0) <= 1, instances
    assert all(instance.startswith(node.id) for instance in instances)
    writers = [
        a
        for a in allocations
        if (job := cluster.job_version(a.namespace, a.job_id, a.job_version)) is not None
        and job.task_groups[0].volumes
    ]
    assert len(writers) <= 1, [a.name for a in writers]
    assert not writers or node.host_volumes, "its volume is there"


def _check_distinct(cluster: ListCluster, jobs: list[Job]) -> None:
    for job in jobs:
        for constraint in job.task_groups[0].constraints or ():
            live = [a for a in cluster.allocations_by_job("default", job.id) if not a.is_terminal]
            if constraint.operand == "distinct_hosts":
                assert max(Counter(a.node_id for a in live).values(), default=0) <= 1
            else:
                racks = Counter(cluster.nodes[a.node_id].meta["rack"] for a in live)
                assert max(racks.values(), default=0) <= 2


def _check_counts(cluster: ListCluster, jobs: list[Job]) -> None:
    """Never more than the count runs, canaries and unknown ones aside."""
    for job in jobs:
        group = job.task_groups[0]
        live = [
            a
            for a in cluster.allocations_by_job("default", job.id)
            if not a.is_terminal
            and a.client_status != "unknown"
            and not (a.deployment_status and a.deployment_status.canary)
        ]
        most = len(cluster.nodes) if job.type == "system" else group.count
        assert len(live) <= most, [(a.name, a.client_status, a.node_id) for a in live]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(start=worlds(), events=_EVENTS)
def test_plans_keep_the_rules_through_any_history(
    start: tuple[World, list[Job]], events: list[tuple[str, int]]
) -> None:
    world, jobs = start
    for event, number in [("evaluate", 0), *events]:
        _happen(world, jobs, event, number)
        _check_nodes(world.cluster)
        _check_distinct(world.cluster, jobs)
        _check_counts(world.cluster, jobs)


def _changes(outcome: SchedulingOutcome) -> list[object]:
    plan = outcome.plan
    assert plan is not None
    return [plan.stops, plan.updates, plan.placements, plan.deployment, plan.deployment_updates]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(start=worlds(), events=_EVENTS)
def test_plan_for_an_unchanged_world_is_empty(
    start: tuple[World, list[Job]], events: list[tuple[str, int]]
) -> None:
    world, jobs = start
    for event, number in [("evaluate", 0), *events]:
        _happen(world, jobs, event, number)
    for _ in range(3):
        for job in jobs:
            world.evaluate(job)
    for job in jobs:
        outcome = world.evaluate(job)
        assert outcome.plan is None, _changes(outcome)
        assert outcome.evaluation.status == EvalStatus.COMPLETE


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(start=worlds())
def test_counts_are_reached_or_explained(start: tuple[World, list[Job]]) -> None:
    world, jobs = start
    for job in jobs:
        outcome = world.evaluate(job)
        group = job.task_groups[0]
        live = [a for a in world.cluster.allocations_by_job("default", job.id) if not a.is_terminal]
        if job.type == "system":
            continue
        queued = (outcome.evaluation.queued_allocations or {}).get(group.name, 0)
        assert len(live) + queued == group.count
        assert bool(queued) == bool(outcome.evaluation.failed_tg_allocs)
        assert bool(queued) == (outcome.blocked is not None)
        assert sorted(a.name_index for a in live) == list(range(len(live)))


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(start=worlds(), seed=st.integers(0, 9))
def test_equal_input_gives_equal_plans(start: tuple[World, list[Job]], seed: int) -> None:
    world, jobs = start
    random.seed(seed)
    for job in jobs:
        evaluation = Evaluation(id="e", type=job.type, job_id=job.id, triggered_by="job-register")
        first = schedule(evaluation, world.cluster, NOW_NS, seed, SequentialIds())
        second = schedule(evaluation, world.cluster, NOW_NS, seed, SequentialIds())
        assert first.plan == second.plan
        assert first.evaluation == second.evaluation
