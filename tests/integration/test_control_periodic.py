"""Periodic jobs on a real log and store, in a time that the tests move."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec

from orchgit.clock import SECOND_NS, FakeClock
from orchgit.control.watchers.periodic import PeriodicDispatcher
from orchgit.errors import UnavailableError
from orchgit.ids import SequentialIds
from orchgit.model.child_jobs import child_of, launched_id
from orchgit.model.evaluation import EvalTrigger
from orchgit.model.job import Job, PeriodicConfig
from orchgit.replication.commands.codec import Command
from orchgit.replication.commands.jobs import JobUpsert, RecordPeriodicLaunch, RegisterJob
from orchgit.replication.events import AppliedBatch, Effects
from orchgit.replication.replicated import ReplicatedState
from orchgit.state.changes import Changes
from orchgit.state.snapshot import Snapshot
from tests.integration.control_rig import Rig, leader
from tests.support.factories import make_batch_job
from tests.support.state import running_state


def hourly(**fields: object) -> Job:
    periodic = PeriodicConfig(spec="0 * * * *", **fields)  # type: ignore[arg-type]
    return make_batch_job(id="report", periodic=periodic)


def registered_hours_ago(clock: FakeClock, hours: int, **fields: object) -> Job:
    submitted_ns = clock.now_ns() - hours * 3600 * SECOND_NS
    return msgspec.structs.replace(hourly(**fields), submit_time_ns=submitted_ns)


async def children(rig: Rig, count: int) -> list[Job]:
    def read(snapshot: Snapshot) -> list[Job]:
        found = snapshot.jobs.of_parent("default", "report")
        return found if len(found) >= count else []

    found: list[Job] = await rig.until("jobs", read=read)
    return found


async def launch_recorded(rig: Rig, due_s: int) -> None:
    """Until the dispatcher has recorded this launch and sleeps again."""
    due_ns = due_s * SECOND_NS

    def recorded(snapshot: Snapshot) -> bool:
        return snapshot.periodic_launches.get("default", "report") == due_ns

    await rig.until("periodic_launches", read=recorded)
    await rig.clock.advance(0)  # type: ignore[attr-defined]


def test_periodic_job_is_launched_when_it_is_due(tmp_path: Path) -> None:
    async def run() -> None:
        clock = FakeClock()
        async with leader(tmp_path, clock) as rig:
            await rig.register_parent(hourly())
            with rig.store.snapshot() as snapshot:
                assert snapshot.jobs.of_parent("default", "report") == []
            for count in (1, 2):
                await clock.advance(3600)
                found = await children(rig, count)
                assert len(found) == count
                await launch_recorded(rig, clock.now_ns() // (3600 * SECOND_NS) * 3600)
            with rig.store.snapshot() as snapshot:
                launched_ns = snapshot.periodic_launches.get("default", "report")
            assert found[-1].id == f"report/periodic-{launched_ns // SECOND_NS}"

    asyncio.run(run())


def test_due_launch_is_not_delayed_by_a_change_of_its_job(tmp_path: Path) -> None:
    async def run() -> None:
        clock = FakeClock()
        async with running_state(tmp_path, clock) as state:
            dispatcher = PeriodicDispatcher(state, clock, SequentialIds())
            job = hourly()
            await state.propose(RegisterJob(upsert=JobUpsert(job)))
            with state.store.snapshot() as snapshot:
                dispatcher.restore(snapshot)
            await clock.advance(3600)
            changes = Changes()
            changes.note(9, "jobs", [f"{job.namespace}/{job.id}"])
            dispatcher.take(AppliedBatch(9, changes, Effects(), state.store.snapshot))
            launched = state.subscribe()
            task = asyncio.create_task(dispatcher.run())
            async with asyncio.timeout(60):
                batch = await anext(launched)
            assert [each.triggered_by for each in batch.evaluations] == [EvalTrigger.PERIODIC_JOB]
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            launched.close()

    asyncio.run(run())


def test_launch_is_skipped_while_the_last_one_runs_if_overlap_is_prohibited(
    tmp_path: Path,
) -> None:
    async def run() -> None:
        clock = FakeClock()
        async with leader(tmp_path, clock) as rig:
            await rig.register_parent(hourly(prohibit_overlap=True))
            await clock.advance(3600)
            await children(rig, 1)
            await launch_recorded(rig, clock.now_ns() // (3600 * SECOND_NS) * 3600)
            await clock.advance(7200)
            await rig.state.writer.barrier()
            assert len(await children(rig, 1)) == 1

    asyncio.run(run())


def test_launch_missed_without_a_leader_is_made_once(tmp_path: Path) -> None:
    async def run() -> None:
        clock = FakeClock()
        async with leader(tmp_path, clock) as rig:
            await rig.register_parent(registered_hours_ago(clock, 6))
            await rig.state.propose(
                RecordPeriodicLaunch(
                    namespace="default",
                    job_id="report",
                    launch_time_ns=clock.now_ns() - 5 * 3600 * SECOND_NS,
                )
            )
            await rig.restart_control()
            assert len(await children(rig, 1)) == 1
            await rig.restart_control()
            await rig.state.writer.barrier()
            assert len(await children(rig, 1)) == 1

    asyncio.run(run())


def test_first_launch_missed_without_a_leader_is_made_once(tmp_path: Path) -> None:
    async def run() -> None:
        clock = FakeClock()
        async with leader(tmp_path, clock) as rig:
            await rig.control.stop()
            await rig.register_parent(registered_hours_ago(clock, 2))
            await rig.control.start()
            assert len(await children(rig, 1)) == 1

    asyncio.run(run())


def test_unrecorded_launch_of_a_former_leader_is_not_repeated(tmp_path: Path) -> None:
    async def run() -> None:
        clock = FakeClock()
        async with leader(tmp_path, clock) as rig:
            await rig.control.stop()
            parent = registered_hours_ago(clock, 2)
            await rig.register_parent(parent)
            due_ns = clock.now_ns() // (3600 * SECOND_NS) * 3600 * SECOND_NS
            child = child_of(parent, launched_id(parent, due_ns), clock.now_ns())
            await rig.register(child)
            await rig.restart_control()
            await rig.state.writer.barrier()
            assert [each.id for each in await children(rig, 1)] == [child.id]

    asyncio.run(run())


class Unrecorded:
    """The state, but for the record of the first launch: the log takes nothing at that moment."""

    def __init__(self, state: ReplicatedState) -> None:
        self._state = state
        self._fails = True
        self.store = state.store

    async def propose(self, command: Command) -> object:
        if self._fails and isinstance(command, RecordPeriodicLaunch):
            self._fails = False
            raise UnavailableError("cannot write now")
        return await self._state.propose(command)


def test_launch_whose_record_failed_is_recorded_later_and_not_repeated(
    tmp_path: Path,
) -> None:
    async def run() -> None:
        clock = FakeClock()
        async with running_state(tmp_path, clock) as state:
            unrecorded: Any = Unrecorded(state)
            dispatcher = PeriodicDispatcher(unrecorded, clock, SequentialIds())
            await state.propose(RegisterJob(upsert=JobUpsert(hourly())))
            with state.store.snapshot() as snapshot:
                dispatcher.restore(snapshot)
            task = asyncio.create_task(dispatcher.run())
            await clock.advance(3600)
            due_ns = clock.now_ns() // (3600 * SECOND_NS) * 3600 * SECOND_NS
            rig = Rig(state, None, None, clock)  # type: ignore[arg-type]
            await children(rig, 1)
            for _ in range(3):
                await clock.advance(5)
                await state.writer.barrier()
            await rig.until(
                "periodic_launches",
                read=lambda s: s.periodic_launches.get("default", "report") == due_ns,
            )
            assert len(await children(rig, 1)) == 1
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    asyncio.run(run())
