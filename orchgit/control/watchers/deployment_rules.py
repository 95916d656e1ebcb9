"""Pure rules that decide what a running deployment needs next.

The scheduler places, replaces and completes allocations. Between its evaluations these rules
promote canaries that are all healthy, let failed allocations be replaced, have the job evaluated
when an allocation became healthy, and fail deployments without progress, with a revert to the last
stable version if the job asks for that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from orchgit.model.allocation import Allocation
from orchgit.model.base import ns_of_datetime
from orchgit.model.deployment import Deployment, DeploymentState, DeploymentStatus
from orchgit.model.group import ReschedulePolicy

WATCHED = frozenset((DeploymentStatus.RUNNING,))

UNHEALTHY = "Failed due to unhealthy allocations"
NO_PROGRESS = "Failed due to progress deadline"


@dataclass(frozen=True)
class DeploymentDecision:
    """The changes that a deployment needs now; none if every field is empty. `fail` describes the
    failure."""

    promote: tuple[str, ...] = ()
    """Groups whose canaries become ordinary allocations."""
    fail: str = ""
    revert: bool = False
    replace: tuple[str, ...] = ()
    """Allocations that may be rescheduled although the deployment runs."""
    evaluate: bool = False
    look_again_ns: int | None = None
    """The time of the next deadline, None without one."""


@dataclass
class HealthyAllocations:
    """The healthy allocations of one deployment that were seen before: only new ones cause an
    evaluation."""

    healthy: set[str] = field(default_factory=set)


def judge(
    deployment: Deployment,
    allocations: Sequence[Allocation],
    memory: HealthyAllocations,
    now_ns: int,
    policies: Mapping[str, ReschedulePolicy | None] = MappingProxyType({}),
) -> DeploymentDecision:
    """Returns what the deployment needs, given its allocations; adds the healthy ones to
    `memory`. `policies` are those of the groups that are known."""
    if deployment.status not in WATCHED:
        return DeploymentDecision()
    late = [state for state in deployment.task_groups.values() if is_late(state, now_ns)]
    if late:
        # It fails as a whole: a group that is half-way is left half-way too.
        unfinished = (state for state in deployment.task_groups.values() if not is_done(state))
        return DeploymentDecision(
            fail=NO_PROGRESS, revert=any(state.auto_revert for state in unfinished)
        )
    hopeless = _hopeless_groups(deployment, allocations, policies, now_ns)
    if hopeless:
        return DeploymentDecision(
            fail=UNHEALTHY, revert=any(state.auto_revert for state in hopeless)
        )
    return DeploymentDecision(
        promote=may_promote(deployment, allocations),
        replace=tuple(_replaceable(deployment, allocations)),
        evaluate=_has_news(allocations, memory),
        look_again_ns=next_deadline_ns(deployment),
    )


def is_late(state: DeploymentState, now_ns: int) -> bool:
    """Returns whether the group's progress deadline passed before the group was done."""
    deadline_ns = _deadline_ns(state)
    return deadline_ns is not None and deadline_ns <= now_ns


def next_deadline_ns(deployment: Deployment) -> int | None:
    deadlines = [_deadline_ns(state) for state in deployment.task_groups.values()]
    return min((each for each in deadlines if each is not None), default=None)


def _deadline_ns(state: DeploymentState) -> int | None:
    """Returns the group's progress deadline; None if the group has none, is done, or waits for its
    promotion."""
    if not state.progress_deadline_ns or state.require_progress_by is None:
        return None
    return None if is_done(state) else ns_of_datetime(state.require_progress_by)


def is_done(state: DeploymentState) -> bool:
    """Returns whether the group needs no further progress, or none before its promotion."""
    wanted = state.desired_canaries if _waits_for_promotion(state) else state.desired_total
    return state.healthy_allocs >= wanted


def _waits_for_promotion(state: DeploymentState) -> bool:
    return state.desired_canaries > 0 and not state.promoted


def may_promote(deployment: Deployment, allocations: Sequence[Allocation]) -> tuple[str, ...]:
    """Returns the groups whose canaries wait for promotion, if all are healthy and set to
    `auto_promote`."""
    groups = deployment.task_groups
    waiting = {name: state for name, state in groups.items() if _waits_for_promotion(state)}
    if not all(state.auto_promote for state in waiting.values()):
        return ()
    healthy = {held.id for held in allocations if _health(held) is True and not held.is_terminal}
    ready = all(
        len(healthy.intersection(state.placed_canaries or ())) >= state.desired_canaries
        for state in waiting.values()
    )
    return tuple(waiting) if ready else ()


def _hopeless_groups(
    deployment: Deployment,
    allocations: Sequence[Allocation],
    policies: Mapping[str, ReschedulePolicy | None],
    now_ns: int,
) -> list[DeploymentState]:
    """Returns the groups with an unhealthy allocation that ends the deployment: there is no
    progress deadline to wait for, or no attempt is left to replace the allocation."""
    unhealthy = [held for held in allocations if _health(held) is False]
    bad = {held.task_group for held in unhealthy}
    lost = {
        held.task_group
        for held in unhealthy
        if held.task_group in policies
        and not _has_attempts(held, policies[held.task_group], now_ns)
    }
    return [
        state
        for name, state in deployment.task_groups.items()
        if name in lost or (name in bad and not state.progress_deadline_ns)
    ]


def _has_attempts(allocation: Allocation, policy: ReschedulePolicy | None, now_ns: int) -> bool:
    """Returns whether the policy lets the allocation be replaced once more, now or later."""
    if policy is None or not (policy.unlimited or policy.attempts > 0):
        return False
    tracker = allocation.reschedule_tracker
    events = tracker.events or [] if tracker is not None else []
    used = sum(now_ns - event.reschedule_time < policy.interval_ns for event in events)
    return policy.unlimited or used < policy.attempts


def _replaceable(deployment: Deployment, allocations: Sequence[Allocation]) -> list[str]:
    """Returns the unhealthy allocations that the scheduler may replace until the progress deadline
    passes."""
    return [
        held.id
        for held in allocations
        if _health(held) is False
        and not held.desired_transition.reschedule
        and not held.is_server_terminal
        and held.task_group in deployment.task_groups
    ]


def _has_news(allocations: Sequence[Allocation], memory: HealthyAllocations) -> bool:
    healthy = {held.id for held in allocations if _health(held) is True}
    news = not healthy <= memory.healthy
    memory.healthy = healthy
    return news


def _health(allocation: Allocation) -> bool | None:
    status = allocation.deployment_status
    return status.healthy if status is not None else None
