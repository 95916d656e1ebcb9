"""The supervisor with real processes: starting, logging, ending, and surviving kills."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from agent.drivers import cgroups
from agent.supervisor.client import SupervisorClient
from agent.supervisor.protocol import ControlGroup, LogStream, TaskReport, TaskSpec
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
    supervisor,
    until_gone,
    until_output,
)


def test_exit_code_signal_and_output_are_kept(tmp_path: Path) -> None:
    async def scenario(client: SupervisorClient) -> None:
        task = spec(tmp_path, "echo out; echo err >&2; exit 3")
        await client.start(task)
        report = await client.wait(task.key)
        assert (report.exit_code, report.signal, report.error) == (3, 0, "")
        assert (output(tmp_path), output(tmp_path, "stderr")) == ("out\n", "err\n")
        killed = spec(tmp_path, "kill -9 $$")
        await client.start(killed)
        report = await client.wait(killed.key)
        assert (report.exit_code, report.signal) == (137, 9)

    run(tmp_path, scenario)


def test_repeated_start_returns_the_same_task_even_after_its_end(tmp_path: Path) -> None:
    async def scenario(client: SupervisorClient) -> None:
        task = spec(tmp_path, "echo ran; exit 4")
        reports = await asyncio.gather(*(client.start(task) for _ in range(5)))
        assert len({report.pid for report in reports}) == 1
        await client.wait(task.key)
        assert (await client.start(task)).exit_code == 4
        assert output(tmp_path) == "ran\n"

    run(tmp_path, scenario)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"argv": ["/no/such/program"]}, "cannot execute /no/such/program: No such file"),
        ({"cwd": "/no/such/place"}, "cannot change to its directory /no/such/place"),
        ({"argv": ["/etc/passwd"]}, "cannot execute /etc/passwd: Permission denied"),
        ({"group": ControlGroup(members=["/no/procs"])}, "cannot join the control group"),
        ({"streams": [LogStream("/no/logs", "x", 1, 1)] * 2}, "cannot start: .*/no/logs"),
    ],
)
def test_task_that_cannot_start_raises_the_reason_and_is_forgotten(
    tmp_path: Path, change: dict[str, object], reason: str
) -> None:
    async def scenario(client: SupervisorClient) -> None:
        base = {"key": "k", "argv": ["/bin/true"], "cwd": "/", **change}
        with pytest.raises(DriverError, match=reason):
            await client.start(TaskSpec(**base))
        assert await client.list() == []
        pipes = [p for p in (tmp_path / "supervisor").iterdir() if p.name.startswith("pipe")]
        assert pipes == []

    run(tmp_path, scenario)


def test_environment_comes_only_from_the_spec_and_is_never_on_disk(tmp_path: Path) -> None:
    async def scenario(client: SupervisorClient) -> None:
        task = spec(tmp_path, "/usr/bin/env", env={"TOKEN": "s3cret-value"})
        await client.start(task)
        await client.wait(task.key)
        assert set(output(tmp_path).split()) <= {
            "TOKEN=s3cret-value",
            f"PWD={tmp_path}",
            "_=/usr/bin/env",
        }
        for path in (tmp_path / "supervisor").iterdir():
            if path.is_file():
                assert b"s3cret-value" not in path.read_bytes()

    run(tmp_path, scenario)


_NEW_KERNEL = "_WHOLE_PROCESS_GROUP = 4"


@pytest.mark.parametrize("kernel", [_NEW_KERNEL, "_WHOLE_PROCESS_GROUP = 1 << 20"])
@pytest.mark.parametrize("how", ["exit", "stop", "stop by the next supervisor"])
def test_ended_task_leaves_no_process_of_its_group(tmp_path: Path, kernel: str, how: str) -> None:
    """On a kernel that can signal a group by pidfd, and on one that refuses the flag."""
    start_changed_supervisor(tmp_path, "tasks", _NEW_KERNEL, kernel)

    async def scenario(client: SupervisorClient) -> None:
        end = "exit 0" if how == "exit" else "wait"
        task = spec(tmp_path, f"sleep 1001 & echo $!; {end}")
        await client.start(task)
        await until_output(tmp_path, "\n")
        if how == "stop by the next supervisor":
            await kill_supervisor(client)
        if how != "exit":
            await client.stop(task.key, signal.SIGKILL, 0)
        await client.wait(task.key)
        await until_gone(int(output(tmp_path)))

    run(tmp_path, scenario)


def test_ended_task_leaves_no_process_of_its_control_group(tmp_path: Path) -> None:
    """Not even what is in a session of its own."""
    group = cgroups.detect().tracking(f"test-{secrets.token_hex(4)}")
    if group is None:
        pytest.skip("no control groups here")

    async def scenario(client: SupervisorClient) -> None:
        script = "setsid sleep 1000 & echo $!; exec sleep 0.05"
        task = spec(tmp_path, script, group=group)
        await client.start(task)
        await client.wait(task.key)
        await until_gone(int(output(tmp_path)))
        await until(lambda: not os.path.exists(group.dirs[0]))

    run(tmp_path, scenario)


def test_process_that_joins_the_control_group_of_an_ended_task_is_killed(tmp_path: Path) -> None:
    """A command in the task may begin while the task ends."""
    group = cgroups.detect().tracking(f"test-{secrets.token_hex(4)}")
    if group is None:
        pytest.skip("no control groups here")

    async def scenario(client: SupervisorClient) -> None:
        os.mkfifo(tmp_path / "pipe")
        task = spec(tmp_path, f"echo started; read x < {tmp_path}/pipe", group=group)
        await client.start(task)
        await until_output(tmp_path, "started")
        inner = Path(group.dirs[0], "inner")
        inner.mkdir()  # so that the group cannot be removed yet
        (tmp_path / "pipe").write_text("\n")
        await client.wait(task.key)
        with subprocess.Popen(["sleep", "1000"]) as late:  # noqa: ASYNC220
            try:
                Path(group.members[0]).write_text(str(late.pid))
                await until(lambda: late.poll() is not None)
                assert late.returncode == -signal.SIGKILL
            finally:
                late.kill()
        inner.rmdir()
        await until(lambda: not os.path.exists(group.dirs[0]))

    run(tmp_path, scenario)


def test_stop_waits_for_the_grace_period_then_kills(tmp_path: Path) -> None:
    async def scenario(client: SupervisorClient) -> None:
        polite = spec(tmp_path, "trap 'exit 9' TERM; echo polite; while :; do sleep 0.01; done")
        await client.start(polite)
        await until_output(tmp_path, "polite")
        await client.stop(polite.key, signal.SIGTERM, 20)
        assert (await client.wait(polite.key)).exit_code == 9
        rude = spec(tmp_path, "trap '' TERM; echo rude; while :; do sleep 0.01; done")
        await client.start(rude)
        await until_output(tmp_path, "rude")
        await client.stop(rude.key, signal.SIGTERM, 0.05)
        assert (await client.wait(rude.key)).signal == signal.SIGKILL

    run(tmp_path, scenario)


def test_only_an_ended_task_can_be_acknowledged(tmp_path: Path) -> None:
    async def scenario(client: SupervisorClient) -> None:
        task = spec(tmp_path, "exec sleep 1000")
        await client.start(task)
        with pytest.raises(DriverError, match="it runs"):
            await client.ack(task.key)
        await client.stop(task.key, signal.SIGKILL, 0)
        await client.wait(task.key)
        await client.ack(task.key)
        await client.ack(task.key)
        assert await client.status(task.key) is None
        with pytest.raises(DriverError, match="does not know it"):
            await client.wait(task.key)

    run(tmp_path, scenario)


def test_rotated_logs_lose_only_the_oldest_lines(tmp_path: Path) -> None:
    async def scenario(client: SupervisorClient) -> None:
        task = spec(tmp_path, "i=0; while [ $i -lt 1000 ]; do echo line $i; i=$((i+1)); done")
        await client.start(task)
        await client.wait(task.key)
        names = {path.name for path in (tmp_path / "logs").glob("web.stdout.*")}
        assert len(names) == 3
        assert "web.stdout.0" not in names
        lines = output_in_order(tmp_path)
        assert lines[-1] == "line 999"
        first = int(lines[0].split()[1])
        assert lines == [f"line {number}" for number in range(first, 1000)]

    run(tmp_path, scenario)


def output_in_order(directory: Path) -> list[str]:
    paths = sorted((directory / "logs").glob("web.stdout.*"), key=lambda path: int(path.suffix[1:]))
    assert all(path.stat().st_size <= 1000 for path in paths)
    return "".join(path.read_text() for path in paths).splitlines()


# -- the supervisor itself is killed ---------------------------------------------------------------


def test_tasks_survive_the_supervisor_and_their_exit_codes_are_recovered(tmp_path: Path) -> None:
    async def scenario(client: SupervisorClient) -> None:
        task = spec(tmp_path, "echo before; read line < fifo; echo after; exit 6")
        os.mkfifo(tmp_path / "fifo")
        started = await client.start(task)
        await until_output(tmp_path, "before")
        waiting = asyncio.create_task(client.wait(task.key))
        await kill_supervisor(client)
        report = await client.status(task.key)
        assert report is not None
        assert (report.state, report.pid) == ("running", started.pid)
        (tmp_path / "fifo").write_text("go\n")
        ended = await waiting
        assert output(tmp_path) == "before\nafter\n"
        # an orphan's exit code is kept by recent kernels only; what is not known is not made up
        assert ended.exit_code == 6 or (ended.exit_code == -1 and "unknown" in ended.error)

    run(tmp_path, scenario)


def test_unknown_exit_code_on_an_older_kernel_is_reported_as_unknown(tmp_path: Path) -> None:
    """The supervisor that finds the task again can ask neither the kernel nor /proc."""

    async def body() -> None:
        task = spec(tmp_path, "read line < fifo; exit 6")
        os.mkfifo(tmp_path / "fifo")
        async with asyncio.timeout(TIMEOUT_S):
            first = SupervisorClient(tmp_path / "supervisor")
            await first.start(task)
            await first.close()
            os.kill(first.pid, signal.SIGKILL)
            await until_gone(first.pid)
        known = "status if status is not None else _status_after_reaping(pidfd)"
        start_changed_supervisor(tmp_path, "proc", known, "None")
        async with supervisor(tmp_path) as second:
            (tmp_path / "fifo").write_text("go\n")
            report = await second.wait(task.key)
            assert (report.exit_code, report.signal) == (-1, 0)
            assert "unknown" in report.error

    asyncio.run(body())


def test_output_written_without_a_supervisor_is_not_lost(tmp_path: Path) -> None:
    async def scenario(client: SupervisorClient) -> None:
        # Two of them: a second read of the first could meet the end of the first write.
        os.mkfifo(tmp_path / "fifo")
        os.mkfifo(tmp_path / "end")
        script = (
            "read a < fifo; i=0; while [ $i -lt 50 ]; do echo $i; i=$((i+1)); done; "
            "echo ok > done; read a < end"
        )
        task = spec(tmp_path, script)
        await client.start(task)
        old = client.pid
        await client.close()
        os.kill(old, signal.SIGKILL)
        await until_gone(old)
        (tmp_path / "fifo").write_text("go\n")
        await until(lambda: (tmp_path / "done").exists())

    async def body() -> None:
        async with asyncio.timeout(TIMEOUT_S):
            first = SupervisorClient(tmp_path / "supervisor")
            await first.connect()
            await scenario(first)
        async with supervisor(tmp_path) as second:
            (report,) = await second.list()
            (tmp_path / "end").write_text("go\n")
            await second.wait(report.key)
            assert output(tmp_path).split() == [str(number) for number in range(50)]

    asyncio.run(body())


def test_unreported_exit_is_reported_to_the_next_agent(tmp_path: Path) -> None:
    async def body() -> None:
        task = spec(tmp_path, "exit 5")
        async with asyncio.timeout(TIMEOUT_S):
            first = SupervisorClient(tmp_path / "supervisor")
            await first.start(task)
            await first.wait(task.key)
            await first.close()
            os.kill(first.pid, signal.SIGKILL)
            await until_gone(first.pid)
        async with supervisor(tmp_path) as second:
            assert (await second.wait(task.key)).exit_code == 5
            assert (await second.start(task)).ended

    asyncio.run(body())


def test_reused_pid_is_not_mistaken_for_the_task(tmp_path: Path) -> None:
    """The journal names a process that has another start time: ours is gone."""

    async def body() -> None:
        task = spec(tmp_path, "exec sleep 1000")
        first = SupervisorClient(tmp_path / "supervisor")
        started = await first.start(task)
        await first.close()
        os.kill(first.pid, signal.SIGKILL)
        await until_gone(first.pid)
        _forge_start_time(tmp_path / "supervisor" / "journal", started)
        async with supervisor(tmp_path) as second:
            report = await second.wait(task.key)
            assert (report.exit_code, report.signal) == (-1, 0)
            assert runs(started.pid)
        os.kill(started.pid, signal.SIGKILL)

    asyncio.run(body())


def _forge_start_time(journal: Path, started: TaskReport) -> None:
    from agent.supervisor.journal import SupervisorJournal

    opened = SupervisorJournal(str(journal.parent))
    record = opened.records[started.key]
    opened.append({**record, "ticks": int(str(record["ticks"])) - 1}, durable=True)
    opened.close()


def test_death_of_the_agent_stops_neither_supervisor_nor_task(tmp_path: Path) -> None:
    """The agent is a process of its own here, killed together with its process group."""
    program = (
        "import asyncio, sys, pathlib\n"
        "from tests.support.supervised import spec\n"
        "from agent.supervisor.client import SupervisorClient\n"
        "async def main():\n"
        "    base = pathlib.Path(sys.argv[1])\n"
        "    client = SupervisorClient(base / 'supervisor')\n"
        "    task = spec(base, 'read a < fifo; echo done; exit 2', key='k')\n"
        "    print((await client.start(task)).pid, client.pid, flush=True)\n"
        "    await client.wait('k')\n"
        "asyncio.run(main())\n"
    )
    os.mkfifo(tmp_path / "fifo")
    agent = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)],
        stdout=subprocess.PIPE,
        start_new_session=True,
        text=True,
    )
    assert agent.stdout is not None
    task_pid, supervisor_pid = (int(word) for word in agent.stdout.readline().split())
    os.killpg(agent.pid, signal.SIGKILL)
    agent.wait()
    agent.stdout.close()

    async def scenario(client: SupervisorClient) -> None:
        assert client.pid == supervisor_pid
        assert runs(task_pid)
        (tmp_path / "fifo").write_text("go\n")
        assert (await client.wait("k")).exit_code == 2
        assert output(tmp_path) == "done\n"

    run(tmp_path, scenario)


def test_only_one_supervisor_runs_per_directory(tmp_path: Path) -> None:
    async def body() -> None:
        clients = [SupervisorClient(tmp_path / "supervisor") for _ in range(4)]
        await asyncio.gather(*(client.connect() for client in clients))
        assert len({client.pid for client in clients}) == 1
        for client in clients:
            await client.close()
        os.kill(clients[0].pid, signal.SIGTERM)

    asyncio.run(body())


def test_supervisor_directory_is_private_and_its_path_may_be_long(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 120)

    async def scenario(client: SupervisorClient) -> None:
        assert (deep / "supervisor").stat().st_mode & 0o777 == 0o700

    run(deep, scenario)


def test_supervisor_uses_little_memory(tmp_path: Path) -> None:
    """Private memory: what one more supervisor costs a machine that runs Python anyway."""

    async def scenario(client: SupervisorClient) -> None:
        for _ in range(20):
            task = spec(tmp_path, "echo x")
            await client.start(task)
            await client.wait(task.key)
        rollup = Path(f"/proc/{client.pid}/smaps_rollup").read_text().splitlines()
        sizes = {line.split(":")[0]: int(line.split()[1]) for line in rollup[1:]}
        assert sizes["Private_Dirty"] < 6_000
        assert sizes["Pss"] < 10_000

    run(tmp_path, scenario)
