"""Rotating log files: names, sizes, whole lines, and hostile directories."""

from __future__ import annotations

import os
from errno import ENOSPC
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.supervisor.log_files import RotatingFiles


def files_of(directory: Path) -> dict[int, bytes]:
    paths = sorted(directory.glob("web.stdout.*"), key=lambda path: int(path.suffix[1:]))
    return {int(path.suffix[1:]): path.read_bytes() for path in paths}


@settings(max_examples=50, deadline=None)
@given(
    lines=st.lists(
        st.binary(min_size=0, max_size=30).map(lambda b: b.replace(b"\n", b"_") + b"\n")
    ),
    cuts=st.lists(st.integers(1, 50), min_size=1),
    max_files=st.integers(1, 4),
)
def test_rotation_keeps_the_end_of_the_output_in_whole_lines(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], cuts: list[int], max_files: int
) -> None:
    """Whatever pieces the output comes in."""
    directory = tmp_path_factory.mktemp("logs")
    log = RotatingFiles(str(directory), "web.stdout", max_files, 100)
    log.open()
    output, at = b"".join(lines), 0
    for cut in cuts * (len(output) // len(cuts) + 1):
        log.write(output[at : at + cut])
        at += cut
    log.close()
    kept = files_of(directory)
    assert len(kept) <= max_files
    assert list(kept) == list(range(min(kept), max(kept) + 1))
    assert all(len(data) <= 100 for data in kept.values())
    assert output.endswith(b"".join(kept.values()))
    if 0 in kept:
        assert b"".join(kept.values()) == output


def test_lines_are_not_cut_where_they_fit(tmp_path: Path) -> None:
    log = RotatingFiles(str(tmp_path), "web.stdout", 10, 10)
    log.open()
    log.write(b"abcd\nefgh\nijklmn\nop\n")
    assert files_of(tmp_path) == {0: b"abcd\nefgh\n", 1: b"ijklmn\nop\n"}
    log.write(b"q\n")
    log.write(b"0123456789abc\n")
    assert files_of(tmp_path)[2] == b"q\n"
    assert files_of(tmp_path)[3] + files_of(tmp_path)[4] == b"0123456789abc\n"


def test_new_writer_goes_on_in_the_newest_file(tmp_path: Path) -> None:
    for number in range(4):
        log = RotatingFiles(str(tmp_path), "web.stdout", 2, 10)
        log.open()
        log.write(b"line %d\n" % number)
        log.close()
    assert files_of(tmp_path) == {2: b"line 2\n", 3: b"line 3\n"}


def test_other_files_are_left_alone(tmp_path: Path) -> None:
    names = ["web.stdout.x", "web.stdout.1.gz", "web.stderr.0", "other.stdout.0"]
    for name in names:
        (tmp_path / name).write_text("keep")
    log = RotatingFiles(str(tmp_path), "web.stdout", 1, 4)
    log.open()
    for _ in range(5):
        log.write(b"abc\n")
    assert [(tmp_path / name).read_text() for name in names] == ["keep"] * 4


@pytest.mark.parametrize("plant", ["symlink", "fifo"])
def test_task_cannot_make_the_writer_follow_it_elsewhere(tmp_path: Path, plant: str) -> None:
    """The log directory is writable by tasks; the writer may be root."""
    target = tmp_path / "precious"
    target.write_text("precious")
    logs = tmp_path / "logs"
    logs.mkdir()
    log = RotatingFiles(str(logs), "web.stdout", 5, 4)
    log.open()
    log.write(b"one\n")
    planted = logs / "web.stdout.1"
    planted.symlink_to(target) if plant == "symlink" else os.mkfifo(planted)
    log.write(b"two\n")
    assert target.read_text() == "precious"
    assert log.dropped_bytes == 4
    planted.unlink()
    log.write(b"six\n")
    assert planted.read_text() == "six\n"


def test_log_directory_that_became_a_link_is_not_written_to(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    logs = tmp_path / "logs"
    logs.mkdir()
    log = RotatingFiles(str(logs), "web.stdout", 5, 4)
    log.open()
    log.write(b"one\n")
    logs.rename(tmp_path / "moved")
    logs.symlink_to(elsewhere)
    log.write(b"two\n")
    log.close()
    with pytest.raises(OSError, match="directory"):
        RotatingFiles(str(logs), "web.stdout", 5, 4).open()
    assert not list(elsewhere.iterdir())
    assert log.dropped_bytes == 4


def test_full_disk_drops_output_and_counts_it(tmp_path: Path) -> None:
    def full_disk(fd: int, data: bytes) -> int:
        raise OSError(ENOSPC, "No space left on device")

    log = RotatingFiles(str(tmp_path), "web.stdout", 1, 1000, full_disk)
    log.write(b"lost\n")
    assert log.dropped_bytes == 5
    log.close()
