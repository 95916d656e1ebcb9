"""`java`: a class and a jar file in the root of exec, run by the machine's own Java."""

from __future__ import annotations

import asyncio
import secrets
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from agent.drivers import cgroups
from agent.drivers.base import TaskConfig, TaskResources
from agent.drivers.java import JavaConfig, JavaDriver, java_arguments, parse_version
from agent.supervisor.client import SupervisorClient
from orchgit.errors import DriverError
from tests.support import java_class
from tests.support.driver_rigs import exec_works, log_text, task_config

needs_java = pytest.mark.skipif(
    not (exec_works() and shutil.which("java")), reason="needs root, crun or runc, and java"
)


def task(directory: Path, config: dict[str, object]) -> TaskConfig:
    alloc_id = f"{secrets.token_hex(4)}-0000-4000-8000-000000000008"
    made = task_config(directory, config, alloc_id=alloc_id, resources=TaskResources(memory_mb=400))
    Path(made.task_dir.local_dir, "hello.jar").write_bytes(java_class.jar())
    classes = Path(made.task_dir.local_dir, "classes")
    classes.mkdir(exist_ok=True)
    Path(classes, f"{java_class.NAME}.class").write_bytes(java_class.class_file())
    return made


def run(directory: Path, scenario: Callable[[JavaDriver], Awaitable[None]]) -> None:
    async def body() -> None:
        supervisor = SupervisorClient(directory / "supervisor")
        driver = JavaDriver(supervisor, cgroups.detect(), directory)
        try:
            async with asyncio.timeout(60):
                await scenario(driver)
        finally:
            await driver.close()
            await supervisor.close()

    asyncio.run(body())


@needs_java
@pytest.mark.long
def test_jar_and_class_run_with_their_options_and_arguments(tmp_path: Path) -> None:
    options = ["-Xmx64m", "-Dgreeting=hi there"]
    configs: list[dict[str, object]] = [
        {"jar_path": "local/hello.jar", "jvm_options": options, "args": ["one"]},
        {
            **{"class": java_class.NAME, "class_path": "/local/classes"},
            **{"jvm_options": options, "args": ["two"]},
        },
    ]

    async def scenario(driver: JavaDriver) -> None:
        for config, argument in zip(configs, ("one", "two"), strict=True):
            wanted = task(tmp_path, config)
            handle = await driver.start_task(wanted)
            result = await driver.wait_task(handle)
            assert result.successful, log_text(wanted, "stderr")
            assert log_text(wanted) == f"hello from java\n{argument}\nhi there\n"
            await driver.destroy_task(handle)

    run(tmp_path, scenario)


@needs_java
def test_fingerprint_tells_the_version_of_java(tmp_path: Path) -> None:
    async def scenario(driver: JavaDriver) -> None:
        info = await driver.fingerprint()
        assert info.healthy, info.health_description
        assert info.attributes is not None
        assert info.attributes["driver.java"] == "1"
        assert info.attributes["driver.java.version"][0].isdigit()
        assert info.attributes["driver.java.vm"]

    run(tmp_path, scenario)


def test_version_is_read_from_what_java_prints() -> None:
    text = (
        "Picked up JAVA_TOOL_OPTIONS: -x\n"
        'openjdk version "17.0.9" 2023-10-17\n'
        "OpenJDK Runtime Environment (build 17.0.9+9)\n"
        "OpenJDK 64-Bit Server VM (build 17.0.9+9, mixed mode)\n"
    )
    told = parse_version(text)
    assert told.version == "17.0.9"
    assert told.runtime == "OpenJDK Runtime Environment (build 17.0.9+9)"
    assert told.vm.startswith("OpenJDK 64-Bit Server VM")
    assert parse_version("nonsense").version == ""


@pytest.mark.parametrize("config", [JavaConfig(), JavaConfig(class_name="A", jar_path="b.jar")])
def test_exactly_one_program_must_be_named(config: JavaConfig) -> None:
    with pytest.raises(DriverError, match='give "class" or "jar_path", not'):
        java_arguments(config, "web")
