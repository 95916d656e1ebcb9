"""Programs among a task's own files: where they are found, and which of them may be executed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agent.drivers.base import TaskDir
from agent.drivers.programs import find_in_root, find_on_host


@pytest.fixture
def directory(tmp_path: Path) -> TaskDir:
    base = tmp_path / "allocation"
    made = TaskDir(
        alloc_dir=str(base / "alloc"),
        task_dir=str(base / "web"),
        local_dir=str(base / "web/local"),
        secrets_dir=str(base / "web/secrets"),
        log_dir=str(base / "alloc/logs"),
    )
    for path in (made.local_dir, made.secrets_dir, made.log_dir):
        os.makedirs(path)
    return made


def put(directory: TaskDir, path: str, mode: int = 0o644) -> Path:
    file = Path(directory.task_dir, path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("#!/bin/sh\n")
    file.chmod(mode)
    return file


def mode_of(file: Path) -> str:
    return oct(file.stat().st_mode & 0o7777)


@pytest.mark.parametrize(
    ("command", "path", "in_root"),
    [
        ("tool", "local/tool", "/local/tool"),
        ("local/tool", "local/tool", "/local/tool"),
        ("./local/bin/tool", "local/bin/tool", "/local/bin/tool"),
        ("tool", "tool", "/tool"),
        ("../alloc/data/tool", "../alloc/data/tool", ""),
    ],
)
def test_downloaded_program_is_found_and_made_executable(
    directory: TaskDir, command: str, path: str, in_root: str
) -> None:
    file = put(directory, path)
    found = find_on_host(command, directory)
    assert found is not None
    assert os.path.samefile(found, file)
    assert mode_of(file) == "0o755"
    if in_root:
        file.chmod(0o644)
        assert find_in_root(command, "", directory) == in_root
        assert mode_of(file) == "0o755"


def test_absolute_paths_lead_into_the_allocations_directories(directory: TaskDir) -> None:
    own, shared = put(directory, "local/a"), put(directory, "../alloc/data/b")
    for file in (own, shared):
        assert find_on_host(str(file), directory) == str(file)
        assert mode_of(file) == "0o755"
        file.chmod(0o644)
    assert find_in_root("/local/a", "", directory) == "/local/a"
    assert find_in_root("/alloc/data/b", "", directory) == "/alloc/data/b"
    assert [mode_of(own), mode_of(shared)] == ["0o755", "0o755"]


def test_program_below_the_work_dir_is_found_in_the_root(directory: TaskDir) -> None:
    file = put(directory, "local/app/run")
    assert find_in_root("./run", "/local/app", directory) == "/local/app/run"
    assert mode_of(file) == "0o755"


@pytest.mark.parametrize(
    ("before", "after"), [(0o600, "0o700"), (0o640, "0o750"), (0o700, "0o700"), (0o755, "0o755")]
)
def test_only_those_who_may_read_a_program_may_execute_it(
    directory: TaskDir, before: int, after: str
) -> None:
    file = put(directory, "local/tool", before)
    find_on_host("tool", directory)
    assert mode_of(file) == after


@pytest.mark.parametrize("link", ["symbolic", "symbolic directory", "hard"])
def test_file_of_the_node_is_never_made_executable(
    directory: TaskDir, tmp_path: Path, link: str
) -> None:
    outside = tmp_path / "node"
    outside.mkdir()
    (outside / "tool").write_text("#!/bin/sh\n")
    (outside / "tool").chmod(0o644)
    name = "tool"
    if link == "symbolic":
        Path(directory.local_dir, name).symlink_to(outside / "tool")
    elif link == "hard":
        Path(directory.local_dir, name).hardlink_to(outside / "tool")
    else:
        name = "dir/tool"
        Path(directory.local_dir, "dir").symlink_to(outside)
    assert find_on_host(name, directory) is None
    assert find_on_host(str(outside / "tool"), directory) is None
    find_in_root(name, "", directory)
    assert mode_of(outside / "tool") == "0o644"


def test_link_to_a_program_of_the_task_is_followed(directory: TaskDir) -> None:
    file = put(directory, "local/tool-1.2/tool")
    Path(directory.local_dir, "tool").symlink_to("tool-1.2/tool")
    assert find_on_host("tool", directory) == f"{directory.local_dir}/tool"
    assert mode_of(file) == "0o755"


@pytest.mark.parametrize("command", ["sh", "/bin/sh", "", "local"])
def test_command_that_is_no_file_of_the_task_stays_as_it_is(
    directory: TaskDir, command: str
) -> None:
    assert find_in_root(command, "", directory) == command
