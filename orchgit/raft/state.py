"""The state that all parts of a member share."""

from __future__ import annotations

import enum
import random
from dataclasses import dataclass, field

from orchgit.raft.log import RaftLog
from orchgit.raft.messages import Message
from orchgit.raft.ports import SnapshotRef
from orchgit.raft.standstills import Standstills


class Role(enum.Enum):
    FOLLOWER = "follower"
    PRE_CANDIDATE = "pre-candidate"
    """It asks whether it would be elected; no term has changed yet."""
    CANDIDATE = "candidate"
    LEADER = "leader"


@dataclass(frozen=True, slots=True)
class Timing:
    """A follower stands for election after `election_s[0]` to `[1]` without a message of a leader.
    A leader steps down when it has not heard from a majority for `election_s[1]`, and transfers the
    leadership to a member that can write when its own disk has been full for `without_room_s`. Time
    in which the member itself stood still is left out of both elections and stepping down."""

    heartbeat_s: float = 0.1
    election_s: tuple[float, float] = (0.5, 1.0)
    without_room_s: float = 3.0


@dataclass(slots=True)
class RaftState:
    """Each part changes only what its own docstring says."""

    name: str
    log: RaftLog
    timing: Timing
    rng: random.Random
    now_s: float
    """The time of the newest input; it never goes back."""
    term: int
    role: Role = Role.FOLLOWER
    leader: str | None = None
    log_id: str = ""
    """Names the cluster whose log this is; empty until the log has said so."""
    has_room: bool = True
    """False while the disk is full: this member votes, but could not lead."""
    round: int = 0
    """The newest round of this member's leaderships (`ReadIndex`). It grows on from one leadership
    to the next: a late refusal of an earlier term's message repeats a round of that term."""
    outbox: list[tuple[str, Message]] = field(default_factory=list)
    """(receiver, message), to be sent once the log is synced."""
    reads: list[tuple[object, int | None]] = field(default_factory=list)
    """(ticket, index that must be applied before reading; None: not the leader any more)."""
    standstills: Standstills = field(default_factory=Standstills)
    installed: SnapshotRef | None = None
    """The snapshot that took the place of the log, until the driver has taken it over."""

    @property
    def is_leader(self) -> bool:
        return self.role is Role.LEADER

    def advance(self, now_s: float) -> None:
        self.now_s = max(now_s, self.now_s)

    def send(self, receiver: str, message: Message) -> None:
        self.outbox.append((receiver, message))
