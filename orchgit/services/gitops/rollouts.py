"""Writes rollouts to the log: applies a commit whole, records its progress, deletes old ones."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import msgspec
from msgspec.structs import replace

from orchgit.errors import NotFoundError, NotUnderstoodError
from orchgit.model.evaluation import EvalTrigger, Evaluation
from orchgit.model.held_version import HeldVersion
from orchgit.model.job import Job
from orchgit.model.rollout import Rollout, RolloutStatus
from orchgit.model.source import AppliedJob
from orchgit.replication.commands.gitops import (
    ApplyCommit,
    ApplyRollout,
    ApplyStage,
    DeleteRollouts,
    RecordGates,
    RecordProgress,
    RecordRollout,
    RefMove,
)
from orchgit.replication.commands.jobs import JobDeletion, JobUpsert
from orchgit.replication.versions import without_new_fields
from orchgit.services.context import UseCaseContext
from orchgit.services.evaluations import evaluation_for_job, runs_by_itself
from orchgit.state.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class RecordsChange:
    """What a commit's entry writes beside the jobs: jobs that run once (`remember`, `forget`) and
    held versions (`hold`, `unhold`). Keys are (namespace, job id)."""

    remember: Sequence[AppliedJob] = ()
    forget: Sequence[tuple[str, str]] = ()
    hold: Sequence[HeldVersion] = ()
    unhold: Sequence[tuple[str, str]] = ()


NO_RECORDS = RecordsChange()


async def apply_rollout(
    context: UseCaseContext,
    rollout: Rollout,
    *,
    expected_commit: str,
    upserts: Sequence[JobUpsert],
    deletions: Sequence[JobDeletion] = (),
    ref_moves: Sequence[RefMove] = (),
    records: RecordsChange = NO_RECORDS,
    renew: Collection[tuple[str, str]] = (),
) -> tuple[int, Rollout]:
    """Commits one rollout whole (invariant 9); returns (index, the rollout as stored).

    `upserts` hold admitted jobs; those that `renew` names, as (namespace, id), get a new version
    even if they are registered so. While a server of an earlier version is a member, the `records`
    that it does not know are left out. Each job that runs by itself gets an evaluation, which
    `rollout.jobs` names.

    A rollout with a modify index is a recorded one: it waited at its gates, or this applies a later
    stage of it. While a server of an earlier version is a member, there are neither:
    NotUnderstoodError names that server.

    Raises ConflictError when the source, a job or the recorded rollout changed meanwhile: nothing
    has been changed then, and the caller computes the rollout again.
    """
    with context.snapshot() as snapshot:
        deleted = [snapshot.jobs.get(deletion.namespace, deletion.job_id) for deletion in deletions]
    ended = [job for job in deleted if job is not None]
    evaluations = [
        *_evaluations(
            context, rollout, [upsert.job for upsert in upserts], EvalTrigger.JOB_REGISTER
        ),
        *_evaluations(context, rollout, ended, EvalTrigger.JOB_DEREGISTER),
    ]
    ids = {(each.namespace, each.job_id): each.id for each in evaluations}
    jobs = [
        replace(job, eval_id=ids.get((job.namespace, job.job_id), job.eval_id))
        for job in rollout.jobs
    ]
    stored = replace(rollout, jobs=jobs)
    stage = ApplyStage(
        now_ns=context.now_ns(),
        rollout=stored,
        expected_commit=expected_commit,
        expected_rollout_index=rollout.modify_index,
        upserts=list(upserts),
        deletions=list(deletions),
        evaluations=evaluations,
        ref_moves=list(ref_moves),
        remember=list(records.remember),
        forget=list(records.forget),
        hold=list(records.hold),
        unhold=list(records.unhold),
        renew=sorted(renew),
    )
    try:
        return (await context.propose(stage)).index, stored
    except NotUnderstoodError:
        if rollout.modify_index or any(job.stage for job in rollout.jobs):
            raise
        return await _apply_for_earlier_versions(context, stage)


async def _apply_for_earlier_versions(
    context: UseCaseContext, stage: ApplyStage
) -> tuple[int, Rollout]:
    """Applies a commit while a server of an earlier version is a member, without what that server
    cannot store."""
    fields = msgspec.structs.asdict(stage)
    fields["rollout"] = rollout = _for_version_3(stage.rollout)
    fields["upserts"] = [
        replace(upsert, job=replace(upsert.job, origin=without_new_fields(upsert.job.origin)))
        if upsert.job.origin is not None
        else upsert
        for upsert in stage.upserts
    ]
    del fields["hold"], fields["unhold"], fields["renew"]
    del fields["expected_rollout_index"]
    commit = ApplyCommit(**fields)
    del fields["remember"], fields["forget"]
    applied = await context.propose_newest(commit, lambda: ApplyRollout(**fields))
    return applied.index, rollout


def _for_version_3(rollout: Rollout) -> Rollout:
    """Returns the rollout as a server of version 3 understands it: that server would take one with
    the status `superseded` for one that has not ended."""
    jobs = [without_new_fields(job) for job in rollout.jobs]
    status = rollout.status
    if status == RolloutStatus.SUPERSEDED:
        status = RolloutStatus.DEGRADED
    return replace(without_new_fields(rollout), jobs=jobs, status=status)


async def record_gates(
    context: UseCaseContext,
    rollout: Rollout,
    expected_commit: str,
    ref_moves: Sequence[RefMove] = (),
) -> int:
    """Stores a rollout that waits at its gates, or that ended there; refs move in the same entry.

    `rollout.modify_index` is that of the record that was read, 0 for a new rollout, and
    `expected_commit` the source's applied commit. Raises ConflictError if either is another
    meanwhile, and NotUnderstoodError while a server of an earlier version is a member.
    """
    entry = RecordGates(
        now_ns=context.now_ns(),
        rollout=rollout,
        expected_modify_index=rollout.modify_index,
        expected_commit=expected_commit,
        ref_moves=list(ref_moves),
    )
    return (await context.propose(entry)).index


async def record_rollout(
    context: UseCaseContext,
    rollout: Rollout,
    hold: Sequence[HeldVersion] = (),
    expected_modify_index: int = 0,
) -> int:
    """Stores a rollout's progress, or a commit that was refused.

    `hold` are the versions that failed in it. While a server of an earlier version is a member,
    they are not held. Raises ConflictError if the stored rollout has another modify index than the
    one expected, where that is not 0.
    """
    now_ns = context.now_ns()
    entry = RecordProgress(
        now_ns=now_ns,
        rollout=rollout,
        hold=list(hold),
        expected_modify_index=expected_modify_index,
    )
    applied = await context.propose_newest(
        entry, lambda: RecordRollout(now_ns=now_ns, rollout=_for_version_3(rollout))
    )
    return applied.index


async def delete_rollouts(context: UseCaseContext, ids: Sequence[str]) -> int:
    """Deletes finished rollouts. Raises NotFoundError for an unknown id."""
    with context.snapshot() as snapshot:
        for rollout_id in ids:
            if snapshot.rollouts.get(rollout_id) is None:
                raise NotFoundError(f"cannot delete rollout {rollout_id}: there is none")
    applied = await context.propose(DeleteRollouts(now_ns=context.now_ns(), ids=list(ids)))
    return applied.index


def _evaluations(
    context: UseCaseContext, rollout: Rollout, jobs: Sequence[Job], trigger: str
) -> list[Evaluation]:
    return [
        evaluation_for_job(context, job, trigger, rollout_id=rollout.id)
        for job in jobs
        if runs_by_itself(job)
    ]


def find_rollout(snapshot: Snapshot, text: str) -> Rollout | None:
    """Returns the newest rollout whose id, or whose commit's id, begins with the text."""
    exact = snapshot.rollouts.get(text)
    if exact is not None or len(text) < 4:
        return exact
    return next(
        (
            each
            for each in snapshot.rollouts.all()
            if each.id.startswith(text) or each.commit.id.startswith(text)
        ),
        None,
    )
