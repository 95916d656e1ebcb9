"""A member's disk in a simulation: what was synced survives a crash, the rest may or may not."""

from __future__ import annotations

import random

import msgspec

from orchgit.errors import DiskFullError
from orchgit.raft.configuration import Configuration, ConfigurationEntry, Member
from orchgit.raft.ports import Record, SnapshotRef, Vote
from tests.support.linearizable import INITIAL

_CHUNK = 64


class State(msgspec.Struct, array_like=True):
    """What a member's entries made of it: a register, the entries in a chain of hashes, and who
    the members are."""

    index: int = 0
    value: int = INITIAL
    chain: int = 0
    members_index: int = 0
    members: tuple[Member, ...] = ()

    @property
    def placed(self) -> ConfigurationEntry | None:
        if not self.members_index:
            return None
        return ConfigurationEntry(self.members_index, Configuration(self.members))


class MemoryLog:
    """Behaves as the journal does, `sync` included."""

    def __init__(self) -> None:
        self.is_full = False
        self.votes_in_place = True
        """Else a full disk takes no vote: file systems that write everything anew elsewhere."""
        self.vote = Vote()
        self.synced_index = 0
        self._first = 1
        self._records: list[Record] = []

    @property
    def first_index(self) -> int:
        return self._first

    @property
    def last_index(self) -> int:
        return self._first + len(self._records) - 1

    def store_vote(self, vote: Vote) -> None:
        if not self.votes_in_place:
            self.check_room()
        self.vote = vote

    def record(self, index: int) -> Record:
        if index < self._first:
            raise IndexError(index)
        return self._records[index - self._first]

    def records(self, first_index: int, last_index: int) -> list[Record]:
        return self._records[first_index - self._first : last_index + 1 - self._first]

    def term(self, index: int) -> int:
        return self.record(index).term

    def of_kind(self, kind: bytes) -> list[int]:
        return [one.index for one in self._records if one.payload[:1] == kind]

    def append(self, term: int, payload: bytes) -> int:
        index = self.last_index + 1
        self._records.append(Record(index, term, payload))
        return index

    def check_room(self) -> None:
        if self.is_full:
            raise DiskFullError("cannot write: the disk is full")

    def sync(self) -> None:
        if self.synced_index < self.last_index:
            self.check_room()
        self.synced_index = self.last_index

    def take_back(self) -> None:
        del self._records[self.synced_index - self._first + 1 :]

    def cut_after(self, last_index: int) -> None:
        del self._records[last_index - self._first + 1 :]
        self.synced_index = min(self.synced_index, last_index)

    def reset(self, next_index: int) -> None:
        self._records.clear()
        self._first = next_index
        self.synced_index = next_index - 1

    def compact(self, upto_index: int) -> None:
        """The record of `upto_index` stays: it has the snapshot's term."""
        del self._records[: max(0, upto_index - self._first)]
        self._first = max(self._first, upto_index)

    def crash(self, rng: random.Random) -> None:
        """Any part of the unsynced tail may have reached the disk."""
        if self.last_index > self.synced_index:
            keep = rng.randint(self.synced_index, self.last_index)
            del self._records[keep - self._first + 1 :]
        self.synced_index = self.last_index


class MemorySnapshots:
    """`taken`: the newest snapshot of the state; durable."""

    def __init__(self, log: MemoryLog | None = None) -> None:
        self._log = log or MemoryLog()
        self.taken: tuple[SnapshotRef, bytes] | None = None
        self._incoming: tuple[SnapshotRef, bytearray] | None = None

    def take(self, index: int, term: int, data: bytes) -> None:
        self.taken = SnapshotRef(index, term, len(data)), data

    def latest(self) -> SnapshotRef | None:
        return self.taken[0] if self.taken else None

    def read(self, ref: SnapshotRef, offset: int) -> bytes | None:
        if self.taken is None or self.taken[0] != ref:
            return None
        return self.taken[1][offset : offset + _CHUNK]

    def receive(self, ref: SnapshotRef, offset: int, data: bytes) -> int:
        self._log.check_room()
        if self._incoming is None or self._incoming[0] != ref or offset == 0:
            self._incoming = ref, bytearray()
        buffer = self._incoming[1]
        if offset == len(buffer):
            buffer.extend(data)
        return len(buffer)

    def install(self, ref: SnapshotRef) -> ConfigurationEntry | None:
        assert self._incoming is not None
        self.taken = ref, bytes(self._incoming[1])
        self._incoming = None
        return msgspec.msgpack.decode(self.taken[1], type=State).placed

    def crash(self) -> None:
        self._incoming = None
