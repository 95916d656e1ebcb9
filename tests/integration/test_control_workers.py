"""The scheduler processes: real ones, started, killed, paused and resized."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from orchgit.clock import SystemClock
from orchgit.control.evaluations.broker import BrokerLimits
from orchgit.control.leader_client.router import LeaderRouter
from orchgit.control.leader_term import ControlConfig
from orchgit.control.workers.pool import PoolConfig, WorkerPool
from orchgit.errors import InvalidInputError
from orchgit.ids import RandomIds
from orchgit.model.evaluation import EvalStatus
from orchgit.wire.channel import LeaderChannel
from tests.integration.control_rig import Rig, agent_node, connected, leader
from tests.support.factories import make_batch_job, make_group, make_job


@contextlib.asynccontextmanager
async def pool_of(rig: Rig, count: int = 1, **fields: object) -> AsyncIterator[WorkerPool]:
    config = PoolConfig(rig.store.path, count, **fields)  # type: ignore[arg-type]
    channel = LeaderChannel([rig.rpc.address])
    leader = LeaderRouter(rig.control, channel)
    pool = WorkerPool(config, SystemClock(), RandomIds(), leader, rig.control.worker_gone)
    await pool.start()
    try:
        yield pool
    finally:
        await pool.stop()
        await channel.close()


async def schedules(rig: Rig) -> None:
    ended = await rig.evaluation_ends((await rig.register(make_job())).id)
    assert ended.status == EvalStatus.COMPLETE


def test_killed_worker_process_is_replaced_by_another_that_schedules(
    tmp_path: Path,
) -> None:
    async def run() -> None:
        async with leader(tmp_path) as rig, connected(rig, agent_node()), pool_of(rig) as pool:
            await schedules(rig)
            killed = pool.info()[0].pid
            os.kill(killed, signal.SIGKILL)
            await schedules(rig)
            assert pool.info()[0].pid != killed
            assert pool.info()[0].restarts == 1

    asyncio.run(run())


def test_evaluations_held_by_a_killed_worker_are_delivered_again(tmp_path: Path) -> None:
    async def run() -> None:
        async with leader(tmp_path) as rig, connected(rig, agent_node()), pool_of(rig) as pool:
            await schedules(rig)
            killed = pool.info()[0].pid
            os.kill(killed, signal.SIGSTOP)
            jobs = [make_job(id=f"job-{number}") for number in range(5)]
            held = await asyncio.gather(*(rig.register(job) for job in jobs))
            await rig.until("evaluations", read=lambda _: rig.control.broker_stats()["unacked"])
            os.kill(killed, signal.SIGKILL)
            for evaluation in held:
                ended = await rig.evaluation_ends(evaluation.id)
                assert ended.status == EvalStatus.COMPLETE

    asyncio.run(run())


def test_evaluation_that_always_times_out_fails_and_others_continue(
    tmp_path: Path,
) -> None:
    quick = BrokerLimits(first_nack_delay_ns=10**7, later_nack_delay_ns=10**7, delivery_limit=2)

    async def run() -> None:
        config = ControlConfig(broker=quick)
        async with (
            leader(tmp_path, config=config) as rig,
            connected(rig, agent_node()),
            pool_of(rig, deadline_s=3.0) as pool,
        ):
            endless = await rig.register(make_job(task_groups=[make_group(count=2**40)]))
            other = await rig.register(make_job(id="other"))
            assert (await rig.evaluation_ends(other.id)).status == EvalStatus.COMPLETE
            ended = await rig.evaluation_ends(endless.id)
            assert ended.status == EvalStatus.FAILED
            assert "delivery limit (2)" in ended.status_description
            assert "scheduler worker ended at 2 deliveries" in ended.status_description
            assert pool.info()[0].restarts == 2
            last = await rig.register(make_job(id="last"))
            assert (await rig.evaluation_ends(last.id)).status == EvalStatus.COMPLETE

    asyncio.run(run())


def test_workers_end_when_the_pool_stops(tmp_path: Path) -> None:
    async def run() -> None:
        async with leader(tmp_path) as rig, pool_of(rig, 2) as pool:
            pids = [info.pid for info in pool.info()]
            await pool.stop()
            assert pool.info() == []
            for pid in pids:
                with pytest.raises(ProcessLookupError):
                    os.kill(pid, 0)

    asyncio.run(run())


def test_paused_worker_takes_no_evaluation_until_it_is_resumed(tmp_path: Path) -> None:
    async def run() -> None:
        async with leader(tmp_path) as rig, connected(rig, agent_node()), pool_of(rig) as pool:
            await schedules(rig)
            await pool.pause()
            assert [info.status for info in pool.info()] == ["Paused"]
            waiting = await rig.register(make_job())
            with rig.store.snapshot() as snapshot:
                assert snapshot.evaluations.get(waiting.id).status == EvalStatus.PENDING
            assert rig.control.broker_stats()["ready"] == 1
            await pool.resume()
            await rig.evaluation_ends(waiting.id)

    asyncio.run(run())


def test_number_and_types_of_workers_change_live(tmp_path: Path) -> None:
    async def run() -> None:
        async with leader(tmp_path) as rig, connected(rig, agent_node()), pool_of(rig, 0) as pool:
            waiting = await rig.register(make_batch_job())
            await pool.configure(1, ["batch"])
            await rig.evaluation_ends(waiting.id)
            service = await rig.register(make_job())
            await pool.configure(2, ["service", "batch"])
            assert len(pool.info()) == 2
            await rig.evaluation_ends(service.id)
            await pool.configure(0, ["service"])
            assert pool.info() == []

    asyncio.run(run())


@pytest.mark.parametrize(("count", "types"), [(-1, ("batch",)), (65, ("batch",)), (1, ("cron",))])
def test_worker_pool_with_impossible_settings_is_refused(
    count: int, types: tuple[str, ...]
) -> None:
    with pytest.raises(InvalidInputError):
        PoolConfig(Path("state.db"), count, types).validate()
