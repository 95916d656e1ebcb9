"""What a job's changes would cause, written into the report of its differences."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from orchgit.jobdiff.report import DiffType, FieldDiff, JobDiff, TaskDiff, TaskGroupDiff
from orchgit.model.evaluation import DesiredUpdates

FORCES_CREATE = "forces create"
FORCES_DESTROY = "forces destroy"
FORCES_IN_PLACE = "forces in-place update"
FORCES_REPLACE = "forces create/destroy update"

_UPDATES = (
    ("ignore", "ignore"),
    ("create", "place"),
    ("migrate", "migrate"),
    ("destroy", "stop"),
    ("canary", "canary"),
    ("in-place update", "in_place_update"),
    ("create/destroy update", "destructive_update"),
)
_IN_PLACE_FIELDS = frozenset(("KillTimeout",))
_IN_PLACE_OBJECTS = frozenset(("Service", "Constraint", "Affinity"))


def annotated(diff: JobDiff, updates: Mapping[str, DesiredUpdates] | None = None) -> JobDiff:
    """Returns the report with the scheduler's counts by group, and what each change forces."""
    groups = [_group(group, (updates or {}).get(group.name)) for group in diff.task_groups or ()]
    return replace(diff, task_groups=groups or None)


def _group(diff: TaskGroupDiff, updates: DesiredUpdates | None) -> TaskGroupDiff:
    counts = {name: getattr(updates, field) for name, field in _UPDATES} if updates else {}
    return replace(
        diff,
        updates={name: count for name, count in counts.items() if count} or None,
        fields=[_count(each) for each in diff.fields or ()] or None,
        tasks=[
            task if task.type == DiffType.NONE else replace(task, annotations=[_forced(task, diff)])
            for task in diff.tasks or ()
        ]
        or None,
    )


def _count(field: FieldDiff) -> FieldDiff:
    if field.name != "Count" or field.type == DiffType.NONE:
        return field
    grows = int(field.new or 0) > int(field.old or 0)
    return replace(field, annotations=[FORCES_CREATE if grows else FORCES_DESTROY])


def _forced(diff: TaskDiff, group: TaskGroupDiff) -> str:
    """Returns what a change of the task forces its allocations to do."""
    if group.type == DiffType.ADDED:
        return FORCES_CREATE
    if group.type == DiffType.DELETED:
        return FORCES_DESTROY
    if diff.type in (DiffType.ADDED, DiffType.DELETED):
        return FORCES_REPLACE
    fields = any(
        each.type != DiffType.NONE and each.name not in _IN_PLACE_FIELDS
        for each in diff.fields or ()
    )
    objects = any(
        each.type != DiffType.NONE and each.name not in _IN_PLACE_OBJECTS
        for each in diff.objects or ()
    )
    return FORCES_REPLACE if fields or objects else FORCES_IN_PLACE
