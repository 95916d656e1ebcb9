"""What `exec` isolates: files, processes, users, memory; and what it leaves behind (nothing)."""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from agent.drivers import cgroups
from agent.drivers.base import ExitResult, Mount, TaskConfig, TaskDevices, TaskHandle, TaskResources
from agent.drivers.exec import ExecDriver, ExecOptions
from agent.drivers.supervised import group_name
from agent.supervisor.client import SupervisorClient
from orchgit.errors import DriverError
from tests.support.driver_rigs import exec_works, log_text, task_config
from tests.support.polling import until

pytestmark = pytest.mark.skipif(not exec_works(), reason="needs root and crun or runc")


def script(text: str) -> dict[str, object]:
    return {"command": "/bin/sh", "args": ["-c", text]}


def make(directory: Path, config: dict[str, object], **fields: object) -> TaskConfig:
    alloc_id = f"{secrets.token_hex(4)}-0000-4000-8000-000000000003"
    return task_config(directory, config, alloc_id=alloc_id, **fields)


def run(
    directory: Path, scenario: Callable[[ExecDriver], Awaitable[None]], **options: object
) -> None:
    async def body() -> None:
        supervisor = SupervisorClient(directory / "supervisor")
        driver = ExecDriver(supervisor, cgroups.detect(), directory, ExecOptions(**options))
        try:
            async with asyncio.timeout(60):
                await scenario(driver)
        finally:
            await driver.close()
            await supervisor.close()

    asyncio.run(body())


def run_once(directory: Path, task: TaskConfig, **options: object) -> tuple[ExitResult, str]:
    """Run a task to its end; its result and its output."""
    results: list[ExitResult] = []

    async def scenario(driver: ExecDriver) -> None:
        handle = await driver.start_task(task)
        results.append(await driver.wait_task(handle))
        await driver.destroy_task(handle)

    run(directory, scenario, **options)
    return results[0], log_text(task)


def test_task_sees_only_its_own_directories_and_the_hosts_programs(tmp_path: Path) -> None:
    text = (
        "ls / | tr '\\n' ' '; echo; for f in /usr/x /etc/x; do touch $f || echo no; done; echo $$"
    )
    _, output = run_once(tmp_path, make(tmp_path, script(text)))
    names, *refused, pid = output.splitlines()
    assert {"alloc", "local", "secrets", "tmp", "usr", "proc"} <= set(names.split())
    assert not {"root", "home", "work"} & set(names.split())
    assert (refused, pid) == (["no", "no"], "1")


@pytest.mark.parametrize("command", ["tool", "local/tool", "/local/tool"])
def test_downloaded_program_runs_without_a_right_to_be_executed(
    tmp_path: Path, command: str
) -> None:
    task = make(tmp_path, {"command": command, "args": ["x"]})
    program = Path(task.task_dir.local_dir) / "tool"
    program.write_text("#!/bin/sh\necho downloaded $1\n")
    program.chmod(0o644)
    assert run_once(tmp_path, task)[1] == "downloaded x\n"


def test_task_writes_into_its_own_root(tmp_path: Path) -> None:
    task = make(tmp_path, script("echo a > /made; mkdir -p /var/log; echo b > /var/log/x"))
    result, _ = run_once(tmp_path, task)
    assert result.successful
    root = Path(task.task_dir.task_dir)
    assert ((root / "made").read_text(), (root / "var/log/x").read_text()) == ("a\n", "b\n")


def test_chroot_env_says_what_of_the_host_a_task_sees(tmp_path: Path) -> None:
    (tmp_path / "host").mkdir()
    (tmp_path / "host/greeting").write_text("hello\n")
    seen = {path: path for path in ("/bin", "/lib", "/lib64", "/usr/bin", "/usr/lib")}
    chroot_env = {**seen, str(tmp_path / "host"): "/opt/data"}
    text = "cat /opt/data/greeting; ls / | grep -c etc; touch /opt/data/x || echo no"
    _, output = run_once(tmp_path, make(tmp_path, script(text)), chroot_env=chroot_env)
    assert output == "hello\n0\nno\n"


