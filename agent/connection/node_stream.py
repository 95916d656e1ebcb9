"""The node's stream to the servers: hello, full report, then heartbeats and reports both ways.

A session lasts as long as its connection. Whatever was not acknowledged when it ended is told again
by the full report that begins the next one, so nothing is lost and nothing must be remembered.
While a batch of reports is under way, newer ones gather (the latest per allocation): one
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

from agent.connection.cluster_membership import Belonging
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
    HeartbeatAck,
    Refused,
    ReportsAck,
    ServerFrame,
    VolumeSet,
    Welcome,
)

_log = structlog.get_logger(component="agent")

_WELCOME_TIMEOUT_S = 10.0
_GATHER_S = 0.2
"""How long reports that are not urgent gather; every report is a log entry of the servers."""
_FIRST_BACKOFF_S = 0.05
_MAX_BACKOFF_S = 5.0
_ROUNDS_UNTOLD = 5
"""An election or a restart may take a second or two; what takes longer people want to know of."""

OpenStream = Callable[[str, AsyncIterator[AgentFrame]], AsyncGenerator[ServerFrame]]
"""(server address, frames to send) -> frames received; ends or raises with the connection."""


class NodeSide(Protocol):
    """What the link needs of the agent. All calls come from the event loop and return at once."""

    def node(self) -> Node: ...

    def full_report(self) -> list[AllocReport]: ...

    def take_allocations(self, wanted: AllocSet) -> None: ...

    def take_volumes(self, volumes: list[HostVolume]) -> None: ...

    def take_servers(self, servers: list[str]) -> None: ...

    def contact_changed(self, connected: bool) -> None: ...


class ServerLink:
    """`ask_leader`: how to hear of a new leader while the server in use is silent. `belonging`: the
    cluster whose servers are used, and no others."""

    def __init__(
        self,
        servers: list[str],
        side: NodeSide,
        clock: Clock,
        open_stream: OpenStream,
        seed: str,
        ask_leader: AskLeader | None = None,
        belonging: Belonging | None = None,
    ) -> None:
        self._ask_leader = ask_leader
        self._belonging = belonging or Belonging()
        self._given = list(servers)
        self._servers = list(servers)
        self._side = side
        self._clock = clock
        self._open_stream = open_stream
        self._seed = seed
        self._session: _Session | None = None
        self._loop: asyncio.Task[None] | None = None
        self.connected = asyncio.Event()

    def start(self) -> None:
        self._loop = spawn(until_done(self._run, "server link", self._clock), "server link")

    async def stop(self) -> None:
        if self._loop is not None:
            self._loop.cancel()
            await asyncio.gather(self._loop, return_exceptions=True)

    def report(self, report: AllocReport, urgent: bool = True) -> None:
        """Tell the servers at once, or (not urgent) within a moment, together with others.

        Without a session the next full report tells it.
        """
        if self._session is not None:
            self._session.report(report, urgent)

    def node_changed(self) -> None:
        """The fingerprint changed."""
        if self._session is not None:
            self._session.send(AgentNodeUpdate(self._side.node()))

    def use_servers(self, servers: list[str]) -> None:
        """The servers there are now; the one in use stays in use. Those that were given at first
        are kept for when none of these answers."""
        if servers:
            self._servers = list(dict.fromkeys([*servers, *self._given]))

    async def _run(self) -> None:
        failures, position, hint = 0, 0, ""
        unreachable: set[str] = set()
        while True:
            address = hint or self._servers[position % len(self._servers)]
            admit = partial(self._belonging.admit, address)
            began = partial(self._began, address=address)
            session = _Session(self._side, self._clock, self._belonging.known, admit, began)
            problem = await self._held(session, address)
            self._ended(address, problem)
            if session.welcomed:
                failures = 0
                unreachable.clear()
            if not isinstance(problem, NotLeaderError):
                unreachable.add(address)
            hint = _worth_a_try(problem, unreachable | {hint})
            if hint:
                continue
            position += 1
            if not session.welcomed:
                failures += 1
            rounds, rest = divmod(failures, len(self._servers))
            if not rest:
                if failures:
                    unreachable.clear()
                if rounds == _ROUNDS_UNTOLD:
                    _log.warning("cannot reach any server; trying again", error=str(problem))
                await self._clock.sleep(reconnect_delay_s(rounds, self._seed))

    async def _held(self, session: _Session, address: str) -> OrchgitError:
        """Hold the session as long as it goes; why it ended."""
        try:
            await self._hold(session, address)
        except OrchgitError as problem:
            return problem
        return TimedOutError("the server ended the stream")

    async def _hold(self, session: _Session, address: str) -> None:
        """Until the session ends, or another server leads."""
        running = session.run(partial(self._open_stream, address))
        async with wait_first(running, self._deposed(session, address)) as (work, deposed):
            (work if work.done() else deposed).result()

    async def _deposed(self, session: _Session, address: str) -> None:
        """Raises NotLeaderError with the leader's address when that is another server."""
        welcome = await session.welcome()
        if self._ask_leader is None or not welcome.term:
            await asyncio.Event().wait()
        assert self._ask_leader is not None
        here = {address, welcome.address}
        leader = await next_leader(
            self._ask_leader,
            lambda: [one for one in self._servers if one not in here],
            self._belonging.is_ours,
            *(welcome.address, welcome.term, self._clock),
        )
        raise NotLeaderError(f"cannot go on: {leader} leads now", leader)

    def _began(self, session: _Session, address: str) -> None:
        _log.info("connected to a server", server=address)
        self._session = session
        self.connected.set()
        self._side.contact_changed(True)

    def _ended(self, address: str, problem: OrchgitError) -> None:
        if self._session is not None:
            if isinstance(problem, NotLeaderError):
                _log.info("moving to the leader", server=address, leader=problem.leader or "")
            else:
                _log.warning("lost the server", server=address, error=str(problem))
            self._side.contact_changed(False)
        self._session = None
        self.connected.clear()


