"""Asks the other servers who leads, while the server in use is silent.

An agent notices a killed leader at once, as its connections end. A leader that is cut off or
stopped says nothing, and its last heartbeat answer may be ten seconds old: the others know better.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from orchgit.clock import Clock
from orchgit.errors import OrchgitError
from orchgit.model.cluster import ClusterName
from orchgit.wire.messages import LeaderReply, LeaderRequest

_POLL_S = 60.0
_RETRY_S = 1.0

AskLeader = Callable[[str, LeaderRequest], Awaitable[LeaderReply]]
"""(address of a server, the known term) -> its answer, which may take a minute."""


async def next_leader(
    ask: AskLeader,
    others: Callable[[], Sequence[str]],
    is_ours: Callable[[ClusterName], bool],
    address: str,
    term: int,
    clock: Clock,
) -> str:
    """Returns the leader's RPC address as soon as one of `others` says that another server than
    `address` leads, since a later term than `term`. Servers of other clusters are ignored."""
    reply: LeaderReply | None
    turn = 0
    while True:
        servers = others()
        if not servers:
            await clock.sleep(_POLL_S)
            continue
        try:
            reply = await ask(servers[turn % len(servers)], LeaderRequest(term, _POLL_S))
        except OrchgitError:
            reply = None
        if reply is None or not is_ours(reply.cluster):
            turn += 1
            await clock.sleep(_RETRY_S)
            continue
        if reply.term > term and reply.leader:
            if reply.leader != address:
                return reply.leader
            term = reply.term
