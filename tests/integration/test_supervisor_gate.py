"""The gate that makes a start happen at most once: nothing runs before its pid is on disk."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from agent.supervisor.client import SupervisorClient
from tests.support.supervised import run, spec


def spawned(then: str) -> str:
    """What a child says that is held at the gate, and then released or abandoned; its status."""
    program = (
        "import os, sys\n"
        "from agent.supervisor import children\n"
        "spec = {'argv': ['/bin/sh', '-c', 'echo ran'], 'cwd': '/', 'env': {}}\n"
        "child = children.spawn(spec, (1, 2))\n"
        f"{then}\n"
        "print('status', os.waitstatus_to_exitcode(os.waitpid(child.pid, 0)[1]), flush=True)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=Path.cwd(), check=False
    )
    return done.stdout


def test_child_runs_nothing_until_it_is_released() -> None:
    assert spawned("child.release()") == "ran\nstatus 0\n"
    assert spawned("child.abandon()") == "status 127\n"


def test_supervisor_killed_before_the_release_leaves_no_task(tmp_path: Path) -> None:
    """Killed between the fork and the writing down: its end closes the gate."""
    marker = tmp_path / "ran"
    program = (
        "import os, sys\n"
        "from agent.supervisor import children\n"
        f"spec = {{'argv': ['/bin/sh', '-c', 'echo > {marker}'], 'cwd': '/', 'env': {{}}}}\n"
        "child = children.spawn(spec, (1, 2))\n"
        "print(child.pid, flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == -signal.SIGKILL
    # communicate() returned, so the child has closed its output too: it has ended
    assert done.stdout.strip().isdecimal()
    assert not marker.exists()


def test_started_task_is_on_disk_before_the_answer(tmp_path: Path) -> None:
    async def scenario(client: SupervisorClient) -> None:
        task = spec(tmp_path, "exec sleep 1000", key="the-key/of/it")
        report = await client.start(task)
        os.kill(client.pid, signal.SIGSTOP)
        try:
            journal = (tmp_path / "supervisor" / "journal").read_bytes()
        finally:
            os.kill(client.pid, signal.SIGCONT)
        assert b"the-key/of/it" in journal
        assert report.pid.to_bytes(8, "big") in journal

    run(tmp_path, scenario)
