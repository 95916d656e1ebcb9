"""The leader's side of changing members: one change at a time (Raft dissertation, chapter 4)."""

from __future__ import annotations

from orchgit.errors import RefusedError, UnavailableError
from orchgit.raft.configuration import Change, PeerProgress
from orchgit.raft.leadership_transfer import HandingOver
from orchgit.raft.messages import NotMember
from orchgit.raft.ports import NO_OP


class Changing(HandingOver):
    """A member as a leader that takes in, promotes and removes others, or itself."""

    def change_members(self, change: Change) -> int | None:
        """The index of the entry whose commit makes the change; None if this member does not lead,
        or is handing over. UnavailableError while another change is under way, RefusedError
        for what cannot be."""
        if not self.is_leader or self._transfer is not None:
            return None
        after = change.after(self.configuration)
        if after == self.configuration:
            return self._append(self.term, NO_OP)
        self._refuse_two_at_once()
        if change.voter:
            self._refuse_one_behind(change.address)
        return self._append(self.term, after.encode())

    def _refuse_two_at_once(self) -> None:
        """Majorities of configurations that are two changes apart need not have a member in common;
        and an earlier leader's last change is in doubt until an entry of this term is committed."""
        if not self._is_settled or self.commit_index < self.no_op_index:
            raise UnavailableError(
                "cannot change the members: another change, or the leader's election, is not "
                "committed yet; try again in a moment"
            )

    def _refuse_one_behind(self, address: str) -> None:
        """With a vote it would be waited for."""
        peer = self.progress[address]
        if not peer.keeps_up(self._timing.election_s[0], self._now_s):
            raise RefusedError(
                f"cannot give {address} a vote: it is still behind (it has entry {peer.match} of "
                f"{self.log.last_index}); try again when it has caught up"
            )

    def _members_changed(self) -> None:
        """Who is removed is told once, now; later when it asks to be elected."""
        before = set(self.progress) if self.is_leader else set()
        super()._members_changed()
        for name in sorted(before - set(self.progress)):
            self._parted[name] = self._configurations.newest.index
        for name in self.progress:
            self._parted.pop(name, None)  # its removal was given up, or it is back

    def _commit(self, index: int) -> None:
        super()._commit(index)
        for name, removed_index in list(self._parted.items()):
            if removed_index <= index:
                self._send(name, NotMember(self.term, removed_index))
                del self._parted[name]

    def peer_progress(self) -> tuple[PeerProgress, ...]:
        """Of the other members, while this one leads; from any thread."""
        voters = self.configuration.voters
        return tuple(
            PeerProgress(name, name in voters, peer.match, max(0.0, self._now_s - peer.heard_s))
            for name, peer in list(self.progress.items())
        )
