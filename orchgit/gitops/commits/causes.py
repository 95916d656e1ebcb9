"""Why each job of a plan changes, and what people changed by hand since the last commit. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from orchgit.gitops.commits.actions import (
    Action,
    HandChange,
    RegisteredJob,
    is_registered_as_wanted,
)
from orchgit.gitops.commits.holds import is_same_content
from orchgit.gitops.parsing.desired import DesiredJob, JobKey
from orchgit.jobdiff.compare import diff_jobs
from orchgit.jobdiff.report import DiffType, FieldDiff, JobDiff, ObjectDiff
from orchgit.model.job import Job
from orchgit.model.ownership import runs_once
from orchgit.model.rollout import ChangeCause
from orchgit.services.jobs.admission import completed

MAX_FIELDS = 20
"""How many differing fields of one job are named."""


def with_causes(
    source: str,
    actions: Iterable[Action],
    applied: Mapping[JobKey, DesiredJob],
    not_applied: Collection[JobKey],
    asked: Collection[JobKey] = (),
) -> tuple[Action, ...]:
    """Returns the actions, each with its cause and with what it overwrites.

    `applied` are the jobs of the applied commit, `not_applied` those of them that the source held
    or skipped, so that no difference from them is a person's. `asked` are jobs that a person asked
    for.
    """
    return tuple(
        replace(
            action,
            cause=ChangeCause.COMMIT
            if action.key in not_applied and action.key not in asked
            else _cause(source, action, applied, asked),
            by_hand=None
            if action.key in not_applied
            else hand_change(source, applied.get(action.key), action.registered),
        )
        for action in actions
    )


def _cause(
    source: str, action: Action, applied: Mapping[JobKey, DesiredJob], asked: Collection[JobKey]
) -> ChangeCause:
    if action.key in asked:
        return ChangeCause.RETRY
    if not is_same_content(action.desired, applied.get(action.key)):
        return ChangeCause.COMMIT
    known = action.registered
    if known is not None and not known.job.stop and (known.source != source or not action.desired):
        return ChangeCause.RELEASE
    return ChangeCause.DRIFT


def hand_change(
    source: str, wanted: DesiredJob | None, known: RegisteredJob | None
) -> HandChange | None:
    """Returns how a job of the source differs from what the applied commit wants; None if it does
    not. A job that runs once and is over is as it should be."""
    if wanted is None or (known is not None and known.source not in ("", source)):
        return None
    if known is None or known.job.stop:
        if runs_once(wanted.job):
            return None
        version = known.job.version if known is not None else -1
        return HandChange(version, is_stopped=True, by=_author(known))
    finished = replace(wanted, job=completed(wanted.job))
    if known.source != source or is_registered_as_wanted(source, finished, known):
        return None
    fields = changed_fields(finished.job, known.job)
    return HandChange(known.job.version, fields=fields, by=_author(known))


def _author(known: RegisteredJob | None) -> str:
    """Returns who made the registered version by hand and how, like "scale by ada (claimed)"."""
    origin = known.job.origin if known is not None else None
    change = origin.changed_by if origin is not None else None
    if known is None or change is None or change.version != known.job.version:
        return ""
    return f"{change.via} by {change.text}"


def hand_change_text(change: HandChange) -> str:
    """Returns text like "version 4, changed by hand (scale by ada): TaskGroups[web].Count"."""
    by = f" ({change.by})" if change.by else ""
    if change.version < 0:
        return "a purge by hand"
    if change.is_stopped:
        return f"version {change.version}, stopped by hand{by}"
    return f"version {change.version}, changed by hand{by}: {', '.join(change.fields)}"


def changed_fields(old: Job, new: Job) -> tuple[str, ...]:
    """Returns the names of the fields that differ, like `TaskGroups[web].Count`; at most 20."""
    return tuple(sorted(set(_names(diff_jobs(old, new, contextual=False)))))[:MAX_FIELDS]


def _names(diff: JobDiff) -> Iterator[str]:
    yield from _of_fields(diff.fields, "")
    yield from _of_objects(diff.objects, "")
    for group in diff.task_groups or ():
        place = f"TaskGroups[{group.name}]"
        if group.type in (DiffType.ADDED, DiffType.DELETED):
            yield place
            continue
        yield from _of_fields(group.fields, f"{place}.")
        yield from _of_objects(group.objects, f"{place}.")
        for task in group.tasks or ():
            inside = f"{place}.Tasks[{task.name}]"
            if task.type in (DiffType.ADDED, DiffType.DELETED):
                yield inside
                continue
            yield from _of_fields(task.fields, f"{inside}.")
            yield from _of_objects(task.objects, f"{inside}.")


def _of_fields(fields: Iterable[FieldDiff] | None, prefix: str) -> Iterator[str]:
    for each in fields or ():
        if each.type != DiffType.NONE:
            yield f"{prefix}{each.name}"


def _of_objects(objects: Iterable[ObjectDiff] | None, prefix: str) -> Iterator[str]:
    for each in objects or ():
        yield from _of_fields(each.fields, f"{prefix}{each.name}.")
        yield from _of_objects(each.objects, f"{prefix}{each.name}.")
