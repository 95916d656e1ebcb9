"""`raw_exec`: where commands are found, as whom they run, volumes, and commands beside them."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import pytest

from agent.drivers import cgroups
from agent.drivers.base import ExitResult, Mount, TaskConfig, TaskHandle, TaskResources
from agent.drivers.raw_exec import RawExecDriver, RawExecOptions
from agent.supervisor.client import SupervisorClient
from orchgit.errors import DriverError
from orchgit.model.task import LogConfig
from tests.support.driver_rigs import log_text, task_config
from tests.support.polling import until

_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
_LAYOUT = cgroups.detect()
_HAS_CPUSET = "cpuset" in _LAYOUT.controllers or (
    _LAYOUT.mode == "v2"
    and "cpuset" in Path(_LAYOUT.unified, "cgroup.controllers").read_text().split()
)


def shell(text: str) -> dict[str, object]:
    return {"command": "sh", "args": ["-c", text]}


def make(directory: Path, config: dict[str, object], **fields: object) -> TaskConfig:
    alloc_id = f"{secrets.token_hex(4)}-0000-4000-8000-000000000005"
    return task_config(directory, config, alloc_id=alloc_id, **fields)


def run(
    directory: Path, scenario: Callable[[RawExecDriver], Awaitable[None]], **options: object
) -> None:
    async def body() -> None:
        supervisor = SupervisorClient(directory / "supervisor")
        try:
            async with asyncio.timeout(30):
                given = RawExecOptions(enabled=True, **options)
                await scenario(RawExecDriver(supervisor, cgroups.detect(), given))
        finally:
            await supervisor.close()

    asyncio.run(body())


def run_once(directory: Path, task: TaskConfig, **options: object) -> str:
    async def scenario(driver: RawExecDriver) -> None:
        handle = await driver.start_task(task)
        await driver.wait_task(handle)
        await driver.destroy_task(handle)

    run(directory, scenario, **options)
    return log_text(task)


def test_command_is_looked_up_in_the_task_directory_first(tmp_path: Path) -> None:
    task = make(tmp_path, {"command": "sh", "args": ["x"]})
    program = Path(task.task_dir.local_dir) / "sh"
    program.write_text("#!/bin/sh\necho mine $1 in $PWD\n")
    program.chmod(0o755)
    assert run_once(tmp_path, task) == f"mine x in {task.task_dir.task_dir}\n"


@pytest.mark.parametrize("command", ["tool", "local/tool"])
def test_downloaded_program_runs_without_a_right_to_be_executed(
    tmp_path: Path, command: str
) -> None:
    task = make(tmp_path, {"command": command})
    program = Path(task.task_dir.local_dir) / "tool"
    program.write_text("#!/bin/sh\necho downloaded\n")
    program.chmod(0o644)
    assert run_once(tmp_path, task) == "downloaded\n"


def test_file_of_the_node_that_is_no_program_is_refused_and_stays_so(tmp_path: Path) -> None:
    file = tmp_path / "notes"
    file.write_text("#!/bin/sh\n")
    file.chmod(0o644)

    async def scenario(driver: RawExecDriver) -> None:
        with pytest.raises(DriverError, match="permission denied"):
            await driver.start_task(make(tmp_path, {"command": str(file)}))

    run(tmp_path, scenario)
    assert not os.access(file, os.X_OK)


@pytest.mark.parametrize("command", ["no-such-command", "local/none", "/no/such"])
def test_command_that_does_not_exist_is_refused(tmp_path: Path, command: str) -> None:
    async def scenario(driver: RawExecDriver) -> None:
        with pytest.raises(DriverError, match=f'binary "{command}" could not be found'):
            await driver.start_task(make(tmp_path, {"command": command}))

    run(tmp_path, scenario)


def test_work_dir_is_below_the_tasks_directory(tmp_path: Path) -> None:
    task = make(tmp_path, {**shell("pwd"), "work_dir": "local"})
    assert run_once(tmp_path, task) == f"{task.task_dir.local_dir}\n"


@_ROOT
def test_task_runs_as_the_jobs_user_and_may_reopen_its_output(tmp_path: Path) -> None:
    for directory in (tmp_path, *tmp_path.parents[:2]):
        directory.chmod(0o755)
    task = make(tmp_path, shell("id -u; id -g; echo reopened > /dev/stdout"), user="nobody")
    assert run_once(tmp_path, task) == "65534\n65534\nreopened\n"


def test_volume_is_a_link_in_the_tasks_directory(tmp_path: Path) -> None:
    volume = tmp_path / "volume"
    volume.mkdir()
    mounts = (Mount(str(volume), "/data/deep"),)
    task = make(tmp_path, shell("echo x > data/deep/made"), mounts=mounts)
    run_once(tmp_path, task)
    assert (volume / "made").read_text() == "x\n"


@pytest.mark.parametrize(
    ("mount", "reason"),
    [(Mount("/x", "/y", True), "read-only"), (Mount("/x", "/../../y"), "leads out")],
)
def test_volume_that_raw_exec_cannot_mount_is_refused(
    tmp_path: Path, mount: Mount, reason: str
) -> None:
    async def scenario(driver: RawExecDriver) -> None:
        with pytest.raises(DriverError, match=reason):
            await driver.start_task(make(tmp_path, shell("true"), mounts=(mount,)))

    run(tmp_path, scenario)


def test_disabled_logs_write_no_file(tmp_path: Path) -> None:
    task = make(tmp_path, shell("echo x"), logs=LogConfig(disabled=True))
    assert run_once(tmp_path, task) == ""
    assert os.listdir(task.task_dir.log_dir) == []


def test_exec_has_the_tasks_environment_and_ends_at_its_timeout(tmp_path: Path) -> None:
    async def scenario(driver: RawExecDriver) -> None:
        env = {"PATH": "/usr/bin:/bin", "SECRET": "s3cret"}
        handle = await driver.start_task(make(tmp_path, shell("sleep 1000; true"), env=env))
        said = await driver.exec_task(handle, ["sh", "-c", "echo $SECRET; pwd; exit 3"], 10)
        assert said.output.decode() == f"s3cret\n{handle.state['cwd']}\n"
        assert said.exit_code == 3
        late = await driver.exec_task(handle, ["sh", "-c", "echo begun; sleep 1000; true"], 0.2)
        assert (late.output, late.exit_code) == (b"begun\n", -1)
        long = await driver.exec_task(handle, ["sh", "-c", "head -c 1000000 /dev/zero"], 10)
        assert len(long.output) == 256 << 10
        with pytest.raises(DriverError, match="no such command"):
            await driver.exec_task(handle, ["no-such-command"], 10)
        assert "s3cret" not in str(handle)
        await driver.stop_task(handle, timeout_s=0)
        with pytest.raises(DriverError, match="does not run"):
            await driver.exec_task(handle, ["true"], 10)
        await driver.destroy_task(handle)

    run(tmp_path, scenario)


def test_terminal_session_is_resized_and_returns_the_exit_code(tmp_path: Path) -> None:
    async def scenario(driver: RawExecDriver) -> None:
        handle = await driver.start_task(make(tmp_path, shell("sleep 1000; true")))
        session = await driver.exec_stream(handle, ["sh", "-i"], tty=True)
        session.resize(33, 44)
        await session.write(b"stty size; expr 3 '*' 1111 > /dev/tty; echo a $TERM; exit 5\n")
        said = b""
        while (piece := await session.read())[1]:
            said += piece[1]
        assert b"33 44" in said
        # Only a terminal that controls the session opens so, and passes on interrupts.
        assert b"3333" in said
        assert b"a xterm" in said
        assert await session.wait() == 5
        await session.close()
        await driver.destroy_task(handle)

    run(tmp_path, scenario)


def test_exec_session_ends_with_its_task_or_when_closed(tmp_path: Path) -> None:
    async def scenario(driver: RawExecDriver) -> None:
        handle = await driver.start_task(make(tmp_path, shell("sleep 1000; true")))
        closed = await driver.exec_stream(handle, ["sleep", "1000"], tty=False)
        await closed.close()
        assert await closed.wait() == 137
        if cgroups.detect().mode == "none":
            return
        orphan = await driver.exec_stream(handle, ["sleep", "1000"], tty=False)
        await driver.destroy_task(handle)
        assert await orphan.wait() == 137
        await orphan.close()

    run(tmp_path, scenario)


def test_stats_include_every_process_of_the_task(tmp_path: Path) -> None:
    async def scenario(driver: RawExecDriver) -> None:
        task = make(tmp_path, shell("sleep 1000 & echo up; sleep 1000; true"))
        handle = await driver.start_task(task)
        await until(lambda: "up" in log_text(task))
        stats = await driver.stats(handle)
        assert handle.pid in stats.pids
        assert stats.memory_bytes > 0
        if cgroups.detect().mode != "none":
            assert len(stats.pids) >= 2
        await driver.destroy_task(handle)

    run(tmp_path, scenario)


def test_raw_exec_is_refused_where_the_agent_does_not_enable_it(tmp_path: Path) -> None:
    async def body() -> None:
        driver = RawExecDriver(SupervisorClient(tmp_path), cgroups.CgroupLayout())
        with pytest.raises(DriverError, match="does not enable it"):
            await driver.start_task(make(tmp_path, shell("true")))

    asyncio.run(body())


def test_variables_that_are_denied_do_not_reach_the_task(tmp_path: Path) -> None:
    config = {**shell('echo "$A1-$A2-$B-$C"'), "denied_envvars": ["B"]}
    env = {"PATH": "/usr/bin:/bin", "A1": "1", "A2": "2", "B": "3", "C": "4"}
    task = make(tmp_path, config, env=env)
    assert run_once(tmp_path, task, denied_envvars=["A*"]) == "---4\n"


@_ROOT
@pytest.mark.parametrize(
    ("options", "user", "reason"),
    [
        ({"denied_host_uids": "0,10-20"}, "", "user 0: .* raw_exec.denied_host_uids"),
        ({"denied_host_uids": "0,61000-61009"}, "61005", "user 61005"),
        ({"denied_host_gids": "61000-61009"}, "12:61009", "group 61009"),
        ({"denied_host_uids": "x-1"}, "", 'cannot read the ids "x-1"'),
    ],
)
def test_denied_users_and_groups_are_refused(
    tmp_path: Path, options: dict[str, object], user: str, reason: str
) -> None:
    async def scenario(driver: RawExecDriver) -> None:
        with pytest.raises(DriverError, match=reason):
            await driver.start_task(make(tmp_path, shell("true"), user=user))

    run(tmp_path, scenario, **options)


def test_oom_score_is_the_tasks_own(tmp_path: Path) -> None:
    config = {**shell("cat /proc/self/oom_score_adj"), "oom_score_adj": 300}
    assert run_once(tmp_path, make(tmp_path, config)) == "300\n"

    async def scenario(driver: RawExecDriver) -> None:
        with pytest.raises(DriverError, match="cannot set oom_score_adj to -1"):
            await driver.start_task(make(tmp_path, {**config, "oom_score_adj": -1}))

    run(tmp_path, scenario)


@_ROOT
@pytest.mark.skipif(not _HAS_CPUSET, reason="needs the cpuset controller")
def test_task_with_reserved_cores_runs_on_them_only(tmp_path: Path) -> None:
    last = max(os.sched_getaffinity(0))
    text = "grep Cpus_allowed_list /proc/self/status"
    task = make(tmp_path, shell(text), resources=TaskResources(reserved_cores=(last,)))
    assert run_once(tmp_path, task).split() == ["Cpus_allowed_list:", str(last)]


@_ROOT
@pytest.mark.skipif(
    _LAYOUT.mode != "v2" and not {"cpu", "memory"} <= _LAYOUT.controllers.keys(),
    reason="needs the memory and the cpu controller",
)
@pytest.mark.parametrize("memory_max_mb", [0, 200, -1])
def test_memory_of_all_processes_of_a_task_is_limited(tmp_path: Path, memory_max_mb: int) -> None:
    results: list[ExitResult] = []
    grow = "head -c 60000000 /dev/zero | tail -c 50000000 > /dev/null"
    task = make(
        tmp_path,
        shell(f"({grow}) || exit 3; echo grown"),
        resources=TaskResources(memory_mb=30, memory_max_mb=memory_max_mb),
    )

    async def scenario(driver: RawExecDriver) -> None:
        handle = await driver.start_task(task)
        results.append(await driver.wait_task(handle))
        await driver.destroy_task(handle)

    run(tmp_path, scenario)
    ended = [(each.exit_code, each.oom_killed) for each in results]
    assert ended == ([(0, False)] if memory_max_mb else [(3, True)])
    assert log_text(task) == ("grown\n" if memory_max_mb else "")


@_ROOT
@pytest.mark.skipif(
    not {"cpuset", "memory"} <= cgroups.detect().controllers.keys(),
    reason="needs the cpuset and the memory controller of v1",
)
def test_command_joins_all_groups_of_its_task(tmp_path: Path) -> None:
    own = Path(cgroups.detect().controllers["memory"], f"orchgit-test-{secrets.token_hex(4)}")
    last = max(os.sched_getaffinity(0))
    config = {**shell("echo ready; exec sleep 1000"), "cgroup_v1_override": {"memory": own.name}}
    task = make(tmp_path, config, resources=TaskResources(reserved_cores=(last,)))

    async def scenario(driver: RawExecDriver) -> None:
        handle = await driver.start_task(task)
        await until(lambda: "ready" in log_text(task))
        parts = groups_made(Path(f"/proc/{handle.pid}/cgroup").read_text())
        assert {f"memory:/{own.name}"} < parts
        assert any(each.startswith("cpuset:/nomad.slice/") for each in parts)
        assert groups_made(await groups_of_a_command(driver, handle)) == parts
        old = msgspec.structs.replace(handle, state={"cwd": handle.state["cwd"]})
        held = {each for each in parts if each.startswith((":/", "freezer:/"))}
        assert held
        assert groups_made(await groups_of_a_command(driver, old)) == held
        await driver.destroy_task(handle)

    own.mkdir()
    try:
        run(tmp_path, scenario)
    finally:
        own.rmdir()


def groups_made(text: str) -> set[str]:
    """Of the lines of a process's groups, those of groups of this node's tasks and of the test."""
    parts = {line.partition(":")[2] for line in text.splitlines()}
    return {each for each in parts if "nomad.slice/" in each or "/orchgit-test-" in each}


async def groups_of_a_command(driver: RawExecDriver, handle: TaskHandle) -> str:
    """The command looks when it is told to: by then it has joined."""
    text = "read go; cat /proc/$$/cgroup"
    session = await driver.exec_stream(handle, ["sh", "-c", text], False)
    await session.write(b"go\n")
    said = b""
    while data := (await session.read())[1]:
        said += data
    await session.close()
    return said.decode()


@_ROOT
@pytest.mark.skipif(
    "memory" not in cgroups.detect().controllers, reason="needs the memory controller of v1"
)
def test_task_joins_the_control_group_that_the_job_names(tmp_path: Path) -> None:
    own = Path(cgroups.detect().controllers["memory"], f"orchgit-test-{secrets.token_hex(4)}")
    own.mkdir()
    try:
        config = {**shell("cat /proc/self/cgroup"), "cgroup_v1_override": {"memory": own.name}}
        assert f"memory:/{own.name}\n" in run_once(tmp_path, make(tmp_path, config))
    finally:
        own.rmdir()

    async def scenario(driver: RawExecDriver) -> None:
        config = {**shell("true"), "cgroup_v1_override": [{"memory": "gone/away"}]}
        with pytest.raises(DriverError, match=r"cannot join the control group .*gone/away"):
            await driver.start_task(make(tmp_path, config))

    run(tmp_path, scenario)


@_ROOT
@pytest.mark.skipif(
    cgroups.detect().mode != "hybrid" or "cpuset" not in cgroups.detect().controllers,
    reason="needs control groups v2 beside the cpuset controller of v1",
)
def test_task_in_a_unified_group_of_the_job_keeps_its_cores_and_leaves_nothing(
    tmp_path: Path,
) -> None:
    own = Path(cgroups.detect().unified, f"orchgit-test-{secrets.token_hex(4)}")
    last = max(os.sched_getaffinity(0))
    text = (
        "grep Cpus_allowed_list /proc/self/status; cat /proc/self/cgroup; echo ready;"
        "setsid sleep 1000 & exec sleep 1000"
    )
    config = {**shell(text), "cgroup_v2_override": own.name}
    task = make(tmp_path, config, resources=TaskResources(reserved_cores=(last,)))

    def members() -> list[int]:
        return [int(line) for line in (own / "cgroup.procs").read_text().split()]

    async def scenario(driver: RawExecDriver) -> None:
        handle = await driver.start_task(task)
        await until(lambda: "ready" in log_text(task) and len(members()) == 2)
        assert set((await driver.stats(handle)).pids) == set(members())
        told = await driver.exec_task(handle, ["echo", "beside"], 20)
        assert told.output == b"beside\n"
        await driver.destroy_task(handle)
        await until(lambda: not members())

    own.mkdir()
    try:
        run(tmp_path, scenario)
        assert f"0::/{own.name}\n" in log_text(task)
        assert log_text(task).split()[1] == str(last)
    finally:
        own.rmdir()
