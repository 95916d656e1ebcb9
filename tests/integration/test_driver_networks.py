"""Tasks, and commands beside them, in the network namespace that the agent gives them."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from agent.drivers.base import NetworkIsolation
from agent.networks import namespaces
from orchgit.errors import DriverError
from tests.support.driver_rigs import log_text, shell_rig, task_config
from tests.support.polling import until

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")

_SHOW = "readlink /proc/self/ns/net; grep -c : /proc/net/dev; echo done"


@asynccontextmanager
async def namespace(directory: Path) -> AsyncIterator[Path]:
    path = directory / "namespace"
    await namespaces.create(path)
    try:
        yield path
    finally:
        namespaces.remove(path)


def inode(path: Path) -> str:
    return f"net:[{path.stat().st_ino}]"


@pytest.mark.parametrize("name", ["raw_exec", "exec"])
def test_task_and_commands_beside_it_run_in_the_given_namespace(tmp_path: Path, name: str) -> None:
    async def scenario() -> None:
        async with rig.open(tmp_path) as driver, namespace(tmp_path) as path:
            network = NetworkIsolation(mode="none", namespace=str(path))
            task = task_config(
                tmp_path,
                {"command": "/bin/sh", "args": ["-c", f"{_SHOW}; sleep 60"]},
                alloc_id=f"{secrets.token_hex(4)}-0000-4000-8000-000000000016",
                network=network,
            )
            handle = await driver.start_task(task)
            try:
                beside = await driver.exec_task(handle, ["readlink", "/proc/self/ns/net"], 10)
                assert beside.output.decode().strip() == inode(path)
                await until(lambda: "done" in log_text(task), 120)
            finally:
                await driver.destroy_task(handle)
            assert log_text(task).split() == [inode(path), "1", "done"]

    rig = shell_rig(name)
    asyncio.run(asyncio.wait_for(scenario(), 30))


def test_namespace_that_is_gone_fails_the_start_and_is_named(tmp_path: Path) -> None:
    async def scenario() -> None:
        network = NetworkIsolation(mode="none", namespace=str(tmp_path / "gone"))
        async with rig.open(tmp_path) as driver:
            task = task_config(tmp_path, rig.runs(), network=network)
            with pytest.raises(DriverError, match="cannot join the network namespace"):
                await driver.start_task(task)

    rig = shell_rig("raw_exec")
    asyncio.run(asyncio.wait_for(scenario(), 30))


def test_namespace_is_made_once_and_removed_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        path = tmp_path / "namespace"
        await namespaces.create(path)
        first = namespaces.identity(path)
        await namespaces.create(path)
        assert first == namespaces.identity(path)
        assert first != namespaces.identity("/proc/self/ns/net") != ""
        namespaces.remove(path)
        namespaces.remove(path)
        assert not namespaces.exists(path)
        assert not path.exists()

    asyncio.run(scenario())
