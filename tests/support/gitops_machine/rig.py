"""The server, the model beside it, and what must hold after each step."""

from __future__ import annotations

import asyncio
import itertools
import shutil
import tempfile
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant
from msgspec.structs import replace as replace_struct

from orchgit.model.gates import GatePolicy, HealthAction, Window, WindowAction
from orchgit.model.job import Job
from orchgit.model.ownership import owner_of
from orchgit.model.source import DriftPolicy, PrunePolicy, Source
from orchgit.services.gitops.sources import change_source, create_source
from tests.support.gitops_model import GitopsModel, JobKind, ModelSource, Registered, Spec
from tests.support.gitops_model.source import Settings
from tests.support.simulated_server import (
    FAILS,
    HANGS,
    RUNS,
    JobContent,
    SimulatedServer,
    environment,
    job_text,
)

T = TypeVar("T")

KINDS = {
    "web": JobKind("service", auto_revert=True),
    "api": JobKind("service"),
    "pool": JobKind("service", auto_revert=True, is_scaled=True),
    "migrate": JobKind("batch"),
    "nightly": JobKind("periodic"),
}
SOURCES = ("demo", "shop", "site", "depot")
NAMES = st.sampled_from(sorted(KINDS))
DOES = st.sampled_from([RUNS, RUNS, RUNS, FAILS, HANGS])
_SECOND_NS = 1_000_000_000
_LONGEST_NS = 30 * 24 * 3600 * _SECOND_NS
_MOST_TRIES = 24
_NEVER_OPEN = Window(WindowAction.DENY, "* * * * *", duration_ns=120 * _SECOND_NS)


def text_of(name: str, content: JobContent) -> str:
    kind = KINDS[name]
    return job_text(name, kind.type, content, kind.auto_revert, kind.is_scaled)


def drift_of(settings: Settings) -> DriftPolicy:
    """The delay is longer than a server takes to come to rest: nothing is corrected before."""
    return DriftPolicy(action=settings.drift, delay_ns=10 * _SECOND_NS)


def gates_of(settings: Settings) -> GatePolicy:
    return GatePolicy(
        windows=[] if settings.window_is_open else [_NEVER_OPEN],
        approvals=int(settings.needs_approval),
        health=HealthAction.REVERT if settings.goes_back else HealthAction.REPORT,
    )


def spec_of(job: Job) -> Spec:
    env = environment(job)
    return Spec(int(env["CONTENT"]), env["DOES"], job.task_groups[0].count, env["TAG"])


