"""What is forgotten while others change it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from orchgit.clock import FakeClock
from orchgit.control.watchers.garbage import GarbageLimits, StateGarbageCollector
from orchgit.model.evaluation import EvalStatus
from orchgit.model.job import Job
from orchgit.replication.commands.codec import Command
from orchgit.replication.commands.jobs import DeregisterJob, JobDeletion, JobUpsert, RegisterJob
from orchgit.replication.replicated import ReplicatedState
from tests.support.factories import make_batch_job, make_evaluation, make_job
from tests.support.state import running_state


class Busy:
    """The state, on which somebody registers a job again just before it is purged."""

    def __init__(self, state: ReplicatedState, again: Job) -> None:
        self._state = state
        self._again = again
        self.store = state.store

    async def propose(self, command: Command) -> object:
        if isinstance(command, DeregisterJob) and command.deletion.job_id == self._again.id:
            await self._state.propose(RegisterJob(upsert=JobUpsert(self._again)))
        return await self._state.propose(command)


async def stopped(state: ReplicatedState, clock: FakeClock, job: Job) -> None:
    """Register a job and stop it; its evaluations have ended."""
    now_ns, done = clock.now_ns(), EvalStatus.COMPLETE
    evaluation = make_evaluation(job, status=done)
    await state.propose(RegisterJob(now_ns=now_ns, upsert=JobUpsert(job), evaluation=evaluation))
    deletion = JobDeletion(namespace=job.namespace, job_id=job.id)
    last = make_evaluation(job, status=done)
    await state.propose(DeregisterJob(now_ns=now_ns, deletion=deletion, evaluation=last))


def test_job_registered_again_during_collection_is_kept(
    tmp_path: Path,
) -> None:
    async def run() -> None:
        clock = FakeClock()
        async with running_state(tmp_path, clock) as state:
            for name in ("back", "over"):
                await stopped(state, clock, make_job(id=name))
            busy: Any = Busy(state, make_job(id="back", priority=60))
            await StateGarbageCollector(busy, clock, GarbageLimits()).collect(force=True)
            with state.store.snapshot() as snapshot:
                (kept,) = snapshot.jobs.all()
            assert (kept.id, kept.priority, kept.stop) == ("back", 60, False)

    asyncio.run(run())


def test_jobs_are_kept_for_as_long_as_the_limits_say(tmp_path: Path) -> None:
    async def run() -> None:
        clock = FakeClock()
        async with running_state(tmp_path, clock) as state:
            for name in ("old", "young"):
                await clock.advance(3600)
                await stopped(state, clock, make_batch_job(id=name, submit_time_ns=clock.now_ns()))
            collector = StateGarbageCollector(state, clock, GarbageLimits(job_age_s=3600.0))
            await collector.collect()
            with state.store.snapshot() as snapshot:
                assert [job.id for job in snapshot.jobs.all()] == ["young"]

    asyncio.run(run())
