"""`docker` against a real engine: what the conformance suite does not ask."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import pytest

from agent.drivers.base import Mount, TaskConfig, TaskHandle, TaskResources
from agent.drivers.config import decode_options
from agent.drivers.docker.driver import DockerDriver
from agent.drivers.docker.options import DockerOptions
from agent.hooks.secrets_mount import unmount_below
from orchgit.clock import SystemClock
from orchgit.errors import DriverError
from orchgit.model.task import LogConfig
from tests.support import docker_engine
from tests.support.driver_rigs import log_text, task_config
from tests.support.polling import until

pytestmark = [docker_engine.needs_docker, pytest.mark.docker]


def config(text: str, **fields: object) -> dict[str, object]:
    base = {"image": docker_engine.IMAGE, "network_mode": "host"}
    return {**base, "command": "/bin/sh", "args": ["-c", text], **fields}


def make(directory: Path, given: dict[str, object], **fields: object) -> TaskConfig:
    alloc_id = f"{secrets.token_hex(4)}-0000-4000-8000-000000000004"
    return task_config(directory, given, alloc_id=alloc_id, **fields)


def driver(directory: Path, **options: object) -> DockerDriver:
    endpoint = docker_engine.engine().endpoint
    made = decode_options("docker", {"endpoint": endpoint, **options}, DockerOptions)
    return DockerDriver(directory, made, SystemClock())


def run(directory: Path, scenario: Callable[[DockerDriver], Awaitable[None]], **options) -> None:
    async def body() -> None:
        made = driver(directory, **options)
        try:
            async with asyncio.timeout(60):
                await scenario(made)
        finally:
            await made.close()

    asyncio.run(body())


def run_once(directory: Path, task: TaskConfig, **options: object) -> str:
    async def scenario(made: DockerDriver) -> None:
        handle = await made.start_task(task)
        await made.wait_task(handle)
        await made.destroy_task(handle)

    run(directory, scenario, **options)
    return log_text(task)


def test_container_has_its_directories_volumes_and_environment(tmp_path: Path) -> None:
    volume = tmp_path / "volume"
    volume.mkdir()
    (volume / "greeting").write_text("hello\n")
    text = "cat /data/greeting; echo $A; echo x > /alloc/a; touch /frozen/x || echo no"
    task = make(
        tmp_path,
        config(text, volumes=["local/../local:/same"]),
        env={"A": "b c"},
        mounts=(Mount(str(volume), "/data"), Mount(str(volume), "/frozen", read_only=True)),
    )
    assert run_once(tmp_path, task) == "hello\nb c\nno\n"
    assert (Path(task.task_dir.alloc_dir) / "a").read_text() == "x\n"


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"volumes": ["/etc:/host"]}, 'cannot mount "/etc".*volumes'),
        ({"volumes": ["../../../..:/host"]}, "cannot mount"),
        ({"volumes": ["nonsense"]}, "source:target"),
        ({"mount": {"type": "bind", "source": "/", "target": "/host"}}, "cannot mount"),
        ({"mount": {"type": "bnd", "target": "/x"}}, "use bind, volume or tmpfs"),
        ({"privileged": True}, "allow_privileged"),
        ({"pid_mode": "host"}, "allow_privileged"),
        ({"ports": ["http"]}, 'no such port|cannot publish port "http"'),
        ({"image": ""}, "cannot"),
        ({"args": "x"}, "args"),
    ],
)
def test_container_option_that_the_node_does_not_allow_is_refused(
    tmp_path: Path, given: dict[str, object], reason: str
) -> None:
    async def scenario(made: DockerDriver) -> None:
        base = config("true")
        base.pop("network_mode")
        with pytest.raises(DriverError, match=reason):
            await made.start_task(make(tmp_path, {**base, **given}))

    run(tmp_path, scenario)


def test_node_sees_what_a_container_mounts_in_a_shared_directory(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    subprocess.run(["mount", "--bind", shared, shared], check=True)
    try:
        subprocess.run(["mount", "--make-shared", shared], check=True)
        (shared / "volume").mkdir()
        text = "/bin/busybox mount -t tmpfs none /csi/volume && echo yes > /csi/volume/file"
        given = config(text, cap_add=["sys_admin"], security_opt=["apparmor=unconfined"])
        task = make(tmp_path, given, mounts=(Mount(str(shared), "/csi", is_shared=True),))
        run_once(tmp_path, task, allow_caps=["all"], allow_privileged=True)
        assert (shared / "volume" / "file").read_text() == "yes\n"
    finally:
        unmount_below(shared.parent)


def test_failed_image_pull_is_a_recoverable_error(tmp_path: Path) -> None:
    async def scenario(made: DockerDriver) -> None:
        refused = r"cannot pull image 127\.0\.0\.1:9/none:1: .*connection refused"
        with pytest.raises(DriverError, match=refused) as raised:
            await made.start_task(make(tmp_path, config("true", image="127.0.0.1:9/none:1")))
        assert raised.value.recoverable

    run(tmp_path, scenario)


def test_container_beyond_its_memory_limit_is_reported_out_of_memory(tmp_path: Path) -> None:
    async def scenario(made: DockerDriver) -> None:
        hog = "x=$(head -c 60000000 /dev/zero | tr '\\0' x); echo survived"
        task = make(tmp_path, config(hog), resources=TaskResources(memory_mb=20))
        handle = await made.start_task(task)
        result = await made.wait_task(handle)
        await made.destroy_task(handle)
        assert result.oom_killed
        assert "survived" not in log_text(task)

    run(tmp_path, scenario)


def test_stdout_and_stderr_are_written_to_their_files(tmp_path: Path) -> None:
    task = make(
        tmp_path, config("i=0; while [ $i -lt 300 ]; do echo o$i; echo e$i >&2; i=$((i+1)); done")
    )
    run_once(tmp_path, task)
    assert log_text(task).split() == [f"o{number}" for number in range(300)]
    assert log_text(task, "stderr").split() == [f"e{number}" for number in range(300)]


def test_disabled_logs_write_no_file(tmp_path: Path) -> None:
    task = make(tmp_path, config("echo x"), logs=LogConfig(disabled=True))
    assert run_once(tmp_path, task) == ""
    assert os.listdir(task.task_dir.log_dir) == []


def test_task_with_a_tty_has_one_output_stream(tmp_path: Path) -> None:
    task = make(tmp_path, config("echo one; echo two >&2", tty=True))
    assert run_once(tmp_path, task).split() == ["one", "two"]


def test_container_has_labels_of_its_allocation(tmp_path: Path) -> None:
    async def scenario(made: DockerDriver) -> None:
        task = make(
            tmp_path, config("sleep 100", labels=[{"team": "a"}, {"tier": "b"}]), job_id="j"
        )
        handle = await made.start_task(task)
        with docker_engine.engine().client() as api:
            told = api.inspect_container(handle.state["container"])
        await made.destroy_task(handle)
        labels = told["Config"]["Labels"]
        assert (labels["team"], labels["tier"]) == ("a", "b")
        assert labels["org.orchgit.alloc_id"] == task.alloc_id
        assert labels["org.orchgit.job_id"] == "j"
        assert told["HostConfig"]["Memory"] == 300 << 20

    run(tmp_path, scenario)


def test_removed_container_is_reported_as_failed(tmp_path: Path) -> None:
    async def scenario(made: DockerDriver) -> None:
        handle = await made.start_task(make(tmp_path, config("sleep 100")))
        waiting = asyncio.create_task(made.wait_task(handle))
        with docker_engine.engine().client() as api:
            api.remove_container(handle.state["container"], force=True)
        result = await waiting
        assert not result.successful

    run(tmp_path, scenario)


def test_shell_opens_in_a_running_container(tmp_path: Path) -> None:
    async def scenario(made: DockerDriver) -> None:
        handle = await made.start_task(make(tmp_path, config("sleep 100")))
        session = await made.exec_stream(handle, ["/bin/sh"], tty=False)
        await session.write(b"echo out; echo err >&2; exit 4\n")
        await session.close_stdin()
        said = {"stdout": b"", "stderr": b""}
        while (piece := await session.read())[1]:
            said[piece[0]] += piece[1]
        assert said == {"stdout": b"out\n", "stderr": b"err\n"}
        assert await session.wait() == 4
        await session.close()
        terminal = await made.exec_stream(handle, ["/bin/sh", "-c", "echo hi"], tty=True)
        assert await terminal.read() == ("stdout", b"hi\r\n")
        assert await terminal.wait() == 0
        await terminal.close()
        await made.destroy_task(handle)

    run(tmp_path, scenario)


def test_command_past_its_timeout_is_ended(tmp_path: Path) -> None:
    async def scenario(made: DockerDriver) -> None:
        handle = await made.start_task(make(tmp_path, config("sleep 100")))
        ended = await made.exec_task(handle, ["/bin/sh", "-c", "echo begun; sleep 77"], 0.5)
        assert (ended.output, ended.exit_code) == (b"begun\n", -1)
        assert (await made.stats(handle)).memory_bytes > 0
        await made.destroy_task(handle)

    run(tmp_path, scenario)


def test_driver_without_an_engine_is_undetected_and_imports_no_client(tmp_path: Path) -> None:
    program = (
        "import asyncio, sys, pathlib\n"
        "from agent.drivers.docker.driver import DockerDriver, DockerOptions\n"
        "from orchgit.clock import SystemClock\n"
        "async def main():\n"
        "    options = DockerOptions(endpoint='unix:///no/such/socket')\n"
        "    info = await DockerDriver(pathlib.Path('/x'), options, SystemClock()).fingerprint()\n"
        "    print(info.detected, 'docker' in sys.modules, 'requests' in sys.modules)\n"
        "asyncio.run(main())\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "False False False\n", done.stderr


def test_restarted_agent_continues_copying_logs_where_it_stopped(tmp_path: Path) -> None:
    text = "i=0; while [ $i -lt 200 ]; do echo $i; i=$((i+1)); sleep 0.001; done"
    task = make(tmp_path, config(text))
    handles: list[TaskHandle] = []

    async def first_life(made: DockerDriver) -> None:
        handles.append(await made.start_task(task))
        await until(lambda: "20\n" in log_text(task))

    async def second_life(made: DockerDriver) -> None:
        await made.wait_task(handles[0])
        await made.destroy_task(handles[0])

    run(tmp_path, first_life)
    for thread in threading.enumerate():
        if thread.name.startswith(f"docker {handles[0].state['container'][:12]}"):
            thread.join()
    run(tmp_path, second_life)
    assert [int(line) for line in log_text(task).split()] == list(range(200))


def test_death_of_the_agent_loses_no_output(tmp_path: Path) -> None:
    """Killed while it copies; the next agent goes on where it was (a line may come twice)."""
    program = (
        "import asyncio, sys, pathlib, msgspec\n"
        "from tests.integration.test_driver_docker_engine import DockerDriver, DockerOptions\n"
        "from agent.drivers.base import TaskConfig\n"
        "from orchgit.clock import SystemClock\n"
        "async def main():\n"
        "    task = msgspec.json.decode(sys.argv[3], type=TaskConfig)\n"
        "    options = DockerOptions(endpoint=sys.argv[2])\n"
        "    driver = DockerDriver(pathlib.Path(sys.argv[1]), options, SystemClock())\n"
        "    handle = await driver.start_task(task)\n"
        "    print(msgspec.json.encode(handle).decode(), flush=True)\n"
        "    await driver.wait_task(handle)\n"
        "asyncio.run(main())\n"
    )
    text = "i=0; while [ $i -lt 400 ]; do echo $i; i=$((i+1)); sleep 0.001; done; exit 6"
    task = make(tmp_path, config(text))
    endpoint = docker_engine.engine().endpoint
    arguments = [str(tmp_path), endpoint, _encoded(task)]
    agent = subprocess.Popen(
        [sys.executable, "-c", program, *arguments], stdout=subprocess.PIPE, start_new_session=True
    )
    assert agent.stdout is not None
    handle = _handle(agent.stdout.readline())
    while "20\n" not in log_text(task):
        os.sched_yield()
    os.killpg(agent.pid, signal.SIGKILL)
    agent.wait()
    agent.stdout.close()

    async def scenario(made: DockerDriver) -> None:
        assert await made.recover_task(handle)
        assert (await made.wait_task(handle)).exit_code == 6
        lines = [int(line) for line in log_text(task).split()]
        assert sorted(set(lines)) == list(range(400))
        assert len(lines) <= 401
        await made.destroy_task(handle)

    run(tmp_path, scenario)


def _encoded(task: TaskConfig) -> str:
    return msgspec.json.encode(task).decode()


def _handle(line: bytes) -> TaskHandle:
    return msgspec.json.decode(line, type=TaskHandle)
