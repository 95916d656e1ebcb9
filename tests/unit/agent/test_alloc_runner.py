"""One allocation through its life, on the mock driver and a fake clock."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from orchgit.model.allocation import DesiredTransition
from orchgit.model.task import RestartPolicy, TaskLifecycle
from orchgit.wire.messages import AllocSet
from tests.support.agent_rig import AgentRig, mock_job, mock_task
from tests.support.polling import until

Scenario = Callable[[AgentRig], Coroutine[Any, Any, None]]


@pytest.fixture
def run(tmp_path: Path) -> Callable[[Scenario], None]:
    def go(scenario: Scenario) -> None:
        async def whole() -> None:
            rig = AgentRig(tmp_path)
            try:
                await scenario(rig)
            finally:
                await rig.close()

        asyncio.run(whole())

    return go


def test_service_runs_until_it_is_stopped(run: Callable[[Scenario], None]) -> None:
    async def scenario(rig: AgentRig) -> None:
        runner = rig.deliver(mock_job())
        await rig.until_status(runner, "running")
        rig.stop(runner)
        await rig.until_status(runner, "complete")
        assert rig.events(runner) == [
            "Received",
            "Task Setup",
            "Started",
            "Killing",
            "Terminated",
            "Killed",
        ]
        assert not rig.state(runner).failed

    run(scenario)


def test_batch_task_that_ends_well_completes(run: Callable[[Scenario], None]) -> None:
    async def scenario(rig: AgentRig) -> None:
        runner = rig.deliver(mock_job(mock_task(config={"run_for": "10s"}), type="batch"))
        await rig.until_status(runner, "running")
        await rig.clock.advance(11)
        await rig.until_status(runner, "complete")
        assert rig.events(runner)[-2:] == ["Started", "Terminated"]

    run(scenario)


def test_failing_task_is_restarted_and_then_fails(run: Callable[[Scenario], None]) -> None:
    policy = RestartPolicy(attempts=1, interval_ns=600 * 10**9, delay_ns=5 * 10**9, mode="fail")

    async def scenario(rig: AgentRig) -> None:
        task = mock_task(config={"run_for": "1s", "exit_code": 3}, restart_policy=policy)
        runner = rig.deliver(mock_job(task))
        await rig.until_status(runner, "running")
        await rig.clock.advance(1.5)
        await rig.until_event(runner, "Restarting")
        assert rig.state(runner).state == "pending"
        await rig.clock.advance(6.5)
        await rig.until(lambda: rig.events(runner).count("Started") == 2)
        await rig.clock.advance(1.5)
        await rig.until_status(runner, "failed")
        assert rig.state(runner).restarts == 1
        assert "Exceeded allowed attempts 1" in rig.state(runner).events[-2].display_message

    run(scenario)


def test_tasks_start_in_the_order_of_their_lifecycle(run: Callable[[Scenario], None]) -> None:
    tasks = [
        mock_task("main"),
        mock_task("init", config={"run_for": "2s"}, lifecycle=TaskLifecycle(hook="prestart")),
        mock_task("side", lifecycle=TaskLifecycle(hook="prestart", sidecar=True)),
        mock_task("after", config={"run_for": "1s"}, lifecycle=TaskLifecycle(hook="poststart")),
        mock_task("last", config={"run_for": "1s"}, lifecycle=TaskLifecycle(hook="poststop")),
    ]

    async def scenario(rig: AgentRig) -> None:
        runner = rig.deliver(mock_job(*tasks))
        await rig.until(lambda: rig.state(runner, "side").state == "running")
        await rig.until(lambda: rig.state(runner, "init").state == "running")
        assert rig.state(runner, "main").state == "pending"
        await rig.clock.advance(2.5)
        await rig.until(lambda: rig.state(runner, "main").state == "running")
        await rig.until(lambda: rig.state(runner, "after").state == "running")
        assert rig.state(runner, "last").state == "pending"
        rig.stop(runner)
        await rig.until(lambda: rig.state(runner, "last").state == "running")
        await rig.until(lambda: rig.state(runner, "side").state == "dead")
        await rig.clock.advance(1.5)
        await rig.until_status(runner, "complete")

    run(scenario)


def test_leaders_end_ends_the_others(run: Callable[[Scenario], None]) -> None:
    async def scenario(rig: AgentRig) -> None:
        leader = mock_task("boss", config={"run_for": "5s"}, leader=True)
        runner = rig.deliver(mock_job(leader, mock_task("web"), type="batch"))
        await rig.until(lambda: rig.state(runner).state == "running")
        await rig.until(lambda: rig.state(runner, "boss").state == "running")
        await rig.clock.advance(6)
        await rig.until_status(runner, "complete")
        assert "Leader Task Dead" in rig.events(runner)

    run(scenario)


def test_failed_task_ends_its_siblings(run: Callable[[Scenario], None]) -> None:
    async def scenario(rig: AgentRig) -> None:
        bad = mock_task("bad", config={"start_error": "no such image"})
        runner = rig.deliver(mock_job(bad, mock_task("web")))
        await rig.until(lambda: rig.state(runner).state == "dead")
        await rig.until_status(runner, "failed")
        assert "Sibling Task Failed" in rig.events(runner)
        assert not rig.state(runner).failed

    run(scenario)


def test_restart_by_request_counts_no_attempt(run: Callable[[Scenario], None]) -> None:
    async def scenario(rig: AgentRig) -> None:
        policy = RestartPolicy(attempts=0, mode="fail")
        runner = rig.deliver(mock_job(mock_task(restart_policy=policy)))
        await rig.until_status(runner, "running")
        runner.restart()
        await rig.until(lambda: rig.events(runner).count("Started") == 2)
        assert rig.state(runner).state == "running"

    run(scenario)


def test_missing_volume_fails_the_allocation(run: Callable[[Scenario], None]) -> None:
    from orchgit.model.volume import VolumeRequest

    async def scenario(rig: AgentRig) -> None:
        volumes = {"data": VolumeRequest(name="data", type="host", source="nowhere")}
        runner = rig.deliver(mock_job(volumes=volumes))
        await rig.until_status(runner, "failed")
        assert "no host volume" in rig.state(runner).events[-2].display_message

    run(scenario)


def test_allocation_is_healthy_after_min_healthy_time(run: Callable[[Scenario], None]) -> None:
    from orchgit.model.group import UpdateStrategy

    async def scenario(rig: AgentRig) -> None:
        job = mock_job(update=UpdateStrategy(min_healthy_time_ns=10 * 10**9))
        runner = rig.deliver(job, deployment_id="d1")
        await rig.until_status(runner, "running")
        assert rig.last(runner).deployment_healthy is None
        await rig.clock.advance(10.5)
        await rig.until(lambda: rig.last(runner).deployment_healthy is True)

    run(scenario)


def test_allocation_is_unhealthy_when_the_deadline_passes(run: Callable[[Scenario], None]) -> None:
    from orchgit.model.group import UpdateStrategy

    async def scenario(rig: AgentRig) -> None:
        strategy = UpdateStrategy(min_healthy_time_ns=10 * 10**9, healthy_deadline_ns=30 * 10**9)
        task = mock_task(config={"start_block_for": "1h"})
        runner = rig.deliver(mock_job(task, update=strategy), deployment_id="d1")
        await rig.until_event(runner, "Task Setup")
        await rig.clock.advance(31)
        await rig.until(lambda: rig.last(runner).deployment_healthy is False)

    run(scenario)


def test_removed_allocation_is_ended_and_forgotten(run: Callable[[Scenario], None]) -> None:
    async def scenario(rig: AgentRig) -> None:
        runner = rig.deliver(mock_job())
        await rig.until_status(runner, "running")
        rig.allocs.take(AllocSet(runner.context.alloc.modify_index, [], []))
        await rig.until_status(runner, "complete")
        await until(lambda: not list(rig.allocs))
        await rig.local.flush()
        assert rig.local.allocations() == []
        assert not runner.context.paths.root.exists()

    run(scenario)


def test_stopped_agent_leaves_tasks_and_finds_them_again(tmp_path: Path) -> None:
    async def whole() -> None:
        first = AgentRig(tmp_path)
        runner = first.deliver(mock_job())
        await first.until_status(runner, "running")
        handle = runner.tasks["web"].handle
        await first.close()
        second = AgentRig(tmp_path, clock=first.clock, drivers={"mock_driver": first.mock})
        (again,) = list(second.allocs)
        assert again.services.resuming_owners == {"", "web"}
        await second.until_status(again, "running")
        assert again.tasks["web"].handle == handle
        assert second.events(again).count("Started") == 1
        second.stop(again)
        await second.until_status(again, "complete")
        await second.close()

    asyncio.run(whole())


def test_task_lost_while_the_agent_was_away_is_restarted(tmp_path: Path) -> None:
    async def whole() -> None:
        first = AgentRig(tmp_path)
        policy = RestartPolicy(attempts=1, delay_ns=10**9)
        runner = first.deliver(mock_job(mock_task(restart_policy=policy)))
        await first.until_status(runner, "running")
        await first.close()
        second = AgentRig(tmp_path, clock=first.clock)  # a new mock driver knows no task
        (again,) = list(second.allocs)
        await second.until_event(again, "Restarting")
        await second.clock.advance(2)
        assert second.events(again).count("Started") == 1, "the servers may have replaced it"
        second.update(again.context.alloc, again.context.job)
        await second.until(lambda: second.events(again).count("Started") == 2)
        assert again.tasks["web"].record.attempt == 2
        await second.close()

    asyncio.run(whole())


def test_start_that_takes_long_can_be_ended(run: Callable[[Scenario], None]) -> None:
    async def scenario(rig: AgentRig) -> None:
        runner = rig.deliver(mock_job(mock_task(config={"start_block_for": "1h"})))
        await rig.until_event(runner, "Task Setup")
        await until(lambda: runner.tasks["web"].record.starting)
        rig.stop(runner)
        await rig.until_status(runner, "complete")
        assert "Started" not in rig.events(runner)

    run(scenario)


def test_shutdown_delays_pass_unless_the_transition_skips_them(
    run: Callable[[Scenario], None],
) -> None:
    async def scenario(rig: AgentRig) -> None:
        task = mock_task(shutdown_delay_ns=5 * 10**9)
        slow, fast = (rig.deliver(mock_job(task, shutdown_delay_ns=10 * 10**9)) for _ in "ab")
        for runner in (slow, fast):
            await rig.until_status(runner, "running")
        hurry = DesiredTransition(no_shutdown_delay=True)
        alloc, job = fast.context.alloc, fast.context.job
        rig.update(alloc, job, desired_status="stop", desired_transition=hurry)
        await rig.until_status(fast, "complete")
        rig.stop(slow)
        await rig.clock.advance(9.9)
        assert "Killing" not in rig.events(slow)
        await rig.clock.advance(0.2)
        await rig.until_event(slow, "Waiting for shutdown delay")
        assert rig.state(slow).state == "running"
        await rig.clock.advance(5.1)
        await rig.until_status(slow, "complete")

    run(scenario)


def test_replacement_waits_for_the_one_before(run: Callable[[Scenario], None]) -> None:
    async def scenario(rig: AgentRig) -> None:
        first = rig.deliver(mock_job(mock_task(config={"kill_after": "3s"})))
        await rig.until_status(first, "running")
        second = rig.deliver(mock_job(), previous_allocation=first.id)
        rig.stop(first)
        await rig.until_event(first, "Killing")
        await rig.clock.advance(2)
        assert rig.events(second) == ["Received"]
        await rig.clock.advance(2)
        await rig.until_status(first, "complete")
        await rig.until_status(second, "running")

    run(scenario)


def test_restart_of_all_tasks_restarts_ended_ones(run: Callable[[Scenario], None]) -> None:
    async def scenario(rig: AgentRig) -> None:
        short = mock_task("init", config={"run_for": "1s"}, lifecycle=TaskLifecycle("prestart"))
        runner = rig.deliver(mock_job(short, mock_task()))
        await rig.until(lambda: rig.state(runner, "init").state == "running")
        await rig.clock.advance(1.5)
        await rig.until(lambda: rig.state(runner).state == "running")
        assert rig.state(runner, "init").state == "dead"
        runner.restart(all_tasks=True)
        await rig.until(lambda: rig.events(runner, "init").count("Started") == 2)
        assert rig.state(runner).state == "pending"
        await rig.clock.advance(1.5)
        await rig.until(lambda: rig.events(runner).count("Started") == 2)

    run(scenario)


def test_changes_of_status_state_and_health_are_urgent_reports(
    run: Callable[[Scenario], None],
) -> None:
    async def scenario(rig: AgentRig) -> None:
        runner = rig.deliver(mock_job())
        await rig.until_status(runner, "running")
        assert rig.urgent == 1
        reports = len(rig.reports)
        await runner.signal("SIGHUP")
        await rig.until(lambda: len(rig.reports) == reports + 1)
        assert rig.urgent == 1
        rig.stop(runner)
        await rig.until_status(runner, "complete")

    run(scenario)


def test_server_with_an_older_snapshot_ends_no_allocation(run: Callable[[Scenario], None]) -> None:
    async def scenario(rig: AgentRig) -> None:
        runner = rig.deliver(mock_job())
        await rig.until_status(runner, "running")
        rig.allocs.take(AllocSet(runner.context.alloc.modify_index - 1, [], []))
        await rig.clock.advance(60)
        assert list(rig.allocs) == [runner]
        assert rig.state(runner).state == "running"

    run(scenario)


def test_services_of_tasks_that_had_not_started_are_kept_by_the_next_agent(tmp_path: Path) -> None:
    tasks = [
        mock_task("main"),
        mock_task("init", lifecycle=TaskLifecycle(hook="prestart")),
        mock_task("done", config={"run_for": "1s"}, lifecycle=TaskLifecycle(hook="prestart")),
    ]

    async def scenario() -> None:
        first = AgentRig(tmp_path)
        runner = first.deliver(mock_job(*tasks))
        await first.until(lambda: first.state(runner, "init").state == "running")
        await first.until(lambda: first.state(runner, "done").state == "running")
        await first.clock.advance(1.5)
        await first.until(lambda: first.state(runner, "done").state == "dead")
        assert first.state(runner, "main").state == "pending"
        await first.close()
        again = AgentRig(tmp_path, first.clock)
        kept = again.services.by_alloc[runner.id].resuming_owners
        assert kept == {"", "main", "init"}
        await again.close()

    asyncio.run(scenario())
