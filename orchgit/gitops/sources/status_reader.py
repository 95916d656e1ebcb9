"""Reads what the health of a source follows from, on one snapshot."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from orchgit.gitops.mirrors.rules import followed_ref
from orchgit.gitops.rollouts.health import ENDED, JobView, why_unplaced
from orchgit.gitops.sources.health import (
    MAX_REASONS_OF_A_STATUS,
    SourceView,
    judge_source,
)
from orchgit.gitops.sources.job_health import JobNow
from orchgit.model.job import JobType
from orchgit.model.rollout import Rollout
from orchgit.model.source import Source, SourceKind
from orchgit.model.source_health import SourceCheck, SourceHealth
from orchgit.state.snapshot import Snapshot
from orchgit.state.tables.source_jobs import SourceJob

JobKey = tuple[str, str]
_WHOLE_TABLES = ("held_versions", "drifted_jobs")
"""Tables that change rarely, and whose rows vanish when all is well again."""


@dataclass(frozen=True, slots=True)
class SourceReport:
    """A source at one index: all its parts are read from one snapshot, but for what only the
    leader's memory has. `modify_index` is the newest change of what the health follows from."""

    source: Source
    health: SourceHealth
    check: SourceCheck
    modify_index: int


class SourceStatusReader:
    """Reads the reports of sources, on any server and in any thread.

    `memory` returns how the rounds of a source go, as far as this server knows. What takes long to
    decode is cached: the counts of a job until the job changes, and active rollouts.
    """

    def __init__(self, memory: Callable[[str], SourceCheck]) -> None:
        self._memory = memory
        self._wanted: dict[str, dict[JobKey, tuple[int, int]]] = {}
        self._rollouts: dict[str, dict[str, Rollout]] = {}

    def reports(self, snapshot: Snapshot) -> list[SourceReport]:
        """Returns the reports of all sources, by name."""
        sources = snapshot.sources.all()
        known = {source.name for source in sources}
        for cache in (self._wanted, self._rollouts):
            for name in [name for name in cache if name not in known]:
                cache.pop(name, None)
        return [self.report(snapshot, source) for source in sources]

    def report(self, snapshot: Snapshot, source: Source) -> SourceReport:
        """Returns the report of one source as the snapshot has it."""
        rollouts = self._active_rollouts(snapshot, source.name)
        jobs = snapshot.source_jobs.of_source(source.name)
        check = self._check(snapshot, source)
        view = SourceView(
            source=source,
            check=check,
            active=rollouts,
            jobs=self._jobs_now(snapshot, source.name, jobs, rollouts),
            held=snapshot.held_versions.of_source(source.name),
            drifted=snapshot.drifted_jobs.all(source.name),
        )
        return SourceReport(
            source=replace(
                source, status=replace(source.status, last_checked_ns=check.last_check_ns)
            ),
            health=judge_source(view),
            check=check,
            modify_index=max(
                source.modify_index,
                snapshot.rollouts.newest_change_of(source.name),
                snapshot.table_indexes.newest(*_WHOLE_TABLES),
                *(job.modify_index for job in jobs),
            ),
        )

    def _check(self, snapshot: Snapshot, source: Source) -> SourceCheck:
        """Returns what the leader remembers, completed by what the state has recorded."""
        memory, status = self._memory(source.name), source.status
        remote = memory.remote_commit
        if source.kind == SourceKind.BUILTIN:
            refs = snapshot.git_refs.of_source(source.repository_name)
            followed = followed_ref(source, refs)
            # A tag may be an object of its own; the last check followed it to its commit.
            if followed.startswith("refs/heads/"):
                remote = refs.get(followed, "")
        return replace(
            memory,
            last_check_ns=max(memory.last_check_ns, status.last_checked_ns),
            last_success_ns=max(memory.last_success_ns, status.last_success_ns),
            error=status.last_error,
            error_since_ns=status.error_since_ns,
            remote_commit=remote,
        )

    def _active_rollouts(self, snapshot: Snapshot, source: str) -> list[Rollout]:
        cached, found = self._rollouts.get(source, {}), {}
        for rollout_id, modify_index in snapshot.rollouts.active_of_source(source):
            known = cached.get(rollout_id)
            if known is None or known.modify_index != modify_index:
                known = snapshot.rollouts.get(rollout_id)
            if known is not None:
                found[rollout_id] = known
        self._rollouts[source] = found
        return list(found.values())

    def _jobs_now(
        self,
        snapshot: Snapshot,
        source: str,
        jobs: Sequence[SourceJob],
        rollouts: Sequence[Rollout],
    ) -> list[JobNow]:
        cached = self._wanted.get(source, {})
        new = [job.key for job in jobs if cached.get(job.key, (-1, 0))[0] != job.job_modify_index]
        read = {
            key: (job.job_modify_index, sum(group.count for group in job.task_groups))
            for key, job in (snapshot.jobs.get_many(new) if new else {}).items()
        }
        wanted = {job.key: read.get(job.key) or cached.get(job.key, (0, 0)) for job in jobs}
        self._wanted[source] = wanted
        in_rollout = {
            (job.namespace, job.job_id)
            for rollout in rollouts
            if rollout.was_applied
            for job in rollout.jobs
            if job.status not in ENDED
        }
        unplaced = _unplaced(snapshot, jobs)
        return [
            JobNow(
                job=job,
                wanted=wanted[job.key][1],
                failed=_failed(snapshot, job, wanted[job.key][1]),
                in_rollout=job.key in in_rollout,
                unplaced=unplaced.get(job.key, ""),
            )
            for job in jobs
        ]


def _failed(snapshot: Snapshot, job: SourceJob, wanted: int) -> int:
    """Returns how many allocations of the job's current version failed and were not replaced. They
    are looked at only where the job may lack them."""
    if not job.failed or (job.type == JobType.SERVICE and job.running >= wanted):
        return 0
    return sum(
        each.client_status == "failed"
        and each.job_version == job.version
        and not each.is_server_terminal
        and not each.next_allocation
        for each in snapshot.allocations.of_job(job.namespace, job.job_id)
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
