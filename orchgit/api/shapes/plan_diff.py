"""A plan's difference as clients of the API know it: with what the server itself stores."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from orchgit.jobdiff.report import DiffType, JobDiff, ObjectDiff
from orchgit.model.job import Job
from orchgit.services.identifiers import scaling_policy_id

_SCALING = "Scaling"
_LATER = ("Service", "Volume")
"""The objects of a group that stand after its scaling policy."""


def with_stored_policies(
    diff: JobDiff, registered: Job | None, policy_ids: Mapping[str, str]
) -> JobDiff:
    """Returns the report in which a group's scaling policy counts as edited unless it was sent with
    the id of the stored one, as that of a job file never is. `policy_ids`: those that were sent, by
    group."""
    if registered is None:
        return diff
    groups = list(diff.task_groups or ())
    for place, group in enumerate(groups):
        known = registered.group(group.name)
        if known is None or known.scaling is None or group.name not in policy_ids:
            continue
        names = registered.namespace, registered.id, group.name
        if policy_ids[group.name] == (known.scaling.id or scaling_policy_id(*names)):
            continue
        objects = list(group.objects or ())
        if not any(each.name == _SCALING for each in objects):
            later = (at for at, each in enumerate(objects) if each.name in _LATER)
            objects.insert(next(later, len(objects)), ObjectDiff(DiffType.EDITED, _SCALING))
        groups[place] = replace(group, type=DiffType.EDITED, objects=objects)
        diff = replace(diff, type=DiffType.EDITED)
    return replace(diff, task_groups=groups or None)
