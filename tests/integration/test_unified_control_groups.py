"""Limits, counters and kills of tasks on a machine that has version 2 of control groups alone."""

from __future__ import annotations

import os
import shutil
import sys

import pytest

from tests.support.virtual_machine import KERNEL, run_in_virtual_machine

_DRIVERS = "tests/integration/test_driver_"
_TESTS = (
    f"{_DRIVERS}exec_isolation.py::test_task_beyond_its_memory_limit_is_reported_out_of_memory",
    f"{_DRIVERS}exec_isolation.py::test_memory_max_raises_the_limit",
    f"{_DRIVERS}exec_isolation.py::test_destroyed_task_leaves_no_process_mount_or_control_group",
    f"{_DRIVERS}exec_isolation.py::test_stats_are_read_from_the_tasks_control_group",
    f"{_DRIVERS}exec_isolation.py::test_command_has_the_user_the_groups_and_the_rights_of_its_task",
    f"{_DRIVERS}raw_exec.py::test_stats_include_every_process_of_the_task",
    f"{_DRIVERS}raw_exec.py::test_memory_of_all_processes_of_a_task_is_limited",
    "tests/integration/test_supervisor_tasks.py::"
    "test_ended_task_leaves_no_process_of_its_control_group",
)


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which(KERNEL), reason="needs root and user-mode-linux"
)
def test_tasks_are_limited_measured_and_killed_by_version_two_alone() -> None:
    found = "from agent.drivers import cgroups; assert cgroups.detect().mode == 'v2'"
    assert run_in_virtual_machine([sys.executable, "-c", found]) == 0
    tests = [sys.executable, "-m", "pytest", "-n", "0", "-p", "no:cacheprovider", *_TESTS]
    assert run_in_virtual_machine(tests) == 0
