"""The journal on a disk that fails: what was synced is there, or the start is refused by name."""

from __future__ import annotations

import errno
import itertools
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from orchgit.errors import DiskFullError, InvariantError
from orchgit.raft.configuration import ConfigurationEntry
from orchgit.raft.ports import SnapshotRef, Vote
from orchgit.raft_log.journal import Journal
from orchgit.raft_log.segment import Segment
from orchgit.raft_log.snapshot_files import FileSnapshots, SnapshotFile
from tests.support.memory_disk import MemoryDisk

DIRECTORY = Path("/raft")
SMALL = 512
Entries = list[tuple[int, bytes]]


def opened(disk: MemoryDisk, segment_bytes: int = SMALL) -> Journal:
    return Journal(DIRECTORY, segment_bytes, disk, lambda: snapshot_of(disk).index)


class IndexOnly:
    """Snapshots that hold nothing but their index."""

    def __init__(self, disk: MemoryDisk) -> None:
        self._disk = disk

    def index(self, path: Path) -> int:
        return int.from_bytes(self._disk.load(path) or b"", "big")

    def members(self, path: Path) -> ConfigurationEntry | None:
        return None


def snapshot_of(disk: MemoryDisk) -> SnapshotFile:
    return SnapshotFile(DIRECTORY / "snapshot", IndexOnly(disk), disk)


def install(journal: Journal, disk: MemoryDisk, ref: SnapshotRef) -> None:
    """Receives and installs a snapshot, but leaves the log as it is."""
    snapshots = FileSnapshots(snapshot_of(disk), journal)
    data = ref.index.to_bytes(ref.size, "big")
    assert snapshots.receive(ref, 0, data) == ref.size
    snapshots.install(ref)


def take_snapshot(disk: MemoryDisk, index: int) -> None:
    """Replaces the snapshot by one of this member's own state."""
    fresh = DIRECTORY / "snapshot.new"
    with disk.needing_room(DIRECTORY):
        fd = disk.open(fresh)
        disk.truncate(fd, 0)
        disk.write(fd, index.to_bytes(8, "big"), 0)
        disk.close(fd)
    snapshot_of(disk).replace_by(fresh)


def entries_of(journal: Journal) -> Entries:
    found = (journal.record(n) for n in range(journal.first_index, journal.last_index + 1))
    return [(one.term, one.payload) for one in found]


def filled(disk: MemoryDisk, batches: list[int], segment_bytes: int = SMALL) -> Journal:
    """Batches of so many records, each synced."""
    journal = opened(disk, segment_bytes)
    journal.store_vote(Vote(1, "me"))
    for count in batches:
        for _ in range(count):
            journal.append(1, b"record %d " % journal.last_index * 3)
        journal.sync()
    return journal


def offset_of(disk: MemoryDisk, path: Path, record: int) -> int:
    """Returns where the record begins in the first file of the log."""
    segment = Segment(disk, path, 1)
    segment.scan()
    segment.close()
    return segment.offsets[record]


