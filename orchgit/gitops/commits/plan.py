"""The plan of one commit against one snapshot of the state."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from dataclasses import replace as with_fields
from types import MappingProxyType

from msgspec.structs import replace

from orchgit.errors import OrchgitError, ValidationError
from orchgit.gitops.commits.actions import (
    Action,
    Actions,
    RegisteredJob,
    is_registered_as_wanted,
    plan_actions,
)
from orchgit.gitops.commits.causes import with_causes
from orchgit.gitops.commits.deletions import emptied_file_problems
from orchgit.gitops.commits.holds import HoldChange, held_jobs, hold_change
from orchgit.gitops.commits.last_applied import LastApplied, unchanged_since_applied
from orchgit.gitops.commits.plan_request import NO_REQUEST, PlanRequest
from orchgit.gitops.commits.release import release_command
from orchgit.gitops.commits.run_once import (
    RunOnceChange,
    finished_jobs,
    run_once_change,
    run_once_records,
)
from orchgit.gitops.commits.source_rights import refused_deletions, refused_jobs
from orchgit.gitops.gates.policy import narrowed_prune
from orchgit.gitops.gates.source_readiness import cycle_problems
from orchgit.gitops.parsing.desired import DesiredJob, JobKey
from orchgit.gitops.parsing.discovery import Discovery
from orchgit.gitops.rollouts.failed_versions import failed_versions
from orchgit.gitops.rollouts.health import Deadline, JobProgress
from orchgit.gitops.rollouts.job_views import LaterRollouts
from orchgit.gitops.rollouts.tracker import judge, judge_registered
from orchgit.gitops.rollouts.waiting import unapplied_jobs
from orchgit.gitops.stages.graph import NO_ORDER, JobGraph, job_graph
from orchgit.gitops.stages.stages import ONE_STAGE, Stages, plan_stages
from orchgit.model.drift import DriftKind
from orchgit.model.held_version import HeldVersion
from orchgit.model.job import Job, JobOrigin
from orchgit.model.repository_policy import POLICY_PATH, WaitCondition
from orchgit.model.rollout import ChangeCause, JobAction, JobWait
from orchgit.model.source import PrunePolicy, Source
from orchgit.services.jobs.admission import (
    DEFAULT_JOB_SETTINGS,
    JobSettings,
    admit,
    cluster_rules,
    completed,
)
from orchgit.state.snapshot import Snapshot

MAX_STAGES = 100
"""How many stages a commit may have: each is an entry of the log with the whole rollout."""
_NO_DEADLINE = Deadline(patience_ns=1)
_READ_ALL_FROM = 200
"""From this many jobs on, one read of all jobs of the source is cheaper than a read of each."""


@dataclass(frozen=True, slots=True)
class CommitPlan:
    """What applying a commit would do.

    The jobs in `actions` have passed admission. A plan with `problems` must not be applied;
    `warnings` are for the commit's author. `request` is what the plan was asked for beyond the
    commit, and `holds` how the held versions change. `stages` says which changes wait for others.
    `indexes` are the modify indexes of the source's registered jobs that the plan was made from.
    """

    source: Source
    actions: Actions
    problems: tuple[str, ...]
    warnings: tuple[str, ...]
    run_once: RunOnceChange = field(default_factory=RunOnceChange)
    request: PlanRequest = NO_REQUEST
    holds: HoldChange = field(default_factory=HoldChange)
    stages: Stages = ONE_STAGE
    indexes: Mapping[JobKey, int] = field(default_factory=dict)

    def only(self, keys: Collection[JobKey]) -> CommitPlan:
        """Returns the plan for these jobs alone: one stage of the commit."""
        changes = tuple(action for action in self.actions.changes if action.key in keys)
        remember = tuple(
            applied
            for applied in self.run_once.remember
            if (applied.namespace, applied.job_id) in keys
        )
        return with_fields(
            self,
            actions=with_fields(self.actions, changes=changes),
            run_once=with_fields(self.run_once, remember=remember),
        )

    def without_later_stages(self) -> CommitPlan:
        """Returns the plan for what is applied at once, with the commit."""
        if not self.stages.last:
            return self
        changes = tuple(a for a in self.actions.changes if not self.stages.of(a.key))
        remember = tuple(
            applied
            for applied in self.run_once.remember
            if not self.stages.of((applied.namespace, applied.job_id))
        )
        return with_fields(
            self,
            actions=with_fields(self.actions, changes=changes),
            run_once=with_fields(self.run_once, remember=remember),
        )


@dataclass(frozen=True, slots=True)
class Trigger:
    """Why a commit is applied now. `kind` is push, webhook, poll, watch, api, retry, drift or
    revert; `reverts` is the id of the rollout that a revert takes back; `ref` is the full name of
    the ref that the commit was found at; `reason` is what a person who goes back said."""

    kind: str
    pusher: str = ""
    reverts: str = ""
    ref: str = ""
    reason: str = ""


def plan_commit(
    source: Source,
    discovery: Discovery,
    snapshot: Snapshot,
    may_delete: Collection[str] = (),
    last_applied: Mapping[JobKey, LastApplied] | None = None,
    applied_jobs: Mapping[JobKey, DesiredJob] = MappingProxyType({}),
    request: PlanRequest = NO_REQUEST,
    job_settings: JobSettings = DEFAULT_JOB_SETTINGS,
) -> CommitPlan:
    """Returns the plan of a commit against one snapshot.

    `last_applied` are the jobs of the applied commit as they were registered. A job that the new
    commit wants unchanged, and that nobody changed since, is not looked at again. Of the others,
    those that are registered exactly as wanted (nearly all, after a restart) skip admission.

    A job that runs once and that the source has recorded is not created again unless the request
    names it. A held version is not applied unless the request names it. `applied_jobs` are the jobs
    of the applied commit. A job beyond the request's rights is a problem, and is not looked at.
    """
    known_holds, failed = _held_versions(source.name, snapshot)
    held = held_jobs(discovery.jobs, (*known_holds, *failed), request)
    indexes = snapshot.jobs.modify_indexes_of_source(source.name)
    unchanged = unchanged_since_applied(discovery.jobs, last_applied or {}, indexes, held, request)
    unsure = {key: job for key, job in discovery.jobs.items() if key not in unchanged}
    keys = (set(indexes) - unchanged) | set(unsure)
    if request.only is not None:
        keys &= request.only
    registered = _registered(snapshot, source.name, keys, unsure)
    unrecorded = {} if source.status.remembers_jobs else applied_jobs
    records = run_once_records(snapshot, source.name, unrecorded)
    recorded = unchanged if source.status.remembers_jobs else frozenset()
    run_once = run_once_change(source.name, discovery.jobs, records, recorded)
    unchanged = unchanged | (finished_jobs(unsure, registered, records) - request.jobs)
    for key in unsure.keys() - request.jobs:
        wanted = with_fields(unsure[key], job=completed(unsure[key].job))
        if is_registered_as_wanted(source.name, wanted, registered.get(key)):
            unchanged.add(key)
    changed = {key: job for key, job in unsure.items() if key not in unchanged}
    refused = refused_jobs(source, request.rights, changed, registered, held)
    unchanged |= refused.keys()
    changed = {key: job for key, job in changed.items() if key not in refused}
    kept_back = {key: job for key, job in changed.items() if key in held}
    admitted, problems, warnings = _admit_all(
        {key: job for key, job in changed.items() if key not in held}, snapshot, job_settings
    )
    actions = plan_actions(
        source.name,
        admitted | kept_back,
        {key: known for key, known in registered.items() if key not in unchanged},
        narrowed_prune(source.prune, discovery.policy.prune),
        may_delete,
        unchanged=sorted(unchanged),
        adopt=source.adopt,
        held=held,
    )
    was_held = held_jobs(applied_jobs, (*known_holds, *failed))
    newest = snapshot.rollouts.get(source.status.applied_rollout)
    skipped = unapplied_jobs(newest) if newest is not None else frozenset()
    not_applied = was_held.keys() | skipped
    actions = with_fields(
        actions,
        changes=with_causes(source.name, actions.changes, applied_jobs, not_applied, request.jobs),
    )
    holds = hold_change(source.name, discovery.jobs, applied_jobs, known_holds, failed, request)
    if request.jobs:  # what else has drifted waits for the next commit
        actions = _only_asked(actions, admitted, registered, request)
        holds = HoldChange(unhold=tuple(key for key in holds.unhold if key in request.jobs))
    warnings += [_released_warning(discovery.jobs[key]) for key in actions.released]
    warnings += [
        f"{path}:1:1: this {POLICY_PATH} has no effect: only the one at the repository's root has"
        for path in sorted(discovery.without_job)
        if path.endswith(f"/{POLICY_PATH}")
    ]
    deleted = [each.registered.job for each in actions.of(JobAction.DELETE) if each.registered]
    emptied = emptied_file_problems(deleted, discovery.without_job, may_delete)
    problems = [*discovery.problems, *refused.values(), *problems, *actions.problems, *emptied]
    problems += refused_deletions(source, request.rights, actions.changes)
    problems += _missed_elsewhere(source.name, actions, applied_jobs, snapshot)
    # With a file that has no job the graph would miss jobs that are only misspelt.
    graph = NO_ORDER if discovery.problems else job_graph(discovery.jobs, discovery.policy)
    problems += graph.problems
    problems += cycle_problems(snapshot, source, discovery.policy)
    stages = ONE_STAGE if problems else _stages(graph, actions, snapshot)
    if stages.last >= MAX_STAGES:
        problems.append(
            f"cannot apply this commit in {stages.last + 1} stages: the limit is {MAX_STAGES}; let "
            "fewer jobs wait for each other in a row, or push them in several commits"
        )
    if request.jobs or request.is_revert:
        stages = Stages(must_complete=stages.must_complete)  # what a person asks for goes at once
    return CommitPlan(
        source=source,
        actions=actions,
        problems=tuple(problems),
        warnings=tuple(warnings),
        run_once=run_once,
        request=request,
        holds=holds,
        stages=stages,
        indexes=indexes,
    )


def _held_versions(
    source: str, snapshot: Snapshot
) -> tuple[Sequence[HeldVersion], Sequence[HeldVersion]]:
    """Returns the stored held versions of the source and of removed sources, and the versions that
    failed and of which no log entry says so yet."""
    known = [
        *snapshot.held_versions.known_of_source(""),
        *snapshot.held_versions.known_of_source(source),
    ]
    stored = {(each.key, each.rollout_id) for each in known}
    failed: list[HeldVersion] = []
    active = snapshot.rollouts.active(source)
    versions = snapshot.jobs.versions_of_source(source) if active else {}
    rollouts = LaterRollouts(snapshot)
    for rollout in active:
        # A version that is still registered needs no hold yet: its own rollout goes on, and tells.
        replaced = [
            job
            for job in rollout.jobs
            if versions.get((job.namespace, job.job_id)) != job.job_version
        ]
        if not replaced:
            continue
        rollout = replace(rollout, jobs=replaced)
        after, _ = judge(snapshot, rollout, now_ns=0, patience_ns=0, later=rollouts)
        later = {
            (job.namespace, job.job_id) for each in rollouts.than(rollout) for job in each.jobs
        }
        failed += [
            each
            for each in failed_versions(snapshot, rollout, after, now_ns=0)
            if each.key not in later and (each.key, rollout.id) not in stored
        ]
    return known, failed


def _only_asked(
    actions: Actions,
    admitted: Mapping[JobKey, DesiredJob],
    registered: Mapping[JobKey, RegisteredJob],
    request: PlanRequest,
) -> Actions:
    """Returns the changes of the jobs that a person asks for. One that is registered as wanted
    already is registered again."""
    changes = [each for each in actions.changes if each.key in request.jobs]
    changes += [
        Action(JobAction.UPDATE, key, admitted[key], registered[key], ChangeCause.RETRY)
        for key in actions.unchanged
        if key in request.jobs and key in admitted
    ]
    return Actions(tuple(changes), (), actions.problems)


def _missed_elsewhere(
    source: str,
    actions: Actions,
    applied_jobs: Collection[JobKey],
    snapshot: Snapshot,
) -> Iterable[str]:
    """Yields a problem for each job that the source did not have, and that another source misses:
    somebody stopped or purged it, and that source's applied commit still has its file."""
    created = {
        action.key: action.desired
        for action in actions.of(JobAction.CREATE)
        if action.key not in applied_jobs and action.desired is not None
    }
    others = snapshot.drifted_jobs.counts().keys() - {source} if created else ()
    for other in sorted(others):
        for drift in snapshot.drifted_jobs.all(other):
            wanted = created.get((drift.namespace, drift.job_id))
            if wanted is None or drift.kind not in (DriftKind.STOPPED, DriftKind.MISSING):
                continue
            yield (
                f"{wanted.path}:{wanted.line}:1: job {wanted.job.id!r} belongs to source "
                f"{other!r}, whose commit has {drift.file}, though it was stopped by hand: remove "
                "its file there"
            )