class GitopsRig(RuleBasedStateMachine):
    """Rules do something to the server and tell the model; the invariant compares both."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="gitops-machine-"))
        self.loop = asyncio.new_event_loop()
        self.server = SimulatedServer(self.directory)
        self.model = GitopsModel(KINDS)
        self.numbers = itertools.count(1)
        self.commit_ids = {""}
        self.earlier: dict[str, list[JobContent]] = {name: [] for name in KINDS}
        self.do(self.server.start())
        for name in SOURCES[:2]:
            self.add(name, Settings())

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    def teardown(self) -> None:
        try:
            self.do(self.server.stop())
        finally:
            self.loop.close()
            shutil.rmtree(self.directory, ignore_errors=True)

    # -- what rules share ------------------------------------------------------------------------

    @property
    def jobs(self) -> dict[str, Registered]:
        return self.model.cluster.jobs

    def draw_source(
        self, data: st.DataObject, holds: Callable[[ModelSource], object] = lambda _: True
    ) -> ModelSource | None:
        """One of the sources for which something holds, if there is any."""
        found = [name for name, each in sorted(self.model.sources.items()) if holds(each)]
        return self.model.sources[data.draw(st.sampled_from(found))] if found else None

    def add(self, name: str, settings: Settings) -> None:
        source = Source(
            name=name,
            variables={"tag": settings.tag},
            paused=settings.paused,
            adopt=settings.adopt,
            drift=drift_of(settings),
            prune=PrunePolicy(max_share_percent=100),
            rollout_deadline_ns=_LONGEST_NS,
            gates=gates_of(settings),
        )
        self.do(create_source(self.server.context, source))
        self.model.add(name, settings)

    def set(self, name: str, **settings: object) -> None:
        """Changes settings of the server's source."""

        def change(source: Source) -> Source:
            return replace_struct(source, **settings)

        self.do(change_source(self.server.context, name, change))

    def commit(self, source: str, files: dict[str, JobContent]) -> None:
        """Commits exactly these job files; a moved one has another path than before."""
        paths = self._paths(source)
        changes: dict[str, bytes | None] = dict.fromkeys(paths.values(), None)
        for name, content in files.items():
            is_known = name in paths and content.comment % 3 < 2
            path = paths[name] if is_known else f"jobs/{name}-{next(self.numbers)}.nomad.hcl"
            changes[path] = text_of(name, content).encode()
        changes["notes.txt"] = str(next(self.numbers)).encode()  # no commit is empty
        gone = ", ".join(sorted(KINDS.keys() - files.keys()))
        message = f"A change\n\nOrchgit-Delete: {gone}\n" if gone else "A change\n"
        commit = self.do(self.server.push(source, changes, message))
        self.commit_ids.add(commit)
        self.model.push(source, commit, files)

    def _paths(self, source: str) -> dict[str, str]:
        """Where the branch has the files of jobs."""
        commit = self.server.branch(source)
        if not commit:
            return {}
        repository = self.server.gitops.mirrors.get(self.server.repository(source)).open()
        paths = [entry.path for entry in repository.files(commit, ["**/*.nomad.hcl"])]
        return {path.removeprefix("jobs/").split("-")[0]: path for path in paths}

    def until_drift_is_known(self) -> None:
        self.do(self.server.settle())
        self.do(self.server.until(lambda: self._drifted() == self.model.drifted(), self._drifted))

    # -- what must hold --------------------------------------------------------------------------

    @invariant()
    def is_as_the_model_says(self) -> None:
        self.model.come_to_rest()
        self.do(self._come_to_rest())
        self._bind_commits()
        for name, kind in KINDS.items():
            if kind.runs_once:
                self._has_run_as_often_as_asked(name)

    async def _come_to_rest(self) -> None:
        """Lets the server look at its sources and correct drift until it is as the model says."""
        differences: list[str] = []
        for tries in range(_MOST_TRIES):
            await self.server.settle()
            for name in sorted(self.model.sources):
                await self.server.gitops.sync(name)
            await self.server.settle()
            differences = self._differences()
            if not differences:
                return
            await self.server.clock.advance(0.1 * 1.5**tries)
        raise AssertionError("\n".join(differences))

    def _differences(self) -> list[str]:
        """How the server is otherwise than the model says."""
        found = {name: _seen(job) for name, job in self.server.jobs().items()}
        wanted = {name: _expected(job) for name, job in self.jobs.items()}
        why = {name: job.why for name, job in self.jobs.items()}
        differences = [
            f"{name}: {found.get(name)} is registered, not {wanted.get(name)} ({why.get(name)})"
            for name in sorted({*found, *wanted})
            if found.get(name) != wanted.get(name)
        ]
        for name, source in sorted(self.model.sources.items()):
            status = self.server.source(name).status
            commit = source.applied
            is_new = status.applied_commit not in self.commit_ids
            is_wanted_new = commit is not None and not commit.id
            wanted_id = commit.id if commit is not None else ""
            if is_new != is_wanted_new or (not is_new and status.applied_commit != wanted_id):
                differences.append(f"{name} is at {status}, not at {commit}")
            waiting = source.waiting.commit.id if source.waiting is not None else ""
            if self._waiting(name) != waiting:
                differences.append(f"{name} waits with {self._waiting(name)}, not with {waiting}")
        held = {name: row.source for name, row in self.model.cluster.held.items()}
        if self._held() != held:
            differences.append(f"held are {self._held()}, not {held}")
        if self._drifted() != self.model.drifted():
            differences.append(f"drifted are {self._drifted()}, not {self.model.drifted()}")
            differences += self._details()
        return differences

    def _details(self) -> list[str]:
        """What the state says of drift and held versions, for the reader of a failed test."""
        with self.server.snapshot() as snapshot:
            found = [
                *snapshot.drifted_jobs.all(),
                *(
                    row
                    for name in ("", *SOURCES)
                    for row in snapshot.held_versions.known_of_source(name)
                ),
                *snapshot.rollouts.all(limit=3),
            ]
        return [f"index {snapshot.index}: {each}" for each in found]

    def _waiting(self, source: str) -> str:
        with self.server.snapshot() as snapshot:
            return next((each.commit.id for each in snapshot.rollouts.waiting(source)), "")

    def _held(self) -> dict[str, str]:
        with self.server.snapshot() as snapshot:
            rows = [
                row
                for name in ("", *SOURCES)
                for row in snapshot.held_versions.known_of_source(name)
            ]
        return {row.job_id: row.source for row in rows}

    def _drifted(self) -> dict[str, tuple[str, str]]:
        with self.server.snapshot() as snapshot:
            rows = [row for name in SOURCES for row in snapshot.drifted_jobs.all(name)]
        return {row.job_id: (row.source, str(row.kind)) for row in rows}

    def _bind_commits(self) -> None:
        """Notes the ids of commits that the server made by itself."""
        for name, source in self.model.sources.items():
            if source.applied is not None and not source.applied.id:
                source.applied.id = self.server.source(name).status.applied_commit
                assert source.applied.id == self.server.branch(name)
            if source.applied is not None:
                self.commit_ids.add(source.applied.id)

    def _has_run_as_often_as_asked(self, name: str) -> None:
        """Scaling starts fewer than the new count, as some run already."""
        started = {key: n for key, n in self.server.started.items() if key[0] == name}
        asked = {key: n for key, n in self.model.cluster.started.items() if key[0] == name}
        assert started.keys() == asked.keys(), f"{started}, but {asked}"
        assert all(n <= asked[key] for key, n in started.items()), f"{started}, not {asked}"


def _seen(job: Job) -> tuple[object, ...]:
    origin = job.origin
    former = origin.former_source if origin else ""
    return (spec_of(job), job.stop, owner_of(job), origin.released_from if origin else "", former)


def _expected(job: Registered) -> tuple[object, ...]:
    return (job.spec, job.stopped, job.owner, job.released_from, job.former_owner)