class FailingDisk(RuleBasedStateMachine):
    """Any call may fail, space may run out, and the power may go, at any time.

    `entries` are all that was appended, of which `synced` must survive everything; `dead` after an
    error of the disk: then nothing more is written until a new start. `stopped`: the log might
    still be written, but the thread that owns it has ended.
    """

    def __init__(self) -> None:
        super().__init__()
        self.disk = MemoryDisk(capacity=3 * 8192)
        self.journal = opened(self.disk)
        self.journal.store_vote(Vote(1, "me"))
        self.entries: Entries = []
        self.first, self.synced = 1, 0
        self.snapshot = 0
        self.vote = Vote(1, "me")
        self.dead = self.stopped = False
        self.other: Callable[[Entries], bool] | None = None
        """What else may be found after a failure."""

    @initialize(seed=st.integers(0, 1 << 32))
    def luck(self, seed: int) -> None:
        """What is left of unsynced data after a loss of power."""
        self.disk.rng.seed(seed)

    def last(self) -> int:
        return self.first + len(self.entries) - 1

    def attempt(self, action: Callable[[], None], stops: bool = False) -> bool:
        """True when it was done; a full disk changes nothing, any other error ends writing, or
        (`stops`) the thread that writes."""
        try:
            action()
        except (DiskFullError, OSError, InvariantError) as error:
            problem = error
        else:
            problem = None
        if problem is None:
            assert not self.dead, "written after a failure"
            return True
        if isinstance(problem, DiskFullError):
            assert "/raft is full" in str(problem)
            return False
        if isinstance(problem, InvariantError):
            assert self.dead or "cannot begin the log" in str(problem)
        else:
            assert self.disk.failed
        self.dead, self.stopped = True, stops
        return False

    # -- writing ---------------------------------------------------------------------------------

    @precondition(lambda self: not self.dead)
    @rule(data=st.binary(min_size=1, max_size=200))
    def append(self, data: bytes) -> None:
        assert self.journal.append(1, data) == self.last() + 1
        self.entries.append((1, data))

    @precondition(lambda self: not self.stopped)
    @rule()
    def sync(self) -> None:
        if self.synced == len(self.entries):
            return
        if self.attempt(self.journal.sync):
            self.synced = len(self.entries)
        elif not self.dead:
            self.journal.take_back()
            del self.entries[self.synced :]

    @precondition(lambda self: not self.stopped)
    @rule(term=st.integers(2, 9))
    def vote_for_another(self, term: int) -> None:
        wanted = Vote(self.vote.term + term, "other")
        self.disk.failed.clear()
        if self.attempt(lambda: self.journal.store_vote(wanted)):
            self.vote = wanted
        elif not self.dead:
            assert self.disk.failed == ["write"] or "sync" in self.disk.failed
            assert self.journal.vote == self.vote

    @precondition(lambda self: not self.dead)
    @rule(back=st.integers(0, 4))
    def cut(self, back: int) -> None:
        """Never what a snapshot has: it is committed."""
        keep = max(1, self.snapshot - self.first + 1, len(self.entries) - back)
        if keep > len(self.entries):
            return
        last = self.first + keep - 1
        kept = min(self.synced, keep)
        if self.attempt(lambda: self.journal.cut_after(last)):
            del self.entries[keep:]
        self.synced = kept

    @precondition(lambda self: not self.dead)
    @rule(share=st.floats(0, 1))
    def compact(self, share: float) -> None:
        """Behind a snapshot of this member's own: the record of its index stays."""
        upto = max(self.snapshot, self.first - 1 + int(self.synced * share))
        if upto == 0 or not self.attempt(lambda: take_snapshot(self.disk, upto), stops=True):
            return
        self.snapshot = upto
        self.attempt(lambda: self.journal.compact(upto - 1))
        if not self.dead:
            self._dropped(self.journal.first_index)
        else:
            self.other = lambda found: found == self.entries[-len(found) :] if found else False

    @precondition(lambda self: not self.dead and self.synced == len(self.entries))
    @rule(ahead=st.integers(1, 50))
    def install(self, ahead: int) -> None:
        """A received snapshot takes the place of the older one and of the log: of both or, after
        any failure, of neither."""
        index = self.last() + ahead
        after: Entries = [(1, b"\x01")]

        def action() -> None:
            install(self.journal, self.disk, SnapshotRef(index, 1, 8))
            self.journal.reset(index)
            assert self.journal.append(1, b"\x01") == index
            self.journal.sync()

        if self.attempt(action, stops=True):
            self.first, self.entries, self.synced = index, after, 1
            self.snapshot = index
        elif self.dead:
            self.other = lambda found: (
                found == after and self.journal.first_index == index == snapshot_of(self.disk).index
            )

    def _dropped(self, first: int) -> None:
        assert first >= self.first
        del self.entries[: first - self.first]
        self.synced -= first - self.first
        self.first = first

    # -- faults ----------------------------------------------------------------------------------

    @rule(
        ahead=st.integers(1, 6) | st.integers(1, 40),
        number=st.sampled_from([errno.EIO, errno.ENOSPC]),
    )
    def fail_soon(self, ahead: int, number: int) -> None:
        self.disk.fail_at[self.disk.calls + ahead] = number

    @rule(size=st.sampled_from([0, 1500, 4096, 1 << 41]))
    def room(self, size: int) -> None:
        """Somebody else fills the disk, or clears it."""
        self.disk.capacity = self.disk.used() + size

    @rule(power=st.booleans())
    def start_again(self, power: bool) -> None:
        """After the death of the process, or of the machine."""
        self.disk.capacity = 1 << 41
        if power:
            self.disk.crash()
        else:
            self.disk.restart()
        self.journal = opened(self.disk)
        found = entries_of(self.journal)
        snapshot = snapshot_of(self.disk)
        if snapshot.index:
            snapshot.check()
        assert snapshot.index >= self.snapshot, "an acknowledged snapshot is lost"
        assert self.journal.first_index - 1 <= snapshot.index <= self.journal.last_index, "a hole"
        if not (self.other is not None and self.other(found)):
            assert self.journal.first_index == self.first
            assert found[: self.synced] == self.entries[: self.synced], "what was synced is lost"
            assert found == self.entries[: len(found)], "a record that was never appended there"
        assert self.journal.vote.term >= self.vote.term
        self.vote = self.journal.vote
        self.first, self.entries, self.synced = self.journal.first_index, found, len(found)
        self.snapshot = snapshot.index
        self.dead = self.stopped = False
        self.other = None
        self.disk.failed.clear()

    @invariant()
    def holds_what_it_says(self) -> None:
        if not self.dead:
            assert self.journal.synced_index == self.first + self.synced - 1
            assert entries_of(self.journal) == self.entries
            assert snapshot_of(self.disk).index == self.snapshot


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
@pytest.mark.parametrize("power", [False, True])
@pytest.mark.parametrize("entries", [0, 30])
def test_installation_that_fails_at_any_step_leaves_both_old_or_both_new(
    number: int, power: bool, entries: int
) -> None:
    """Of log and snapshot; `entries` are in several segments, which the installation deletes."""
    ended: list[tuple[str, bool, int]] = []
    for step in itertools.count(1):
        model = FailingDisk()
        for _ in range(entries):
            model.append(b"entry " * 20)
            model.sync()
        model.fail_soon(step, number)
        model.install(2)
        model.holds_what_it_says()
        if not model.disk.failed:
            break
        (what,), dead = model.disk.failed, model.dead
        model.start_again(power)
        ended.append((what, dead, model.snapshot))
    indexes = {snapshot for _, _, snapshot in ended}
    assert indexes == {0, entries + 2}
    assert ("create", number == errno.EIO, 0) in ended, "the file of the incoming snapshot"
    assert ("create", True, entries + 2) in ended, "the log's first segment"


