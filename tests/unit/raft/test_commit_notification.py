"""When followers are notified of commits."""

from __future__ import annotations

from orchgit.raft.messages import (
    Append,
    AppendReply,
)
from tests.support.raft_core import elect, lead_two_that_follow, make_core, settle


def test_commit_is_notified_with_the_next_entries_or_soon_after_without() -> None:
    core = make_core()
    elect(core, 2.0)
    # Both answer the first question, so that entries go to them as they come.
    core.step("b", AppendReply(core.state.term, True, 2, 0), 2.1)
    core.step("c", AppendReply(core.state.term, True, 2, 0), 2.1)
    settle(core)
    core.propose(b"x")
    settle(core)
    core.step("b", AppendReply(core.state.term, True, 3, 0), 2.2)
    assert settle(core) == [], "it waits for entries to go with"
    assert core.state.log.commit_index == 3
    assert core.notify_s is not None
    core.propose(b"y")
    told = settle(core)
    assert [(to, len(m.entries), m.commit_index) for to, m in told if isinstance(m, Append)] == [
        ("b", 1, 3),
        ("c", 1, 3),
    ]
    assert core.notify_s is None
    core.step("b", AppendReply(core.state.term, True, 4, 0), 2.3)
    assert settle(core) == []
    assert core.notify_s is not None
    core.tick(core.notify_s)
    told = settle(core)
    assert [(to, len(m.entries), m.commit_index) for to, m in told if isinstance(m, Append)] == [
        ("b", 0, 4),
        ("c", 0, 4),
    ]
    assert core.notify_s is None


def test_notification_waits_longer_where_entries_come_often() -> None:
    core = lead_two_that_follow()
    waits: list[float] = []
    for now_s in (3.0, 3.003, 3.5):
        core.tick(now_s)
        core.propose(b"x")
        settle(core)
        core.step("b", AppendReply(core.state.term, True, core.state.log.last_index, 0), now_s)
        settle(core)
        assert core.notify_s is not None
        waits.append(round(core.notify_s - now_s, 4))
    assert waits == [0.002, 0.008, 0.002]


def test_silent_follower_is_not_notified_again_and_again() -> None:
    core = make_core()
    elect(core, 2.0)
    core.step("b", AppendReply(core.state.term, True, 2, 0), 2.05)
    settle(core)
    assert core.notify_s is not None
    core.tick(core.notify_s)
    settle(core)
    assert core.leading.tracker.peers["b"].sent_commit == core.state.log.commit_index == 2
    assert core.leading.tracker.peers["c"].sent_commit < 2
    assert core.notify_s is None
