"""Who belongs to a cluster, and how that changes: one member at a time, as entries of the log.

A configuration is in force as soon as it is in a member's log, committed or not, and no more when
its entry is cut off. Two majorities of configurations that differ by one member share a member, so
there is never a second leader, as long as the next change waits until the last is committed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from orchgit.errors import RefusedError

CONFIGURATION = b"\x02"
"""The first byte of an entry that says who the members are from here on."""


class Member(msgspec.Struct, frozen=True, array_like=True, order=True):
    """`address`: its raft address, which is its name. One without a vote is a learner: it receives
    everything and counts for nothing."""

    address: str
    voter: bool


@dataclass(frozen=True)
class Configuration:
    """All members, in the order of their addresses; empty: this server belongs to no cluster."""

    members: tuple[Member, ...] = ()
    addresses: frozenset[str] = field(init=False)
    voters: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "members", tuple(sorted(self.members)))
        object.__setattr__(self, "addresses", frozenset(one.address for one in self.members))
        voters = frozenset(one.address for one in self.members if one.voter)
        object.__setattr__(self, "voters", voters)

    @classmethod
    def of(cls, voters: Iterable[str]) -> Configuration:
        return cls(tuple(Member(address, True) for address in voters))

    def is_majority(self, names: Iterable[str]) -> bool:
        return 2 * len(self.voters.intersection(names)) > len(self.voters)

    def with_member(self, address: str, voter: bool) -> Configuration:
        """`address` added, or given (or denied) a vote."""
        others = self.without(address).members
        return Configuration((*others, Member(address, voter)))

    def without(self, address: str) -> Configuration:
        return Configuration(tuple(one for one in self.members if one.address != address))

    def encode(self) -> bytes:
        """The payload of its entry."""
        return CONFIGURATION + _ENCODER.encode(self.members)


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(tuple[Member, ...])


def decode_configuration(payload: bytes) -> Configuration:
    """Of an entry that begins with CONFIGURATION."""
    return Configuration(_DECODER.decode(payload[1:]))


@dataclass(frozen=True, slots=True)
class Placed:
    """A configuration and the index of its entry. Not `logged`: given from outside (by the config
    file, or to recover), in force behind `index`, and in no log until a leader writes it there."""

    index: int
    configuration: Configuration
    logged: bool = True


class Configurations:
    """Those that a log holds, the oldest of them possibly from a snapshot: the newest is in force,
    the ones before come back when it is cut off."""

    def __init__(self, first: Placed, later: Iterable[Placed] = ()) -> None:
        self._placed = [first, *(one for one in later if one.index > first.index)]

    @property
    def newest(self) -> Placed:
        return self._placed[-1]

    @property
    def oldest(self) -> Placed:
        return self._placed[0]

    @property
    def before(self) -> Placed:
        """What was in force before the newest; the newest itself if nothing is known of that."""
        return self._placed[-2] if len(self._placed) > 1 else self._placed[-1]

    def append(self, index: int, configuration: Configuration) -> None:
        self._placed.append(Placed(index, configuration))

    def cut_after(self, index: int) -> bool:
        """Whether another one is in force now."""
        known = len(self._placed)
        while len(self._placed) > 1 and self._placed[-1].index > index:
            self._placed.pop()
        return len(self._placed) < known

    def settle(self, index: int) -> None:
        """What is committed cannot be cut off: forget what was in force before it."""
        while len(self._placed) > 1 and self._placed[1].index <= index:
            del self._placed[0]


@dataclass(frozen=True, slots=True)
class PeerProgress:
    """What the leader knows of another member. `last_contact_s`: since it answered."""

    address: str
    voter: bool
    match_index: int
    last_contact_s: float


@dataclass(frozen=True, slots=True)
class Change:
    """`voter` True: give a vote to a learner; False: take in as a learner; None: remove."""

    address: str
    voter: bool | None

    def after(self, configuration: Configuration) -> Configuration:
        """Raises RefusedError for what cannot be done, whoever leads."""
        if self.voter is None:
            return self._removed(configuration)
        if not self.voter:
            known = self.address in configuration.addresses
            return configuration if known else configuration.with_member(self.address, False)
        if self.address not in configuration.addresses:
            raise RefusedError(
                f"cannot give {self.address} a vote: it is no member; add it first (members: "
                f"{', '.join(sorted(configuration.addresses))})"
            )
        return configuration.with_member(self.address, True)

    def _removed(self, configuration: Configuration) -> Configuration:
        left = configuration.without(self.address)
        if not left.voters:
            raise RefusedError(
                f"cannot remove {self.address}: it is the only member with a vote, and a cluster "
                "needs one; promote another member first"
            )
        return left
