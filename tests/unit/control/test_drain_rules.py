"""How nodes are emptied: pace, deadline, and what goes last."""

from __future__ import annotations

from orchgit.control.watchers.drain_rules import leave_now, next_of_group, node_drain
from orchgit.model.allocation import Allocation, AllocDeploymentStatus, ClientStatus
from orchgit.model.base import NS_PER_S, datetime_of_ns
from orchgit.model.group import MigrateStrategy
from orchgit.model.node import DrainStrategy
from tests.support.factories import (
    NOW_NS,
    make_allocation,
    make_batch_job,
    make_group,
    make_job,
    make_system_job,
)


def running(job: object = None, healthy: bool | None = True, **fields: object) -> Allocation:
    return make_allocation(
        job,  # type: ignore[arg-type]
        client_status=ClientStatus.RUNNING,
        deployment_status=AllocDeploymentStatus(healthy=healthy),
        **fields,
    )


def test_drain_migrates_max_parallel_allocations_at_once() -> None:
    group = make_group(count=4, migrate=MigrateStrategy(max_parallel=2))
    held = [running(node_id=node) for node in ("d", "d", "d", "other")]
    leaving = next_of_group(group, held, frozenset({"d"}), NOW_NS)
    assert len(leaving) == 2
    assert {each.node_id for each in leaving} == {"d"}


def test_migrated_allocations_count_as_missing_until_they_are_replaced() -> None:
    group = make_group(count=2, migrate=MigrateStrategy(max_parallel=1))
    moving, staying = running(node_id="d"), running(node_id="d")
    moving.desired_transition.migrate = True
    assert next_of_group(group, [moving, staying], frozenset({"d"}), NOW_NS) == []
    starting = running(node_id="other", healthy=None, deployment_id="x")
    assert next_of_group(group, [staying, starting], frozenset({"d"}), NOW_NS) == []
    replaced = running(node_id="other")
    assert next_of_group(group, [staying, replaced], frozenset({"d"}), NOW_NS) == [staying]


def test_drain_migrates_every_allocation_at_the_deadline() -> None:
    strategy = DrainStrategy(deadline_ns=NS_PER_S, force_deadline=datetime_of_ns(NOW_NS))
    held = [running(make_system_job()), running(make_batch_job()), running()]
    before = node_drain(strategy, held, NOW_NS - 1)
    assert before.deadline_ns == NOW_NS
    assert leave_now(before) == []
    assert leave_now(node_drain(strategy, held, NOW_NS)) == held
    assert leave_now(node_drain(DrainStrategy(deadline_ns=-1), held, NOW_NS)) == held


def test_system_jobs_are_drained_last_or_ignored() -> None:
    system, service = running(make_system_job()), running()
    both = node_drain(DrainStrategy(), [system, service], NOW_NS)
    assert leave_now(both) == []
    alone = node_drain(DrainStrategy(), [system], NOW_NS)
    assert leave_now(alone) == [system]
    ignoring = node_drain(DrainStrategy(ignore_system_jobs=True), [system], NOW_NS)
    assert ignoring.is_done


def test_drain_waits_for_sysbatch_allocations_to_finish() -> None:
    work, system = running(make_job(type="sysbatch")), running(make_system_job())
    assert leave_now(node_drain(DrainStrategy(), [work, system], NOW_NS)) == []
    ignoring = node_drain(DrainStrategy(ignore_system_jobs=True), [work, system], NOW_NS)
    assert ignoring.remaining == (work,)
    assert leave_now(ignoring) == []


def test_drain_is_done_when_the_agent_reported_every_end() -> None:
    stopping = running(desired_status="stop")
    assert not node_drain(DrainStrategy(), [stopping], NOW_NS).is_done
    ended = running(desired_status="stop")
    ended.client_status = ClientStatus.COMPLETE
    assert node_drain(DrainStrategy(), [ended], NOW_NS).is_done


def test_allocation_not_healthy_by_its_deadline_does_not_delay_a_drain() -> None:
    strategy = MigrateStrategy(max_parallel=1, healthy_deadline_ns=60 * NS_PER_S)
    group = make_group(count=2, migrate=strategy)
    staying, starting = running(node_id="d"), running(node_id="other", healthy=None)
    deadline_ns = NOW_NS + 60 * NS_PER_S
    held, draining = [staying, starting], frozenset({"d"})
    assert next_of_group(group, held, draining, deadline_ns - 1) == []
    assert next_of_group(group, held, draining, deadline_ns) == [staying]
    failing = running(node_id="other", healthy=False)
    assert next_of_group(group, [staying, failing], draining, NOW_NS) == [staying]


def test_drain_migrates_unhealthy_allocations_first() -> None:
    group = make_group(count=2, migrate=MigrateStrategy(max_parallel=1))
    well, sick = running(node_id="d"), running(node_id="d", healthy=False)
    assert next_of_group(group, [well, sick], frozenset({"d"}), NOW_NS) == [sick]
