"""Scheduling scenarios as text: reads them and plays them through the real scheduler.

The notation is explained in `tests/scenarios/scheduler/README.md`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from msgspec.structs import replace

from jobspec.canonicalize import to_job
from jobspec.parse import parse_job
from orchgit.ids import SequentialIds
from orchgit.model.allocation import (
    Allocation,
    AllocDeploymentStatus,
    DesiredTransition,
    TaskState,
)
from orchgit.model.base import NS_PER_S, datetime_of_ns
from orchgit.model.deployment import Deployment
from orchgit.model.evaluation import EvalTrigger, Evaluation
from orchgit.model.job import Job
from orchgit.model.node import ClientHostVolume, DrainStrategy, Node
from orchgit.model.operator import PreemptionConfig
from orchgit.model.plan import PlanResult
from orchgit.model.volume import HostVolume, VolumeCapability
from orchgit.scheduler.outcome import SchedulingOutcome
from orchgit.scheduler.schedule import schedule
from tests.support.cluster import ListCluster
from tests.support.factories import NOW_NS, make_allocation, make_evaluation, make_resources
from tests.support.factories import make_task as default_task
from tests.support.scheduling import make_network_node

_SECTIONS = ("cluster", "job", "other job", "running", "event", "expect")
_DURATION = re.compile(r"(\d+)(s|m|h)")
_SECONDS = {"s": 1, "m": 60, "h": 3600}
_RANGE = re.compile(r"([\w.-]*?)(\d+)\.\.(?:[\w.-]*?)(\d+)")
_ALLOCATION = re.compile(r"(?:([\w-]+):)?([\w-]+)\[(\d+)\]")
_NODE_EVENTS = {
    "goes down": {"status": "down"},
    "disconnects": {"status": "disconnected"},
    "comes back": {"status": "ready"},
    "becomes ineligible": {"scheduling_eligibility": "ineligible"},
    "becomes eligible": {"scheduling_eligibility": "eligible"},
}


class ScenarioError(Exception):
    """The text is not a scenario; says which line and why."""


@dataclass(slots=True)
class Section:
    name: str
    line: int
    lines: list[str] = field(default_factory=list)


def read_sections(text: str) -> list[Section]:
    """A section begins with its name at the start of a line; what is indented belongs to it."""
    sections: list[Section] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        if not line.startswith(" "):
            if line.strip() not in _SECTIONS:
                raise ScenarioError(f"line {number}: a section is one of {', '.join(_SECTIONS)}")
            sections.append(Section(line.strip(), number))
        elif not sections:
            raise ScenarioError(f"line {number}: this line is in no section")
        else:
            sections[-1].lines.append(line)
    return sections


def differences(text: str, seed: int) -> list[str]:
    """Where the scheduler decides otherwise than the text expects; empty: nowhere."""
    found = []
    for section, decided in Story(seed).play(read_sections(text)):
        missing, extra = compare([line.strip() for line in section.lines], decided)
        found += [f"line {section.line}: expected, not decided: {line}" for line in missing]
        found += [f"line {section.line}: decided, not expected: {line}" for line in extra]
    return found


def compare(expected: list[str], decided: list[str]) -> tuple[list[str], list[str]]:
    """(expected and not decided, decided and not expected); `any` stands for each node."""
    missing, extra = [], list(decided)
    lines = [one for line in expected for one in _expanded(line)]
    for line in sorted(lines, key=lambda line: line.split().count("any")):
        pattern = re.escape(line).replace(r"\ any", r" \S+")
        match = next((one for one in extra if re.fullmatch(pattern, one)), None)
        if match is None:
            missing.append(line)
        else:
            extra.remove(match)
    return missing, extra


def rewritten(text: str) -> str:
    """The text with what the scheduler decides as what it expects."""
    decided = {section.line: lines for section, lines in Story(1).play(read_sections(text))}
    out: list[str] = []
    skips = False
    for number, line in enumerate(text.splitlines(), start=1):
        if number in decided:
            out += [line, *(f"  {one}" for one in decided[number])]
            skips = True
        elif not skips or not line.startswith(" "):
            skips = False
            out.append(line)
    return "\n".join(out) + "\n"


def _expanded(line: str) -> Iterator[str]:
    """`app[0..2] on n1..n3` is three lines; ranges of one line have equal lengths."""
    found = _RANGE.search(line)
    if found is None:
        yield line
        return
    length = int(found[3]) - int(found[2])
    for step in range(length + 1):
        yield _RANGE.sub(lambda each, step=step: f"{each[1]}{int(each[2]) + step}", line)


def _duration_ns(text: str) -> int:
    parts = _DURATION.findall(text)
    if not parts:
        raise ScenarioError(f"{text!r} is no duration such as 30s, 5m or 1h")
    return sum(int(number) * _SECONDS[unit] for number, unit in parts) * NS_PER_S


def _duration_text(ns: int) -> str:
    seconds = round(ns / NS_PER_S)
    for unit, size in (("h", 3600), ("m", 60)):
        if seconds and seconds % size == 0:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


class Story:
    """A cluster, a job in it, and what happens to them, event by event."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._cluster = ListCluster(NOW_NS)
        self._ids = SequentialIds()
        self._job_id = ""
        self._followups: list[Evaluation] = []
        self._trigger = EvalTrigger.JOB_REGISTER
        self._evaluations = 0
        self._nodes = 0

    def play(self, sections: list[Section]) -> Iterator[tuple[Section, list[str]]]:
        """Yields each `expect` section with what the scheduler decided there."""
        for section in sections:
            try:
                if section.name == "expect":
                    yield section, self._decide()
                elif section.name in ("job", "other job"):
                    self._register("\n".join(section.lines), section.name == "other job")
                else:
                    read = {"cluster": self._set_up, "running": self._run, "event": self._happen}
                    for line in section.lines:
                        for one in _expanded(line.strip()):
                            read[section.name](one)
            except ScenarioError as error:
                raise ScenarioError(f"{section.name}, line {section.line}: {error}") from error

    # -- cluster -----------------------------------------------------------------------------

    def _set_up(self, line: str) -> None:
        words = line.split()
        if words[0] == "node":
            self._add_node(words[1], words[2:])
        elif words[0] == "preemption":
            kinds = {f"{kind}_scheduler_enabled": True for kind in words[1:]}
            self._cluster.config.preemption_config = PreemptionConfig(**kinds)
        elif words[0] == "algorithm":
            self._cluster.config.scheduler_algorithm = words[1]
        else:
            raise ScenarioError(f"{line!r} is not a node, preemption or algorithm")

    def _add_node(self, name: str, settings: list[str]) -> None:
        sizes = {"cpu": "cpu_shares", "memory": "memory_mb", "disk": "disk_mb"}
        pairs = [setting.split("=", 1) for setting in settings]
        fields = {sizes[key]: int(value) for key, value in pairs if key in sizes}
        node = make_network_node(self._nodes, **fields)
        self._nodes += 1
        node.id = node.name = node.attributes["unique.hostname"] = name
        for key, value in pairs:
            if key in ("datacenter", "node_pool", "node_class"):
                setattr(node, key, value)
            elif key.startswith("meta."):
                node.meta[key.removeprefix("meta.")] = value
            elif key.startswith("attr."):
                node.attributes[key.removeprefix("attr.")] = value
            elif key == "volume":
                self._add_volume(node, value)
            elif key not in sizes:
                raise ScenarioError(f"a node has no {key!r}")
        # Nodes of one class are alike: a node that says more is of a class of its own.
        node.computed_class = "v1:" + " ".join(sorted(settings))
        self._cluster.nodes[name] = node
        self._cluster.changed()

    def _add_volume(self, node: Node, name: str) -> None:
        modes = ("single-node-writer", "single-node-reader-only", "single-node-single-writer")
        volume = HostVolume(
            id=f"{name}@{node.id}",
            name=name,
            node_id=node.id,
            state="ready",
            requested_capabilities=[
                VolumeCapability(access_mode=mode, attachment_mode="file-system") for mode in modes
            ],
        )
        self._cluster.volumes[volume.id] = volume
        node.host_volumes = {**node.host_volumes, name: ClientHostVolume(name=name, id=volume.id)}

    # -- jobs --------------------------------------------------------------------------------

    def _register(self, text: str, is_other: bool) -> None:
        """A group without a task gets one of 100 MHz and 64 MB; the datacenter is any."""
        spec = parse_job(text.encode(), filename="scenario").spec
        spec["Datacenters"] = spec.get("Datacenters") or ["*"]
        job = to_job(spec)
        for group in job.task_groups:
            group.tasks = group.tasks or [default_task()]
        known = self._cluster.job("default", job.id)
        job.version = known.version + 1 if known is not None else 0
        job.create_index = known.create_index if known is not None else 10
        job.modify_index = job.job_modify_index = self._cluster.index + job.version
        self._cluster.jobs["default", job.id, job.version] = job
        if not is_other:
            self._job_id = job.id
            self._trigger = EvalTrigger.JOB_REGISTER

    @property
    def _job(self) -> Job:
        job = self._cluster.job("default", self._job_id)
        if job is None:
            raise ScenarioError("a section `job` comes before this one")
        return job

    def _run(self, line: str) -> None:
        """`app[0] on n1`: an allocation that runs."""
        found = re.fullmatch(rf"({_ALLOCATION.pattern}) on (\S+)", line)
        if found is None:
            raise ScenarioError(f"{line!r} is not of the form `app[0] on n1`")
        _, other, group_name, index, node_name = found.groups()
        job = self._cluster.job("default", other or self._job_id)
        group = job.group(group_name) if job is not None else None
        if job is None or group is None or node_name not in self._cluster.nodes:
            raise ScenarioError(f"{line!r} names a job, group or node that there is not")
        total = sum(task.resources.cpu for task in group.tasks)
        memory = sum(task.resources.memory_mb for task in group.tasks)
        disk = group.ephemeral_disk.size_mb
        allocation = make_allocation(
            job,
            self._cluster.nodes[node_name],
            id=f"{job.id}-{group_name}-{index}-{node_name}",
            name=f"{job.id}.{group_name}[{index}]",
            task_group=group_name,
            client_status="running",
            allocated_resources=make_resources(total, memory, disk, group.tasks[0].name),
            create_index=100 + len(self._cluster.allocs),
        )
        self._cluster.allocs[allocation.id] = allocation
        self._cluster.changed()

    # -- events ------------------------------------------------------------------------------

    def _happen(self, line: str) -> None:
        words = line.split()
        if words[0] == "node":
            self._node_event(words[1], " ".join(words[2:]))
        elif words[-1] == "pass":
            self._cluster.now_ns += _duration_ns(words[0])
            self._trigger = EvalTrigger.ALLOC_RESCHEDULE
        elif line.startswith("the deployment "):
            self._deployment_event(words[-1])
        elif line == "the job is registered":
            self._trigger = EvalTrigger.JOB_REGISTER
        elif line == "the job is stopped":
            job = self._job
            self._cluster.jobs["default", job.id, job.version] = replace(job, stop=True)
            self._trigger = EvalTrigger.JOB_DEREGISTER
        elif found := re.fullmatch(rf"({_ALLOCATION.pattern}) (.+)", line):
            self._allocation_event(self._find(found[1]), found[5])
        else:
            raise ScenarioError(f"{line!r} is no event")
        self._cluster.changed()

    def _node_event(self, name: str, what: str) -> None:
        nodes = self._cluster.nodes
        self._trigger = EvalTrigger.NODE_UPDATE
        if what.startswith("joins"):
            self._add_node(name, what.split()[1:])
        elif what == "is drained":
            nodes[name] = replace(
                nodes[name], drain_strategy=DrainStrategy(), scheduling_eligibility="ineligible"
            )
            for allocation in self._cluster.allocations_on_node(name):
                self._change(allocation, desired_transition=DesiredTransition(migrate=True))
            self._trigger = EvalTrigger.NODE_DRAIN
        elif what in _NODE_EVENTS:
            if what == "comes back":
                self._trigger = EvalTrigger.RECONNECT
                for allocation in self._cluster.allocations_on_node(name):
                    self._change(allocation, client_status="running")
            nodes[name] = replace(nodes[name], **_NODE_EVENTS[what])
        else:
            raise ScenarioError(f"a node does not do: {what}")

    def _allocation_event(self, allocation: Allocation, what: str) -> None:
        now = datetime_of_ns(self._cluster.now_ns)
        if what in ("fails", "completes"):
            failed = what == "fails"
            group = self._job.group(allocation.task_group)
            states = {
                task.name: TaskState(state="dead", failed=failed, finished_at=now)
                for task in (group.tasks if group is not None else ())
            }
            status = "failed" if failed else "complete"
            self._change(allocation, client_status=status, task_states=states)
            if failed:
                self._trigger = EvalTrigger.RETRY_FAILED_ALLOC
        elif what in ("becomes healthy", "becomes unhealthy"):
            known = allocation.deployment_status or AllocDeploymentStatus()
            healthy = what == "becomes healthy"
            self._change(allocation, deployment_status=replace(known, healthy=healthy))
            deployment = self._deployment
            progress = deployment.task_groups[allocation.task_group]
            progress.healthy_allocs += healthy
            progress.unhealthy_allocs += not healthy
            self._trigger = EvalTrigger.DEPLOYMENT_WATCHER
        else:
            raise ScenarioError(f"an allocation does not do: {what}")

    def _deployment_event(self, what: str) -> None:
        deployment = self._deployment
        if what == "promoted":
            for progress in deployment.task_groups.values():
                progress.promoted = True
        elif what == "fails":
            self._cluster.deployment_table[deployment.id] = replace(deployment, status="failed")
        elif what == "paused":
            self._cluster.deployment_table[deployment.id] = replace(deployment, status="paused")
        else:
            raise ScenarioError(f"a deployment does not do: {what}")
        self._trigger = EvalTrigger.DEPLOYMENT_WATCHER

    @property
    def _deployment(self) -> Deployment:
        deployment = self._cluster.latest_deployment("default", self._job_id)
        if deployment is None:
            raise ScenarioError("the job has no deployment")
        return deployment

    def _find(self, text: str) -> Allocation:
        """The newest allocation of this name."""
        found = _ALLOCATION.fullmatch(text)
        assert found is not None, "the caller matched it"
        job_id, group, index = found[1] or self._job_id, found[2], found[3]
        name = f"{job_id}.{group}[{index}]"
        named = [a for a in self._cluster.allocs.values() if a.name == name]
        if not named:
            raise ScenarioError(f"there is no allocation {text}")
        return max(named, key=lambda a: a.create_index)

    def _change(self, allocation: Allocation, **fields: object) -> None:
        self._cluster.allocs[allocation.id] = replace(allocation, **fields)

    # -- decisions ---------------------------------------------------------------------------

    def _decide(self) -> list[str]:
        """One evaluation: its plan is committed; what it places runs, what it stops has ended."""
        evaluation = self._evaluation()
        cluster = self._cluster
        before = dict(cluster.allocs)
        outcome = schedule(evaluation, cluster, cluster.now_ns, self._seed, self._ids)
        self._followups += outcome.followups
        lines = [*_Decision(outcome, self, before).lines()]
        plan = outcome.plan
        if plan is not None:
            cluster.apply(
                PlanResult(
                    stops=plan.stops,
                    placements=plan.placements,
                    updates=plan.updates,
                    preemptions=plan.preemptions,
                    claims=plan.claims,
                    deployment=plan.deployment,
                    deployment_updates=plan.deployment_updates,
                )
            )
        for allocation in list(cluster.allocs.values()):
            node = cluster.nodes.get(allocation.node_id)
            is_away = node is not None and node.status in ("down", "disconnected")
            if allocation.is_server_terminal and not allocation.is_client_terminal and not is_away:
                self._change(allocation, client_status="complete")
            elif allocation.client_status == "pending":
                self._change(allocation, client_status="running")
        cluster.changed()
        return lines or ["nothing"]

    def _evaluation(self) -> Evaluation:
        """A follow-up that is due, or one for what has happened."""
        due = [e for e in self._followups if e.wait_until <= self._cluster.now_ns]
        if due and self._trigger == EvalTrigger.ALLOC_RESCHEDULE:
            self._followups.remove(due[0])
            return due[0]
        self._evaluations += 1
        evaluation = make_evaluation(self._job, id=f"evaluation-{self._evaluations}")
        return replace(evaluation, type=self._job.type, triggered_by=self._trigger)

    @property
    def cluster(self) -> ListCluster:
        return self._cluster

    def short_name(self, allocation_name: str) -> str:
        job_id, _, rest = allocation_name.partition(".")
        return rest if job_id == self._job_id else f"{job_id}:{rest}"


