"""A push costs the same after thousands of commits: its reads of the state take no more steps."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from uuid import UUID

import pytest

from orchgit.gitops.mirrors.rules import wanted_of
from orchgit.gitops.rollouts.job_views import LaterRollouts, view_of
from orchgit.model.deployment import Deployment
from orchgit.model.rollout import ROLLOUTS_KEPT, Commit, Rollout, RolloutJob, RolloutStatus
from orchgit.model.source import Source, SourceStatus
from orchgit.state.entry import EntryContext
from orchgit.state.snapshot import StateReads
from orchgit.state.tables.deployments import DeploymentWrites
from orchgit.state.tables.evaluations import EvaluationWrites
from orchgit.state.tables.rollouts import RolloutWrites
from orchgit.state.tables.sources import SourceWrites
from orchgit.state.upgrade import migrate
from orchgit.state.writer_cache import WriterCache
from tests.support.factories import NOW_NS, make_evaluation

FEW, MANY = 2 * ROLLOUTS_KEPT, 10 * ROLLOUTS_KEPT
JOB = RolloutJob(job_id="web", action="update", eval_id=str(UUID(int=FEW)))


@pytest.fixture
def entry() -> EntryContext:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    migrate(connection)
    return EntryContext(connection, WriterCache())


def apply_commits(entry: EntryContext, first: int, last: int) -> None:
    """Stores what each commit leaves behind once the next one has replaced it."""
    rollouts, evaluations = RolloutWrites(entry), EvaluationWrites(entry)
    deployments = DeploymentWrites(entry)
    for number in range(first, last + 1):
        entry.begin(number, NOW_NS)
        rollout = Rollout(
            id=str(UUID(int=number)),
            source="demo",
            commit=Commit(id=f"{number:040x}"),
            status=RolloutStatus.PROGRESSING if number == 1 else RolloutStatus.HEALTHY,
            jobs=[RolloutJob(job_id="web", action="update", job_version=number)],
            applied_time_ns=NOW_NS,
            create_index=number,
            modify_index=number,
        )
        rollouts.put(rollout)
        evaluations.put_all(
            [make_evaluation(id=str(UUID(int=number)), job_id="web", status="complete")]
        )
        deployments.put(Deployment(id=str(UUID(int=number)), job_id="web", job_version=number))


def steps(connection: sqlite3.Connection, read: Callable[[], object]) -> int:
    """Returns how many steps SQLite's machine takes for a read."""
    taken = 0

    def step() -> int:
        nonlocal taken
        taken += 1
        return 0

    connection.set_progress_handler(step, 1)
    read()
    connection.set_progress_handler(None, 0)
    return taken


def test_reads_of_a_push_take_as_many_steps_after_2000_commits_as_after_400(
    entry: EntryContext,
) -> None:
    entry.begin(1, NOW_NS)
    SourceWrites(entry).put(Source(name="demo", status=SourceStatus(applied_commit="c" * 40)))
    state = StateReads(entry.connection)
    reads: dict[str, Callable[[], object]] = {
        "commits": lambda: wanted_of(state, "demo"),
        "active": lambda: state.rollouts.active("demo"),
        "ids of active": lambda: state.rollouts.active_of_source("demo"),
        "newest change": lambda: state.rollouts.newest_change_of("demo"),
        "waiting": lambda: state.rollouts.waiting("demo"),
        "view of a job": lambda: view_of(state, JOB),
    }
    apply_commits(entry, 1, FEW)
    few = {name: steps(entry.connection, read) for name, read in reads.items()}
    apply_commits(entry, FEW + 1, MANY)
    many = {name: steps(entry.connection, read) for name, read in reads.items()}
    assert min(few.values()) > 0
    assert {name: many[name] for name in reads if many[name] > 1.3 * few[name]} == {}


def test_mirror_must_have_the_commits_that_the_garbage_collector_leaves(
    entry: EntryContext,
) -> None:
    entry.begin(1, NOW_NS)
    SourceWrites(entry).put(Source(name="demo", status=SourceStatus(applied_commit="c" * 40)))
    apply_commits(entry, 1, FEW)
    newest = {f"{number:040x}" for number in range(FEW - ROLLOUTS_KEPT + 1, FEW + 1)}
    state = StateReads(entry.connection)
    assert wanted_of(state, "demo").commits == newest | {"c" * 40}
    kept = {UUID(int=number) for number in range(FEW - ROLLOUTS_KEPT + 1, FEW + 1)}
    left = set(state.rollouts.ended_beyond("demo", ROLLOUTS_KEPT))
    assert left.isdisjoint(str(each) for each in kept)
    assert len(left) == FEW - ROLLOUTS_KEPT - 1, "the open rollout stays"


def test_later_rollouts_of_a_source_are_read_once(entry: EntryContext) -> None:
    apply_commits(entry, 1, 30)
    state = StateReads(entry.connection)
    rollouts = sorted(state.rollouts.all("demo"), key=lambda each: each.create_index)
    later = LaterRollouts(state)
    assert later.than(rollouts[0]) == rollouts[1:]
    assert steps(entry.connection, lambda: later.than(rollouts[20])) == 0
    assert later.than(rollouts[20]) == rollouts[21:]
    assert later.changing_jobs_of(rollouts[20]) == {("default", "web"): f"{30:040x}"}
    assert later.changing_jobs_of(rollouts[29]) == {}
