"""Taking servers in and out, and handing the lead over: what the leader does when it is asked."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import structlog

from orchgit.errors import NotLeaderError, RefusedError, TimedOutError, UnavailableError
from orchgit.model.server import ServerRecord
from orchgit.replication.commands import DeleteServer, PutServer
from orchgit.replication.membership import Member, PeerProgress
from orchgit.replication.versions import common_version
from orchgit.services.world import World

_log = structlog.get_logger(component="server")

GONE_S = 1.5
"""A member that was not heard for so long is not there, or hears nothing any more."""
HAND_OVER_S = 8.0
_RETRY_S = 0.1
_ATTEMPT_S = 1.5
"""Longer than an election: after that the member has not taken over."""


class Membership(Protocol):
    """What a leader knows of the members: `ReplicatedState`."""

    @property
    def address(self) -> str: ...
    @property
    def members(self) -> tuple[Member, ...]: ...
    def peer_progress(self) -> tuple[PeerProgress, ...]: ...


async def take_in(world: World, server: ServerRecord, blank: bool = False) -> tuple[int, int]:
    """As a learner, which autopilot gives a vote; the term and index of that. Asking again changes
    nothing, unless the server is `blank`: a member of its address has lost its disk then, and is
    taken out first, so that nothing it had acknowledged, nor any vote of it, counts any more.

    Refused with another cluster key, or with a version that is too old for this cluster.
    """
    state = world.state
    if not state.is_leader:
        raise NotLeaderError("cannot take a server in here: ask the leader", state.leader_address)
    with world.snapshot() as snapshot:
        servers = snapshot.servers.all()
    _check_version(server, [one.address for one in state.members], servers)
    _check_id(server, servers)
    await _check_name(world, server, servers)
    if blank and any(one.address == server.address for one in state.members):
        check_is_gone(server, state)
        await _one_at_a_time(world, server.address)
        _log.warning("a member came back with nothing; it starts anew", server=server.name)
    await world.propose(PutServer(server=server))
    await state.add_member(server.address)
    return state.admission


def check_is_gone(server: ServerRecord, state: Membership) -> None:
    """Raises what keeps the leader from taking the member out whose address this blank server has:
    it is there, or too few of the others are."""
    silent_s = {one.address: one.last_contact_s for one in state.peer_progress()}
    if silent_s.get(server.address, GONE_S) < GONE_S or server.address == state.address:
        raise UnavailableError(
            f"cannot take in server {server.name} yet: the member at {server.address} was heard a "
            "moment ago. If that is another server, two have the same address: give each its own "
            "(`advertise.serf`)"
        )
    others = {one.address for one in state.members if one.voter} - {server.address}
    there = {name for name in others if name == state.address or silent_s.get(name, 0.0) < GONE_S}
    if 2 * len(there) <= len(others):
        raise UnavailableError(
            f"cannot take in server {server.name}: it has lost its data, and "
            f"{len(there)} of the other {len(others)} servers are no majority without it; bring "
            "the others back, or see `Lose the quorum` in the manual"
        )


def _check_version(
    server: ServerRecord, members: Iterable[str], servers: Iterable[ServerRecord]
) -> None:
    others = [one for one in members if one != server.address]
    needed = common_version(others, servers)
    if server.command_version < needed:
        raise RefusedError(
            f"cannot take in server {server.name}: orchgit {server.build} is older than this "
            f"cluster (it understands version {server.command_version} of the log, and {needed} is "
            "in use); upgrade it first"
        )


async def _check_name(world: World, server: ServerRecord, servers: Iterable[ServerRecord]) -> None:
    """Two living members of one name could not be told apart by it. That of a member which is gone
    may be taken: a machine that was set up again has the name of the old one."""
    members = {one.address for one in world.state.members} - {server.address}
    for known in servers:
        same = (known.name, known.region) == (server.name, server.region)
        if same and known.address in members and not await _is_gone(world, known.address):
            raise RefusedError(
                f"cannot take in server {server.name} ({server.address}): the living member at "
                f"{known.address} has that name. Give each server its own: `name` in the "
                "configuration file, or -node-name"
            )


async def _is_gone(world: World, address: str) -> bool:
    """Whether the member is not heard for GONE_S; waits for one that may just have been stopped."""
    state = world.state
    deadline_s = world.clock.monotonic_s() + 2 * GONE_S
    while address != state.address:
        silent_s = {one.address: one.last_contact_s for one in state.peer_progress()}
        if silent_s.get(address, GONE_S) >= GONE_S:
            return True
        if world.clock.monotonic_s() >= deadline_s:
            return False
        await world.clock.sleep(_RETRY_S)
    return False


def _check_id(server: ServerRecord, servers: Iterable[ServerRecord]) -> None:
    """A copied data directory has a known id."""
    for known in servers:
        if known.id == server.id and known.address != server.address:
            raise RefusedError(
                f"cannot take in server {server.name} ({server.address}): {known.name} "
                f"({known.address}) has the same id. If its data directory was copied, empty it; "
                "if its address has changed, remove the old one first: orchgit operator raft "
                f"remove-peer -peer-address {known.address}"
            )


async def take_out(world: World, address: str, if_gone: bool = False) -> None:
    """The member of this raft address; it may be this server, which then hands over. RefusedError
    for one that is alive if it is to be taken out only `if_gone`."""
    if not world.state.is_leader:
        raise NotLeaderError(
            "cannot take a server out here: ask the leader", world.state.leader_address
        )
    if if_gone and not await _is_gone(world, address):
        raise RefusedError(
            f"cannot take out the server at {address}: it is alive, and would join again; stop it "
            "first. `orchgit operator raft remove-peer` takes out a living one"
        )
    await _one_at_a_time(world, address)
    if world.state.is_leader:
        await world.propose(DeleteServer(address=address))


async def _one_at_a_time(world: World, address: str) -> None:
    """Autopilot may be changing the members at this moment: wait for that."""
    deadline_s = world.clock.monotonic_s() + _ATTEMPT_S
    while True:
        try:
            return await world.state.remove_member(address)
        except (NotLeaderError, TimedOutError):
            raise
        except UnavailableError:
            if world.clock.monotonic_s() >= deadline_s:
                raise
        await world.clock.sleep(_RETRY_S)


async def hand_over(world: World, address: str) -> None:
    """Returns when that member leads. One that is just catching up, or was just started, is asked
    more than once. Raises what keeps it from leading: RefusedError for want of room on its disk,
    UnavailableError if it stays silent."""
    state = world.state
    if address == state.address and state.is_leader:
        return
    deadline_s = world.clock.monotonic_s() + HAND_OVER_S
    while state.leader_address != address and world.clock.monotonic_s() < deadline_s:
        try:
            await state.transfer_leadership(address)
        except NotLeaderError:
            raise
        except UnavailableError:
            if world.clock.monotonic_s() + _RETRY_S >= deadline_s:
                raise
            await world.clock.sleep(_RETRY_S)
            continue
        await _until_led_by(world, address)
        if not state.is_leader:
            break
    if state.leader_address != address:
        raise TimedOutError(
            f"cannot hand the leadership to {address}: it did not take over in {HAND_OVER_S:g} s; "
            "look at `orchgit operator raft list-peers`"
        )


async def _until_led_by(world: World, wanted: str) -> None:
    deadline_s = world.clock.monotonic_s() + _ATTEMPT_S
    while (leader := world.state.leader_address) != wanted:
        left_s = deadline_s - world.clock.monotonic_s()
        if left_s <= 0:
            return
        await world.state.leader_change(leader, left_s)


def find_member(world: World, *, address: str = "", server_id: str = "", name: str = "") -> str:
    """The raft address of the member that has one of these; `address` may be that of its RPC."""
    with world.snapshot() as snapshot:
        records = {one.address: one for one in snapshot.servers.all()}
    for member in world.state.members:
        record = records.get(member.address, ServerRecord(member.address))
        if address and address in (record.address, record.rpc_address):
            return member.address
        if server_id and record.id == server_id:
            return member.address
        if name and name in (record.name, f"{record.name}.{record.region}"):
            return member.address
    raise RefusedError(
        f"cannot find server {address or server_id or name}: it is no member of the cluster; "
        "`orchgit operator raft list-peers` shows them"
    )
