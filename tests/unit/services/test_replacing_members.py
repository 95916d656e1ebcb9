"""Whether a member may be put out for a blank server of its address."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from orchgit.errors import UnavailableError
from orchgit.model.server import ServerRecord
from orchgit.raft.configuration import Member, PeerProgress
from orchgit.services.cluster.membership import check_replaceable

BLANK = ServerRecord(address="c:1", name="three")


@dataclass
class Leader:
    """`a:1`; how long it has not heard of the others."""

    silent_s: dict[str, float]
    learners: tuple[str, ...] = ()
    address: str = "a:1"

    @property
    def members(self) -> tuple[Member, ...]:
        everyone = (self.address, *self.silent_s)
        return tuple(Member(one, one not in self.learners) for one in everyone)

    def peer_progress(self) -> tuple[PeerProgress, ...]:
        return tuple(
            PeerProgress(one, one not in self.learners, 7, silent_s)
            for one, silent_s in self.silent_s.items()
        )


def test_silent_member_is_removed_while_the_others_are_a_majority() -> None:
    check_replaceable(BLANK, Leader({"b:1": 0.1, "c:1": 9.0}))
    check_replaceable(BLANK, Leader({"b:1": 0.1, "c:1": 9.0, "d:1": 9.0, "e:1": 0.0}))
    check_replaceable(BLANK, Leader({"b:1": 9.0, "c:1": 9.0}, learners=("b:1", "c:1")))


@pytest.mark.parametrize(
    ("leader", "reason"),
    [
        (Leader({"b:1": 0.1, "c:1": 0.2}), "was heard a moment ago"),
        (Leader({"b:1": 0.1, "c:1": 0.2}, learners=("c:1",)), "was heard a moment ago"),
        (Leader({"b:1": 0.1}, address="c:1"), "two have the same address"),
        (Leader({"b:1": 9.0, "c:1": 9.0}), "1 of the other 2 servers are no majority"),
    ],
    ids=["there", "a learner that is there", "the leader itself", "others gone"],
)
def test_member_that_answers_or_is_needed_is_not_replaced(leader: Leader, reason: str) -> None:
    with pytest.raises(UnavailableError, match=reason):
        check_replaceable(BLANK, leader)
