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
from orchgit.jobdiff.spec import bare_spec
from orchgit.model.job import JobOrigin, JobSubmission
from orchgit.model.rollout import Commit, JobAction, Rollout, RolloutJob, RolloutStatus
from orchgit.model.source import Source
from orchgit.replication.commands import JobDeletion, JobUpsert
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
    plan: CommitPlan, commit: Commit, trigger: Trigger, rollout_id: str, now_ns: int
) -> Rollout:
    """Returns the rollout as the log entry stores it; healthy at once if no job changes."""
    changes = plan.actions.changes
    return Rollout(
        id=rollout_id,
        source=plan.source.name,
        commit=commit,
        previous_commit=plan.source.status.applied_commit,
        reverts=trigger.reverts,
        trigger=trigger.kind,
        pusher=trigger.pusher,
        ref=trigger.ref,
        status=RolloutStatus.APPLIED if changes else RolloutStatus.HEALTHY,
        status_description="" if changes else "no job changed",
        jobs=[_rollout_job(action) for action in changes],
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
        applied_time_ns=0,
    )


def _rollout_job(action: Action) -> RolloutJob:
    namespace, job_id = action.key
    known = action.registered.job if action.registered is not None else None
    job = RolloutJob(
        namespace=namespace,
        job_id=job_id,
        action=action.kind,
        cause=action.cause,
        job_version=known.version + 1 if known is not None else 0,
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
