"""The gitops part of a server, put together: what the API and the composition root use."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

import structlog
from starlette.routing import Route

from orchgit.errors import InvalidInputError, NotFoundError
from orchgit.gitops.commits.applier import CommitApplier, SourceCache
from orchgit.gitops.commits.forecast import Forecaster
from orchgit.gitops.commits.plan import Trigger
from orchgit.gitops.commits.preview import Preview, Previewer
from orchgit.gitops.commits.rerun import Rerunner
from orchgit.gitops.commits.revert import Reverter
from orchgit.gitops.config import GitopsConfig
from orchgit.gitops.git.process import GitProcess
from orchgit.gitops.mirrors.backup import RepositoryBackup
from orchgit.gitops.mirrors.maintenance import Maintenance
from orchgit.gitops.mirrors.mirror import MirrorStore
from orchgit.gitops.mirrors.pack_exchange import PackExchange
from orchgit.gitops.mirrors.peers import NoPeers, PeerClient, Peers
from orchgit.gitops.mirrors.quorum import ObjectQuorum
from orchgit.gitops.mirrors.rules import full_ref
from orchgit.gitops.mirrors.synchronizer import MirrorSynchronizer
from orchgit.gitops.parsing.discovery import Discoverer, ParseCache
from orchgit.gitops.parsing.disk_cache import DiskParseCache
from orchgit.gitops.parsing.port import JobParser
from orchgit.gitops.remote.push import NoLogs, PushReceiver, TaskLogs
from orchgit.gitops.remote.routes import GitRemote
from orchgit.gitops.rollouts.tracker import RolloutTracker
from orchgit.gitops.sources.loops import SourceLoops
from orchgit.gitops.sources.reconciler import ReconcilerPorts
from orchgit.gitops.webhooks.routes import WebhookRoutes
from orchgit.model.rollout import Commit, Rollout
from orchgit.model.source import Source, SourceKind
from orchgit.replication.commands import RefMove
from orchgit.replication.proposal import RequestWrites
from orchgit.services.context import UseCaseContext

_log = structlog.get_logger(component="gitops")


class Gitops:
    """`open` and `close` with the server; `start` on gaining leadership, `stop` on losing it;
    `routes` and `synchronizer` always.

    The mirrors lie in `<data_dir>/git`: one that is lost is fetched from the other servers.
    `<data_dir>/parsed.sqlite` only saves work, and may be deleted at any time.
    """

    def __init__(
        self,
        context: UseCaseContext,
        data_dir: Path,
        parser: JobParser,
        forecaster: Forecaster,
        config: GitopsConfig | None = None,
        chance: random.Random | None = None,
        peers: Peers | None = None,
        calls: PeerClient | None = None,
        logs: TaskLogs | None = None,
    ) -> None:
        self.config = config or GitopsConfig()
        self._context = context
        self._parser = parser
        self._memories: dict[str, SourceCache] = {}
        self._parsed = DiskParseCache(
            data_dir / "parsed.sqlite", self.config.limits.max_parsed_bytes
        )
        self._tasks: list[asyncio.Task[None]] = []
        self._keeping: asyncio.Task[None] | None = None
        limits = self.config.limits
        self._git = GitProcess(data_dir / "git", limits)
        self._git.prepare()
        self.mirrors = MirrorStore(data_dir / "git", limits)
        applier = CommitApplier(context)
        self.tracker = RolloutTracker(context, self.config.tracker)
        self._applier = applier
        self._maintenance = Maintenance(self._git)
        chance = chance or random.Random()  # noqa: S311 - jitter, no secret
        peers, self._calls = peers or NoPeers(), calls or PeerClient()
        self.exchange = PackExchange(self._git, self.mirrors, self._maintenance, peers, self._calls)
        self.synchronizer = MirrorSynchronizer(
            context,
            self.mirrors,
            self._git,
            self.exchange,
            chance,
            lambda source: self.wake(source, "poll"),
        )
        self._quorum = ObjectQuorum(peers, self._calls, context.clock, limits.hold_timeout_s)
        self.backup = RepositoryBackup(self.mirrors, self._git, self.synchronizer, self._quorum)
        self._receiver = PushReceiver(
            context,
            self._git,
            applier,
            self.tracker,
            forecaster,
            self._memory,
            self._maintenance,
            self.synchronizer,
            self._quorum,
            logs or NoLogs(),
        )
        self._previewer = Previewer(applier, forecaster, limits)
        ports = ReconcilerPorts(
            context,
            self._git,
            applier,
            self.config,
            chance,
            self._memory,
            self._maintenance,
            self.synchronizer,
            self._quorum,
        )
        self._loops = SourceLoops(self.mirrors, ports, self._forget)
        self._remote = GitRemote(
            context,
            self.mirrors,
            self._git,
            self._receiver,
            self.synchronizer,
            self._parser.warm_up,
        )
        self._webhooks = WebhookRoutes(
            self._sources,
            self.config.webhook_secrets,
            self.wake,
            limits.webhook_max_bytes,
            lambda: self.synchronizer.own_name,
        )

    def _memory(self, source: str) -> SourceCache:
        known = self._memories.get(source)
        if known is None:
            discoverer = Discoverer(self._parser, ParseCache(self._parsed))
            known = self._memories[source] = SourceCache(discoverer)
        return known

    def _forget(self, source: str) -> None:
        self._memories.pop(source, None)

    def _sources(self) -> Sequence[Source]:
        with self._context.snapshot() as snapshot:
            return snapshot.sources.all()

    @property
    def routes(self) -> list[Route]:
        """The git remote and the webhooks."""
        return [*self._remote.routes(), *self._webhooks.routes()]

    def open(self) -> None:
        """Begin to keep the mirrors as the state says, whether or not this server leads."""
        self._keeping = asyncio.create_task(self.synchronizer.run(), name="mirrors")
        self._keeping.add_done_callback(_log_end)

    async def close(self) -> None:
        """End everything."""
        await self.stop()
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.gather(self._keeping, return_exceptions=True)
        await self._quorum.close()
        await self._maintenance.close()
        await self._calls.close()

    async def start(self) -> None:
        """Begin to follow all sources and all rollouts that are under way."""
        if self._tasks:
            return
        loops = (self._loops.run(), self.tracker.run())
        self._tasks = [asyncio.create_task(loop, name="gitops") for loop in loops]
        for task in self._tasks:
            task.add_done_callback(_log_end)

    async def stop(self) -> None:
        """End every loop. An apply under way is complete in the log or has not happened."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._parsed.close()
        await asyncio.to_thread(self._parser.close)

    def wake(self, source: str, trigger: str = "api", force: bool = False) -> None:
        """Look at the source now; `force` tries a refused commit again."""
        self._loops.wake(source, trigger, force)

    def last_checked_ns(self, source: str) -> int:
        """When this server last looked at the source; 0: not since it leads."""
        return self._loops.last_checked_ns(source)

    async def sync(self, source: str) -> None:
        """Look at the source now, and return when that is done. Raises NotFoundError."""
        self._applier.source(source)
        reconciler = await self._loops.reconciler(source)
        await reconciler.round_after_now()

    async def rerun(
        self,
        source: str,
        jobs: Sequence[tuple[str, str]],
        writes: RequestWrites | None = None,
    ) -> Rollout:
        """Create jobs of the applied commit again; see `Rerunner.rerun`."""
        self._applier.source(source)
        await self.synchronizer.wait_until_current(source)
        context = self._context.noting(writes)
        rerunner = Rerunner(context, CommitApplier(context))
        return await rerunner.rerun(jobs, self.mirrors.get(source), self._memory(source))

    async def preview_files(
        self,
        source: str,
        files: Mapping[str, bytes],
        base_files: Mapping[str, bytes] | None = None,
    ) -> Preview:
        """What a whole work tree's files would do (`orchgit diff`); with `base_files`, what would
        change between the two trees, whatever is registered."""
        memory = self._memory(source)
        if base_files is not None:
            return await self._previewer.between(source, base_files, files, memory)
        return await self._previewer.of_files(source, files, memory)

    async def revert(
        self, rollout_id: str, pusher: str = "", writes: RequestWrites | None = None
    ) -> Rollout:
        """Take a rollout back; see `Reverter.revert`."""
        with self._context.snapshot() as snapshot:
            rollout = snapshot.rollouts.get(rollout_id)
        name = rollout.source if rollout is not None else ""
        if not name:
            raise NotFoundError(f"cannot revert rollout {rollout_id}: there is none")
        context = self._context.noting(writes)
        reverter = Reverter(context, CommitApplier(context), self.synchronizer, self._quorum)
        return await reverter.revert(rollout_id, self.mirrors.get(name), self._memory(name), pusher)

    def follow(self, rollout: Rollout) -> AsyncIterator[Rollout]:
        """The rollout's states as they are judged, up to and including the last."""
        return self.tracker.follow(rollout)

    async def seed(self, source: str, files: Mapping[str, bytes], message: str) -> Rollout | None:
        """Commit files to an empty built-in repository and apply them, as a first push would.

        None if the branch has a commit already.
        """
        settings = self._applier.source(source)
        if settings.kind != SourceKind.BUILTIN:
            raise InvalidInputError(f"cannot seed source {source!r}: it is not built in")
        mirror, memory = self.mirrors.get(source), self._memory(source)
        async with mirror.lock:
            repository = mirror.open()
            ref = full_ref(settings.ref)
            if self.synchronizer.refs(source):
                return None
            author = Commit(
                author="orchgit", email="orchgit@localhost", time_ns=self._context.now_ns()
            )
            commit_id = repository.write_commit(None, files, author, message)
            read = await self._applier.read(repository, commit_id, settings, memory)
            plan = await self._applier.plan(read, source, memory)
            if plan.problems:
                raise InvalidInputError(f"cannot seed {source!r}:\n" + "\n".join(plan.problems))
            await self._quorum.hold(source, [commit_id])
            move = RefMove(ref, "", commit_id)
            rollout = await self._applier.apply(read, plan, Trigger("push"), memory, [move])
            await self.synchronizer.sync_refs_locked(mirror)
            return rollout


def _log_end(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and task.exception() is not None:
        _log.error("gitops loop ended", task=task.get_name(), error=repr(task.exception()))
