"""What a leader knows of the other members."""

from __future__ import annotations

from orchgit.raft.progress import MAX_IN_FLIGHT, Progress, ProgressTracker
from tests.support.raft_core import make_core


def test_probing_member_gets_one_message_at_a_time() -> None:
    peer = Progress(next=5, heard_s=0.0)
    peer.sent(4, 100)
    assert peer.waiting
    assert peer.next == 5
    peer.accepted(4)
    assert not peer.probing
    peer.sent(8, 100)
    assert (peer.match, peer.next, peer.in_flight_bytes) == (4, 9, 100)


def test_late_success_moves_nothing_back() -> None:
    peer = Progress(next=5, heard_s=0.0)
    peer.accepted(8)
    peer.sent(10, 1)
    peer.accepted(6)
    assert (peer.match, peer.next) == (8, 11)


def test_old_refusal_is_ignored() -> None:
    peer = Progress(next=5, heard_s=0.0)
    peer.accepted(8)
    assert not peer.refused(7, 3), "it has acknowledged more than that since"
    assert not peer.refused(20, 3), "it was never sent that"
    assert (peer.next, peer.probing) == (9, False)


def test_refusal_moves_next_back_to_a_possible_agreement() -> None:
    peer = Progress(next=9, heard_s=0.0)
    assert peer.refused(8, 3)
    assert (peer.next, peer.probing, peer.waiting) == (4, True, False)


def test_member_with_too_many_messages_in_flight_has_no_room() -> None:
    peer = Progress(next=1, heard_s=0.0)
    peer.accepted(0)
    for index in range(1, MAX_IN_FLIGHT + 1):
        assert peer.has_room
        peer.sent(index, 1)
    assert not peer.has_room
    peer.accepted(1)
    assert peer.has_room


def test_member_keeps_up_when_its_last_lap_was_short_and_this_one_is_not_long() -> None:
    peer = Progress(next=1, heard_s=0.0)
    peer.measure_lap(10, 1.0)
    peer.accepted(10)
    peer.measure_lap(12, 1.2)
    assert peer.keeps_up(0.5, 1.3)
    assert not peer.keeps_up(0.1, 1.3), "the last lap took 0.2 s"
    assert not peer.keeps_up(0.5, 1.8), "this lap takes too long"


def test_majority_counts_voters_only() -> None:
    tracker = ProgressTracker(make_core("abc").state)
    tracker.update(("b", "c", "learner"), lambda: 1)
    tracker.peers["b"].match, tracker.peers["learner"].match = 4, 9
    assert tracker.reached_by_majority(7, lambda peer: peer.match) == 4


def test_member_that_is_added_again_starts_anew_and_its_old_replies_do_not_count() -> None:
    rounds = iter((5, 6))
    tracker = ProgressTracker(make_core("abc").state)
    tracker.update(("b", "c"), lambda: next(rounds))
    tracker.peers["c"].match = 9
    assert tracker.update(("b",), lambda: next(rounds)) == ["c"]
    assert tracker.update(("b", "c"), lambda: next(rounds)) == []
    assert (tracker.peers["c"].match, tracker.peers["c"].since_round) == (0, 5)
