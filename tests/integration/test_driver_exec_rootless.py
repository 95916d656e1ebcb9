"""`exec` by an agent that does not run as root, where the kernel lets users make namespaces."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

_USER = "61234"
_PROGRAM = """
import asyncio, pathlib, sys
from agent.drivers import cgroups
from agent.drivers.conformance import log_text, task_config
from agent.drivers.exec import ExecDriver
from agent.supervisor.client import SupervisorClient
from orchgit.errors import DriverError

TEXT = "id -u; echo $$; echo x > /made; touch /usr/x 2>/dev/null || echo no; test ! -e /home"

async def main(directory):
    supervisor = SupervisorClient(directory / "supervisor")
    driver = ExecDriver(supervisor, cgroups.detect(), directory)
    info = await driver.fingerprint()
    print(info.healthy, info.health_description, flush=True)
    config = {"command": "/bin/sh", "args": ["-c", TEXT]}
    if info.healthy:
        task = task_config(directory, config)
        handle = await driver.start_task(task)
        result = await driver.wait_task(handle)
        print(result.exit_code, log_text(task).split(), log_text(task, "stderr"))
        await driver.destroy_task(handle)
        print((directory / "allocs" / task.alloc_id / "web" / "made").read_text().strip())
        other = task_config(directory, config, user="nobody")
        try:
            await driver.start_task(other)
        except DriverError as error:
            print(error)
        running = {"command": "/bin/sh", "args": ["-c", "echo up; sleep 60"]}
        task = task_config(directory, running)
        handle = await driver.start_task(task)
        said = await driver.exec_task(handle, ["/bin/sh", "-c", "echo beside; id -u"], 20)
        print(said.output, (await driver.stats(handle)).memory_bytes > 0)
        await driver.destroy_task(handle)
    await driver.close()
    await supervisor.close()

asyncio.run(asyncio.wait_for(main(pathlib.Path(sys.argv[1])), 60))
"""


@pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("setpriv") or not shutil.which("runc"),
    reason="needs root, setpriv and runc",
)
def test_agent_that_is_not_root_runs_tasks_in_a_user_namespace() -> None:
    directory = Path(tempfile.mkdtemp(prefix="orchgit-rootless-"))
    try:
        directory.chmod(0o777)
        become = ["setpriv", f"--reuid={_USER}", f"--regid={_USER}", "--clear-groups"]
        can = subprocess.run([*become, "unshare", "--user", "true"], capture_output=True)
        if can.returncode:
            pytest.skip("the kernel lets no user make a user namespace")
        paths = [str(Path(__file__).parents[2]), *filter(None, sys.path)]
        env = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(paths)}
        # The interpreter of the tests may lie where only root may go.
        again = "import os, sys, msgspec; os.execv(sys.executable, [sys.executable, '-c', ''])"
        found = [
            python
            for python in (sys.executable, "/usr/bin/python3")
            if not subprocess.run(
                [*become, python, "-c", again], capture_output=True, env=env
            ).returncode
        ]
        if not found:
            pytest.skip("no interpreter that other users may run")
        done = subprocess.run(
            [*become, found[0], "-c", _PROGRAM, str(directory)],
            capture_output=True,
            text=True,
            env=env,
        )
        assert done.returncode == 0, done.stderr
        health, ran, made, refused, beside = done.stdout.splitlines()
        assert health == "True Healthy, without limits: the agent does not run as root"
        assert ran == "0 ['0', '1', 'no'] "
        assert made == "x"
        assert refused.startswith('cannot run as "nobody": the agent does not run as root')
        assert beside == r"b'beside\n0\n' True"
    finally:
        shutil.rmtree(directory, ignore_errors=True)
