"""The output of a container reaches the task's files whole, also from an engine under load."""

from __future__ import annotations

import queue
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import cast

import pytest

from agent.drivers.base import ExitResult
from agent.drivers.docker.engine import Container, Engine, LogFrame
from agent.drivers.docker.follower import LogFollower
from agent.supervisor.log_files import RotatingFiles

FRAMES = [LogFrame("stdout", f"2026-01-01T00:00:0{n}Z", b"%d\n" % n) for n in range(4)]


class EngineThatEndsEarly:
    """Ends an answer that follows a container before the container's last frames."""

    def __init__(self, frames: Sequence[LogFrame], followed: int) -> None:
        self._frames = frames
        self._followed = followed

    def exists(self, container: str) -> bool:
        return True

    def inspect(self, container: str) -> Container:
        return Container(
            id=container,
            status="exited",
            pid=0,
            exit_code=3,
            oom_killed=False,
            error="",
            finished_ns=0,
            tty=False,
            labels={},
        )

    def wait(self, container: str) -> None:
        """The container has ended."""

    def logs(
        self, container: str, since: str, known: int, tty: bool, follow: bool
    ) -> Iterator[LogFrame]:
        there = self._frames[: self._followed] if follow else self._frames
        return (frame for frame in there if frame.timestamp > since)


def copied(directory: Path, engine: EngineThatEndsEarly) -> tuple[str, ExitResult]:
    """Returns the task's output and its end."""
    results: queue.SimpleQueue[ExitResult] = queue.SimpleQueue()
    LogFollower(
        cast(Engine, engine),
        "c",
        lambda: {"stdout": RotatingFiles(str(directory), "t.stdout", 1, 1 << 20)},
        directory / "position",
        results.put,
    ).start()
    result = results.get(timeout=60)
    return (directory / "t.stdout.0").read_text(), result


@pytest.mark.parametrize("followed", range(len(FRAMES) + 1))
def test_output_that_the_followed_answer_lacks_is_read_after_the_end(
    tmp_path: Path, followed: int
) -> None:
    output, result = copied(tmp_path, EngineThatEndsEarly(FRAMES, followed))
    assert output == "0\n1\n2\n3\n"
    assert result.exit_code == 3


def test_frames_whose_timestamps_are_out_of_order_are_copied_once(tmp_path: Path) -> None:
    swapped = [FRAMES[0], FRAMES[2], FRAMES[1]]
    output, _ = copied(tmp_path, EngineThatEndsEarly(swapped, followed=3))
    assert output == "0\n2\n1\n"
