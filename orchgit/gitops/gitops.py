"""The gitops part of a server, put together: what the API and the composition root use."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

from starlette.routing import Route

from orchgit.errors import InvalidInputError, NotFoundError
from orchgit.gitops.commits.applying import Applier, SourceMemory
from orchgit.gitops.commits.plan import Occasion
from orchgit.gitops.commits.previews import Preview, Previewer
from orchgit.gitops.commits.rerunning import Rerunner
from orchgit.gitops.commits.reverting import Reverter
from orchgit.gitops.config import GitopsConfig
from orchgit.gitops.git.maintenance import Maintenance
from orchgit.gitops.git.process import GitProcess
from orchgit.gitops.log import LOG
from orchgit.gitops.mirrors.backup import RepositoryBackup
from orchgit.gitops.mirrors.holders import Holders
from orchgit.gitops.mirrors.keeper import MirrorKeeper
from orchgit.gitops.mirrors.mirrors import Mirrors
from orchgit.gitops.mirrors.pack_exchange import PackExchange
from orchgit.gitops.mirrors.peers import NoPeers, PeerCalls, Peers
from orchgit.gitops.mirrors.rules import full_ref
from orchgit.gitops.parsing.cache import ParseStore
from orchgit.gitops.parsing.discovery import Discoverer, ParseCache
from orchgit.gitops.parsing.port import JobParser
from orchgit.gitops.remote.push import Forecaster, NoLogs, PushReceiver, TaskLogs
from orchgit.gitops.remote.remote import GitRemote
from orchgit.gitops.rollouts.rollouts import RolloutTracker
from orchgit.gitops.sources.reconciler import ReconcilerPorts
from orchgit.gitops.sources.sources import SourceLoops
from orchgit.gitops.webhooks.routes import WebhookRoutes
from orchgit.model.rollout import Commit, Rollout
from orchgit.model.source import Source, SourceKind
from orchgit.replication.commands import RefMove
from orchgit.services.world import World


class Gitops:
    """`open` and `close` with the server; `start` on gaining leadership, `stop` on losing it;
    `routes` and `keeper` always.

    The mirrors lie in `<data_dir>/git`: one that is lost is fetched from the other servers.
    `<data_dir>/parsed.sqlite` only saves work, and may be deleted at any time.
    """

    def __init__(
        self,
        world: World,
        data_dir: Path,
        parser: JobParser,
        forecaster: Forecaster,
        config: GitopsConfig | None = None,
        chance: random.Random | None = None,
        peers: Peers | None = None,
        calls: PeerCalls | None = None,
        logs: TaskLogs | None = None,
    ) -> None:
        self.config = config or GitopsConfig()
        self._world = world
        self._parser = parser
        self._memories: dict[str, SourceMemory] = {}
        self._parsed = ParseStore(data_dir / "parsed.sqlite", self.config.limits.max_parsed_bytes)
        self._tasks: list[asyncio.Task[None]] = []
        self._keeping: asyncio.Task[None] | None = None
        limits = self.config.limits
        self._git = GitProcess(data_dir / "git", limits)
        self._git.prepare()
        self.mirrors = Mirrors(data_dir / "git", limits)
        applier = Applier(world)
        self.tracker = RolloutTracker(world, self.config.tracker)
        self._applier = applier
        self._maintenance = Maintenance(self._git)
        chance = chance or random.Random()  # noqa: S311 - jitter, no secret
        peers, self._calls = peers or NoPeers(), calls or PeerCalls()
        self.exchange = PackExchange(self._git, self.mirrors, self._maintenance, peers, self._calls)
        self.keeper = MirrorKeeper(
            world,
            self.mirrors,
            self._git,
            self.exchange,
            chance,
            lambda source: self.wake(source, "poll"),
        )
        self._holders = Holders(peers, self._calls, world.clock, limits.hold_timeout_s)
        self.backup = RepositoryBackup(self.mirrors, self._git, self.keeper, self._holders)
        self._receiver = PushReceiver(
            world,
            self._git,
            applier,
            self.tracker,
            forecaster,
            self._memory,
            self._maintenance,
            self.keeper,
            self._holders,
            logs or NoLogs(),
        )
        self._previewer = Previewer(applier, forecaster, limits)
        self._rerunner = Rerunner(world, applier)
        self._reverter = Reverter(world, applier, self.keeper, self._holders)
        ports = ReconcilerPorts(
            world,
            self._git,
            applier,
            self.config,
            chance,
            self._memory,
            self._maintenance,
            self.keeper,
            self._holders,
        )
        self._loops = SourceLoops(self.mirrors, ports, self._forget)
        self._remote = GitRemote(
            world, self.mirrors, self._git, self._receiver, self.keeper, self._parser.warm_up
        )
        self._webhooks = WebhookRoutes(
            self._sources,
            self.config.webhook_secrets,
            self.wake,
            limits.webhook_max_bytes,
            lambda: self.keeper.own_name,
        )

    def _memory(self, source: str) -> SourceMemory:
        known = self._memories.get(source)
        if known is None:
            discoverer = Discoverer(self._parser, ParseCache(self._parsed))
            known = self._memories[source] = SourceMemory(discoverer)
        return known

    def _forget(self, source: str) -> None:
        self._memories.pop(source, None)

    def _sources(self) -> Sequence[Source]:
        with self._world.snapshot() as snapshot:
            return snapshot.sources.all()

    @property
    def routes(self) -> list[Route]:
        """The git remote and the webhooks."""
        return [*self._remote.routes(), *self._webhooks.routes()]

    def open(self) -> None:
        """Begin to keep the mirrors as the state says, whether or not this server leads."""
        self._keeping = asyncio.create_task(self.keeper.run(), name="mirrors")
        self._keeping.add_done_callback(_log_end)

    async def close(self) -> None:
        """End everything."""
        await self.stop()
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.gather(self._keeping, return_exceptions=True)
        await self._holders.close()
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

    async def rerun(self, source: str, jobs: Sequence[tuple[str, str]]) -> Rollout:
        """Create jobs of the applied commit again; see `Rerunner.rerun`."""
        self._applier.source(source)
        await self.keeper.current(source)
        return await self._rerunner.rerun(jobs, self.mirrors.get(source), self._memory(source))

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

    async def revert(self, rollout_id: str, pusher: str = "") -> Rollout:
        """Take a rollout back; see `Reverter.revert`."""
        with self._world.snapshot() as snapshot:
            rollout = snapshot.rollouts.get(rollout_id)
        name = rollout.source if rollout is not None else ""
        if not name:
            raise NotFoundError(f"cannot revert rollout {rollout_id}: there is none")
        return await self._reverter.revert(
            rollout_id, self.mirrors.get(name), self._memory(name), pusher
        )

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
            if self.keeper.refs(source):
                return None
            author = Commit(
                author="orchgit", email="orchgit@localhost", time_ns=self._world.now_ns()
            )
            commit_id = repository.write_commit(None, files, author, message)
            read = await self._applier.read(repository, commit_id, settings, memory)
            plan = await self._applier.plan(read, source, memory)
            if plan.problems:
                raise InvalidInputError(f"cannot seed {source!r}:\n" + "\n".join(plan.problems))
            await self._holders.hold(source, [commit_id])
            move = RefMove(ref, "", commit_id)
            rollout = await self._applier.apply(read, plan, Occasion("push"), memory, [move])
            await self.keeper.settle_locked(mirror)
            return rollout


def _log_end(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and task.exception() is not None:
        LOG.error("gitops loop ended", task=task.get_name(), error=repr(task.exception()))
