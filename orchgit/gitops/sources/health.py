"""The health of a source: the worst that is to be said of it, with every reason. Pure.

Of the conditions that hold, the first of `HealthStatus` is the status, and all of them give their
reasons: a paused source whose service has lost its allocations is degraded, and says that it is
paused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from orchgit.gitops.commits.holds import held_text
from orchgit.gitops.sources.job_health import JobHealth, JobNow, judge_job_now
from orchgit.model.drift import DriftKind, JobDrift
from orchgit.model.held_version import HeldVersion
from orchgit.model.rollout import Rollout
from orchgit.model.source import Source, SourceErrorKind, SourceKind
from orchgit.model.source_health import (
    HealthReason,
    HealthStatus,
    JobCounts,
    SourceCheck,
    SourceHealth,
)
from orchgit.services.gitops.pauses import pause_text

MAX_REASONS_OF_A_STATUS = 10
_FIELDS_SHOWN = 3
_DRIFT: dict[str, str] = {
    DriftKind.CHANGED: "changed",
    DriftKind.STOPPED: "stopped",
    DriftKind.MISSING: "purged",
    DriftKind.WITHOUT_FILE: "runs without a file",
}


@dataclass(frozen=True, slots=True)
class SourceView:
    """What the state says of a source at one index, and what the leader remembers.

    `active` are the source's rollouts that have not ended, the newest first; `jobs` are the jobs
    that it owns now. `held` are the versions that the applied commit has and the cluster does not
    run, `drifted` the jobs that differ from the applied commit.
    """

    source: Source
    check: SourceCheck
    active: Sequence[Rollout] = ()
    jobs: Sequence[JobNow] = ()
    held: Sequence[HeldVersion] = ()
    drifted: Sequence[JobDrift] = ()


def judge_source(view: SourceView) -> SourceHealth:
    """Returns the source's health with the reasons, the worst first."""
    judged = [(now, judge_job_now(now)) for now in view.jobs]
    conditions = {
        HealthStatus.DEGRADED: _of_jobs(judged, HealthStatus.DEGRADED),
        HealthStatus.UNREACHABLE: _unreachable(view),
        HealthStatus.HELD: [
            *_held_commit(view),
            *(
                HealthReason(HealthStatus.HELD, held_text(each), each.namespace, each.job_id)
                for each in view.held
            ),
        ],
        HealthStatus.DRIFTED: [_drifted(each) for each in view.drifted],
        HealthStatus.PAUSED: _paused(view.source),
        HealthStatus.PENDING: _pending(view),
        HealthStatus.PROGRESSING: _progressing(view, judged),
    }
    reasons = [
        reason
        for status in HealthStatus
        for reason in _shortened(status, conditions.get(status, []))
    ]
    return SourceHealth(
        status=reasons[0].status if reasons else HealthStatus.HEALTHY,
        reasons=reasons,
        jobs=_job_counts(view, judged),
        applied_commit=view.source.status.applied_commit,
        remote_commit=view.check.remote_commit,
        difference=_difference(view),
    )


def _job_counts(view: SourceView, judged: Sequence[tuple[JobNow, JobHealth]]) -> JobCounts:
    counts = Counter(health.status for _, health in judged)
    return JobCounts(
        total=len(judged),
        healthy=counts[HealthStatus.HEALTHY],
        progressing=counts[HealthStatus.PROGRESSING],
        degraded=counts[HealthStatus.DEGRADED],
        held=len(view.held),
        drifted=len(view.drifted),
    )


def _of_jobs(
    judged: Iterable[tuple[JobNow, JobHealth]], status: HealthStatus
) -> list[HealthReason]:
    return [
        HealthReason(status, health.text, now.job.namespace, now.job.job_id)
        for now, health in judged
        if health.status is status
    ]


def _drifted(drift: JobDrift) -> HealthReason:
    what = _DRIFT.get(drift.kind, drift.kind)
    by = f" by {drift.changed_by}" if drift.changed_by else ""
    fields = ", ".join(each.path for each in drift.fields[:_FIELDS_SHOWN])
    where = f": {fields}" if fields else ""
    note = f" ({drift.note})" if drift.note else ""
    return HealthReason(
        HealthStatus.DRIFTED, f"{what}{by}{where}{note}", drift.namespace, drift.job_id
    )


