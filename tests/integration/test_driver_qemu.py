"""`qemu` with real machines: one sector of a disk is all that they have."""

from __future__ import annotations

import asyncio
import secrets
import shutil
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from agent.drivers import cgroups
from agent.drivers.base import TaskConfig, TaskPort, TaskResources
from agent.drivers.qemu import QemuDriver, QemuOptions
from agent.supervisor.client import SupervisorClient
from orchgit.errors import DriverError
from tests.support import boot_sector
from tests.support.driver_rigs import log_text, task_config
from tests.support.polling import until
from tests.support.ports import free_ports

pytestmark = pytest.mark.skipif(
    not shutil.which("qemu-system-x86_64"), reason="needs qemu-system-x86"
)
MACHINE: dict[str, object] = {"image_path": "local/disk.img", "args": ["-snapshot"]}


def task(
    directory: Path, config: dict[str, object], handles: bool = True, **fields: object
) -> TaskConfig:
    alloc_id = f"{secrets.token_hex(4)}-0000-4000-8000-000000000009"
    given = {"resources": TaskResources(memory_mb=128), **fields}
    made = task_config(directory, {**MACHINE, **config}, alloc_id=alloc_id, **given)
    Path(made.task_dir.local_dir, "disk.img").write_bytes(boot_sector.disk(handles))
    return made


def run(
    directory: Path, scenario: Callable[[QemuDriver], Awaitable[None]], **options: object
) -> None:
    async def body() -> None:
        supervisor = SupervisorClient(directory / "supervisor")
        driver = QemuDriver(supervisor, cgroups.detect(), directory, QemuOptions(**options))
        try:
            async with asyncio.timeout(60):
                await scenario(driver)
        finally:
            await driver.close()
            await supervisor.close()

    asyncio.run(body())


@pytest.mark.long
def test_stop_presses_the_power_button_and_the_machine_turns_off(tmp_path: Path) -> None:
    async def scenario(driver: QemuDriver) -> None:
        wanted = task(tmp_path, {"graceful_shutdown": True, "guest_agent": True})
        handle = await driver.start_task(wanted)
        await until(lambda: "@" in log_text(wanted), 120)
        assert Path(wanted.task_dir.task_dir, "qa.sock").is_socket()
        assert (await driver.stats(handle)).memory_bytes > 0
        await driver.stop_task(handle, timeout_s=40)
        result = await driver.wait_task(handle)
        assert (result.exit_code, result.signal) == (0, 0)
        await driver.destroy_task(handle)
        assert not Path(handle.state["monitor"]).exists()

    run(tmp_path, scenario)


@pytest.mark.long
@pytest.mark.parametrize("graceful", [True, False])
def test_machine_that_does_not_turn_off_is_ended(tmp_path: Path, graceful: bool) -> None:
    async def scenario(driver: QemuDriver) -> None:
        wanted = task(tmp_path, {"graceful_shutdown": graceful}, handles=False)
        handle = await driver.start_task(wanted)
        await until(lambda: "@" in log_text(wanted), 120)
        await driver.stop_task(handle, timeout_s=0.5)
        assert (await driver.wait_task(handle)).exit_code in (0, 137)
        await driver.destroy_task(handle)

    run(tmp_path, scenario)


@pytest.mark.long
def test_ports_of_the_group_lead_into_the_machine(tmp_path: Path) -> None:
    (port,) = free_ports(1)

    def answers() -> bool:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            return False
        return True

    async def scenario(driver: QemuDriver) -> None:
        ports = (TaskPort("http", port, host_ip="127.0.0.1"),)
        wanted = task(tmp_path, {"port_map": {"http": 80}}, ports=ports)
        handle = await driver.start_task(wanted)
        await until(answers, 120)
        await driver.destroy_task(handle)
        assert not answers()

    run(tmp_path, scenario)


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"image_path": "/etc/passwd"}, "neither in the allocation's directory nor"),
        ({"image_path": "local/none.img"}, "there is no such file"),
        ({"drive_interface": "usb"}, 'cannot use drive_interface "usb": use one of'),
        ({"emulator": "qemu-system-arm"}, "qemu.emulators_allowlist"),
        ({"args": ["-snapshot", "-daemonize"]}, 'cannot use "-daemonize" in args'),
        ({"port_map": {"http": 80}}, 'cannot forward port "http"'),
        ({"image": "x"}, r'"image".*"image_path"'),
    ],
)
def test_what_the_node_does_not_allow_is_refused(
    tmp_path: Path, config: dict[str, object], reason: str
) -> None:
    async def scenario(driver: QemuDriver) -> None:
        with pytest.raises(DriverError, match=reason):
            await driver.start_task(task(tmp_path, config))

    run(tmp_path, scenario, args_allowlist=["snapshot"])


def test_machine_has_no_commands_and_signals(tmp_path: Path) -> None:
    async def scenario(driver: QemuDriver) -> None:
        info = await driver.fingerprint()
        assert info.attributes is not None
        assert info.attributes["driver.qemu"] == "1"
        assert info.attributes["driver.qemu.version"][0].isdigit()
        wanted = task(tmp_path, {})
        handle = await driver.start_task(wanted)
        for call in (
            driver.signal_task(handle, "SIGHUP"),
            driver.exec_task(handle, ["ls"], 1),
            driver.exec_stream(handle, ["ls"], False),
        ):
            with pytest.raises(DriverError, match="it is a virtual machine"):
                await call
        await driver.destroy_task(handle)

    run(tmp_path, scenario)
