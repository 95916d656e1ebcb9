"""Autopilot: makes learners that caught up voters, and removes dead servers from the cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import structlog

from orchgit.clock import Clock
from orchgit.control.watchers.autopilot_rules import (
    ServerStability,
    ServerView,
    failure_tolerance,
    is_healthy,
    promotions,
    removals,
    standings,
)
from orchgit.errors import OrchgitError, RefusedError, UnavailableError
from orchgit.model.base import NS_PER_S
from orchgit.model.operator import AutopilotConfig
from orchgit.model.server import ServerRecord, ServerState
from orchgit.replication.commands.servers import DeleteServer, SetServerStatus
from orchgit.replication.replicated import ReplicatedState

_log = structlog.get_logger(component="autopilot")

_LEARNING_S = 0.2
"""The interval in seconds while a learner is catching up."""


@dataclass(frozen=True)
class AutopilotLimits:
    """Times and counts that autopilot goes by. A server silent for `failed_after_s` is shown as
    failed; after `dead_after_s` it may be removed. With fewer voters than `bootstrap_expect` the
    cluster is still forming."""

    interval_s: float = 1.0
    failed_after_s: float = 3.0
    dead_after_s: float = 30.0
    bootstrap_expect: int = 0


@dataclass(frozen=True, slots=True)
class ServerHealth:
    """The health of one member. `record` holds only the address until the server has recorded
    itself."""

    record: ServerRecord
    view: ServerView
    healthy: bool
    alive: bool
    stable_since_ns: int
    last_index: int


@dataclass(frozen=True, slots=True)
class ClusterHealth:
    servers: Sequence[ServerHealth]
    failure_tolerance: int
    term: int

    @property
    def healthy(self) -> bool:
        return all(server.healthy for server in self.servers)


class Autopilot:
    """Promotes and removes members during one leadership; its knowledge of the servers starts
    empty."""

    def __init__(self, state: ReplicatedState, clock: Clock, limits: AutopilotLimits) -> None:
        self._state = state
        self._clock = clock
        self._limits = limits
        self._standing: dict[str, ServerStability] = {}
        self._stray_since_s: dict[str, float] = {}

    async def run(self) -> None:
        while True:
            servers = self.look()
            try:
                await self._act(servers)
            except OrchgitError as error:
                _log.warning("cannot change the members of the cluster", error=str(error))
            learning = any(not server.voter for server in servers)
            await self._clock.sleep(_LEARNING_S if learning else self._limits.interval_s)

    def look(self) -> list[ServerView]:
        """Returns every member as it is now and updates the members' stability."""
        servers = self._views()
        now_s = self._clock.monotonic_s()
        self._standing = standings(self._standing, servers, self._config(), now_s)
        return servers

    def health(self) -> ClusterHealth:
        servers, config = self.look(), self._config()
        with self._state.store.snapshot() as snapshot:
            records = {record.address: record for record in snapshot.servers.all()}
        last_index = self._state.cluster.last_log_index
        found = [
            ServerHealth(
                record=records.get(view.address) or ServerRecord(view.address),
                view=view,
                healthy=is_healthy(view, config),
                alive=view.silent_s < self._limits.failed_after_s,
                stable_since_ns=self._stable_since_ns(view.address),
                last_index=last_index - view.behind,
            )
            for view in servers
        ]
        tolerance = failure_tolerance(servers, self._standing)
        return ClusterHealth(found, tolerance, self._state.cluster.term)

    # -- inside --------------------------------------------------------------------------------

    def _config(self) -> AutopilotConfig:
        with self._state.store.snapshot() as snapshot:
            return snapshot.autopilot_config.get()

    def _views(self) -> list[ServerView]:
        last_index = self._state.cluster.last_log_index
        progress = {peer.address: peer for peer in self._state.cluster.peer_progress()}
        views = []
        for member in self._state.cluster.members:
            peer = progress.get(member.address)
            leads = member.address == self._state.cluster.address
            silent_s = 0.0 if leads else peer.last_contact_s if peer else float("inf")
            behind = 0 if leads else max(0, last_index - (peer.match_index if peer else 0))
            views.append(ServerView(member.address, member.voter, leads, silent_s, behind))
        return views

    def _stable_since_ns(self, address: str) -> int:
        ago_s = self._clock.monotonic_s() - self._standing[address].since_s
        return self._clock.now_ns() - int(ago_s * NS_PER_S)

    async def _act(self, servers: list[ServerView]) -> None:
        """Changes at most one member; the next round makes the next change."""
        now_s, config = self._clock.monotonic_s(), self._config()
        limits = self._limits
        await self._tell_states(servers)
        for address in promotions(servers, self._standing, config, limits.bootstrap_expect, now_s):
            return await self._promote(address)
        for address in removals(servers, self._standing, config, limits.dead_after_s, now_s):
            _log.warning("dead server removed from the cluster", server=address)
            await self._state.membership.remove(address)
            await self._state.propose(DeleteServer(address=address))
            return
        await self._forget_strays(servers, now_s)

    async def _promote(self, address: str) -> None:
        """Makes a learner a voter; the next round tries again if the learner fell behind
        meanwhile."""
        try:
            await self._state.membership.promote(address)
        except (RefusedError, UnavailableError) as error:
            _log.debug("cannot make a server a voter yet", server=address, error=str(error))
            return
        _log.info("server has caught up and is a voter now", server=address)

    async def _tell_states(self, servers: list[ServerView]) -> None:
        """Records the state of each server so that all servers show the same. A server is failed
        once it was silent for `failed_after_s`."""
        with self._state.store.snapshot() as snapshot:
            known = {record.address: record.status for record in snapshot.servers.all()}
        for server in servers:
            watched_s = self._clock.monotonic_s() - self._standing[server.address].known_since_s
            silent = min(server.silent_s, watched_s) >= self._limits.failed_after_s
            heard = server.silent_s < self._limits.failed_after_s
            status = ServerState.FAILED if silent else ServerState.ALIVE if heard else None
            if status and known.get(server.address, status) != status:
                log = _log.warning if silent else _log.info
                log("server status changed", server=server.address, status=status)
                await self._tell(SetServerStatus(address=server.address, status=status))

    async def _tell(self, command: SetServerStatus) -> None:
        """Proposes the state; during an upgrade a server of an older version may make the log
        refuse the command."""
        try:
            await self._state.propose(command)
        except RefusedError as error:
            _log.debug("cannot record a server", error=str(error))

    async def _forget_strays(self, servers: list[ServerView], now_s: float) -> None:
        """Deletes records of servers that are no members, `dead_after_s` after the record was first
        seen: a removed server may record itself again, and a leader that leaves keeps its
        record."""
        members = {server.address for server in servers}
        with self._state.store.snapshot() as snapshot:
            strays = [one.address for one in snapshot.servers.all() if one.address not in members]
        self._stray_since_s = {one: self._stray_since_s.get(one, now_s) for one in strays}
        for address, since_s in self._stray_since_s.items():
            if now_s - since_s >= self._limits.dead_after_s:
                await self._state.propose(DeleteServer(address=address))
