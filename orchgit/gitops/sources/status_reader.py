"""Reads what the health of a source follows from, on one snapshot."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from dataclasses import replace as with_fields

from msgspec.structs import replace

from orchgit.gitops.mirrors.rules import followed_ref
from orchgit.gitops.rollouts.health import ENDED, JobView, why_unplaced
from orchgit.gitops.sources.health import (
    MAX_REASONS_OF_A_STATUS,
    SourceView,
    judge_source,
)
from orchgit.gitops.sources.job_health import JobNow
from orchgit.model.allocation import ClientStatus
from orchgit.model.deployment import ACTIVE_DEPLOYMENT_STATUSES
from orchgit.model.drift import JobDrift
from orchgit.model.held_version import HeldVersion
from orchgit.model.job import JobType
from orchgit.model.rollout import Rollout
from orchgit.model.source import Source, SourceKind
from orchgit.model.source_health import SourceCheck, SourceHealth
from orchgit.services.gitops.held import kept_from_cluster
from orchgit.state.snapshot import Snapshot
from orchgit.state.tables.source_jobs import SourceJob

JobKey = tuple[str, str]
_WHOLE_TABLES = ("held_versions", "drifted_jobs")
"""Tables that change rarely, and whose rows vanish when all is well again."""
_TABLES = ("rollouts", "jobs", "allocations", "deployments", "evaluations", *_WHOLE_TABLES)


@dataclass(frozen=True, slots=True)
class SourceReport:
    """A source at one index: all its parts are read from one snapshot, but for what only the
    leader's memory has. `modify_index` is the newest change of what the health follows from."""

    source: Source
    health: SourceHealth
    check: SourceCheck
    modify_index: int


@dataclass(frozen=True, slots=True)
class _Facts:
    """What the state says of a source's jobs, as long as `_TABLES` are at `tables_index`."""

    tables_index: int
    active: Sequence[Rollout]
    jobs: Sequence[JobNow]
    held: Sequence[HeldVersion]
    drifted: Sequence[JobDrift]
    modify_index: int


class SourceStatusReader:
    """Reads the reports of sources, on any server and in any thread.

    `memory` returns how the rounds of a source go, as far as this server knows. What was read of a
    source is cached: all of it while no table changes, and what takes long to decode (the counts of
    its jobs, active rollouts) until the row changes.
    """

    def __init__(self, memory: Callable[[str], SourceCheck]) -> None:
        self._memory = memory
        self._cache: dict[str, _Facts] = {}

    def reports(self, snapshot: Snapshot) -> list[SourceReport]:
        """Returns the reports of all sources, by name."""
        sources = snapshot.sources.all()
        known = {source.name for source in sources}
        for name in [name for name in self._cache if name not in known]:
            self._cache.pop(name, None)
        return [self.report(snapshot, source) for source in sources]

    def report(self, snapshot: Snapshot, source: Source) -> SourceReport:
        """Returns the report of one source as the snapshot has it."""
        facts, check = self._facts(snapshot, source.name), self._check(snapshot, source)
        view = SourceView(
            source=source,
            check=check,
            active=facts.active,
            jobs=facts.jobs,
            held=facts.held,
            drifted=facts.drifted,
        )
        health, recorded = judge_source(view), snapshot.source_health.get(source.name)
        since_ns = 0
        if recorded is not None and recorded.status == health.status:
            since_ns = recorded.since_ns
        return SourceReport(
            source=replace(
                source, status=replace(source.status, last_checked_ns=check.last_check_ns)
            ),
            health=replace(health, since_ns=since_ns),
            check=check,
            modify_index=max(source.modify_index, facts.modify_index),
        )

    def _facts(self, snapshot: Snapshot, source: str) -> _Facts:
        tables_index = snapshot.table_indexes.newest(*_TABLES)
        cached = self._cache.get(source)
        if cached is not None and cached.tables_index == tables_index:
            return cached
        if cached is not None and cached.tables_index > tables_index:
            cached = None  # another state was restored: its indexes mean other rows
        known = {(each.id, each.modify_index): each for each in (cached.active if cached else ())}
        rollouts = (
            known.get(row) or snapshot.rollouts.get(row[0])
            for row in snapshot.rollouts.active_of_source(source)
        )
        active = [rollout for rollout in rollouts if rollout is not None]
        jobs = snapshot.source_jobs.of_source(source)
        facts = _Facts(
            tables_index=tables_index,
            active=active,
            jobs=_jobs_now(snapshot, jobs, active, cached.jobs if cached else ()),
            held=kept_from_cluster(snapshot, source),
            drifted=snapshot.drifted_jobs.all(source),
            modify_index=max(
                snapshot.rollouts.newest_change_of(source),
                snapshot.table_indexes.newest(*_WHOLE_TABLES),
                *(job.modify_index for job in jobs),
            ),
        )
        self._cache[source] = facts
        return facts

    def _check(self, snapshot: Snapshot, source: Source) -> SourceCheck:
        """Returns what the leader remembers, completed by what the state has recorded."""
        memory, status = self._memory(source.name), source.status
        remote, followed = memory.remote_commit, followed_ref(source, ())
        if source.kind == SourceKind.BUILTIN and followed.startswith("refs/heads/"):
            # The state knows of a push before the leader's next round does. A tag may be an object
            # of its own; the last check followed it to its commit.
            branch = snapshot.git_refs.get(source.repository_name, followed)
            remote = branch.object_id if branch is not None else ""
        return replace(
            memory,
            last_check_ns=max(memory.last_check_ns, status.last_checked_ns),
            last_success_ns=max(memory.last_success_ns, status.last_success_ns),
            error=status.last_error,
            error_since_ns=status.error_since_ns,
            remote_commit=remote,
        )


