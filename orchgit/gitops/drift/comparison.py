"""Whether a job has drifted: what its source's applied commit wants against what is registered.
Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from msgspec.structs import replace

from orchgit.gitops.commits.actions import with_scaled_counts
from orchgit.gitops.drift.differences import compile_ignored, differences, shown_fields
from orchgit.gitops.drift.differences import without_ignored as kept
from orchgit.gitops.parsing.desired import DesiredJob, JobKey
from orchgit.gitops.parsing.each_commit import COMMIT_META
from orchgit.jobdiff.spec import same_spec
from orchgit.model.deployment import Deployment
from orchgit.model.drift import DriftField, DriftKind, JobDrift
from orchgit.model.job import ChangedBy, Job
from orchgit.model.ownership import owner_of, runs_once
from orchgit.model.source import DriftAction, Source
from orchgit.scheduler.auto_revert import ROLLING_BACK
from orchgit.services.jobs.admission import completed

AUTO_REVERT = "auto_revert"
SETTINGS = "settings"
UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class JobFacts:
    """What is known of one job.

    `wanted` is the job as the applied commit of the source has it, None if it has no file of it;
    `registered` is the current version. `recorded` is the drift that is recorded. `auto_reverted`:
    the server made the current version because the deployment of the one before it failed.
    `is_held`: the source leaves the job as it is on purpose: its version is held, or its turn has
    not come.
    """

    wanted: DesiredJob | None
    registered: Job | None
    recorded: JobDrift | None = None
    auto_reverted: bool = False
    is_held: bool = False


def job_drift(source: Source, key: JobKey, facts: JobFacts, now_ns: int) -> JobDrift | None:
    """Returns how the job differs from what the source's applied commit wants, None if it does not.

    The drift keeps the time since when, and the note, of the one that is recorded, if that is
    about the same version.
    """
    kind = _kind(source, facts)
    if facts.is_held or kind is None:
        return None
    fields: list[DriftField] = []
    more = 0
    if kind is DriftKind.CHANGED:
        assert facts.wanted is not None
        assert facts.registered is not None
        found = differences(comparable(facts.wanted, facts.registered), facts.registered)
        relevant = kept(found, compile_ignored(source.drift.ignore))
        is_unowned = owner_of(facts.registered) != source.name
        if found and not relevant and not is_unowned:
            return None
        fields, more = shown_fields(relevant, source.variables)
        if is_unowned:
            fields.append(DriftField("source", source.name, ""))
    return _recorded_since(
        source,
        key,
        facts,
        JobDrift(*key, source.name, kind, fields=fields, more_fields=more),
        now_ns,
    )


def comparable(wanted: DesiredJob, registered: Job) -> Job:
    """Returns the job as its file says, with what is not the file's to say as it is registered: the
    counts of scaling policies, and the commit with which a hook last ran."""
    job = with_scaled_counts(completed(wanted.job), registered)
    ran_with = (registered.meta or {}).get(COMMIT_META)
    if ran_with and COMMIT_META in (job.meta or {}):
        job = replace(job, meta={**(job.meta or {}), COMMIT_META: ran_with})
    return job


def _kind(source: Source, facts: JobFacts) -> DriftKind | None:
    """Compares without looking at ignored paths."""
    wanted, job = facts.wanted, facts.registered
    owner = owner_of(job)
    if job is not None and job.parent_id:
        return None  # children follow their parent
    if wanted is None:
        is_kept = not source.prune.enabled or job is None or job.stop
        return None if is_kept or owner != source.name else DriftKind.WITHOUT_FILE
    if job is None:
        return None if runs_once(wanted.job) else DriftKind.MISSING
    was_released = job.origin is not None and not owner and job.origin.released_from == source.name
    if owner not in ("", source.name) or was_released:
        return None
    if job.stop:
        # A job that runs once and was stopped has done what it will do.
        return None if runs_once(wanted.job) else DriftKind.STOPPED
    is_same = owner == source.name and same_spec(job, comparable(wanted, job))
    return None if is_same else DriftKind.CHANGED


def _recorded_since(
    source: Source, key: JobKey, facts: JobFacts, drift: JobDrift, now_ns: int
) -> JobDrift:
    """Adds where the job's file is, who changed the job, and since when it differs."""
    job, recorded = facts.registered, facts.recorded
    version = job.version if job is not None else recorded.job_version if recorded else 0
    by, via, at_ns = _author(facts)
    same = recorded is not None and (recorded.kind, recorded.job_version) == (drift.kind, version)
    origin = job.origin if job is not None else None
    return replace(
        drift,
        file=facts.wanted.path if facts.wanted else origin.file if origin else "",
        line=facts.wanted.line if facts.wanted else origin.line if origin else 0,
        commit_id=source.status.applied_commit,
        job_version=version,
        changed_by=by,
        changed_via=via,
        since_ns=recorded.since_ns if recorded is not None else at_ns or now_ns,
        note=_kept_note(recorded, source.drift.action) if same else "",
    )


def _kept_note(recorded: JobDrift | None, action: str) -> str:
    """Returns the recorded note, unless it is about another policy than the source has now."""
    others = {DriftAction.HEAL.value: "not adopted", DriftAction.ADOPT.value: "not healed"}
    if recorded is None or action not in others or recorded.note.startswith(others[action]):
        return ""
    return recorded.note


def _author(facts: JobFacts) -> tuple[str, str, int]:
    """Returns who changed the job, by what, and when in Unix nanoseconds; "" and 0 if unknown."""
    job, recorded = facts.registered, facts.recorded
    if job is None:
        # The job's own record is gone; that of its purge, or of what came before it, is not.
        by = recorded.changed_by if recorded else ""
        return by, recorded.changed_via if recorded else UNKNOWN, 0
    change = change_by_hand(job)
    if change is not None:
        return change.text, change.via, change.time_ns
    if facts.auto_reverted:
        return "the server", AUTO_REVERT, job.submit_time_ns
    return "", UNKNOWN, 0


def of_settings(drift: JobDrift, job: Job | None, registered: int | None) -> JobDrift:
    """Returns the drift as one of the source's settings if the source itself registered this
    version: its files mean another job now. `registered` is the version that it registered."""
    if job is None or job.stop or drift.kind != DriftKind.CHANGED or job.version != registered:
        return drift
    return replace(drift, changed_via=SETTINGS)


def was_auto_reverted(job: Job, deployments: Iterable[Deployment]) -> bool:
    """Returns whether the server made this version because a deployment of the job failed."""
    return change_by_hand(job) is None and any(
        each.job_version == job.version - 1
        and each.job_create_index == job.create_index
        and ROLLING_BACK in each.status_description
        for each in deployments
    )


def change_by_hand(job: Job) -> ChangedBy | None:
    """Returns who made exactly this version of the job by hand, or None."""
    change = job.origin.changed_by if job.origin is not None else None
    return change if change is not None and change.version == job.version else None
