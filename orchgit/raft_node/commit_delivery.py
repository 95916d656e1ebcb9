"""From the log to the state machine: committed entries, and the proposals that wait for them."""

from __future__ import annotations

from orchgit.errors import OrchgitError
from orchgit.raft.configuration import CONFIGURATION, decode_configuration
from orchgit.raft.core import RaftCore
from orchgit.raft.ports import NO_OP, Record, SnapshotRef
from orchgit.raft_node.committed import Committed
from orchgit.raft_node.forwarding import ProposalForwarding
from orchgit.raft_node.host import NodeHost
from orchgit.raft_node.proposal import Proposal, unknown_outcome

REGULAR = b"\x00"
"""The first byte of an entry that a member appended for itself; its command follows."""
_BATCH = 256
_INTERVAL_S = 0.005
"""A follower applies committed entries at that interval, where they come faster: each transaction
costs about as much as ten small entries, and no caller waits for the answers there."""


class CommitDelivery:
    """Hands committed entries to the host, each once, with the proposals that were appended here;
    on the raft thread."""

    def __init__(
        self, core: RaftCore, host: NodeHost, forwarding: ProposalForwarding, applied_index: int
    ) -> None:
        self._core = core
        self._host = host
        self._forwarding = forwarding
        self._delivered_index = applied_index
        self._waiting: dict[int, tuple[int, Proposal]] = {}
        """By index: (term, proposal) of commands that were appended here."""
        self._next_s = 0.0
        self.due_s: float | None = None
        """When to call `deliver` again for entries that were left for later."""
        self._give_up_s: float | None = None

    # -- proposals that wait ---------------------------------------------------------------------

    def wait(self, index: int, proposal: Proposal) -> None:
        """The proposal's entry was appended. The entry of an older proposal with the same index was
        cut off by another leader's."""
        older = self._waiting.pop(index, None)
        if older is not None:
            older[1].fail(unknown_outcome())
        self._waiting[index] = self._core.state.term, proposal

    def not_written(self, index: int, error: OrchgitError) -> bool:
        """The entry was given up before any other member heard of it; returns whether a proposal
        waited for it here."""
        _, proposal = self._waiting.pop(index, (0, None))
        if proposal is None:
            return False
        proposal.fail(error)
        return True

    def deposed(self, until_s: float) -> None:
        """This member lost the leadership. Entries that the next leader has are applied here soon;
        proposals that still wait at `until_s` are answered as unknown."""
        self._give_up_s = until_s

    def give_up_lost(self, now_s: float, led_term: int | None) -> None:
        """When it is time: proposals of other terms than the one that this member leads."""
        if self._give_up_s is not None and now_s >= self._give_up_s:
            self._give_up_s = None
            lost = [index for index, (term, _) in self._waiting.items() if term != led_term]
            for index in lost:
                self._waiting.pop(index)[1].fail(unknown_outcome())

    # -- committed entries -----------------------------------------------------------------------

    def install(self, snapshot: SnapshotRef) -> None:
        """A snapshot took the place of the log up to there."""
        self._delivered_index = snapshot.index
        for index in [one for one in self._waiting if one <= snapshot.index]:
            self._waiting.pop(index)[1].fail(unknown_outcome())
        self._host.install(snapshot)

    def deliver(self, now_s: float) -> None:
        """Delivers as much as the host takes, if it is due: at once where a caller waits for it."""
        self.due_s = None
        # What the state has, its own log has: also after a crash.
        committed = min(self._core.state.log.commit_index, self._host.journal.synced_index)
        if self._delivered_index < committed and now_s < self._next_s:
            waited_for = self._core.is_leader or self._forwarding.is_waited_for
            if not waited_for:
                self.due_s = self._next_s
                return
        while self._delivered_index < committed and self._host.can_apply:
            self._next_s = now_s + _INTERVAL_S
            last = min(committed, self._delivered_index + _BATCH)
            records = self._host.journal.records(self._delivered_index + 1, last)
            self._delivered_index = last
            self._host.apply([self._committed(record) for record in records])

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