def test_synced_records_survive_any_crash() -> None:
    run_state_machine_as_test(
        FailingDisk, settings=settings(max_examples=100, stateful_step_count=30, deadline=None)
    )


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 1 << 32), batches=st.lists(st.integers(1, 5), min_size=1, max_size=9))
def test_flipped_bit_is_always_detected(seed: int, batches: list[int]) -> None:
    """Refused by the file's name. Only of the last write nobody can say whether it had been on
    disk: it is cut, and the server compares the log with its state."""
    disk, rng = MemoryDisk(seed), random.Random(seed)
    journal = filled(disk, batches)
    before = entries_of(journal)
    journal.close()
    path = rng.choice(sorted(disk.names))
    disk.flip(path, rng.randrange(len(disk.names[path].content)), rng.randrange(8))
    named = None
    try:
        again = opened(disk)
    except InvariantError as error:
        named = str(path) in str(error)
    if named is not None:
        assert named
        return
    found = entries_of(again)
    assert found == before[: len(found)]
    assert len(found) >= len(before) - batches[-1]
    assert again.vote == Vote(1, "me")


@pytest.mark.parametrize("record", range(6))
def test_damage_before_a_later_write_is_refused(record: int) -> None:
    """Also in the newest file, where a torn write would be cut."""
    disk = MemoryDisk()
    journal = filled(disk, [2, 2, 2, 3], 1 << 14)
    (path,) = disk.list(DIRECTORY, ".segment")
    journal.close()
    disk.flip(path, offset_of(disk, path, record) + 30)
    with pytest.raises(InvariantError, match=r"0001\.segment is damaged"):
        opened(disk, 1 << 14)


