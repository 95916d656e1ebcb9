"""Changes the cluster's members and transfers leadership; runs on the leader."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import structlog

from orchgit.errors import NotLeaderError, RefusedError, TimedOutError, UnavailableError
from orchgit.model.server import ServerRecord
from orchgit.raft.configuration import Member, PeerProgress
from orchgit.replication.commands.servers import DeleteServer, PutServer
from orchgit.replication.versions import common_version
from orchgit.services.context import UseCaseContext

_log = structlog.get_logger(component="server")

GONE_S = 1.5
"""A member from which the leader has not heard for so long counts as gone."""
TRANSFER_S = 8.0
_RETRY_S = 0.1
_ATTEMPT_S = 1.5
"""Longer than an election: if the member does not lead after that, it is asked again."""


class Membership(Protocol):
    """What a leader knows of the members. `ReplicatedState.cluster` implements it."""

    @property
    def address(self) -> str: ...
    @property
    def members(self) -> tuple[Member, ...]: ...
    def peer_progress(self) -> tuple[PeerProgress, ...]: ...


async def add_server(
    context: UseCaseContext, server: ServerRecord, blank: bool = False
) -> tuple[int, int]:
    """Adds a server as a learner, which autopilot promotes; returns the term and index of that.

    Adding a member again changes nothing, unless the server is `blank`: it has lost its disk then,
    and is removed first, so that nothing it had acknowledged, nor any vote of it, counts any more.

    Raises RefusedError for another cluster key and for a version that is too old for this cluster.
    """
    cluster = context.state.cluster
    if not cluster.is_leader:
        raise NotLeaderError("cannot add a server here: ask the leader", cluster.leader_address)
    with context.snapshot() as snapshot:
        servers = snapshot.servers.all()
    _check_version(server, [one.address for one in cluster.members], servers)
    _check_id(server, servers)
    await _check_name(context, server, servers)
    if blank and any(one.address == server.address for one in cluster.members):
        check_replaceable(server, cluster)
        await _remove_when_free(context, server.address)
        _log.warning("a member lost its disk; it starts anew as a learner", server=server.name)
    await context.propose(PutServer(server=server))
    await context.state.membership.add(server.address)
    return cluster.admission


def check_replaceable(server: ServerRecord, cluster: Membership) -> None:
    """Checks that the member which had the blank server's address may be removed.

    Raises UnavailableError while that member still answers, or while too few others do.
    """
    silent_s = {one.address: one.last_contact_s for one in cluster.peer_progress()}
    if silent_s.get(server.address, GONE_S) < GONE_S or server.address == cluster.address:
        raise UnavailableError(
            f"cannot add server {server.name} yet: the member at {server.address} was heard a "
            "moment ago. If that is another server, two have the same address: give each its own "
            "(`advertise.serf`)"
        )
    others = {one.address for one in cluster.members if one.voter} - {server.address}
    there = {name for name in others if name == cluster.address or silent_s.get(name, 0.0) < GONE_S}
    if 2 * len(there) <= len(others):
        raise UnavailableError(
            f"cannot add server {server.name}: it has lost its data, and "
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
            f"cannot add server {server.name}: orchgit {server.build} is older than this "
            f"cluster (it understands version {server.command_version} of the log, and {needed} is "
            "in use); upgrade it first"
        )


async def _check_name(
    context: UseCaseContext, server: ServerRecord, servers: Iterable[ServerRecord]
) -> None:
    """Refuses a name that another living member has: the two could not be told apart.

    The name of a member that is gone may be taken: a machine that was set up again keeps its name.
    """
    members = {one.address for one in context.state.cluster.members} - {server.address}
    for known in servers:
        same = (known.name, known.region) == (server.name, server.region)
        if same and known.address in members and not await _is_gone(context, known.address):
            raise RefusedError(
                f"cannot add server {server.name} ({server.address}): the living member at "
                f"{known.address} has that name. Give each server its own: `name` in the "
                "configuration file, or -node-name"
            )


async def _is_gone(context: UseCaseContext, address: str) -> bool:
    """Returns whether the leader has not heard of the member for GONE_S.

    Waits for a member that may just have been stopped.
    """
    cluster = context.state.cluster
    deadline_s = context.clock.monotonic_s() + 2 * GONE_S
    while address != cluster.address:
        silent_s = {one.address: one.last_contact_s for one in cluster.peer_progress()}
        if silent_s.get(address, GONE_S) >= GONE_S:
            return True
        if context.clock.monotonic_s() >= deadline_s:
            return False
        await context.clock.sleep(_RETRY_S)
    return False


def _check_id(server: ServerRecord, servers: Iterable[ServerRecord]) -> None:
    """Refuses an id that another member has, as in a copied data directory."""
    for known in servers:
        if known.id == server.id and known.address != server.address:
            raise RefusedError(
                f"cannot add server {server.name} ({server.address}): {known.name} "
                f"({known.address}) has the same id. If its data directory was copied, empty it; "
                "if its address has changed, remove the old one first: orchgit operator raft "
                f"remove-peer -peer-address {known.address}"
            )


async def remove_server(context: UseCaseContext, address: str, if_gone: bool = False) -> None:
    """Removes the member with this raft address; a leader that removes itself hands over first.

    With `if_gone`, raises RefusedError for a member that is alive.
    """
    if not context.state.cluster.is_leader:
        raise NotLeaderError(
            "cannot remove a server here: ask the leader", context.state.cluster.leader_address
        )
    if if_gone and not await _is_gone(context, address):
        raise RefusedError(
            f"cannot remove the server at {address}: it is alive, and would join again; stop it "
            "first. `orchgit operator raft remove-peer` removes a living one"
        )
    await _remove_when_free(context, address)
    if context.state.cluster.is_leader:
        await context.propose(DeleteServer(address=address))


async def _remove_when_free(context: UseCaseContext, address: str) -> None:
    """Removes the member; waits while autopilot changes the members."""
    deadline_s = context.clock.monotonic_s() + _ATTEMPT_S
    while True:
        try:
            return await context.state.membership.remove(address)
        except (NotLeaderError, TimedOutError):
            raise
        except UnavailableError:
            if context.clock.monotonic_s() >= deadline_s:
                raise
        await context.clock.sleep(_RETRY_S)


async def transfer_leadership(context: UseCaseContext, address: str) -> None:
    """Transfers leadership to the member with this raft address; returns when it leads.

    A member that is catching up, or was just started, is asked more than once. Raises RefusedError
    where its disk has no room, UnavailableError where it stays silent.
    """
    cluster = context.state.cluster
    if address == cluster.address and cluster.is_leader:
        return
    deadline_s = context.clock.monotonic_s() + TRANSFER_S
    while cluster.leader_address != address and context.clock.monotonic_s() < deadline_s:
        try:
            await cluster.transfer_leadership(address)
        except NotLeaderError:
            raise
        except UnavailableError:
            if context.clock.monotonic_s() + _RETRY_S >= deadline_s:
                raise
            await context.clock.sleep(_RETRY_S)
            continue
        await _until_led_by(context, address)
        if not cluster.is_leader:
            break
    if cluster.leader_address != address:
        raise TimedOutError(
            f"cannot transfer leadership to {address}: it did not take over in {TRANSFER_S:g} s; "
            "look at `orchgit operator raft list-peers`"
        )


async def _until_led_by(context: UseCaseContext, wanted: str) -> None:
    deadline_s = context.clock.monotonic_s() + _ATTEMPT_S
    while (leader := context.state.cluster.leader_address) != wanted:
        left_s = deadline_s - context.clock.monotonic_s()
        if left_s <= 0:
            return
        await context.state.cluster.leader_change(leader, left_s)


def find_member(context: UseCaseContext, *, address: str = "", server_id: str = "") -> str:
    """Returns the raft address of the member that has this address or id.

    `address` may be the one of its RPC.
    """
    with context.snapshot() as snapshot:
        records = {one.address: one for one in snapshot.servers.all()}
    for member in context.state.cluster.members:
        record = records.get(member.address, ServerRecord(member.address))
        if address and address in (record.address, record.rpc_address):
            return member.address
        if server_id and record.id == server_id:
            return member.address
    named = f'id "{server_id}"' if server_id else f'address "{address}"'
    raise RefusedError(f"{named} was not found in the Raft configuration")
