"""The jobs of the last applied commit, cached: most of the next commit needs no look. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from orchgit.gitops.commits.plan_request import PlanRequest
from orchgit.gitops.parsing.desired import DesiredJob, JobKey


@dataclass(frozen=True, slots=True)
class LastApplied:
    """A job as the last applied commit wanted it, and the index at which it was registered so."""

    desired: DesiredJob
    job_modify_index: int


def last_applied_jobs(
    desired: Mapping[JobKey, DesiredJob],
    before: Mapping[JobKey, LastApplied],
    unchanged: Mapping[JobKey, int],
    changed: Mapping[JobKey, int],
    unknown: Collection[JobKey],
) -> dict[JobKey, LastApplied]:
    """Returns what to cache of a commit that was applied on top of `before`. Pure.

    `changed` are the modify indexes with which the commit registered jobs, `unchanged` those at
    which other jobs were found to be as wanted. Of a job in neither, what was known of the same
    file still holds, unless the job is in `unknown`.
    """
    found: dict[JobKey, LastApplied] = {}
    for key, job in desired.items():
        known = before.get(key)
        index = changed.get(key) if key in unknown else unchanged.get(key)
        if known is not None and known.desired is job and key not in unknown:
            same = index is None or known.job_modify_index == index
            found[key] = known if same else LastApplied(job, index or 0)
        elif index is not None:
            found[key] = LastApplied(job, index)
    return found


def unchanged_since_applied(
    desired: Mapping[JobKey, DesiredJob],
    last_applied: Mapping[JobKey, LastApplied],
    indexes: Mapping[JobKey, int],
    held: Collection[JobKey],
    request: PlanRequest,
) -> set[JobKey]:
    """Returns the jobs that need no look: the applied commit wanted them so, and nobody changed
    them since; and those that the request leaves out."""
    unchanged = {
        key
        for key, job in desired.items()
        if (known := last_applied.get(key)) is not None
        and known.desired is job
        and key not in held
        and key not in request.jobs
        and indexes.get(key) == known.job_modify_index
    }
    if request.only is not None:
        unchanged |= desired.keys() - request.only
    return unchanged
