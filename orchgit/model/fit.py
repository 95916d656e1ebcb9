"""The answer to "will it fit?": what the scheduler would do with all jobs of a change at once."""

from __future__ import annotations

from msgspec import field

from orchgit.model.base import Model


class RuledOut(Model):
    """Why `nodes` nodes take no allocation of a group, such as `memory exhausted`."""

    reason: str = ""
    nodes: int = 0

    @property
    def text(self) -> str:
        if not self.nodes:
            return self.reason
        return f"{self.reason} on {self.nodes} node{'s' * (self.nodes != 1)}"


class GroupFit(Model):
    """What becomes of one group, in numbers of allocations.

    The scheduler wants `wanted` new allocations: `placed` ones get a node beside what runs,
    `replaced` ones get a node in place of an allocation that is stopped, `blocked` ones find no
    node. `updated` are changed in place, `stopped` end without a successor, `kept` stay as they
    are. `preempted` are allocations of other jobs that end to make room.

    The numbers are those of the whole change. An update that goes step by step begins with `first`
    new allocations, of which `canaries` are canaries; `first_blocked` more find no node while the
    old ones run, which may hold the update up for good.
    """

    name: str = ""
    placed: int = 0
    replaced: int = 0
    blocked: int = 0
    updated: int = 0
    stopped: int = 0
    kept: int = 0
    preempted: int = 0
    first: int = 0
    canaries: int = 0
    first_blocked: int = 0
    no_node_qualifies: bool = False
    """For a system job: the group is to run on no node at all."""
    ruled_out: list[RuledOut] = []
    """Why nodes take none of what is blocked, the reason of most nodes first."""

    @property
    def wanted(self) -> int:
        return self.placed + self.replaced + self.blocked

    @property
    def fits(self) -> bool:
        return not (self.blocked or self.first_blocked or self.no_node_qualifies)


class JobFit(Model):
    """What becomes of one job. `launch_only`: a periodic or parameterized job, which runs nothing
    when it is registered; the groups are those of one launch, and do not count for `FitReport`."""

    namespace: str = "default"
    job_id: str = ""
    groups: list[GroupFit] = []
    launch_only: bool = False

    @property
    def fits(self) -> bool:
        return self.launch_only or all(group.fits for group in self.groups)


class PreemptedAllocation(Model):
    """An allocation that ends to make room for `preempted_by`, the id of a job of the change."""

    alloc_id: str = ""
    namespace: str = ""
    job_id: str = ""
    task_group: str = ""
    node_id: str = ""
    preempted_by: str = ""


class Room(Model):
    """An amount of each resource: cpu in MHz shares, memory and disk in MiB."""

    cpu: int = 0
    memory_mb: int = 0
    disk_mb: int = 0


class Capacity(Model):
    """The room on the ready nodes of one node pool in one datacenter: all of it, and what is free
    before and after the change. `largest_free` is the most that one node has free after it, each
    resource by itself."""

    node_pool: str = ""
    datacenter: str = ""
    nodes: int = 0
    total: Room = field(default_factory=Room)
    free_before: Room = field(default_factory=Room)
    free_after: Room = field(default_factory=Room)
    largest_free: Room = field(default_factory=Room)


class FitReport(Model):
    """What the scheduler would do with the jobs of one change, planned together on the state of
    `index`.

    `fits` is False if any allocation is blocked, if a job was not planned, and if the dry run
    failed (`error`). `not_planned` counts the jobs left out when the time for planning was over.
    """

    index: int = 0
    fits: bool = True
    error: str = ""
    jobs: list[JobFit] = []
    not_planned: int = 0
    preempted: list[PreemptedAllocation] = []
    capacity: list[Capacity] = []

    @property
    def by_key(self) -> dict[tuple[str, str], JobFit]:
        """(namespace, job id) -> the job."""
        return {(job.namespace, job.job_id): job for job in self.jobs}

    @property
    def groups(self) -> list[GroupFit]:
        """The groups of all jobs that run something when they are registered."""
        return [group for job in self.jobs if not job.launch_only for group in job.groups]

    @property
    def blocked(self) -> int:
        """How many allocations find no node, at the end or in a first step."""
        return sum(group.blocked + group.first_blocked for group in self.groups)


def fit_report(
    index: int,
    jobs: list[JobFit],
    not_planned: int = 0,
    preempted: list[PreemptedAllocation] | None = None,
    capacity: list[Capacity] | None = None,
) -> FitReport:
    """Returns the report of a dry run; `fits` follows from the rest."""
    return FitReport(
        index=index,
        fits=not not_planned and all(job.fits for job in jobs),
        jobs=jobs,
        not_planned=not_planned,
        preempted=preempted or [],
        capacity=capacity or [],
    )


def failed_fit_report(error: str) -> FitReport:
    """Returns the report of a dry run that failed, for the reason `error`."""
    return FitReport(fits=False, error=error)
