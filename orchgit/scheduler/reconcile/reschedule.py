"""When a failed (or disconnected) allocation may be tried again elsewhere."""

from __future__ import annotations

from dataclasses import dataclass, field

from orchgit.model.allocation import (
    Allocation,
    ClientStatus,
    DesiredStatus,
    RescheduleEvent,
    RescheduleTracker,
)
from orchgit.model.base import NS_PER_S, ns_of_datetime
from orchgit.model.deployment import Deployment
from orchgit.model.group import ReschedulePolicy
from orchgit.scheduler.reconcile.changes import Allocs
from orchgit.scheduler.reconcile.classify import unknown_since_ns
from orchgit.scheduler.reconcile.group_state import ReconcileContext

RESCHEDULED_OK = "ok"
NO_PLACEMENT = "no placement"
_WINDOW_NS = NS_PER_S
_EVENTS_KEPT = 5
_NONE: Allocs = {}


def failed_at_ns(allocation: Allocation) -> int:
    """When its last task finished; without task states, when it was changed last."""
    finished = [
        ns_of_datetime(state.finished_at)
        for state in (allocation.task_states or {}).values()
        if state.finished_at is not None and state.finished_at.year > 1
    ]
    return max(finished, default=allocation.modify_time_ns)


def _events(allocation: Allocation) -> list[RescheduleEvent]:
    tracker = allocation.reschedule_tracker
    return tracker.events if tracker is not None else []


def next_delay_ns(allocation: Allocation, policy: ReschedulePolicy, failure_ns: int) -> int:
    """How long to wait after a failure, by the policy's delay function."""
    events = _events(allocation)
    if not events or policy.delay_function == "constant":
        return policy.delay_ns
    if policy.delay_function == "exponential":
        delay_ns = events[-1].delay_ns * 2
    else:
        delay_ns = _fibonacci(events, policy)
    if policy.max_delay_ns > 0 and delay_ns > policy.max_delay_ns:
        ran_long = failure_ns - events[-1].reschedule_time > policy.max_delay_ns
        return policy.delay_ns if ran_long else policy.max_delay_ns
    return delay_ns


def _fibonacci(events: list[RescheduleEvent], policy: ReschedulePolicy) -> int:
    if len(events) < 2:
        return policy.delay_ns
    last, before = events[-1].delay_ns, events[-2].delay_ns
    if last == policy.delay_ns and before == policy.max_delay_ns:
        return policy.delay_ns
    return last + before


def _has_attempts_left(
    allocation: Allocation, policy: ReschedulePolicy, failure_ns: int, delay_ns: int
) -> bool:
    if policy.unlimited:
        return True
    events = _events(allocation)
    if not events:
        return True
    used = sum(failure_ns - event.reschedule_time < policy.interval_ns for event in events)
    return used < policy.attempts and delay_ns < policy.interval_ns


def next_attempt_ns(
    allocation: Allocation, policy: ReschedulePolicy | None, since_ns: int, *, disconnected: bool
) -> int | None:
    """When it may be rescheduled; None: never. `since_ns`: since when its node is disconnected."""
    if policy is None or not (policy.unlimited or policy.attempts > 0):
        return None
    failure_ns = since_ns if disconnected else failed_at_ns(allocation)
    if not disconnected:
        has_failed = allocation.client_status in (ClientStatus.FAILED, ClientStatus.LOST)
        was_stopped = allocation.desired_status == DesiredStatus.STOP
        if not has_failed or (was_stopped and not had_no_placement(allocation)):
            return None
    delay_ns = next_delay_ns(allocation, policy, failure_ns)
    if not _has_attempts_left(allocation, policy, failure_ns, delay_ns):
        return None
    return failure_ns + delay_ns


def had_no_placement(allocation: Allocation) -> bool:
    tracker = allocation.reschedule_tracker
    return tracker is not None and tracker.last_reschedule == NO_PLACEMENT