def _worth_a_try(problem: OrchgitError, in_vain: set[str]) -> str:
    """The leader that the server told of, unless that was tried in vain: a server may not know yet
    that its leader is gone."""
    leader = problem.leader if isinstance(problem, NotLeaderError) else None
    return leader if leader and leader not in in_vain else ""


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
        self._gathering: asyncio.Task[None] | None = None
        self._seq = 0
        self._acked = 0
        self._ttl_s = 0.0
        self._heard_s = clock.monotonic_s()
        self._welcomed = asyncio.Event()
        self._welcome_frame = Welcome()

    @property
    def welcomed(self) -> bool:
        return self._welcomed.is_set()

    async def welcome(self) -> Welcome:
        await self._welcomed.wait()
        return self._welcome_frame

    async def run(
        self, open_stream: Callable[[AsyncIterator[AgentFrame]], AsyncGenerator[ServerFrame]]
    ) -> None:
        """Until the connection ends (returns) or fails (raises an OrchgitError)."""
        self.send(AgentHello(self._side.node(), self._cluster))
        stream = open_stream(self._frames())
        try:
            async with wait_first(self._receive(stream), self._heartbeats()) as both:
                for each in both:
                    if each.done():
                        each.result()
        finally:
            if self._gathering is not None:
                self._gathering.cancel()

    def send(self, frame: AgentFrame) -> None:
        self._outgoing.put_nowait(frame)

    def report(self, report: AllocReport, urgent: bool) -> None:
        self._pending[report.alloc_id] = report
        if urgent:
            self._send_reports()
        elif self._gathering is None:
            self._gathering = spawn(self._send_later(), "gathered reports")

    async def _send_later(self) -> None:
        await self._clock.sleep(_GATHER_S)
        self._gathering = None
        self._send_reports()

    def _send_reports(self) -> None:
        if self._pending and self._acked == self._seq:
            self._seq += 1
            self.send(AgentAllocReports(self._seq, list(self._pending.values())))
            self._pending = {}

    async def _frames(self) -> AsyncIterator[AgentFrame]:
        while True:
            yield await self._outgoing.get()

    async def _receive(self, stream: AsyncGenerator[ServerFrame]) -> None:
        """Closes the stream, whatever ends it: nobody else does."""
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
                self._side.take_servers(frame.servers)
            case AllocSet():
                self._side.take_allocations(frame)
            case VolumeSet():
                self._side.take_volumes(frame.volumes)
            case ReportsAck():
                self._acked = max(self._acked, frame.seq)
                self._send_reports()
            case Refused():
                raise RefusedError(frame.message)

    def _welcome(self, frame: Welcome) -> None:
        self._admit(frame.cluster)
        self._ttl_s = frame.heartbeat_ttl_s
        self._welcome_frame = frame
        self._welcomed.set()
        self._side.take_servers(frame.servers)
        self._seq += 1
        self.send(AgentAllocReports(self._seq, self._side.full_report()))
        self._began(self)

    async def _heartbeats(self) -> None:
        """One per half TTL; a server silent for a whole TTL (a heartbeat unanswered) is lost."""
        await self._wait_for_welcome()
        while True:
            await self._clock.sleep(self._ttl_s / 2)
            silent_s = self._clock.monotonic_s() - self._heard_s
            if silent_s > self._ttl_s:
                raise TimedOutError(f"cannot reach the server: no frame for {silent_s:.1f}s")
            self.send(AgentHeartbeat())

    async def _wait_for_welcome(self) -> None:
        async with wait_first(self._clock.sleep(_WELCOME_TIMEOUT_S), self._welcomed.wait()):
            pass
        if not self.welcomed:
            raise TimedOutError("cannot reach the server: it did not answer the hello")
