"""A server's gitops part on real state and real git, reachable over HTTP on loopback."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from dataclasses import replace as replace_config
from pathlib import Path

import uvicorn
from msgspec.structs import replace
from starlette.applications import Starlette

from orchgit.clock import Clock, SystemClock
from orchgit.errors import OrchgitError
from orchgit.gitops.commits.forecast import Forecast, Forecaster
from orchgit.gitops.commits.plan import CommitPlan
from orchgit.gitops.config import GitopsConfig
from orchgit.gitops.gitops import Gitops, GitopsPorts
from orchgit.gitops.parsing.job_parser import JobspecParser
from orchgit.gitops.parsing.pool import ParsePool
from orchgit.gitops.parsing.port import Inputs, JobFile, ParsedFile
from orchgit.ids import RandomIds
from orchgit.model.evaluation import EvalStatus
from orchgit.model.job import Job
from orchgit.model.rollout import Rollout
from orchgit.model.source import Source
from orchgit.replication.commands.evaluations import UpsertEvaluations
from orchgit.replication.commands.gitops import UpsertSource
from orchgit.replication.replicated import ReplicatedState
from orchgit.services.context import UseCaseContext
from tests.support.git_repos import WorkTree
from tests.support.state import running_state


class NoForecasts:
    """A forecaster that has nothing to say, as for a plan without changes."""

    async def forecast(self, plan: CommitPlan, budget_s: float | None = None) -> Forecast:
        return Forecast()


class CountingParser(JobspecParser):
    """The real parser; remembers which files it parsed."""

    def __init__(self, pool: ParsePool | None = None) -> None:
        super().__init__(pool)
        self.parsed: list[str] = []

    def parse_many(
        self, files: Sequence[JobFile], inputs: Inputs
    ) -> Sequence[ParsedFile | OrchgitError]:
        self.parsed += [file.path for file in files]
        return super().parse_many(files, inputs)


@dataclass
class GitopsRig:
    state: ReplicatedState
    context: UseCaseContext
    gitops: Gitops
    http: str
    parser: CountingParser
    tasks: list[asyncio.Task[None]] = field(default_factory=list)

    def url(self, source: str) -> str:
        return f"{self.http}/git/{source}.git"

    async def add_source(self, name: str = "demo", **fields: object) -> Source:
        source = Source(name=name, **fields)  # type: ignore[arg-type]
        await self.state.propose(UpsertSource(now_ns=1, source=source))
        return source

    def source(self, name: str = "demo") -> Source:
        with self.context.snapshot() as snapshot:
            found = snapshot.sources.get(name)
        assert found is not None
        return found

    def job(self, job_id: str, namespace: str = "default") -> Job | None:
        with self.context.snapshot() as snapshot:
            return snapshot.jobs.get(namespace, job_id)

    def rollouts(self, source: str = "demo") -> list[Rollout]:
        with self.context.snapshot() as snapshot:
            return snapshot.rollouts.all(source)

    def rollout_of(self, commit: str) -> Rollout:
        """Returns the only rollout of the commit."""
        [found] = [each for each in self.rollouts() if each.commit.id == commit]
        return found

    async def until(self, done, timeout_s: float = 60.0) -> None:  # type: ignore[no-untyped-def]
        """Wait until `done()` holds, looking after every change of the state."""
        async with asyncio.timeout(timeout_s):
            while not done():
                index = self.state.store.watch.applied_index
                if done():
                    return
                await self.state.store.watch.wait_applied(index + 1, timeout_s)

    async def evaluate_everything(self) -> None:
        """Stands for the schedulers: every evaluation is done as soon as it is there."""
        watch = self.state.store.watch
        while True:
            with self.context.snapshot() as snapshot:
                index = snapshot.index
                pending = snapshot.evaluations.of_status(EvalStatus.PENDING)
            if pending:
                done = [replace(each, status=EvalStatus.COMPLETE) for each in pending]
                await self.state.propose(UpsertEvaluations(now_ns=1, evaluations=done))
            else:
                await watch.wait(("evaluations",), index, 60)


DemoBody = Callable[[GitopsRig, WorkTree], Awaitable[None]]


def with_demo(directory: Path, body: DemoBody) -> None:
    """Runs a test on a rig with the built-in source `demo` and a work tree of its own."""

    async def run() -> None:
        async with gitops_rig(directory / "data") as rig:
            await rig.add_source()
            await body(rig, WorkTree(directory / "work"))

    asyncio.run(run())


@asynccontextmanager
async def gitops_rig(
    directory: Path,
    config: GitopsConfig | None = None,
    evaluate: bool = True,
    start: bool = True,
    parser: CountingParser | None = None,
    clock: Clock | None = None,
    forecaster: Forecaster | None = None,
) -> AsyncIterator[GitopsRig]:
    config = config or GitopsConfig()
    if not config.local_paths:
        # Tests keep their repositories beside the server's directory.
        config = replace_config(config, local_paths=(str(directory.parent),))
    async with running_state(directory) as state:
        context = UseCaseContext(state, clock or SystemClock(), RandomIds())
        parser = parser or CountingParser(ParsePool())
        gitops = Gitops(
            context, directory, config, GitopsPorts(parser, forecaster or NoForecasts())
        )
        async with served(gitops) as http:
            rig = GitopsRig(state, context, gitops, http, parser)
            if evaluate:
                rig.tasks.append(asyncio.create_task(rig.evaluate_everything()))
            gitops.open()
            if start:
                await gitops.start()
            try:
                yield rig
            finally:
                await gitops.close()
                for task in rig.tasks:
                    task.cancel()
                await asyncio.gather(*rig.tasks, return_exceptions=True)


class ServerWithoutSignals(uvicorn.Server):
    """Leaves the signals to pytest: several servers would not give them back in order."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def served(gitops: Gitops) -> AsyncIterator[str]:
    """The routes over real HTTP; yields the base URL."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()  # whoever connects before the server runs waits, and is not refused
    app = Starlette(routes=gitops.routes)
    config = uvicorn.Config(app, log_config=None, lifespan="off", timeout_graceful_shutdown=1)
    server = ServerWithoutSignals(config)
    task = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        await task
        listener.close()
