"""Changes of the members by the leader, one at a time (Raft dissertation, chapter 4)."""

from __future__ import annotations

from collections.abc import Iterable

from orchgit.errors import RefusedError, UnavailableError
from orchgit.raft.configuration import MemberChange
from orchgit.raft.messages import NotMember
from orchgit.raft.ports import NO_OP
from orchgit.raft.progress import ProgressTracker
from orchgit.raft.state import RaftState


class ConfChange:
    """Appends configurations, and tells removed members of their removal once it is committed."""

    def __init__(self, state: RaftState, tracker: ProgressTracker, first_index: int) -> None:
        self._state = state
        self._log = state.log
        self._tracker = tracker
        self._first_index = first_index
        """Of the first entry of this leader's term."""
        self._removed: dict[str, int] = {}
        """Members that are to be told of their removal -> the index of its entry."""

    def propose(self, change: MemberChange) -> int:
        """Returns the index of the entry whose commit makes the change. Raises UnavailableError
        while another change is under way, RefusedError for a change that cannot be made."""
        log = self._log
        after = change.after(log.configuration)
        if after == log.configuration:
            return log.append(self._state.term, NO_OP)
        self._check_previous_is_committed()
        if change.voter:
            self._check_keeps_up(change.address)
        return log.append(self._state.term, after.encode())

    def _check_previous_is_committed(self) -> None:
        """Majorities of configurations that are two changes apart need not have a member in common;
        and an earlier leader's last change is in doubt until an entry of this term is committed."""
        if not self._log.is_configuration_committed or self._log.commit_index < self._first_index:
            raise UnavailableError(
                "cannot change the members: another change, or the leader's election, is not "
                "committed yet; try again in a moment"
            )

    def _check_keeps_up(self, address: str) -> None:
        """With a vote the member would be waited for."""
        peer = self._tracker.peers[address]
        if not peer.keeps_up(self._state.timing.election_s[0], self._state.now_s):
            raise RefusedError(
                f"cannot give {address} a vote: it does not keep up with the log yet (it has entry "
                f"{peer.match} of {self._log.last_index}); try again in a moment"
            )

    def members_changed(self, removed: Iterable[str]) -> None:
        """Another configuration is in force; it removed these."""
        for name in removed:
            self._removed[name] = self._log.configurations.newest.index
        for name in self._tracker.peers:
            self._removed.pop(name, None)  # its removal was cut off, or it was added again

    def committed(self) -> None:
        """Tells the removed members, once; later they are told when they stand for election."""
        for name, index in list(self._removed.items()):
            if index <= self._log.commit_index:
                self._state.send(name, NotMember(self._state.term, index))
                del self._removed[name]
