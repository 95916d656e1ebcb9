"""What a raft node tells of itself to whoever asks, on any thread."""

from __future__ import annotations

from collections.abc import Callable

from orchgit.raft.configuration import Member, PeerProgress
from orchgit.raft.core import RaftCore


class Reporting:
    """Single values that the raft thread writes; the next look may find others."""

    core: RaftCore
    _led: bool
    _leader: tuple[str | None, int]
    _last_log_index: int
    _now_s: Callable[[], float]

    @property
    def is_raft_leader(self) -> bool:
        return self._led

    @property
    def leader_address(self) -> str | None:
        return self._leader[0]

    @property
    def leader_and_term(self) -> tuple[str | None, int]:
        """Who leads, in which term; the two belong together."""
        return self._leader

    @property
    def term(self) -> int:
        return self.core.state.term

    @property
    def is_alone(self) -> bool:
        """There is nobody whose silence has to be noticed."""
        return not self.core.membership.others

    @property
    def members(self) -> tuple[Member, ...]:
        """The newest that are known here; none: it belongs to no cluster."""
        return self.core.state.log.configuration.members

    @property
    def is_removed(self) -> bool:
        return self.core.is_removed

    @property
    def is_deaf(self) -> bool:
        return self.core.membership.waits_for_admission

    @property
    def is_catching_up(self) -> bool:
        return self.core.membership.is_catching_up

    @property
    def commit_index(self) -> int:
        return self.core.state.log.commit_index

    @property
    def last_log_index(self) -> int:
        return self._last_log_index

    @property
    def last_contact_s(self) -> float | None:
        """Since this member heard of a leader; 0 while it leads."""
        if self._led:
            return 0.0
        heard_s = self.core.election.heard_leader_s
        return None if heard_s is None else max(0.0, self._now_s() - heard_s)

    def peer_progress(self) -> tuple[PeerProgress, ...]:
        return self.core.peer_progress()
