"""What the node hands to the applier."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from orchgit.raft.configuration import Member
from orchgit.raft_node.proposal import Proposal


@dataclass(slots=True)
class Committed:
    """A committed entry. `payload` is None for an entry that changes no more than the index, and
    the members if `members` names them."""

    index: int
    payload: bytes | None
    proposals: Sequence[Proposal] = ()
    """The proposals on this server that wait for the entry."""
    members: tuple[Member, ...] | None = None
    elects: bool = False
    """It is the first entry of a term in which this server leads."""
