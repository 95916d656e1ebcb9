"""Which of two to keep when an allocation's node comes back and it was replaced meanwhile."""

from __future__ import annotations

from collections.abc import Callable

from orchgit.model.allocation import Allocation, ClientStatus, DesiredStatus, TaskState
from orchgit.model.base import ns_of_datetime
from orchgit.model.group import TaskGroup
from orchgit.model.job import Job
from orchgit.scheduler.reconcile.changes import (
    NOT_NEEDED,
    RECONNECTED,
    RESCHEDULED,
    Allocs,
    Stop,
    alloc_set,
    without,
)
from orchgit.scheduler.reconcile.classify import GroupOf

_FAR_FUTURE_NS = 2**63


def reconcile_reconnecting(
    reconnecting: Allocs, everything: Allocs, job: Job, group_of: GroupOf
) -> tuple[Allocs, list[Stop]]:
    """(those that go on and are recorded as reconnected, stops of those and of replacements)."""
    kept: Allocs = {}
    stops: dict[str, Stop] = {}
    for alloc_id, original in reconnecting.items():
        if original.client_status == ClientStatus.FAILED:
            stops[alloc_id] = Stop(original, RESCHEDULED)
        elif _is_unwanted(original, job):
            stops[alloc_id] = Stop(original, NOT_NEEDED)
        else:
            replacements = _replacements(original, everything)
            group = group_of(original)
            strategy = group.disconnect.reconcile if group and group.disconnect else ""
            if any(_keeps_replacement(original, r, strategy, group) for r, _ in replacements):
                stops[alloc_id] = Stop(original, NOT_NEEDED)
                continue
            kept[alloc_id] = original
            for replacement, description in replacements:
                stops[replacement.id] = Stop(replacement, description)
    stopped = alloc_set([stop.allocation for stop in stops.values()])
    # A replacement may come back as well, only to be stopped for the one that it replaced.
    return without(kept, stopped), list(stops.values())


def _is_unwanted(original: Allocation, job: Job) -> bool:
    transition = original.desired_transition
    return (
        original.desired_status != DesiredStatus.RUN
        or bool(transition.migrate or transition.reschedule or transition.force_reschedule)
        or original.job_version < job.version
    )


def _replacements(original: Allocation, everything: Allocs) -> list[tuple[Allocation, str]]:
    """The allocations along the chain of replacements that the servers did not end, each with what
    to say when it is stopped: behind one that they did end it is simply one too many. Failed ones
    are among them: they would be tried again."""
    found = []
    description = RECONNECTED
    current = original
    seen = {original.id}
    while current.next_allocation and current.next_allocation not in seen:
        following = everything.get(current.next_allocation)
        if following is None:
            break
        seen.add(following.id)
        if following.is_server_terminal:
            description = NOT_NEEDED
        else:
            found.append((following, description))
        current = following
    return found


def _keeps_replacement(
    original: Allocation, replacement: Allocation, strategy: str, group: TaskGroup | None
) -> bool:
    if replacement.job_version > original.job_version:
        return True
    if replacement.is_client_terminal and original.client_status == ClientStatus.RUNNING:
        return False
    prefers = _STRATEGIES.get(strategy.replace("-", "_"), _prefers_better_score)
    return prefers(original, replacement, group)


def _prefers_better_score(
    original: Allocation, replacement: Allocation, group: TaskGroup | None
) -> bool:
    """A better node is worth nothing to what does not run there yet, while the other one runs."""
    runs = replacement.client_status == ClientStatus.RUNNING
    if original.client_status == ClientStatus.RUNNING and not runs:
        return False
    return _norm_score(replacement) > _norm_score(original)


def _norm_score(allocation: Allocation) -> float:
    metrics = allocation.metrics
    scores = metrics.score_meta_data or [] if metrics is not None else []
    return max((entry.norm_score for entry in scores), default=0.0)


def _prefers_longer_running(
    original: Allocation, replacement: Allocation, group: TaskGroup | None
) -> bool:
    return _running_since_ns(replacement, group) < _running_since_ns(original, group)


def _running_since_ns(allocation: Allocation, group: TaskGroup | None) -> int:
    """Since when its leader runs or, without one, the task that was not restarted for longest."""
    states = allocation.task_states or {}
    leader = next((task.name for task in group.tasks if task.leader), "") if group else ""
    starts = [_last_start_ns(state) for name, state in states.items() if name == (leader or name)]
    return min(starts, default=_FAR_FUTURE_NS)


def _last_start_ns(state: TaskState) -> int:
    for moment in (state.last_restart, state.started_at):
        if moment is not None and moment.year > 1:
            return ns_of_datetime(moment)
    return _FAR_FUTURE_NS


_STRATEGIES: dict[str, Callable[[Allocation, Allocation, TaskGroup | None], bool]] = {
    "keep_original": lambda original, replacement, group: False,
    "keep_replacement": lambda original, replacement, group: True,
    "longest_running": _prefers_longer_running,
    "best_score": _prefers_better_score,
}
