"""From the log to the applier: committed entries, and who waits for them on this member."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from orchgit.errors import OrchgitError
from orchgit.raft.configuration import CONFIGURATION, decode_configuration
from orchgit.raft.core import RaftCore
from orchgit.raft.ports import NO_OP, Record, SnapshotRef
from orchgit.raft_log.journal import Journal
from orchgit.raft_node.committed import Committed
from orchgit.raft_node.forwarding import Forwarding
from orchgit.raft_node.proposal import Proposal, unknown_outcome

REGULAR = b"\x00"
"""The first byte of an entry that a member appended for itself; its command follows."""
_HAND_OVER = 256
_PACE_S = 0.005
"""A follower applies what is committed at that interval, where it comes faster: each transaction
costs about as much as ten small entries, and nobody waits for the answers there."""


class Committing:
    """Proposals that were appended here, and what is committed; on the raft thread."""

    def __init__(
        self,
        core: RaftCore,
        journal: Journal,
        forwarding: Forwarding,
        applied_index: int,
        hand_over: Callable[[Sequence[Committed]], None],
        has_room: Callable[[], bool],
        on_installed: Callable[[SnapshotRef], None],
    ) -> None:
        self._core = core
        self._journal = journal
        self._forwarding = forwarding
        self._handed_index = applied_index
        self._hand_over = hand_over
        self._has_room = has_room
        self._on_installed = on_installed
        self._waiting: dict[int, tuple[int, Proposal]] = {}
        """By index: (term, proposal) of commands appended here."""
        self._paced_until_s = 0.0
        self.due_s: float | None = None
        """When to call `hand_over` again for what was left for later."""
        self._doubtful_s: float | None = None
        """When those that wait are given up, because this member leads no more."""

    # -- who waits -------------------------------------------------------------------------------

    def wait(self, index: int, proposal: Proposal) -> None:
        """An older waiter of the same index had its entry cut off by another leader's."""
        older = self._waiting.pop(index, None)
        if older is not None:
            older[1].fail(unknown_outcome())
        self._waiting[index] = self._core.state.term, proposal

    def not_written(self, index: int, error: OrchgitError) -> bool:
        """The entry was given up before anybody heard of it; did somebody wait for it here?"""
        _, proposal = self._waiting.pop(index, (0, None))
        if proposal is None:
            return False
        proposal.fail(error)
        return True

    def deposed(self, until_s: float) -> None:
        """What the next leader has of them is applied here soon; the rest will never be."""
        self._doubtful_s = until_s

    def give_up_doubtful(self, now_s: float, led_term: int | None) -> None:
        """Those that were appended in another term than the one which is led, when it is time."""
        if self._doubtful_s is not None and now_s >= self._doubtful_s:
            self._doubtful_s = None
            doubtful = [i for i, (term, _) in self._waiting.items() if term != led_term]
            for index in doubtful:
                self._waiting.pop(index)[1].fail(unknown_outcome())

    # -- what is committed -----------------------------------------------------------------------

    def hand_over(self, now_s: float) -> None:
        """To the applier thread, as far as it has room, and as it is due."""
        self.due_s = None
        # What a state has, its own log has: also after a crash.
        committed = min(self._core.state.log.commit_index, self._journal.synced_index)
        if self._handed_index < committed and not self._is_due(now_s):
            self.due_s = self._paced_until_s
            return
        while self._handed_index < committed and self._has_room():
            self._paced_until_s = now_s + _PACE_S
            last = min(committed, self._handed_index + _HAND_OVER)
            records = self._journal.records(self._handed_index + 1, last)
            self._handed_index = last
            self._hand_over([self._committed(record) for record in records])

    def _is_due(self, now_s: float) -> bool:
        """At once where somebody waits for it."""
        waited_for = self._core.is_leader or self._forwarding.is_waited_for
        return waited_for or now_s >= self._paced_until_s

    def install(self, ref: SnapshotRef) -> None:
        """A snapshot took the place of the log up to there."""
        self._handed_index = ref.index
        for index in [one for one in self._waiting if one <= ref.index]:
            self._waiting.pop(index)[1].fail(unknown_outcome())
        self._on_installed(ref)

    def _committed(self, record: Record) -> Committed:
        index, payload = record.index, record.payload
        term, proposal = self._waiting.pop(index, (0, None))
        if proposal is not None and term != record.term:
            proposal.fail(unknown_outcome())
            proposal = None
        waiting = (proposal,) if proposal is not None else ()
        kind = payload[:1]
        if kind == CONFIGURATION:
            return Committed(index, None, waiting, decode_configuration(payload).members)
        if kind == NO_OP:
            elects = self._core.is_first_of_leadership(index, record.term)
            return Committed(index, None, waiting, elects=elects)
        command, forwarded = self._forwarding.opened(payload) or (payload[len(REGULAR) :], None)
        return Committed(index, command, waiting if forwarded is None else (*waiting, forwarded))
