"""The registry: built-in drivers, options, and drivers of installed packages."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

from msgspec.structs import replace

from agent.drivers.cgroups import CgroupLayout
from agent.drivers.registry import DriverContext, load_drivers
from agent.supervisor.client import SupervisorClient
from orchgit.clock import FakeClock


def context(directory: Path, **options: dict[str, object]) -> DriverContext:
    return DriverContext(
        data_dir=directory,
        supervisor=SupervisorClient(directory / "supervisor"),
        cgroups=CgroupLayout(),
        clock=FakeClock(),
        options=options,
    )


def test_built_in_drivers_are_named_as_in_nomad(tmp_path: Path) -> None:
    async def body() -> None:
        drivers = load_drivers(context(tmp_path, mock_driver={"enabled": True}))
        assert {"raw_exec", "exec", "docker", "mock_driver"} <= set(drivers)
        assert all(driver.name == name for name, driver in drivers.items())

    asyncio.run(body())


def test_raw_exec_is_off_until_the_agents_config_says_otherwise(tmp_path: Path) -> None:
    async def body() -> None:
        off = load_drivers(context(tmp_path))["raw_exec"]
        on = load_drivers(context(tmp_path, raw_exec={"enabled": True}))["raw_exec"]
        assert not (await off.fingerprint()).detected
        assert (await on.fingerprint()).attributes == {"driver.raw_exec": "1"}

    asyncio.run(body())


def test_driver_that_is_switched_off_is_not_there(tmp_path: Path) -> None:
    async def body() -> None:
        assert "mock_driver" not in load_drivers(context(tmp_path))
        drivers = load_drivers(context(tmp_path, docker={"enabled": False}))
        assert "docker" not in drivers

    asyncio.run(body())


def test_wrong_options_cost_only_their_own_driver(tmp_path: Path) -> None:
    async def body() -> None:
        drivers = load_drivers(context(tmp_path, docker={"allow_privileged": "perhaps"}))
        assert "docker" not in drivers
        assert "exec" in drivers

    asyncio.run(body())


def test_installed_packages_add_drivers_and_bad_ones_are_left_out(tmp_path: Path) -> None:
    """Real entry points of a real (if tiny) distribution, in a process of its own."""
    site = tmp_path / "site"
    info = site / "extra-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: extra\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[orchgit.drivers]\nextra = extra_driver:make\nbroken = extra_driver:missing\n"
    )
    (site / "extra_driver.py").write_text(
        "from agent.drivers.mock import MockDriver\n"
        "def make(context):\n"
        "    return MockDriver(context.clock)\n"
    )
    program = (
        "import asyncio, pathlib\n"
        "from tests.unit.agent_drivers.test_driver_registry import context, load_drivers\n"
        "async def main():\n"
        "    print(sorted(load_drivers(context(pathlib.Path('.')))))\n"
        "asyncio.run(main())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": f"{site}:{Path.cwd()}"},
    )
    assert "'extra'" in done.stdout, done.stderr
    assert "broken" in done.stdout + done.stderr


def test_loading_drivers_imports_no_docker_sdk() -> None:
    program = (
        "import sys, agent.drivers.registry\n"
        "print([m for m in ('docker', 'requests', 'numpy', 'pynvml') if m in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr


def test_supervisors_side_imports_next_to_nothing() -> None:
    """It is one more process on every node: what it imports, every node pays."""
    program = (
        "import sys; sys.path.insert(0, '.')\n"
        "import agent.supervisor.daemon\n"
        "heavy = ('typing', 'enum', 're', 'asyncio', 'msgspec', 'json', 'socket', 'subprocess')\n"
        "print([name for name in heavy if name in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True
    )
    assert done.stdout == "[]\n", done.stderr


def test_lists_of_the_configuration_choose_the_drivers(tmp_path: Path) -> None:
    base = context(tmp_path, mock_driver={"enabled": True})
    allowed = load_drivers(replace(base, allowlist=("raw_exec", "mock_driver")))
    assert set(allowed) == {"raw_exec", "mock_driver"}
    rest = load_drivers(replace(base, denylist=("raw_exec",)))
    assert "raw_exec" not in rest
    assert "exec" in rest
    assert set(load_drivers(replace(base, allowlist=("exec",), denylist=("exec",)))) == set()