def test_defaults_of_the_node_hold_for_tasks_without_a_mode(tmp_path: Path) -> None:
    text = script("test -d /proc/$PPID && echo seen || echo hidden")
    host = {"default_pid_mode": "host", "default_ipc_mode": "host"}
    assert run_once(tmp_path, make(tmp_path, text), **host)[1] == "seen\n"
    own = {**text, "pid_mode": "private"}
    assert run_once(tmp_path, make(tmp_path, own), **host)[1] == "hidden\n"


def test_capability_that_a_job_adds_is_held_by_a_user_that_is_not_root(tmp_path: Path) -> None:
    config = {**script("grep CapEff /proc/self/status"), "cap_add": ["net_bind_service"]}
    _, output = run_once(tmp_path, make(tmp_path, config))
    assert int(output.split()[1], 16) == 1 << 10


def test_task_with_reserved_cores_runs_on_them_only(tmp_path: Path) -> None:
    last = max(os.sched_getaffinity(0))
    text = script("grep Cpus_allowed_list /proc/self/status")
    resources = TaskResources(memory_mb=100, reserved_cores=(last,))
    _, output = run_once(tmp_path, make(tmp_path, text, resources=resources))
    assert output.split() == ["Cpus_allowed_list:", str(last)]


def test_task_without_a_user_runs_as_nobody(tmp_path: Path) -> None:
    _, output = run_once(tmp_path, make(tmp_path, script("id -u; id -g")))
    assert output == "65534\n65534\n"
    _, output = run_once(tmp_path, make(tmp_path, script("id -u"), user="root"), denied_users=())
    assert output == "0\n"


@pytest.mark.parametrize(
    ("fields", "config", "reason"),
    [
        ({"user": "root"}, {}, "exec.denied_users"),
        ({"user": "0:65534"}, {}, "exec.denied_users"),
        ({"user": "61005"}, {}, "exec.denied_host_uids"),
        ({"user": "12:61009"}, {}, "exec.denied_host_gids"),
        ({}, {"cap_add": ["sys_admin"]}, "exec.allow_caps"),
        ({}, {"pid_mode": "shared"}, "pid_mode"),
    ],
)
def test_task_option_that_the_node_does_not_allow_is_refused(
    tmp_path: Path, fields: dict[str, object], config: dict[str, object], reason: str
) -> None:
    async def scenario(driver: ExecDriver) -> None:
        with pytest.raises(DriverError, match=reason):
            await driver.start_task(make(tmp_path, {**script("true"), **config}, **fields))

    run(tmp_path, scenario, denied_host_uids="61005", denied_host_gids="61000-61010")


def test_task_cannot_gain_privileges(tmp_path: Path) -> None:
    _, output = run_once(tmp_path, make(tmp_path, script("grep NoNewPrivs /proc/self/status")))
    assert output.split() == ["NoNewPrivs:", "1"]


def test_task_with_the_hosts_pid_namespace_sees_its_processes(tmp_path: Path) -> None:
    config = {**script("test -d /proc/$PPID && echo seen"), "pid_mode": "host"}
    _, output = run_once(tmp_path, make(tmp_path, config))
    assert output == "seen\n"


def test_dropped_capabilities_are_missing_in_the_task(tmp_path: Path) -> None:
    text = "grep CapBnd /proc/self/status"
    _, all_of_them = run_once(tmp_path, make(tmp_path, script(text)))
    config = {**script(text), "cap_drop": ["all"], "cap_add": ["chown"]}
    _, one = run_once(tmp_path, make(tmp_path, config))
    assert int(one.split()[1], 16) == 1
    assert int(all_of_them.split()[1], 16).bit_count() == 13