class _Decision:
    """What an outcome comes to, in the words of the notation."""

    def __init__(
        self, outcome: SchedulingOutcome, story: Story, before: dict[str, Allocation]
    ) -> None:
        self._outcome = outcome
        self._story = story
        self._before = before

    def lines(self) -> Iterator[str]:
        evaluation = self._outcome.evaluation
        if evaluation.status == "failed":
            yield f"fail: {evaluation.status_description}"
        if self._outcome.plan is not None:
            yield from self._deployments()
            yield from self._stops()
            yield from self._updates()
            yield from self._placements()
        yield from self._later()
        yield from self._unplaced()

    def _named(self, alloc_id: str) -> str:
        allocation = self._before[alloc_id]
        return f"{self._story.short_name(allocation.name)} on {allocation.node_id}"

    def _deployments(self) -> Iterator[str]:
        plan = self._outcome.plan
        assert plan is not None, "the caller checks it"
        known = self._story.cluster.deployment_table
        if plan.deployment is not None and plan.deployment.id not in known:
            yield f"start deployment: {plan.deployment.status_description}"
        for update in plan.deployment_updates:
            if plan.deployment is None or update.deployment_id in known:
                yield f"deployment {update.status}: {update.status_description}"

    def _stops(self) -> Iterator[str]:
        plan = self._outcome.plan
        assert plan is not None, "the caller checks it"
        for stop in plan.stops:
            verb = "lose" if stop.client_status == "lost" else "stop"
            why = f": {stop.desired_description}" if stop.desired_description else ""
            yield f"{verb} {self._named(stop.alloc_id)}{why}"
        for preemption in plan.preemptions:
            yield f"evict {self._named(preemption.alloc_id)}"

    def _updates(self) -> Iterator[str]:
        plan = self._outcome.plan
        assert plan is not None, "the caller checks it"
        for update in plan.updates:
            name = self._named(update.alloc_id)
            if update.job_version is not None:
                yield f"update {name} in place"
            elif update.record_client_status:
                yield f"mark {name} {update.record_client_status}"

    def _placements(self) -> Iterator[str]:
        plan = self._outcome.plan
        assert plan is not None, "the caller checks it"
        for columns in plan.placements:
            newest = self._story.cluster.job("default", columns.job_id)
            old = newest is not None and newest.version != columns.job_version
            for row, node_id in enumerate(columns.node_ids):
                index = columns.name_indexes[row]
                canary = "canary " if row in columns.canary_rows else ""
                version = f" of version {columns.job_version}" if old else ""
                yield f"place {canary}{columns.task_group}[{index}] on {node_id}{version}"
        for claim in plan.claims:
            node_id = self._story.cluster.volumes[claim.volume_id].node_id
            yield f"claim volume {claim.volume_name} of {node_id}"

    def _later(self) -> Iterator[str]:
        for followup in self._outcome.followups:
            wait_ns = followup.wait_until - self._story.cluster.now_ns
            yield f"look again in {_duration_text(wait_ns)}"

    def _unplaced(self) -> Iterator[str]:
        evaluation = self._outcome.evaluation
        queued = evaluation.queued_allocations or {}
        for group, metric in (evaluation.failed_tg_allocs or {}).items():
            reasons = [
                *(f"{n} x {name}" for name, n in (metric.constraint_filtered or {}).items()),
                *(f"{n} x no {name}" for name, n in (metric.dimension_exhausted or {}).items()),
            ]
            why = "; ".join(sorted(reasons)) or "no node"
            yield f"no place for {queued.get(group, 0)} of {group}: {why}"
        if self._outcome.blocked is not None:
            yield "wait for room"
