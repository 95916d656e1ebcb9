"""The node's stream to the servers: hello, full report, then heartbeats and reports both ways.

A session lasts as long as its connection. The full report at the beginning of each session repeats
whatever was not acknowledged when the last one ended, so nothing is lost and nothing must be
stored. While a batch of reports is in flight, newer reports wait (the latest per allocation): one
allocation is reported at once, a thousand in a few frames.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from functools import partial
from typing import Protocol
from zlib import crc32

import structlog

from agent.connection.cluster_membership import ClusterMembership
from agent.connection.leader_watch import AskLeader, next_leader
from agent.loops import spawn, until_done
from orchgit.backoff import backoff_s
from orchgit.clock import Clock
from orchgit.errors import NotLeaderError, OrchgitError, RefusedError, TimedOutError
from orchgit.model.cluster import ClusterName
from orchgit.model.node import Node
from orchgit.model.volume import HostVolume
from orchgit.wait_first import wait_first
from orchgit.wire.messages import (
    AgentAllocReports,
    AgentFrame,
    AgentHeartbeat,
    AgentHello,
    AgentNodeUpdate,
    AllocReport,
    AllocSet,
    CsiAnswer,
    CsiCall,
    HeartbeatAck,
    Refused,
    ReportsAck,
    ServerFrame,
    VolumeResult,
    VolumeSet,
    Welcome,
)

_log = structlog.get_logger(component="agent")

_WELCOME_TIMEOUT_S = 10.0
_BATCH_S = 0.2
"""How long reports that are not urgent wait for others; a batch is a log entry of the servers."""
_FIRST_BACKOFF_S = 0.05
_MAX_BACKOFF_S = 5.0
_QUIET_ROUNDS = 5
"""Failed rounds before a warning: an election or a restart may take a second or two."""

OpenStream = Callable[[str, AsyncIterator[AgentFrame]], AsyncGenerator[ServerFrame]]
"""(server address, frames to send) -> frames received; ends or raises with the connection."""


class NodeSide(Protocol):
    """What the connection needs of the agent. Calls come from the event loop and return at once."""

    def node(self) -> Node: ...

    @property
    def introduction(self) -> str:
        """The token with which a new node introduces itself; "" is none."""
        ...

    def full_report(self) -> list[AllocReport]: ...

    def take_allocations(self, wanted: AllocSet) -> None: ...

    def take_volumes(self, volumes: list[HostVolume]) -> None: ...

    def volume_results(self) -> list[VolumeResult]: ...

    async def answer_csi(self, call: CsiCall) -> CsiAnswer: ...

    def take_servers(self, servers: list[str]) -> None: ...

    def take_acl(self, acl: bool) -> None: ...

    def contact_changed(self, connected: bool) -> None: ...


class ServerLink:
    """`ask_leader` asks another server who leads, while the server in use is silent. `membership`:
    the cluster whose servers are used, and no others."""

    def __init__(
        self,
        servers: list[str],
        side: NodeSide,
        clock: Clock,
        open_stream: OpenStream,
        seed: str,
        ask_leader: AskLeader | None = None,
        membership: ClusterMembership | None = None,
    ) -> None:
        self._ask_leader = ask_leader
        self._membership = membership or ClusterMembership()
        self._given = list(servers)
        self._servers = list(servers)
        self._side = side
        self._clock = clock
        self._open_stream = open_stream
        self._seed = seed
        self._session: _Session | None = None
        self._newest: _Session | None = None
        """The session in use, or the last one that a server took up."""
        self._loop: asyncio.Task[None] | None = None
        self.connected = asyncio.Event()
        self.address = ""
        """The server in use; "" without one."""

    @property
    def servers(self) -> list[str]:
        """The servers that are tried, in order."""
        return list(self._servers)

    def heartbeat_times_s(self) -> tuple[float, float] | None:
        """Returns (time since a server last answered a heartbeat, the TTL that it gave); None
        before the first server took this node up."""
        return None if self._newest is None else self._newest.heartbeat_times_s()

    def start(self) -> None:
        self._loop = spawn(until_done(self._run, "server link", self._clock), "server link")

    async def stop(self) -> None:
        if self._loop is not None:
            self._loop.cancel()
            await asyncio.gather(self._loop, return_exceptions=True)

    def report(self, report: AllocReport, urgent: bool = True) -> None:
        """Report to the servers at once, or (not urgent) within a moment, together with others.

        Without a session the next full report has it.
        """
        if self._session is not None:
            self._session.report(report, urgent)

    def node_changed(self) -> None:
        """Send the changed description of the node."""
        if self._session is not None:
            self._session.send(AgentNodeUpdate(self._side.node(), self._side.volume_results()))

    def use_servers(self, servers: list[str]) -> None:
        """Take the servers that the cluster has now. The one in use stays in use, and those that
        were given at first are tried when none of these answers."""
        if servers:
            self._servers = list(dict.fromkeys([*servers, *self._given]))

    async def _run(self) -> None:
        failures, position, hint = 0, 0, ""
        unreachable: set[str] = set()
        while True:
            address = hint or self._servers[position % len(self._servers)]
            admit = partial(self._membership.admit, address)
            began = partial(self._began, address=address)
            session = _Session(self._side, self._clock, self._membership.known, admit, began)
            error = await self._hold(session, address)
            self._ended(address, error)
            if session.welcomed:
                failures = 0
                unreachable.clear()
            if not isinstance(error, NotLeaderError):
                unreachable.add(address)
            hint = _named_leader(error, unreachable | {hint})
            if hint:
                continue
            position += 1
            if not session.welcomed:
                failures += 1
            rounds, rest = divmod(failures, len(self._servers))
            if not rest:
                if failures:
                    unreachable.clear()
                if rounds == _QUIET_ROUNDS:
                    _log.warning("cannot reach any server; trying again", error=str(error))
                await self._clock.sleep(reconnect_delay_s(rounds, self._seed))

    async def _hold(self, session: _Session, address: str) -> OrchgitError:
        """Hold the session until it ends or another server leads. Returns why it ended."""
        running = session.run(partial(self._open_stream, address))
        try:
            async with wait_first(running, self._watch_leader(session, address)) as (work, watch):
                (work if work.done() else watch).result()
        except OrchgitError as error:
            return error
        return TimedOutError("the server ended the stream")

    async def _watch_leader(self, session: _Session, address: str) -> None:
        """Raises NotLeaderError with the leader's address when another server leads."""
        welcome = await session.welcome()
        if self._ask_leader is None or not welcome.term:
            await asyncio.Event().wait()
        assert self._ask_leader is not None
        here = {address, welcome.address}
        leader = await next_leader(
            self._ask_leader,
            lambda: [one for one in self._servers if one not in here],
            self._membership.is_ours,
            welcome.address,
            welcome.term,
            self._clock,
        )
        raise NotLeaderError(f"cannot go on: {leader} leads now", leader)

    def _began(self, session: _Session, address: str) -> None:
        _log.info("connected to a server", server=address)
        self._session = self._newest = session
        self.address = address
        self.connected.set()
        self._side.contact_changed(True)

    def _ended(self, address: str, error: OrchgitError) -> None:
        if self._session is not None:
            if isinstance(error, NotLeaderError):
                _log.info("moving to the leader", server=address, leader=error.leader or "")
            else:
                _log.warning("lost the server", server=address, error=str(error))
            self._side.contact_changed(False)
        self._session = None
        self.address = ""
        self.connected.clear()


