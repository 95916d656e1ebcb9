"""The log entry that carries a plan out: the rollout, the jobs to register and to delete. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import msgspec
from msgspec.structs import replace

from orchgit.gitops.commits.actions import Action
from orchgit.gitops.commits.plan import CommitPlan, Trigger
from orchgit.gitops.gates.decide import GateVerdict
from orchgit.gitops.parsing.contents import is_api_text
from orchgit.gitops.parsing.desired import JobKey
from orchgit.gitops.rollouts.health import JobProgress
from orchgit.gitops.rollouts.waiting import EVERY_JOB_BEFORE
from orchgit.gitops.stages.stages import Stages
from orchgit.jobdiff.spec import bare_spec
from orchgit.model.job import JobOrigin, JobSubmission
from orchgit.model.repository_policy import WaitCondition
from orchgit.model.rollout import (
    Commit,
    JobAction,
    JobWait,
    Rollout,
    RolloutJob,
    RolloutStatus,
)
from orchgit.model.source import Source
from orchgit.replication.commands.jobs import JobDeletion, JobUpsert
from orchgit.services.gitops.rollouts import RecordsChange

_MAX_PROBLEMS = 200
PLANNED = "planned"
"""The status of a job whose rollout waits at its gates."""


def plan_hash(plan: CommitPlan) -> str:
    """Returns a SHA-256 over what the plan does: its actions, their jobs, and the modify indexes
    that it was computed from."""
    digest = hashlib.sha256()
    for action in plan.actions.changes:
        spec = bare_spec(action.desired.job) if action.desired is not None else None
        part = (action.kind, action.key, action.expected_modify_index, spec)
        digest.update(msgspec.msgpack.encode(part))
    return digest.hexdigest()


def rollout_of(
    plan: CommitPlan,
    commit: Commit,
    trigger: Trigger,
    rollout_id: str,
    now_ns: int,
    carried: Sequence[RolloutJob] = (),
) -> Rollout:
    """Returns the rollout as the log entry stores it; healthy at once if no job changes. `carried`
    are jobs of later stages that another rollout of the same commit has left."""
    jobs = [_rollout_job(action, plan.stages) for action in plan.actions.changes]
    changes = [*jobs, *carried]
    return Rollout(
        id=rollout_id,
        source=plan.source.name,
        commit=commit,
        previous_commit=plan.source.status.applied_commit,
        reverts=trigger.reverts,
        reason=trigger.reason,
        trigger=trigger.kind,
        pusher=trigger.pusher,
        ref=trigger.ref,
        status=RolloutStatus.APPLIED if changes else RolloutStatus.HEALTHY,
        status_description="" if changes else "no job changed",
        jobs=changes,
        plan_hash=plan_hash(plan),
        create_time_ns=now_ns,
        applied_time_ns=now_ns,
        finished_time_ns=0 if changes else now_ns,
    )


def waiting_rollout(
    plan: CommitPlan,
    commit: Commit,
    trigger: Trigger,
    verdict: GateVerdict,
    rollout_id: str,
    now_ns: int,
) -> Rollout:
    """Returns the record of a commit that is not applied yet: what it would do, and what it waits
    for."""
    planned = rollout_of(plan, commit, trigger, rollout_id, now_ns)
    return replace(
        planned,
        status=verdict.status,
        status_description=verdict.description,
        jobs=[replace(job, status=PLANNED) for job in planned.jobs],
        gates=verdict.record,
        plan_hash=verdict.plan_hash,
        applied_time_ns=0,
    )


def carried_jobs(plan: CommitPlan, previous: Rollout | None, commit_id: str) -> list[RolloutJob]:
    """Returns the jobs that the rollout before has not applied yet, where it is of the same commit:
    the rollout that replaces it goes on with them, after all stages of the plan. Those of a rollout
    that failed go on if the plan runs a job again that failed there, or that they waited for.

    A rollout that takes the one before it back goes on with its jobs that stay as they are: a
    version that fails only now is held as well."""
    planned = {action.key for action in plan.actions.changes}
    if previous is not None and plan.request.is_revert:
        undecided = (JobProgress.APPLIED, JobProgress.PROGRESSING)
        return [
            job
            for job in previous.jobs
            if job.status in undecided and (job.namespace, job.job_id) not in planned
        ]
    if previous is None or previous.commit.id != commit_id:
        return []
    skipped = [job for job in previous.jobs if job.status == JobProgress.SKIPPED]
    blocking = {(wait.namespace, wait.job_id) for job in skipped for wait in job.waits_for}
    blocking |= {
        (job.namespace, job.job_id) for job in previous.jobs if job.status == JobProgress.FAILED
    }
    status = JobProgress.SKIPPED if blocking & planned else JobProgress.WAITING
    left = [
        replace(job, status=JobProgress.WAITING, description="")
        for job in previous.jobs
        if job.status == status and (job.namespace, job.job_id) not in planned
    ]
    if not left:
        return []
    # What "every job before it" meant there and has no end yet is named here.
    running = [
        JobWait(
            job.namespace,
            job.job_id,
            WaitCondition.COMPLETE if job.must_complete else WaitCondition.HEALTHY,
        )
        for job in previous.jobs
        if job.status not in (JobProgress.WAITING, JobProgress.SKIPPED, JobProgress.HEALTHY)
        and job.action != JobAction.DELETE
        and (job.namespace, job.job_id) not in planned
    ]
    shift = plan.stages.last + 1 - min(job.stage for job in left)
    return [
        replace(
            job,
            stage=job.stage + shift,
            waits_for=[*job.waits_for, *running]
            if EVERY_JOB_BEFORE in job.waits_for
            else job.waits_for,
        )
        for job in left
    ]


def next_stage_of(
    rollout: Rollout, plan: CommitPlan, stage: int, versions: Mapping[JobKey, int], now_ns: int
) -> Rollout:
    """Returns the recorded rollout with one more stage applied. `plan` is that of the stage alone;
    `versions` are those of the jobs that are registered as wanted already."""
    actions = {action.key: action for action in plan.actions.changes}
    jobs = []
    for job in rollout.jobs:
        key = (job.namespace, job.job_id)
        if job.status == JobProgress.WAITING and job.stage == stage:
            action = actions.get(key)
            job = replace(job, status=JobProgress.APPLIED, description="", applied_time_ns=now_ns)
            if action is not None:
                job = replace(job, job_version=_next_version(action), action=action.kind)
            elif job.action != JobAction.DELETE:
                version = versions.get(key, job.job_version)
                job = replace(job, action=JobAction.UNCHANGED, job_version=version)
        jobs.append(job)
    return replace(rollout, jobs=jobs)


def _next_version(action: Action) -> int:
    return action.registered.job.version + 1 if action.registered is not None else 0


def _rollout_job(action: Action, stages: Stages) -> RolloutJob:
    namespace, job_id = action.key
    known = action.registered.job if action.registered is not None else None
    job = RolloutJob(
        namespace=namespace,
        job_id=job_id,
        action=action.kind,
        job_version=_next_version(action),
        cause=action.cause,
        stage=stages.of(action.key),
        status=JobProgress.WAITING if stages.of(action.key) else JobProgress.APPLIED,
        waits_for=list(stages.waits.get(action.key, ())),
        must_complete=action.key in stages.must_complete,
    )
    if action.desired is None:
        assert known is not None
        origin = known.origin or JobOrigin()
        return replace(job, job_type=known.type, file=origin.file, line=origin.line)
    return replace(
        job,
        content_id=action.desired.content_id,
        job_type=action.desired.job.type,
        file=action.desired.path,
        line=action.desired.line,
        blob_id=action.desired.blob_id,
    )


def upserts_of(plan: CommitPlan, rollout: Rollout, texts: Mapping[JobKey, str]) -> list[JobUpsert]:
    """Returns the jobs to register, each stamped with the rollout's commit as its origin. `texts`
    are the contents of their files; a job without one gets no submission."""
    upserts = []
    for action in plan.actions.changes:
        desired = action.desired
        if desired is None:
            continue
        origin = JobOrigin(
            source=rollout.source,
            rollout_id=rollout.id,
            commit_id=rollout.commit.id,
            author=rollout.commit.author,
            subject=rollout.commit.subject,
            file=desired.path,
            line=desired.line,
            group_lines=dict(desired.group_lines) or None,
            blob_id=desired.blob_id,
        )
        job = replace(desired.job, origin=origin, submit_time_ns=rollout.create_time_ns)
        submission = None
        if action.key in texts:
            submission = JobSubmission(
                namespace=job.namespace,
                job_id=job.id,
                source=texts[action.key],
                format="json" if is_api_text(texts[action.key]) else "hcl2",
                variable_flags=dict(plan.source.variables) or None,
            )
        upserts.append(JobUpsert(job, submission, action.expected_modify_index))
    return upserts


def records_of(plan: CommitPlan, now_ns: int) -> RecordsChange:
    """Returns what the plan records beside the jobs; new held versions are held from `now_ns`."""
    hold = [replace(each, since_ns=each.since_ns or now_ns) for each in plan.holds.hold]
    return RecordsChange(
        plan.run_once.remember, plan.run_once.forget, tuple(hold), plan.holds.unhold
    )


def deletions_of(plan: CommitPlan) -> list[JobDeletion]:
    """Returns the jobs to stop, each with the modify index at which it may be stopped."""
    return [
        JobDeletion(namespace, job_id, expected_modify_index=action.expected_modify_index)
        for action in plan.actions.of(JobAction.DELETE)
        for namespace, job_id in (action.key,)
    ]


def refused_rollout(
    source: Source,
    commit: Commit,
    trigger: Trigger,
    problems: Sequence[str],
    rollout_id: str,
    now_ns: int,
) -> Rollout:
    """Returns the record of a commit that changes nothing because of its problems."""
    count = len(problems)
    return Rollout(
        id=rollout_id,
        source=source.name,
        commit=commit,
        previous_commit=source.status.applied_commit,
        trigger=trigger.kind,
        pusher=trigger.pusher,
        ref=trigger.ref,
        status=RolloutStatus.FAILED,
        status_description=f"refused: {count} problem{'s' * (count != 1)}",
        problems=list(problems[:_MAX_PROBLEMS]),
        create_time_ns=now_ns,
        finished_time_ns=now_ns,
    )