@pytest.mark.parametrize("record", range(6, 9))
def test_damage_in_the_last_write_counts_as_torn(record: int) -> None:
    disk = MemoryDisk()
    journal = filled(disk, [2, 2, 2, 3], 1 << 14)
    (path,) = disk.list(DIRECTORY, ".segment")
    journal.close()
    disk.flip(path, offset_of(disk, path, record) + 30)
    assert opened(disk, 1 << 14).last_index == record


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 1 << 32))
def test_bit_that_flips_while_running_is_detected(seed: int) -> None:
    disk, rng = MemoryDisk(seed), random.Random(seed)
    filled(disk, [3] * 6).close()
    journal = opened(disk)
    before = entries_of(journal)
    path = rng.choice(disk.list(DIRECTORY, ".segment"))
    disk.flip(path, rng.randrange(len(disk.names[path].content)), rng.randrange(8))
    for index in range(1, journal.last_index + 1):
        try:
            record = journal.record(index)
        except InvariantError as error:
            named = str(path) in str(error)
        else:
            named = (record.term, record.payload) == before[index - 1]
        assert named


@pytest.mark.parametrize("name", ["vote", "base", "00000000000000000001.segment"])
def test_unreadable_file_is_named(name: str) -> None:
    disk = MemoryDisk()
    journal = filled(disk, [1])
    journal.store_base(1, 1)
    journal.close()
    disk.bad.add(DIRECTORY / name)
    with pytest.raises(InvariantError, match=rf"{name}.*Input/output error"):
        opened(disk)


@pytest.mark.parametrize("content", [None, b"", b"xx", b"\0" * 40, b"\0" * 8192])
def test_missing_vote_refuses_the_start(content: bytes | None) -> None:
    disk = MemoryDisk()
    filled(disk, [1]).close()
    if content is None:
        del disk.names[DIRECTORY / "vote"]
    else:
        disk.names[DIRECTORY / "vote"].content[:] = content
    with pytest.raises(InvariantError, match=r"/raft/vote.*may have voted"):
        opened(disk)


def test_failed_sync_ends_all_writing() -> None:
    """The system may take the pages for clean afterwards: the second sync would seem to succeed."""
    disk = MemoryDisk()
    journal = filled(disk, [1])
    journal.append(1, b"lost")
    disk.fail_at[disk.calls + 2] = errno.EIO
    with pytest.raises(OSError, match="Input/output"):
        journal.sync()
    assert disk.failed == ["sync"]
    for again in (journal.sync, lambda: journal.store_vote(Vote(7)), lambda: journal.compact(1)):
        with pytest.raises(InvariantError, match=r"writing failed before.*Input/output"):
            again()
    assert journal.synced_index == 1


def test_last_write_is_written_again_at_start_after_a_failed_sync() -> None:
    """The process starts again, finds its last write in the system's cache, and counts it."""
    disk = MemoryDisk()
    journal = filled(disk, [2, 1])
    journal.append(1, b"in the cache only")
    disk.fail_at[disk.calls + 2] = errno.EIO
    with pytest.raises(OSError, match="Input/output"):
        journal.sync()
    disk.restart()
    again = opened(disk)
    before = entries_of(again)
    assert again.synced_index == 4
    disk.crash()
    assert entries_of(opened(disk)) == before


