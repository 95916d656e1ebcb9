"""Tasks started by a container runtime, which leaves a pid and goes; played here by a shell."""

from __future__ import annotations

import asyncio
import os
import resource
import shutil
import signal
from pathlib import Path

import pytest

from agent.supervisor.client import SupervisorClient
from agent.supervisor.protocol import TaskSpec
from orchgit.errors import DriverError
from tests.support.polling import until
from tests.support.supervised import (
    TIMEOUT_S,
    kill_supervisor,
    output,
    run,
    runs,
    spec,
    start_changed_supervisor,
    until_gone,
    until_output,
)


def launched(directory: Path, task: str, before: str = "", after: str = "") -> TaskSpec:
    """A runtime that starts `task` in a session of its own and writes its pid down."""
    script = f"{before}\nsetsid sh -c '{task}' & echo $! > {directory}/pid\n{after}"
    return spec(directory, script, pid_file=f"{directory}/pid", error_log=f"{directory}/log")


def test_supervisor_watches_the_process_that_the_runtime_started(tmp_path: Path) -> None:
    async def scenario(client: SupervisorClient) -> None:
        os.mkfifo(tmp_path / "fifo")
        task = launched(tmp_path, "echo up; read x < fifo; echo down; exit 6")
        report = await client.start(task)
        assert report.pid == int((tmp_path / "pid").read_text())
        (tmp_path / "fifo").write_text("go\n")
        assert (await client.wait(task.key)).exit_code == 6
        assert output(tmp_path) == "up\ndown\n"

    run(tmp_path, scenario)


def test_task_that_ended_before_its_runtime_keeps_its_exit_code(tmp_path: Path) -> None:
    async def scenario(client: SupervisorClient) -> None:
        wait_for_its_end = "while kill -0 $(cat pid) 2>/dev/null; do sleep 0.01; done"
        orphan = "(setsid sh -c 'exit 9' & echo $! > pid)"
        task = spec(tmp_path, f"{orphan}; {wait_for_its_end}", pid_file=f"{tmp_path}/pid")
        await client.start(task)
        assert (await client.wait(task.key)).exit_code == 9

    run(tmp_path, scenario)


def test_failed_runtime_raises_with_its_reason(tmp_path: Path) -> None:
    async def scenario(client: SupervisorClient) -> None:
        (tmp_path / "log").write_text("no such image\n")
        failed = spec(tmp_path, "exit 1", pid_file=f"{tmp_path}/pid", error_log=f"{tmp_path}/log")
        with pytest.raises(DriverError, match="runtime failed: no such image"):
            await client.start(failed)
        silent = spec(tmp_path, "exit 3", pid_file=f"{tmp_path}/pid")
        with pytest.raises(DriverError, match="its exit code is 3"):
            await client.start(silent)
        assert await client.list() == []

    run(tmp_path, scenario)


def test_second_start_waits_for_the_first(tmp_path: Path) -> None:
    async def scenario(client: SupervisorClient) -> None:
        os.mkfifo(tmp_path / "gate")
        task = launched(tmp_path, "echo up; exec sleep 1000", before="read x < gate")
        starts = [asyncio.create_task(client.start(task)) for _ in range(3)]
        await until(client.list)
        assert not any(start.done() for start in starts)
        (tmp_path / "gate").write_text("go\n")
        reports = await asyncio.gather(*starts)
        assert {report.pid for report in reports} == {int((tmp_path / "pid").read_text())}

    run(tmp_path, scenario)


@pytest.mark.parametrize("when", ["before", "after"])
def test_next_supervisor_finds_a_task_whose_start_was_interrupted(
    tmp_path: Path, when: str
) -> None:
    """Killed before the runtime has started the task, or before it has left."""

    async def scenario(client: SupervisorClient) -> None:
        os.mkfifo(tmp_path / "gate")
        os.mkfifo(tmp_path / "fifo")
        task = launched(
            tmp_path, "echo up; read x < fifo; exit 6", **{when: f"echo {when}; read x < gate"}
        )
        starting = asyncio.create_task(client.start(task))
        await until_output(tmp_path, when)
        await kill_supervisor(client)
        (tmp_path / "gate").write_text("go\n")
        await until_output(tmp_path, "up")
        report = await starting
        assert report.pid == int((tmp_path / "pid").read_text())
        assert output(tmp_path).count("up") == 1
        waiting = asyncio.create_task(client.wait(task.key))
        (tmp_path / "fifo").write_text("go\n")
        ended = await waiting
        assert ended.exit_code == 6 or "unknown" in ended.error

    run(tmp_path, scenario)


