"""Joins this server to its cluster: asks the servers that it is told of, and those they know.

`joining_rules` decides; this module asks, acts and logs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import structlog

from orchgit.clock import Clock
from orchgit.errors import OrchgitError, RefusedError, UnavailableError
from orchgit.host_port import join_host_port, split_host_port
from orchgit.model.server import ServerRecord
from orchgit.replication.replicated import ReplicatedState
from orchgit.server.membership.joining_rules import (
    Bootstrap,
    Join,
    JoinConfig,
    KnownServers,
    rpc_address_of,
)
from orchgit.wire import methods
from orchgit.wire.channel import Channel, LeaderChannel
from orchgit.wire.messages import (
    JoinRequest,
    LeaveRequest,
    ServerStatus,
    StatusReply,
    StatusRequest,
)
from orchgit.wire.tls import TlsFiles

_log = structlog.get_logger(component="server")

T = TypeVar("T")

_ASK_S = 2.0
_CHANGE_S = 10.0
_HEAR_S = 3.0
"""A leader that sends anything is heard within that time."""
_LOOK_S = 0.3
"""How often a server looks whether the leader has added or removed it."""
AWAY_S = 5.0
"""A member that has not heard of a leader for so long was away."""


_LONG_S = 5.0
"""Forming a cluster takes seconds; a server that waits for longer logs advice."""
_ALL_LOST = (
    "; as this server has no data, a majority has to be there without it: bring the other servers "
    "back, or recover with what is left (`Lose the quorum` in docs/operations.md)"
)


class Joining:
    """Joins the cluster. `run` until this server is a member. Belongs to the event loop."""

    def __init__(
        self,
        config: JoinConfig,
        state: ReplicatedState,
        record: Callable[[], ServerRecord],
        tls: TlsFiles | None,
        clock: Clock,
    ) -> None:
        self._config = config
        self._state = state
        self._record = record
        self._tls = tls
        self._clock = clock
        self._told = ""
        self._began_s = clock.monotonic_s()
        self._targets = [rpc_address_of(one) for one in (*config.start_join, *config.retry_join)]
        self._channels: dict[str, Channel] = {}
        self._known_servers: KnownServers | None = None

    @property
    def is_member(self) -> bool:
        cluster = self._state.cluster
        belongs = any(one.address == cluster.address for one in cluster.members)
        return belongs and not (cluster.is_removed or cluster.is_catching_up)

    def meet(self, asking: ServerStatus) -> StatusReply:
        """Notes what another server says of itself, and answers with this one's status."""
        self._known.hear(asking, self._clock.monotonic_s())
        return StatusReply(status=self._own_status(), known=self._known.addresses())

    async def start(self) -> None:
        """Raises UnavailableError if none of `start_join` answers."""
        wanted = [rpc_address_of(one) for one in self._config.start_join]
        if wanted and not await self._ask_all(wanted):
            raise UnavailableError(
                f"cannot join: none of start_join answers ({', '.join(wanted)}); start one of "
                "them first, or use retry_join, which goes on trying"
            )

    async def run(self) -> None:
        """Joins, and joins again after it was removed.

        Raises UnavailableError after `retry_max` rounds in vain, RefusedError if the cluster
        refuses this server.
        """
        while True:
            if not self.is_member:
                await self._become_member()
            _log.info("member of the cluster", servers=len(self._state.cluster.members))
            await self._until_removed()

    async def _until_removed(self) -> None:
        """Returns when this server has to join again: it was removed while it was away.

        The removal of a server that is in touch was meant, and stays.
        """
        while self.is_member:
            await self._clock.sleep(_LOOK_S)
        silent_s = self._state.cluster.last_contact_s
        if silent_s is None or silent_s > AWAY_S:
            _log.warning(
                "this server was removed from the cluster while it was away; joining again"
            )
            return
        _log.warning(
            "this server was removed from the cluster; stop it, or start it again to join again"
        )
        await asyncio.Event().wait()

    async def _become_member(self) -> None:
        rounds = 0
        while not self.is_member:
            await self._ask_all([*self._targets, *self._known.addresses()])
            await self._decide()
            rounds += 1
            if 0 < self._config.retry_max <= rounds and not self.is_member:
                raise UnavailableError(
                    f"cannot join a cluster: {rounds} attempts (retry_max) have failed; "
                    f"{self._told or 'nobody answers'}"
                )
            await self._clock.sleep(self._config.retry_interval_s)

    async def join(self, addresses: Sequence[str]) -> tuple[int, str]:
        """Asks the servers that an operator names; returns (how many answered, what failed)."""
        wanted = [self._rpc_address(rpc_address_of(one)) for one in addresses]
        self._targets += [one for one in wanted if one not in self._targets]
        own = self._own_status()
        answered = await self._ask_all(wanted)
        if own.rpc_address in wanted:
            answered[own.rpc_address] = own
        # By custom the RPC of a server is on the port below that of its log (4647, 4648).
        others = {}
        for one in wanted:
            if one not in answered:
                host, port = split_host_port(one)
                others[join_host_port(host, max(1, port - 1))] = one
        for address, said in (await self._ask_all(list(others))).items():
            answered[others[address]] = said
        if not own.member:
            await self._decide()
        elif strange := [
            at for at, one in answered.items() if one.cluster_id not in ("", own.cluster_id)
        ]:
            return 0, f"{', '.join(strange)}: of another cluster; a server belongs to one only"
        silent = [one for one in wanted if one not in answered]
        return len(answered), _failures(silent)

    async def force_leave(self, address: str) -> None:
        """Has the leader remove the member with that raft address, unless it is alive."""
        await self._ask_to_remove(LeaveRequest(address=address, if_gone=True))

    async def _ask_to_remove(self, request: LeaveRequest) -> None:
        await self._by_leader(
            self._leader_first(), lambda leader: leader.call(methods.LEAVE, request, _CHANGE_S)
        )

    async def leave(self) -> None:
        """Leaves the cluster, as long as other servers stay; the caller stops this server."""
        if not self.is_member or len(self._state.cluster.members) == 1:
            return
        if self._state.cluster.is_leader:
            await self._state.membership.remove(self._state.cluster.address)
            return
        await self._ask_to_remove(LeaveRequest(address=self._state.cluster.address))

    async def close(self) -> None:
        await asyncio.gather(*(channel.close() for channel in self._channels.values()))
        self._channels.clear()

    # -- inside --------------------------------------------------------------------------------

    @property
    def _known(self) -> KnownServers:
        """The servers that are known; made when the addresses are bound."""
        if self._known_servers is None:
            record = self._record()
            self._known_servers = KnownServers(
                ServerStatus(
                    id=record.id,
                    name=record.name,
                    rpc_address=record.rpc_address,
                    region=record.region,
                    bootstrap_expect=self._config.bootstrap_expect or 0,
                )
            )
        return self._known_servers

    def _rpc_address(self, address: str) -> str:
        """Returns the RPC address of the server whose raft address is given.

        Nomad's clients name servers by the address that `agent/members` shows, which is that of the
        log.
        """
        own = self._record()
        with self._state.store.snapshot() as snapshot:
            known = {one.address: one.rpc_address for one in (*snapshot.servers.all(), own)}
        return known.get(address, address)

    def _own_status(self) -> ServerStatus:
        cluster_id = ""
        if self.is_member:
            with self._state.store.snapshot() as snapshot:
                cluster_id = snapshot.meta.cluster_id() or ""
        return self._known.own_status(self._clock.monotonic_s(), self.is_member, cluster_id)

    async def _ask_all(self, addresses: Sequence[str]) -> dict[str, ServerStatus]:
        """Returns the answers by address; servers that do not answer are left out."""
        own = self._record().rpc_address
        wanted = [one for one in dict.fromkeys(addresses) if one != own]
        answers = await asyncio.gather(*(self._ask(one) for one in wanted))
        return {at: said for at, said in zip(wanted, answers, strict=True) if said is not None}

    async def _ask(self, address: str) -> ServerStatus | None:
        request = StatusRequest(status=self._own_status())
        channel = self._channels.get(address)
        if channel is None:
            channel = self._channels[address] = Channel(address, self._tls)
        try:
            reply = await channel.call(methods.SERVER_STATUS, request, _ASK_S)
        except OrchgitError as error:
            _log.debug("no answer", server=address, error=str(error))
            return None
        self._known.hear(reply.status, self._clock.monotonic_s())
        for other in reply.known:
            if other not in self._targets and other != self._record().rpc_address:
                self._targets.append(other)
        return reply.status

    async def _decide(self) -> None:
        if self._state.cluster.is_catching_up and self._is_led:
            self._tell("joined the cluster; catching up with it")
            return
        cluster = self._state.cluster
        may_bootstrap = not (cluster.has_configuration or cluster.is_catching_up)
        decision = self._known.decide(self._clock.monotonic_s(), may_bootstrap)
        if isinstance(decision, Bootstrap):
            self._tell(f"forming a cluster of {len(decision.bootstrap_set)} servers")
            await self._state.membership.bootstrap()
        elif isinstance(decision, Join):
            self._tell(f"joining the cluster of {', '.join(decision.members)}")
            await self._ask_to_join(decision.members)
        else:
            self._tell(decision.reason)

    async def _ask_to_join(self, members: Sequence[str]) -> None:
        blank = self._state.cluster.waits_for_admission
        request = JoinRequest(server=self._record(), blank=blank)
        try:
            reply = await self._by_leader(
                members, lambda leader: leader.call(methods.JOIN, request, _CHANGE_S)
            )
            if blank:
                if not reply.index:
                    raise UnavailableError(
                        "cannot join with an empty disk: the leader's version does not allow it; "
                        "upgrade the leader first"
                    )
                await self._state.membership.admit(reply.term, reply.index)
        except RefusedError:
            raise
        except OrchgitError as error:
            waits_long = self._clock.monotonic_s() - self._began_s > _LONG_S
            advice = _ALL_LOST if blank and waits_long else ""
            self._tell(f"waiting to join the cluster: {error}{advice}")
            return
        deadline_s = self._clock.monotonic_s() + _HEAR_S
        while not (self.is_member or self._is_led) and self._clock.monotonic_s() < deadline_s:
            await self._clock.sleep(_LOOK_S)

    @property
    def _is_led(self) -> bool:
        """Returns whether this server has heard of a leader lately."""
        silent_s = self._state.cluster.last_contact_s
        return silent_s is not None and silent_s < _HEAR_S

    async def _by_leader(
        self, servers: Sequence[str], work: Callable[[LeaderChannel], Awaitable[T]]
    ) -> T:
        leader = LeaderChannel(list(servers), self._tls)
        try:
            return await work(leader)
        finally:
            await leader.close()

    def _leader_first(self) -> list[str]:
        with self._state.store.snapshot() as snapshot:
            servers = snapshot.servers.all()
        leader = self._state.cluster.leader_address
        ordered = sorted(servers, key=lambda one: one.address != leader)
        return [one.rpc_address for one in ordered if one.rpc_address]

    def _tell(self, what: str) -> None:
        """Logs what the server waits for, once per change."""
        if what != self._told:
            self._told = what
            _log.info(what)


def _failures(silent: Sequence[str]) -> str:
    """Returns why servers could not be joined, as Nomad's clients know it; "" where all could."""
    if not silent:
        return ""
    head = "1 error occurred:" if len(silent) == 1 else f"{len(silent)} errors occurred:"
    lines = [
        f"\t* failed to join {one}: dial tcp {one}: connect: connection refused\n" for one in silent
    ]
    return f"{head}\n{''.join(lines)}\n"
