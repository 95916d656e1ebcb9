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


def test_nothing_happens_to_a_deployment_that_is_under_way() -> None:
    verdict = judge(deployment(), [allocation(None)], HealthyAllocations(), NOW_NS)
    assert not (verdict.fail)
    assert not (verdict.promote)
    assert not (verdict.evaluate)
    assert not (verdict.replace)
    assert verdict.look_again_ns == DEADLINE_NS


def test_what_got_healthy_asks_for_an_evaluation_once() -> None:
    memory, first, second = HealthyAllocations(), allocation(True), allocation(True)
    assert judge(deployment(), [first], memory, NOW_NS).evaluate
    assert not judge(deployment(), [first], memory, NOW_NS).evaluate
    assert judge(deployment(), [first, second], memory, NOW_NS).evaluate


@pytest.mark.parametrize("revert", [True, False])
def test_no_progress_until_the_deadline_fails_it(revert: bool) -> None:
    late = deployment(auto_revert=revert, healthy_allocs=1)
    verdict = judge(late, [], HealthyAllocations(), DEADLINE_NS)
    assert (verdict.fail, verdict.revert) == (NO_PROGRESS, revert)
    assert not judge(late, [], HealthyAllocations(), DEADLINE_NS - 1).fail


def test_a_group_that_is_done_has_no_deadline() -> None:
    verdict = judge(deployment(healthy_allocs=2), [], HealthyAllocations(), DEADLINE_NS)
    assert not verdict.fail
    assert verdict.look_again_ns is None


def test_healthy_canaries_wait_for_a_person_without_a_deadline() -> None:
    waiting = deployment(desired_canaries=1, healthy_allocs=1)
    assert not judge(waiting, [], HealthyAllocations(), DEADLINE_NS).fail
    promoted = deployment(desired_canaries=1, healthy_allocs=1, promoted=True)
    assert judge(promoted, [], HealthyAllocations(), DEADLINE_NS).fail


def test_an_unhealthy_allocation_may_be_replaced_once() -> None:
    sick = allocation(False)
    assert judge(deployment(), [sick], HealthyAllocations(), NOW_NS).replace == (sick.id,)
    sick.desired_transition.reschedule = True
    assert judge(deployment(), [sick], HealthyAllocations(), NOW_NS).replace == ()


def test_without_a_progress_deadline_the_first_unhealthy_one_fails_it() -> None:
    strict = deployment(progress_deadline_ns=0, require_progress_by=None, auto_revert=True)
    verdict = judge(strict, [allocation(False)], HealthyAllocations(), NOW_NS)
    assert (verdict.fail, verdict.revert) == (UNHEALTHY, True)


def test_canaries_are_promoted_when_all_are_healthy_and_it_may() -> None:
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
def test_a_deployment_that_does_not_run_is_left_alone(status: DeploymentStatus) -> None:
    held = deployment()
    held.status = status
    assert judge(
        held, [allocation(False), allocation(True)], HealthyAllocations(), DEADLINE_NS
    ) == judge(held, [], HealthyAllocations(), NOW_NS)


def test_groups_that_were_promoted_by_hand_are_not_promoted_again() -> None:
    held, canary = deployment(), allocation(True)
    waiting = DeploymentState(
        desired_canaries=1, placed_canaries=[canary.id], auto_promote=True, desired_total=1
    )
    promoted = msgspec.structs.replace(waiting, placed_canaries=["gone"], promoted=True)
    held.task_groups |= {"waits": waiting, "was": promoted}
    assert judge(held, [canary], HealthyAllocations(), NOW_NS).promote == ("waits",)


def test_a_deployment_that_is_late_goes_back_if_any_group_left_half_way_asks_for_it() -> None:
    held = deployment()
    later = datetime_of_ns(DEADLINE_NS + 1)
    held.task_groups["other"] = msgspec.structs.replace(
        held.task_groups["web"], auto_revert=True, require_progress_by=later
    )
    assert judge(held, [], HealthyAllocations(), DEADLINE_NS).revert
    held.task_groups["other"].healthy_allocs = 2
    assert not judge(held, [], HealthyAllocations(), DEADLINE_NS).revert
