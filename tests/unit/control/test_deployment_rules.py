"""What happens to a running deployment, and when."""

from __future__ import annotations

import msgspec
import pytest

from orchgit.control.watchers.deployment_rules import (
    NO_PROGRESS,
    UNHEALTHY,
    HealthyAllocations,
    judge,
)
from orchgit.model.allocation import Allocation, AllocDeploymentStatus
from orchgit.model.base import NS_PER_S, datetime_of_ns
from orchgit.model.deployment import Deployment, DeploymentState, DeploymentStatus
from orchgit.model.group import ReschedulePolicy
from tests.support.factories import NOW_NS, make_allocation, make_deployment, make_job

DEADLINE_NS = NOW_NS + 600 * NS_PER_S


def deployment(**fields: object) -> Deployment:
    state = msgspec.structs.replace(
        DeploymentState(
            desired_total=2,
            progress_deadline_ns=600 * NS_PER_S,
            require_progress_by=datetime_of_ns(DEADLINE_NS),
        ),
        **fields,
    )
    return make_deployment(make_job(), task_groups={"web": state})


def allocation(healthy: bool | None, **fields: object) -> Allocation:
    return make_allocation(deployment_status=AllocDeploymentStatus(healthy=healthy), **fields)


def test_deployment_before_its_deadline_needs_no_action() -> None:
    verdict = judge(deployment(), [allocation(None)], HealthyAllocations(), NOW_NS)
    assert not (verdict.fail)
    assert not (verdict.promote)
    assert not (verdict.evaluate)
    assert not (verdict.replace)
    assert verdict.look_again_ns == DEADLINE_NS


def test_newly_healthy_allocation_causes_one_evaluation() -> None:
    memory, first, second = HealthyAllocations(), allocation(True), allocation(True)
    assert judge(deployment(), [first], memory, NOW_NS).evaluate
    assert not judge(deployment(), [first], memory, NOW_NS).evaluate
    assert judge(deployment(), [first, second], memory, NOW_NS).evaluate


@pytest.mark.parametrize("revert", [True, False])
def test_deployment_without_progress_fails_at_its_deadline(revert: bool) -> None:
    late = deployment(auto_revert=revert, healthy_allocs=1)
    verdict = judge(late, [], HealthyAllocations(), DEADLINE_NS)
    assert (verdict.fail, verdict.revert) == (NO_PROGRESS, revert)
    assert not judge(late, [], HealthyAllocations(), DEADLINE_NS - 1).fail


def test_completed_group_has_no_deadline() -> None:
    verdict = judge(deployment(healthy_allocs=2), [], HealthyAllocations(), DEADLINE_NS)
    assert not verdict.fail
    assert verdict.look_again_ns is None


def test_healthy_canaries_await_manual_promotion_without_a_deadline() -> None:
    waiting = deployment(desired_canaries=1, healthy_allocs=1)
    assert not judge(waiting, [], HealthyAllocations(), DEADLINE_NS).fail
    promoted = deployment(desired_canaries=1, healthy_allocs=1, promoted=True)
    assert judge(promoted, [], HealthyAllocations(), DEADLINE_NS).fail


@pytest.mark.parametrize(
    ("policy", "fail"),
    [
        (None, UNHEALTHY),
        (ReschedulePolicy(attempts=0, unlimited=False), UNHEALTHY),
        (ReschedulePolicy(attempts=1, unlimited=False, interval_ns=NS_PER_S), ""),
        (ReschedulePolicy(attempts=0, unlimited=True), ""),
    ],
)
def test_unhealthy_allocation_without_attempts_left_fails_the_deployment_at_once(
    policy: ReschedulePolicy | None, fail: str
) -> None:
    policies = {"web": policy}
    verdict = judge(deployment(), [allocation(False)], HealthyAllocations(), NOW_NS, policies)
    assert verdict.fail == fail


def test_unhealthy_allocation_is_replaced_once() -> None:
    sick = allocation(False)
    assert judge(deployment(), [sick], HealthyAllocations(), NOW_NS).replace == (sick.id,)
    sick.desired_transition.reschedule = True
    assert judge(deployment(), [sick], HealthyAllocations(), NOW_NS).replace == ()


def test_deployment_without_a_deadline_fails_at_its_first_unhealthy_allocation() -> None:
    strict = deployment(progress_deadline_ns=0, require_progress_by=None, auto_revert=True)
    verdict = judge(strict, [allocation(False)], HealthyAllocations(), NOW_NS)
    assert (verdict.fail, verdict.revert) == (UNHEALTHY, True)


def test_healthy_canaries_are_promoted_only_with_auto_promote() -> None:
    canaries = [allocation(True), allocation(None)]
    fields = {"desired_canaries": 2, "placed_canaries": [each.id for each in canaries]}
    automatic = deployment(auto_promote=True, **fields)
    assert not judge(automatic, canaries, HealthyAllocations(), NOW_NS).promote
    canaries[1] = allocation(True, id=canaries[1].id)
    assert judge(automatic, canaries, HealthyAllocations(), NOW_NS).promote == ("web",)
    assert not judge(deployment(**fields), canaries, HealthyAllocations(), NOW_NS).promote


@pytest.mark.parametrize(
    "status", [DeploymentStatus.PAUSED, DeploymentStatus.FAILED, DeploymentStatus.SUCCESSFUL]
)
def test_deployment_that_is_not_running_needs_no_action(status: DeploymentStatus) -> None:
    held = deployment()
    held.status = status
    assert judge(
        held, [allocation(False), allocation(True)], HealthyAllocations(), DEADLINE_NS
    ) == judge(held, [], HealthyAllocations(), NOW_NS)


def test_manually_promoted_groups_are_not_promoted_again() -> None:
    held, canary = deployment(), allocation(True)
    waiting = DeploymentState(
        desired_canaries=1, placed_canaries=[canary.id], auto_promote=True, desired_total=1
    )
    promoted = msgspec.structs.replace(waiting, placed_canaries=["gone"], promoted=True)
    held.task_groups |= {"waits": waiting, "was": promoted}
    assert judge(held, [canary], HealthyAllocations(), NOW_NS).promote == ("waits",)


def test_late_deployment_reverts_if_an_incomplete_group_has_auto_revert() -> None:
    held = deployment()
    later = datetime_of_ns(DEADLINE_NS + 1)
    held.task_groups["other"] = msgspec.structs.replace(
        held.task_groups["web"], auto_revert=True, require_progress_by=later
    )
    assert judge(held, [], HealthyAllocations(), DEADLINE_NS).revert
    held.task_groups["other"].healthy_allocs = 2
    assert not judge(held, [], HealthyAllocations(), DEADLINE_NS).revert
