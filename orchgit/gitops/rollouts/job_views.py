"""Reads what the judgement of a rollout needs, and no more than it needs.

A job that many commits changed has many ended evaluations, deployments and allocations: a judgement
costs the same with and without them.
"""

from __future__ import annotations

from orchgit.gitops.rollouts.health import JobView
from orchgit.model.rollout import JobAction, Rollout, RolloutJob
from orchgit.state.snapshot import StateReads


class LaterRollouts:
    """The applied rollouts that came after others of their source, by one snapshot.

    The rollouts of a source are read once if the oldest is asked for first.
    """

    def __init__(self, snapshot: StateReads) -> None:
        self._snapshot = snapshot
        self._read: dict[str, tuple[int, list[Rollout]]] = {}
        """Source -> the create index from which on its rollouts were read, and those rollouts."""

    def than(self, rollout: Rollout) -> list[Rollout]:
        """Returns the later applied rollouts of the same source, oldest first."""
        since, found = self._read.get(rollout.source, (rollout.create_index + 1, []))
        if rollout.create_index < since:
            since, found = rollout.create_index, self._snapshot.rollouts.applied_after(rollout)
            self._read[rollout.source] = (since, found)
        return [each for each in found if each.create_index > rollout.create_index]

    def changing_jobs_of(self, rollout: Rollout) -> dict[tuple[str, str], str]:
        """Returns the newest later commit of the source for each job that one changed."""
        return {
            (job.namespace, job.job_id): later.commit.id
            for later in self.than(rollout)
            for job in later.jobs
            if job.action != JobAction.UNCHANGED
        }


def view_of(snapshot: StateReads, job: RolloutJob, replaced_by: str = "") -> JobView:
    """Returns what the snapshot says of one job of a rollout. Of its evaluations: the rollout's own
    and those that are not done. Of its allocations: those of the rollout's version, or all where
    the rollout deleted the job."""
    key = (job.namespace, job.job_id)
    registered = snapshot.jobs.get(*key)
    # A job that was purged and registered again counts its versions from 0 again.
    of_version = [
        deployment
        for deployment in snapshot.deployments.of_version(*key, job.job_version)
        if registered is None or deployment.job_create_index == registered.create_index
    ]
    completed = 0
    if job.must_complete and job.action == JobAction.UNCHANGED:
        summary = snapshot.job_summaries.get(*key)
        groups = summary.summary.values() if summary is not None else ()
        completed = sum(group.complete for group in groups)
    own = snapshot.evaluations.get(job.eval_id)
    undone = snapshot.evaluations.undone_of_job(*key)
    if job.action == JobAction.DELETE:
        allocations = snapshot.allocations.of_job(*key)
    else:
        allocations = snapshot.allocations.of_version(*key, job.job_version)
    return JobView(
        completed=completed,
        job=registered,
        evaluations=undone if own is None or own in undone else [own, *undone],
        deployment=max(of_version, key=lambda each: each.create_index, default=None),
        allocations=allocations,
        replaced_by=replaced_by,
    )
