"""Which jobs a commit creates, updates and deletes: desired against registered jobs. Pure.

A job's identity is (namespace, id), so moving a file changes nothing. A job is deleted only when a
tree that was read whole no longer names it, within the source's prune policy: by default the commit
message must name a deleted job that owns volume claims, and all deletions beyond a share.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from msgspec.structs import replace as replace_fields

from orchgit.gitops.commits.deletions import deletion_problems
from orchgit.gitops.commits.release import release_command
from orchgit.gitops.parsing.desired import DesiredJob, JobKey
from orchgit.jobdiff.spec import bare_spec, same_spec
from orchgit.model.held_version import HeldVersion
from orchgit.model.job import Job
from orchgit.model.ownership import owner_of
from orchgit.model.rollout import ChangeCause, JobAction
from orchgit.model.source import PrunePolicy


@dataclass(frozen=True, slots=True)
class RegisteredJob:
    """A job as it is registered. `has_claims`: it owns sticky volume claims. `removed_owner` is the
    source that managed it and was removed, or ''."""

    job: Job
    has_claims: bool = False
    removed_owner: str = ""

    @property
    def source(self) -> str:
        """The source that manages the job, or ''."""
        return "" if self.removed_owner else owner_of(self.job)

    def was_released_from(self, source: str) -> bool:
        """Returns whether a person released the job from this source and no source owns it now."""
        origin = self.job.origin
        return origin is not None and not self.source and origin.released_from == source


@dataclass(frozen=True, slots=True)
class HandChange:
    """How a job differs from what the applied commit wants. `version` is the registered version, -1
    if the job is not registered any more; `fields` are the names of what differs. `by` says who
    changed the job and how, as far as it is known."""

    version: int
    is_stopped: bool = False
    fields: tuple[str, ...] = ()
    by: str = ""


@dataclass(frozen=True, slots=True)
class Action:
    """One change of one job. `desired` is None for a deletion, `registered` for a new job.

    `by_hand` says what people changed of the job since the applied commit, which the action
    overwrites.
    """

    kind: JobAction
    key: JobKey
    desired: DesiredJob | None
    registered: RegisteredJob | None
    cause: ChangeCause = ChangeCause.COMMIT
    by_hand: HandChange | None = None

    @property
    def expected_modify_index(self) -> int:
        """The job's modify index for compare-and-set; 0: no such job may exist."""
        return self.registered.job.job_modify_index if self.registered is not None else 0


@dataclass(frozen=True, slots=True)
class Actions:
    """What a commit does to each job.

    Any of `problems` refuses the whole commit. `kept` are jobs without a file that stay because the
    source does not prune; `released` are jobs with a file that were released from the source, and
    stay as they are. `held` are versions that the commit has and does not apply.
    """

    changes: tuple[Action, ...]
    unchanged: tuple[JobKey, ...]
    problems: tuple[str, ...] = ()
    kept: tuple[JobKey, ...] = ()
    released: tuple[JobKey, ...] = ()
    held: tuple[HeldVersion, ...] = ()

    def of(self, kind: JobAction) -> list[Action]:
        """Returns the changes of one kind."""
        return [action for action in self.changes if action.kind is kind]