def _shortened(status: HealthStatus, reasons: Sequence[HealthReason]) -> Iterable[HealthReason]:
    yield from reasons[:MAX_REASONS_OF_A_STATUS]
    more = len(reasons) - MAX_REASONS_OF_A_STATUS
    if more > 0:
        yield HealthReason(status, f"and {more} more job{'s' * (more != 1)}")


def _unreachable(view: SourceView) -> list[HealthReason]:
    """A paused source asks no remote: its last error says nothing of now."""
    status, check = view.source.status, view.check
    if view.source.paused or error_kind(view.source) != SourceErrorKind.UNREACHABLE:
        return []
    tries = f" ({check.failures} tries failed)" if check.failures > 1 else ""
    return [HealthReason(HealthStatus.UNREACHABLE, status.last_error + tries)]


def error_kind(source: Source) -> SourceErrorKind:
    """Returns what the source's last error keeps it from. Servers of earlier versions recorded only
    the text."""
    status = source.status
    if not status.last_error:
        return SourceErrorKind.NONE
    if status.error_kind:
        return SourceErrorKind(status.error_kind)
    is_refusal = status.last_error.startswith("refused commit")
    return SourceErrorKind.HELD if is_refusal else SourceErrorKind.UNREACHABLE


def _held_commit(view: SourceView) -> list[HealthReason]:
    source, remote = view.source, view.check.remote_commit
    if error_kind(source) == SourceErrorKind.HELD:
        return [HealthReason(HealthStatus.HELD, _at(source) + source.status.last_error)]
    if remote and remote in source.status.quarantined:
        return [
            HealthReason(
                HealthStatus.HELD,
                f"{_at(source)}commit {remote[:8]} was reverted: push a commit on top of it",
            )
        ]
    return []


def _at(source: Source) -> str:
    applied = source.status.applied_commit
    return f"stays at commit {applied[:8]}: " if applied else "no commit is applied: "


def _paused(source: Source) -> list[HealthReason]:
    return [HealthReason(HealthStatus.PAUSED, pause_text(source))] if source.paused else []


def _pending(view: SourceView) -> list[HealthReason]:
    source, waiting = view.source, _waiting(view)
    if waiting:
        return waiting
    if source.status.applied_commit or source.status.last_error or source.paused:
        return []
    if source.kind == SourceKind.BUILTIN:
        text = f"no commit yet: push one to /git/{source.repository_name}.git"
    else:
        text = "no commit yet"
    return [HealthReason(HealthStatus.PENDING, text)]


def _waiting(view: SourceView) -> list[HealthReason]:
    """Returns the newest rollout that waits for a person or a window."""
    for rollout in view.active:
        if rollout.is_waiting:
            why = rollout.status_description or rollout.status.replace("_", " ")
            text = f"commit {rollout.commit.id[:8]} waits: {why}"
            return [HealthReason(HealthStatus.PENDING, text)]
    return []


def _progressing(
    view: SourceView, judged: Sequence[tuple[JobNow, JobHealth]]
) -> list[HealthReason]:
    reasons = [
        HealthReason(
            HealthStatus.PROGRESSING,
            f"rollout {rollout.id[:8]} of commit {rollout.commit.id[:8]}: "
            f"{rollout.status_description or 'applied'}",
        )
        for rollout in view.active
        if not rollout.is_waiting
    ]
    return reasons + _of_jobs(judged, HealthStatus.PROGRESSING)


def _difference(view: SourceView) -> str:
    """Returns why the applied commit is not the remote's."""
    source, remote = view.source, view.check.remote_commit
    if not remote or remote == source.status.applied_commit:
        return ""
    for found in (_paused(source), _held_commit(view), _waiting(view)):
        if found:
            return found[0].text
    return f"commit {remote[:8]} is being applied"
