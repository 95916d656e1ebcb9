"""Whether the sources that a commit depends on are healthy at their newest commit. Pure.

A source that cannot be reached counts with the newest commit that is known of it: an outage of a
git host holds up no other source.
"""

from __future__ import annotations

from collections.abc import Iterable

from orchgit.gitops.mirrors.rules import full_ref
from orchgit.gitops.rollouts.health import Deadline, JobProgress
from orchgit.gitops.rollouts.tracker import judge_registered
from orchgit.gitops.rollouts.waiting import unapplied_jobs
from orchgit.model.repository_policy import RepositoryPolicy, WaitCondition
from orchgit.model.rollout import JobAction, JobWait, Rollout
from orchgit.model.source import Source, SourceKind
from orchgit.services.gitops.source_order import dependency_cycle
from orchgit.state.snapshot import Snapshot

_NO_DEADLINE = Deadline(patience_ns=1)
_MAX_NAMED = 3


def unready_sources(snapshot: Snapshot, names: Iterable[str]) -> str:
    """Returns why not all of these sources are healthy at their newest commit, or ''."""
    reasons = [why for name in names if (why := _why_unready(snapshot, name))]
    return "; ".join(reasons)


def _why_unready(snapshot: Snapshot, name: str) -> str:
    source = snapshot.sources.get(name)
    if source is None:
        return f"source {name} does not exist"
    status = source.status
    if not status.applied_commit:
        return f"source {name} has not applied a commit yet"
    if snapshot.rollouts.waiting(name):
        return f"source {name} has a commit that waits at its own gates"
    newest = _newest_commit(snapshot, source)
    if newest != status.applied_commit and newest not in status.quarantined:
        return f"source {name} has not applied its newest commit {newest[:8]}"
    rollout = snapshot.rollouts.get(status.applied_rollout)
    if rollout is None:
        return ""  # it was collected, long after its end
    if not rollout.is_terminal:
        return f"source {name} is {rollout.status} at commit {rollout.commit.id[:8]}"
    unhealthy = sorted(unapplied_jobs(rollout)) or _unhealthy_now(snapshot, rollout)
    if not unhealthy:
        return ""
    names = ", ".join(job_id for _, job_id in unhealthy[:_MAX_NAMED])
    more = f" and {len(unhealthy) - _MAX_NAMED} more" if len(unhealthy) > _MAX_NAMED else ""
    return f"source {name} is not healthy at commit {rollout.commit.id[:8]}: {names}{more}"


def _newest_commit(snapshot: Snapshot, source: Source) -> str:
    """Returns the newest commit that is known of the source's ref."""
    ref = full_ref(source.ref)
    if source.kind == SourceKind.BUILTIN and ref.startswith("refs/heads/"):
        branch = snapshot.git_refs.get(source.repository_name, ref)
        if branch is not None:
            return branch.object_id
    return source.status.seen_commit or source.status.applied_commit


def _unhealthy_now(snapshot: Snapshot, rollout: Rollout) -> list[tuple[str, str]]:
    """Returns the jobs of an ended rollout that were not healthy at its end, and are not now. The
    version of a job that failed is held: what runs now may be an earlier one."""
    found = []
    for job in rollout.jobs:
        if job.status == JobProgress.HEALTHY or job.action == JobAction.DELETE:
            continue
        condition = WaitCondition.COMPLETE if job.must_complete else WaitCondition.HEALTHY
        wait = JobWait(job.namespace, job.job_id, condition)
        is_held = snapshot.held_versions.get(job.namespace, job.job_id) is not None
        verdict = judge_registered(snapshot, wait, 0, 0, _NO_DEADLINE)
        if is_held or verdict.status != JobProgress.HEALTHY:
            found.append((job.namespace, job.job_id))
    return found


def cycle_problems(snapshot: Snapshot, source: Source, policy: RepositoryPolicy) -> list[str]:
    """Returns a problem if the sources that a commit's `orchgit.hcl` names depend on the commit's
    own source in turn: by their settings, or by their newest commits."""
    if not policy.depends_on_sources:
        return []
    known = {
        other.name: [*other.depends_on, *_depends_on_of_commits(snapshot, other)]
        for other in snapshot.sources.all()
    }
    problems = []
    for each in policy.depends_on_sources:
        cycle = dependency_cycle(source.name, [each.name], known)
        if cycle:
            problems.append(
                f"orchgit.hcl:{each.line}:{each.column}: sources would wait for each other: "
                f"{' -> '.join(cycle)}; remove one of these dependencies"
            )
    return problems


def _depends_on_of_commits(snapshot: Snapshot, source: Source) -> list[str]:
    """Returns the sources that `orchgit.hcl` of the source's applied and waiting commits names."""
    applied = snapshot.rollouts.get(source.status.applied_rollout)
    rollouts = [*snapshot.rollouts.waiting(source.name), *([applied] if applied else [])]
    return [
        name
        for rollout in rollouts
        if rollout.gates is not None
        for name in rollout.gates.depends_on
    ]
