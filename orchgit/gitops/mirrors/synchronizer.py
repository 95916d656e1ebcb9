"""Keeps each server's mirrors as the state says: the objects it names, the refs it holds.

Objects that a mirror lacks are fetched from the leader, else from any server that has them. So a
server that joined, got a snapshot or was cut off catches up by itself, and any server can take over
from a leader that is lost with its disk and with the host the repositories came from.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

import structlog

from orchgit.backoff import backoff_s
from orchgit.cancellation import to_thread_until_done
from orchgit.errors import NotFoundError, OrchgitError, UnavailableError
from orchgit.gitops.git.process import GitProcess
from orchgit.gitops.mirrors.mirror import Mirror, MirrorStore
from orchgit.gitops.mirrors.pack_exchange import PackExchange
from orchgit.gitops.mirrors.packs import lacking
from orchgit.gitops.mirrors.rules import (
    FIRST_BACKOFF_S,
    MAX_BACKOFF_S,
    MAX_LOST_BACKOFF_S,
    Wanted,
    plan_mirror,
    shown_refs,
    wanted_of,
)
from orchgit.services.context import UseCaseContext
from orchgit.state.changes import target
from orchgit.wait_first import wait_first
from orchgit.wire.messages import PackFrame

_log = structlog.get_logger(component="gitops")

_IDLE_WAIT_S = 300.0


@dataclass(frozen=True, slots=True)
class _Lost:
    """Objects that this server lacks, and that all of the servers at the addresses `peers` lack."""

    objects: frozenset[str]
    peers: frozenset[str]


@dataclass(slots=True)
class _Progress:
    """How far one mirror is. `lacking` counts the objects it lacks; `lost` are those that no server
    had when all were asked. `objects_came` is set when a push or another server brought objects."""

    lacking: int = 0
    lost: _Lost | None = None
    objects_came: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(frozen=True, slots=True)
class _Follower:
    """The task that follows one mirror, and the sources whose mirror it is."""

    sources: tuple[str, ...]
    task: asyncio.Task[None]


class MirrorSynchronizer:
    """Synchronizes the mirrors of one server, leader or follower, while `run` runs.

    `caught_up` is called with a repository's name when objects came that had been missing.
    """

    def __init__(
        self,
        context: UseCaseContext,
        mirrors: MirrorStore,
        git: GitProcess,
        exchange: PackExchange,
        random: Random,
        caught_up: Callable[[str], None],
    ) -> None:
        self._context = context
        self._mirrors = mirrors
        self._git = git
        self._exchange = exchange
        self._random = random
        self._caught_up = caught_up
        self._followers: dict[str, _Follower] = {}
        self._progress: defaultdict[str, _Progress] = defaultdict(_Progress)

    @property
    def lacking_objects(self) -> int:
        """How many objects this server's mirrors lack now."""
        return sum(each.lacking for each in self._progress.values())

    @property
    def own_name(self) -> str:
        """This server's name in errors."""
        return self._exchange.own_name

    # -- following the state ---------------------------------------------------------------------

    async def run(self) -> None:
        """Runs until cancelled; then no mirror is followed any longer."""
        try:
            while True:
                with self._context.snapshot() as snapshot:
                    index = snapshot.index
                    repositories = snapshot.sources.by_repository()
                    for name in snapshot.git_refs.repositories():
                        repositories.setdefault(name, [])
                self._match(repositories)
                await self._context.state.store.watch.wait(("sources",), index, _IDLE_WAIT_S)
        finally:
            followers = [follower.task for follower in self._followers.values()]
            self._followers.clear()
            for task in followers:
                task.cancel()
            await asyncio.gather(*followers, return_exceptions=True)

    def _match(self, repositories: Mapping[str, Sequence[str]]) -> None:
        for name, sources in repositories.items():
            known = self._followers.get(name)
            if known is not None and known.sources == tuple(sources):
                continue
            if known is not None:
                known.task.cancel()
            rows = (*(target("sources", source) for source in sources), target("git_refs", name))
            following = self._follow(name, rows)
            task = asyncio.create_task(following, name=f"mirror {name}")
            self._followers[name] = _Follower(tuple(sources), task)
        for name in self._followers.keys() - repositories.keys():
            self._followers.pop(name).task.cancel()
            self._progress.pop(name, None)

    async def _follow(self, name: str, targets: tuple[str, ...]) -> None:
        """Follows one mirror until cancelled. A change of the rows `targets` may change which
        objects the mirror must have.

        Objects that a server may have which does not answer are asked for every few seconds.
        Objects that no server has are logged once, and asked for ever more rarely.
        """
        failures, logged = 0, ""
        while True:
            with self._context.snapshot() as snapshot:
                index = snapshot.index
            error = await self._round(name)
            lost = self._progress[name].lost
            if error not in ("", logged) and lost is None:
                _log.warning("a mirror lacks objects", source=name, error=error)
            logged = error
            if lost is not None:
                spread = self._random.random()
                pause_s = backoff_s(failures, FIRST_BACKOFF_S, MAX_LOST_BACKOFF_S, spread)
                await self._until_worth_asking(name, lost, (*targets, "servers"), index, pause_s)
            else:
                spread = self._random.random()
                retry_s = backoff_s(failures, FIRST_BACKOFF_S, MAX_BACKOFF_S, spread)
                pause_s = retry_s if error else _IDLE_WAIT_S
                await self._context.state.store.watch.wait(targets, index, pause_s)
            failures = failures + 1 if error else 0

    async def _until_worth_asking(
        self, name: str, lost: _Lost, targets: tuple[str, ...], index: int, pause_s: float
    ) -> None:
        """Waits `pause_s`, or until asking for the lost objects may succeed: other objects are
        lacking, the servers changed, or a push or commit may have brought them to one."""
        clock, watch = self._context.clock, self._context.state.store.watch
        began_s, wanted = clock.monotonic_s(), self.wanted(name)
        while (left_s := began_s + pause_s - clock.monotonic_s()) > 0:
            came = self._progress[name].objects_came
            came.clear()
            changed = watch.wait(targets, index, min(left_s, _IDLE_WAIT_S))
            async with wait_first(changed, came.wait()):
                pass
            with self._context.snapshot() as snapshot:
                index = snapshot.index
            if self.wanted(name) != wanted:
                pause_s = min(pause_s, MAX_BACKOFF_S)
            if not await self._is_still_lost(name, lost):
                return

    async def _is_still_lost(self, name: str, lost: _Lost | None) -> bool:
        """Returns whether the same servers still lack the same objects. Moves refs on the way."""
        if lost is None or lost.peers != self._exchange.others():
            return False
        missing = await self.sync_refs(await asyncio.to_thread(self._mirrors.get, name))
        self._progress[name].lacking = len(missing)
        return missing == lost.objects

    async def _round(self, name: str) -> str:
        """Catches up once; returns what went wrong, or ''. An error does not end the loop."""
        try:
            await self.catch_up(name)
        except OrchgitError as error:
            return str(error)
        except Exception:  # noqa: BLE001 - the next round may do better
            _log.exception("a round of a mirror failed", source=name)
            return "internal error"
        return ""

    async def wait_until_current(self, name: str) -> None:
        """Waits until the mirror shows what the state says, for at most `catch_up_timeout_s`.

        Raises UnavailableError if a server that may have missing objects was not reached, or the
        time is over. Returns if every server was asked and none has them.
        """
        mirror = self._mirrors.get(name)
        if mirror.synced == self.wanted(name):
            return
        if await self._is_still_lost(name, self._progress[name].lost):
            return
        limit_s = self._git.limits.catch_up_timeout_s
        try:
            async with asyncio.timeout(limit_s):
                await self.catch_up(name)
        except NotFoundError:
            return
        except TimeoutError:
            raise UnavailableError(
                f"cannot use repository {name!r} on {self.own_name} yet: its newest "
                f"objects are still being fetched from other servers (waited {limit_s:g} s); "
                "try again"
            ) from None

    async def catch_up(self, name: str) -> None:
        """Fetches what the mirror lacks, and moves its refs.

        Raises UnavailableError if a server that may have the objects was not reached, and
        NotFoundError if all servers were asked and none has them.
        """
        mirror = await asyncio.to_thread(self._mirrors.get, name)
        async with mirror.fetching:
            progress = self._progress[name]
            missing = await self.sync_refs(mirror)
            progress.lacking = len(missing)
            if not missing:
                return
            _log.info("fetching from other servers", source=name, objects=len(missing))
            peers = self._exchange.others()
            known, progress.lost = progress.lost, None
            try:
                await self._exchange.fetch_from_any(mirror, missing)
            except NotFoundError as error:
                lost = progress.lost = _Lost(await self.sync_refs(mirror), peers)
                if known is None or known.objects != lost.objects:
                    _log.error("objects are lost", source=name, error=str(error))
                raise
            finally:
                progress.lacking = len(await self.sync_refs(mirror))
            self._caught_up(name)

    async def sync_refs(self, mirror: Mirror) -> frozenset[str]:
        """Moves the refs to where the state says, as far as the objects are here. Returns the
        objects that are lacking. The caller must not hold the mirror's lock."""
        async with mirror.lock:
            return await self.sync_refs_locked(mirror)

    async def sync_refs_locked(self, mirror: Mirror) -> frozenset[str]:
        """Does what `sync_refs` does, for a caller that holds the mirror's lock."""
        wanted = self.wanted(mirror.name)
        if mirror.synced == wanted:
            return frozenset()
        if wanted.identity:
            await to_thread_until_done(mirror.become, wanted.identity, bool(wanted.objects))
        missing = await lacking(self._git, mirror, wanted.objects)
        await to_thread_until_done(_move_refs, mirror, wanted, wanted.objects - missing)
        mirror.synced = wanted if not missing else None
        if not missing:
            self._progress[mirror.name].objects_came.set()
        return missing

    async def shown_refs(self, mirror: Mirror) -> dict[str, str]:
        """Returns the refs that a push is shown: those whose objects are here."""
        missing = await self.sync_refs(mirror)
        return shown_refs(self.refs(mirror.name), missing)

    def refs(self, name: str) -> dict[str, str]:
        """Returns the branches and tags as the state has them, with the objects they point at."""
        with self._context.snapshot() as snapshot:
            return snapshot.git_refs.of_source(name)

    def wanted(self, name: str) -> Wanted:
        """Returns what the state says of the source's repository."""
        with self._context.snapshot() as snapshot:
            return wanted_of(snapshot, name)

    # -- for other servers -----------------------------------------------------------------------

    async def hold(self, source: str, wants: Sequence[str], address: str) -> None:
        """Fetches objects from the leader at `address`; returns when they are here and on disk. The
        source may be one that this server has not heard of yet."""
        mirror = await asyncio.to_thread(self._mirrors.get, source)
        async with mirror.lock:
            wanted = self.wanted(mirror.name)
            if wanted.identity:
                await to_thread_until_done(mirror.become, wanted.identity, bool(wanted.objects))
            else:
                await to_thread_until_done(mirror.expect)
        await self._exchange.hold(mirror, wants, address)
        self._progress[source].objects_came.set()

    def pack(
        self, source: str, wants: Sequence[str], haves: Sequence[str]
    ) -> AsyncGenerator[PackFrame, None]:
        """Yields which of the wants are missing here, then a pack with the others."""
        return self._exchange.pack(source, wants, haves)


def _move_refs(mirror: Mirror, wanted: Wanted, held: frozenset[str]) -> None:
    """Deletes refs first, since a new branch may have the name of a deleted branch's directory."""
    repository = mirror.open()
    plan = plan_mirror(wanted, held, repository.refs())
    repository.delete_refs(plan.drop)
    for name, object_id in plan.put.items():
        repository.set_ref(name, object_id)
    if wanted.head and repository.head() != wanted.head:
        repository.set_head(wanted.head)