def next_tracker(
    allocation: Allocation, policy: ReschedulePolicy | None, now_ns: int
) -> RescheduleTracker:
    """The tracker of the allocation that replaces `allocation` now: with the events that count
    against limited attempts, or else with the last few."""
    events = _events(allocation)
    delay_ns = 0
    if policy is not None:
        disconnected = allocation.client_status not in (ClientStatus.FAILED, ClientStatus.LOST)
        failure_ns = now_ns if disconnected else failed_at_ns(allocation)
        delay_ns = next_delay_ns(allocation, policy, failure_ns)
        if policy.attempts > 0 and not policy.unlimited:
            events = [e for e in events if now_ns - e.reschedule_time <= policy.interval_ns]
        else:
            events = events[-_EVENTS_KEPT:]
    event = RescheduleEvent(
        reschedule_time=now_ns,
        prev_alloc_id=allocation.id,
        prev_node_id=allocation.node_id,
        delay_ns=delay_ns,
    )
    return RescheduleTracker(events=[*events, event], last_reschedule=RESCHEDULED_OK)


@dataclass(slots=True)
class Rescheduling:
    untainted: Allocs = field(default_factory=dict)
    now: Allocs = field(default_factory=dict)
    later: list[tuple[int, Allocation]] = field(default_factory=list)
    """(Unix ns, allocation); these are untainted too."""
    waiting: int = 0
    """Out of touch and replaced already: they wait for their node, and are left as they are."""


def split_by_reschedule(
    allocs: Allocs,
    context: ReconcileContext,
    deployment: Deployment | None,
    *,
    disconnecting: bool,
    counted: Allocs = _NONE,
) -> Rescheduling:
    """Which of `allocs` go on, which are replaced now, which later; the rest is out of play.

    `counted` ones are not set aside, though they were replaced."""
    result = Rescheduling()
    for alloc_id, allocation in allocs.items():
        if disconnecting and allocation.client_status == ClientStatus.UNKNOWN:
            continue
        # A replaced allocation that has ended, or waits for its node: its successor counts.
        set_aside = allocation.is_terminal or allocation.client_status == ClientStatus.UNKNOWN
        if allocation.next_allocation and set_aside and alloc_id not in counted:
            result.waiting += not allocation.is_terminal
            continue
        if not disconnecting:
            goes_on = _goes_on(allocation, context.is_batch)
            if goes_on is not None:
                if goes_on:
                    result.untainted[alloc_id] = allocation
                continue
        due, at_ns = _due(allocation, context, deployment, disconnecting)
        if due:
            result.now[alloc_id] = allocation
            continue
        result.untainted[alloc_id] = allocation
        if at_ns is not None:
            result.later.append((at_ns, allocation))
    return result


def _goes_on(allocation: Allocation, is_batch: bool) -> bool | None:
    """True: counts as it is; False: out of play; None: depends on the reschedule policy."""
    if allocation.is_server_terminal:
        return None if had_no_placement(allocation) else False
    if is_batch:
        return None if allocation.client_status == ClientStatus.FAILED else True
    if allocation.client_status in (ClientStatus.COMPLETE, ClientStatus.LOST):
        return False
    return None if allocation.client_status in (ClientStatus.FAILED, ClientStatus.UNKNOWN) else True


def _due(
    allocation: Allocation,
    context: ReconcileContext,
    deployment: Deployment | None,
    disconnecting: bool,
) -> tuple[bool, int | None]:
    """Returns (whether it is replaced now, or else when: Unix ns, None for never)."""
    now_ns = context.now_ns
    transition = allocation.desired_transition
    if (
        deployment is not None
        and allocation.deployment_id == deployment.id
        and deployment.is_active
        and not transition.reschedule
        and not transition.force_reschedule
    ):
        return False, None
    if transition.force_reschedule:
        return True, None
    group = context.group_of(allocation)
    policy = group.reschedule_policy if group is not None else None
    unknown = allocation.client_status == ClientStatus.UNKNOWN
    if unknown and group and group.disconnect is not None and not group.disconnect.replace:
        return False, None
    since_ns = unknown_since_ns(allocation) if unknown else now_ns
    at_ns = next_attempt_ns(allocation, policy, since_ns, disconnected=disconnecting or unknown)
    if at_ns is None:
        return False, None
    waits = bool(allocation.followup_eval_id)
    is_time = at_ns - now_ns <= _WINDOW_NS and not unknown
    if allocation.followup_eval_id == context.evaluation.id or is_time:
        return True, None
    return False, None if (waits and not disconnecting) or unknown else at_ns
