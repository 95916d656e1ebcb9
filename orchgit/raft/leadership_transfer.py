"""Leadership transfer: on an operator's request, or because the leader's disk stays full (Raft
dissertation, section 3.10)."""

from __future__ import annotations

from orchgit.errors import OrchgitError, RefusedError, UnavailableError
from orchgit.raft.membership import RaftMembership
from orchgit.raft.messages import TimeoutNow
from orchgit.raft.progress import ProgressTracker
from orchgit.raft.state import RaftState


class LeadershipTransfer:
    """While a transfer is under way the leader takes no proposals; it is given up when the target
    has not taken over within an election time-out."""

    def __init__(
        self, state: RaftState, membership: RaftMembership, tracker: ProgressTracker
    ) -> None:
        self._state = state
        self._membership = membership
        self._tracker = tracker
        self._target: str | None = None
        self._deadline_s = 0.0
        self._full_s: tuple[float, float] | None = None
        """Since when the disk has been full, and when it last was: a disk that has room for a
        moment, but not for what is to be written, counts as full all along."""

    @property
    def is_under_way(self) -> bool:
        return self._target is not None

    def begin(self, target: str) -> OrchgitError | None:
        """Begins a transfer to `target`; returns what is in the way, else None."""
        refusal = self._refusal(target)
        if refusal is None:
            self._target = target
            self._deadline_s = self._state.now_s + self._state.timing.election_s[1]
        return refusal

    def _refusal(self, target: str) -> OrchgitError | None:
        what = f"cannot hand the leadership to {target}"
        if target not in self._membership.other_voters:
            return RefusedError(
                f"{what}: it is not another member with a vote; `orchgit operator raft list-peers` "
                "shows them"
            )
        peer = self._tracker.peers[target]
        if not peer.could_write:
            return RefusedError(
                f"{what}: its disk is full, so it could not lead; make room there first, or name "
                "another member"
            )
        silent_s = self._state.now_s - peer.heard_s
        if silent_s > self._state.timing.election_s[1]:
            return UnavailableError(
                f"{what}: it has not answered for {silent_s:.1f} s; name another member, or start "
                "it first"
            )
        return None

    def tick(self) -> None:
        if self._target is not None and self._state.now_s >= self._deadline_s:
            self._target = None

    def finish(self) -> bool:
        """Tells the target to stand for election if it has the whole log; returns whether it was
        told."""
        target, state = self._target, self._state
        if target is None or self._tracker.peers[target].match != state.log.last_index:
            return False
        state.send(target, TimeoutNow(state.term, state.log_id))
        return True

    # -- a full disk -----------------------------------------------------------------------------

    def leave_if_full(self) -> None:
        """Begins a transfer when the own disk has been full for long and another voter can write.

        Only where writes go on then; else the leader stays, for the sake of current reads. A member
        that does not take over is not asked again at once."""
        if not self._has_been_full_for_long() or self._target is not None:
            return
        state, peers = self._state, self._tracker.peers
        since_s = state.now_s - state.timing.election_s[0]
        able = [
            name
            for name in self._membership.other_voters
            if peers[name].could_write and peers[name].heard_s > since_s
        ]
        targets = [name for name in able if peers[name].match == state.log.last_index]
        if targets and state.log.configuration.is_majority(able):
            self.begin(state.rng.choice(targets))
            self._full_s = None

    def _has_been_full_for_long(self) -> bool:
        wait_s, now_s = self._state.timing.without_room_s, self._state.now_s
        if self._state.has_room:
            if self._full_s is not None and now_s - self._full_s[1] > wait_s:
                self._full_s = None
            return False
        first_s = now_s if self._full_s is None else self._full_s[0]
        self._full_s = first_s, now_s
        return now_s - first_s >= wait_s