def test_full_disk_gives_up_pending_records_and_goes_on_when_there_is_room() -> None:
    disk = MemoryDisk(capacity=8192 + 3000)
    journal = opened(disk, 1 << 12)
    journal.store_vote(Vote(1, "me"))
    problem = ""
    while not problem:
        journal.append(1, b"x" * 100)
        try:
            journal.sync()
        except DiskFullError as error:
            problem = str(error)
    assert "disk of /raft is full (0 MB free); make room" in problem
    written = journal.synced_index
    assert written > 5
    assert not journal.has_room()
    (refused,) = journal.take_back()
    assert refused.index == written + 1
    journal.sync()
    disk.capacity = 1 << 20
    assert journal.has_room()
    assert journal.append(1, b"after") == written + 1
    journal.sync()
    disk.crash()
    again = opened(disk, 1 << 12)
    assert [one[1] for one in entries_of(again)] == [b"x" * 100] * written + [b"after"]


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("goes_on", [False, True])
def test_write_that_a_full_disk_cut_off_does_not_come_back(seed: int, goes_on: bool) -> None:
    """On a file system that cannot keep space: some whole records of the refused write are there,
    and a shorter one is written over the first of them."""
    disk = MemoryDisk(seed)
    journal = filled(disk, [1], 1 << 14)
    for _ in range(4):
        journal.append(1, b"refused" * 20)
    disk.fail_at[disk.calls + 1] = errno.ENOSPC
    with pytest.raises(DiskFullError):
        journal.sync()
    assert disk.failed == ["write"]
    journal.take_back()
    if goes_on:
        journal.append(1, b"written" * 20)
        journal.sync()
    disk.crash()
    assert opened(disk, 1 << 14).last_index == 1 + goes_on


@pytest.mark.parametrize("seed", range(12))
def test_entries_that_were_cut_do_not_come_back(seed: int) -> None:
    disk = MemoryDisk(seed)
    journal = filled(disk, [2, 2, 2], 1 << 14)
    journal.cut_after(3)
    disk.crash()
    assert opened(disk, 1 << 14).last_index == 3


def test_log_restarts_at_a_snapshot_received_before_a_crash() -> None:
    disk = MemoryDisk()
    journal = filled(disk, [3, 3])
    journal.store_vote(Vote(4, None))
    install(journal, disk, SnapshotRef(50, 4, 8))
    disk.crash()
    again = opened(disk)
    assert (again.first_index, again.last_index, again.term(50)) == (50, 50, 4)


def test_log_that_conflicts_with_the_snapshot_is_dropped() -> None:
    """It reaches behind the snapshot's entry, which was another one here."""
    disk = MemoryDisk()
    journal = filled(disk, [3, 3])
    journal.store_vote(Vote(4, None))
    install(journal, disk, SnapshotRef(5, 4, 8))
    disk.crash()
    again = opened(disk)
    assert (again.first_index, again.last_index, again.term(5)) == (5, 5, 4)


def test_vote_needs_no_room() -> None:
    disk = MemoryDisk()
    journal = filled(disk, [1])
    disk.capacity = disk.used()
    journal.store_vote(Vote(5, "other"))
    disk.crash()
    assert opened(disk).vote == Vote(5, "other")


def test_vote_that_a_full_disk_refuses_stays_the_old_one() -> None:
    """Where nothing is written in place."""
    disk = MemoryDisk()
    journal = filled(disk, [1])
    disk.fail_at[disk.calls + 1] = errno.ENOSPC
    with pytest.raises(DiskFullError):
        journal.store_vote(Vote(5, "other"))
    assert journal.vote == Vote(1, "me")
    disk.crash()
    disk.capacity = 1 << 20
    again = opened(disk)
    assert again.vote == Vote(1, "me")
    again.store_vote(Vote(5, "other"))


def test_order_of_writes_and_syncs() -> None:
    """A file's name before its records count; records written, then synced, in one go."""
    disk = MemoryDisk()
    journal = opened(disk)
    journal.store_vote(Vote(1, "me"))
    disk.trace.clear()
    journal.append(1, b"a")
    journal.append(1, b"b")
    journal.sync()
    done = [what for what, _ in disk.trace]
    assert done == ["create", "sync_dir", "allocate", "write", "write", "sync"]
    disk.trace.clear()
    journal.store_vote(Vote(2, "me"))
    assert [what for what, _ in disk.trace] == ["write", "sync", "write", "sync"]