def test_runtime_that_dies_with_the_supervisor_is_a_failed_task(tmp_path: Path) -> None:
    async def scenario(client: SupervisorClient) -> None:
        os.mkfifo(tmp_path / "gate")
        task = launched(tmp_path, "echo up", before="echo $$; read x < gate")
        starting = asyncio.create_task(client.start(task))
        await until_output(tmp_path, "\n")
        runtime = int(output(tmp_path))
        os.kill(client.pid, signal.SIGSTOP)
        os.kill(runtime, signal.SIGKILL)
        await kill_supervisor(client)
        report = await starting
        assert report.ended
        assert (report.exit_code, report.error[:12]) == (-1, "cannot start")
        assert "up" not in output(tmp_path)

    run(tmp_path, scenario)


# -- limits ----------------------------------------------------------------------------------------


def test_full_disk_refuses_starts_and_loses_no_exit(tmp_path: Path) -> None:
    """Full as far as the supervisor can see: it may not make its files any longer."""

    async def scenario(client: SupervisorClient) -> None:
        os.mkfifo(tmp_path / "fifo")
        task = spec(tmp_path, "read x < fifo; exit 8")
        await client.start(task)
        size = (tmp_path / "supervisor" / "journal").stat().st_size
        resource.prlimit(client.pid, resource.RLIMIT_FSIZE, (size + 5, resource.RLIM_INFINITY))
        with pytest.raises(DriverError, match="cannot start"):
            await client.start(spec(tmp_path, "echo started"))
        waiting = asyncio.create_task(client.wait(task.key))
        (tmp_path / "fifo").write_text("go\n")
        assert (await waiting).exit_code == 8
        everything = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
        resource.prlimit(client.pid, resource.RLIMIT_FSIZE, everything)
        again = spec(tmp_path, "echo again")
        await client.start(again)
        await client.wait(again.key)
        assert output(tmp_path) == "again\n"
        await kill_supervisor(client)
        assert {report.key for report in await client.list()} == {task.key, again.key}

    run(tmp_path, scenario)


def test_tasks_inherit_the_limits_of_the_agent(tmp_path: Path) -> None:
    async def scenario(client: SupervisorClient) -> None:
        task = spec(tmp_path, "ulimit -n; cat /proc/self/oom_score_adj; umask")
        await client.start(task)
        await client.wait(task.key)
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        own = max(0, int(Path("/proc/self/oom_score_adj").read_text()))
        assert output(tmp_path).split() == [str(soft), str(own), "0022"]

    run(tmp_path, scenario)


def test_supervisor_starts_many_tasks_at_once(tmp_path: Path) -> None:
    async def scenario(client: SupervisorClient) -> None:
        tasks = [spec(tmp_path, "exec sleep 1000", key=f"a/{n}/0") for n in range(100)]
        reports = await asyncio.gather(*(client.start(task) for task in tasks))
        assert len({report.pid for report in reports}) == 100
        await kill_supervisor(client)
        for task in tasks:
            await client.stop(task.key, signal.SIGTERM, 5)
        ended = await asyncio.gather(*(client.wait(task.key) for task in tasks))
        assert not any(runs(report.pid) for report in ended)
        for task in tasks:
            await client.ack(task.key)
        assert await client.list() == []

    run(tmp_path, scenario)


def test_deleted_log_directories_stop_neither_task_nor_supervisor(tmp_path: Path) -> None:
    async def scenario(client: SupervisorClient) -> None:
        os.mkfifo(tmp_path / "fifo")
        task = spec(tmp_path, "read x < fifo; echo lost; exit 3")
        await client.start(task)
        for path in (tmp_path / "logs").iterdir():
            path.unlink()
        (tmp_path / "logs").rmdir()
        await kill_supervisor(client)
        waiting = asyncio.create_task(client.wait(task.key))
        (tmp_path / "fifo").write_text("go\n")
        report = await waiting
        assert report.finished_ns > 0
        assert report.dropped_bytes == len("lost\n")

    run(tmp_path, scenario)


def test_tasks_end_when_their_data_directory_is_deleted(tmp_path: Path) -> None:
    """Nobody could stop them any more."""
    start_changed_supervisor(
        tmp_path, "daemon", "_REACHABLE_CHECK_S = 2.0", "_REACHABLE_CHECK_S = 0.05"
    )

    async def scenario() -> None:
        client = SupervisorClient(tmp_path / "supervisor")
        report = await client.start(spec(tmp_path, "trap '' TERM; sleep 1000; true"))
        shutil.rmtree(tmp_path / "supervisor")
        await client.close()
        async with asyncio.timeout(TIMEOUT_S):
            await until_gone(report.pid)
            await until_gone(client.pid)

    asyncio.run(scenario())


def test_supervisor_without_tasks_ends_and_a_stopped_one_leaves_tasks_running(
    tmp_path: Path,
) -> None:
    async def scenario(client: SupervisorClient) -> None:
        task = spec(tmp_path, "exec sleep 1000")
        started = await client.start(task)
        old = client.pid
        os.kill(old, signal.SIGTERM)
        await until(lambda: client.pid != old)
        await until_gone(old)
        report = await client.status(task.key)
        assert report is not None
        assert (report.pid, report.state) == (started.pid, "running")

    run(tmp_path, scenario)
