"""An engine that is killed and returns: tasks and networks of groups are not lost, not doubled."""

from __future__ import annotations

import asyncio
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.drivers.base import NetworkRequest
from agent.drivers.docker.driver import DockerDriver
from agent.drivers.docker.options import DockerOptions
from orchgit.clock import SystemClock
from orchgit.errors import DriverError
from tests.support import docker_engine
from tests.support.driver_rigs import log_text, task_config
from tests.support.polling import until

pytestmark = [docker_engine.needs_docker, pytest.mark.docker, pytest.mark.long]


@pytest.fixture
def directory() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="orchgit-dockerd-"))
    yield made
    shutil.rmtree(made, ignore_errors=True)


def test_killed_engine_returns_with_its_tasks(directory: Path, tmp_path: Path) -> None:
    alloc_id = f"{secrets.token_hex(4)}-0000-4000-8000-00000000000a"
    text = "i=0; while :; do echo $i; i=$((i+1)); sleep 0.05; done"
    config: dict[str, object] = {
        **{"image": docker_engine.IMAGE, "network_mode": "host"},
        **{"command": "/bin/sh", "args": ["-c", text]},
    }
    task = task_config(tmp_path, config, alloc_id=alloc_id)

    async def scenario(engine: docker_engine.OwnEngine) -> None:
        options = DockerOptions(endpoint=engine.started.endpoint)
        driver = DockerDriver(tmp_path, options, SystemClock())
        network = await driver.create_network(NetworkRequest(alloc_id=alloc_id))
        handle = await driver.start_task(task)
        await until(lambda: "5\n" in log_text(task))
        await asyncio.to_thread(engine.kill)
        assert not (await driver.fingerprint()).healthy
        with pytest.raises(DriverError) as raised:
            await driver.create_network(NetworkRequest(alloc_id=alloc_id))
        assert raised.value.recoverable
        await asyncio.to_thread(engine.start)
        said = len(log_text(task))
        await until(lambda: len(log_text(task)) > said, 120)
        assert (await driver.start_task(task)).state["container"] == handle.state["container"]
        assert await driver.create_network(NetworkRequest(alloc_id=alloc_id)) == network
        with engine.started.client() as api:
            assert len(api.containers(all=True)) == 2
        await driver.destroy_task(handle)
        await driver.destroy_network(alloc_id)
        with engine.started.client() as api:
            assert api.containers(all=True) == []
        numbers = [int(line) for line in log_text(task).split()]
        assert sorted(set(numbers)) == list(range(numbers[-1] + 1))
        await driver.close()

    engine = docker_engine.OwnEngine(directory, live_restore=True)
    engine.start()
    try:
        asyncio.run(asyncio.wait_for(scenario(engine), 90))
    finally:
        engine.stop()
