"""A follower's log: entries from the leader (Raft dissertation, section 3.5)."""

from __future__ import annotations

from orchgit.errors import InvariantError
from orchgit.raft.election import Election
from orchgit.raft.messages import Append, AppendReply, LogEntry
from orchgit.raft.state import RaftState


class FollowerLog:
    """Appends the leader's entries and commits what the leader has committed; has no state of its
    own."""

    def __init__(self, state: RaftState, election: Election) -> None:
        self._state = state
        self._log = state.log
        self._election = election

    def on_append(self, sender: str, message: Append) -> None:
        state, log = self._state, self._log
        if message.term < state.term:
            # The sender may be the leader of this term by now, and must not take the refusal of
            # its earlier message for an answer to its newest round.
            self._refuse(sender, message, log.last_index, round_=0)
            return
        self._election.follow(sender)
        prev_index, entries = message.prev_index, message.entries
        if prev_index < log.commit_index:
            # Committed entries are the same in every leader's log: no need to compare (or to have)
            # them.
            entries = entries[log.commit_index - prev_index :]
            prev_index = max(log.commit_index, prev_index)
        elif not log.agrees(prev_index, message.prev_term):
            self._refuse(sender, message, self._last_possible_agreement(prev_index), message.round)
            return
        self._append_missing(prev_index, entries)
        last = max(prev_index, message.prev_index + len(message.entries))
        log.commit(min(message.commit_index, last))
        reply = AppendReply(state.term, True, last, message.round, has_room=state.has_room)
        state.send(sender, reply)

    def _append_missing(self, prev_index: int, entries: list[LogEntry]) -> None:
        """Entries are cut only from the first that conflicts: a message that was overtaken by a
        later one must not take back what the later one brought."""
        last_index = self._log.last_index
        for index, entry in enumerate(entries, prev_index + 1):
            if index <= last_index:
                if self._log.term(index) == entry.term:
                    continue
                if index <= self._log.commit_index:
                    raise InvariantError(
                        f"cannot follow {self._state.leader}: it conflicts with entry {index}, but "
                        f"{self._log.commit_index} is committed; stop this server and compare the "
                        "members' logs"
                    )
                self._log.cut_after(index - 1)
                last_index = index - 1
            self._log.append(entry.term, entry.payload)

    def _refuse(self, sender: str, message: Append, hint_index: int, round_: int) -> None:
        hint_term = self._log.term(hint_index)
        place = (hint_index, round_, message.prev_index, hint_term, self._state.has_room)
        self._state.send(sender, AppendReply(self._state.term, False, *place))

    def _last_possible_agreement(self, index: int) -> int:
        """Returns the last index up to `index` where the logs may agree; skips the whole term that
        conflicts."""
        if index > self._log.last_index:
            return self._log.last_index
        term = self._log.term(index)
        while index > self._log.commit_index and self._log.term(index) == term:
            index -= 1
        return index
