"""Which versions of jobs a source holds, and how a commit changes that. Pure.

A version that failed, that `auto_revert` took back, or that belongs to a rollout which a person
reverted is held: a commit that leaves the job's file as it is does not apply it. It is held until a
commit changes the file, or a person asks for it. A version is known by its content (the file with
all that it was read with) and by its meaning (the job's specification), not by its commit: a
comment, a move or another commit's id does not make it another version.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from msgspec.structs import replace

from orchgit.gitops.commits.plan_request import NO_REQUEST, PlanRequest
from orchgit.gitops.parsing.desired import DesiredJob, JobKey
from orchgit.model.held_version import HeldVersion
from orchgit.services.jobs.spec_id import spec_id_of


@dataclass(frozen=True, slots=True)
class HoldChange:
    """Rows of the `held_versions` table that a commit's log entry writes (`hold`) and deletes
    (`unhold`)."""

    hold: tuple[HeldVersion, ...] = ()
    unhold: tuple[JobKey, ...] = ()


def is_held(wanted: DesiredJob | None, held: HeldVersion) -> bool:
    """Returns whether what a commit wants of the job is the held version; None: no such job."""
    if wanted is None or held.is_deletion:
        return wanted is None and held.is_deletion
    if wanted.content_id and wanted.content_id == held.content_id:
        return True
    return spec_id_of(wanted.job) == held.spec_id


def held_jobs(
    desired: Mapping[JobKey, DesiredJob],
    held: Iterable[HeldVersion],
    request: PlanRequest = NO_REQUEST,
) -> dict[JobKey, HeldVersion]:
    """Returns the held version of each job that a commit wants in that version."""
    return {
        each.key: each
        for each in held
        if not request.applies(each) and is_held(desired.get(each.key), each)
    }


def hold_change(
    source: str,
    desired: Mapping[JobKey, DesiredJob],
    applied: Mapping[JobKey, DesiredJob],
    known: Iterable[HeldVersion],
    failed: Iterable[HeldVersion] = (),
    request: PlanRequest = NO_REQUEST,
) -> HoldChange:
    """Returns how the held versions change with a commit that wants `desired`.

    `applied` are the jobs of the applied commit, `known` the rows of the source and of removed
    sources, `failed` versions that failed and have no row yet. A version that the commit does not
    have is forgotten if the commit changed the job's file. Otherwise git had another version
    already (a revert put it there), and the version stays barred.
    """
    rows = {each.key: each for each in known}
    taken_back = {each.key: each for each in request.hold}
    fresh = {each.key: each for each in failed}
    hold = [_taken_back(each, rows.get(each.key)) for each in request.hold]
    unhold = []
    for key, row in (rows | fresh).items():
        wanted = desired.get(key)
        if key in taken_back or (not row.source and wanted is None):
            continue  # the latter is a removed source's, and its file is not in this source
        has_version = is_held(wanted, row)
        if key in request.jobs:
            unhold.append(key)
        elif has_version or is_same_content(wanted, applied.get(key)):
            after = replace(row, source=source, wanted=has_version)
            hold += [after] if after != rows.get(key) else []
        else:
            unhold.append(key)
    return HoldChange(tuple(hold), tuple(key for key in unhold if key in rows))


def _taken_back(version: HeldVersion, known: HeldVersion | None) -> HeldVersion:
    """Returns the row of a version that a revert takes back. The same version that failed before
    keeps its first reason."""
    is_known = known is not None and (
        (known.content_id, known.spec_id) == (version.content_id, version.spec_id)
    )
    row = known if known is not None and is_known else version
    return replace(row, source=version.source, wanted=False)


def is_same_content(one: DesiredJob | None, other: DesiredJob | None) -> bool:
    """Returns whether two commits have the same job; None: no such job."""
    if one is None or other is None:
        return one is other
    if one is other or (one.content_id and one.content_id == other.content_id):
        return True
    return spec_id_of(one.job) == spec_id_of(other.job)


def held_text(held: HeldVersion) -> str:
    """Returns text like "held since c2bfbb33: failed its health check"."""
    what = "deletion held" if held.is_deletion else "held"
    return f"{what} since {held.commit_id[:8]}: {held.reason}"
