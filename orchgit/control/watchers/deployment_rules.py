"""What should happen to a running deployment. Pure: state in, decisions out.

The scheduler places, replaces and completes allocations. Between its evaluations these rules
promote canaries that are all healthy, let failed allocations be replaced, have the job evaluated
when an allocation became healthy, and fail deployments without progress, with a revert to the last
stable version if the job asks for that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from orchgit.model.allocation import Allocation
from orchgit.model.base import ns_of_datetime
from orchgit.model.deployment import Deployment, DeploymentState, DeploymentStatus

WATCHED = frozenset((DeploymentStatus.RUNNING,))

UNHEALTHY = "Failed due to unhealthy allocations"
NO_PROGRESS = "Failed due to progress deadline"


@dataclass(frozen=True)
class DeploymentDecision:
    """What to do now; all empty: nothing. `fail` is the description of the failure."""

    promote: tuple[str, ...] = ()
    """Groups whose canaries become ordinary allocations."""
    fail: str = ""
    revert: bool = False
    replace: tuple[str, ...] = ()
    """Allocations that may be rescheduled although the deployment runs."""
    evaluate: bool = False
    look_again_ns: int | None = None
    """When a deadline passes, should nothing happen before."""


@dataclass
class HealthyAllocations:
    """What was seen of one deployment before: only what is new asks for an evaluation."""

    healthy: set[str] = field(default_factory=set)


def judge(
    deployment: Deployment,
    allocations: Sequence[Allocation],
    memory: HealthyAllocations,
    now_ns: int,
) -> DeploymentDecision:
    """One look at a deployment and its allocations; `memory` is brought up to date."""
    if deployment.status not in WATCHED:
        return DeploymentDecision()
    late = [state for state in deployment.task_groups.values() if is_late(state, now_ns)]
    if late:
        # It fails as a whole: a group that is half-way is left half-way too.
        unfinished = (state for state in deployment.task_groups.values() if not is_done(state))
        return DeploymentDecision(
            fail=NO_PROGRESS, revert=any(state.auto_revert for state in unfinished)
        )
    hopeless = _hopeless_groups(deployment, allocations)
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
    """Whether the group's progress deadline passed with something still to do."""
    deadline_ns = _deadline_ns(state)
    return deadline_ns is not None and deadline_ns <= now_ns


def next_deadline_ns(deployment: Deployment) -> int | None:
    deadlines = [_deadline_ns(state) for state in deployment.task_groups.values()]
    return min((each for each in deadlines if each is not None), default=None)


def _deadline_ns(state: DeploymentState) -> int | None:
    """None: the group has no deadline, is done, or waits for a person to promote it."""
    if not state.progress_deadline_ns or state.require_progress_by is None:
        return None
    return None if is_done(state) else ns_of_datetime(state.require_progress_by)


def is_done(state: DeploymentState) -> bool:
    """Whether nothing more is expected of the group, or nothing before its promotion."""
    wanted = state.desired_canaries if _waits_for_promotion(state) else state.desired_total
    return state.healthy_allocs >= wanted


def _waits_for_promotion(state: DeploymentState) -> bool:
    return state.desired_canaries > 0 and not state.promoted


def may_promote(deployment: Deployment, allocations: Sequence[Allocation]) -> tuple[str, ...]:
    """The groups whose canaries wait, if all may be promoted without asking and are healthy."""
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
    deployment: Deployment, allocations: Sequence[Allocation]
) -> list[DeploymentState]:
    """Without a progress deadline the first unhealthy allocation ends the deployment."""
    unhealthy = {held.task_group for held in allocations if _health(held) is False}
    return [
        state
        for name, state in deployment.task_groups.items()
        if name in unhealthy and not state.progress_deadline_ns
    ]


def _replaceable(deployment: Deployment, allocations: Sequence[Allocation]) -> list[str]:
    """Unhealthy ones: with a progress deadline they may be tried elsewhere until it passes."""
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
