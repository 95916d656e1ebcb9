"""Invariant 8: whatever moment the agent is killed at, no task is started twice or forgotten."""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.integration.test_agent import end_everything, raw_task
from tests.support.agent_rig import mock_job
from tests.support.factories import make_allocation
from tests.support.pacing import pause
from tests.support.polling import until
from tests.support.stub_server import StubServer

SCRIPT = 'echo $$ >> "$NOMAD_ALLOC_DIR/data/starts"; exec sleep 300'


@asynccontextmanager
async def agent_process(
    path: Path, server: StubServer
) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.support.agent_process", str(path), server.address)
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


def starts(path: Path, alloc_id: str) -> list[str]:
    try:
        return (path / "alloc" / alloc_id / "alloc/data/starts").read_text().split()
    except FileNotFoundError:
        return []


def test_killed_agent_finds_the_same_process_again(tmp_path: Path) -> None:
    async def whole() -> None:
        server = StubServer()
        await server.start()
        async with agent_process(tmp_path, server):
            await server.until(lambda: bool(server.nodes))
            job = mock_job(raw_task(SCRIPT))
            alloc = make_allocation(job, server.nodes[0])
            server.deliver((alloc, job))
            await server.until_status(alloc.id, "running")
        server.reports.clear()
        async with agent_process(tmp_path, server):
            report = await server.until_status(alloc.id, "running")
            assert report.task_states is not None
            assert report.task_states["web"].restarts == 0
            (pid,) = starts(tmp_path, alloc.id)
            assert Path(f"/proc/{pid}").exists()
            alloc.desired_status = "stop"
            server.deliver((alloc, job))
            await server.until_status(alloc.id, "complete")
            assert not Path(f"/proc/{pid}").exists()
        await end_everything(tmp_path)
        await server.stop()

    asyncio.run(whole())


def test_task_that_ends_while_the_agent_is_dead_is_reported(tmp_path: Path) -> None:
    script = 'while [ ! -e "$NOMAD_ALLOC_DIR/data/go" ]; do sleep 0.02; done; exit 9'

    async def whole() -> None:
        server = StubServer()
        await server.start()
        async with agent_process(tmp_path, server):
            await server.until(lambda: bool(server.nodes))
            task = raw_task(script)
            assert task.restart_policy is None
            job = mock_job(task, type="batch")
            job.task_groups[0].restart_policy.attempts = 0
            alloc = make_allocation(job, server.nodes[0])
            server.deliver((alloc, job))
            await server.until_status(alloc.id, "running")
        (tmp_path / "alloc" / alloc.id / "alloc/data/go").touch()
        async with agent_process(tmp_path, server):
            report = await server.until_status(alloc.id, "failed")
            assert report.task_states is not None
            exits = [
                e.exit_code for e in report.task_states["web"].events if e.type == "Terminated"
            ]
            assert exits == [9]
        await end_everything(tmp_path)
        await server.stop()

    asyncio.run(whole())


@pytest.mark.parametrize("seed", range(3))
def test_agent_killed_during_many_starts_starts_each_task_once(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)

    async def whole() -> None:
        server = StubServer()
        await server.start()
        allocs = []
        async with agent_process(tmp_path, server):
            await server.until(lambda: bool(server.nodes))
            for _ in range(20):
                job = mock_job(raw_task(SCRIPT))
                allocs.append((make_allocation(job, server.nodes[0]), job))
            server.deliver(*allocs)
            wanted = rng.randrange(12)
            await server.until(lambda: len(running(server)) >= wanted)
            await pause(rng.random() / 100, "the moment of the kill")
        server.reports.clear()
        async with agent_process(tmp_path, server):
            await server.until(lambda: len(running(server)) == len(allocs))
            for alloc, _ in allocs:
                (pid,) = await started(tmp_path, alloc.id)
                assert Path(f"/proc/{pid}").exists()
        await end_everything(tmp_path)
        await server.stop()

    asyncio.run(whole())


async def started(path: Path, alloc_id: str) -> list[str]:
    """A task that runs writes its line a moment later."""
    return await until(lambda: starts(path, alloc_id))


def running(server: StubServer) -> list[str]:
    return [id_ for id_, report in server.reports.items() if report.client_status == "running"]
