"""Three servers' gitops parts in one event loop: real raft, real gRPC, real git, real HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from orchgit.clock import SystemClock
from orchgit.gitops.config import GitopsConfig
from orchgit.gitops.git.limits import GitLimits
from orchgit.gitops.gitops import Gitops, GitopsPorts
from orchgit.gitops.mirrors.peers import Peer
from orchgit.ids import RandomIds
from orchgit.replication.replicated import ReplicatedState, ReplicationConfig
from orchgit.rpc.mirrors import MirrorServicer
from orchgit.services.context import UseCaseContext
from orchgit.wire.serve import GrpcServer
from tests.support.gitops_rig import CountingParser, GitopsRig, NoForecasts, served
from tests.support.polling import until
from tests.support.ports import free_ports

PATIENT = GitopsConfig(limits=GitLimits(hold_timeout_s=30.0, catch_up_timeout_s=30.0))
"""A test that shows how waiting ends names its own limits: these, a busy machine cannot pass."""


@dataclass
class KnownPeers:
    """Addresses as the test gives them."""

    own_address: str
    own_name: str
    addresses: dict[str, str]
    """Raft address of each other member -> its RPC address."""
    state: ReplicatedState | None = None

    def others(self) -> Sequence[Peer]:
        leader = self.state.cluster.leader_address if self.state is not None else None
        ordered = sorted(self.addresses.items(), key=lambda item: (item[0] != leader, item[0]))
        return [Peer(rpc, f"server {rpc}") for _, rpc in ordered]


@dataclass
class Member:
    """One server: `start` and `stop` as often as the test likes, on the same or another disk."""

    name: str
    directory: Path
    raft: str
    rpc: str
    others: dict[str, str]
    config: GitopsConfig = PATIENT
    rig: GitopsRig = field(init=False)
    running: bool = False

    async def start(self) -> None:
        self.peers = peers = KnownPeers(self.rpc, f"server {self.name}", dict(self.others))
        state = ReplicatedState(
            ReplicationConfig(
                self.directory, self.name, bind=self.raft, peers=tuple(sorted(self.others))
            ),
            SystemClock(),
            RandomIds(),
        )
        await state.start()
        peers.state = state
        context = UseCaseContext(state, SystemClock(), RandomIds())
        parser = CountingParser()
        ports = GitopsPorts(parser, NoForecasts(), peers)
        gitops = Gitops(context, self.directory, self.config, ports)
        self._synchronizer = gitops.synchronizer
        await self.answer_peers()
        self._exits = AsyncExitStack()
        http = await self._exits.enter_async_context(served(gitops))
        self.rig = GitopsRig(state, context, gitops, http, parser)
        gitops.open()
        self.rig.tasks = [asyncio.create_task(self._follow_leadership())]
        self.running = True

    async def answer_peers(self) -> None:
        self._server = GrpcServer(self.rpc)
        MirrorServicer(self._synchronizer).register(self._server)
        await self._server.start()

    async def ignore_peers(self) -> None:
        """Raft goes on; nobody gets objects from here, and none can be left here."""
        await self._server.stop(0)

    async def _follow_leadership(self) -> None:
        """As the server does; the schedulers' part is done by the leader too."""
        evaluating: asyncio.Task[None] | None = None
        async for leads in self.rig.state.leadership.subscribe():
            if leads:
                await self.rig.gitops.start()
                evaluating = asyncio.create_task(self.rig.evaluate_everything())
                self.rig.tasks.append(evaluating)
            else:
                await self.rig.gitops.stop()
                if evaluating is not None:
                    evaluating.cancel()

    async def stop(self) -> None:
        """At once, as a crash would: nothing is handed over."""
        if not self.running:
            return
        self.running = False
        for task in self.rig.tasks:
            task.cancel()
        await asyncio.gather(*self.rig.tasks, return_exceptions=True)
        await self._server.stop(0)
        await self.rig.gitops.close()
        await self._exits.aclose()
        await self.rig.state.stop()

    @property
    def mirror(self):  # type: ignore[no-untyped-def]
        return self.rig.gitops.mirrors.get("demo")

    async def until_synced(self, name: str = "demo", timeout_s: float = 60.0) -> None:
        """Wait until this server's mirror holds and shows what its state says."""
        await self.until(lambda: self.synced(name), timeout_s)

    def synced(self, name: str = "demo") -> bool:
        synchronizer = self.rig.gitops.synchronizer
        return self.rig.gitops.mirrors.get(name).synced == synchronizer.wanted(name)

    async def until(self, done, timeout_s: float = 60.0) -> None:  # type: ignore[no-untyped-def]
        await until(done, timeout_s)


@dataclass
class GitopsCluster:
    members: list[Member]

    async def leader(self, timeout_s: float = 60.0) -> Member:
        def leading() -> Member | None:
            running = (each for each in self.members if each.running)
            return next((each for each in running if each.rig.state.cluster.is_leader), None)

        return await until(leading, timeout_s)

    async def followers(self) -> list[Member]:
        leader = await self.leader()
        return [each for each in self.members if each is not leader and each.running]

    async def caught_up(self) -> None:
        """Every running server has applied what the leader has, and its mirror shows it."""
        index = (await self.leader()).rig.state.store.watch.applied_index
        for member in self.members:
            if member.running:
                assert await member.rig.state.store.watch.wait_applied(index, 20.0)
                await member.until_synced()


@asynccontextmanager
async def gitops_cluster(
    directory: Path, count: int = 3, config: GitopsConfig = PATIENT
) -> AsyncIterator[GitopsCluster]:
    # Tests keep their repositories beside the servers' directories.
    config = replace(config, local_paths=(str(directory.parent),))
    ports = free_ports(2 * count)
    rafts = [f"127.0.0.1:{port}" for port in ports[:count]]
    rpcs = [f"127.0.0.1:{port}" for port in ports[count:]]
    known = dict(zip(rafts, rpcs, strict=True))
    members = [
        Member(
            f"s{number}",
            directory / f"s{number}",
            raft,
            known[raft],
            {each: rpc for each, rpc in known.items() if each != raft},
            config,
        )
        for number, raft in enumerate(rafts)
    ]
    await asyncio.gather(*(member.start() for member in members))
    try:
        yield GitopsCluster(members)
    finally:
        await asyncio.gather(*(member.stop() for member in members))
