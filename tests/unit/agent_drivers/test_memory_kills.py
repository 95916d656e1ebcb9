"""Whether the kernel ended a container for its memory, told by events of its control group."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.drivers.docker.memory_kills import MemoryKillWatch, count_kills


@pytest.fixture
def event_fd() -> Iterator[int]:
    fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
    yield fd
    os.close(fd)


@pytest.fixture
def group_fd(tmp_path: Path) -> Iterator[int]:
    """The file of a group that is there."""
    (tmp_path / "memory.oom_control").write_text("oom_kill 0\n")
    fd = os.open(tmp_path / "memory.oom_control", os.O_RDONLY)
    yield fd
    os.close(fd)


@pytest.fixture
def removed_group_fd() -> Iterator[int]:
    """A pipe cannot be read at a place, as the file of a removed group cannot be read."""
    reading, writing = os.pipe()
    yield reading
    os.close(reading)
    os.close(writing)


def test_quiet_group_tells_of_no_kill(event_fd: int, group_fd: int) -> None:
    assert count_kills(event_fd, group_fd) == 0


def test_each_event_of_a_group_that_is_there_is_a_kill(event_fd: int, group_fd: int) -> None:
    os.eventfd_write(event_fd, 1)
    assert count_kills(event_fd, group_fd) == 1
    assert count_kills(event_fd, group_fd) == 0


def test_removal_of_a_group_is_no_kill(event_fd: int, removed_group_fd: int) -> None:
    os.eventfd_write(event_fd, 1)
    assert count_kills(event_fd, removed_group_fd) == 0


def test_kill_is_seen_after_the_group_was_removed(event_fd: int, removed_group_fd: int) -> None:
    os.eventfd_write(event_fd, 1)
    os.eventfd_write(event_fd, 1)
    assert count_kills(event_fd, removed_group_fd) == 1


def test_watch_of_a_container_without_a_memory_group_sees_nothing_and_is_closed_twice() -> None:
    async def work() -> bool:
        watch = MemoryKillWatch(0, "no-such-container")
        watch.close()
        watch.close()
        return watch.has_seen_one

    assert not asyncio.run(work())