def _stages(graph: JobGraph, actions: Actions, snapshot: Snapshot) -> Stages:
    """Returns the stages of the changes. A dependency that the commit leaves as it is counts as it
    is registered now."""
    if graph is NO_ORDER:
        return ONE_STAGE
    known: dict[tuple[JobKey, WaitCondition], bool] = {}

    def is_met(key: JobKey, condition: WaitCondition) -> bool:
        if (key, condition) not in known:
            wait = JobWait(*key, condition)
            verdict = judge_registered(snapshot, wait, 0, 0, _NO_DEADLINE)
            known[key, condition] = verdict.status == JobProgress.HEALTHY
        return known[key, condition]

    upserts = [a.key for a in actions.changes if a.kind is not JobAction.DELETE]
    deletions = [a.key for a in actions.changes if a.kind is JobAction.DELETE]
    return plan_stages(graph, upserts, deletions, is_met)


def _released_warning(wanted: DesiredJob) -> str:
    return (
        f"{wanted.path}:{wanted.line}:1: job {wanted.job.id!r} was released from this source, so "
        f"its file changes nothing; `{release_command(wanted.key, '-undo')}` gives it back"
    )


def plan_between(
    source: Source,
    old: Discovery,
    new: Discovery,
    snapshot: Snapshot,
    job_settings: JobSettings = DEFAULT_JOB_SETTINGS,
) -> CommitPlan:
    """Returns the plan from one tree to another, as if exactly the jobs of `old` were registered.

    Deletions are shown and never refused. Problems of the old tree are left out.
    """
    before, _, _ = _admit_all(old.jobs, snapshot, job_settings)
    after, problems, warnings = _admit_all(new.jobs, snapshot, job_settings)
    origin = JobOrigin(source=source.name)
    registered = {
        key: RegisteredJob(replace(desired.job, origin=origin)) for key, desired in before.items()
    }
    gone = {job_id for namespace, job_id in before.keys() - after.keys()}
    actions = plan_actions(source.name, after, registered, PrunePolicy(), gone)
    problems = [*new.problems, *problems, *actions.problems]
    return CommitPlan(source, actions, tuple(problems), tuple(warnings))


