"""An agent whose disk is full: nothing is lost, and everything goes on when there is room."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from orchgit.model.allocation import Allocation
from orchgit.model.group import RestartPolicy
from orchgit.model.job import Job
from tests.integration.test_agent import end_everything, new_agent, raw_task
from tests.support.agent_rig import mock_job
from tests.support.factories import make_allocation
from tests.support.small_disk import small_disk
from tests.support.stub_server import StubServer

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounting a disk needs root")


def test_tasks_that_wait_for_a_full_disk_start_when_there_is_room(tmp_path: Path) -> None:
    async def whole() -> None:
        server = StubServer()
        await server.start()
        with small_disk(tmp_path / "disk", 16) as disk:
            agent = new_agent(server, disk.directory)
            await agent.start()
            await server.until(lambda: bool(server.nodes))

            def allocation(script: str) -> tuple[Allocation, Job]:
                job = mock_job(
                    raw_task(script, restart_policy=RestartPolicy(attempts=9, delay_ns=10**9))
                )
                return make_allocation(job, agent.node()), job

            stays, ends, comes = (allocation("exec sleep 300") for _ in range(3))
            restarts = allocation(
                '[ -e "$NOMAD_ALLOC_DIR/data/again" ] && exec sleep 300; '
                'while [ ! -e "$NOMAD_ALLOC_DIR/data/go" ]; do sleep 0.05; done'
            )
            server.deliver(stays, ends, restarts)
            for alloc, _ in (stays, ends, restarts):
                await server.until_status(alloc.id, "running")
            go = disk.directory / "alloc" / restarts[0].id / "alloc/data"
            disk.fill()
            ends[0].desired_status = "stop"
            server.deliver(ends, comes)
            await server.until_status(ends[0].id, "complete")
            disk.free()
            (go / "again").touch()
            (go / "go").touch()
            await server.until_status(comes[0].id, "running")
            await server.until(
                lambda: (
                    server.reports[restarts[0].id].task_states["web"].restarts == 1
                    and server.reports[restarts[0].id].client_status == "running"
                )
            )
            assert agent.allocations.get(ends[0].id).local.finished
            await agent.local.flush()
            stored = {each.alloc.id: each for each in agent.local.allocations()}
            assert stored[ends[0].id].local.finished
            assert stored[comes[0].id].tasks["web"].attempt == 1
            await agent.stop()
            await end_everything(disk.directory)
        await server.stop()

    asyncio.run(asyncio.wait_for(whole(), 100))
