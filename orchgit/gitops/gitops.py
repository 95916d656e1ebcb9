"""Composition root of gitops: how its parts are wired, and what the server and the API call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import structlog
from starlette.routing import Route

from orchgit.gitops.commits.applier import CommitApplier
from orchgit.gitops.commits.approve import Approver
from orchgit.gitops.commits.forecast import Forecaster
from orchgit.gitops.commits.gatekeeper import Gatekeeper
from orchgit.gitops.commits.preview import Preview, Previewer
from orchgit.gitops.commits.rerun import Rerunner, RetryRequest
from orchgit.gitops.commits.revert import Reverter
from orchgit.gitops.commits.rollback import NOBODY, RollbackRequest
from orchgit.gitops.commits.seed import Seeder
from orchgit.gitops.commits.services import CommitServices
from orchgit.gitops.commits.source_cache import SourceCaches
from orchgit.gitops.commits.stage_runner import StageRunner
from orchgit.gitops.config import GitopsConfig
from orchgit.gitops.drift.adopter import Adopter
from orchgit.gitops.drift.corrector import DriftCorrector
from orchgit.gitops.drift.detector import DriftDetector
from orchgit.gitops.drift.healer import Healer
from orchgit.gitops.gates.approvals import checked_name, checked_reason
from orchgit.gitops.git.process import GitProcess
from orchgit.gitops.mirrors.backup import RepositoryBackup
from orchgit.gitops.mirrors.maintenance import Maintenance
from orchgit.gitops.mirrors.mirror import MirrorStore
from orchgit.gitops.mirrors.pack_exchange import PackExchange
from orchgit.gitops.mirrors.peers import NoPeers, PeerClient, Peers
from orchgit.gitops.mirrors.quorum import ObjectQuorum
from orchgit.gitops.mirrors.synchronizer import MirrorSynchronizer
from orchgit.gitops.parsing.disk_cache import DiskParseCache
from orchgit.gitops.parsing.port import JobParser
from orchgit.gitops.remote.access import Callers
from orchgit.gitops.remote.push import PushReceiver
from orchgit.gitops.remote.push_progress import PushProgress
from orchgit.gitops.remote.routes import GitRemote
from orchgit.gitops.rollouts.report import NoLogs, RolloutReporter, TaskLogs
from orchgit.gitops.rollouts.tracker import RolloutTracker
from orchgit.gitops.sources.gate_loop import GATE_TRIGGER, GateLoop
from orchgit.gitops.sources.health_gate import HealthGate
from orchgit.gitops.sources.health_recorder import HealthRecorder
from orchgit.gitops.sources.loops import SourceLoops
from orchgit.gitops.sources.status_reader import SourceStatusReader
from orchgit.gitops.sources.wakeups import NOBODY as NO_ASKER
from orchgit.gitops.sources.wakeups import Asker
from orchgit.gitops.webhooks.routes import WebhookRoutes
from orchgit.model.author import Author
from orchgit.model.gates import WindowOverride
from orchgit.model.rollout import Rollout
from orchgit.model.source import Source
from orchgit.model.source_health import SyncResult
from orchgit.replication.proposal import RequestWrites
from orchgit.services.context import UseCaseContext

_log = structlog.get_logger(component="gitops")


@dataclass(frozen=True, slots=True)
class GitopsPorts:
    """What gitops uses of the rest of the server. The defaults are those of a lone server without
    agents; `random` spreads polls and retries."""

    parser: JobParser
    forecaster: Forecaster
    peers: Peers = field(default_factory=NoPeers)
    peer_client: PeerClient = field(default_factory=PeerClient)
    logs: TaskLogs = field(default_factory=NoLogs)
    random: Random = field(default_factory=Random)
    on_rollout_ended: Callable[[Rollout], None] = lambda rollout: None
    """Called on the leader with each rollout that has ended."""
    callers: Callers | None = None
    """Finds who is behind a token of the git remote; None: everyone may do everything."""


class Gitops:
    """The gitops part of one server.

    The server calls `open` and `close` with its own life, `start` when it gains leadership and
    `stop` when it loses it. `routes`, `synchronizer` and `backup` serve on every server.

    Mirrors lie in `<data_dir>/git`; a lost one is fetched from the other servers. The cache
    `<data_dir>/parsed.sqlite` may be deleted at any time.
    """

    def __init__(
        self, context: UseCaseContext, data_dir: Path, config: GitopsConfig, ports: GitopsPorts
    ) -> None:
        limits, peers, client = config.limits, ports.peers, ports.peer_client
        self._ports = ports

        # git and the mirrors, on every server
        git = GitProcess(data_dir / "git", limits)
        git.prepare()
        self.mirrors = MirrorStore(data_dir / "git", limits)
        self._maintenance = Maintenance(git, context.clock)
        self.exchange = PackExchange(git, self.mirrors, self._maintenance, peers, client)
        self.synchronizer = MirrorSynchronizer(
            context, self.mirrors, git, self.exchange, ports.random, self._wake_repository
        )
        self._quorum = ObjectQuorum(peers, client, context.clock, limits.hold_timeout_s)
        self.backup = RepositoryBackup(self.mirrors, git, self.synchronizer, self._quorum)

        # commits: read, planned, applied, followed
        self._disk_cache = DiskParseCache(data_dir / "parsed.sqlite", limits.max_parsed_bytes)
        self._services = CommitServices(
            context=context,
            git=git,
            mirrors=self.mirrors,
            quorum=self._quorum,
            applier=CommitApplier(context, checks_rights=ports.callers is not None),
            caches=SourceCaches(ports.parser, self._disk_cache, config.region),
            synchronizer=self.synchronizer,
            maintenance=self._maintenance,
        )
        self._stages = StageRunner(self._services, config.tracker.patience_s)
        self.tracker = RolloutTracker(
            context,
            config.tracker,
            self._stages.apply_open_stage,
            self._stages.problem,
            ports.on_rollout_ended,
        )
        self._adopter = Adopter(self._services)
        self._drift = DriftDetector(self._services)
        self._corrector = DriftCorrector(
            context, heal=Healer(self._services).heal, adopt=self._adopter.adopt
        )
        self._gatekeeper = Gatekeeper(self._services, ports.forecaster)
        self._previewer = Previewer(self._services, self._gatekeeper)
        self._seeder = Seeder(self._services, self._gatekeeper)

        # the ways in: loops on the leader, pushes, webhooks
        self._loops = SourceLoops(self._services, config, ports.random, self._gatekeeper)
        self._gate_loop = GateLoop(context, self._look_at_gates)
        receiver = PushReceiver(
            self._services, self._gatekeeper, self.wake, lambda name: self._loops.pushed(name)
        )
        self.reporter = RolloutReporter(context, ports.logs)
        progress = PushProgress(self.tracker, self.reporter)
        remote = GitRemote(self._services, receiver, progress, ports.parser.warm_up, ports.callers)

        def sources() -> Sequence[Source]:
            with context.snapshot() as snapshot:
                return snapshot.sources.all()

        webhooks = WebhookRoutes(
            sources,
            config.webhook_secrets,
            self.wake,
            limits.webhook_max_bytes,
            lambda: peers.own_name,
        )
        self.routes: list[Route] = [*remote.routes(), *webhooks.routes()]

        self.statuses = SourceStatusReader(self._loops.check)
        """The health of sources, on any server."""

        self._leader_tasks: list[asyncio.Task[None]] = []
        self._synchronizing: asyncio.Task[None] | None = None

    def open(self) -> None:
        """Starts to keep the mirrors as the state says, on leader and followers."""
        self._synchronizing = asyncio.create_task(self.synchronizer.run(), name="mirrors")
        self._synchronizing.add_done_callback(_log_failure)

    async def close(self) -> None:
        """Ends everything; returns when no task or connection is left."""
        await self.stop()
        if self._synchronizing is not None:
            self._synchronizing.cancel()
            await asyncio.gather(self._synchronizing, return_exceptions=True)
        await self._quorum.close()
        await self._maintenance.close()
        await self._ports.peer_client.close()

    async def start(self) -> None:
        """Starts the leader's loops: one for each source, and one each for the active rollouts,
        those that wait at their gates, the health gate, two for drift, and one that records the
        health of sources."""
        if self._leader_tasks:
            return
        health_gate = HealthGate(self._services.context, self.revert)
        loops = (
            self._loops.run(),
            self.tracker.run(),
            self._gate_loop.run(),
            health_gate.run(),
            self._drift.run(),
            self._corrector.run(),
            HealthRecorder(self._services.context, self.statuses).run(),
        )
        self._leader_tasks = [asyncio.create_task(loop, name="gitops") for loop in loops]
        for task in self._leader_tasks:
            task.add_done_callback(_log_failure)

    async def stop(self) -> None:
        """Ends the leader's loops. A commit under way is then in the log whole, or not at all."""
        tasks, self._leader_tasks = self._leader_tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._stages.stop()
        self._disk_cache.close()
        await asyncio.to_thread(self._ports.parser.close)

    def wake(
        self, source: str, trigger: str = "api", force: bool = False, asker: Asker = NO_ASKER
    ) -> None:
        """Makes the source's loop check for new commits now. With `force` it tries a refused
        commit again."""
        self._loops.wake(source, trigger, force, asker)

    def _look_at_gates(self, source: str) -> None:
        self._loops.wake(source, GATE_TRIGGER, force=False)

    def _wake_repository(self, repository: str) -> None:
        with self._services.context.snapshot() as snapshot:
            sources = snapshot.sources.of_repository(repository)
        for source in sources:
            self.wake(source.name)

    @property
    def leads(self) -> bool:
        """Whether the leader's loops run here."""
        return bool(self._leader_tasks)

    def now_ns(self) -> int:
        return self._services.context.now_ns()

    async def sync(
        self,
        source: str,
        override: WindowOverride | None = None,
        asker: Asker = NO_ASKER,
    ) -> SyncResult:
        """Checks the source for new commits, and returns what that came to. With `override` a
        commit is applied outside its windows. `asker` is recorded with the rollout.

        Raises NotFoundError if there is no such source, and UnavailableError if this server stops
        following it.
        """
        self._services.applier.source(source)
        reconciler = await self._loops.reconciler(source)
        return await reconciler.round_after_now(override, asker)

    async def rerun(
        self,
        source: str,
        jobs: Sequence[tuple[str, str]],
        by: str = "",
        writes: RequestWrites | None = None,
    ) -> Rollout:
        """Creates jobs of the applied commit again; see `Rerunner.rerun`."""
        return await Rerunner(self._services.noting(writes)).rerun(source, jobs, by)

    async def retry(
        self, source: str, request: RetryRequest, writes: RequestWrites | None = None
    ) -> Rollout:
        """Applies held versions of the applied commit again; see `Rerunner.retry`."""
        return await Rerunner(self._services.noting(writes)).retry(source, request)

    async def adopt(
        self, source: str, by: str = "", writes: RequestWrites | None = None
    ) -> Rollout | None:
        """Takes over jobs without a source; see `Rerunner.adopt`."""
        return await Rerunner(self._services.noting(writes)).adopt(source, by)

    async def preview_files(
        self,
        source: str,
        files: Mapping[str, bytes],
        base_files: Mapping[str, bytes] | None = None,
        fit: bool = False,
    ) -> Preview:
        """Returns what a whole work tree's files would change (`orchgit diff`): compared with what
        is registered, or with the tree `base_files`. With `fit` every job is planned."""
        if base_files is not None:
            return await self._previewer.between(source, base_files, files)
        return await self._previewer.of_files(source, files, fit)

    async def drift_patch(self, source: str) -> str:
        """Returns a patch that makes files say what runs now; see `Adopter.patch`."""
        return await self._adopter.patch(source)

    async def revert(
        self,
        rollout_id: str,
        request: RollbackRequest = NOBODY,
        writes: RequestWrites | None = None,
    ) -> Rollout:
        """Reverts a rollout; see `Reverter.revert`."""
        rollout = await self.reverter(writes).revert(rollout_id, request)
        self._wake_neighbours(rollout)
        return rollout

    async def rollback(
        self,
        source: str,
        commit: str,
        request: RollbackRequest = NOBODY,
        writes: RequestWrites | None = None,
    ) -> Rollout:
        """Takes a source back to an earlier commit; see `Reverter.rollback`."""
        rollout = await self.reverter(writes).rollback(source, commit, request)
        self._wake_neighbours(rollout)
        return rollout

    def _wake_neighbours(self, rollout: Rollout) -> None:
        """Tells the other sources of a built-in repository that its branch moved."""
        repository = self._services.applier.source(rollout.source).repository_name
        for each in self._services.applier.sources_of(repository):
            if each.name != rollout.source:
                self.wake(each.name)

    def reverter(self, writes: RequestWrites | None = None) -> Reverter:
        """Returns what takes sources back; what it writes to the log is noted in `writes`."""
        return Reverter(self._services.noting(writes), self._ports.forecaster)

    async def override_window(
        self, source: str, reason: str, by: str, author: Author | None = None
    ) -> SyncResult:
        """Applies the source's newest commit outside its windows, once its other gates are open;
        returns what trying so came to. Raises InvalidInputError without a name or a reason."""
        purpose = "override a window"
        override = WindowOverride(
            checked_name(by, purpose),
            checked_reason(reason, purpose),
            self._services.context.now_ns(),
        )
        return await self.sync(source, override, Asker(by, author))

    async def approve(
        self, rollout_id: str, plan_hash: str, by: str, writes: RequestWrites | None = None
    ) -> Rollout:
        """Approves the plan of a rollout that waits; see `Approver.approve`."""
        context = self._services.context.noting(writes)
        return await Approver(context).approve(rollout_id, plan_hash, by)

    async def reject(
        self, rollout_id: str, reason: str, by: str, writes: RequestWrites | None = None
    ) -> Rollout:
        """Ends a rollout that waits; see `Approver.reject`."""
        context = self._services.context.noting(writes)
        return await Approver(context).reject(rollout_id, reason, by)

    def follow(self, rollout: Rollout) -> AsyncIterator[Rollout]:
        """Yields the rollout as it changes, up to and including its last status."""
        return self.tracker.follow(rollout)

    async def seed(self, source: str, files: Mapping[str, bytes], message: str) -> Rollout | None:
        """Makes the first commit of a built-in repository; see `Seeder.seed`."""
        return await self._seeder.seed(source, files, message)


def _log_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and task.exception() is not None:
        _log.error("a gitops loop failed", task=task.get_name(), error=repr(task.exception()))
