"""What a commit does: the jobs it asks for against the jobs that are registered. Pure.

A job's identity is (namespace, id): moving a file changes nothing. A deletion happens only because
a tree that was read whole no longer names the job, within the source's prune policy; a job that
owns volume claims, or more deletions than the policy's share, must be named in the commit message.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from msgspec.structs import replace as replace_fields

from orchgit.gitops.parsing.discovery import DesiredJob, JobKey
from orchgit.jobdiff.spec import same_spec
from orchgit.model.job import Job
from orchgit.model.ownership import owner_of
from orchgit.model.rollout import JobAction
from orchgit.model.source import PrunePolicy

DELETE_TRAILER = "Orchgit-Delete"
_TRAILER = re.compile(rf"^{DELETE_TRAILER}:(.+)$", re.IGNORECASE | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class RegisteredJob:
    """A job as it is registered. `former` is the source that managed it and was removed, or ''."""

    job: Job
    has_claims: bool = False
    former: str = ""

    @property
    def source(self) -> str:
        """The source that manages the job, or ''."""
        return "" if self.former else owner_of(self.job)

    def was_released_from(self, source: str) -> bool:
        """Whether a person released the job from this source, and none has taken it over since."""
        origin = self.job.origin
        return origin is not None and not self.source and origin.released_from == source


@dataclass(frozen=True, slots=True)
class Action:
    """One thing to do. `desired` is None for a deletion, `registered` for a creation."""

    kind: JobAction
    key: JobKey
    desired: DesiredJob | None
    registered: RegisteredJob | None

    @property
    def expected_modify_index(self) -> int:
        """The compare-and-set condition: 0 means that the job must be new."""
        return self.registered.job.job_modify_index if self.registered is not None else 0


@dataclass(frozen=True, slots=True)
class Actions:
    """`problems` refuse the whole commit; `kept` are jobs that pruning being off leaves alone;
    `released` are jobs with a file that were released from the source, and are left alone too."""

    changes: tuple[Action, ...]
    unchanged: tuple[JobKey, ...]
    problems: tuple[str, ...] = ()
    kept: tuple[JobKey, ...] = ()
    released: tuple[JobKey, ...] = ()

    def of(self, kind: JobAction) -> list[Action]:
        return [action for action in self.changes if action.kind is kind]


def delete_trailers(messages: Iterable[str]) -> frozenset[str]:
    """Job names that `Orchgit-Delete:` lines give leave to delete; several may share a line."""
    return frozenset(
        name
        for message in messages
        for match in _TRAILER.finditer(message)
        for name in re.split(r"[,\s]+", match[1])
        if name
    )


def plan_actions(
    source: str,
    desired: Mapping[JobKey, DesiredJob],
    registered: Mapping[JobKey, RegisteredJob],
    prune: PrunePolicy,
    may_delete: Collection[str],
    steady: Collection[JobKey] = (),
    adopt: bool = False,
) -> Actions:
    """`steady` are jobs for which nothing is to be done; `desired` are the others. `adopt`: jobs of
    removed sources are taken over, as those that never had a source always are.

    `registered` holds every job this source manages, but for the steady ones, and every other one
    that `desired` names. `may_delete` are job ids (or `namespace/id`) of the commit's trailers.
    """
    changes: list[Action] = []
    unchanged: list[JobKey] = list(steady)
    problems: list[str] = []
    released: list[JobKey] = []
    for key, wanted in desired.items():
        known = registered.get(key)
        if known is not None and not known.job.stop and known.was_released_from(source):
            released.append(key)
            continue
        problems.extend(_foreign(source, wanted, known, adopt))
        action = _upsert(source, key, wanted, known)
        if action is None:
            unchanged.append(key)
        else:
            changes.append(action)
    gone = _gone(source, desired, registered)
    if not prune.enabled:
        return Actions(
            tuple(changes), tuple(unchanged), tuple(problems), tuple(gone), tuple(released)
        )
    owned = len(steady) + sum(1 for job in registered.values() if _managed(source, job))
    problems.extend(_unwanted_deletions(gone, registered, owned, prune, may_delete))
    if gone and not desired and not steady:
        problems.extend(_empty_tree(gone, may_delete))
    changes += [Action(JobAction.DELETE, key, None, registered[key]) for key in gone]
    return Actions(tuple(changes), tuple(unchanged), tuple(problems), released=tuple(released))


def _upsert(
    source: str, key: JobKey, wanted: DesiredJob, known: RegisteredJob | None
) -> Action | None:
    if known is None:
        return Action(JobAction.CREATE, key, wanted, None)
    if known.job.stop:
        return Action(JobAction.CREATE, key, wanted, known)
    scaled = replace(wanted, job=with_scaled_counts(wanted.job, known.job))
    if same_spec(known.job, scaled.job) and known.source == source:
        return None
    return Action(JobAction.UPDATE, key, scaled, known)


def stands(source: str, wanted: DesiredJob, known: RegisteredJob | None) -> bool:
    """Whether the job is registered by this source exactly as wanted; `wanted` is completed."""
    return (
        known is not None
        and known.source == source
        and same_spec(known.job, with_scaled_counts(wanted.job, known.job))
    )


def with_scaled_counts(wanted: Job, known: Job) -> Job:
    """A group with a scaling policy keeps the count it was scaled to, within the policy's bounds:
    the file gives only the first count."""
    groups = []
    for group in wanted.task_groups:
        before = known.group(group.name)
        policy = group.scaling
        if before is not None and policy is not None and policy.enabled:
            count = min(max(before.count, policy.min), policy.max)
            group = replace_fields(group, count=count)
        groups.append(group)
    return replace_fields(wanted, task_groups=groups)


def _foreign(
    source: str, wanted: DesiredJob, known: RegisteredJob | None, adopt: bool
) -> Iterable[str]:
    if known is None or known.job.stop:
        return
    place = f"{wanted.path}:{wanted.line}:1: job {wanted.job.id!r}"
    if known.former and not adopt:
        yield (
            f"{place} belonged to source {known.former!r}, which was removed: "
            f"`orchgit source set {source} -adopt` takes such jobs over, "
            f"`{release_command(wanted.key)}` frees this one"
        )
    if known.source not in ("", source):
        yield (
            f"{place} belongs to source {known.source!r}: free it with "
            f"`{release_command(wanted.key)}`, or remove its file there, which stops it"
        )


def release_command(key: JobKey, *options: str) -> str:
    """What a person types to release a job from its source."""
    namespace, job_id = key
    where = () if namespace == "default" else ("-namespace", namespace)
    return " ".join(("orchgit source release", *options, *where, job_id))


def _managed(source: str, known: RegisteredJob) -> bool:
    """Launched children follow their parent; stopped jobs are already gone."""
    return known.source == source and not known.job.stop and not known.job.parent_id


def _gone(
    source: str, desired: Mapping[JobKey, DesiredJob], registered: Mapping[JobKey, RegisteredJob]
) -> list[JobKey]:
    return sorted(k for k, job in registered.items() if _managed(source, job) and k not in desired)


def _named(key: JobKey, may_delete: Collection[str]) -> bool:
    return key[1] in may_delete or f"{key[0]}/{key[1]}" in may_delete


def _unwanted_deletions(
    gone: Sequence[JobKey],
    registered: Mapping[JobKey, RegisteredJob],
    owned: int,
    prune: PrunePolicy,
    may_delete: Collection[str],
) -> Iterable[str]:
    unnamed = [key for key in gone if not _named(key, may_delete)]
    for namespace, job_id in unnamed:
        if registered[namespace, job_id].has_claims:
            yield (
                f"cannot delete job {job_id!r}: it owns sticky volume claims; add the line "
                f"'{DELETE_TRAILER}: {job_id}' to the commit message to delete it"
            )
    if len(unnamed) * 100 > prune.max_share_percent * owned and len(unnamed) > 1:
        names = ", ".join(job_id for _, job_id in unnamed[:5])
        yield (
            f"cannot delete {len(unnamed)} of {owned} jobs ({names}{', ...' * (len(unnamed) > 5)})"
            f" in one commit: the limit is {prune.max_share_percent} %; add "
            f"'{DELETE_TRAILER}: <job>' lines to the commit message, or raise the prune limit"
        )


def _empty_tree(gone: Sequence[JobKey], may_delete: Collection[str]) -> Iterable[str]:
    unnamed = [job_id for namespace, job_id in gone if not _named((namespace, job_id), may_delete)]
    if unnamed:
        yield (
            "cannot apply a commit without any job file: an empty tree deletes nothing; to delete "
            f"the last jobs add '{DELETE_TRAILER}: {unnamed[0]}' lines to the commit message"
        )
