"""Heartbeat timers, rejected nodes, and what garbage is: small rules about time and age."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from orchgit.control.plans.node_rejections import NodeRejections, RejectionLimits
from orchgit.control.watchers import garbage_rules as rules
from orchgit.control.watchers.heartbeat_timers import HeartbeatLimits, HeartbeatTimers
from orchgit.control.watchers.heartbeats import may_wait
from orchgit.model.allocation import (
    Allocation,
    AllocState,
    ClientStatus,
    DesiredStatus,
    RescheduleEvent,
    RescheduleTracker,
)
from orchgit.model.base import NS_PER_S, datetime_of_ns
from orchgit.model.deployment import DeploymentStatus
from orchgit.model.evaluation import EvalStatus, Evaluation
from orchgit.model.group import DisconnectStrategy, ReschedulePolicy
from orchgit.model.job import Job, JobStatus, JobVersionTag, PeriodicConfig
from orchgit.model.node import NodeStatus
from tests.support.factories import (
    NOW_NS,
    make_allocation,
    make_batch_job,
    make_deployment,
    make_evaluation,
    make_group,
    make_job,
    make_node,
)

LIMITS = HeartbeatLimits(min_ttl_s=10, grace_s=5, max_per_s=2, failover_s=60)


def test_node_is_overdue_once_after_ttl_and_grace() -> None:
    timers = HeartbeatTimers(LIMITS)
    assert timers.beat("n", 0.0, jitter=0.5) == 15.0
    assert timers.overdue(19.9) == []
    assert timers.overdue(20.0) == ["n"]
    assert timers.overdue(100.0) == []


def test_each_heartbeat_restarts_the_timer() -> None:
    timers = HeartbeatTimers(LIMITS)
    for now_s in (0.0, 10.0, 20.0):
        timers.beat("n", now_s, 0.0)
    assert timers.overdue(34.9) == []
    assert timers.next_s() == 35.0


def test_rechecked_node_is_overdue_again_unless_it_sent_a_heartbeat() -> None:
    timers = HeartbeatTimers(LIMITS)
    for node_id in ("silent", "back"):
        timers.beat(node_id, 0.0, 0.0)
    assert timers.overdue(15.0) == ["back", "silent"]
    timers.beat("back", 15.5, 0.0)
    for node_id in ("silent", "back"):
        timers.look_again(node_id, 16.0)
    assert timers.overdue(16.0) == ["silent"]


def test_many_nodes_report_less_often() -> None:
    timers = HeartbeatTimers(LIMITS)
    ttls = [timers.beat(f"n{number}", 0.0, 0.0) for number in range(100)]
    assert ttls[0] == 10.0
    assert ttls[-1] == 50.0


def test_expected_node_is_overdue_later_and_forgotten_node_never() -> None:
    timers = HeartbeatTimers(LIMITS)
    timers.expect("a", 0.0)
    timers.expect("b", 0.0)
    timers.forget("b")
    assert timers.overdue(60.0) == ["a"]
    assert len(timers) == 0


@pytest.mark.parametrize(
    ("since_s", "waits"), [(None, True), (59, True), (60, False)], ids=["new", "within", "over"]
)
def test_allocation_waits_for_its_node_until_lost_after_has_passed(
    since_s: int | None, waits: bool
) -> None:
    group = make_group(disconnect=DisconnectStrategy(lost_after_ns=60 * NS_PER_S))
    states = None
    if since_s is not None:
        at = datetime_of_ns(NOW_NS - since_s * NS_PER_S)
        states = [AllocState(value="running", time=at), AllocState(value="unknown", time=at)]
    held = make_allocation(alloc_states=states)
    assert may_wait(held, group, NOW_NS) is waits
    assert not may_wait(held, make_group(), NOW_NS)
    assert not may_wait(make_allocation(desired_status="stop"), group, NOW_NS)


def test_node_rejected_often_is_marked_and_the_number_marked_is_limited() -> None:
    limits = RejectionLimits(enabled=True, threshold=3, window_s=10, marks_per_window=1)
    rejections = NodeRejections(limits)
    assert [rejections.add("a", now_s) for now_s in (0.0, 1.0, 2.0)] == [False, False, True]
    assert [rejections.add("b", now_s) for now_s in (3.0, 4.0, 5.0)] == [False, False, False]
    assert [rejections.add("c", now_s) for now_s in (20.0, 31.0, 42.0)] == [False] * 3
    disabled = NodeRejections(RejectionLimits(threshold=1))
    assert not disabled.add("a", 0.0)


def ended(**fields: object) -> Allocation:
    return make_allocation(
        desired_status=DesiredStatus.STOP, client_status=ClientStatus.COMPLETE, **fields
    )


def over_of(
    evaluation: Evaluation,
    held: list[Allocation],
    job: Job | None,
    before_ns: int = NOW_NS,
    live_count: int = 0,
) -> tuple[bool, Sequence[Allocation]]:
    return rules.what_is_over(evaluation, held, job, before_ns, NOW_NS, live_count)


def test_old_evaluation_is_collected_when_all_its_allocations_ended() -> None:
    old = make_evaluation(status=EvalStatus.COMPLETE)
    over = [ended()]
    assert over_of(old, over, make_job()) == (True, over)
    assert over_of(old, over, make_job(), NOW_NS - 1) == (False, ())
    assert over_of(old, [], make_job(), live_count=1) == (False, [])
    assert over_of(make_evaluation(), [], None) == (False, ())


def test_ended_allocation_is_collected_though_its_evaluation_has_running_ones() -> None:
    old, lost = make_evaluation(status=EvalStatus.COMPLETE), ended()
    assert over_of(old, [lost], make_job(), live_count=9) == (False, [lost])


def test_registered_batch_job_keeps_its_ended_allocations() -> None:
    job = make_batch_job()
    old = make_evaluation(job, status=EvalStatus.COMPLETE)
    assert over_of(old, [ended()], job) == (False, [])
    assert over_of(old, [], job) == (True, [])
    stopped, over = make_batch_job(stop=True), [ended()]
    assert over_of(old, over, stopped) == (True, over)


def test_allocation_of_an_earlier_batch_job_version_is_collected() -> None:
    job = make_batch_job(job_modify_index=20)
    old = make_evaluation(job, status=EvalStatus.COMPLETE)
    earlier, current = ended(create_index=10), ended(create_index=21)
    assert over_of(old, [earlier, current], job) == (False, [earlier])
    assert over_of(old, [earlier], job) == (True, [earlier])
    assert over_of(old, [], job, live_count=1) == (False, [])


def test_failed_allocation_is_kept_until_it_is_replaced() -> None:
    job = make_job()
    failed = make_allocation(job, client_status=ClientStatus.FAILED)
    assert not rules.allocation_is_over(failed, job, NOW_NS, NOW_NS)
    failed.next_allocation = "next"
    assert rules.allocation_is_over(failed, job, NOW_NS, NOW_NS)


@pytest.mark.parametrize(
    ("policy", "tried_s_ago", "over"),
    [
        (ReschedulePolicy(unlimited=False), None, True),
        (ReschedulePolicy(unlimited=False, attempts=2, interval_ns=60 * NS_PER_S), None, False),
        (ReschedulePolicy(unlimited=False, attempts=2, interval_ns=60 * NS_PER_S), 60, False),
        (ReschedulePolicy(unlimited=False, attempts=2, interval_ns=60 * NS_PER_S), 61, True),
        (ReschedulePolicy(unlimited=True), 10**6, False),
        (None, None, True),
    ],
    ids=["never", "not tried", "within", "interval over", "unlimited", "no policy"],
)
def test_failed_allocation_is_collected_when_it_cannot_be_rescheduled(
    policy: ReschedulePolicy | None, tried_s_ago: int | None, over: bool
) -> None:
    job = make_job(task_groups=[make_group(reschedule_policy=policy)])
    failed = make_allocation(job, client_status=ClientStatus.FAILED)
    if tried_s_ago is not None:
        event = RescheduleEvent(reschedule_time=NOW_NS - tried_s_ago * NS_PER_S)
        failed.reschedule_tracker = RescheduleTracker(events=[event])
    assert rules.allocation_is_over(failed, job, NOW_NS, NOW_NS) is over


def test_stopped_allocation_is_kept_until_its_agent_reports_the_end() -> None:
    stopping = make_allocation(desired_status=DesiredStatus.STOP)
    assert not rules.allocation_is_over(stopping, None, NOW_NS, NOW_NS)


def test_job_with_a_tagged_version_is_kept() -> None:
    versions = [make_job(version=1), make_job(version_tag=JobVersionTag(name="golden"))]
    assert rules.has_tagged(versions)
    assert not rules.has_tagged(versions[:1])


def test_jobs_are_collectable_when_stopped_or_completed() -> None:
    dead = {"status": JobStatus.DEAD}
    assert rules.job_is_over(make_job(stop=True, **dead))
    assert rules.job_is_over(make_batch_job(**dead))
    assert not rules.job_is_over(make_job(**dead))
    assert not rules.job_is_over(make_batch_job(periodic=PeriodicConfig(), **dead))
    assert not rules.job_is_over(make_batch_job(status=JobStatus.RUNNING))


def test_deployments_and_nodes_are_collected_when_ended_long_ago() -> None:
    done = make_deployment(status=DeploymentStatus.SUCCESSFUL)
    assert rules.deployment_is_old(done, NOW_NS)
    assert not rules.deployment_is_old(done, NOW_NS - 1)
    assert not rules.deployment_is_old(make_deployment(), NOW_NS)
    down = make_node(status=NodeStatus.DOWN, status_updated_at=NOW_NS // NS_PER_S)
    assert rules.node_is_over(down, NOW_NS)
    assert not rules.node_is_over(down, NOW_NS - NS_PER_S)
    assert not rules.node_is_over(make_node(), NOW_NS)