def _admit_all(
    desired: Mapping[JobKey, DesiredJob], snapshot: Snapshot, job_settings: JobSettings
) -> tuple[dict[JobKey, DesiredJob], list[str], list[str]]:
    """Returns the jobs that pass the admission steps of `job run`, completed by them; the problems
    of the others; and the warnings, each with its file and line."""
    admitted: dict[JobKey, DesiredJob] = {}
    problems: list[str] = []
    warnings: list[str] = []
    rules = cluster_rules(snapshot, job_settings)
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


def _registered(
    snapshot: Snapshot, source: str, keys: Collection[JobKey], wanted: Collection[JobKey]
) -> dict[JobKey, RegisteredJob]:
    """Returns what is registered under the keys. Volume claims are looked up only for jobs that are
    not `wanted`, since only deletions ask for them."""
    known: dict[JobKey, Job] = {}
    if len(keys) >= _READ_ALL_FROM:
        known = {(job.namespace, job.id): job for job in snapshot.jobs.of_source(source)}
    sources = {each.name for each in snapshot.sources.all()}
    found: dict[JobKey, RegisteredJob] = {}
    for namespace, job_id in keys:
        key = (namespace, job_id)
        job = known.get(key) or snapshot.jobs.get(namespace, job_id)
        if job is not None:
            claims = key not in wanted and bool(snapshot.volume_claims.all(namespace, job_id))
            found[key] = RegisteredJob(job, claims, _removed_owner(job, sources))
    return found


def _removed_owner(job: Job, sources: Collection[str]) -> str:
    """Returns the source that managed the job and was removed, or ''. Earlier versions of the
    program left a removed source's name in `origin.source`."""
    if job.origin is None:
        return ""
    if job.origin.source:
        return "" if job.origin.source in sources else job.origin.source
    return job.origin.former_source
