"""What a raft node tells of itself, on any thread."""

from __future__ import annotations

from collections.abc import Callable

from orchgit.raft.configuration import Member, PeerProgress
from orchgit.raft.core import RaftCore


class RaftNodeStatus:
    """Single values that the raft thread writes; two reads may see different moments."""

    def __init__(self, core: RaftCore, last_log_index: int, now_s: Callable[[], float]) -> None:
        self._core = core
        self._now_s = now_s
        self.led_term: int | None = None
        """The term that this member leads."""
        self.leader_and_term: tuple[str | None, int] = (None, 0)
        """Which member leads, in which term; the two belong together."""
        self.confirmed_s = core.confirmed_s
        """As of when a majority has confirmed that this member leads, in the host's time."""
        self.last_log_index = last_log_index
        self.last_log_term = 0
        self.last_snapshot: tuple[int, int] = (0, 0)
        """The index and the term of the last entry that a snapshot on disk has; 0 without one."""

    @property
    def is_leader(self) -> bool:
        return self.led_term is not None

    @property
    def leader_address(self) -> str | None:
        return self.leader_and_term[0]

    @property
    def term(self) -> int:
        return self._core.state.term

    @property
    def commit_index(self) -> int:
        return self._core.state.log.commit_index

    @property
    def members(self) -> tuple[Member, ...]:
        """The newest configuration in the log; empty if the server belongs to no cluster."""
        return self._core.state.log.configuration.members

    @property
    def is_alone(self) -> bool:
        """There is no other member whose silence has to be noticed."""
        return not self._core.membership.others

    @property
    def is_removed(self) -> bool:
        return self._core.is_removed

    @property
    def waits_for_admission(self) -> bool:
        return self._core.membership.waits_for_admission

    @property
    def is_catching_up(self) -> bool:
        return self._core.membership.is_catching_up

    @property
    def last_contact_s(self) -> float | None:
        """The time since this member heard of a leader; 0 while it leads; None: never."""
        if self.is_leader:
            return 0.0
        heard_s = self._core.election.heard_leader_s
        return None if heard_s is None else max(0.0, self._now_s() - heard_s)

    def peer_progress(self) -> tuple[PeerProgress, ...]:
        return self._core.peer_progress()
