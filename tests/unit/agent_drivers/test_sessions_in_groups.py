"""Commands in a task are members of the task's control groups, or are not run."""

from __future__ import annotations

import asyncio
import os
import secrets
import subprocess
from pathlib import Path

import pytest

from agent.drivers import cgroups
from agent.drivers.sessions import Command, join_groups, run_command
from agent.supervisor import cgroup_files
from orchgit.errors import DriverError
from tests.support.polling import until_blocking


def test_command_of_a_task_whose_group_is_gone_is_ended(tmp_path: Path) -> None:
    command = Command(
        argv=["/bin/sh", "-c", "sleep 1000"],
        env=dict(os.environ),
        cwd=str(tmp_path),
        group_members=[str(tmp_path / "gone/cgroup.procs")],
    )
    with pytest.raises(DriverError, match="cannot run a command in the task: it has just ended"):
        asyncio.run(run_command(command, 60))


def test_processes_that_a_command_has_started_already_join_with_it() -> None:
    group = cgroups.detect().tracking(f"test-{os.getpid()}-{secrets.token_hex(4)}")
    if group is None:
        pytest.skip("no control groups here")
    cgroup_files.create({"dirs": group.dirs})
    script = "sleep 1000 & echo $!; wait"
    with subprocess.Popen(["/bin/sh", "-c", script], stdout=subprocess.PIPE) as shell:
        assert shell.stdout is not None
        started = int(shell.stdout.readline())
        try:
            join_groups(group.members, shell.pid)
            assert set(cgroup_files.members(group.dirs[0])) == {shell.pid, started}
        finally:
            cgroup_files.kill_all({"kill": group.kill})
            os.kill(started, 9)
            shell.kill()
    assert until_blocking(lambda: cgroup_files.remove({"dirs": group.dirs}), 60)
