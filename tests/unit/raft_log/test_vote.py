"""The vote on a disk that tears, fails and is full: what was given is known, or nothing starts."""

from __future__ import annotations

import errno
from pathlib import Path

import msgspec
import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from orchgit.errors import DiskFullError, InvariantError
from orchgit.raft.ports import Vote
from orchgit.raft_log.vote import VoteFile
from tests.support.memory_disk import MemoryDisk

PATH = Path("/raft/vote")
SLOT = 4096
OLD, NEW = Vote(4, "127.0.0.1:4648"), Vote(5, "a-host-with-a-longer-name.example:4648")


def opened(disk: MemoryDisk) -> VoteFile:
    file = VoteFile(disk, PATH)
    file.reserve()
    return file


def given_before(disk: MemoryDisk, vote: Vote = OLD) -> VoteFile:
    file = opened(disk)
    file.store(vote)
    return file


def put_record(disk: MemoryDisk, vote: Vote) -> None:
    """A file as it was before it had slots."""
    body = msgspec.msgpack.encode(vote)
    disk.store(PATH, crc32c(body).to_bytes(4, "little") + body)


def test_stored_vote_is_read_again() -> None:
    disk = MemoryDisk()
    assert opened(disk).value == Vote()
    file = given_before(disk)
    for vote in (NEW, Vote(6), Vote(6, "me"), Vote(1 << 40, "x" * 1024)):
        file.store(vote)
        disk.crash()
        file = opened(disk)
        assert file.value == vote


def test_vote_is_stored_on_a_full_disk() -> None:
    disk = MemoryDisk()
    file = given_before(disk)
    disk.capacity = disk.used()
    for term in range(5, 50):
        file.store(Vote(term, "other"))
        file = opened(disk)
        assert file.value == Vote(term, "other")
    assert disk.used() == 2 * SLOT


@settings(max_examples=200, deadline=None)
@given(
    seed=st.integers(0, 1 << 32),
    steps=st.lists(st.tuples(st.integers(1, 5), st.booleans()), min_size=1, max_size=12),
)
def test_stored_vote_survives_any_torn_write(seed: int, steps: list[tuple[int, bool]]) -> None:
    """The power goes, or the process, at any step of writing it: it is the old one or the new."""
    disk = MemoryDisk(seed)
    file = given_before(disk)
    term = OLD.term
    for ahead, power in steps:
        term += 1
        before, wanted = file.value, Vote(term, f"member-{term}" * (term % 9))
        disk.fail_at[disk.calls + ahead] = errno.EIO
        possible = {before, wanted}
        try:
            file.store(wanted)
            possible = {wanted}
        except OSError:
            assert disk.failed.pop() in ("write", "sync")
        if power:
            disk.crash()
        else:
            disk.restart()
        file = opened(disk)
        assert file.value in possible


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 1 << 32), refused=st.lists(st.integers(1, 4), max_size=6))
def test_refused_votes_damage_no_slot(seed: int, refused: list[int]) -> None:
    """Where nothing is written in place a full disk may leave a slot torn, again and again: the
    next attempt never touches the other one first."""
    disk = MemoryDisk(seed)
    file = given_before(disk)
    for number, ahead in enumerate(refused):
        disk.fail_at[disk.calls + ahead] = errno.ENOSPC
        with pytest.raises(DiskFullError):
            file.store(Vote(5 + number, "refused"))
        assert file.value == OLD
    disk.restart()
    again = VoteFile(disk, PATH).value
    assert again == OLD or again.voted_for == "refused"
    file.store(NEW)
    disk.crash()
    assert opened(disk).value == NEW


@pytest.mark.parametrize("slot", [0, 1])
@pytest.mark.parametrize("position", [0, 2, 20])
def test_damaged_slot_is_repaired_from_the_other(slot: int, position: int) -> None:
    disk = MemoryDisk()
    given_before(disk).store(NEW)
    disk.flip(PATH, slot * SLOT + position)
    assert opened(disk).value == NEW
    disk.flip(PATH, (1 - slot) * SLOT + position)
    disk.crash()
    assert VoteFile(disk, PATH).value == NEW


@pytest.mark.parametrize("slot", [0, 1])
@pytest.mark.parametrize("seed", range(20))
def test_repair_of_a_slot_leaves_the_other_untouched(slot: int, seed: int) -> None:
    disk = MemoryDisk(seed)
    given_before(disk).store(NEW)
    disk.flip(PATH, slot * SLOT + 10)
    disk.fail_at[disk.calls + 1] = errno.EIO
    with pytest.raises(InvariantError, match=r"cannot write /raft/vote"):
        opened(disk)
    disk.crash()
    assert opened(disk).value == NEW


def test_two_damaged_slots_refuse_the_start_and_name_the_file() -> None:
    disk = MemoryDisk()
    given_before(disk)
    disk.flip(PATH, 10)
    disk.flip(PATH, SLOT + 10)
    with pytest.raises(InvariantError, match=r"cannot trust /raft/vote: .*may have voted"):
        VoteFile(disk, PATH)


def test_file_of_one_record_is_read_and_gets_slots() -> None:
    disk = MemoryDisk()
    put_record(disk, OLD)
    assert opened(disk).value == OLD
    disk.crash()
    disk.flip(PATH, 10)
    disk.capacity = disk.used()
    file = opened(disk)
    file.store(NEW)
    assert opened(disk).value == NEW


def test_damaged_file_of_one_record_refuses_the_start_and_names_the_file() -> None:
    disk = MemoryDisk()
    put_record(disk, OLD)
    disk.flip(PATH, 6)
    with pytest.raises(InvariantError, match=r"cannot trust /raft/vote"):
        VoteFile(disk, PATH)


def test_file_of_one_record_stays_while_the_disk_is_full() -> None:
    disk = MemoryDisk()
    put_record(disk, OLD)
    disk.capacity = disk.used() + 100
    file = opened(disk)
    assert file.value == OLD
    with pytest.raises(DiskFullError):
        file.store(NEW)
    assert opened(disk).value == OLD
    disk.capacity = 1 << 20
    file.store(NEW)
    assert opened(disk).value == NEW


def test_unwritable_disk_refuses_the_start_and_names_the_file() -> None:
    disk = MemoryDisk()
    given_before(disk)
    disk.fail_at[disk.calls + 1] = errno.EIO
    with pytest.raises(InvariantError, match=r"cannot write /raft/vote: Input/output error"):
        opened(disk)
