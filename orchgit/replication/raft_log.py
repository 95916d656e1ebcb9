"""The journal in the shape in which pysyncobj uses a log: a list of (command, index, term)."""

from __future__ import annotations

from typing import overload

from pysyncobj.journal import Journal as ShippedJournal

from orchgit.replication.journal import Journal
from orchgit.replication.vote import Vote

Entry = tuple[bytes, int, int]


class RaftLog(ShippedJournal):  # type: ignore[misc]
    """Positions count from the first record kept; the names are pysyncobj's."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def add(self, command: bytes, idx: int, term: int) -> None:
        index = self._journal.append(term, command)
        assert index == idx, f"the log goes on at {index}, not {idx}"

    def clear(self) -> None:
        self._journal.reset(self._journal.last_index + 1)

    def deleteEntriesFrom(self, entryFrom: int) -> None:
        self._journal.cut_after(self._journal.first_index + entryFrom - 1)

    def deleteEntriesTo(self, entryTo: int) -> None:
        self._journal.compact(self._journal.first_index + entryTo - 1)

    @overload
    def __getitem__(self, item: int) -> Entry: ...
    @overload
    def __getitem__(self, item: slice) -> list[Entry]: ...
    def __getitem__(self, item: int | slice) -> Entry | list[Entry]:
        if isinstance(item, slice):
            return [self._entry(position) for position in range(*item.indices(len(self)))]
        return self._entry(item if item >= 0 else len(self) + item)

    def _entry(self, position: int) -> Entry:
        record = self._journal.record(self._journal.first_index + position)
        return record.payload, record.index, record.term

    def __len__(self) -> int:
        return self._journal.last_index - self._journal.first_index + 1

    def setRaftCommitIndex(self, raftCommitIndex: int) -> None:
        """Not kept: what is applied is committed, and the rest is learnt from the leader."""

    def getRaftCommitIndex(self) -> int:
        return 1

    def setCurrentTerm(self, term: int, votedForNodeId: str | None) -> None:
        self._journal.store_vote(Vote(term, votedForNodeId))

    def getCurrentTerm(self) -> int:
        return self._journal.vote.term

    def getVotedForNodeId(self) -> str | None:
        return self._journal.vote.voted_for

    def _destroy(self) -> None:
        """The journal is closed by its owner."""
