"""The leader's side of giving the lead away: because it is told to, or because its disk is full."""

from __future__ import annotations

from orchgit.errors import NotLeaderError, OrchgitError, RefusedError, UnavailableError
from orchgit.raft.replication import Replicating


class HandingOver(Replicating):
    """A member as a leader that leaves the lead to another."""

    _lacked_room_s: tuple[float, float] | None = None
    """Since when its disk has been full, and when it last was: a disk that has room for a moment,
    but not for what is to be written, counts as full all along."""

    def transfer(self, target: str) -> OrchgitError | None:
        """Hand the leadership over, once `target` has everything; given up after an election.
        What is in the way, else None."""
        refusal = self._why_not(target)
        if refusal is None:
            self._transfer = (target, self._now_s + self._timing.election_s[1])
        return refusal

    def _why_not(self, target: str) -> OrchgitError | None:
        what = f"cannot hand the leadership to {target}"
        if not self.is_leader:
            return NotLeaderError(f"{what}: this server does not lead", self.leader)
        if target not in self._other_voters:
            return RefusedError(
                f"{what}: it is not another member with a vote; `orchgit operator raft list-peers` "
                "shows them"
            )
        peer = self.progress[target]
        if not peer.could_write:
            return RefusedError(
                f"{what}: its disk is full, so it could not lead; make room there first, or name "
                "another member"
            )
        silent_s = self._now_s - peer.heard_s
        if silent_s > self._timing.election_s[1]:
            return UnavailableError(
                f"{what}: it has not answered for {silent_s:.1f} s; name another member, or start "
                "it first"
            )
        return None

    def _lead(self) -> None:
        super()._lead()
        if self.is_leader and self._has_lacked_room_for_long():
            self._leave_to_one_with_room()

    def _has_lacked_room_for_long(self) -> bool:
        wait_s, known = self._timing.without_room_s, self._lacked_room_s
        if self.has_room:
            if known is not None and self._now_s - known[1] > wait_s:
                self._lacked_room_s = None
            return False
        first_s = self._now_s if known is None else known[0]
        self._lacked_room_s = first_s, self._now_s
        return self._now_s - first_s >= wait_s

    def _leave_to_one_with_room(self) -> None:
        """Only where writes go on then; without that it stays, for the sake of current reads. One
        that does not take over is not asked again at once."""
        able = self._able_to_write()
        heirs = [name for name in able if self.progress[name].match == self.log.last_index]
        if self._transfer is None and heirs and self.configuration.is_majority(able):
            self.transfer(self._rng.choice(heirs))
            self._lacked_room_s = None

    def _able_to_write(self) -> list[str]:
        """The other voters that are there and have room."""
        since_s = self._now_s - self._timing.election_s[0]
        return [
            name
            for name in self._other_voters
            if self.progress[name].could_write and self.progress[name].heard_s > since_s
        ]

    def _become_follower(self, leader: str | None) -> None:
        super()._become_follower(leader)
        self._lacked_room_s = None