def test_task_shares_the_allocations_directory(tmp_path: Path) -> None:
    task = make(tmp_path, script("echo x > /alloc/a; echo y > /local/b; echo z > /tmp/c"))
    result, _ = run_once(tmp_path, task)
    assert result.successful
    assert (Path(task.task_dir.alloc_dir) / "a").read_text() == "x\n"
    assert (Path(task.task_dir.local_dir) / "b").read_text() == "y\n"
    assert (Path(task.task_dir.task_dir) / "tmp" / "c").read_text() == "z\n"


def test_volumes_are_mounted_and_read_only_volumes_refuse_writes(tmp_path: Path) -> None:
    host = tmp_path / "volume"
    host.mkdir()
    (host / "greeting").write_text("hello\n")
    host.chmod(0o777)
    mounts = (Mount(str(host), "/data"), Mount(str(host), "/frozen", read_only=True))
    text = "cat /data/greeting; echo new > /data/made; touch /frozen/x 2>/dev/null || echo no"
    _, output = run_once(tmp_path, make(tmp_path, script(text), mounts=mounts))
    assert output == "hello\nno\n"
    assert (host / "made").read_text() == "new\n"


def test_task_does_not_inherit_the_agents_environment(tmp_path: Path) -> None:
    task = make(tmp_path, script("/usr/bin/env"), env={"PATH": "/bin:/usr/bin", "A": "b c"})
    _, output = run_once(tmp_path, task)
    names = {line.split("=")[0] for line in output.splitlines()}
    assert "A=b c" in output.splitlines()
    assert names <= {"PATH", "A", "PWD", "HOME", "_", "OLDPWD", "SHLVL"}


def test_task_beyond_its_memory_limit_is_reported_out_of_memory(tmp_path: Path) -> None:
    layout = cgroups.detect()
    if "memory" not in layout.controllers and layout.mode != "v2":
        pytest.skip("no memory controller here")
    hog = script("x=$(head -c 60000000 /dev/zero | tr '\\0' x); echo survived")
    task = make(tmp_path, hog, resources=TaskResources(memory_mb=20))
    result, output = run_once(tmp_path, task)
    assert result.oom_killed
    assert not result.successful
    assert "survived" not in output


def test_memory_max_raises_the_limit(tmp_path: Path) -> None:
    hog = script("x=$(head -c 20000000 /dev/zero | tr '\\0' x); echo survived")
    resources = TaskResources(memory_mb=10, memory_max_mb=200)
    result, output = run_once(tmp_path, make(tmp_path, hog, resources=resources))
    assert (output, result.oom_killed) == ("survived\n", False)


def test_destroyed_task_leaves_no_process_mount_or_control_group(tmp_path: Path) -> None:
    task = make(tmp_path, script("setsid sleep 1000 & echo up; read x < /alloc/fifo"))
    os.mkfifo(Path(task.task_dir.alloc_dir) / "fifo")
    os.chmod(Path(task.task_dir.alloc_dir) / "fifo", 0o666)

    async def scenario(driver: ExecDriver) -> None:
        handle = await driver.start_task(task)

        async def both_run() -> bool:
            return "up" in log_text(task) and len((await driver.stats(handle)).pids) >= 2

        await until(both_run)
        pids = (await driver.stats(handle)).pids
        await driver.destroy_task(handle)
        assert not [pid for pid in pids if _runs(pid)]
        assert not _traces(handle)

    run(tmp_path, scenario)


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def _traces(handle: TaskHandle) -> list[Path]:
    """Control groups, bundles and runtime state of a task."""
    name = group_name(handle.key)
    places = (Path("/sys/fs/cgroup"), Path("/run/orchgit"))
    return [
        Path(directory, found)
        for place in places
        for directory, folders, files in os.walk(place)  # passes over what goes away meanwhile
        for found in folders + files
        if found.startswith(name)
    ]


