"""The members of a cluster, as entries of the log say it, and how one entry changes them.

A configuration is in force as soon as it is in a member's log, committed or not, and no longer when
its entry is cut off. Majorities of two configurations that differ by one member share a member, so
there is never a second leader, as long as the next change waits until the last one is committed
(Raft dissertation, section 4.1).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from orchgit.errors import RefusedError

CONFIGURATION = b"\x02"
"""The first byte of an entry that says who the members are from there on."""


class Member(msgspec.Struct, frozen=True, array_like=True, order=True):
    """`address` is the member's raft address, which is its name. A member without a vote is a
    learner: it receives all entries and counts for no majority."""

    address: str
    voter: bool


@dataclass(frozen=True)
class Configuration:
    """All members, in the order of their addresses; empty if the server belongs to no cluster."""

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
        """Returns the configuration with `address` added, or given (or denied) a vote."""
        others = self.without(address).members
        return Configuration((*others, Member(address, voter)))

    def without(self, address: str) -> Configuration:
        return Configuration(tuple(one for one in self.members if one.address != address))

    def encode(self) -> bytes:
        """Returns the payload of the configuration's entry."""
        return CONFIGURATION + _ENCODER.encode(self.members)


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(tuple[Member, ...])


def decode_configuration(payload: bytes) -> Configuration:
    """Decodes the payload of an entry that begins with CONFIGURATION."""
    return Configuration(_DECODER.decode(payload[1:]))


@dataclass(frozen=True, slots=True)
class ConfigurationEntry:
    """A configuration and the index of its entry. A configuration that is not `logged` was given
    from outside (by the configuration file, or to recover): it is in force behind `index`, and in
    no log until a leader appends it."""

    index: int
    configuration: Configuration
    logged: bool = True


class ConfigurationHistory:
    """The configurations that a log holds; the oldest may come from a snapshot. The newest one is
    in force, and the one before it when the newest is cut off."""

    def __init__(self, first: ConfigurationEntry, later: Iterable[ConfigurationEntry] = ()) -> None:
        self._entries = [first, *(one for one in later if one.index > first.index)]

    @property
    def newest(self) -> ConfigurationEntry:
        return self._entries[-1]

    @property
    def oldest(self) -> ConfigurationEntry:
        return self._entries[0]

    @property
    def previous(self) -> ConfigurationEntry:
        """The configuration before the newest; the newest itself if none before it is known."""
        return self._entries[-2] if len(self._entries) > 1 else self._entries[-1]

    def append(self, index: int, configuration: Configuration) -> None:
        self._entries.append(ConfigurationEntry(index, configuration))

    def cut_after(self, index: int) -> bool:
        """Forgets configurations after `index`; returns whether another one is in force now."""
        known = len(self._entries)
        while len(self._entries) > 1 and self._entries[-1].index > index:
            self._entries.pop()
        return len(self._entries) < known

    def forget_before(self, committed_index: int) -> None:
        """Forgets what no cut can bring back: configurations before the newest committed one."""
        while len(self._entries) > 1 and self._entries[1].index <= committed_index:
            del self._entries[0]


@dataclass(frozen=True, slots=True)
class PeerProgress:
    """What the leader knows of another member. `last_contact_s` is the time since it answered."""

    address: str
    voter: bool
    match_index: int
    last_contact_s: float


@dataclass(frozen=True, slots=True)
class MemberChange:
    """A change of one member. `voter` True gives a learner a vote, False adds a learner, None
    removes the member."""

    address: str
    voter: bool | None

    def after(self, configuration: Configuration) -> Configuration:
        """Returns the changed configuration. Raises RefusedError for a change that no leader could
        make."""
        if self.voter is None:
            left = configuration.without(self.address)
            if not left.voters:
                raise RefusedError(
                    f"cannot remove {self.address}: it is the only member with a vote, and a "
                    "cluster needs one; promote another member first"
                )
            return left
        if not self.voter:
            known = self.address in configuration.addresses
            return configuration if known else configuration.with_member(self.address, False)
        if self.address not in configuration.addresses:
            raise RefusedError(
                f"cannot give {self.address} a vote: it is no member; add it first (members: "
                f"{', '.join(sorted(configuration.addresses))})"
            )
        return configuration.with_member(self.address, True)