def _jobs_now(
    snapshot: Snapshot,
    jobs: Sequence[SourceJob],
    active: Sequence[Rollout],
    cached: Sequence[JobNow],
) -> list[JobNow]:
    known = {now.job.key: now for now in cached}
    changed = [
        job.key
        for job in jobs
        if job.key not in known or known[job.key].job.job_modify_index != job.job_modify_index
    ]
    registered = snapshot.jobs.get_many(changed) if changed else {}
    in_rollout = {
        (job.namespace, job.job_id)
        for rollout in active
        if rollout.was_applied
        for job in rollout.jobs
        if job.status not in ENDED
    }
    unplaced = _unplaced(snapshot, jobs)
    found = []
    for job in jobs:
        now, is_in_rollout = known.get(job.key), job.key in in_rollout
        if now is None or now.job != job or now.in_rollout != is_in_rollout:
            if job.key in registered:
                wanted = sum(group.count for group in registered[job.key].task_groups)
            else:
                wanted = known[job.key].wanted
            now = _looked_at(snapshot, JobNow(job, wanted, in_rollout=is_in_rollout))
        found.append(with_fields(now, unplaced=unplaced.get(job.key, "")))
    return found


def _looked_at(snapshot: Snapshot, now: JobNow) -> JobNow:
    """Returns the job with what its allocations tell. They are read only where the job may lack
    some, which changes its row, and nothing else judges that."""
    job = now.job
    lacks_some = job.type != JobType.SERVICE or job.running < now.wanted
    is_judged = now.in_rollout or job.deployment_status in ACTIVE_DEPLOYMENT_STATUSES
    if is_judged or not lacks_some or not (job.failed or job.starting):
        return now
    current = [
        each
        for each in snapshot.allocations.of_job(job.namespace, job.job_id)
        if each.job_version == job.version and not each.is_server_terminal
    ]
    return with_fields(
        now,
        failed=sum(
            each.client_status == ClientStatus.FAILED and not each.next_allocation
            for each in current
        ),
        restarting=sum(
            each.client_status == ClientStatus.PENDING
            and any(task.restarts for task in (each.task_states or {}).values())
            for each in current
        ),
    )


def _unplaced(snapshot: Snapshot, jobs: Sequence[SourceJob]) -> dict[JobKey, str]:
    """Returns what the jobs that are not placed wait for; of as many jobs as are named at most."""
    waiting = [job for job in jobs if job.queued][:MAX_REASONS_OF_A_STATUS]
    found = {}
    for job in waiting:
        blocked = snapshot.evaluations.blocked_of_job(job.namespace, job.job_id)
        view = JobView(snapshot.jobs.get(job.namespace, job.job_id), blocked, None, ())
        found[job.key] = why_unplaced(view)
    return found