def test_stats_are_read_from_the_tasks_control_group(tmp_path: Path) -> None:
    task = make(tmp_path, script("x=$(head -c 8000000 /dev/zero | tr '\\0' x); echo up; sleep 100"))

    async def scenario(driver: ExecDriver) -> None:
        handle = await driver.start_task(task)
        await until(lambda: "up" in log_text(task))
        stats = await driver.stats(handle)
        await driver.destroy_task(handle)
        assert stats.memory_bytes > 8_000_000
        assert stats.cpu_ns > 0

    run(tmp_path, scenario)


def test_shell_opens_in_a_running_task(tmp_path: Path) -> None:
    task = make(tmp_path, script("echo up; sleep 100"), env={"PATH": "/bin:/usr/bin", "A": "b"})

    async def scenario(driver: ExecDriver) -> None:
        handle = await driver.start_task(task)
        session = await driver.exec_stream(handle, ["/bin/sh"], tty=False)
        await session.write(b"echo $A; id -u; exit 4\n")
        await session.close_stdin()
        said = b""
        while (piece := await session.read())[1]:
            said += piece[1]
        assert (said, await session.wait()) == (b"b\n65534\n", 4)
        await session.close()
        terminal = await driver.exec_stream(handle, ["/bin/sh", "-c", "tty; echo $TERM"], tty=True)
        said = b""
        while (piece := await terminal.read())[1]:
            said += piece[1]
        assert b"/dev/pts/" in said
        assert b"xterm" in said
        assert await terminal.wait() == 0
        await terminal.close()
        await driver.destroy_task(handle)

    run(tmp_path, scenario)


def test_command_has_the_user_the_groups_and_the_rights_of_its_task(tmp_path: Path) -> None:
    rights = "grep -E '^(Uid|Gid|Groups|Cap|NoNewPrivs)' /proc/self/status"
    task = make(tmp_path, {**script(f"{rights}; sleep 100"), "cap_add": ["net_bind_service"]})

    async def scenario(driver: ExecDriver) -> None:
        handle = await driver.start_task(task)
        await until(lambda: "NoNewPrivs" in log_text(task))
        told = await driver.exec_task(handle, ["/bin/sh", "-c", rights], 60)
        assert told.output.decode() == log_text(task)
        await driver.destroy_task(handle)

    run(tmp_path, scenario)


def test_many_commands_leave_few_files(tmp_path: Path) -> None:
    task = make(tmp_path, script("sleep 100"))

    async def scenario(driver: ExecDriver) -> None:
        handle = await driver.start_task(task)
        (bundle,) = Path("/run/orchgit").glob(f"*/bundles/{group_name(task.key)}")
        for number in range(70):
            told = await driver.exec_task(handle, ["/bin/sh", "-c", f"exit {number}"], 60)
            assert told.exit_code == number
        assert len(list(bundle.glob("command-*"))) < 70
        await driver.destroy_task(handle)

    run(tmp_path, scenario)


def test_task_uses_the_hosts_network(tmp_path: Path) -> None:
    """A port given to the group can be bound in the task."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    task = make(tmp_path, script(f"grep -c ':{port:04X} ' /proc/net/tcp; echo end"))
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", port))
        listener.listen()
        _, output = run_once(tmp_path, task)
    assert output == "1\nend\n"


@pytest.mark.skipif(not os.path.exists("/dev/net/tun"), reason="needs a device file")
def test_task_sees_and_opens_the_devices_that_it_was_given_only(tmp_path: Path) -> None:
    # What the host's file allows is root's alone; the node decides who is given the device.
    text = script("exec 3<>/dev/net/tun && echo opened; test -e /dev/fuse || echo hidden")
    given = TaskDevices(nodes=("/dev/net/tun",))
    _, output = run_once(tmp_path, make(tmp_path, text, devices=given))
    assert output == "opened\nhidden\n"
    _, output = run_once(tmp_path, make(tmp_path, text))
    assert "opened" not in output
    with pytest.raises(DriverError, match="cannot give /dev/none to the task"):
        run_once(tmp_path, make(tmp_path, text, devices=TaskDevices(nodes=("/dev/none",))))