def plan_actions(
    source: str,
    desired: Mapping[JobKey, DesiredJob],
    registered: Mapping[JobKey, RegisteredJob],
    prune: PrunePolicy,
    may_delete: Collection[str],
    unchanged: Collection[JobKey] = (),
    adopt: bool = False,
    held: Mapping[JobKey, HeldVersion] = MappingProxyType({}),
) -> Actions:
    """Returns what to do so that the source's registered jobs become the desired ones.

    `unchanged` are further jobs of the source for which nothing is to be done. `registered` holds
    the source's other jobs, and every job that `desired` names. `may_delete` are the job ids (or
    `namespace/id`) of the commit's `Orchgit-Delete:` lines. With `adopt` the source takes over jobs
    of removed sources; jobs that never had a source are always taken over. A job in `held` stays
    as it is registered, and becomes the source's if it was not.
    """
    changes: list[Action] = []
    same: list[JobKey] = list(unchanged)
    problems: list[str] = []
    released: list[JobKey] = []
    kept_back: list[HeldVersion] = []
    for key, wanted in desired.items():
        known = registered.get(key)
        if known is not None and known.was_released_from(source):
            released.append(key)
            continue
        problems.extend(_ownership_problems(source, wanted, known, adopt))
        if key in held:
            kept_back.append(held[key])
            action = _takeover(source, key, wanted, known)
            changes += [action] if action is not None else []
            continue
        action = _upsert(source, key, wanted, known)
        if action is None:
            same.append(key)
        else:
            changes.append(action)
    # Launched children follow their parent; stopped jobs are gone already.
    managed = [
        key
        for key, known in registered.items()
        if known.source == source and not known.job.stop and not known.job.parent_id
    ]
    gone = sorted(key for key in managed if key not in desired)
    kept_back += [held[key] for key in gone if key in held]
    gone = [key for key in gone if key not in held]
    if not prune.enabled:
        return Actions(
            changes=tuple(changes),
            unchanged=tuple(same),
            problems=tuple(problems),
            kept=tuple(gone),
            released=tuple(released),
            held=tuple(kept_back),
        )
    problems += deletion_problems(
        source,
        gone,
        [key for key in gone if registered[key].has_claims],
        may_delete,
        prune,
        job_count=len(unchanged) + len(managed),
        is_empty=not desired and not unchanged,
    )
    changes += [Action(JobAction.DELETE, key, None, registered[key]) for key in gone]
    return Actions(
        changes=tuple(changes),
        unchanged=tuple(same),
        problems=tuple(problems),
        released=tuple(released),
        held=tuple(kept_back),
    )


def _upsert(
    source: str, key: JobKey, wanted: DesiredJob, known: RegisteredJob | None
) -> Action | None:
    if known is None or known.job.stop:
        return Action(JobAction.CREATE, key, wanted, known)
    scaled = replace(wanted, job=with_scaled_counts(wanted.job, known.job))
    if same_spec(known.job, scaled.job) and known.source == source:
        return None
    return Action(JobAction.UPDATE, key, scaled, known)


def _takeover(
    source: str, key: JobKey, wanted: DesiredJob, known: RegisteredJob | None
) -> Action | None:
    """Returns the change that makes the source the owner of a job whose spec stays as it is."""
    if known is None or known.job.stop or known.source == source:
        return None
    return Action(JobAction.UPDATE, key, replace(wanted, job=bare_spec(known.job)), known)


def is_registered_as_wanted(source: str, wanted: DesiredJob, known: RegisteredJob | None) -> bool:
    """Returns whether this source registered the job exactly as wanted. `wanted` has its defaults
    filled in, as admission does."""
    return (
        known is not None
        and known.source == source
        and same_spec(known.job, with_scaled_counts(wanted.job, known.job))
    )


def with_scaled_counts(wanted: Job, known: Job) -> Job:
    """Returns `wanted` with the registered count of each group that has an enabled scaling policy,
    within the policy's bounds: the file gives such a group only its first count."""
    groups = []
    for group in wanted.task_groups:
        before = known.group(group.name)
        policy = group.scaling
        if before is not None and policy is not None and policy.enabled:
            count = min(max(before.count, policy.min), policy.max)
            group = replace_fields(group, count=count)
        groups.append(group)
    return replace_fields(wanted, task_groups=groups)


def _ownership_problems(
    source: str, wanted: DesiredJob, known: RegisteredJob | None, adopt: bool
) -> Iterable[str]:
    if known is None or known.job.stop:
        return
    place = f"{wanted.path}:{wanted.line}:1: job {wanted.job.id!r}"
    if known.removed_owner and not adopt:
        yield (
            f"{place} belonged to source {known.removed_owner!r}, which was removed: "
            f"`orchgit source set {source} -adopt` takes such jobs over, "
            f"`{release_command(wanted.key)}` frees this one"
        )
    if known.source not in ("", source):
        yield (
            f"{place} belongs to source {known.source!r}: free it with "
            f"`{release_command(wanted.key)}`, or remove its file there, which stops it"
        )