def _named_leader(error: OrchgitError, unreachable: set[str]) -> str:
    """The leader that the server named, unless it could not be reached: a server may not know yet
    that its leader is gone. "" without one."""
    leader = error.leader if isinstance(error, NotLeaderError) else None
    return leader if leader and leader not in unreachable else ""


def reconnect_delay_s(failures: int, seed: str) -> float:
    """How long to wait after this many rounds of failure; half of it differs from node to node."""
    spread = crc32(f"{seed}/{failures}".encode()) / 2**32
    return backoff_s(failures, _FIRST_BACKOFF_S, _MAX_BACKOFF_S, spread)


class _Session:
    """One connection to one server. `admit` raises for a server of another cluster."""

    def __init__(
        self,
        side: NodeSide,
        clock: Clock,
        cluster: ClusterName,
        admit: Callable[[ClusterName], None],
        began: Callable[[_Session], None],
    ) -> None:
        self._side = side
        self._clock = clock
        self._cluster = cluster
        self._admit = admit
        self._began = began
        self._outgoing: asyncio.Queue[AgentFrame] = asyncio.Queue()
        self._pending: dict[str, AllocReport] = {}
        self._delayed: asyncio.Task[None] | None = None
        self._seq = 0
        self._acked = 0
        self._ttl_s = 0.0
        self._heard_s = clock.monotonic_s()
        self._heartbeat_s = self._heard_s
        """When a server last took this node up or answered a heartbeat."""
        self._welcomed = asyncio.Event()
        self._welcome_frame = Welcome()
        self._described: Node | None = None
        """The node as the hello described it."""

    def heartbeat_times_s(self) -> tuple[float, float]:
        return self._clock.monotonic_s() - self._heartbeat_s, self._ttl_s

    @property
    def welcomed(self) -> bool:
        return self._welcomed.is_set()

    async def welcome(self) -> Welcome:
        await self._welcomed.wait()
        return self._welcome_frame

    async def run(
        self, open_stream: Callable[[AsyncIterator[AgentFrame]], AsyncGenerator[ServerFrame]]
    ) -> None:
        """Returns when the connection ends; raises an OrchgitError when it fails."""

        async def frames() -> AsyncIterator[AgentFrame]:
            while True:
                yield await self._outgoing.get()

        self._described = self._side.node()
        self.send(AgentHello(self._described, self._cluster, self._side.introduction))
        stream = open_stream(frames())
        try:
            async with wait_first(self._receive(stream), self._heartbeats()) as both:
                for each in both:
                    if each.done():
                        each.result()
        finally:
            if self._delayed is not None:
                self._delayed.cancel()

    def send(self, frame: AgentFrame) -> None:
        self._outgoing.put_nowait(frame)

    def report(self, report: AllocReport, urgent: bool) -> None:
        self._pending[report.alloc_id] = report
        if urgent:
            self._send_reports()
        elif self._delayed is None:
            self._delayed = spawn(self._send_delayed(), "delayed reports")

    async def _send_delayed(self) -> None:
        await self._clock.sleep(_BATCH_S)
        self._delayed = None
        self._send_reports()

    def _send_reports(self) -> None:
        if self._pending and self._acked == self._seq:
            self._seq += 1
            self.send(AgentAllocReports(self._seq, list(self._pending.values())))
            self._pending = {}

    async def _receive(self, stream: AsyncGenerator[ServerFrame]) -> None:
        """Handle each frame, and close the stream at the end or on an error."""
        async with aclosing(stream):
            async for frame in stream:
                self._heard_s = self._clock.monotonic_s()
                self._take(frame)

    def _take(self, frame: ServerFrame) -> None:
        match frame:
            case Welcome():
                self._welcome(frame)
            case HeartbeatAck():
                self._ttl_s = frame.heartbeat_ttl_s
                self._heartbeat_s = self._heard_s
                self._side.take_servers(frame.servers)
            case AllocSet():
                self._side.take_allocations(frame)
            case VolumeSet():
                self._side.take_volumes(frame.volumes)
            case CsiCall():
                spawn(self._answer(frame), "csi call")
            case ReportsAck():
                self._acked = max(self._acked, frame.seq)
                self._send_reports()
            case Refused():
                raise RefusedError(frame.message)

    async def _answer(self, call: CsiCall) -> None:
        self.send(await self._side.answer_csi(call))

    def _welcome(self, frame: Welcome) -> None:
        self._admit(frame.cluster)
        self._ttl_s = frame.heartbeat_ttl_s
        self._heartbeat_s = self._heard_s
        self._welcome_frame = frame
        self._welcomed.set()
        self._side.take_servers(frame.servers)
        self._side.take_acl(frame.acl)
        self._seq += 1
        self.send(AgentAllocReports(self._seq, self._side.full_report()))
        self._began(self)
        node = self._side.node()
        if node != self._described:  # a driver or Consul was found while the hello was on its way
            self.send(AgentNodeUpdate(node, self._side.volume_results()))

    async def _heartbeats(self) -> None:
        """Send one per half TTL. Raises TimedOutError for a server that does not answer the hello,
        or is silent for a whole TTL (a heartbeat unanswered)."""
        async with wait_first(self._clock.sleep(_WELCOME_TIMEOUT_S), self._welcomed.wait()):
            pass
        if not self.welcomed:
            raise TimedOutError("cannot reach the server: it did not answer the hello")
        while True:
            await self._clock.sleep(self._ttl_s / 2)
            silent_s = self._clock.monotonic_s() - self._heard_s
            if silent_s > self._ttl_s:
                raise TimedOutError(f"cannot reach the server: no frame for {silent_s:.1f}s")
            self.send(AgentHeartbeat())
