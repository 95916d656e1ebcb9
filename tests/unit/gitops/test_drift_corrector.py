"""The loop that heals and adopts: on a real state, with a clock that only tests move."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from orchgit.clock import FakeClock
from orchgit.errors import UnavailableError
from orchgit.gitops.drift.corrector import DriftCorrector, why_left
from orchgit.gitops.parsing.desired import JobKey
from orchgit.ids import RandomIds
from orchgit.model.drift import DriftKind, JobDrift
from orchgit.model.rollout import Rollout, RolloutJob, RolloutStatus
from orchgit.model.source import DriftPolicy, Source
from orchgit.replication.commands.drift import RecordDrift
from orchgit.replication.commands.gitops import PutSource, RecordProgress
from orchgit.replication.replicated import ReplicatedState
from orchgit.services.context import UseCaseContext
from tests.support.factories import make_batch_job, make_job
from tests.support.polling import until
from tests.support.state import running_state

SOURCE = Source(name="demo", drift=DriftPolicy(action="heal"))


def drift(job_id: str = "web", **fields: object) -> JobDrift:
    return replace(JobDrift("default", job_id, "demo", changed_via="scale"), **fields)


class Rig:
    """`healed` are the jobs of each call; a call takes the next of `answers`, by default ''."""

    def __init__(self, state: ReplicatedState, clock: FakeClock) -> None:
        self.state = state
        self.clock = clock
        self.context = UseCaseContext(state, clock, RandomIds())
        self.healed: list[list[str]] = []
        self.error: UnavailableError | None = None
        self.corrector = DriftCorrector(self.context, self._heal, self._heal)

    async def _heal(self, source: str, drifts: Sequence[JobDrift]) -> dict[JobKey, str]:
        self.healed.append([each.job_id for each in drifts])
        if self.error is not None:
            raise self.error
        return {}

    async def record(self, *drifts: JobDrift, clear: Sequence[str] = ()) -> None:
        keys = [("default", job_id) for job_id in clear]
        as_of = self.state.store.watch.applied_index
        await self.state.propose(RecordDrift(now_ns=1, as_of=as_of, put=list(drifts), clear=keys))
        await self.clock.advance(0.0)

    async def put(self, source: Source) -> None:
        await self.state.propose(PutSource(now_ns=1, source=source))
        await self.clock.advance(0.0)

    def note(self, job_id: str = "web") -> str:
        with self.context.snapshot() as snapshot:
            found = snapshot.drifted_jobs.get("default", job_id)
        return found.note if found is not None else ""

    async def until_healed(self, calls: int) -> None:
        await until(lambda: len(self.healed) >= calls)


@asynccontextmanager
async def rig(directory: Path) -> AsyncIterator[Rig]:
    async with running_state(directory) as state:
        made = Rig(state, FakeClock())
        task = asyncio.create_task(made.corrector.run())
        try:
            yield made
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def test_drifted_jobs_are_healed_together_after_the_delay_and_ever_more_rarely(
    tmp_path: Path,
) -> None:
    async def run() -> None:
        async with rig(tmp_path) as made:
            await made.put(SOURCE)
            await made.record(drift("web"), drift("api"))
            await made.clock.advance(4.0)
            assert made.healed == []
            await made.clock.advance(1.1)
            await made.until_healed(1)
            assert made.healed == [["api", "web"]]
            await made.record(clear=["api"])
            await made.clock.advance(8.0)  # not yet: the pause has doubled
            assert len(made.healed) == 1
            await made.clock.advance(3.0)
            await made.until_healed(2)
            assert made.healed[1] == ["web"]

    asyncio.run(run())


def test_paused_sources_and_sources_with_a_rollout_under_way_are_left_alone(tmp_path: Path) -> None:
    async def run() -> None:
        async with rig(tmp_path) as made:
            rollout = Rollout(
                id="r1", source="demo", status=RolloutStatus.PROGRESSING, applied_time_ns=1
            )
            await made.put(replace(SOURCE, paused=True))
            await made.record(drift())
            await made.clock.advance(60.0)
            await made.state.propose(RecordProgress(now_ns=1, rollout=rollout))
            await made.put(SOURCE)
            await made.clock.advance(60.0)
            assert made.healed == []
            ended = replace(rollout, status=RolloutStatus.HEALTHY)
            await made.state.propose(RecordProgress(now_ns=1, rollout=ended))
            await made.clock.advance(0.0)
            await made.clock.advance(6.0)
            await made.until_healed(1)

    asyncio.run(run())


def test_jobs_wait_for_the_stages_of_a_rollout_and_not_for_an_approval(tmp_path: Path) -> None:
    async def run() -> None:
        async with rig(tmp_path) as made:
            waits = RolloutJob(job_id="db", status="waiting", stage=1)
            staged = Rollout(
                id="r1",
                source="demo",
                status=RolloutStatus.PROGRESSING,
                jobs=[waits],
                trigger="drift",
                applied_time_ns=1,
            )
            approval = Rollout(id="r2", source="demo", status=RolloutStatus.AWAITING_APPROVAL)
            await made.put(SOURCE)
            await made.state.propose(RecordProgress(now_ns=1, rollout=staged))
            await made.state.propose(RecordProgress(now_ns=1, rollout=approval))
            await made.record(drift())
            await made.clock.advance(60.0)
            assert made.healed == []
            ended = replace(staged, status=RolloutStatus.FAILED)
            await made.state.propose(RecordProgress(now_ns=1, rollout=ended))
            await made.clock.advance(0.0)
            await made.clock.advance(6.0)
            await made.until_healed(1)

    asyncio.run(run())


def test_failure_is_noted_and_tried_again_later(tmp_path: Path) -> None:
    async def run() -> None:
        async with rig(tmp_path) as made:
            made.error = UnavailableError("cannot reach a majority")
            await made.put(SOURCE)
            await made.record(drift())
            await made.clock.advance(5.1)
            await until(lambda: made.note() == "cannot reach a majority")
            made.error = None
            await made.clock.advance(11.0)
            await made.until_healed(2)

    asyncio.run(run())


@pytest.mark.parametrize(
    ("action", "source_kind", "kind", "via", "expected"),
    [
        ("heal", "builtin", DriftKind.CHANGED, "scale", ""),
        ("heal", "remote", DriftKind.STOPPED, "stop", ""),
        ("heal", "builtin", DriftKind.WITHOUT_FILE, "register", ""),
        ("heal", "builtin", DriftKind.CHANGED, "auto_revert", "left as it is"),
        ("adopt", "builtin", DriftKind.CHANGED, "register", ""),
        ("adopt", "builtin", DriftKind.CHANGED, "auto_revert", "left as it is"),
        ("adopt", "builtin", DriftKind.STOPPED, "stop", "not adopted: no job file says"),
        ("adopt", "builtin", DriftKind.WITHOUT_FILE, "register", "not adopted: it has no file"),
        ("adopt", "remote", DriftKind.CHANGED, "scale", "not adopted: its repository"),
    ],
)
def test_reason_why_a_job_is_left_alone(
    action: str, source_kind: str, kind: str, via: str, expected: str
) -> None:
    source = Source(name="demo", kind=source_kind, drift=DriftPolicy(action=action))
    why = why_left(source, drift(kind=kind, changed_via=via), make_job(id="web"))
    assert why.startswith(expected)
    assert bool(why) is bool(expected)


def test_job_that_runs_once_is_never_healed() -> None:
    why = why_left(SOURCE, drift(), make_batch_job(id="web"))
    assert "`orchgit source sync demo -rerun web`" in why
