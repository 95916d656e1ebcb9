"""The log file: put away when it is large or old, opened again when it was moved away."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchgit.log_file import LogFile, LogRotation


class Time:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def archives(path: Path) -> list[str]:
    return [one.read_text() for one in sorted(path.parent.glob("agent-*.log"))]


def test_large_file_is_put_away_and_the_newest_are_kept(tmp_path: Path) -> None:
    path, time = tmp_path / "agent.log", Time()
    (tmp_path / "agent-notes.log").write_text("mine")
    file = LogFile(str(path), LogRotation(max_bytes=4, max_files=2), time)
    for number in range(5):
        time.now_s += 0.001
        file.write(f"{number}...\n")
    file.close()
    assert path.read_text() == "4...\n"
    assert archives(path) == ["2...\n", "3...\n", "mine"]


def test_old_file_is_put_away_unless_it_is_empty(tmp_path: Path) -> None:
    path, time = tmp_path / "agent.log", Time()
    file = LogFile(str(path), LogRotation(max_age_s=60), time)
    time.now_s += 61
    file.write("a\n")
    assert archives(path) == []
    time.now_s += 61
    file.write("b\n")
    assert (archives(path), path.read_text()) == (["a\n"], "b\n")
    file.close()


def test_file_that_another_process_moved_away_is_opened_again(tmp_path: Path) -> None:
    path, time = tmp_path / "agent.log", Time()
    file = LogFile(str(path), LogRotation(), time)
    file.write("a\n")
    path.rename(tmp_path / "moved")
    file.write("b\n")
    time.now_s += 2
    file.write("c\n")
    file.close()
    assert (tmp_path / "moved").read_text() == "a\nb\n"
    assert path.read_text() == "c\n"


def test_file_that_cannot_be_opened_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        LogFile(str(tmp_path), LogRotation())
