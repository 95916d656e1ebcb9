"""The trace of an ended rollout: from its commit to running tasks, built from the state. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field

from orchgit.model.allocation import Allocation, ClientStatus
from orchgit.model.base import NS_PER_S, ns_of_datetime
from orchgit.model.evaluation import Evaluation
from orchgit.model.rollout import JobAction, Rollout, RolloutJob, RolloutStatus
from orchgit.state.snapshot import Snapshot

MAX_JOBS = 500
MAX_ALLOCATIONS_PER_JOB = 50
_OLDEST_COMMIT_NS = 3600 * NS_PER_S
"""A commit that was made longer before its rollout waited with its author, not here."""


@dataclass(frozen=True, slots=True)
class TraceSpan:
    """One piece of work; `key` names it within its trace, `parent` is the key of what it is part
    of. Times are Unix nanoseconds."""

    key: str
    parent: str
    name: str
    start_ns: int
    end_ns: int
    attributes: dict[str, str | int | bool] = field(default_factory=dict)
    error: str = ""

    @property
    def id(self) -> int:
        return span_id(self.key)


@dataclass(frozen=True, slots=True)
class RolloutTrace:
    """`id` is the rollout's own, so that two leaders that send a trace send the same one."""

    id: int
    spans: tuple[TraceSpan, ...]


def span_id(key: str) -> int:
    """Returns the 64-bit id of a span; the same for the same key."""
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big") or 1


def trace_of(snapshot: Snapshot, rollout: Rollout) -> RolloutTrace:
    """Returns the spans of a rollout that has ended. At most `MAX_JOBS` jobs are in it, and
    `MAX_ALLOCATIONS_PER_JOB` allocations of each."""
    spans = tuple(_spans(snapshot, rollout))
    return RolloutTrace(int(rollout.id.replace("-", ""), 16), spans)


def _spans(snapshot: Snapshot, rollout: Rollout) -> Iterator[TraceSpan]:
    root = rollout.id
    created_ns = rollout.create_time_ns or rollout.applied_time_ns
    committed_ns = rollout.commit.time_ns
    is_recent = 0 < committed_ns < created_ns < committed_ns + _OLDEST_COMMIT_NS
    begin_ns = committed_ns if is_recent else created_ns
    end_ns = max(rollout.finished_time_ns, rollout.applied_time_ns, begin_ns)
    wrong = rollout.status != RolloutStatus.HEALTHY
    yield TraceSpan(
        root,
        "",
        f"rollout {rollout.source}",
        begin_ns,
        end_ns,
        {
            "orchgit.source": rollout.source,
            "orchgit.rollout": rollout.id,
            "orchgit.trigger": rollout.trigger,
            "orchgit.status": rollout.status,
            "vcs.ref.head.revision": rollout.commit.id,
            "vcs.ref.head.name": rollout.ref,
        },
        (rollout.status_description or rollout.status) if wrong else "",
    )
    if is_recent:
        yield TraceSpan(f"{root} commit", root, "commit until found", committed_ns, created_ns)
    if rollout.applied_time_ns > created_ns:
        yield TraceSpan(
            f"{root} gates", root, "plan and gates", created_ns, rollout.applied_time_ns
        )
    for job in rollout.jobs[:MAX_JOBS]:
        if job.action != JobAction.UNCHANGED:
            yield from _job_spans(snapshot, rollout, job, end_ns)


def _job_spans(
    snapshot: Snapshot, rollout: Rollout, job: RolloutJob, rollout_end_ns: int
) -> Iterator[TraceSpan]:
    key = f"{rollout.id} {job.namespace}/{job.job_id}"
    begin_ns = job.applied_time_ns or rollout.applied_time_ns
    if not begin_ns:
        return  # Its stage was never applied.
    inner: list[TraceSpan] = []
    evaluation = snapshot.evaluations.get(job.eval_id) if job.eval_id else None
    if evaluation is not None:
        inner.append(_evaluation_span(key, evaluation))
    if job.action != JobAction.DELETE:
        placed = [
            allocation
            for allocation in snapshot.allocations.of_job(job.namespace, job.job_id)
            if allocation.job_version == job.job_version and allocation.create_time_ns >= begin_ns
        ]
        for allocation in placed[:MAX_ALLOCATIONS_PER_JOB]:
            inner += _allocation_spans(key, allocation)
    end_ns = max((span.end_ns for span in inner), default=rollout_end_ns)
    well = job.status in ("healthy", "complete", "applied", "unchanged")
    yield TraceSpan(
        key,
        rollout.id,
        f"job {job.job_id}",
        begin_ns,
        max(begin_ns, end_ns),
        {
            "orchgit.namespace": job.namespace,
            "orchgit.job": job.job_id,
            "orchgit.job.version": job.job_version,
            "orchgit.job.action": job.action,
            "orchgit.job.status": job.status,
            "orchgit.file": f"{job.file}:{job.line}" if job.file else "",
        },
        "" if well else job.description or job.status,
    )
    yield from inner


def _evaluation_span(parent: str, evaluation: Evaluation) -> TraceSpan:
    return TraceSpan(
        f"{parent} evaluation",
        parent,
        "evaluation",
        evaluation.create_time_ns,
        max(evaluation.create_time_ns, evaluation.modify_time_ns),
        {"orchgit.evaluation": evaluation.id, "orchgit.evaluation.status": evaluation.status},
        evaluation.status_description if evaluation.status == "failed" else "",
    )


def _allocation_spans(parent: str, allocation: Allocation) -> Iterator[TraceSpan]:
    """Yields the allocation, from its placement until its last task runs, and each task's start."""
    key = f"{parent} {allocation.id}"
    tasks = {
        name: ns_of_datetime(state.started_at)
        for name, state in (allocation.task_states or {}).items()
        if state.started_at is not None
    }
    status = allocation.deployment_status
    healthy_ns = ns_of_datetime(status.timestamp) if status and status.timestamp else 0
    begin_ns = allocation.create_time_ns
    end_ns = max((begin_ns, healthy_ns, *tasks.values()))
    failed = allocation.client_status in (ClientStatus.FAILED, ClientStatus.LOST)
    yield TraceSpan(
        key,
        parent,
        f"allocation {allocation.name}",
        begin_ns,
        end_ns,
        {
            "orchgit.allocation": allocation.id,
            "orchgit.node": allocation.node_id,
            "orchgit.task_group": allocation.task_group,
            "orchgit.allocation.status": allocation.client_status,
        },
        (allocation.client_description or allocation.client_status) if failed else "",
    )
    for name, started_ns in tasks.items():
        yield TraceSpan(
            f"{key} {name}", key, f"start task {name}", begin_ns, max(begin_ns, started_ns)
        )
