"""Commands of followers: sent to the leader, appended there, recognized once committed."""

from __future__ import annotations

import os

import msgspec

from orchgit.errors import DiskFullError
from orchgit.raft.core import RaftCore
from orchgit.raft.messages import Forwarded, ForwardRefused
from orchgit.raft_log.disk_space import DiskSpace
from orchgit.raft_node.proposal import Proposal, not_leader, queue_full, unknown_outcome
from orchgit.raft_transport.transport import Transport

_FORWARDED = b"\x04"
"""Followed by the msgpack of [member, request], whose length is in the next two bytes."""
LeaderOfTerm = tuple[str | None, int]
"""Who leads, in which term."""


class ProposalForwarding:
    """The follower's side and the leader's; on the raft thread."""

    def __init__(self, core: RaftCore, transport: Transport, space: DiskSpace) -> None:
        self._core = core
        self._transport = transport
        self._space = space
        self._sent: dict[int, tuple[LeaderOfTerm, Proposal]] = {}
        """By request: the leader it was sent to, and the proposal that waits."""
        self._requests = int.from_bytes(os.urandom(6), "little")
        """Starts at random: a request of an earlier life must not answer one of this."""

    # -- a follower ------------------------------------------------------------------------------

    @property
    def is_waited_for(self) -> bool:
        """A proposal here waits for an entry that was forwarded."""
        return bool(self._sent)

    @property
    def is_possible(self) -> bool:
        """Another member is known to lead."""
        return self._core.state.leader not in (None, self._core.state.name)

    def send(self, command: bytes, proposal: Proposal) -> None:
        """Sends to the leader; the proposal is answered when the entry is committed here."""
        leader, term = self._core.state.leader, self._core.state.term
        assert leader is not None
        self._requests += 1
        origin = msgspec.msgpack.encode((self._core.state.name, self._requests))
        payload = _FORWARDED + len(origin).to_bytes(2, "big") + origin + command
        if self._transport.send(leader, Forwarded(term, self._requests, payload)):
            self._sent[self._requests] = (leader, term), proposal
        else:
            proposal.fail(not_leader(leader))

    def refused(self, refusal: ForwardRefused) -> None:
        """The leader did not append the entry."""
        _, proposal = self._sent.pop(refusal.request, (None, None))
        if proposal is None:
            return
        if refusal.reason:
            proposal.fail(DiskFullError(refusal.reason))
        else:
            proposal.fail(queue_full() if refusal.too_much else not_leader(None))

    def leader_changed(self, leadership: LeaderOfTerm) -> None:
        """What became of commands that were sent to an earlier leader is unknown. Those that were
        sent to this leader, in the same turn in which it was heard of, are on their way."""
        earlier = [request for request, (to, _) in self._sent.items() if to != leadership]
        for request in earlier:
            self._sent.pop(request)[1].fail(unknown_outcome())

    # -- the leader ------------------------------------------------------------------------------

    def take(self, sender: str, message: Forwarded) -> None:
        """Appends a follower's command, or refuses it."""
        is_member = sender in self._core.state.log.configuration.addresses
        well_formed = _is_forwarded(message.payload)
        refusal = self._space.refusal if self._core.is_leader else None
        taken = is_member and well_formed and refusal is None
        if not taken or self._core.propose(message.payload) is None:
            self._refuse(sender, message.request, str(refusal or ""))

    def give_up(self, payload: bytes, reason: str) -> None:
        """There was no room for an entry; if it was forwarded, its sender is told."""
        if payload[:1] == _FORWARDED:
            (name, request), _ = _origin(payload)
            self._refuse(name, request, reason)

    def _refuse(self, sender: str, request: int, reason: str) -> None:
        self._transport.send(sender, ForwardRefused(self._core.state.term, request, reason=reason))

    # -- what is committed -----------------------------------------------------------------------

    def opened(self, payload: bytes) -> tuple[bytes, Proposal | None] | None:
        """Returns the command of a forwarded entry, and the proposal that waits for it here; None
        for an entry of another kind."""
        if payload[:1] != _FORWARDED:
            return None
        (name, request), start = _origin(payload)
        mine = self._sent.pop(request, None) if name == self._core.state.name else None
        return payload[start:], mine[1] if mine is not None else None


def _is_forwarded(payload: bytes) -> bool:
    """Every member reads what is in the log, so it has to be readable."""
    try:
        return payload[:1] == _FORWARDED and bool(_origin(payload))
    except (msgspec.MsgspecError, RecursionError):
        return False


def _origin(payload: bytes) -> tuple[tuple[str, int], int]:
    """Returns (member, request) of the follower that forwarded an entry, and where its command
    starts."""
    start = 3 + int.from_bytes(payload[1:3], "big")
    return msgspec.msgpack.decode(payload[3:start], type=tuple[str, int]), start
