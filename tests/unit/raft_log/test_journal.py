"""The log on disk: what survives, what is cut, what is refused."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    rule,
    run_state_machine_as_test,
)

from orchgit.errors import InvariantError
from orchgit.raft.ports import Vote
from orchgit.raft_log.disk import DISK, Disk
from orchgit.raft_log.journal import Journal
from orchgit.raft_log.segment import HEAD_SIZE, MAGIC, encode_record
from tests.support.fillable_disk import FillableDisk

SMALL = 256


def filled(directory: Path, count: int, segment_bytes: int = SMALL, disk: Disk = DISK) -> Journal:
    journal = Journal(directory, segment_bytes, disk)
    journal.store_vote(Vote(9, None))
    for number in range(1, count + 1):
        journal.append(1, payload(number))
        journal.sync()
    return journal


def payload(number: int) -> bytes:
    return f"command {number}".encode() * 3


def contents(journal: Journal) -> list[bytes]:
    first, last = journal.first_index, journal.last_index
    records = [journal.record(n) for n in range(first, last + 1)]
    for start in {first, (first + last) // 2, last}:
        assert list(journal.records(start, last)) == records[start - first :]
        assert list(journal.records(first, start - 1)) == records[: start - first]
    return [record.payload for record in records]


def segments(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.segment"))


def used_bytes(path: Path) -> int:
    """Up to the zeros that were allocated ahead."""
    return len(path.read_bytes().rstrip(b"\0"))


class WritesDisk(Disk):
    """`ends`: where each write to a file ended."""

    def __init__(self) -> None:
        self.ends: list[int] = []

    def write(self, fd: int, data: bytes, offset: int) -> None:
        super().write(fd, data, offset)
        self.ends.append(offset + len(data))


def test_most_records_overwrite_zeros_that_are_on_disk(tmp_path: Path) -> None:
    """Else nearly every sync would have to put on disk that reserved space is in use now."""
    disk = WritesDisk()
    journal = Journal(tmp_path, disk=disk)
    del disk.ends[:]
    for _ in range(1000):
        journal.append(1, b"x" * 1000)
        journal.sync()
    farthest = [max(disk.ends[: number + 1]) for number in range(len(disk.ends))]
    grown = sum(before < after for before, after in itertools.pairwise(farthest))
    assert grown < 20
    assert max(farthest) < 2_000_000, "not much more is written than the records have"
    journal.close()


def test_synced_records_are_read_again(tmp_path: Path) -> None:
    filled(tmp_path, 30).close()
    again = Journal(tmp_path, SMALL)
    assert contents(again) == [payload(n) for n in range(1, 31)]
    assert again.synced_index == again.last_index == 30
    assert len(segments(tmp_path)) > 3
    assert again.append(2, b"next") == 31
    assert again.term(31) == 2
    again.close()


def test_one_sync_serves_all_pending_records(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    for number in range(100):
        journal.append(1, payload(number))
    assert (journal.synced_index, journal.last_index) == (0, 100)
    journal.sync()
    journal.sync()
    assert (journal.synced_index, journal.syncs) == (100, 1)
    journal.close()


def test_records_are_readable_before_and_after_the_tail_in_memory(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    big = os.urandom(1 << 20)
    for _ in range(8):
        journal.append(1, big)
        journal.sync()
    journal.append(1, b"pending")
    assert journal.record(1).payload == big
    assert journal.record(8).payload == big
    assert journal.record(9).payload == b"pending"
    with pytest.raises(IndexError):
        journal.record(10)
    journal.close()


@pytest.mark.parametrize("lost", [1, 5, HEAD_SIZE, HEAD_SIZE + 3])
def test_torn_tail_is_cut(tmp_path: Path, lost: int) -> None:
    filled(tmp_path, 5, 1 << 16).close()
    (path,) = segments(tmp_path)
    os.truncate(path, used_bytes(path) - lost)
    again = Journal(tmp_path, 1 << 16)
    assert contents(again) == [payload(n) for n in range(1, 5)]
    again.append(3, b"instead")
    again.close()
    assert contents(Journal(tmp_path, 1 << 16))[-1] == b"instead"


def test_old_record_behind_a_lost_page_does_not_come_back(tmp_path: Path) -> None:
    journal = filled(tmp_path, 3, 1 << 16)
    for number in (4, 5):
        journal.append(1, payload(number))
    journal.close()
    (path,) = segments(tmp_path)
    data = bytearray(path.read_bytes())
    size = len(encode_record(1, 1, payload(1)))
    start = len(MAGIC) + 3 * size
    data[start : start + size] = bytes(size)
    path.write_bytes(data)
    again = Journal(tmp_path, 1 << 16)
    assert again.last_index == 3
    again.append(2, payload(4))
    again.close()
    assert Journal(tmp_path, 1 << 16).last_index == 4, "record 5 of the old term is gone"


def test_flipped_bit_in_an_older_segment_is_refused(tmp_path: Path) -> None:
    filled(tmp_path, 30).close()
    path = segments(tmp_path)[1]
    data = bytearray(path.read_bytes())
    data[len(MAGIC) + HEAD_SIZE + 2] ^= 4
    path.write_bytes(data)
    with pytest.raises(InvariantError, match=path.name):
        Journal(tmp_path, SMALL)


def test_missing_segment_is_refused(tmp_path: Path) -> None:
    filled(tmp_path, 30).close()
    segments(tmp_path)[1].unlink()
    with pytest.raises(InvariantError, match="missing"):
        Journal(tmp_path, SMALL)


def test_conflicting_entries_are_cut(tmp_path: Path) -> None:
    journal = filled(tmp_path, 30)
    journal.cut_after(7)
    assert (journal.last_index, journal.synced_index) == (7, 7)
    assert journal.append(5, b"other") == 8
    journal.close()
    again = Journal(tmp_path, SMALL)
    assert contents(again) == [*(payload(n) for n in range(1, 8)), b"other"]
    assert again.term(8) == 5
    again.close()


def test_compaction_keeps_what_is_not_in_the_snapshot(tmp_path: Path) -> None:
    journal = filled(tmp_path, 30)
    journal.compact(17)
    assert 1 < journal.first_index <= 18
    assert journal.record(18).payload == payload(18)
    journal.close()
    again = Journal(tmp_path, SMALL)
    assert contents(again)[-13:] == [payload(n) for n in range(18, 31)]
    again.compact(30)
    assert again.last_index == 30, "the newest segment stays"
    assert again.bytes_after(30) == 0
    again.close()


def test_reset_lets_a_snapshot_replace_the_log(tmp_path: Path) -> None:
    journal = filled(tmp_path, 5)
    journal.reset(100)
    assert journal.append(3, b"after") == 100
    journal.close()
    again = Journal(tmp_path, SMALL)
    assert (again.first_index, again.last_index) == (100, 100)
    again.close()


def test_vote_is_durable_and_checked(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    assert journal.vote == Vote(0, None)
    journal.store_vote(Vote(4, "server-2"))
    journal.close()
    assert Journal(tmp_path).vote == Vote(4, "server-2")
    half = (tmp_path / "vote").read_bytes()[:4096]
    (tmp_path / "vote").write_bytes((half[:2] + b"xxxx" + half[6:]) * 2)
    with pytest.raises(InvariantError, match="may have voted"):
        Journal(tmp_path)


def test_failed_sync_acknowledges_nothing(tmp_path: Path) -> None:
    disk = FillableDisk()
    journal = filled(tmp_path, 1, disk=disk)
    journal.append(1, b"lost")
    disk.is_broken = True
    with pytest.raises(OSError, match="Input/output error"):
        journal.sync()
    assert journal.synced_index == 1


@settings(max_examples=60, deadline=None)
@given(junk=st.binary(max_size=200))
def test_any_tail_is_cut_or_was_a_whole_record(
    tmp_path_factory: pytest.TempPathFactory, junk: bytes
) -> None:
    directory = tmp_path_factory.mktemp("journal")
    filled(directory, 3, 1 << 12).close()
    (path,) = segments(directory)
    os.truncate(path, used_bytes(path))
    with path.open("ab") as file:
        file.write(junk)
    again = Journal(directory, 1 << 12)
    assert contents(again) == [payload(n) for n in range(1, 4)]
    again.close()


BLOCK = 64
"""Stands for what a disk writes whole; small, so that records lie in several."""


@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_any_part_of_an_unsynced_write_may_be_lost(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Power fails during a sync: of the blocks it was writing, any may be missing."""
    directory = tmp_path_factory.mktemp("journal")
    synced, waiting = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 6))
    journal = filled(directory, synced, 1 << 14)
    (path,) = segments(directory)
    begin = used_bytes(path)
    for number in range(synced + 1, synced + waiting + 1):
        journal.append(2, payload(number))
    journal.sync()
    journal.close()
    image = bytearray(path.read_bytes())
    end = used_bytes(path)
    blocks = range(begin // BLOCK, end // BLOCK + 1)
    for block in data.draw(st.sets(st.sampled_from(blocks))):
        first = max(begin, block * BLOCK)
        image[first : (block + 1) * BLOCK] = bytes((block + 1) * BLOCK - first)
    path.write_bytes(image)
    again = Journal(directory, 1 << 14)
    found = contents(again)
    assert len(found) >= synced
    assert found == [payload(n) for n in range(1, len(found) + 1)]
    again.append(3, b"next")
    again.close()
    assert contents(Journal(directory, 1 << 14)) == [*found, b"next"]


class ProcessFiles(Disk):
    """The disk, and the files that one process has open; `die` closes them."""

    def __init__(self) -> None:
        self._open: set[int] = set()

    def open(self, path: Path) -> int:
        fd = super().open(path)
        self._open.add(fd)
        return fd

    def close(self, fd: int) -> None:
        super().close(fd)
        self._open.remove(fd)

    def die(self) -> None:
        while self._open:
            os.close(self._open.pop())


class JournalModel(RuleBasedStateMachine):
    """The journal against a list; restarting loses exactly what was not synced."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(os.environ["JOURNAL_MODEL_DIR"]) / os.urandom(6).hex()
        self.process = ProcessFiles()
        self.journal = Journal(self.directory, SMALL, self.process)
        self.journal.store_vote(Vote(9, None))
        self.entries: list[tuple[int, bytes]] = []
        self.first, self.synced = 1, 0

    def last(self) -> int:
        return self.first + len(self.entries) - 1

    @rule(term=st.integers(1, 9), data=st.binary(min_size=1, max_size=120))
    def append(self, term: int, data: bytes) -> None:
        assert self.journal.append(term, data) == self.last() + 1
        self.entries.append((term, data))

    @rule()
    def sync(self) -> None:
        self.journal.sync()
        self.synced = self.last()

    @rule()
    def crash(self) -> None:
        self.process.die()
        self.process = ProcessFiles()
        self.journal = Journal(self.directory, SMALL, self.process)
        del self.entries[self.synced - self.first + 1 :]

    @rule(back=st.integers(0, 5))
    def cut(self, back: int) -> None:
        last = max(self.first, self.last() - back)
        if self.entries:
            self.journal.cut_after(last)
            del self.entries[last - self.first + 1 :]
            self.synced = min(self.synced, self.last())

    @rule(share=st.floats(0, 1))
    def compact(self, share: float) -> None:
        self.journal.compact(int(self.synced * share))
        dropped = self.journal.first_index - self.first
        assert 0 <= dropped <= int(self.synced * share)
        del self.entries[:dropped]
        self.first = self.journal.first_index

    @invariant()
    def holds_the_same(self) -> None:
        assert self.journal.last_index == self.last()
        found = [self.journal.record(n) for n in range(self.first, self.last() + 1)]
        assert [(one.term, one.payload) for one in found] == self.entries

    def teardown(self) -> None:
        self.journal.close()


def test_journal_behaves_like_a_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOURNAL_MODEL_DIR", str(tmp_path))
    run_state_machine_as_test(
        JournalModel, settings=settings(max_examples=30, stateful_step_count=25, deadline=None)
    )
