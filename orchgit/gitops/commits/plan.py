"""The plan of one commit against one snapshot, and the log entry that carries it out.

Made again, without reading git again, when a compare-and-set failed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from dataclasses import replace as with_fields

import msgspec
from msgspec.structs import replace

from orchgit.errors import OrchgitError, ValidationError
from orchgit.gitops.commits.actions import (
    Action,
    Actions,
    RegisteredJob,
    plan_actions,
    release_command,
    stands,
)
from orchgit.gitops.commits.run_once import (
    RunOnceChange,
    finished_jobs,
    run_once_change,
    run_once_records,
)
from orchgit.gitops.parsing.discovery import DesiredJob, Discovery, JobKey
from orchgit.jobdiff.spec import bare_spec
from orchgit.model.job import Job, JobOrigin, JobSubmission
from orchgit.model.rollout import Commit, JobAction, Rollout, RolloutJob, RolloutStatus
from orchgit.model.source import PrunePolicy, Source
from orchgit.replication.commands import JobDeletion, JobUpsert
from orchgit.services.jobs.admission import JOB_MAX_COUNT, admit, cluster_rules, completed
from orchgit.state.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class CommitPlan:
    """What applying the commit would do. Jobs in `actions` are admitted. With `problems` it must
    not be applied; `warnings` are for the author."""

    source: Source
    actions: Actions
    problems: tuple[str, ...]
    warnings: tuple[str, ...]
    memory: RunOnceChange = field(default_factory=RunOnceChange)
    rerun: frozenset[JobKey] = frozenset()
    """Not empty: only these jobs are created, though the source remembers that they have run."""


@dataclass(frozen=True, slots=True)
class LastApplied:
    """A job as a commit wanted it, and the index at which it was registered so."""

    desired: DesiredJob
    job_modify_index: int


def last_applied_jobs(
    desired: Mapping[JobKey, DesiredJob], indexes: Mapping[JobKey, int], applied_index: int
) -> dict[JobKey, LastApplied]:
    """What to remember of a commit applied at `applied_index`, from the indexes read after it. A
    job with a later index was changed by somebody else already."""
    return {
        key: LastApplied(job, indexes[key])
        for key, job in desired.items()
        if indexes.get(key, applied_index + 1) <= applied_index
    }


@dataclass(frozen=True, slots=True)
class Trigger:
    """Why a commit is applied now. `kind` is push, webhook, poll, watch, api or revert; `reverts`
    is the id of the rollout that a revert takes back."""

    kind: str
    pusher: str = ""
    reverts: str = ""


def plan_commit(
    source: Source,
    discovery: Discovery,
    snapshot: Snapshot,
    may_delete: Collection[str] = (),
    last_applied: Mapping[JobKey, LastApplied] | None = None,
    reference: Mapping[JobKey, DesiredJob] | None = None,
    rerun: frozenset[JobKey] = frozenset(),
    job_max_count: int = JOB_MAX_COUNT,
) -> CommitPlan:
    """Returns the plan of a commit against one snapshot.

    `last_applied` are the jobs of the applied commit as they were registered. A job that the new
    commit wants unchanged, and that nobody changed since, is not looked at again. Of the others,
    those that are registered exactly as wanted (nearly all, after a restart) skip admission.

    A job that runs once, and that the source remembers, is not created again unless `rerun` names
    it. `reference`: the applied commit's jobs, where the source's memory is older than itself.
    """
    indexes = snapshot.jobs.modify_indexes_of_source(source.name)
    steady = _steady(discovery.jobs, last_applied or {}, indexes)
    unsure = {key: job for key, job in discovery.jobs.items() if key not in steady}
    registered = _registered(snapshot, source.name, (set(indexes) - steady) | set(unsure), unsure)
    remembered = run_once_records(snapshot, source.name, reference or {})
    known_steady = steady if source.status.remembers_jobs else frozenset()
    memory = run_once_change(source.name, discovery.jobs, remembered, known_steady)
    steady = steady | (finished_jobs(unsure, registered, remembered) - rerun)
    steady |= {
        key
        for key, job in unsure.items()
        if stands(source.name, _completed(job), registered.get(key))
    }
    changed = {key: job for key, job in unsure.items() if key not in steady}
    admitted, problems, warnings = _admit_all(changed, snapshot, job_max_count)
    others = {key: known for key, known in registered.items() if key not in steady}
    actions = plan_actions(
        source.name,
        admitted,
        others,
        source.prune,
        may_delete,
        steady=sorted(steady),
        adopt=source.adopt,
    )
    if rerun:
        actions = _only(actions, rerun)
    found = (*discovery.problems, *problems, *actions.problems)
    warnings += [_released(discovery.jobs[key]) for key in actions.released]
    return CommitPlan(source, actions, found, tuple(warnings), memory, rerun)


def _only(actions: Actions, keys: Collection[JobKey]) -> Actions:
    """The creations of these jobs: what else has drifted waits for the next commit."""
    wanted = [a for a in actions.changes if a.key in keys and a.kind is not JobAction.DELETE]
    return Actions(tuple(wanted), (), actions.problems)


def _released(wanted: DesiredJob) -> str:
    return (
        f"{wanted.path}:{wanted.line}:1: job {wanted.job.id!r} was released from this source, so "
        f"its file changes nothing; `{release_command(wanted.key, '-undo')}` gives it back"
    )


def plan_between(
    source: Source,
    old: Discovery,
    new: Discovery,
    snapshot: Snapshot,
    job_max_count: int = JOB_MAX_COUNT,
) -> CommitPlan:
    """What changes between two trees: `old` stands for what is registered. Deletions are shown,
    not judged. Problems of the old tree are left out: it is there already."""
    before, _, _ = _admit_all(old.jobs, snapshot, job_max_count)
    after, problems, warnings = _admit_all(new.jobs, snapshot, job_max_count)
    origin = JobOrigin(source=source.name)
    registered = {
        key: RegisteredJob(replace(desired.job, origin=origin)) for key, desired in before.items()
    }
    gone = {job_id for namespace, job_id in before.keys() - after.keys()}
    actions = plan_actions(source.name, after, registered, PrunePolicy(), gone)
    found = (*new.problems, *problems, *actions.problems)
    return CommitPlan(source, actions, found, tuple(warnings))


def _steady(
    desired: Mapping[JobKey, DesiredJob],
    last_applied: Mapping[JobKey, LastApplied],
    indexes: Mapping[JobKey, int],
) -> set[JobKey]:
    return {
        key
        for key, job in desired.items()
        if (known := last_applied.get(key)) is not None
        and known.desired is job
        and indexes.get(key) == known.job_modify_index
    }


def _completed(wanted: DesiredJob) -> DesiredJob:
    return with_fields(wanted, job=completed(wanted.job))


def _admit_all(
    desired: Mapping[JobKey, DesiredJob], snapshot: Snapshot, job_max_count: int
) -> tuple[dict[JobKey, DesiredJob], list[str], list[str]]:
    admitted: dict[JobKey, DesiredJob] = {}
    problems: list[str] = []
    warnings: list[str] = []
    rules = cluster_rules(snapshot, job_max_count)
    for key, wanted in desired.items():
        place = f"{wanted.path}:{wanted.line}:1"
        try:
            result = admit(wanted.job, snapshot, rules)
        except ValidationError as error:
            problems += [f"{place}: {problem}" for problem in error.problems or (str(error),)]
        except OrchgitError as error:
            problems.append(f"{place}: {error}")
        else:
            admitted[key] = with_fields(wanted, job=result.job)
            warnings += [f"{place}: {warning}" for warning in result.warnings]
    return admitted, problems, warnings


_READ_TOGETHER = 200
"""From so many jobs on, reading all of a source in one go is cheaper than each by its key."""


def _registered(
    snapshot: Snapshot, source: str, keys: Collection[JobKey], wanted: Collection[JobKey]
) -> dict[JobKey, RegisteredJob]:
    """What is registered under the keys; who owns volume claims is asked of the unwanted only."""
    known: dict[JobKey, Job] = {}
    if len(keys) >= _READ_TOGETHER:
        known = {(job.namespace, job.id): job for job in snapshot.jobs.of_source(source)}
    live = {each.name for each in snapshot.sources.all()}
    found: dict[JobKey, RegisteredJob] = {}
    for namespace, job_id in keys:
        key = (namespace, job_id)
        job = known.get(key) or snapshot.jobs.get(namespace, job_id)
        if job is not None:
            claims = key not in wanted and bool(snapshot.volume_claims.all(namespace, job_id))
            found[key] = RegisteredJob(job, claims, _former(job, live))
    return found


def _former(job: Job, live: Collection[str]) -> str:
    """The owner of the job that was removed. Earlier versions removed a source and left its name
    on its jobs."""
    if job.origin is None:
        return ""
    if job.origin.source:
        return "" if job.origin.source in live else job.origin.source
    return job.origin.former_source


def plan_hash(plan: CommitPlan) -> str:
    """Names exactly what would be done: the actions, the jobs, and what they were computed from."""
    digest = hashlib.sha256()
    for action in plan.actions.changes:
        spec = bare_spec(action.desired.job) if action.desired is not None else None
        part = (action.kind, action.key, action.expected_modify_index, spec)
        digest.update(msgspec.msgpack.encode(part))
    return digest.hexdigest()


def rollout_of(
    plan: CommitPlan, commit: Commit, trigger: Trigger, rollout_id: str, now_ns: int
) -> Rollout:
    """The rollout as the entry will store it."""
    return Rollout(
        id=rollout_id,
        source=plan.source.name,
        commit=commit,
        previous_commit=plan.source.status.applied_commit,
        reverts=trigger.reverts,
        trigger=trigger.kind,
        pusher=trigger.pusher,
        status=RolloutStatus.APPLIED if plan.actions.changes else RolloutStatus.HEALTHY,
        status_description="" if plan.actions.changes else "no job changed",
        jobs=[_rollout_job(action) for action in plan.actions.changes],
        plan_hash=plan_hash(plan),
        create_time_ns=now_ns,
        applied_time_ns=now_ns,
        finished_time_ns=0 if plan.actions.changes else now_ns,
    )


def _rollout_job(action: Action) -> RolloutJob:
    namespace, job_id = action.key
    known = action.registered.job if action.registered is not None else None
    job = RolloutJob(
        namespace=namespace,
        job_id=job_id,
        action=action.kind,
        job_version=known.version + 1 if known is not None else 0,
    )
    if action.desired is None:
        assert known is not None
        origin = known.origin or JobOrigin()
        return replace(job, job_type=known.type, file=origin.file, line=origin.line)
    return replace(
        job,
        job_type=action.desired.job.type,
        file=action.desired.path,
        line=action.desired.line,
        blob_id=action.desired.blob_id,
    )


def upserts_of(plan: CommitPlan, rollout: Rollout, texts: Mapping[JobKey, str]) -> list[JobUpsert]:
    """The jobs to register, each stamped with the commit it comes from. `texts` are their files."""
    return [
        JobUpsert(
            _stamped(action.desired, rollout),
            _submission(action.desired, plan.source, texts.get(action.key)),
            action.expected_modify_index,
        )
        for action in plan.actions.changes
        if action.desired is not None
    ]


def _stamped(desired: DesiredJob, rollout: Rollout) -> Job:
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
    return replace(desired.job, origin=origin, submit_time_ns=rollout.create_time_ns)


def _submission(desired: DesiredJob, source: Source, text: str | None) -> JobSubmission | None:
    if text is None:
        return None
    return JobSubmission(
        namespace=desired.job.namespace,
        job_id=desired.job.id,
        source=text,
        format="hcl2",
        variable_flags=dict(source.variables) or None,
    )


def deletions_of(plan: CommitPlan) -> list[JobDeletion]:
    return [
        JobDeletion(*action.key, expected_modify_index=action.expected_modify_index)
        for action in plan.actions.of(JobAction.DELETE)
    ]


def refused_rollout(
    source: Source,
    commit: Commit,
    trigger: Trigger,
    problems: Sequence[str],
    rollout_id: str,
    now_ns: int,
) -> Rollout:
    """The record of a commit that changes nothing because of its problems."""
    count = len(problems)
    return Rollout(
        id=rollout_id,
        source=source.name,
        commit=commit,
        previous_commit=source.status.applied_commit,
        trigger=trigger.kind,
        pusher=trigger.pusher,
        status=RolloutStatus.FAILED,
        status_description=f"refused: {count} problem{'s' * (count != 1)}",
        problems=list(problems[:200]),
        create_time_ns=now_ns,
        finished_time_ns=now_ns,
    )
