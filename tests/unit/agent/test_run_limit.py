"""What ends tasks that take longer than their group, or the node, allows."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from agent.allocations.run_limit import EXCEEDED
from orchgit.model.base import NS_PER_S
from orchgit.model.job import Job
from orchgit.model.task import TaskLifecycle
from tests.support.agent_rig import AgentRig, mock_job, mock_task

LIMIT_NS = 60 * NS_PER_S


def limited(**fields: object) -> Job:
    tasks = [
        mock_task(**fields),
        mock_task("last", config={"run_for": "1s"}, lifecycle=TaskLifecycle(hook="poststop")),
    ]
    return mock_job(*tasks, type="batch", max_run_duration_ns=LIMIT_NS)


def test_allocation_over_its_limit_completes_without_poststop(tmp_path: Path) -> None:
    async def run() -> None:
        rig = AgentRig(tmp_path)
        try:
            runner = rig.deliver(limited())
            await rig.until_status(runner, "running")
            await rig.clock.advance(59)
            assert rig.state(runner).state == "running"
            await rig.clock.advance(1)
            await rig.until_status(runner, "complete")
            assert rig.last(runner).client_description == EXCEEDED
            assert rig.state(runner, "last").started_at is None
            reasons = {event.display_message for event in rig.state(runner, "last").events}
            assert EXCEEDED in reasons
        finally:
            await rig.close()

    asyncio.run(run())


@pytest.mark.parametrize("limit_s", [30, 90, None])
def test_limit_that_changes_in_place_counts_from_the_arrival(
    tmp_path: Path, limit_s: int | None
) -> None:
    async def run() -> None:
        rig = AgentRig(tmp_path)
        try:
            job = limited()
            runner = rig.deliver(job)
            await rig.until_status(runner, "running")
            await rig.clock.advance(20)
            changed_ns = limit_s and limit_s * NS_PER_S
            group = replace(job.task_groups[0], max_run_duration_ns=changed_ns)
            rig.update(runner.context.alloc, replace(job, version=1, task_groups=[group]))
            await rig.clock.advance(limit_s - 21 if limit_s else 600)
            assert rig.state(runner).state == "running"
            if limit_s is not None:
                await rig.clock.advance(1)
                await rig.until_status(runner, "complete")
                assert rig.last(runner).client_description == EXCEEDED
        finally:
            await rig.close()

    asyncio.run(run())


def test_allocation_that_ends_within_its_limit_is_not_touched(tmp_path: Path) -> None:
    async def run() -> None:
        rig = AgentRig(tmp_path)
        try:
            runner = rig.deliver(limited(config={"run_for": "10s"}))
            await rig.until_status(runner, "running")
            await rig.clock.advance(10)
            await rig.until(lambda: rig.state(runner, "last").state == "running")
            await rig.clock.advance(1)
            await rig.until_status(runner, "complete")
            await rig.clock.advance(60)
            assert rig.last(runner).client_description != EXCEEDED
        finally:
            await rig.close()

    asyncio.run(run())


def test_run_limit_counts_while_the_agent_is_stopped(tmp_path: Path) -> None:
    async def run() -> None:
        rig = AgentRig(tmp_path)
        runner = rig.deliver(limited())
        await rig.until_status(runner, "running")
        await rig.close()
        await rig.clock.advance(61)
        again = AgentRig(tmp_path, rig.clock, {"mock_driver": rig.mock})
        try:
            back = again.allocs.get(runner.id)
            await again.until_status(back, "complete")
            assert again.last(back).client_description == EXCEEDED
            assert again.state(back, "last").started_at is None
        finally:
            await again.close()

    asyncio.run(run())


def test_kill_timeout_is_at_most_the_nodes_maximum(tmp_path: Path) -> None:
    async def run() -> None:
        rig = AgentRig(tmp_path)
        try:
            slow = mock_task(config={"kill_after": "10m"}, kill_timeout_ns=600 * NS_PER_S)
            runner = rig.deliver(mock_job(slow))
            await rig.until_status(runner, "running")
            rig.stop(runner)
            await rig.until_event(runner, "Killing")
            await rig.clock.advance(29)
            assert rig.state(runner).state == "running"
            await rig.clock.advance(1)
            await rig.until_status(runner, "complete")
        finally:
            await rig.close()

    asyncio.run(run())
